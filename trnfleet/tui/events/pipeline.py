"""The pipeline's tabs: publishers and brokers, one per line, with an order and a filter.

Also the details of the one under the cursor, with the pipeline's problems. Only the window's lines
are made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from trnfleet.domain.alerts.alert import common_place
from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.filters.language import EVERYTHING, Filter
from trnfleet.domain.quantities import DurationStyle, bare, count, counted, duration, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import WORDS, PublisherTable, State
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.keys import bind
from trnfleet.tui.view import HIERARCHY, View
from trnfleet.tui.widgets.cells import Parts, TextColumn, beside, fit, right
from trnfleet.tui.widgets.cursor_list import CursorList, RowList
from trnfleet.tui.widgets.facts import Fact, fact_lines
from trnfleet.tui.widgets.line_view import Line, LineView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from rich.style import Style
    from textual.binding import BindingType

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.pipeline.doubts import KeyDoubt
    from trnfleet.monitor.pipeline.health import PipelineHealth


NO_PUBLISHER = "No publisher matches"
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
        bind("enter", "enter", "go to the chips that it publishes"),
    ]

    def __init__(self, monitor: FleetState) -> None:
        super().__init__()
        self._monitor = monitor
        self.wanted = EVERYTHING
        """The filter."""
        self.order = TROUBLE
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
            f" {NO_PUBLISHER} {plain(self.wanted.typed, 60)}; Esc shows all"
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
    def listed(self) -> list[int]:
        """Rows of `table` left by the filter, in list order."""
        return [int(row) for row in self._order]

    def _read(self) -> None:
        table = self._monitor.pipeline().publishers
        key = (table, self.wanted, self.order)
        if key == self._of:
            return
        self._of = key
        self.table = table
        rows = np.arange(len(table))
        if self.wanted:
            rows = rows[self.wanted.mask(PublisherColumns(table))]
        self._order = ordered(table, rows, self.order)
        self.sync()


_TITLES = (
    ("waiting", 8, 0),
    ("shed", 7, 0),
    ("dropped", 8, 0),
    ("received", 11, 100),
    ("reconnects", 11, 100),
    ("peak", 7, 120),
)
_BROKER_STATE = 14
NO_BROKER = "No broker matches"
CONNECTED, AWAY = STATES = ("connected", "away")
BROKER_COLUMNS = Columns(
    (
        Column("broker", aliases=("address", "name")),
        Column("state", Kind.WORDS, words=STATES),
        Column("for", Kind.DURATION, aliases=("age",)),
        Column("waiting", Kind.NUMBER),
        Column("shed", Kind.NUMBER),
        Column("dropped", Kind.NUMBER),
        Column("received", Kind.NUMBER),
        Column("reconnects", Kind.NUMBER),
        Column("peak", Kind.NUMBER),
        Column("mqtt", aliases=("protocol",)),
        Column("version", aliases=("kind",)),
        Column("error"),
    )
)
"""Filter columns of brokers. Dropped includes too large messages, as in the list."""


def broker_head(width: int) -> Parts:
    """Return the columns' titles."""
    titles = [right(title, cells) for title, cells, least in _TITLES if width >= least]
    return [
        (
            " "
            + " ".join(
                [fit("connection", _BROKER_STATE), fit("broker", _address_width(width)), *titles]
            ),
            theme.HEAD,
        )
    ]


def _address_width(width: int) -> int:
    return max(
        8,
        width - 2 - _BROKER_STATE - sum(cells + 1 for _, cells, least in _TITLES if width >= least),
    )


class BrokerRow(NamedTuple):
    """A broker as a filter compares it."""

    broker: BrokerHealth

    def value(self, column: str) -> str | float | None:
        """Return its value in a column."""
        broker = self.broker
        if column == "state":
            return STATES.index(CONNECTED if broker.connected else AWAY)
        values: dict[str, str | float] = {
            "broker": broker.address,
            "for": broker.for_s,
            "dropped": broker.dropped + broker.oversize,
            "peak": broker.queue_peak,
            "mqtt": broker.protocol,
            "version": broker.kind,
            "error": broker.last_error,
        }
        value: str | float = values[column] if column in values else getattr(broker, column)
        return value

    def has(self, part: str) -> bool:
        """Return whether a part of text is in its address, its state or its error."""
        broker = self.broker
        words = (
            broker.address,
            CONNECTED if broker.connected else AWAY,
            broker.kind,
            broker.last_error,
        )
        return part in "\n".join(words).lower()


