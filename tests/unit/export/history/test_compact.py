"""Compaction of history: one file of many, and old or new at any moment."""

from __future__ import annotations

import resource
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.history import CHIPS, FIRST, write_minutes

from trnfleet.errors import TrnfleetError
from trnfleet.export.history import catalogue
from trnfleet.export.history import compact as module
from trnfleet.export.history.compact import Compacted, compact
from trnfleet.export.history.database import Database
from trnfleet.export.history.files import (
    EXPIRED,
    Partition,
    cell_lock,
    compact_lock,
    day_of,
    locked,
    why_torn,
)
from trnfleet.export.history.query import open_history

if TYPE_CHECKING:
    from pathlib import Path

TODAY = day_of(FIRST)
PARTITION = Partition("demo", TODAY, "main")
SUMS = "SELECT count(*), count(DISTINCT time), sum(power_w), sum(covered_s) FROM chips"


def compacted(folder: Path, keep_days: int | None = None) -> Compacted:
    """Compact a folder."""
    lines: list[str] = []
    return compact(
        folder,
        today=TODAY,
        holder="test",
        keep_days=keep_days,
        memory_bytes=2**28,
        threads=1,
        report=lines.append,
    )


def asked(folder: Path, sql: str = SUMS) -> list[tuple[object, ...]]:
    """Return the rows of a query."""
    with open_history(folder) as reader:
        return reader.query(sql).rows


def files(folder: Path) -> list[str]:
    """Return the tables of the existing files."""
    return sorted(each.name.partition("-")[0] for each in PARTITION.below(folder).glob("*.parquet"))


def test_many_files_become_one_a_table_and_say_the_same(tmp_path: Path) -> None:
    """Missing ten minutes are made, and another compaction changes nothing."""
    write_minutes(tmp_path, range(FIRST, FIRST + 13))
    before = asked(tmp_path)
    done = compacted(tmp_path)

    assert (done.files_before, done.files_after, done.windows) == (13, 4, 2)
    assert done.bytes_after < done.bytes_before
    assert files(tmp_path) == ["chips", "fleets", "jobs", "ultraservers"]
    assert asked(tmp_path) == before
    assert asked(tmp_path, "SELECT minutes, chips FROM fleets ORDER BY time") == [
        (10, CHIPS),
        (3, CHIPS),
    ]
    again = compacted(tmp_path)
    assert (again.files_before, again.files_after, again.windows) == (4, 4, 0)


def test_rows_are_sorted_by_address_and_time(tmp_path: Path) -> None:
    """A chip's past is read in one go."""
    write_minutes(tmp_path, range(FIRST, FIRST + 3))
    compacted(tmp_path)
    rows = asked(tmp_path, "SELECT address, time FROM chips")

    assert rows == sorted(rows)


def test_minutes_that_come_later_are_merged_and_their_ten_minutes_made_again(
    tmp_path: Path,
) -> None:
    """A window with later minutes has one row."""
    write_minutes(tmp_path, range(FIRST, FIRST + 4))
    compacted(tmp_path)
    write_minutes(tmp_path, range(FIRST + 4, FIRST + 10))
    compacted(tmp_path)

    assert asked(tmp_path, "SELECT minutes FROM fleets") == [(10,)]
    assert asked(tmp_path, "SELECT count(*) FROM ultraservers") == [(2,)]
    assert asked(tmp_path)[0][:2] == (10 * CHIPS, 10)


def test_while_a_writer_is_at_work_its_last_ten_minutes_are_left_to_it(tmp_path: Path) -> None:
    """They are not over."""
    write_minutes(tmp_path, range(FIRST, FIRST + 12))
    with locked(cell_lock(tmp_path, "demo", "main"), "the cell", "writer"):
        compacted(tmp_path)
    assert asked(tmp_path, "SELECT minutes FROM fleets") == [(10,)]


