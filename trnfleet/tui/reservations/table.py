"""The table of reservations: one a line, with a cursor that stays on its reservation, an order and a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from trnfleet.tui import theme
from trnfleet.tui.format.reservations import ReservationPlan, is_ended, matches, row
from trnfleet.tui.widgets.cells import fit
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from textual import events

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.tui.state.highlight import Highlight

SORTS = ("what is next", "idle cost", "utilisation", "id")
"""Orders that `s` goes through; the first is the monitor's."""
NOTHING = (
    " Nothing is reserved here. Reservations come from",
    "",
    "   the simulated fleet's file   [[blocks]], as in config/fleets/demo.toml",
    "   a purchase in the simulator  trnfleet reserve buy --help",
    "   a real AWS account           trnfleet bridge --help",
)
"""What stands there while there is nothing."""
_NOT_FOUND = (" Nothing that is reserved matches. Esc clears the filter.",)


class ReservationTable(LineView):
    """Reservations, one a line; the cursor stays on its reservation."""

    HELP_TITLE = "Reservations"
    DEFAULT_CSS = "ReservationTable { scrollbar-gutter: stable; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up"),
        Binding("down,j", "move(1)", "down"),
        Binding("pageup", "page(-1)", "page up"),
        Binding("pagedown", "page(1)", "page down"),
        Binding("home,g", "move(-1000000)", "first"),
        Binding("end,G", "move(1000000)", "last"),
        Binding("enter", "enter", "pick its part of the fleet out in every view"),
    ]

    class Picked(Message):
        """Asks the app to pick a reservation out in every view."""

        def __init__(self, reservation_id: str) -> None:
            super().__init__()
            self.reservation_id = reservation_id

    class Pointed(Message):
        """The cursor is on another reservation."""

    def __init__(self, monitor: FleetState) -> None:
        super().__init__()
        self._monitor = monitor
        self.highlight: Highlight | None = None
        """What is picked out; the app's."""
        self.pattern = ""
        """The filter."""
        self.sort = 0
        """Index into `SORTS`."""
        self.shown: list[Reservation] = []
        """In the order of the lines."""
        self._chosen = ""
        self._row = 0

    @property
    def chosen(self) -> Reservation | None:
        """The reservation under the cursor."""
        return self.shown[self._row] if self._row < len(self.shown) else None

    @property
    def row(self) -> int:
        """The cursor's row."""
        return self._row

    def point_at(self, reservation_id: str) -> None:
        """Put the cursor on a reservation."""
        self._chosen = reservation_id
        self._follow()
        self._reveal()

    def tick(self, limit: int | None = None) -> int:
        """Follow what changed, then paint it."""
        self._follow()
        return super().tick(limit)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the reservations in the window."""
        if not self.shown:
            texts = _NOT_FOUND if self.pattern else NOTHING
            return [text_line([(fit(text, width), theme.QUIET)], width) for text in texts]
        plan = ReservationPlan.of(width)
        picked = self.highlight.reservation_id if self.highlight else ""
        made: list[Line] = []
        for number in range(top, min(top + height, len(self.shown))):
            each, selected = self.shown[number], number == self._row
            parts = row(each, plan, selected=selected, picked=each.message.id == picked)
            made.append(text_line(parts, width, theme.SELECTED_QUIET if selected else theme.BASE))
        return made

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        if self.shown:
            self.point(min(max(self._row + step, 0), len(self.shown) - 1))

    def action_page(self, step: int) -> None:
        """Move the cursor by what is visible."""
        self.action_move(step * max(1, self._height() - 1))

    def action_enter(self) -> None:
        """Pick the reservation out."""
        if self.chosen is not None:
            self.post_message(self.Picked(self.chosen.message.id))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on what is under the pointer; pick it out on the second click."""
        number = self.top + event.y
        if number < len(self.shown):
            self.point(number)
            if event.chain == 2:
                self.action_enter()

    def _follow(self) -> None:
        table = self._monitor.reservations.table()
        left = [each for each in table if matches(each, self.pattern)] if self.pattern else table
        self.shown = ordered(left, self.sort)
        ids = [each.message.id for each in self.shown]
        if self._chosen in ids:
            self._row = ids.index(self._chosen)
        else:
            self._row = min(self._row, max(0, len(ids) - 1))
            self._chosen = ids[self._row] if ids else ""
        self.set_extent(0, len(self.shown))

    def point(self, number: int) -> None:
        """Put the cursor on a line."""
        self._row, self._chosen = number, self.shown[number].message.id
        self._reveal()
        super().tick()
        self.post_message(self.Pointed())

    def _reveal(self) -> None:
        height = self._height()
        if self._row < self.top:
            self.scroll_to(y=self._row, animate=False, force=True)
        elif self._row >= self.top + height:
            self.scroll_to(y=self._row - height + 1, animate=False, force=True)

    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)


def ordered(table: list[Reservation], sort: int) -> list[Reservation]:
    """Return reservations in one of `SORTS`; what has ended or is not known comes last."""
    if sort == 1:
        return sorted(table, key=lambda each: (is_ended(each), -(each.idle_per_h or 0)))
    if sort == 2:
        known = 1_000.0
        return sorted(
            table, key=lambda each: (is_ended(each), known if each.util_pct is None else each.util_pct)
        )
    if sort == 3:
        return sorted(table, key=lambda each: each.message.id)
    return list(table)
