"""Writes of history that wait for the disk."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest
from support.history import FIRST, chip_minute, write_minutes

from trnfleet.export.history.query import open_history
from trnfleet.export.history.writing import HistoryWriter
from trnfleet.services.history.collector import ClosedMinute
from trnfleet.services.history.write import PendingWrites

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    """Return the names of all files of a folder but locks."""
    return sorted(
        each.name
        for each in folder.rglob("*")
        if each.is_file() and not each.name.endswith(".lock")
    )


def closed(minute: int) -> ClosedMinute:
    """Return a minute as it comes from a monitor."""
    return ClosedMinute(minute, (chip_minute(minute),), [])


def test_a_full_disk_leaves_whole_files_and_what_waits_is_written_later(tmp_path: Path) -> None:
    """The error names the file, and the minutes are counted.

    Beyond the memory limit the oldest are dropped.
    """
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    size = closed(FIRST).parts[0].nbytes
    pending = PendingWrites(history, most_bytes=2 * size + size // 2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        pending.add(closed(FIRST))
        pending.flush()
        there = names(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
        for minute in (1, 2, 3):
            pending.add(closed(FIRST + minute))
            pending.flush()
        full = pending.problem, pending.waiting, pending.unwritten, names(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        pending.flush(at_end=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        history.close()

    file = "fleet=demo/day=2026-01-05/cell=main/chips-20260105T0002Z-20260105T0002Z-host-a.parquet"
    assert full[0] == f"{tmp_path / file}: cannot be written: File too large"
    assert full[1:] == (2, 1, there)
    assert (pending.problem, pending.waiting, pending.minutes) == ("", 0, 3)
    with open_history(tmp_path) as reader:
        minutes = reader.query(
            "SELECT DISTINCT epoch_us(time) // 60000000 - ? FROM chips ORDER BY 1", [FIRST]
        ).rows
        assert minutes == [(0,), (2,), (3,)]
        assert reader.query("SELECT minutes FROM fleets").rows == [(3,)]
        assert reader.left_out == ()


def test_a_minute_that_is_there_is_left_out_when_it_would_be_written(tmp_path: Path) -> None:
    """Its samples are counted.

    The loop only adds, and reads no file.
    """
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    pending = PendingWrites(history)
    try:
        pending.add(closed(FIRST))
        pending.flush()
        there = names(tmp_path)
        again = closed(FIRST)
        pending.add(again._replace(parts=(again.parts[0]._replace(samples=320),)))
        pending.flush()
        assert (pending.minutes, pending.late, pending.unwritten, pending.problem) == (
            1,
            320,
            0,
            "",
        )
        assert names(tmp_path) == there
    finally:
        history.close()


@pytest.mark.parametrize("byte", [0, 255])
def test_a_damaged_file_holds_up_neither_minutes_nor_their_ten(tmp_path: Path, byte: int) -> None:
    """A damaged file counts as missing.

    Its minute is written when it comes again, and all others are written.
    """
    write_minutes(tmp_path, [FIRST, FIRST + 1])
    damaged = next(tmp_path.rglob("chips-20260105T0001Z*"))
    content = bytearray(damaged.read_bytes())
    content[4 : len(content) // 2] = bytes([byte]) * (len(content) // 2 - 4)
    damaged.write_bytes(content)
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    pending = PendingWrites(history)
    try:
        with open_history(tmp_path) as reader:
            assert reader.query(
                "SELECT count(DISTINCT time), sum(power_w) > 0 FROM chips"
            ).rows == [(1, True)]
        for minute in (FIRST + 2, FIRST + 1):
            pending.add(closed(minute))
            pending.flush()
        pending.flush(at_end=True)
    finally:
        history.close()
    assert (pending.problem, pending.minutes, pending.unwritten) == ("", 2, 0)
    with open_history(tmp_path) as reader:
        assert reader.query("SELECT count(DISTINCT time) FROM chips").rows == [(3,)]
        assert reader.query("SELECT minutes FROM fleets").rows == [(3,)]
