"""Queries of history: SQL over the views, or a figure.

A figure is over time or by its top nodes.
"""

from __future__ import annotations

import math
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.address import Level, level_of, parse_chip, split
from trnfleet.domain.metrics import Aggregate
from trnfleet.domain.minutes import MINUTE_COLUMNS, Part
from trnfleet.domain.quantities import duration
from trnfleet.errors import ConfigError, nearest
from trnfleet.export.history.catalogue import Catalogue, LeftOutFile, make_views, read_files
from trnfleet.export.history.database import MEMORY_BYTES, THREADS, Database, HistoryError, Result
from trnfleet.export.history.doubled import DoubledChips, find_doubled
from trnfleet.export.history.files import HistoryFile, Partition, require_folder
from trnfleet.export.history.tables import TABLES, WINDOW_MINUTES, HistoryTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


MOST_ROWS = 1_000_000
READING = "SELECT"
"""Kind of statements that write nothing. EXPLAIN ANALYZE executes its statement, even a COPY."""
INTERRUPT_EVERY_S = 0.05
OF = {
    "chip": ("cluster", "ultraserver", "instance", "chip"),
    "instance": ("cluster", "ultraserver", "instance"),
    "ultraserver": ("cluster", "ultraserver"),
    "cluster": ("cluster",),
    "job": ("job",),
}
"""Nodes available for `--top`, with their columns."""

_MORE = ("fleet", "cell")
_NO_COLUMN = re.compile(
    r'(?:Referenced column|column named|does not have a column named) "([^"]+)"'
)
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")


class HistoryFigure(NamedTuple):
    """A figure requested without SQL."""

    name: str
    every_s: int
    at: str = ""
    """Address of a node; empty for the whole fleet."""
    fleet: str = ""
    """Name of the fleet; empty for all."""
    cell: str = ""
    """Name of the cell; empty for all."""
    from_us: int | None = None
    """Microseconds since 1970."""
    to_us: int | None = None
    top: int | None = None
    """Number of top nodes; None for the course over time."""
    nodes: str = "chip"
    """Kind of nodes listed by `top`, a key of `OF`."""


