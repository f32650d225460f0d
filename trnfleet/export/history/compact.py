"""Compaction: many small files of a day become one, ten minutes are made where they are missing, old days are deleted.

The new file names those that it stands for; the moment at which it gets its name is the one at which they no longer count. So a
compaction that is killed leaves the old files or the new one to be read, whichever of them are there.
"""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import write_failure
from trnfleet.export.history.catalogue import REPLACES_KEY, read_catalogue, rows_sql
from trnfleet.export.history.database import Database, HistoryError
from trnfleet.export.history.files import (
    EXPIRED,
    SEVERAL,
    TEMPORARY,
    Mark,
    cell_lock,
    compact_lock,
    delete_all,
    file_name,
    is_locked,
    locked,
    partitions,
)
from trnfleet.export.history.parquet import write_file
from trnfleet.export.history.rolling import incomplete_windows, roll_up, window_of
from trnfleet.export.history.tables import CHIPS, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from pathlib import Path

    from trnfleet.export.history.catalogue import Catalogue, LeftOut
    from trnfleet.export.history.files import HistoryFile, Partition
    from trnfleet.export.history.tables import Table

WINDOWS_AT_ONCE = 6
"""Windows of ten minutes that are made together: an hour of chips in memory."""
SPILL = ".spill"
TRIES = 3


class Compacted(NamedTuple):
    """What a compaction has done."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    windows: int
    """Ten minutes that were missing."""
    days_deleted: int
    left_out: tuple[LeftOut, ...]


def compact(
    folder: Path,
    *,
    today: date,
    holder: str,
    keep_days: int | None = None,
    memory_bytes: int,
    threads: int,
    report: Callable[[str], None],
) -> Compacted:
    """Compact a folder, beside a writer and readers.

    Args:
        folder: The folder of history.
        today: The present day, UTC.
        holder: Who this is, in one line.
        keep_days: Days that are kept; None for all.
        memory_bytes: Memory that DuckDB may take.
        threads: Threads that it may run.
        report: Receives a line a day and cell that has changed.

    Raises:
        ConfigError: the folder cannot be read, or DuckDB is not installed.
        TrnfleetError: it is full, or another compaction is at work.
    """
    with locked(compact_lock(folder), "compaction", holder):
        shutil.rmtree(folder / SPILL, ignore_errors=True)
        database = Database(
            folder, memory_bytes=memory_bytes, threads=threads, spill=folder / SPILL
        )
        try:
            deleted = (
                0 if keep_days is None else _delete_old(folder, today - timedelta(days=keep_days))
            )
            done = [
                _compact_partition(database, folder, each, report) for each in partitions(folder)
            ]
        finally:
            database.close()
            shutil.rmtree(folder / SPILL, ignore_errors=True)
    return Compacted(
        sum(each.files_before for each in done),
        sum(each.files_after for each in done),
        sum(each.bytes_before for each in done),
        sum(each.bytes_after for each in done),
        sum(each.windows for each in done),
        deleted,
        tuple(left_out for each in done for left_out in each.left_out),
    )


def _compact_partition(
    database: Database, folder: Path, partition: Partition, report: Callable[[str], None]
) -> Compacted:
    _delete_temporary(folder, partition)
    catalogue = _catalogue(database, folder, partition)
    before = [*catalogue.files, *catalogue.replaced]
    bytes_before = _bytes(before)
    # What a killed compaction left does not count, and goes first: the file that names it may be replaced below.
    delete_all(each.path for each in catalogue.replaced)
    windows = sorted(_windows(database, folder, catalogue, partition))
    for first in range(0, len(windows), WINDOWS_AT_ONCE):
        roll_up(database, folder, partition, catalogue, windows[first : first + WINDOWS_AT_ONCE])
    catalogue = _catalogue(database, folder, partition)
    merged = sum(
        _merge(database, folder, partition, table, catalogue.of(table, partition))
        for table in TABLES.values()
    )
    after = _catalogue(database, folder, partition)
    if merged or windows:
        report(
            f"{partition.fleet} {partition.day} {partition.cell}: {len(before):,} files became {len(after.files):,}"
            + (f", {len(windows):,} times ten minutes made" if windows else "")
        )
    return Compacted(
        len(before),
        len(after.files),
        bytes_before,
        _bytes(after.files),
        len(windows),
        0,
        after.left_out,
    )


def _catalogue(database: Database, folder: Path, partition: Partition) -> Catalogue:
    return read_catalogue(database, folder, [partition])


def _windows(
    database: Database, folder: Path, catalogue: Catalogue, partition: Partition
) -> set[int]:
    """Return the windows to make: not the last one while a writer is at work, who makes it when it is over."""
    found = incomplete_windows(database, catalogue, partition)
    if found and is_locked(cell_lock(folder, partition.fleet, partition.cell)):
        newest = max(each.last for each in catalogue.of(CHIPS, partition))
        found.discard(window_of(newest))
    return found


def _merge(
    database: Database, folder: Path, partition: Partition, table: Table, files: list[HistoryFile]
) -> bool:
    """Make one file of those of a table, and delete them; return whether there were several."""
    if len(files) < 2:
        return False
    writers = {each.writer for each in files}
    writer = writers.pop() if len(writers) == 1 else SEVERAL
    names = ", ".join(table.names)
    order = ", ".join([*(name for name in table.key if name != "time"), "time"])
    try:
        rows = rows_sql(database, table, files)
        write_file(
            database,
            folder,
            partition,
            file_name(
                table.name,
                min(each.first for each in files),
                max(each.last for each in files),
                writer,
                Mark.MERGED,
            ),
            f"SELECT {names} FROM ({rows}) ORDER BY {order}",
            {REPLACES_KEY: json.dumps([each.path.name for each in files])},
        )
    except HistoryError as error:
        if not error.is_gone:
            raise
        # Another machine's compaction was quicker.
        return False
    delete_all(each.path for each in files)
    return True


def _delete_temporary(folder: Path, partition: Partition) -> None:
    """Delete what compactions and writers left that were killed; a writer at work has files of its own there."""
    if not is_locked(cell_lock(folder, partition.fleet, partition.cell)):
        delete_all(partition.below(folder).glob(f".*{TEMPORARY}"))


def _delete_old(folder: Path, before: date) -> int:
    """Delete the days before one; return how many. A day vanishes as a whole, before its files go."""
    try:
        for left in folder.glob(f"fleet=*/{EXPIRED}*"):
            shutil.rmtree(left)
        days = {(each.fleet, each.day) for each in partitions(folder) if each.day < before}
        for fleet, day in sorted(days):
            path = folder / f"fleet={fleet}" / f"day={day.isoformat()}"
            expired = path.with_name(f"{EXPIRED}{path.name}")
            path.replace(expired)
            shutil.rmtree(expired)
    except OSError as error:
        raise write_failure(f"{folder}: old days cannot be deleted", error) from error
    return len(days)


def _bytes(files: list[HistoryFile] | tuple[HistoryFile, ...]) -> int:
    total = 0
    for each in files:
        try:
            total += each.path.stat().st_size
        except FileNotFoundError:
            continue
    return total
