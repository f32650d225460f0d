"""The list of publishers: one per line, with the pipeline's columns.

It has an order and a filter. Only the window's lines are made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from textual.binding import Binding, BindingType

from trnfleet.domain.alerts.alert import common_place
from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.filters.language import EVERYTHING
from trnfleet.domain.quantities import DurationStyle, bare, count, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import WORDS, State
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.view import HIERARCHY, View
from trnfleet.tui.widgets.cells import fit, right
from trnfleet.tui.widgets.cursor_list import CursorList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from rich.style import Style

    from trnfleet.domain.filters.language import Filter
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.pipeline.publishers import PublisherTable
    from trnfleet.tui.widgets.cells import Parts

NO_MATCH = "No publisher matches"
PUBLISHER_COLUMNS = Columns(
    (
        Column("client", aliases=("name", "publisher")),
        Column("state", Kind.WORDS, words=WORDS),
        Column("chips", Kind.NUMBER),
        Column("paths", Kind.NUMBER),
        Column("rate", Kind.NUMBER, aliases=("messages",)),
        Column("bytes", Kind.NUMBER, "bytes/s"),
        Column("lost", Kind.NUMBER),
        Column("late", Kind.NUMBER),
        Column("duplicates", Kind.NUMBER, aliases=("twice",)),
        Column("refused", Kind.NUMBER),
        Column("lag", Kind.DURATION),
        Column("skew", Kind.DURATION),
        Column("for", Kind.DURATION, aliases=("age",)),
        Column("restarts", Kind.NUMBER),
        Column("boot"),
    )
)
"""Filter columns of publishers. Lag is the maximum; skew is the clock error in either direction."""
TROUBLE, CLIENT, RATE, LOST, LAG, SKEW, CHIPS = SORTS = (
    "trouble",
    "client",
    "rate",
    "lost",
    "lag",
    "skew",
    "chips",
)
"""Orders that `s` cycles through. The first is by state, then by lost messages."""
_STYLES = {
    State.ONLINE: None,
    State.SILENT: Severity.WARNING,
    State.REFUSED: Severity.WARNING,
    State.OFFLINE: Severity.CRITICAL,
}
_GLYPHS = {State.ONLINE: "●", State.SILENT: "▲", State.REFUSED: "▲", State.OFFLINE: "✖"}
_NOTHING = " No publisher has announced itself, and nothing is described"


class PublisherCell(NamedTuple):
    """A column of the list."""

    title: str
    width: int
    text: Callable[[PublisherTable, int], str]
    """Returns the text of a row."""
    from_width: int = 0
    """Least width of the list that shows it."""
    is_bad: Callable[[PublisherTable, int], bool] = lambda _table, _row: False
    """Returns whether the value is a trouble."""


def _rate(value: float, unit: str) -> str:
    return (
        "-"
        if math.isnan(value)
        else bare(value, unit)
        if value >= 9.95 or not value
        else f"{value:.2g}"
    )


def _seconds(value: float) -> str:
    return (
        "-"
        if not math.isfinite(value)
        else duration(value, DurationStyle.SHORT)
        if value >= 1
        else f"{value * 1e3:.0f}ms"
    )


def _skew(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.1f}s" if abs(value) < 100 else f"{value:+.0f}s"


CELLS = (
    PublisherCell("chips", 9, lambda table, row: count(int(table.chips[row]))),
    PublisherCell("paths", 6, lambda table, row: count(int(table.paths[row])), 118),
    PublisherCell("msg/s", 6, lambda table, row: _rate(float(table.messages_per_s[row]), "events")),
    PublisherCell(
        "B/s", 7, lambda table, row: _rate(float(table.bytes_per_s[row]), "bytes/s"), 100
    ),
    PublisherCell(
        "lost",
        6,
        lambda table, row: count(int(table.lost[row])),
        is_bad=lambda table, row: table.lost[row] > 0,
    ),
    PublisherCell(
        "late",
        6,
        lambda table, row: count(int(table.late[row])),
        100,
        lambda table, row: table.late[row] > 0,
    ),
    PublisherCell(
        "duplicates",
        10,
        lambda table, row: count(int(table.duplicates[row])),
        110,
        lambda table, row: table.duplicates[row] > 0,
    ),
    PublisherCell(
        "refused",
        8,
        lambda table, row: count(int(table.refused[row])),
        140,
        lambda table, row: table.refused[row] > 0,
    ),
    PublisherCell(
        "lag", 6, lambda table, row: _seconds(float(table.lag_median_s(np.array([row]))[0]))
    ),
    PublisherCell("max", 6, lambda table, row: _seconds(float(table.lag_max_s[row])), 90),
    PublisherCell(
        "skew",
        7,
        lambda table, row: _skew(float(table.skew_s[row])),
        is_bad=lambda table, row: abs(table.skew_s[row]) > 5,
    ),
    PublisherCell("for", 8, lambda table, row: _seconds(float(table.for_s[row]))),
    PublisherCell("restarts", 9, lambda table, row: count(int(table.restarts[row])), 150),
    PublisherCell("boot", 18, lambda table, row: plain(table.boots[row]), 180),
)
_STATE = 10


def shown_cells(width: int) -> tuple[PublisherCell, ...]:
    """Return the columns that have room."""
    return tuple(cell for cell in CELLS if width >= cell.from_width)


def _client_width(width: int, cells: Sequence[PublisherCell]) -> int:
    return max(8, width - 2 - _STATE - sum(cell.width + 1 for cell in cells))


def publisher_head(width: int) -> Parts:
    """Return the columns' titles."""
    cells = shown_cells(width)
    titles = [fit("state", _STATE), fit("client", _client_width(width, cells))]
    return [
        (" " + " ".join([*titles, *(right(cell.title, cell.width) for cell in cells)]), theme.HEAD)
    ]