class BrokerList(RowList[str, "BrokerHealth"]):
    """Brokers, one a line."""

    HELP_TITLE = "Brokers"

    def __init__(self, monitor: FleetState) -> None:
        super().__init__()
        self._monitor = monitor
        self.wanted = EVERYTHING
        """The filter."""

    def filter(self, query: Filter) -> None:
        """Apply a filter."""
        self.wanted = query
        self.tick()

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        text = f" {NO_BROKER} {plain(self.wanted.typed, 60)}; Esc shows all" if self.wanted else ""
        return [("", theme.QUIET), (text, theme.QUIET)]

    def key_of(self, row: BrokerHealth) -> str:
        return row.address

    def tick(self) -> None:
        self.put(
            [
                broker
                for broker in self._monitor.pipeline().brokers
                if self.wanted.keeps(BrokerRow(broker))
            ]
        )
        super().tick()

    def parts_of(self, row: BrokerHealth, width: int, *, selected: bool) -> Parts:
        body = theme.SELECTED if selected else theme.BASE
        state = (
            f"● {duration(row.for_s, DurationStyle.SHORT)}"
            if row.connected
            else f"✖ {duration(row.for_s, DurationStyle.SHORT)}"
        )
        style = body if selected or row.connected else theme.SEVERITY_STYLE[Severity.CRITICAL]
        values = {
            "waiting": row.waiting,
            "shed": row.shed,
            "dropped": row.dropped + row.oversize,
            "received": row.received,
            "reconnects": row.reconnects,
            "peak": row.queue_peak,
        }
        parts: Parts = [
            (">" if selected else " ", body),
            (fit(state, _BROKER_STATE), style),
            (f" {fit(plain(row.address), _address_width(width))}", body),
        ]
        for title, cells, least in _TITLES:
            if width >= least:
                is_bad = title in {"shed", "dropped"} and values[title] and not selected
                style = theme.SEVERITY_STYLE[Severity.WARNING] if is_bad else body
                parts.append((f" {right(count(values[title]), cells)}", style))
        return parts


class PipelineFacts(LineView, can_focus=False):
    """Details of the publisher or broker under the cursor.

    The pipeline's problems follow, the worst first.
    """

    DEFAULT_CSS = (
        "PipelineFacts { height: 10; overflow: hidden; padding-left: 1; background: $bg; }"
    )

    def __init__(self, monitor: FleetState, picked: Callable[[PipelineHealth], list[Fact]]) -> None:
        super().__init__()
        self._monitor = monitor
        self._picked = picked

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        """Return the facts, the worst problem with its remedy, totals, other problems."""
        health = self._monitor.pipeline()
        # Problems may be many and long: below the worst one the totals stay on the screen.
        worst, *others = problem_facts(health)
        facts = [*self._picked(health), worst, *total_facts(health), *others]
        return beside([TextColumn(fact_lines(facts, width, height), width)], width)


def problem_facts(health: PipelineHealth) -> list[Fact]:
    """Return the problems with their remedies, the worst first."""
    return [
        Fact(
            problem.severity.value,
            f"{plain(problem.text, LONGEST)}. {plain(problem.advice, LONGEST)}",
            theme.SEVERITY_STYLE[problem.severity],
        )
        for problem in health.problems
    ] or [Fact("problems", "none", theme.QUIET)]


def total_facts(health: PipelineHealth) -> list[Fact]:
    """Return the totals, as they add up."""
    counts = health.counts
    refused = counts.undecodable + counts.misplaced + counts.rejected
    missing = counts.late + counts.contested + counts.duplicates + counts.undescribed
    return [
        Fact(
            "read",
            f"{counts.read:,} = {counts.messages:,} applied + {missing:,} stale or unknown +"
            f" {refused:,} refused + {counts.others:,} other messages + {counts.foreign:,} of other"
            f" fleets + {health.pending:,} pending",
            theme.QUIET,
        ),
        Fact(
            "published",
            f"{counts.sent:,} by sequence numbers = {counts.accepted:,} came + {counts.mended:,}"
            f" came late + {counts.lost:,} lost + {counts.passed_over:,} shed"
            + f" + {counts.backlog:,} sent as backlog"
            * (counts.backlog > 0),
            theme.QUIET,
        ),
    ]


