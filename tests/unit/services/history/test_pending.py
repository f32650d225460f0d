"""Writes of history that wait for the disk."""

from __future__ import annotations

import itertools
import resource
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.history import FIRST, chip_minute, write_minutes
from support.monitor.feed import live_feed
from unit.monitor.test_goodput import seconds, train

from trnfleet.domain.goodput import COLUMNS, PaidRow, TimeCause
from trnfleet.export.history.query import open_history
from trnfleet.export.history.writing import HistoryWriter
from trnfleet.services.history.collector import ClosedMinute
from trnfleet.services.history.write import PendingWrites
from trnfleet.services.usage import CauseReport, HistoryPeriod, read_usage

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


def test_paid_time_of_a_minute_is_written_once(tmp_path: Path) -> None:
    """It does not need chips, and another writer goes on after it."""
    row = PaidRow(FIRST, FIRST, "train", 60.0, np.ones((2, COLUMNS)), 2.0, None, has_steps=False)
    for lasts_s in (60.0, 20.0):
        history = HistoryWriter(tmp_path, "demo", "main", "host-a")
        pending = PendingWrites(history)
        try:
            for minute in (FIRST, FIRST + round(60.0 - lasts_s)):
                pending.add_paid(minute, [row._replace(booked=minute, lasts_s=lasts_s)])
            pending.flush(at_end=True)
            assert not pending.problem
        finally:
            history.close()
    with open_history(tmp_path) as reader:
        rows = reader.query(
            "SELECT epoch_us(booked) // 60000000 - ?, lasts_s, checkpoints FROM paid_time", [FIRST]
        ).rows
    assert sorted(rows) == [(0, 60.0, None), (40, 20.0, None)]


async def test_steps_lost_later_are_taken_from_the_minutes_that_made_them(tmp_path: Path) -> None:
    """History has the sums of the monitor, as a whole and by minute."""
    feed = live_feed()
    goodput = feed.monitor.goodput
    goodput.ledger = []
    for minute in range(3):
        train(feed, 100.0 + 20 * minute)
        await seconds(feed, 60)
    train(feed, 105.0, 35.0, state="failed")
    await seconds(feed, 1)
    goodput.book()
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    pending = PendingWrites(history)
    for booked, rows in itertools.groupby(goodput.ledger, key=lambda row: row.booked):
        pending.add_paid(booked, list(rows))
    pending.flush(at_end=True)
    history.close()
    made = goodput.report()
    with open_history(tmp_path) as reader:
        for every_s, lost in ((None, [280.0]), (60.0, [0.0, 120.0, 160.0, 0.0])):
            total = CauseReport(every_s=0.0, lasts_s=0.0)
            period = HistoryPeriod(None, None, None, every_s)
            usages = list(read_usage(reader, period, total))
            times = [usage.report.fleet.seconds for usage in usages]
            assert [time[TimeCause.LOST_WORK] for time in times] == pytest.approx(lost)
            assert np.sum(times) == pytest.approx(made.fleet.seconds.sum())
            if every_s is None:
                np.testing.assert_allclose(times[0], made.fleet.seconds)
            assert sum(usage.report.lasts_s for usage in usages) == made.lasts_s


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
