"""The contract of app and views: a view shows a place of the fleet, and a place is an address, never a row.

The app decides which view is on the screen and when it may paint; a view decides what it paints. Only the view on the
screen is ticked. A view owns no timers and keeps no rows across layout generations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.message import Message
from textual.widget import Widget

from trnfleet.domain.filters.language import EVERYTHING, parse
from trnfleet.errors import ConfigError
from trnfleet.text import plain
from trnfleet.tui.snapshots.table import Table
from trnfleet.tui.state.subjects import of_place
from trnfleet.tui.widgets.filter_prompt import FilterPrompt
from trnfleet.tui.widgets.focus import focus_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.dom import DOMNode

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.domain.filters.language import Filter
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.state.subjects import Subject


FLEET, HIERARCHY, CHIP = "Fleet", "Hierarchy", "Chip"
RESERVATIONS, ALERTS, EVENTS = "Reservations", "Alerts", "Events"
"""Titles of the views, by which they are asked for."""
SHOWN = "-shown"
"""Style class of the view that is on the screen."""


class Lists(NamedTuple):
    """What a view lists."""

    problems: bool = False
    events: bool = False


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

    class OpenFleet(Message):
        """A request to the app to go to another fleet."""

        def __init__(self, fleet: str, address: str | None = None, view: str | None = None) -> None:
            super().__init__()
            self.fleet = fleet
            """Its name."""
            self.address = address
            """Where to go in it; None for where one was last."""
            self.view = view
            """Title of the view to go to; None for the usual one for the address, or the one on the screen without one."""

    class OpenReservation(Message):
        """A request to the app to go to a reservation."""

        def __init__(self, reservation_id: str) -> None:
            super().__init__()
            self.reservation_id = reservation_id

    class PickReservation(Message):
        """A request to the app to pick out what a reservation holds, in all views."""

        def __init__(self, reservation_id: str) -> None:
            super().__init__()
            self.reservation_id = reservation_id

    class GoTo(Message):
        """A request to the app to go to the moment at which something happened."""

        def __init__(self, fleet_ns: int, *, is_after: bool = False) -> None:
            super().__init__()
            self.fleet_ns = fleet_ns
            """When that was by the fleet's own time, ns since 1970."""
            self.is_after = is_after
            """Whether to go to just after it, so that it is there; else a little before it, to see it happen."""

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

    def on_mount(self) -> None:
        """Take the keys, where the view is opened for the first time."""
        if self.has_class(SHOWN):
            self.take_focus()

    @property
    def place(self) -> str:
        """The address under the cursor; the fleet's own (empty) where there is none."""
        return ""

    @property
    def subject(self) -> Subject:
        """What `a` and `z` act on: what is at the cursor's address, where a view has nothing else there."""
        return of_place(self.context.alerts, self.place)

    @property
    def subject_context(self) -> UiContext:
        """The fleet that `subject` is of."""
        return self.context

    @property
    def lists(self) -> Lists:
        """What it lists of its own, and so is no news beside the breadcrumbs."""
        return Lists()

    def export(self) -> Table:
        """Return its rows, as a filter leaves them and in their order, with all that is known of each; an empty one for a view without rows."""
        return Table()

    @property
    def orders(self) -> tuple[str, ...]:
        """Names of the orders that its rows can have; empty for a view with one order."""
        return ()

    def put_in_order(self, order: str) -> None:
        """Put the rows in one of `orders`, and paint them."""
        raise TypeError(f"{type(self).__name__} does not implement put_in_order({order!r})")

    def show_place(self, address: str) -> None:
        """Put the cursor on an address, or on the nearest thing above it that this view shows.

        Called whenever the view comes onto the screen, and possibly before its widgets are mounted, or the address is known to the
        monitor.
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
                focus_on(widget)
                return


class FilteredView(View):
    """A view whose `prompt` asks for a filter; subclasses yield it last, bind `ask` and `clear`, and take the filter."""

    DEFAULT_CSS = "FilteredView.asking FilterPrompt { display: block; }"

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.prompt = FilterPrompt(self.close_prompt)
        self.wanted = EVERYTHING
        """The filter; the last one without a mistake."""
        self.problem = ""
        """The mistake in what was typed, in a line; empty for none."""

    @property
    def pattern(self) -> str:
        """The filter as it was typed; empty where everything is shown."""
        return self.wanted.typed

    def columns(self) -> Columns:
        """Return the columns that rows can be compared by."""
        raise TypeError(f"{type(self).__name__} does not implement columns()")

    def take_filter(self, wanted: Filter) -> None:
        """Leave what a filter leaves, and paint it."""
        raise TypeError(f"{type(self).__name__} does not implement take_filter({wanted})")

    def found_text(self) -> str:
        """Return how many the filter leaves, in words."""
        raise TypeError(f"{type(self).__name__} does not implement found_text()")

    def filter(self, pattern: str) -> None:
        """Leave what a typed filter leaves; one with a mistake leaves what was left before, and says what is wrong."""
        columns = self.columns()
        try:
            wanted = parse(pattern, columns)
        except ConfigError as error:
            self.problem = plain(str(error))
        else:
            self.problem = ""
            if wanted != self.wanted or wanted.typed != self.wanted.typed:
                self.wanted = wanted
                self.take_filter(wanted)
        self.prompt.say(self.problem, self.found_text() if self.wanted else "", columns.names)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse to clear without a filter, so that Escape is the app's."""
        del parameters
        return action != "clear" or bool(self.pattern) or self.has_class("asking")

    def action_ask(self) -> None:
        self.add_class("asking")
        self.problem = ""
        self.prompt.open(self.pattern)
        self.prompt.say("", self.found_text() if self.wanted else "", self.columns().names)

    def action_clear(self) -> None:
        self.close_prompt("")

    def close_prompt(self, pattern: str) -> None:
        """Take a filter, and give the keys back to the view; one with a mistake keeps the prompt open."""
        self.filter(pattern)
        if self.problem and self.has_class("asking"):
            return
        self.remove_class("asking")
        self.take_focus()

    @on(FilterPrompt.Changed)
    def _typed(self, event: FilterPrompt.Changed) -> None:
        event.stop()
        if self.has_class("asking"):
            self.filter(event.text)


def shown_nodes(node: DOMNode) -> Iterator[DOMNode]:
    """Iterate over a node and what is in it, top down, without what is in views that are not on the screen."""
    yield node
    if not isinstance(node, View) or node.has_class(SHOWN):
        for child in node.children:
            yield from shown_nodes(child)
