"""The list of events: newest first, one a line, with a cursor that stays on its event, and a filter.

Only the window's lines are made. What matches is kept and followed, so that a tick looks at new events alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.message import Message

from trnfleet.clock import format_rfc3339
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import shortened
from trnfleet.tui.view import View
from trnfleet.tui.widgets.cells import fit
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from textual import events

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.widgets.cells import Parts


class EventPlan(NamedTuple):
    """Cells of the columns at a width, without the space behind each."""

    time: int
    severity: int
    source: int
    where: int
    job: int
    """0 where there is no room: what the cursor is on is told in full below the list."""
    text: int

    @staticmethod
    def of(width: int) -> EventPlan:
        """Return the columns for a width in cells."""
        wide, rich = width >= 100, width >= 160
        time, source = (19 if rich else 8), (10 if wide else 8)
        where, job = (31 if width >= 118 else 20), (24 if rich else 14 if wide else 0)
        used = 1 + time + 1 + 10 + 1 + source + 1 + where + 1 + (job + 1 if job else 0)
        return EventPlan(time, 10, source, where, job, max(1, width - used))


def head(width: int) -> Parts:
    """Return the columns' titles."""
    plan = EventPlan.of(width)
    titles = [
        ("time", plan.time),
        ("severity", plan.severity),
        ("source", plan.source),
        ("where", plan.where),
    ]
    titles += [("job", plan.job)] if plan.job else []
    return [
        (" " + " ".join(fit(title, cells) for title, cells in [*titles, ("what", plan.text)]), theme.HEAD)
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
        where = "fleet" if plan.job or not event.job else f"job {plain(event.job)}"
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


def matches(event: Event, pattern: str) -> bool:
    """Say whether a pattern leaves an event: a part of anything that it says, or with `!` none of it; case is nothing."""
    text = pattern.removeprefix("!").lower()
    said = (event.severity.value, event.source, event.name, event.path, event.job, event.text)
    return not text or any(text in each.lower() for each in said) is not pattern.startswith("!")


class EventList(LineView):
    """Events, one a line; at the newest one, the cursor goes on to newer ones."""

    HELP_TITLE = "Events"
    DEFAULT_CSS = "EventList { height: 1fr; scrollbar-gutter: stable; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "newer event"),
        Binding("down,j", "move(1)", "older event"),
        Binding("pageup", "page(-1)", "page up"),
        Binding("pagedown", "page(1)", "page down"),
        Binding("home,g", "move(-1000000)", "newest event"),
        Binding("end,G", "move(1000000)", "oldest event"),
        Binding("enter", "enter", "go to the event's place, or its job's"),
    ]

    class Changed(Message):
        """Says that a key or click changed the cursor."""

    def __init__(self, monitor: FleetState) -> None:
        super().__init__()
        self._monitor = monitor
        self._found: list[Event] = []
        """What the filter leaves, oldest first."""
        self._looked_at = 0
        """Number of the newest event that the filter has seen."""
        self._chosen = 0
        """Number of the event under the cursor; 0 for the newest, whichever that is."""
        self._row = 0
        self._lost: Event | None = None
        """What the cursor goes to as soon as it is there; None for nothing."""
        self.pattern = ""
        """The filter."""

    @property
    def event(self) -> Event | None:
        """The event under the cursor."""
        return self._found[-1 - self._row] if self._row < len(self._found) else None

    @property
    def row(self) -> int:
        """The cursor's row."""
        return self._row

    @property
    def found(self) -> int:
        """How many events the filter leaves."""
        return len(self._found)

    def filter(self, pattern: str) -> None:
        """Leave what matches a pattern; an empty one leaves everything."""
        if pattern != self.pattern:
            self.pattern = pattern
            self._found.clear()
            self._looked_at = 0
            self.tick()

    def renew(self) -> None:
        """Read all events anew, because another monitor is shown.

        The cursor stays on its event; where that has not happened yet, it is on the one before until it has.
        """
        if self._chosen:
            self.hold()
        self._found.clear()
        self._looked_at = 0

    def hold(self) -> None:
        """Go back to the event under the cursor, should it be gone for a while, unless somebody moves the cursor."""
        self._lost = self._lost or self.event

    def tick(self, limit: int | None = None) -> int:
        """Follow what came, then paint what changed."""
        self._follow()
        return super().tick(limit)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the events in the window."""
        found = self._found
        if not found:
            return [
                text_line([("", theme.QUIET)], width),
                text_line([(self._nothing(), theme.QUIET)], width),
            ]
        plan = EventPlan.of(width)
        made: list[Line] = []
        for number in range(top, min(top + height, len(found))):
            selected = number == self._row
            fill = theme.SELECTED_QUIET if selected else theme.BASE
            made.append(text_line(row(found[-1 - number], plan, selected=selected), width, fill))
        return made

    def _nothing(self) -> str:
        if self.pattern and len(self._monitor.events):
            return f" Nothing matches {plain(self.pattern, 60)}"
        return " No event has come yet; those from before this program began to listen are not kept by the broker"

    def _follow(self) -> None:
        """Take on new events that match, and let go of those that made room."""
        ring = self._monitor.events
        fresh: list[Event] = []
        if ring.received != self._looked_at:
            for event in ring.newest_first():
                if event.number <= self._looked_at:
                    break
                if matches(event, self.pattern):
                    fresh.append(event)
            self._looked_at = ring.received
            gone = 0
            while gone < len(self._found) and self._found[gone].number <= ring.dropped:
                gone += 1
            self._found[:gone] = []
            self._found.extend(reversed(fresh))
            self._look_for_lost()
        self.set_extent(0, len(self._found))
        self._take_row()

    def _look_for_lost(self) -> None:
        """Put the cursor on the event that was lost, or on the last one before it."""
        lost = self._lost
        if lost is None:
            return
        # Numbers and times of arrival are each monitor's own.
        found = next((event for event in reversed(self._found) if event[2:] == lost[2:]), None)
        if found is not None:
            self._lost = None
        else:
            found = next((event for event in reversed(self._found) if event.ts_ns <= lost.ts_ns), None)
        self._chosen = 0 if found is None else found.number

    def _take_row(self) -> None:
        """Find the row of the cursor's event again, or of the next newer one where that is gone."""
        if not self._chosen:
            self._row = 0
            return
        low, high = 0, len(self._found)
        while low < high:
            middle = (low + high) // 2
            if self._found[middle].number < self._chosen:
                low = middle + 1
            else:
                high = middle
        before, self._row = self._row, max(0, len(self._found) - 1 - low)
        if before != self._row and 0 <= before - self.top < self._height():
            # The window goes with the cursor, so that what is read stands still.
            self.scroll_to(y=self.top + self._row - before, animate=False, force=True)

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        if self._found:
            self._point(min(max(self._row + step, 0), len(self._found) - 1))

    def action_page(self, step: int) -> None:
        """Move the cursor by what is visible."""
        self.action_move(step * max(1, self._height() - 1))

    def action_enter(self) -> None:
        """Go where the event happened."""
        event = self.event
        address = self.address_of(event) if event else ""
        if address:
            self.post_message(View.Open(address))

    def address_of(self, event: Event) -> str:
        """Return an event's address: its own, or the first place of its job; empty for the fleet."""
        if event.path:
            return event.path
        job = self._monitor.ingest.jobs.get(event.job)
        return job.on[0].partition("..")[0] if job and job.on else ""

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the event under the pointer; go there on the second click."""
        number = self.top + event.y
        if number < len(self._found):
            self._point(number)
            if event.chain == 2:
                self.action_enter()

    def _point(self, number: int) -> None:
        self._row, self._lost = number, None
        self._chosen = self._found[-1 - number].number if number else 0
        height = self._height()
        if number < self.top:
            self.scroll_to(y=number, animate=False, force=True)
        elif number >= self.top + height:
            self.scroll_to(y=number - height + 1, animate=False, force=True)
        self.tick()
        self.post_message(self.Changed())

    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)
