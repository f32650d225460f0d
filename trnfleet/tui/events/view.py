"""The Events view: events of publishers, alerts and operators, newest first, with a filter and the one under the cursor in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.containers import Container

from trnfleet.clock import format_rfc3339
from trnfleet.domain.filters.language import hint
from trnfleet.domain.quantities import count, counted
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.events.details import EventDetails
from trnfleet.tui.events.list import EVENT_COLUMNS, NO_MATCH, EventList, head
from trnfleet.tui.state.subjects import of_alerts, of_job
from trnfleet.tui.view import FilteredView, Lists, View
from trnfleet.tui.widgets.bar import Bar, justified
from trnfleet.tui.widgets.cells import Parts, fit, width_of, wrapped
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.domain.filters.language import Filter
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.state.subjects import Subject

BESIDE_FROM = 180
"""Width from which the event under the cursor stands beside the list."""
MOST_DETAILS = 90
"""Cells of it, at most: lists need the rest."""


class EventsView(FilteredView):
    """The list with its head, its foot and the filter's prompt."""

    DEFAULT_CSS = """
    EventsView { layout: vertical; }
    EventsView > #event-body { height: 1fr; layout: horizontal; }
    EventsView > #event-body > #event-side { width: 1fr; layout: vertical; }
    """
    BINDINGS: ClassVar = [
        Binding("o", "moment", "Go to the moment when it happened"),
        Binding(
            "slash",
            "ask",
            "Filter: part of anything, sev>=warning & job=name, at=uc1/us-0001, age<10m, !text",
        ),
        Binding("escape", "clear", "Clear the filter"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        playback = context.playback
        self.list = EventList(
            self.monitor,
            is_recording=playback is not None and playback.live is None,
            shows_past=lambda: context.shows_past,
        )
        self._head = Bar(fill=lambda: theme.HEAD)
        self.foot = EventFoot(self.monitor, self.list)
        self.details = EventDetails(context, self.list)

    def compose(self) -> ComposeResult:
        with Container(id="event-body"):
            with Container(id="event-side"):
                yield self._head
                yield self.list
            yield self.details
        yield self.foot
        yield self.prompt

    def on_mount(self) -> None:
        # A column of the list is its scroll bar's.
        self._head.show(lambda width: [head(max(1, width - 1))])

    def on_resize(self) -> None:
        """Show the event under the cursor beside the list where there is room, else below it."""
        width = self.size.width
        is_beside = width >= BESIDE_FROM
        self.details.display = is_beside
        self.details.styles.width = min(MOST_DETAILS, width * 38 // 100)
        self.foot.styles.height = 1 if is_beside else 3

    @property
    def place(self) -> str:
        """The address of the event under the cursor, or of its job."""
        event = self.list.picked
        return self.list.address_of(event) if event else ""

    @property
    def lists(self) -> Lists:
        return Lists(events=True)

    @property
    def subject(self) -> Subject:
        """What is at the address of the event under the cursor; where it has none its job, else the alert that it tells of."""
        event = self.list.picked
        if event is None or event.path:
            return super().subject
        if event.job:
            return of_job(self.context.alerts, event.job)
        alert = self.monitor.alerts.find(event.alert) if event.alert else None
        return (of_alerts([alert]) if alert else None) or super().subject

    def show_place(self, address: str) -> None:
        """Paint: events are in the order of time, so there is no place to go to."""
        del address
        self.tick(1_000)

    def renew(self) -> None:
        self.list.renew()

    def action_moment(self) -> None:
        """Ask the app to go to the moment of the event under the cursor."""
        event = self.list.picked
        if event is not None:
            # Another monitor shows that moment; the cursor goes to the event there.
            self.list.hold(is_asked=True)
            self.post_message(View.GoTo(event.ts_ns, is_after=True))

    def tick(self, allowance: int) -> int:
        painted = self.list.tick(max(1, allowance))
        return painted + self.foot.tick() + self.details.tick()

    def take_focus(self) -> None:
        self.list.focus(scroll_visible=False)

    @on(EventList.Changed)
    def _changed(self, event: EventList.Changed) -> None:
        event.stop()
        self.foot.tick()
        self.details.tick()
        self.post_message(View.Moved(self.place))

    def columns(self) -> Columns:
        return EVENT_COLUMNS

    def take_filter(self, wanted: Filter) -> None:
        self.list.filter(wanted)
        self.foot.tick()
        self.details.tick()

    def found_text(self) -> str:
        return (
            counted(self.list.count, "event")
            if self.list.count
            else hint(self.pattern, EVENT_COLUMNS) or NO_MATCH
        )


class EventFoot(LineView, can_focus=False):
    """The text of the event under the cursor in full, and below it its other fields with the number of events."""

    DEFAULT_CSS = "EventFoot { height: 3; background: $bg-surface; }"

    def __init__(self, monitor: FleetState, events: EventList) -> None:
        super().__init__()
        self._monitor = monitor
        self._events = events

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the lines, the last one always with the number of events."""
        del top
        event, counts = self._events.picked, self._counts()
        texts = wrapped(plain(event.text, 256) if event else "", width - 2, height - 1)
        # Where the details stand beside the list, there is one line.
        about = fit(about_text(event) if event else "", max(0, width - width_of(counts) - 2)).rstrip()
        return [
            *(text_line([(f" {text}", theme.HEAD_STRONG)], width, theme.HEAD) for text in texts),
            text_line(justified([(f" {about}", theme.HEAD)], counts, width, theme.HEAD), width, theme.HEAD),
        ]

    def _counts(self) -> Parts:
        events, dropped = self._events, sum(ring.dropped for ring in self._events.rings)
        parts: Parts = []
        if events.pattern:
            parts.append((f"/{plain(events.pattern, 30)} ", theme.HEAD_ACCENT))
        if dropped:
            parts.append((f"{count(dropped)} older ones dropped  ", theme.HEAD))
        parts.append((f"{count(min(events.row + 1, events.count))}/{count(events.count)} ", theme.HEAD))
        return parts


def about_text(event: Event) -> str:
    """Return an event's fields beside its text, those without room in the list first."""
    words = [
        plain(event.path),
        f"job {plain(event.job)}" if event.job else "",
        "" if event.nrt is None else f"NRT {event.nrt}",
        f"{plain(event.source)} {plain(event.name)}",
        format_rfc3339(event.ts_ns).replace("T", " "),
    ]
    return "  ".join(word for word in words if word)