@pytest.mark.parametrize("after", ["write", "first delete"])
def test_a_compaction_that_ends_half_way_leaves_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Replaced files do not count, though present; the next compaction deletes them."""
    write_minutes(tmp_path, range(FIRST, FIRST + 5))
    before = asked(tmp_path)

    def interrupt(paths: object) -> int:
        given = list(paths)  # type: ignore[call-overload]  # of files
        if given and after == "first delete":
            given[0].unlink()
        if given:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(module, "delete_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compacted(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path).count("chips") == (6 if after == "write" else 5)
    assert asked(tmp_path) == before
    compacted(tmp_path)
    assert files(tmp_path).count("chips") == 1
    assert asked(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [
        "SELECT * FROM ({}) LIMIT 100",
        "SELECT * REPLACE (power_w + 1 AS power_w) FROM ({})",
        "SELECT * REPLACE (power_w::VARCHAR AS power_w) FROM ({})",
    ],
)
def test_a_file_that_does_not_read_back_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Rows, values and types are compared before a file that was merged gets its name."""
    write_minutes(tmp_path, [FIRST, FIRST + 1], windows=[FIRST])
    before, named = (
        asked(tmp_path),
        sorted(each.name for each in PARTITION.below(tmp_path).iterdir()),
    )
    copy = Database.copy

    def change_copy(database: Database, sql: str, path: Path, metadata: dict[str, str]) -> None:
        copy(database, change.format(sql), path, metadata)

    monkeypatch.setattr(Database, "copy", change_copy)
    with pytest.raises(TrnfleetError, match="chips does not read back as it was written"):
        compacted(tmp_path)
    assert sorted(each.name for each in PARTITION.below(tmp_path).iterdir()) == named
    assert asked(tmp_path) == before


def test_a_full_disk_is_one_line_with_the_file(tmp_path: Path) -> None:
    """No file is lost and none is added."""
    write_minutes(tmp_path, [FIRST, FIRST + 1])
    before = sorted(PARTITION.below(tmp_path).iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
        with pytest.raises(TrnfleetError) as raised:
            compacted(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file = PARTITION.below(tmp_path) / "ultraservers-20260105T0000Z-20260105T0009Z-host-a.parquet"
    assert str(raised.value) == f"{file}: cannot be written: File too large"
    assert sorted(PARTITION.below(tmp_path).iterdir()) == before


def test_a_damaged_file_keeps_no_compaction_from_the_others(tmp_path: Path) -> None:
    """A damaged file is named and stays; sound ones are merged."""
    write_minutes(tmp_path, range(FIRST, FIRST + 4))
    damaged = min(PARTITION.below(tmp_path).iterdir())
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:4] + b"\xff" * 300 + whole[304:])
    done = compacted(tmp_path)
    assert [each.path for each in done.left_out] == [damaged]
    assert files(tmp_path).count("chips") == 2
    assert asked(tmp_path)[0][:2] == (3 * CHIPS, 3)


def test_rows_of_two_writers_become_one_that_covers_most(tmp_path: Path) -> None:
    """A later file is compared with it again."""
    write_minutes(tmp_path, [FIRST], writer="host-a", covered_s=20.0)
    write_minutes(tmp_path / "other", [FIRST], writer="host-b", covered_s=60.0)
    for file in PARTITION.below(tmp_path / "other").iterdir():
        file.rename(PARTITION.below(tmp_path) / file.name)
    compacted(tmp_path)

    assert asked(tmp_path, "SELECT DISTINCT writer, covered_s FROM chips") == [("host-b", 60.0)]
    assert asked(tmp_path)[0][0] == CHIPS


def test_old_days_go_and_one_that_was_going_is_gone(tmp_path: Path) -> None:
    """A day is hidden before its files go."""
    for days in (0, 3, 9):
        write_minutes(tmp_path, [FIRST - days * 1_440])
    left = tmp_path / "fleet=demo" / f"{EXPIRED}day=2025-01-01"
    left.mkdir()
    done = compacted(tmp_path, keep_days=5)

    assert done.days_deleted == 1
    assert sorted(each.name for each in (tmp_path / "fleet=demo").iterdir()) == [
        f"day={(TODAY - timedelta(days=3)).isoformat()}",
        f"day={TODAY.isoformat()}",
    ]


def test_two_compactions_do_not_work_at_once(tmp_path: Path) -> None:
    """The second one says who is at work."""
    with (
        locked(compact_lock(tmp_path), "compaction", "host-a, process 7"),
        pytest.raises(TrnfleetError, match="in use by host-a, process 7"),
    ):
        compacted(tmp_path)


@pytest.mark.parametrize("seen", [0, 3])
def test_a_query_that_a_compaction_overtakes_lists_the_files_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    """No row is missing because its file was merged before or during the query."""
    write_minutes(tmp_path, range(FIRST, FIRST + 3))
    before = asked(tmp_path)
    looked: list[Path] = []

    def overtake(path: Path) -> str:
        if not seen and not looked:
            compacted_meanwhile()
        looked.append(path)
        found = why_torn(path)
        if len(looked) == seen:
            compacted_meanwhile()
        return found

    def compacted_meanwhile() -> None:
        monkeypatch.setattr(catalogue, "why_torn", why_torn)
        compacted(tmp_path)

    monkeypatch.setattr(catalogue, "why_torn", overtake)
    with open_history(tmp_path) as reader:
        assert reader.query(SUMS).rows == before
        assert reader.left_out == ()
    assert files(tmp_path).count("chips") == 1
