"""The Neuron driver's tree as values of chips."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.neuron import feed, trn2
from support.sysfs import DEVICES, POWER, write_tree

from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.sysfs import MOST_BYTES, SysfsValues, read_tree
from trnfleet.bridge.neuron.telemetry import HostTelemetry
from trnfleet.domain.metrics import HEALTH_BITS
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def tree(root: Path, **given: Any) -> SysfsValues:
    return read_tree(
        write_tree(root, given={name.replace("__", "/"): given[name] for name in given})
    )


@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("below", [".", "sys", DEVICES])
def test_nodes_are_found_by_name(tmp_path: Path, below: Any, *, is_moved: bool) -> None:
    """In both layouts, from the root, from /sys and from the devices' folder."""
    write_tree(tmp_path, is_moved=is_moved, given={"neuron1/unhealthy_components": "hbm"})

    values = read_tree(tmp_path / below)

    assert values.missing == ()
    assert (
        values.devices[0].items()
        >= {
            "health": 0,
            "power_util_pct": 60,
            "mem_ecc_corrected": 0,
            "mem_ecc_uncorrected": 0,
            "sram_ecc_corrected": 0,
            "sram_ecc_uncorrected": 0,
            "exec_completed": 200,
            "exec_errors": 0,
            "hbm_used_bytes": 6 * 2**20,
        }.items()
    )
    assert values.devices[1]["health"] == 1
    assert values.driver == ("" if below == DEVICES else "2.30.2.0")


