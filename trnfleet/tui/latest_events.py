"""The newest events, of publishers, alerts and operators, below the lists of the Fleet view."""

from __future__ import annotations

import heapq
import itertools
import operator
from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.format.alerts import event_address
from trnfleet.tui.view import EVENTS
from trnfleet.tui.widgets.cells import fit, wrapped
from trnfleet.tui.widgets.line_view import Line, LineView, text_line
from trnfleet.tui.widgets.targets import Target, TargetKind, linked

if TYPE_CHECKING:
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.widgets.cells import Parts

LEAST_LATEST = 5
"""Rows of it, at least, and in steps of."""
PLACE = 20
"""Cells of a place: an instance and its chip."""
_BEFORE = 12
"""Cells of time and sign."""
_MOST_LINES = 2
"""Most lines of an event's text below its place."""
ONE_LINE_FROM = 59
"""Least cells for an event in one line. Below it, the text has lines of its own."""


class LatestEvents(LineView, can_focus=False):
    """Events, newest first, in one line or two each.

    A click leads to an event's place.
    """

    DEFAULT_CSS = "LatestEvents { overflow: hidden; }"

    def __init__(self, monitor: FleetState, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._monitor = monitor

    @property
    def received(self) -> int:
        """How many events there have been; goes up with each."""
        ingest = self._monitor.ingest
        return ingest.events.received + ingest.alert_events.received

    def rows_wanted(self, width: int) -> int:
        """Return the rows of all events, in steps."""
        ingest = self._monitor.ingest
        number = (len(ingest.events) + len(ingest.alert_events)) * (
            1 if width >= ONE_LINE_FROM else 2
        )
        return -(-max(1, number) // LEAST_LATEST) * LEAST_LATEST

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        del top
        ingest = self._monitor.ingest
        rings = (ingest.events.newest_first(), ingest.alert_events.newest_first())
        newest = heapq.merge(*rings, key=operator.attrgetter("order"), reverse=True)
        made: list[Line] = []
        for event in itertools.islice(newest, height):
            address = event_address(event, self._monitor.alerts)
            told = event_lines(event, width - 1, address, height - len(made))
            made += [text_line(parts, width) for parts in told]
            if len(made) >= height:
                break
        none = " loading events …" if self._monitor.incomplete == LOADING else " no events yet"
        return made or [text_line([(none, theme.QUIET)], width)]


def event_lines(
    event: Event, width: int, address: str = "", most: int = _MOST_LINES + 1
) -> list[Parts]:
    """Return an event's line, or more if narrow: time, sign, place and text.

    Args:
        event: The event.
        width: Cells.
        address: Target of a click; empty for the list of events.
        most: Lines available.
    """
    place = plain(last_segments(event.path) or event.job or event.subject) or "fleet"
    target = Target(TargetKind.PLACE, address) if address else Target(TargetKind.VIEW, EVENTS)
    head: Parts = [
        (f" {format_rfc3339(event.ts_ns)[11:19]} ", theme.QUIET),
        (f"{theme.SEVERITY_GLYPH[event.severity]} ", theme.SEVERITY_STYLE[event.severity]),
    ]
    happened = plain(event.text, 256)
    if width >= ONE_LINE_FROM:
        room = max(1, width - PLACE - _BEFORE - 1)
        lines = [[*head, (f"{fit(place, PLACE)} ", theme.BASE), (fit(happened, room), theme.QUIET)]]
    else:
        room = max(1, width - _BEFORE)
        indent = " " * min(_BEFORE, max(0, width - 1))
        texts = [
            text for text in wrapped(happened, room, min(_MOST_LINES, most - 1)) if text.strip()
        ]
        lines = [
            [*head, (fit(place, room), theme.BASE)],
            *([(indent, theme.QUIET), (text, theme.QUIET)] for text in texts),
        ]
    return [[(text, linked(style, target)) for text, style in parts] for parts in lines]
