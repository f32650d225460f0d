"""Queries of history: SQL over the views, or a figure over time or by what has most of it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import Level, level_of, parse_chip, split
from trnfleet.domain.metrics import Aggregate
from trnfleet.domain.minutes import MINUTE_COLUMNS, Part
from trnfleet.errors import ConfigError, nearest
from trnfleet.export.history.catalogue import (
    LeftOut,
    leave_out,
    leave_out_unnamed,
    make_views,
    read_catalogue,
)
from trnfleet.export.history.database import MEMORY_BYTES, THREADS, Database, HistoryError
from trnfleet.export.history.files import require_folder
from trnfleet.export.history.tables import TABLES, WINDOW_MINUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from trnfleet.export.history.catalogue import Catalogue
    from trnfleet.export.history.database import Result
    from trnfleet.export.history.files import Partition
    from trnfleet.export.history.tables import Table

MOST_ROWS = 1_000_000
READING = "SELECT"
"""The kind of statements that write nothing; EXPLAIN ANALYZE carries out what it explains, be it a COPY."""
TRIES = 10
"""Times that files are listed again, because a compaction replaced some meanwhile or one is damaged."""
OF = {
    "chip": ("cluster", "ultraserver", "instance", "chip"),
    "instance": ("cluster", "ultraserver", "instance"),
    "ultraserver": ("cluster", "ultraserver"),
    "cluster": ("cluster",),
    "job": ("job",),
}
"""Nodes that `--top` can list, with their columns."""

_DAMAGE = "TProtocolException"
"""What DuckDB says of a damaged page, without the name of its file."""
_MORE = ("fleet", "cell")
_NO_COLUMN = re.compile(
    r'(?:Referenced column|column named|does not have a column named) "([^"]+)"'
)
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")


class Figure(NamedTuple):
    """A figure that is asked for without SQL."""

    name: str
    at: str = ""
    """Address of a node; empty for the whole fleet."""
    fleet: str = ""
    """Name of the fleet; empty for all."""
    from_us: int | None = None
    """Microseconds since 1970."""
    to_us: int | None = None
    every_s: int = 600
    top: int | None = None
    """Number of nodes that have most of it; None for its course over time."""
    of: str = "chip"
    """What is listed then, of `OF`."""


class HistoryReader:
    """The views over a folder; reads only."""

    def __init__(
        self, folder: Path, *, memory_bytes: int = MEMORY_BYTES, threads: int = THREADS
    ) -> None:
        """Open a folder.

        Raises:
            ConfigError: there is none, or DuckDB is not installed.
        """
        require_folder(folder)
        self._folder = folder
        self._database = Database(folder, memory_bytes=memory_bytes, threads=threads)
        self._bad: list[LeftOut] = []
        self.left_out: tuple[LeftOut, ...] = ()
        """Files that the last query did not read, with the reason."""

    def close(self) -> None:
        """Close it."""
        self._database.close()

    def interrupt(self) -> None:
        """End the query of another thread, which fails then."""
        self._database.interrupt()

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] = (),
        *,
        most: int = MOST_ROWS,
        found: Callable[[], list[Partition]] | None = None,
    ) -> Result:
        """Return the rows of one statement that reads.

        Args:
            sql: The statement.
            parameters: Values of its question marks.
            most: Rows at most.
            found: Returns the partitions to look at; all by default.

        Raises:
            ConfigError: it is none, or names a table or column that there is not.
            HistoryError: DuckDB refuses it.
        """
        kinds = self._database.kinds(sql)
        if len(kinds) != 1:
            raise ConfigError(f"{self._folder}: one statement at a time, and here are {len(kinds)}")
        if kinds[0] != READING:
            # What reaches beyond the folder is refused by DuckDB itself; within it, history is only read.
            raise ConfigError(f"{self._folder}: history is only read: {kinds[0]} is refused")
        self._bad = [each for each in self._bad if each.path.exists()]
        catalogue: Catalogue | None = None
        for left in reversed(range(TRIES)):
            try:
                catalogue = read_catalogue(
                    self._database, self._folder, None if found is None else found(), bad=self._bad
                )
                self.left_out = catalogue.left_out
                make_views(self._database, catalogue)
                return self._database.run(sql, parameters, most=most)
            except HistoryError as error:
                if left and (error.is_gone or self._leave_out(error, catalogue)):
                    continue
                raise self._explained(error, sql) from None
        raise HistoryError(f"{self._folder}: its files change faster than they can be read")

    def figure(self, figure: Figure) -> Result:
        """Return a figure's course over time, or the nodes that have most of it.

        Raises:
            ConfigError: there is no such figure, or the address is none.
            HistoryError: DuckDB refuses it.
        """
        sql, parameters = figure_sql(figure, self._folder)
        return self.query(sql, parameters)

    def _leave_out(self, error: HistoryError, catalogue: Catalogue | None) -> bool:
        if catalogue is not None and not error.file and _DAMAGE in str(error):
            return leave_out_unnamed(self._database, catalogue.files, self._bad)
        return leave_out(error, self._folder, self._bad)

    def _explained(self, error: HistoryError, sql: str) -> Exception:
        text = str(error)
        used = [each for each in TABLES.values() if re.search(rf"\b{each.name}\b", sql)]
        if found := _NO_TABLE.search(text):
            return ConfigError(
                f"{self._folder}: no table {found[1]!r}: {nearest(found[1], TABLES)}"
            )
        if found := _NO_COLUMN.search(text):
            names = ", ".join(each.name for each in used) or "it"
            columns = {name for each in used for name in columns_of(each)}
            return ConfigError(
                f"{self._folder}: no column {found[1]!r} in {names}: {nearest(found[1], columns)}"
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


def columns_of(table: Table) -> tuple[str, ...]:
    """Return the columns of a view."""
    return (*table.names, *_MORE, *(("address",) if table.address else ()))


def figure_sql(figure: Figure, folder: Path) -> tuple[str, list[Any]]:
    """Return the SQL of a figure, and its parameters.

    Raises:
        ConfigError: there is no such figure, or the address is none.
    """
    known = {each.name: each for each in MINUTE_COLUMNS if each.part is not Part.LAST}
    lasting = {each.name for each in MINUTE_COLUMNS if each.part is Part.LAST}
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
        key = ", ".join(OF[figure.of])
        address = (
            "job"
            if figure.of == "job"
            else "any_value(address)"
            if figure.of == "chip"
            else f"concat_ws('/', {key})"
        )
        where_job = f"{where} AND job IS NOT NULL" if figure.of == "job" else where
        return (
            f"SELECT {address} AS {'job' if figure.of == 'job' else 'address'}, "
            f"{_joined(column.part, column.metric.aggregate)} AS {name}, count(DISTINCT time) AS minutes FROM "
            f"(SELECT time, {key}, any_value(address) AS address, {_at_once(column.part, column.metric.aggregate, name)} "
            f"FROM chips WHERE {where_job} GROUP BY time, {key}) GROUP BY {key} "
            f"HAVING {name} IS NOT NULL ORDER BY {name} DESC, 1 LIMIT {int(figure.top)}"
        ), parameters
    # Ten minutes of UltraServers are a thousandth of the rows, and the same figures.
    window_s = WINDOW_MINUTES * 60
    is_coarse = level_of(figure.at) <= Level.ULTRASERVER and figure.every_s % window_s == 0
    table = "ultraservers" if is_coarse else "chips"
    return (
        f"SELECT time_bucket(to_seconds({int(figure.every_s)}), time) AS time, "
        f"{_joined(column.part, column.metric.aggregate)} AS {name} FROM "
        f"(SELECT time, {_at_once(column.part, column.metric.aggregate, name, is_total=is_coarse)} "
        f"FROM {table} WHERE {where} GROUP BY time) GROUP BY 1 ORDER BY 1"
    ), parameters


def _within(figure: Figure) -> tuple[str, list[Any]]:
    """Return the condition that leaves the rows of a figure's node and time, and its parameters."""
    conditions, parameters = ["true"], list[object]()
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
                raise ConfigError(f"--at {figure.at}: {segment!r} is no chip: write it as chip05")
        conditions.append(f"{name} = ?")
        parameters.append(value)
    if figure.fleet:
        conditions.append("fleet = ?")
        parameters.append(figure.fleet)
    for moment, sign in ((figure.from_us, ">="), (figure.to_us, "<")):
        if moment is not None:
            conditions.append(f"time {sign} make_timestamp(?::BIGINT)")
            parameters.append(moment)
    return " AND ".join(conditions), parameters


