"""The timeline's widget: the table's reservations over time, zoomed and panned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui import theme
from trnfleet.tui.reservations import timeline
from trnfleet.tui.reservations.timeline import DEFAULT_ZOOM, LABEL, Watched, Window
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from textual import events

    from trnfleet.tui.reservations.table import ReservationTable
    from trnfleet.tui.state.context import UiContext

FRESH_S = 1.0
"""Wall seconds for which the hours of a reservation are not asked for again; longer where there are more than `FEW_HOURS`."""
FEW_HOURS = 400
MOST_HOURS_A_TICK = 4_000
"""Hours that are asked for again in one tick: about 8 ms. What has never been asked for comes at once."""
MOST_KEPT = 256
"""Reservations whose hours are kept: more than any screen has lines."""


class TimelineView(LineView, can_focus=False):
    """The table's reservations over time, in its order."""

    DEFAULT_CSS = "TimelineView { scrollbar-gutter: stable; overflow-x: hidden; }"

    def __init__(self, context: UiContext, table: ReservationTable) -> None:
        super().__init__()
        self._monitor = context.monitor
        self._clock = context.clock
        self._watched: dict[str, tuple[float, Watched]] = {}
        """How visible reservations were used, and when that was asked for."""
        self._asked = 0
        """Hours that were asked for in this tick."""
        self._table = table
        self.zoom = DEFAULT_ZOOM
        """Index into `CELLS_S`."""
        self.pan = 0
        """Cells from where now is at its place."""

    @property
    def cells(self) -> int:
        """Cells of time in a line."""
        return max(1, self.scrollable_content_region.width - LABEL - 1)

    def window(self) -> Window:
        """Return what part of time is on the screen."""
        return Window.of(self._monitor.moment().time_ns, self.zoom, self.pan, self.cells)

    def rezoom(self, zoom: int) -> None:
        """Choose another length of cells; what is at the window's middle stays there, now where it is in the window."""
        window = self.window()
        if zoom == self.zoom:
            return
        if not self.pan:
            self.zoom = zoom
            return
        middle_ns = window.begin_of(self.cells // 2)
        self.zoom, self.pan = zoom, 0
        self.pan = self.window().cell_of(middle_ns) - self.cells // 2

    def watched(self, reservation_id: str) -> Watched:
        """Return how a reservation was used, as of a moment ago."""
        now_s = self._clock.monotonic_s()
        kept = self._watched.get(reservation_id)
        if kept is not None:
            hours = len(kept[1].hours)
            if now_s - kept[0] < FRESH_S * max(1.0, hours / FEW_HOURS) or self._asked >= MOST_HOURS_A_TICK:
                return kept[1]
        if len(self._watched) >= MOST_KEPT:
            self._watched.clear()
        fresh = Watched.of(self._monitor.reservations.usage(reservation_id))
        self._asked += len(fresh.hours)
        self._watched[reservation_id] = now_s, fresh
        return fresh

    def renew(self) -> None:
        """Drop what is kept: another monitor is shown."""
        self._watched.clear()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on what is under the pointer."""
        number = self.top + event.y
        if number < len(self._table.rows):
            self._table.point(number)

    def tick(self, limit: int | None = None) -> int:
        """Keep the table's cursor in the window, and paint what changed."""
        self._asked = 0
        shown = self._table.rows
        self.set_extent(0, len(shown))
        height = max(1, self.scrollable_content_region.height)
        top = min(max(self.top, self._table.row - height + 1), self._table.row)
        if top != self.top:
            self.scroll_to(y=top, animate=False, force=True)
        return super().tick(limit)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the reservations in the window."""
        window = self.window()
        made: list[Line] = []
        for number in range(top, min(top + height, len(self._table.rows))):
            each = self._table.rows[number]
            watched = self.watched(each.message.id)
            parts = timeline.line(each, watched, window, selected=number == self._table.row)
            made.append(text_line(parts, width))
        if self._table.rows and len(made) < height:
            made.append(text_line([(" " * (LABEL + 1) + timeline.LEGEND, theme.GHOST)], width))
        return made
