"""The contract between app and views.

A view shows a place of the fleet. A place is an address, never a row. The app decides which view is
on the screen and when it may paint; the view decides the contents. Only the view on the screen is
ticked. A view owns no timers and stores no rows across layout generations.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from textual import on
from textual.message import Message
from textual.widget import Widget

from trnfleet.domain.filters.language import EVERYTHING, Filter, parse
from trnfleet.errors import ConfigError
from trnfleet.text import plain
from trnfleet.tui.keys import bind
from trnfleet.tui.snapshots.table import ExportTable
from trnfleet.tui.state.subjects import Subject, of_place
from trnfleet.tui.widgets.focus import focus_on
from trnfleet.tui.widgets.prompt import FilterPrompt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from textual.binding import Binding
    from textual.dom import DOMNode

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cursor_list import CursorList


FLEET = "Fleet"
HIERARCHY = "Hierarchy"
TOPOLOGY = "Topology"
CHIP = "Chip"
JOBS = "Jobs"
POWER = "Power"
RESERVATIONS = "Reservations"
ALERTS = "Alerts"
EVENTS = "Events"
"""Titles of views, used in requests."""
CHARTS_FROM = 120
"""Least cells of a view for charts in rows that its list leaves."""
LEAST_LIST = 8
"""Least rows of a list above charts."""
NOTE_S = 8.0
"""Seconds for a note."""
_STEP = 4
SHOWN = "-shown"
"""Style class of the view on the screen."""


L = TypeVar("L", bound="CursorList[Any]")


class Lists(NamedTuple):
    """Kinds of entries listed by a view."""

    problems: bool = False
    events: bool = False


class View(Widget):
    """One full-screen view between breadcrumbs and status line.

    Subclasses compose their widgets, and give every binding that the help is to list a description
    (`show` does not matter). Title and key stand in `views.VIEWS`.
    """

    DEFAULT_CSS = "View { width: 1fr; height: 1fr; background: $bg; }"
    ORDERS: ClassVar[tuple[str, ...]] = ()
    """Names of its sort orders."""
    sorted_list: CursorList[Any]
    """The list in one of these orders."""

    @dataclass
    class Open(Message):
        """A request to the app to go to an address."""

        address: str
        """Where to go; the empty address is the fleet."""
        view: str | None = None
        """Title of the view; None for the default: Chip for chips and cores, else Hierarchy."""

    @dataclass
    class OpenFleet(Message):
        """A request to the app to go to another fleet."""

        fleet: str
        """Its name."""
        address: str | None = None
        """Where to go in it; None for where one was last."""
        view: str | None = None
        """Title of the view. None for the address's default, or the current view without an
        address."""

    @dataclass
    class OpenReservation(Message):
        """A request to the app to go to a reservation."""

        reservation_id: str

    @dataclass
    class PickReservation(Message):
        """A request to the app to highlight a reservation's instances in all views."""

        reservation_id: str

    @dataclass
    class GoTo(Message):
        """A request to the app to pause where an occurrence has just happened."""

        fleet_ns: int
        """Its fleet time, ns since 1970."""

    @dataclass
    class Moved(Message):
        """The address under the cursor has changed, for breadcrumbs."""

        address: str

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
        """The address under the cursor; empty (the fleet) without one."""
        return ""

    @property
    def subject(self) -> Subject:
        """The subject of `a` and `z`: the entity at the cursor's address by default."""
        return of_place(self.context.alerts, self.place)

    @property
    def subject_context(self) -> UiContext:
        """The fleet of `subject`."""
        return self.context

    @property
    def lists(self) -> Lists:
        """Its own lists; their entries are no news beside the breadcrumbs."""
        return Lists()

    def export(self) -> ExportTable:
        """Return its filtered rows in order, with all known figures.

        Empty for a view without rows.
        """
        return ExportTable()

    @property
    def compared(self) -> tuple[str, CursorList[Any] | None]:
        """What its list has, and the list whose rows `export` has in order, to compare two rows.

        Without a list, places are compared.
        """
        return "", None

    @property
    def orders(self) -> tuple[str, ...]:
        """Names of its present sort orders."""
        return self.ORDERS

    def put_in_order(self, order: str) -> None:
        """Put the rows in one of `orders`, and paint them."""
        self.sorted_list.order = order
        self.tick()
        self.sorted_list.to_top()

    def action_sort_by(self, order: str) -> None:
        """Sort by one of the orders."""
        self.put_in_order(order)

    def action_sort(self) -> None:
        """Put the rows in the next order."""
        orders = self.orders
        if orders:
            place = orders.index(self.sorted_list.order)
            self.put_in_order(orders[(place + 1) % len(orders)])

    def show_place(self, address: str) -> None:
        """Move the cursor to an address, or to its nearest visible ancestor.

        Called whenever the view comes onto the screen, possibly before its widgets are mounted or
        the address is known to the monitor.
        """

    def renew(self) -> None:
        """Drop caches of the monitor that was shown before; the cursor, order and filter stay.

        Called when another monitor is shown, whether the view is on the screen or not, before it is
        ticked.
        """

    def tick(self) -> None:
        """Paint changes since the last time.

        Called some ten times a second while the view is on the screen and something has changed,
        and once a second for ages. Keys paint on their own, at once.
        """

    def take_focus(self) -> None:
        """Focus the widget for the keys: the first focusable one."""
        for widget in self.query("*"):
            if widget.focusable:
                focus_on(widget)
                return


