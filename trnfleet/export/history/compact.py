"""Compaction: merge a day's small files, add missing ten minutes, delete old days.

The new file names the files it replaces; from the moment it gets its name they no longer count. So
a killed compaction leaves the old files or the new one to be read, whichever files exist.
"""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.quantities import counted
from trnfleet.errors import TrnfleetError, write_failure
from trnfleet.export.history.catalogue import (
    REPLACES_KEY,
    Catalogue,
    LeftOutFile,
    read_catalogue,
    read_files,
    rows_sql,
)
from trnfleet.export.history.database import Database, HistoryError, quoted
from trnfleet.export.history.doubled import find_doubled
from trnfleet.export.history.files import (
    EXPIRED,
    SEVERAL,
    TEMPORARY,
    FileMark,
    HistoryFile,
    Partition,
    cell_lock,
    compact_lock,
    delete_all,
    file_name,
    is_locked,
    locked,
    partitions,
)
from trnfleet.export.history.rolling import incomplete_windows, roll_up, window_of, write_file
from trnfleet.export.history.tables import CHIPS, TABLES, HistoryTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


WINDOWS_AT_ONCE = 6
"""Windows of ten minutes made together: an hour of chips in memory."""
SPILL = ".spill"


class Compacted(NamedTuple):
    """Result of a compaction."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    windows: int
    """Ten minutes that were missing."""
    days_deleted: int
    left_out: tuple[LeftOutFile, ...]

    @property
    def has_changed(self) -> bool:
        """Whether any file was written."""
        return bool(self.windows) or self.files_before != self.files_after


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
        holder: This process, in one line.
        keep_days: Days to keep; None for all.
        memory_bytes: DuckDB's memory limit.
        threads: DuckDB's thread limit.
        report: Receives a line for each changed day and cell.

    Raises:
        ConfigError: the folder cannot be read, or DuckDB is not installed.
        TrnfleetError: it is full, or another compaction is running.
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
                compacted
                for _, group in groupby(partitions(folder), key=lambda partition: partition[:2])
                for compacted in _compact_day(database, folder, list(group), report)
            ]
        finally:
            database.close()
            shutil.rmtree(folder / SPILL, ignore_errors=True)
    return Compacted(
        sum(compacted.files_before for compacted in done),
        sum(compacted.files_after for compacted in done),
        sum(compacted.bytes_before for compacted in done),
        sum(compacted.bytes_after for compacted in done),
        sum(compacted.windows for compacted in done),
        deleted,
        tuple(left_out for compacted in done for left_out in compacted.left_out),
    )


def _compact_day(
    database: Database, folder: Path, cells: list[Partition], report: Callable[[str], None]
) -> list[Compacted]:
    """Compact the cells of a fleet's day.

    If one has changed, name the chips that cells have in common.
    """
    done = [_compact_partition(database, folder, partition, report) for partition in cells]
    if len(cells) > 1 and any(compacted.has_changed for compacted in done):
        doubled = read_files(
            database,
            folder,
            [bad for compacted in done for bad in compacted.left_out],
            lambda catalogue: list(find_doubled(database, catalogue.files)),
            list_partitions=lambda: cells,
        )
        for chips in doubled:
            report(f"{folder}: {chips}")
    return done


def _compact_partition(
    database: Database, folder: Path, partition: Partition, report: Callable[[str], None]
) -> Compacted:
    _delete_temporary(folder, partition)
    bad: list[LeftOutFile] = []
    firsts: list[Compacted] = []

    def work(catalogue: Catalogue) -> Compacted:
        before = [*catalogue.files, *catalogue.replaced]
        if not firsts:
            firsts.append(Compacted(len(before), 0, _bytes(before), 0, 0, 0, ()))
        return _compact_files(database, folder, partition, catalogue, bad, firsts[0], report)

    return read_files(database, folder, bad, work, list_partitions=lambda: [partition])


def _compact_files(
    database: Database,
    folder: Path,
    partition: Partition,
    catalogue: Catalogue,
    bad: list[LeftOutFile],
    before: Compacted,
    report: Callable[[str], None],
) -> Compacted:
    # What a killed compaction left does not count, and goes first: the file that names it may be
    # replaced below.
    delete_all(file.path for file in catalogue.replaced)
    windows = sorted(_windows(database, folder, catalogue, partition))
    for first in range(0, len(windows), WINDOWS_AT_ONCE):
        roll_up(database, folder, partition, catalogue, windows[first : first + WINDOWS_AT_ONCE])
    catalogue = read_catalogue(database, folder, [partition], bad)
    merged = sum(
        _merge(database, folder, partition, table, catalogue.select(table, partition))
        for table in TABLES.values()
    )
    after = read_catalogue(database, folder, [partition], bad)
    where = f"{partition.fleet} {partition.day} {partition.cell}"
    if merged or windows:
        report(
            f"{where}: {before.files_before:,} files became {len(after.files):,}"
            + (f", {len(windows):,} times ten minutes made" if windows else "")
        )
    newer = sum(file.has_more for file in after.files)
    if newer:
        report(
            f"{where}: {counted(newer, 'file')} kept as written: a newer trnfleet's columns are in"
            " them"
        )
    return before._replace(
        files_after=len(after.files),
        bytes_after=_bytes(after.files),
        windows=len(windows),
        left_out=after.left_out,
    )


def _windows(
    database: Database, folder: Path, catalogue: Catalogue, partition: Partition
) -> set[int]:
    """Return the windows to make.

    Not the last one while a writer is active: it makes that window itself.
    """
    windows = incomplete_windows(database, catalogue, partition)
    if windows and is_locked(cell_lock(folder, partition.fleet, partition.cell)):
        newest = max(file.last for file in catalogue.select(CHIPS, partition))
        windows.discard(window_of(newest))
    return windows


def _merge(
    database: Database,
    folder: Path,
    partition: Partition,
    table: HistoryTable,
    files: list[HistoryFile],
) -> bool:
    """Merge a table's files into one and delete them; return whether there were several."""
    # A file with columns that this version does not know would lose them.
    files = [file for file in files if not file.has_more]
    if len(files) < 2:
        return False
    writers = {file.writer for file in files}
    writer = writers.pop() if len(writers) == 1 else SEVERAL
    columns = ", ".join(f"{name}::{kind} AS {name}" for name, kind in table.columns)
    order = ", ".join([*(name for name in table.key if name != "time"), "time"])
    try:
        rows = f"SELECT {columns} FROM ({rows_sql(database, table, files, is_exact=True)})"
        sums = _sums(database, rows)
        write_file(
            database,
            folder,
            partition,
            file_name(
                table.name,
                min(file.first for file in files),
                max(file.last for file in files),
                writer,
                FileMark.MERGED,
            ),
            f"SELECT * FROM ({rows}) ORDER BY {order}",
            {REPLACES_KEY: json.dumps([file.path.name for file in files])},
            lambda path: _verify(database, table, path, sums),
        )
    except HistoryError as error:
        if not error.is_gone:
            raise
        # Another machine's compaction was quicker.
        return False
    delete_all(file.path for file in files)
    return True