def _at_once(part: Part, aggregate: Aggregate, name: str, *, is_total: bool = False) -> str:
    """Return the SQL that joins the rows of one time: a total of what adds up, else a mean by the time covered."""
    if part is Part.MAX:
        return f"max({name}) AS value, 1.0 AS weight"
    if part is Part.INCREASE:
        return f"sum({name}) AS value, 1.0 AS weight"
    if part is Part.BITS:
        return f"{'bit_or' if aggregate is Aggregate.OR else 'bit_and'}({name}) AS value, 1.0 AS weight"
    if aggregate is Aggregate.SUM and is_total:
        return f"sum({name}) AS value, any_value(minutes) AS weight"
    if aggregate is Aggregate.SUM:
        return f"sum({name} * covered_s) / nullif(max(covered_s) FILTER ({name} IS NOT NULL), 0) AS value, 1.0 AS weight"
    return (
        f"sum({name} * covered_s) / nullif(sum(covered_s) FILTER ({name} IS NOT NULL), 0) AS value, "
        f"sum(covered_s) FILTER ({name} IS NOT NULL) AS weight"
    )


def _joined(part: Part, aggregate: Aggregate) -> str:
    """Return the SQL that joins figures of several times."""
    if part is Part.MAX:
        return "max(value)"
    if part is Part.INCREASE:
        return "sum(value)"
    if part is Part.BITS:
        return f"{'bit_or' if aggregate is Aggregate.OR else 'bit_and'}(value)"
    return "sum(value * weight) / nullif(sum(weight) FILTER (value IS NOT NULL), 0)"
