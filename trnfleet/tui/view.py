"""What the app and its views agree on: a view shows a place of the fleet, and a place is an address, never a row.

The app decides which view is on the screen and when it may paint; a view decides what it paints. Only the view on the
screen is ticked. A view owns no timers and keeps no rows across layout generations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.message import Message
from textual.widget import Widget

from trnfleet.tui.state.alerts import AlertBoard

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.replay.playback import Deck
    from trnfleet.tui.state.highlight import Highlight


FLEET, HIERARCHY, CHIP = "Fleet", "Hierarchy", "Chip"
RESERVATIONS, ALERTS, EVENTS = "Reservations", "Alerts", "Events"
"""Titles of the views, by which they are asked for."""


class View(Widget):
    """One full-screen view between breadcrumbs and status line.

    Subclasses compose their widgets, name themselves in `title` and `key`, and give every binding that the help is to
    list a description (`show` does not matter). `title` is what other toolkits call name, which Textual has taken.
    """

    DEFAULT_CSS = "View { width: 1fr; height: 1fr; background: #0e1116; }"

    title: ClassVar[str] = ""
    """Its title, such as `Fleet`; also what `Open.view` means."""
    key: ClassVar[str] = ""
    """The number key that opens it."""

    class Open(Message):
        """Asks the app to go to an address."""

        def __init__(self, address: str, view: str | None = None) -> None:
            super().__init__()
            self.address = address
            """Where to go; the empty address is the fleet."""
            self.view = view
            """Title of the view to go to; None for the usual way deeper (chips and cores: Chip; else Hierarchy)."""

    class GoTo(Message):
        """Asks the app to go to the moment at which something happened."""

        def __init__(self, fleet_ns: int) -> None:
            super().__init__()
            self.fleet_ns = fleet_ns
            """When that was by the fleet's own time, ns since 1970."""

    class Moved(Message):
        """Says that the address under the cursor has changed, for breadcrumbs."""

        def __init__(self, address: str) -> None:
            super().__init__()
            self.address = address

    def __init__(self, monitor: FleetState, clock: Clock) -> None:
        """Make the view of a monitor.

        Args:
            monitor: What is shown; another one may be behind it at any time.
            clock: The real one, which paces painting; ages go by the monitor's own.
        """
        super().__init__()
        self.monitor = monitor
        self.clock = clock
        self.highlight: Highlight | None = None
        """What is picked out in every view; the app's."""
        self.alert_board = AlertBoard(monitor)
        """What there is of alerts; the app's."""
        self.deck: Deck | None = None
        """What goes back in time; the app's, None where there is none."""

    def set_highlight(self, highlight: Highlight) -> None:
        """Take the app's highlight, which all views share."""
        self.highlight = highlight

    def set_board(self, board: AlertBoard) -> None:
        """Take the app's board of alerts, which all views share."""
        self.alert_board = board

    @property
    def place(self) -> str:
        """The address under the cursor; the fleet's own (empty) where there is none."""
        return ""

    def show_place(self, address: str) -> None:
        """Put the cursor on an address, or on the nearest thing above it that this view shows.

        Called whenever the view comes onto the screen, and possibly before the address is known to the monitor.
        """

    def renew(self) -> None:
        """Drop what is kept of the monitor that was shown before; the cursor, order and filter stay.

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
