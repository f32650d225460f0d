"""The list of events: newest first, one per line, with a filter.

The cursor stays on its event. Only the window's lines are made. Matches are stored and followed, so
that a tick evaluates new events alone.
"""

from __future__ import annotations

import bisect
import operator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.address import NO_NAMES, Names
from trnfleet.domain.filters.columns import SEVERITY, Column, Columns, Kind, severity_number
from trnfleet.domain.filters.language import EVERYTHING, Filter
from trnfleet.domain.quantities import counted
from trnfleet.monitor.fleet_state import LOADING, FleetState
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import shortened
from trnfleet.tui.format.alerts import event_address
from trnfleet.tui.keys import bind
from trnfleet.tui.view import View
from trnfleet.tui.widgets.cells import Parts, fit
from trnfleet.tui.widgets.cursor_list import CursorList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.style import Style
    from textual.binding import BindingType

    from trnfleet.monitor.alerting.events import AlertEvents
    from trnfleet.monitor.store.events import Event, Events


class EventPlan(NamedTuple):
    """Cells of the columns at a width, without the space behind each."""

    time: int
    severity: int
    source: int
    where: int
    job: int
    """0 without room: the foot shows the event under the cursor in full."""
    text: int

    @staticmethod
    def for_width(width: int) -> EventPlan:
        wide = width >= 100
        rich = width >= 160
        time = 19 if rich else 8
        source = 10 if wide else 8
        where = 31 if width >= 118 else 20
        job = 24 if rich else 14 if wide else 0
        used = 1 + time + 1 + 10 + 1 + source + 1 + where + 1 + (job + 1 if job else 0)
        return EventPlan(time, 10, source, where, job, max(1, width - used))


def head(width: int) -> Parts:
    """Return the columns' titles."""
    plan = EventPlan.for_width(width)
    titles = [
        ("time", plan.time),
        ("severity", plan.severity),
        ("source", plan.source),
        ("where", plan.where),
    ]
    titles += [("job", plan.job)] if plan.job else []
    return [
        (
            " " + " ".join(fit(title, cells) for title, cells in [*titles, ("what", plan.text)]),
            theme.HEAD,
        )
    ]


def severity_text(event: Event) -> str:
    """Return an event's severity as a sign and a word."""
    return f"{theme.SEVERITY_GLYPH[event.severity]} {event.severity.value}"


def row(event: Event, plan: EventPlan, *, selected: bool) -> Parts:
    """Return one event's line."""
    when = format_rfc3339(event.ts_ns)[:19].replace("T", " ")
    body = theme.SELECTED if selected else theme.BASE
    quiet = theme.SELECTED_QUIET if selected else theme.QUIET
    severity = theme.SELECTED if selected else theme.SEVERITY_STYLE[event.severity]
    where = shortened(plain(event.path), plan.where)
    if not event.path:
        where = (
            f"job {plain(event.job)}"
            if event.job and not plan.job
            else plain(event.subject) or "fleet"
        )
    job = f"{fit(plain(event.job), plan.job)} " if plan.job else ""
    return [
        (">" if selected else " ", body),
        (f"{when[-plan.time :]} ", quiet),
        (f"{fit(severity_text(event), plan.severity)} ", severity),
        (f"{fit(plain(event.source), plan.source)} ", quiet),
        (f"{fit(where, plan.where)} ", body),
        (job, quiet),
        (fit(plain(event.text, 256), plan.text), body),
    ]


def texts_of(event: Event) -> tuple[str, ...]:
    """Return all texts of an event for a filter's search."""
    named = event.source, event.name, event.path, event.job, event.subject
    return (event.severity.value, *named, event.text, event.rule)


EVENT_COLUMNS = Columns(
    (
        SEVERITY,
        Column("source"),
        Column("name"),
        Column("at", Kind.PLACE, aliases=("where",)),
        Column("job"),
        Column("age", Kind.DURATION),
        Column("nrt", Kind.NUMBER),
    )
)
"""Filter columns of events. An event's age is fixed when the filter evaluates it."""
NO_MATCH = "No event matches"


class EventRow(NamedTuple):
    """An event as a filter sees it."""

    event: Event
    now_ns: int
    names: Names = NO_NAMES

    def value(self, column: str) -> str | float | None:
        event = self.event
        values: dict[str, str | float | None] = {
            "sev": severity_number(event.severity),
            "source": event.source,
            "name": event.name,
            "at": event.path,
            "job": event.job,
            "age": (self.now_ns - event.ts_ns) / NS_PER_S,
            "nrt": event.nrt,
        }
        return values[column]

    def has(self, part: str) -> bool:
        shown = self.event.shown(self.names)
        texts = (*texts_of(self.event), shown.path, shown.job)
        return part in "\n".join(texts).lower()


_ORDER = operator.attrgetter("order")
_NONE_RECEIVED = "No events since {start} UTC (start); the broker keeps none from before"


