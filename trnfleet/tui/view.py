"""The contract of app and views: a view shows a place of the fleet, and a place is an address, never a row.

The app decides which view is on the screen and when it may paint; a view decides what it paints. Only the view on the
screen is ticked. A view owns no timers and keeps no rows across layout generations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

if TYPE_CHECKING:
    from trnfleet.tui.state.context import UiContext


FLEET, HIERARCHY, CHIP = "Fleet", "Hierarchy", "Chip"
RESERVATIONS, ALERTS, EVENTS = "Reservations", "Alerts", "Events"
"""Titles of the views, by which they are asked for."""


class View(Widget):
    """One full-screen view between breadcrumbs and status line.

    Subclasses compose their widgets, and give every binding that the help is to list a description (`show` does not matter). Title and
    key stand in `views.VIEWS`.
    """

    DEFAULT_CSS = "View { width: 1fr; height: 1fr; background: $bg; }"

    class Open(Message):
        """A request to the app to go to an address."""

        def __init__(self, address: str, view: str | None = None) -> None:
            super().__init__()
            self.address = address
            """Where to go; the empty address is the fleet."""
            self.view = view
            """Title of the view to go to; None for the usual way deeper (chips and cores: Chip; else Hierarchy)."""

    class GoTo(Message):
        """A request to the app to go to the moment at which something happened."""

        def __init__(self, fleet_ns: int) -> None:
            super().__init__()
            self.fleet_ns = fleet_ns
            """When that was by the fleet's own time, ns since 1970."""

    class Moved(Message):
        """The address under the cursor has changed, for breadcrumbs."""

        def __init__(self, address: str) -> None:
            super().__init__()
            self.address = address

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self.context = context
        self.monitor = context.monitor
        self.clock = context.clock

    @property
    def place(self) -> str:
        """The address under the cursor; the fleet's own (empty) where there is none."""
        return ""

    def show_place(self, address: str) -> None:
        """Put the cursor on an address, or on the nearest thing above it that this view shows.

        Called whenever the view comes onto the screen, and possibly before the address is known to the monitor.
        """

    def renew(self) -> None:
        """Drop caches of the monitor that was shown before; the cursor, order and filter stay.

        Called when another monitor is shown, whether the view is on the screen or not, before it is ticked.
        """

    def tick(self, allowance: int) -> int:
        """Paint what has changed since the last time; return how many lines that were.

        Called some ten times a second while the view is on the screen and something has changed, and once a second
        for ages. Keys paint on their own, at once.

        Args:
            allowance: Lines that the terminal can take now, to be shared out among the view's widgets; the rest
                stays due.
        """
        raise TypeError(f"{type(self).__name__} does not implement tick({allowance})")

    def take_focus(self) -> None:
        """Give the focus to the widget that the keys are meant for: the first that can have it."""
        for widget in self.query("*"):
            if widget.focusable:
                widget.focus(scroll_visible=False)
                return


class FilteredView(View):
    """A view whose `prompt` asks for a pattern; subclasses yield it last, bind `ask` and `clear`, and know the pattern."""

    DEFAULT_CSS = """
    FilteredView Input {
        display: none; height: 1; padding: 0 1; border: none; background: $bg-raised; color: $fg-bright;
    }
    FilteredView.asking Input { display: block; }
    """

    def __init__(self, context: UiContext, *, placeholder: str) -> None:
        super().__init__(context)
        self.prompt = Input(placeholder=placeholder, max_length=120, select_on_focus=False, compact=True)

    @property
    def pattern(self) -> str:
        """The filter; empty where everything is shown."""
        raise TypeError(f"{type(self).__name__} does not implement pattern")

    def filter(self, pattern: str) -> None:
        """Leave what matches a pattern, and paint it."""
        raise TypeError(f"{type(self).__name__} does not implement filter({pattern!r})")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse to clear without a filter, so that Escape is the app's."""
        del parameters
        return action != "clear" or bool(self.pattern) or self.has_class("asking")

    def action_ask(self) -> None:
        self.add_class("asking")
        self.prompt.value = self.pattern
        self.prompt.cursor_position = len(self.prompt.value)
        self.prompt.focus(scroll_visible=False)

    def action_clear(self) -> None:
        self.close_prompt("")

    def close_prompt(self, pattern: str) -> None:
        """Take a pattern, and give the keys back to the view."""
        self.remove_class("asking")
        self.filter(pattern)
        self.take_focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.has_class("asking"):
            self.filter(event.value.strip())

    @on(Input.Submitted)
    def _accepted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close_prompt(event.value.strip())