class HistoryReader:
    """The views over a folder; reads only."""

    def __init__(
        self, folder: Path, *, memory_bytes: int = MEMORY_BYTES, threads: int = THREADS
    ) -> None:
        """Open a folder.

        Raises:
            ConfigError: the folder is missing, or DuckDB is not installed.
        """
        require_folder(folder)
        self._folder = folder
        self._database = Database(folder, memory_bytes=memory_bytes, threads=threads)
        self._bad: list[LeftOutFile] = []
        self.left_out: tuple[LeftOutFile, ...] = ()
        """Files skipped by the last query, with the reason."""
        self._files: Sequence[HistoryFile] = ()
        """Files that it read."""

    def close(self) -> None:
        """Close it."""
        self._database.close()

    def interrupt(self) -> None:
        """Interrupt the query of another thread; it fails."""
        self._database.interrupt()

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] = (),
        *,
        most: int = MOST_ROWS,
        list_partitions: Callable[[], list[Partition]] | None = None,
        limit_s: float = math.inf,
    ) -> Result:
        """Return the rows of one reading statement.

        Args:
            sql: The statement.
            parameters: Values of its question marks.
            most: Rows at most.
            list_partitions: Returns the partitions to read; all by default.
            limit_s: Its time limit.

        Raises:
            ConfigError: it is no reading statement, or names an unknown table or column.
            HistoryError: DuckDB refuses it, or it exceeds the time limit.
        """
        kinds = self._database.kinds(sql)
        if len(kinds) != 1:
            raise ConfigError(f"{self._folder}: one statement at a time, and here are {len(kinds)}")
        if kinds[0] != READING:
            # What reaches beyond the folder is refused by DuckDB itself; within it, history is only
            # read.
            raise ConfigError(f"{self._folder}: history is only read: {kinds[0]} is refused")
        self._bad = [bad_file for bad_file in self._bad if bad_file.path.exists()]

        def read(catalogue: Catalogue) -> Result:
            self.left_out = catalogue.left_out
            self._files = catalogue.files
            make_views(self._database, catalogue)
            return self._database.run(sql, parameters, most=most)

        with self._limited(limit_s) as is_over:
            try:
                return read_files(
                    self._database,
                    self._folder,
                    self._bad,
                    read,
                    list_partitions=list_partitions,
                    is_ours=False,
                )
            except HistoryError as error:
                if is_over():
                    raise HistoryError(
                        f"{self._folder}: the query took longer than {duration(limit_s)}: ask for"
                        " less time, compact the folder, or raise --time-limit"
                    ) from None
                raise self._explained(error, sql) from None

    def doubled(self) -> list[DoubledChips]:
        """Return the chips common to cells of a fleet in the last query's files."""
        try:
            return list(find_doubled(self._database, self._files))
        except HistoryError:
            # A compaction has replaced some meanwhile; it looks itself.
            return []

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[Callable[[], bool]]:
        """Interrupt the block's statements once a time is over; yields whether it is."""
        over = threading.Event()
        done = threading.Event()
        if math.isinf(seconds):
            yield over.is_set
            return

        def wait() -> None:
            if done.wait(min(seconds, threading.TIMEOUT_MAX)):
                return
            over.set()
            # Between two statements, nothing can be interrupted.
            while not done.wait(INTERRUPT_EVERY_S):
                self._database.interrupt()

        thread = threading.Thread(target=wait, name="time-limit", daemon=True)
        thread.start()
        try:
            yield over.is_set
        finally:
            done.set()
            thread.join()

    def figure(self, figure: HistoryFigure, *, limit_s: float = math.inf) -> Result:
        """Return a figure's course over time, or its top nodes.

        Raises:
            ConfigError: the figure is unknown, or the address invalid.
            HistoryError: DuckDB refuses it.
        """
        sql, parameters = figure_sql(figure, self._folder)
        return self.query(sql, parameters, limit_s=limit_s)

    def _explained(self, error: HistoryError, sql: str) -> Exception:
        text = str(error)
        used = [table for table in TABLES.values() if re.search(rf"\b{table.name}\b", sql)]
        if match := _NO_TABLE.search(text):
            return ConfigError(
                f"{self._folder}: no table {match[1]!r}: {nearest(match[1], TABLES)}"
            )
        if match := _NO_COLUMN.search(text):
            names = ", ".join(table.name for table in used) or "it"
            columns = {name for table in used for name in columns_of(table)}
            return ConfigError(
                f"{self._folder}: no column {match[1]!r} in {names}: {nearest(match[1], columns)}"
            )
        return error


@contextmanager
def open_history(
    folder: Path, *, memory_bytes: int = MEMORY_BYTES, threads: int = THREADS
) -> Iterator[HistoryReader]:
    """Open a folder for reading until the end of the block."""
    reader = HistoryReader(folder, memory_bytes=memory_bytes, threads=threads)
    try:
        yield reader
    finally:
        reader.close()


def columns_of(table: HistoryTable) -> tuple[str, ...]:
    """Return the columns of a view."""
    return (*table.names, *_MORE, *(("address",) if table.address else ()))