class EventList(CursorList["Event"]):
    """Events, one a line."""

    HELP_TITLE = "Events"
    IS_FEED = True
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "enter", "go to the event's cause or place, or its job's"),
    ]

    def __init__(
        self,
        monitor: FleetState,
        *,
        shows_past: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._shows_past = shows_past
        self._monitor = monitor
        start = format_rfc3339(monitor.clock.wall_ns())[11:19]
        self._none_yet = _NONE_RECEIVED.format(start=start)
        self._found: list[Event] = []
        """Matching events of publishers and alerts, oldest first."""
        self._looked_at = [0, 0]
        """Numbers of the newest events of either kind evaluated by the filter."""
        self.wanted = EVERYTHING
        """The filter."""
        self.changes = 0
        """Goes up whenever other events are listed."""

    @property
    def pattern(self) -> str:
        """The filter as it was typed; empty for none."""
        return self.wanted.typed

    @property
    def picked(self) -> Event | None:
        """The event under the cursor; None in an empty list."""
        return self._found[-1 - self.row] if self.row < len(self._found) else None

    @property
    def count(self) -> int:
        """How many events the filter leaves."""
        return len(self._found)

    @property
    def rings(self) -> tuple[Events | AlertEvents, Events | AlertEvents]:
        """Events of publishers, and events of alerts and operators."""
        ingest = self._monitor.ingest
        return ingest.events, ingest.alert_events

    def row_key(self, number: int) -> Event:
        return self._found[-1 - number]

    def find(self, key: Event) -> int | None:
        """Return the row of an event of this monitor.

        If it is gone, the row of the next newer one.
        """
        newer = bisect.bisect_left(self._found, key.order, key=_ORDER)
        return max(0, len(self._found) - 1 - newer)

    def filter(self, query: Filter) -> None:
        """Apply a filter."""
        self.wanted = query
        self.changes += 1
        self._found.clear()
        self._looked_at = [0, 0]
        self.tick()

    def renew(self) -> None:
        """Read all events again, because another monitor is shown.

        The cursor stays on its event. If it has not happened yet, the cursor is on the previous one
        until then.
        """
        self.hold()
        self.changes += 1
        self._found.clear()
        self._looked_at = [0, 0]

    def tick(self) -> None:
        """Read new events, then paint changes."""
        self._follow()
        super().tick()

    def row_parts(self, number: int, width: int, *, selected: bool) -> Parts:
        event = self.row_key(number).shown(self._monitor.ingest.names)
        return row(event, EventPlan.for_width(width), selected=selected)

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        now = self._monitor.moment().time_ns
        before = f" before {format_rfc3339(now)[11:19]}" if self._shows_past() else ""
        event_count = sum(len(ring) for ring in self.rings)
        incomplete = self._monitor.incomplete
        if incomplete == LOADING:
            text = f"Loading events{before} …"
        elif self.wanted and event_count:
            text = (
                f'No match for "{plain(self.pattern, 60)}"{before} ({counted(event_count, "event")}). Esc'  # noqa: E501
                " clears."
            )
        elif incomplete:
            text = f"No events {incomplete}"
        else:
            text = f"No events{before}" if before else self._none_yet
        return [("", theme.QUIET), (f" {text}", theme.QUIET)]

    def _follow(self) -> None:
        """Add new matches, and drop events evicted from the ring."""
        changed = False
        for kind, ring in enumerate(self.rings):
            if ring.received == self._looked_at[kind]:
                continue
            changed = True
            fresh: list[Event] = []
            now_ns = self._monitor.moment().time_ns
            for event in ring.newest_first():
                if event.number <= self._looked_at[kind]:
                    break
                if self.wanted.keeps(EventRow(event, now_ns, self._monitor.ingest.names)):
                    fresh.append(event)
            self._looked_at[kind] = ring.received
            self._found.extend(reversed(fresh))
        if changed:
            rings = self.rings
            if any(ring.dropped for ring in rings):
                # Not always the oldest: an instance that reports without end replaces its own.
                self._found = [
                    event for event in self._found if event.number in rings[event.is_own]
                ]
            # Nearly in order: events come in turns of their kinds.
            self._found.sort(key=_ORDER)
            self.changes += 1
            self._look_for_awaited()
        self.sync()

    def _look_for_awaited(self) -> None:
        """Move the cursor to the awaited event, or to the last one before it."""
        lost = self._awaited
        if lost is None:
            return
        # Numbers and times of arrival are each monitor's own.
        match = next((event for event in reversed(self._found) if event[2:] == lost[2:]), None)
        if match is not None:
            self._awaited = None
        else:
            match = next(
                (event for event in reversed(self._found) if event.ts_ns <= lost.ts_ns), None
            )
        self._key = match

    def _go_back(self) -> None:
        """Do nothing: the awaited event is searched for when events arrive."""

    def action_enter(self) -> None:
        event = self.picked
        address = self.address_of(event) if event else ""
        if address:
            self.post_message(View.Open(address))

    def address_of(self, event: Event) -> str:
        """Return the address that an event links to; empty for the fleet.

        It is the cause of its alert, its own address, or the first place of its job.
        """
        address = event_address(event, self._monitor.alerts)
        if address:
            return address
        job = self._monitor.ingest.jobs.get(event.job)
        return job.on[0].partition("..")[0] if job and job.on else ""
