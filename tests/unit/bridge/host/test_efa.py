"""Counters of EFA adapters as metrics of the instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnfleet.bridge.host.efa import EfaCounters

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, adapter: str, **counters: object) -> None:
    folder = root / f"sys/class/infiniband/{adapter}/ports/1/hw_counters"
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in counters.items():
        (folder / name).write_text(f"{value}\n")


def test_adapters_are_summed_and_bytes_are_rates(tmp_path: Path) -> None:
    """A rate needs two readings; a sum that fell, as after a reload, has none."""
    efa = EfaCounters(tmp_path)
    assert (efa.read(1.0), efa.adapters()) == ({}, [])
    write(tmp_path, "rdmap0", tx_bytes=1_000, rx_bytes=0, retrans_pkts=3)
    write(tmp_path, "rdmap1", tx_bytes=500, unresponsive_remote_events=1)

    first = efa.read(10.0)
    assert first == {"efa_retransmits": 3, "efa_unresponsive_remote_events": 1}

    write(tmp_path, "rdmap0", tx_bytes=2_000)
    second = efa.read(15.0)
    assert (second["efa_tx_bytes_per_s"], second["efa_rx_bytes_per_s"]) == (200, 0)

    write(tmp_path, "rdmap0", tx_bytes=0)
    assert "efa_tx_bytes_per_s" not in efa.read(20.0)
    assert efa.adapters() == ["rdmap0", "rdmap1"]


def test_an_adapter_that_comes_back_makes_no_rate(tmp_path: Path) -> None:
    """All that it has ever counted was not of the last seconds."""
    write(tmp_path, "rdmap0", tx_bytes=0)
    efa = EfaCounters(tmp_path)
    efa.read(10.0)
    write(tmp_path, "rdmap1", tx_bytes=10**12)
    assert "efa_tx_bytes_per_s" not in efa.read(15.0)
    assert efa.read(20.0) == {"efa_tx_bytes_per_s": 0}

    # One begins again while the other goes on.
    write(tmp_path, "rdmap0", tx_bytes=10**12)
    write(tmp_path, "rdmap1", tx_bytes=5)
    assert efa.read(25.0) == {}


def test_what_is_no_count_is_named(tmp_path: Path) -> None:
    write(tmp_path, "rdmap0", tx_bytes="junk")
    with pytest.raises(OSError, match="tx_bytes: must be a count"):
        EfaCounters(tmp_path).read(1.0)
