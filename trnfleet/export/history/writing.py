"""Writing of history: one file per table and minute, and ten minutes made from them."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from trnfleet import logs
from trnfleet.domain.minutes import MINUTE_COLUMNS, MinuteRows
from trnfleet.export.history.catalogue import Catalogue, LeftOutFile, read_files, rows_sql
from trnfleet.export.history.database import Database, quoted
from trnfleet.export.history.files import FileMark, Partition, day_of, file_name, spill_folder
from trnfleet.export.history.rolling import incomplete_windows, roll_up, write_file
from trnfleet.export.history.tables import (
    ALERTS,
    CHIPS,
    EVENTS,
    MINUTE_US,
    PAID_TIME,
    HistoryTable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date
    from pathlib import Path

    from numpy.typing import NDArray


log = logs.get_logger(__name__)

ResultT = TypeVar("ResultT")
MOST_DAYS = 6
"""Days of tables with remembered minutes. A writer has two tables, and is at one day or, about
midnight, at two; other days are read from their files again."""


class HistoryWriter:
    """The files of one cell; its caller holds the cell's lock."""

    def __init__(self, folder: Path, fleet: str, cell: str, writer: str) -> None:
        """Open a database for writing.

        Args:
            folder: The folder of all history.
            fleet: The fleet's name.
            cell: The cell's name.
            writer: The name of this writer; it marks its rows.

        Raises:
            ConfigError: DuckDB is not installed.
        """
        self._folder = folder
        self._fleet = fleet
        self._cell = cell
        self._writer = writer
        self._spill = spill_folder(folder, fleet, cell)
        shutil.rmtree(self._spill, ignore_errors=True)
        self._database = Database(folder, spill=self._spill)
        self._lock = threading.Lock()
        self._written: OrderedDict[tuple[str, date], set[int]] = OrderedDict()
        """Existing minutes of the tables and days asked for last."""
        self._bad: list[LeftOutFile] = []
        """Damaged files, which do not count."""
        self._logged: set[Path] = set()
        """Invalid files already logged."""
        self.files = 0
        """Files written."""
        self.file_bytes = 0

    def close(self) -> None:
        """Close the database; a write running in another thread is aborted."""
        self._database.interrupt()
        with self._lock:
            self._database.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def is_written(self, minute: int, table: HistoryTable = CHIPS) -> bool:
        """Return whether a table's minute exists, also from a former run.

        One in a damaged file does not count.

        Raises:
            TrnfleetError: existing files cannot be read.
        """
        key = table.name, day_of(minute)
        known = self._written.get(key)
        if known is None:
            with self._lock:
                known = self._written[key] = self._minutes_there(table, self._partition(minute))
            while len(self._written) > MOST_DAYS:
                self._written.popitem(last=False)
        else:
            self._written.move_to_end(key)
        return minute in known

    def write_chips(self, parts: Sequence[MinuteRows]) -> None:
        """Write one minute of chips.

        Args:
            parts: Its chips, each once; several parts where the fleet has changed meanwhile.

        Raises:
            TrnfleetError: it cannot be written; nothing of it can be seen then.
        """
        minute = parts[0].minute
        order = "ORDER BY cluster, ultraserver, instance, chip" if len(parts) > 1 else ""
        with self._lock, self._registered(parts) as rows:
            self._write(CHIPS, minute, f"{rows} {order}")

    def write_backlog(self, part: MinuteRows) -> int:
        """Write further rows of a minute, of an outage, and return how many.

        A row that adds less than half of its time to its minute is left out: it is there already.

        Raises:
            TrnfleetError: they cannot be written.
        """
        partition = self._partition(part.minute)
        key = ", ".join(CHIPS.key)

        def write(files: Catalogue) -> int:
            there = [
                file
                for file in files.select(CHIPS, partition)
                if file.first <= part.minute <= file.last
            ]
            missing = (
                f"SELECT new.* FROM ({rows}) AS new LEFT JOIN (SELECT {key}, covered_s AS there_s"
                f" FROM ({rows_sql(self._database, CHIPS, there)})) USING ({key}) WHERE"
                " coalesce(there_s, 0) + covered_s / 2 <= 60"
            )
            count = int(self._database.run(f"SELECT count(*) FROM ({missing})").rows[0][0])
            if count:
                self._write(CHIPS, part.minute, missing, FileMark.BACKLOG)
            return count

        with self._lock, self._registered([part]) as rows:
            return self._read(partition, write)

    @contextlib.contextmanager
    def _registered(self, parts: Sequence[MinuteRows]) -> Iterator[str]:
        """Register a minute's rows in the database, and yield the SQL that selects them."""
        minute = parts[0].minute
        database = self._database
        names = []
        try:
            selects = []
            for number, part in enumerate(parts):
                tables: dict[str, dict[str, NDArray[Any]]] = {
                    f"rows_{number}": {
                        "instance": part.instance,
                        "chip": part.chip,
                        "covered_s": part.covered_s,
                        "job": part.job + 1,
                        **part.figures,
                    },
                    f"places_{number}": {
                        "instance": np.arange(len(part.instances), dtype=np.int32),
                        "path": np.array(part.instances, object),
                    },
                    f"jobs_{number}": {
                        "job": np.arange(len(part.jobs) + 1, dtype=np.int32),
                        "name": np.array(["", *part.jobs], object),
                    },
                }
                for name, columns in tables.items():
                    database.register(name, columns)
                    names.append(name)
                selects.append(_chips_sql(number, minute, self._writer))
            yield " UNION ALL ".join(selects)
        finally:
            for name in names:
                database.unregister(name)

    def write_rows(self, table: HistoryTable, minute: int, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows of a small table: jobs of a minute, events or alerts.

        Args:
            table: The table.
            minute: The fleet's minute.
            rows: Values of its columns without the writer; times are microseconds since 1970.

        Raises:
            TrnfleetError: they cannot be written.
        """
        columns = [(name, kind) for name, kind in table.columns if name != "writer"]
        with self._lock:
            arrays = {
                name: np.fromiter((row[number] for row in rows), object, len(rows))
                for number, (name, _) in enumerate(columns)
            }
            # What does not fit its column is not known: a row must not hold up all that comes after
            # it.
            casts = ", ".join(
                (
                    f"make_timestamp(TRY_CAST({name} AS BIGINT)) AS {name}"
                    if kind == "TIMESTAMP"
                    else f"TRY_CAST({name} AS {kind}) AS {name}"
                )
                for name, kind in columns
            )
            self._database.register("given_rows", arrays)
            try:
                self._write(
                    table,
                    minute,
                    f"SELECT {casts}, {quoted(self._writer)} AS writer FROM given_rows",
                )
            finally:
                self._database.unregister("given_rows")

    def roll_up(self, window: int) -> None:
        """Write the ten minutes of UltraServers, jobs and the fleet that begin with a minute.

        Raises:
            TrnfleetError: they cannot be written.
        """
        partition = self._partition(window)
        with self._lock:
            self._read(
                partition,
                lambda files: roll_up(
                    self._database, self._folder, partition, files, {window}, self._writer
                ),
            )

    def windows_to_roll_up(self, day_minute: int) -> set[int]:
        """Return the windows of a minute's day with more minutes than in their ten-minute rows.

        Raises:
            HistoryError: existing files cannot be read.
        """
        partition = self._partition(day_minute)
        with self._lock:
            return self._read(
                partition, lambda files: incomplete_windows(self._database, files, partition)
            )

    def _partition(self, minute: int) -> Partition:
        return Partition(self._fleet, day_of(minute), self._cell)

    def _minutes_there(self, table: HistoryTable, partition: Partition) -> set[int]:
        time = "booked" if table is PAID_TIME else "time"

        def read(files: Catalogue) -> set[int]:
            # Backlog may come before the live part of its minute.
            live = [file for file in files.select(table, partition) if not file.is_backlog]
            rows = rows_sql(self._database, table, live)
            result = self._database.run(
                f"SELECT DISTINCT epoch_us({time}) // {MINUTE_US} FROM ({rows})"
            )
            return {row[0] for row in result.rows}

        return self._read(partition, read)

    def _read(self, partition: Partition, read: Callable[[Catalogue], ResultT]) -> ResultT:
        """Return the result of reading a partition's files; invalid ones are logged once."""

        def read_logged(catalogue: Catalogue) -> ResultT:
            for bad_file in catalogue.left_out:
                if bad_file.path not in self._logged:
                    log.warning(
                        "history_file_left_out", file=str(bad_file.path), reason=bad_file.why
                    )
            self._logged = {bad_file.path for bad_file in catalogue.left_out}
            return read(catalogue)

        return read_files(
            self._database,
            self._folder,
            self._bad,
            read_logged,
            list_partitions=lambda: [partition],
        )

    def _write(
        self, table: HistoryTable, minute: int, sql: str, mark: FileMark = FileMark.NONE
    ) -> None:
        # Of chips and jobs a minute is written once; events come at any time.
        mark = FileMark.NEWS if table in {EVENTS, ALERTS} else mark
        name = file_name(table.name, minute, minute, self._writer, mark)
        partition = self._partition(minute)
        size = write_file(self._database, self._folder, partition, name, sql)
        # It may stand in the place of a damaged one.
        path = partition.below(self._folder) / name
        self._bad = [bad_file for bad_file in self._bad if bad_file.path != path]
        self.files += 1
        self.file_bytes += size
        # A day that is not remembered is read from its files, which have this minute now.
        known = self._written.get((table.name, partition.day))
        if known is not None and not mark:
            known.add(minute)


def _chips_sql(number: int, minute: int, writer: str) -> str:
    figures = ", ".join(
        (
            f"nullif({column.name}, 18446744073709551615) AS {column.name}"
            if column.is_whole
            else f"nullif({column.name}, 'NaN'::FLOAT) AS {column.name}"
        )
        for column in MINUTE_COLUMNS
    )
    return (
        f"SELECT make_timestamp({minute * MINUTE_US}) AS time, split_part(path, '/', 1) AS"
        " cluster, split_part(path, '/', 2) AS ultraserver, split_part(path, '/', 3) AS instance,"
        f" chip::USMALLINT AS chip, nullif(name, '') AS job, covered_s, {figures}, {quoted(writer)}"
        f" AS writer FROM rows_{number} JOIN places_{number} USING (instance) JOIN jobs_{number}"
        " USING (job)"
    )
