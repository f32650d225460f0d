"""Kernel messages as events, from the journal or from the kernel's ring."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from trnfleet.bridge.host.kernel_log import (
    JOURNAL_OPTIONS,
    Journal,
    KernelRing,
    journal_command,
    kernel_event,
    kernel_events,
)

if TYPE_CHECKING:
    from pathlib import Path

HARDWARE = (
    "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=i-0592464924bd45322"
    " hostname=ip-172-31-61-252 nd-id=11 nc-id=0 serial-num=19fcda00f5ff6eb9"
    " action=TERMINATE_INSTANCE"
)


@pytest.mark.parametrize(
    ("line", "name", "chip", "nrt"),
    [
        (HARDWARE, "sram_uncorrectable", 11, 1202),
        ("NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=2", "hbm_uncorrectable", 2, 1201),
        ("NEURON_HW_ERR=DMA_ERROR", "dma_abort", None, 1203),
        ("NEURON_HW_ERR=SOMETHING_NEW nd-id=x", "neuron_hw_err", None, None),
        ("neuron:nr_wait: nd07: reset request 3 failed", "device_reset_failed", 7, None),
        (
            "neuron:nr_wait: nd7: reset request 3 was initiated, but failed to complete",
            "device_reset_failed",
            7,
            None,
        ),
        ("neuron:nr_start: nd7: reset request 3 completed", "device_reset", 7, None),
        (
            "neuron:mc_alloc: device mempool [0:0] total 9 occupied 8 needed 2 available 1",
            "hbm_full",
            None,
            None,
        ),
        ("neuron:fw_io_execute: seq: 4, cmd: 2 timed out", "firmware_timeout", None, None),
        (
            "neuron:npe: nd00: ultraserver election complete.  node id: 2 node cnt: 4",
            "ultraserver_election",
            0,
            None,
        ),
        (
            "neuron:npe: nd00: left ultraserver link is miss-wired to nd05 (00000000000000aa)",
            "ultraserver_miswired",
            0,
            None,
        ),
        (
            "neuron:npe: Only 3 out of 15 secondary devices reported good links",
            "ultraserver_links",
            None,
            None,
        ),
    ],
)
def test_lines_are_events(line: str, name: str, chip: int | None, nrt: int | None) -> None:
    event = kernel_event(line)

    assert event is not None
    assert (event.name, event.chip, event.nrt) == (name, chip, nrt)


def test_names_of_the_host_stay_there() -> None:
    """Of NEURON_HW_ERR only known fields are told."""
    event = kernel_event(HARDWARE)

    assert event is not None
    assert event.text == (
        "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR nd-id=11 nc-id=0 serial-num=19fcda00f5ff6eb9"
        " action=TERMINATE_INSTANCE"
    )


@pytest.mark.parametrize(
    "line",
    [
        "neuron:npid_detach: neuron:npid_detach: pid 4711 not found",
        "infiniband rdmap0s6: efa_com_dereg_mr failed DEREG_MR",
        "eth0: link is up",
        "",
    ],
)
def test_benign_lines_are_left_out(line: str) -> None:
    assert kernel_event(line) is None


def test_equal_events_of_a_device_are_one() -> None:
    events = kernel_events(["NEURON_HW_ERR=DMA_ERROR nd-id=1"] * 3)

    assert [event.text for event in events] == ["NEURON_HW_ERR=DMA_ERROR nd-id=1 (3 times)"]


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b'{"MESSAGE":[1,2]}', b"3"])
def test_lines_of_the_journal_without_a_text_are_left_out(line: bytes) -> None:
    text = json.dumps({"MESSAGE": "text"}).encode()
    assert list(Journal([], 0).texts(io.BytesIO(line + b"\n" + text)))[-1] == "text"
    assert "".join(Journal([], 0).texts(io.BytesIO(line))) == ""


def test_a_journal_goes_on_behind_its_last_message() -> None:
    """So that no message is lost or read twice when journalctl is started again."""
    journal = Journal(["journalctl"], 1_767_571_200)
    assert journal.command() == ["journalctl", "--since", "@1767571200"]
    lines = io.BytesIO(
        b'{"MESSAGE":"a","__CURSOR":"s=1;i=1"}\n{"MESSAGE":"b","__CURSOR":"s=1;i=2"}\n'
    )
    assert list(journal.texts(lines)) == ["a", "b"]
    assert journal.command() == ["journalctl", "--after-cursor", "s=1;i=2"]


def test_the_journal_is_used_where_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "journalctl"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert journal_command(tmp_path) == []

    folder = tmp_path / "var/log/journal"
    (folder / "id").mkdir(parents=True)
    (folder / "id/system.journal").touch()

    assert journal_command(tmp_path) == [str(program), "-D", str(folder), *JOURNAL_OPTIONS]


def test_the_ring_is_read_from_its_end_and_gaps_are_counted(tmp_path: Path) -> None:
    """Records of before are left out, and so are their properties."""
    file = tmp_path / "dev/kmsg"
    file.parent.mkdir()
    file.write_text("6,1,10,-;old\n")
    ring = KernelRing(tmp_path)
    with file.open("a") as log:
        log.write("6,2,11,-;first; with more\n SUBSYSTEM=pci\njunk\n4,5,12,-;second\n")

    assert ring.read() == ["first; with more", "second"]
    assert ring.lost == 2
    assert ring.read() == []
    ring.close()
