"""Chips in two cells of a fleet at the same time: totals count them twice."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import format_rfc3339
from trnfleet.domain.quantities import counted
from trnfleet.export.history.catalogue import rows_sql
from trnfleet.export.history.tables import (
    CHIPS,
    MINUTE_US,
    ULTRASERVERS,
    WINDOW_MINUTES,
    HistoryTable,
)
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date

    from trnfleet.export.history.database import Database
    from trnfleet.export.history.files import HistoryFile


class DoubledChips(NamedTuple):
    """Chips common to cells in a day's newest ten minutes with any."""

    fleet: str
    cells: tuple[str, ...]
    chips: int
    example: str
    """Address of one."""
    from_us: int
    """Begin of the ten minutes, since 1970."""

    def __str__(self) -> str:
        names = f"{', '.join(self.cells[:-1])} and {self.cells[-1]}"
        several = "both" if len(self.cells) == 2 else "all"
        return (
            f"cells {names} of {self.fleet} {several} have {counted(self.chips, 'chip')}, such as"
            f" {plain(self.example)} at {format_rfc3339(self.from_us * 1_000)}: totals count them"
            " twice; query one of the cells, or move the other's files away"
        )


def find_doubled(database: Database, files: Iterable[HistoryFile]) -> Iterator[DoubledChips]:
    """Yield the chips common to cells on each fleet's newest day.

    Only fleets with several cells.

    Raises:
        HistoryError: a file is damaged, or gone.
    """

    def day_of(file: HistoryFile) -> tuple[str, date]:
        return file.partition[:2]

    known: set[str] = set()
    for (fleet, _), group in groupby(sorted(files, key=day_of, reverse=True), key=day_of):
        of_day = list(group)
        cells = {file.partition.cell for file in of_day if file.table == ULTRASERVERS.name}
        if fleet in known or len(cells) < 2:
            continue
        known.add(fleet)
        yield from _of_day(database, fleet, of_day)


def _of_day(database: Database, fleet: str, files: Sequence[HistoryFile]) -> Iterator[DoubledChips]:
    def rows(table: HistoryTable) -> str:
        return rows_sql(database, table, [file for file in files if file.table == table.name])

    # Cells may have different chips of an UltraServer; few of these have several cells, and chips
    # are many.
    shared = (
        f"SELECT time AS begun, cluster, ultraserver FROM ({rows(ULTRASERVERS)}) GROUP BY ALL "
        "HAVING count(DISTINCT cell) > 1"
    )
    newest = database.run(f"SELECT epoch_us(max(begun)) FROM ({shared})").rows[0][0]
    if newest is None:
        return
    begin = f"make_timestamp({newest})"
    end = f"make_timestamp({newest + WINDOW_MINUTES * MINUTE_US})"
    doubled = (
        "SELECT any_value(address) AS address, list_sort(list(DISTINCT cell)) AS cells FROM"
        f" ({rows(CHIPS)}) SEMI JOIN (SELECT * FROM ({shared}) WHERE begun = {begin}) USING"
        f" (cluster, ultraserver) WHERE time >= {begin} AND time < {end} GROUP BY time, cluster,"
        " ultraserver, instance, chip HAVING count(DISTINCT cell) > 1"
    )
    result = database.run(
        f"SELECT cells, count(DISTINCT address), min(address) FROM ({doubled}) GROUP BY cells ORDER"
        " BY cells"
    )
    for cells, chips, example in result.rows:
        yield DoubledChips(fleet, tuple(cells), chips, example, newest)