class FilteredView(View):
    """A view with a `prompt` for a filter.

    Subclasses yield it last, bind `ask` and `clear`, and apply the filter.
    """

    DEFAULT_CSS = "FilteredView.asking FilterPrompt { display: block; }"

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.prompt = FilterPrompt(self.close_prompt)
        self.wanted = EVERYTHING
        """The filter; the last one without a mistake."""
        self.problem = ""
        """The mistake in the typed filter, in a line; empty for none."""

    @property
    def pattern(self) -> str:
        """The filter as it was typed; empty where everything is shown."""
        return self.wanted.typed

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns for comparisons of rows."""

    @abstractmethod
    def take_filter(self, query: Filter) -> None:
        """Apply a filter and paint."""

    @abstractmethod
    def found_text(self) -> str:
        """Return how many the filter leaves, in words."""

    def filter(self, pattern: str) -> None:
        """Apply a typed filter.

        One with a mistake changes no rows and shows the mistake.
        """
        columns = self.columns()
        try:
            query = parse(pattern, columns)
        except ConfigError as error:
            self.problem = plain(str(error))
        else:
            self.problem = ""
            if query != self.wanted or query.typed != self.wanted.typed:
                self.wanted = query
                self.take_filter(query)
        self.tell_found()

    def tell_found(self) -> None:
        """Show the mistake in the prompt, or the number of matches.

        Heads of lists show the same number.
        """
        self.prompt.say(
            self.problem, self.found_text() if self.wanted else "", self.columns().names
        )

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Refuse to clear without a filter.

        Escape then is the app's.
        """
        return action != "clear" or bool(self.pattern) or self.has_class("asking")

    def action_ask(self) -> None:
        self.add_class("asking")
        self.problem = ""
        self.prompt.open(self.pattern)
        self.tell_found()

    def action_clear(self) -> None:
        self.close_prompt("")

    def close_prompt(self, pattern: str) -> None:
        """Apply a filter and return the keys to the view.

        A filter with a mistake leaves the prompt open.
        """
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


class TabbedView(FilteredView, Generic[L]):
    """A view with tabs, each with a list; several tabs may have the same one."""

    DEFAULT_CSS = """
    TabbedView CursorList { display: none; }
    TabbedView CursorList.shown { display: block; }
    """

    def __init__(self, context: UiContext, tab_lists: Mapping[str, L]) -> None:
        super().__init__(context)
        self.tab_lists = tab_lists
        self.tab = next(iter(tab_lists))

    @property
    def current(self) -> L:
        """The list of the tab on the screen."""
        return self.tab_lists[self.tab]

    def on_mount(self) -> None:
        self.show_tab()

    def show_tab(self) -> None:
        """Show the list of the tab."""
        for tab_list in self.tab_lists.values():
            tab_list.set_class(tab_list is self.current, "shown")

    def take_focus(self) -> None:
        """Focus the tab's list."""
        focus_on(self.current)

    def action_tab(self, step: int) -> None:
        """Go to the next or previous tab."""
        tabs = list(self.tab_lists)
        self.tab = tabs[(tabs.index(self.tab) + step) % len(tabs)]
        self.show_tab()
        self.tick()
        self.take_focus()


def in_steps(rows: int) -> int:
    """Return rows rounded up to a step, so that a new row seldom moves what is below."""
    return -(-rows // _STEP) * _STEP


def sort_key(order: str, words: str = "", name: str = "") -> Binding:
    """Return the key of a sort order, with words and a name if the order's own is not enough."""
    name = (name or order).lower().replace(" ", "-").replace("/", "-")
    return bind(f"sort-{name}", f"sort_by({order!r})", f"sort by {words or order}")


def filter_keys(words: str) -> tuple[Binding, Binding]:
    """Return the keys of a filter.

    Args:
        words: Description of the filter, with examples.
    """
    return (
        bind("filter", "ask", words),
        bind("escape", "clear", "clear the filter"),
    )


def tab_keys(words: str) -> tuple[Binding, Binding]:
    """Return the keys for the tabs with these names."""
    return (
        bind("next-tab", "tab(1)", f"next of: {words}"),
        bind("previous-tab", "tab(-1)", "previous of these"),
    )


def shown_nodes(node: DOMNode) -> Iterator[DOMNode]:
    """Iterate over a node and its content, top down, without hidden views."""
    yield node
    if not isinstance(node, View) or node.has_class(SHOWN):
        for child in node.children:
            yield from shown_nodes(child)