def test_the_tree_is_opened_for_reading_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write would clear a counter."""
    flags = []
    real = os.open

    def noted(path: Path, mode: int) -> int:
        flags.append(mode)
        return real(path, mode)

    monkeypatch.setattr(os, "open", noted)
    tree(tmp_path)

    assert flags
    assert not any(mode & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC) for mode in flags)


def test_missing_nodes_are_named_and_unknown(tmp_path: Path) -> None:
    values = tree(tmp_path, unhealthy_components=None, healthcheck_heartbeat=None, timeout=None)

    assert values.missing == ("unhealthy_components", "healthcheck_heartbeat", "timeout")
    assert "health" not in values.metrics
    assert "exec_errors" in values.metrics
    assert "not found: unhealthy_components, healthcheck_heartbeat, timeout" in values.text()


@pytest.mark.parametrize("heartbeat", ["0", "", "0xdeadbeef"])
def test_counters_are_unknown_if_the_firmware_does_not_answer(
    tmp_path: Path, heartbeat: str
) -> None:
    """The driver shows 0 for a counter that it failed to read."""
    values = tree(tmp_path, neuron1__healthcheck_heartbeat=heartbeat)

    assert values.silent == (1,)
    assert np.isnan(values.column("mem_ecc_uncorrected", 2)).tolist() == [False, True]
    assert "no heartbeat, so no counters: neuron1" in values.text()


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        (POWER, 60),
        ("POWER_STATUS_NO_DATA,0,0.00,0.00,0.00", None),
        ("POWER_STATUS_INVALID,0,0.00,0.00,0.00", None),
        ("POWER_STATUS_VALID,1,2", None),
        ("POWER_STATUS_VALID,1,nan,nan,nan", None),
    ],
)
def test_power_is_the_last_minutes_mean(tmp_path: Path, text: str, mean: float | None) -> None:
    """Without data it is unknown, never 0; no data is no fault."""
    values = tree(tmp_path, utilization=text)

    assert values.devices[0].get("power_util_pct") == mean
    assert bool(values.doubts.count) == (mean is None and "NO_DATA" not in text)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\x00junk", "must be a count"),
        (b"-1", "must be a count"),
        (b"18446744073709551615", "must be a count"),
        (b"3735928559", "must be a count"),
        (b"1" * (MOST_BYTES + 1), "is longer than 4,096 bytes"),
        (b"", "must be a count"),
    ],
)
def test_a_bad_file_is_named_and_the_rest_is_read(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    values = tree(tmp_path, neuron0__mem_ecc_corrected=content)

    assert values.doubts.count == 1
    assert f"hardware/mem_ecc_corrected: {reason}" in values.problem()
    assert "mem_ecc_corrected" not in values.devices[0]
    assert values.devices[0]["sram_ecc_corrected"] == 0


def test_a_pipe_and_a_folder_for_a_file_do_not_stop_the_reader(tmp_path: Path) -> None:
    tree(tmp_path)
    file = tmp_path / DEVICES / "neuron0/stats/hardware/sram_ecc_corrected"
    file.unlink()
    os.mkfifo(file)

    assert "sram_ecc_corrected: is no file" in read_tree(tmp_path).problem()


def test_health_is_the_named_components(tmp_path: Path) -> None:
    """An unknown one is named, and alone it is not health."""
    values = tree(
        tmp_path,
        neuron0__unhealthy_components="hbm,axi_fabric",
        neuron1__unhealthy_components="new",
    )

    bits = 1 | 1 << HEALTH_BITS.index("axi_fabric")
    assert values.column("health", 3).tolist() == pytest.approx([bits, np.nan, np.nan], nan_ok=True)
    assert "names an unknown component 'new'" in values.problem()


def test_failed_executions_are_told_by_kind(tmp_path: Path) -> None:
    """A cause counts the same execution again."""
    values = tree(tmp_path, neuron0__timeout=3, neuron0__hw_hbm_ue_error=3)

    assert values.devices[0]["exec_errors"] == 6
    assert "failed executions: timeout 6" in values.text()


def test_the_ultraserver_is_known_after_its_election(tmp_path: Path) -> None:
    """`default_path` uses it."""
    folder = tmp_path / "sys/class/neuron_device"
    folder.mkdir(parents=True)
    write_tree(tmp_path)
    assert read_tree(tmp_path).ultraserver == ""
    for name, text in (
        ("server_id_4", "00000000000000ab"),
        ("node_id_4", "2"),
        ("ultraserver_mode", "1,2,4"),
    ):
        (folder / name).write_text(f"{text}\n")

    values = read_tree(tmp_path)

    assert "UltraServer 00000000000000ab, host 2, mode 1,2,4" in values.text()
    reader = HostReader(sysfs=values)
    feed(reader, trn2())
    assert reader.ultraserver == "00000000000000ab"
    (folder / "server_id_4").write_text("0000000000000000\n")
    assert read_tree(tmp_path).ultraserver == ""


def test_a_folder_without_devices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no neuronN/"):
        read_tree(tmp_path)
    with pytest.raises(ConfigError, match="there is no such folder"):
        read_tree(tmp_path / "none")


def test_the_tree_fills_what_documents_do_not_know(tmp_path: Path) -> None:
    """A counter of a document stays one: it began at another time."""
    document = trn2()
    devices = document["system_data"]["neuron_hw_counters"]["neuron_devices"]
    devices[1].pop("mem_ecc_corrected")
    reader = HostReader(sysfs=tree(tmp_path, mem_ecc_corrected=900))

    first = feed(reader, document)
    assert first["mem_ecc_corrected"][0] != 900
    assert first["mem_ecc_corrected"][1] == 900
    assert first["power_util_pct"][:2].tolist() == [60, 60]
    assert np.isnan(first["power_util_pct"][2:]).all()
    assert "temperature_c" not in first
    assert reader.versions["driver"] == "2.30.2.0"

    devices[0].pop("mem_ecc_corrected")
    assert np.isnan(feed(reader, document)["mem_ecc_corrected"][0])


def test_power_says_that_it_is_of_a_minute(tmp_path: Path) -> None:
    """The columns of the driver's power have a period and a statistic of their own."""
    reader = HostReader(sysfs=tree(tmp_path))
    feed(reader, trn2())
    telemetry = HostTelemetry(reader, "demo", "uc1/standalone/a", boot="b", period_s=5.0)
    next(telemetry.envelopes(0))
    covers = {column.name: column.cover_text for column in telemetry.descriptor().columns}
    assert covers["power_util_pct"] == "mean of 60 s"
    assert covers["power_util_max_pct"] == "max of 60 s"
    assert not covers["nc_util_pct"]
