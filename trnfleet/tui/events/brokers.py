"""The list of brokers, one per line.

Also the details of the broker or publisher under the cursor, with its problems.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.filters.language import EVERYTHING
from trnfleet.domain.quantities import DurationStyle, count, counted, duration, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import TextColumn, beside, fit, right
from trnfleet.tui.widgets.cursor_list import RowList
from trnfleet.tui.widgets.facts import Fact, fact_lines
from trnfleet.tui.widgets.line_view import Line, LineView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.style import Style

    from trnfleet.domain.filters.language import Filter
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.pipeline.doubts import KeyDoubt
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.pipeline.publishers import PublisherTable
    from trnfleet.tui.widgets.cells import Parts

_TITLES = (
    ("waiting", 8, 0),
    ("shed", 7, 0),
    ("dropped", 8, 0),
    ("received", 11, 100),
    ("reconnects", 11, 100),
    ("peak", 7, 120),
)
_STATE = 14
NO_MATCH = "No broker matches"
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
            + " ".join([fit("connection", _STATE), fit("broker", _address_width(width)), *titles]),
            theme.HEAD,
        )
    ]


def _address_width(width: int) -> int:
    return max(
        8, width - 2 - _STATE - sum(cells + 1 for _, cells, least in _TITLES if width >= least)
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
        text = f" {NO_MATCH} {plain(self.wanted.typed, 60)}; Esc shows all" if self.wanted else ""
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
            (fit(state, _STATE), style),
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
            f" came late + {counts.lost:,} lost + {counts.passed_over:,} shed",
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