def figure_sql(figure: HistoryFigure, folder: Path) -> tuple[str, list[Any]]:
    """Return the SQL of a figure, and its parameters.

    Raises:
        ConfigError: the figure is unknown, or the address invalid.
    """
    known = {column.name: column for column in MINUTE_COLUMNS if column.part is not Part.LAST}
    lasting = {column.name for column in MINUTE_COLUMNS if column.part is Part.LAST}
    if figure.name in lasting:
        raise ConfigError(f"{folder}: {figure.name} is a counter: take {figure.name}_increase")
    column = known.get(figure.name)
    if column is None:
        raise ConfigError(
            f"{folder}: no figure {figure.name!r} in chips: {nearest(figure.name, known)}"
        )
    where, parameters = _within(figure)
    name = figure.name
    if figure.top is not None:
        key = ", ".join(OF[figure.nodes])
        address = (
            "job"
            if figure.nodes == "job"
            else "any_value(address)"
            if figure.nodes == "chip"
            else f"concat_ws('/', {key})"
        )
        where_job = f"{where} AND job IS NOT NULL" if figure.nodes == "job" else where
        return (
            (
                f"SELECT {address} AS {'job' if figure.nodes == 'job' else 'address'},"
                f" {_joined(column.part, column.metric.aggregate)} AS {name}, count(DISTINCT time)"
                f" AS minutes FROM (SELECT time, {key}, any_value(address) AS address,"
                f" {_at_once(column.part, column.metric.aggregate, name)} FROM chips WHERE"
                f" {where_job} GROUP BY time, {key}) GROUP BY {key} HAVING {name} IS NOT NULL ORDER"
                f" BY {name} DESC, 1 LIMIT {int(figure.top)}"
            ),
            parameters,
        )
    # Ten minutes of UltraServers are a thousandth of the rows, and the same figures.
    window_s = WINDOW_MINUTES * 60
    is_coarse = level_of(figure.at) <= Level.ULTRASERVER and figure.every_s % window_s == 0
    table = "ultraservers" if is_coarse else "chips"
    return (
        (
            f"SELECT time_bucket(to_seconds({int(figure.every_s)}), time) AS time,"
            f" {_joined(column.part, column.metric.aggregate)} AS {name} FROM (SELECT time,"
            f" {_at_once(column.part, column.metric.aggregate, name, is_total=is_coarse)} FROM"
            f" {table} WHERE {where} GROUP BY time) GROUP BY 1 ORDER BY 1"
        ),
        parameters,
    )


def _within(figure: HistoryFigure) -> tuple[str, list[Any]]:
    """Return the condition for a figure's node and time, and its parameters."""
    conditions = ["true"]
    parameters = list[object]()
    try:
        segments = split(figure.at)
    except ValueError as error:
        raise ConfigError(f"--at {error}") from None
    if len(segments) > Level.CHIP:
        raise ConfigError(f"--at {figure.at}: history keeps chips, not their NeuronCores")
    for name, segment in zip(OF["chip"], segments, strict=False):
        value: object = segment
        if name == "chip":
            value = parse_chip(segment)
            if value is None:
                raise ConfigError(
                    f"--at {figure.at}: {segment!r} is not a chip: write it as chip05"
                )
        conditions.append(f"{name} = ?")
        parameters.append(value)
    for name, value in (("fleet", figure.fleet), ("cell", figure.cell)):
        if value:
            conditions.append(f"{name} = ?")
            parameters.append(value)
    for moment, sign in ((figure.from_us, ">="), (figure.to_us, "<")):
        if moment is not None:
            conditions.append(f"time {sign} make_timestamp(?::BIGINT)")
            parameters.append(moment)
    return " AND ".join(conditions), parameters


def _at_once(part: Part, aggregate: Aggregate, name: str, *, is_total: bool = False) -> str:
    """Return the SQL that aggregates the rows of one time.

    A sum where values add up, else a mean weighted by the time covered.
    """
    if part is Part.MAX:
        return f"max({name}) AS value, 1.0 AS weight"
    if part is Part.INCREASE:
        return f"sum({name}) AS value, 1.0 AS weight"
    if part is Part.BITS:
        return (
            f"{'bit_or' if aggregate is Aggregate.OR else 'bit_and'}({name}) AS value, 1.0 AS"
            " weight"
        )
    if aggregate is Aggregate.SUM and is_total:
        return f"sum({name}) AS value, any_value(minutes) AS weight"
    if aggregate is Aggregate.SUM:
        return (
            f"sum({name} * covered_s) / nullif(max(covered_s) FILTER ({name} IS NOT NULL), 0) AS"
            " value, 1.0 AS weight"
        )
    return (
        f"sum({name} * covered_s) / nullif(sum(covered_s) FILTER ({name} IS NOT NULL), 0) AS value,"
        f" sum(covered_s) FILTER ({name} IS NOT NULL) AS weight"
    )


def _joined(part: Part, aggregate: Aggregate) -> str:
    """Return the SQL that aggregates figures of several times."""
    if part is Part.MAX:
        return "max(value)"
    if part is Part.INCREASE:
        return "sum(value)"
    if part is Part.BITS:
        return f"{'bit_or' if aggregate is Aggregate.OR else 'bit_and'}(value)"
    return "sum(value * weight) / nullif(sum(weight) FILTER (value IS NOT NULL), 0)"