def publisher_facts(table: PublisherTable, row: int, doubts: Sequence[KeyDoubt] = ()) -> list[Fact]:
    """Return everything of a publisher."""
    state = State(table.state[row])
    for_text = "" if math.isnan(table.for_s[row]) else f" for {duration(float(table.for_s[row]))}"
    heard = float(table.quiet_s[row])
    last = f"last heard {duration(heard)} ago" if math.isfinite(heard) else "never heard"
    traffic = [
        counted(int(table.messages[row]), "message"),
        with_unit(float(table.size_bytes[row]), "bytes"),
        f"{count(int(table.lost[row]))} lost",
        f"{count(int(table.late[row]))} late",
        f"{count(int(table.duplicates[row]))} twice",
        f"{count(int(table.old[row]))} over a minute old",
        f"{count(int(table.refused[row]))} refused",
    ]
    boot = plain(table.boots[row]) or "not known"
    facts = [
        Fact(
            "publisher", f"{plain(table.names[row])}: {state.word}{for_text}, {last}", theme.STRONG
        ),
        Fact(
            "publishes",
            f"{counted(int(table.chips[row]), 'chip')} on {counted(int(table.paths[row]), 'path')};"
            f" boot {boot}, {counted(int(table.restarts[row]), 'restart')}",
        ),
        Fact("traffic", ", ".join(traffic)),
    ]
    facts += [
        Fact(
            "unknown" if doubt.is_unknown else "not usable",
            f"{plain(doubt.text, 200)} ({counted(doubt.times, 'time')}, last {plain(doubt.path)})",
        )
        for doubt in doubts
        if doubt.publisher == table.names[row]
    ]
    skew_s = float(table.skew_s[row])
    to_median_s = float(table.skew_to_median_s[row])
    if not math.isnan(skew_s):
        facts.append(
            Fact(
                "clock",
                f"{skew_s:+.3f} s to ours, {to_median_s:+.3f} s to the median of publishers",
            )
        )
    return facts


def broker_facts(broker: BrokerHealth) -> list[Fact]:
    """Return the facts of a broker, including its own statistics."""
    state = "connected" if broker.connected else "NOT CONNECTED"
    facts = [
        Fact(
            "broker",
            f"{plain(broker.address)}: {state} for {duration(broker.for_s)}, MQTT"
            f" {plain(broker.protocol, 16) or '-'}, {'TLS' if broker.is_secure else 'no TLS'}",
            theme.STRONG,
        ),
        Fact(
            "received",
            f"{broker.received:,} = {broker.taken:,} taken + {broker.waiting:,} waiting"
            f" ({with_unit(float(broker.waiting_bytes), 'bytes')}) + {broker.shed:,} shed +"
            f" {broker.dropped:,} dropped + {broker.oversize:,} too large",
        ),
    ]
    if broker.last_error:
        facts.append(Fact("last error", plain(broker.last_error, LONGEST)))
    if broker.cannot_write:
        facts.append(Fact("cannot write", plain(broker.cannot_write, LONGEST)))
    figures = broker.figures
    if figures is None:
        return [
            *facts,
            Fact(
                "reports", "nothing of itself below $SYS/broker, or not to this user", theme.QUIET
            ),
        ]
    said = (
        plain(figures.version, 60),
        "" if figures.uptime_s is None else f"up {duration(figures.uptime_s)}",
        "" if figures.clients is None else counted(figures.clients, "client"),
        "" if figures.subscriptions is None else counted(figures.subscriptions, "subscription"),
        "" if figures.retained is None else f"{figures.retained:,} retained",
        "" if figures.dropped is None else f"{figures.dropped:,} dropped for slow readers",
        "" if figures.received_per_s is None else f"{figures.received_per_s:.0f} msg/s in",
        "" if figures.sent_per_s is None else f"{figures.sent_per_s:.0f} msg/s out",
    )
    return [*facts, Fact("reports", ", ".join(phrase for phrase in said if phrase))]