def publisher_row(table: PublisherTable, row: int, width: int, *, selected: bool) -> Parts:
    """Return one publisher's line."""
    cells = shown_cells(width)
    state = State(table.state[row])
    body, quiet = (theme.SELECTED, theme.SELECTED_QUIET) if selected else (theme.BASE, theme.QUIET)
    severity = _STYLES[state]
    style = body if selected else quiet if severity is None else theme.SEVERITY_STYLE[severity]
    parts: Parts = [
        (">" if selected else " ", body),
        (fit(f"{_GLYPHS[state]} {state.word}", _STATE), style),
        (f" {fit(plain(table.names[row]), _client_width(width, cells))}", body),
    ]
    for cell in cells:
        bad = cell.is_bad(table, row) and not selected
        parts.append(
            (
                f" {right(cell.text(table, row), cell.width)}",
                theme.SEVERITY_STYLE[Severity.WARNING] if bad else body,
            )
        )
    return parts


class PublisherColumns:
    """Publishers as a filter compares them."""

    def __init__(self, table: PublisherTable) -> None:
        self._table = table

    def having(self, part: str) -> NDArray[np.bool_]:
        """Return the rows with a part of text in client, state or boot."""
        table = self._table
        words = [state.word for state in State]
        texts = zip(table.names, table.state.tolist(), table.boots, strict=True)
        matches = [part in f"{name}\n{words[state]}\n{boot}".lower() for name, state, boot in texts]
        return np.array(matches, np.bool_)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column's numbers."""
        table = self._table
        if column == "skew":
            return np.abs(table.skew_s)
        name = {
            "rate": "messages_per_s",
            "bytes": "bytes_per_s",
            "lag": "lag_max_s",
            "for": "for_s",
        }.get(column, column)
        values: NDArray[np.float64] = getattr(table, name).astype(np.float64)
        return values

    def named(self, column: str, fits: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return the rows whose text in a column satisfies `fits`."""
        texts = self._table.names if column == "client" else self._table.boots
        return np.array([fits(text) for text in texts], np.bool_)

    def at(self, _address: str) -> NDArray[np.bool_]:
        """Return none: publishers have no column of addresses."""
        return np.zeros(len(self._table), np.bool_)


def ordered(table: PublisherTable, rows: NDArray[np.int64], sort: str) -> NDArray[np.int64]:
    """Return rows in one of `SORTS`, unknown values last."""
    if sort == CLIENT:
        return np.array(sorted(rows.tolist(), key=table.names.__getitem__), np.int64)
    if sort == TROUBLE:
        return rows[np.lexsort((-table.lost[rows], -table.state[rows].astype(np.int64)))]
    values = {
        RATE: table.messages_per_s,
        LOST: table.lost.astype(np.float64),
        LAG: table.lag_max_s,
        SKEW: np.abs(table.skew_s),
        CHIPS: table.chips.astype(np.float64),
    }[sort]
    return rows[np.argsort(-values[rows], kind="stable")]


class PublisherList(CursorList[str]):
    """Publishers, one a line."""

    HELP_TITLE = "Publishers"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "go to the chips that it publishes"),
    ]

    def __init__(self, monitor: FleetState) -> None:
        super().__init__()
        self._monitor = monitor
        self.wanted = EVERYTHING
        """The filter."""
        self.sort = TROUBLE
        self.table: PublisherTable | None = None
        """The publishers that the rows are of."""
        self._order = np.zeros(0, np.int64)
        self._of: tuple[object, ...] = ()

    @property
    def count(self) -> int:
        return len(self._order)

    @property
    def picked(self) -> int | None:
        """The publisher's row in `table` under the cursor; None in an empty list."""
        return int(self._order[self.row]) if self.row < self.count else None

    def row_key(self, number: int) -> str:
        return "" if self.table is None else self.table.names[int(self._order[number])]

    def find(self, key: str) -> int | None:
        """Return the line of a client."""
        names = [] if self.table is None else self.table.names
        if key not in names:
            return None
        places = np.flatnonzero(self._order == names.index(key))
        return int(places[0]) if len(places) else None

    def filter(self, query: Filter) -> None:
        """Apply a filter."""
        self.wanted = query
        self.tick()

    def tick(self) -> None:
        """Read the pipeline, then paint changes."""
        self._read()
        super().tick()

    def row_parts(self, number: int, width: int, *, selected: bool) -> Parts:
        table = self.table
        return (
            []
            if table is None
            else publisher_row(table, int(self._order[number]), width, selected=selected)
        )

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        text = (
            f" {NO_MATCH} {plain(self.wanted.typed, 60)}; Esc shows all"
            if self.wanted
            else _NOTHING
        )
        return [("", theme.QUIET), (text, theme.QUIET)]

    def action_enter(self) -> None:
        if self.picked is not None:
            self.post_message(View.Open(self.place, HIERARCHY))

    @property
    def place(self) -> str:
        """Deepest address above all instances of the publisher under the cursor.

        Empty for the fleet.
        """
        row = self.picked
        table = self.table
        if row is None or table is None:
            return ""
        publishers = self._monitor.ingest.publishers
        store = self._monitor.store
        own = publishers.rows()[store.publisher_of] == publishers.traffic.row_of(table.names[row])
        instances = np.flatnonzero(own)
        if not len(instances):
            return ""
        paths = store.layout.instances
        return common_place([paths[int(instances[0])], paths[int(instances[-1])]])

    @property
    def order(self) -> list[int]:
        """Rows of `table` left by the filter, in list order."""
        return [int(row) for row in self._order]

    def _read(self) -> None:
        table = self._monitor.pipeline().publishers
        key = (table, self.wanted, self.sort)
        if key == self._of:
            return
        self._of = key
        self.table = table
        rows = np.arange(len(table))
        if self.wanted:
            rows = rows[self.wanted.mask(PublisherColumns(table))]
        self._order = ordered(table, rows, self.sort)
        self.sync()