def _sums(database: Database, rows: str) -> list[tuple[Any, ...]]:
    """Return a query's number of rows and an order-independent sum over all values."""
    return database.run(f"SELECT count(*), bit_xor(hash(rows)) FROM ({rows}) AS rows").rows


def _verify(
    database: Database, table: HistoryTable, path: Path, sums: list[tuple[Any, ...]]
) -> None:
    """Read a written file and compare it with its sources.

    Raises:
        TrnfleetError: its columns, types, rows or values are others.
    """
    rows = (
        f"SELECT * FROM read_parquet([{quoted(str(path.absolute()))}], hive_partitioning = false)"
    )
    columns = tuple((name, kind) for name, kind, *_ in database.run(f"DESCRIBE {rows}").rows)
    if columns != table.columns or _sums(database, rows) != sums:
        raise TrnfleetError(
            f"{path.parent}: the merged file of {table.name} does not read back as it was written;"
            " the files that it was made of are kept: check disk and memory of this machine"
        )


def _delete_temporary(folder: Path, partition: Partition) -> None:
    """Delete files left by killed compactions and writers.

    An active writer has files of its own there.
    """
    if not is_locked(cell_lock(folder, partition.fleet, partition.cell)):
        delete_all(partition.below(folder).glob(f".*{TEMPORARY}"))


def _delete_old(folder: Path, before: date) -> int:
    """Delete the days before one; return how many.

    A day vanishes as a whole, before its files go.
    """
    try:
        for left in folder.glob(f"fleet=*/{EXPIRED}*"):
            shutil.rmtree(left)
        days = {
            (partition.fleet, partition.day)
            for partition in partitions(folder)
            if partition.day < before
        }
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
    for file in files:
        try:
            total += file.path.stat().st_size
        except FileNotFoundError:
            continue
    return total
