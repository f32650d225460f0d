"""The tree-table's lines: cursor, expansion, sort order, filter.

The cursor is an address: it stays on its entity when order or layout change. `rows` makes the texts
of rows, `index` maps rows to nodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.filters.language import EVERYTHING, Filter, hint
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.hierarchy import columns
from trnfleet.tui.hierarchy.index import (
    Expansion,
    Flat,
    FlatIndex,
    TreeIndex,
    TreeSelection,
    address_in,
    find_node,
    fleet_key,
    node_path,
    row_key,
)
from trnfleet.tui.hierarchy.rows import FleetTreeRows, triangle_at
from trnfleet.tui.keys import bind
from trnfleet.tui.metric_display import TREE
from trnfleet.tui.state.chip_table import CHIP_COLUMNS, ChipTable
from trnfleet.tui.state.leases import open_chips
from trnfleet.tui.view import View
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.line_view import Line, text_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from textual import events
    from textual.binding import BindingType

    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.state.descriptors import Descriptions

RESORT_EVERY_S = 1.0
"""Siblings sorted by living values change places at most so often."""
_SEARCHED_ROWS = 200
"""Rows from the top searched for a filter's first match. Its ancestors have rows above it."""
SMALL_FLEET = 40
"""Fleets up to this number of instances start expanded to instances."""


class TreeTable(CursorList[str]):
    """The rows of the tree; the key of a row is its address."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("right", "open", "Expand", show=False),
        bind("left", "close", "Collapse", show=False),
        bind("enter", "enter", "Open; the chip's own view on a chip"),
        bind("open-all", "all", "Open or close everything below"),
        bind("open-level", "level", "Open one more level of everything below", show=False),
        bind("sort", "sort(1)", "Sort by next column"),
        bind("reverse-sort", "reverse", "Reverse the sort"),
    ]

    def __init__(self, context: UiContext, descriptions: Descriptions) -> None:
        super().__init__()
        self._ui = context
        self._monitor = context.monitor
        self._frame = context.frame
        self._texts = FleetTreeRows(context, descriptions)
        self._is_shut = False
        """Whether the tree is closed, with several fleets."""
        self._expansion = Expansion()
        self._found_expansion: Expansion | None = None
        self._selection: TreeSelection | None = None
        self._index = TreeIndex(EMPTY_LAYOUT, self._expansion)
        self._sorted_s = 0.0
        self._reveal_due = False
        self.sorting = columns.Sorting()
        self._chips = ChipTable(context.monitor, context.alerts)
        self.wanted = EVERYTHING
        """The filter."""
        self.flat: Flat | None = None
        """The flat list that is shown; None for the tree."""

    @property
    def pattern(self) -> str:
        """The filter as it was typed; empty for none."""
        return self.wanted.typed

    @property
    def searches_chips(self) -> bool:
        """Whether the filter looks for chips, rather than instances."""
        return self._selection is not None and self._selection.depth is Level.CHIP

    @property
    def plan(self) -> columns.TreePlan:
        announced = self._frame.summary.announced
        unknown = [shown.field.key for shown in TREE if not announced.knows(shown.field.parts)]
        if len(set(self._monitor.ingest.publishers.sources().values())) < 2:
            unknown.append(columns.SOURCE)
        choice = self._ui.fleets.columns.columns_of(self._monitor.fleet_name)
        preferred = frozenset(key for key, is_shown in choice.items() if is_shown)
        left_out = frozenset(unknown).union(choice) - preferred
        return columns.plan(self.line_width, left_out, self.sorting.key, preferred)

    @property
    def mean_s(self) -> float:
        """Seconds of fleet time averaged in rows above chips; 0 if not averaged."""
        return self._frame.averages.seconds

    @property
    def is_sped_up(self) -> bool:
        """Whether the fleet's time runs at another speed than the wall clock."""
        return self._monitor.moment().speed != 1.0

    @property
    def index(self) -> TreeIndex:
        return self._index

    @property
    def cursor(self) -> str:
        """The address under the cursor; empty without rows and on a fleet's row."""
        return address_in(self._key or "")

    @property
    def fleet(self) -> UiContext | None:
        """The fleet of the row under the cursor; None on any other row."""
        here = self._index.at(self._row)
        return None if here is None or here.fleet is None else self._ui.fleets.contexts[here.fleet]

    @property
    def count(self) -> int:
        return self._index.rows

    def row_key(self, number: int) -> str:
        here = self._index.at(number)
        return self._key or "" if here is None else row_key(self._index.layout, here)

    def find(self, key: str) -> int:
        """Return the row of an address, or of its nearest visible ancestor."""
        return self._index.nearest(key)

    @property
    def matches(self) -> int:
        """How many instances (or chips) the filter leaves."""
        return self._selection.matches if self._selection else 0

    # What is shown

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        self.follow_layout()
        rows = self._index.window(top, height)
        if not rows:
            return self._nothing(width)
        here = self._index.at(self._row)
        made = self._texts.parts(rows, self.plan, here)
        return [
            text_line(parts, width, theme.SELECTED_QUIET if number == self._row else theme.BASE)
            for number, parts in enumerate(made, top)
        ]

    def tick(self) -> None:
        """Apply a changed layout and order, then repaint changed lines."""
        if self._behind() and self._painted:
            # The roll-ups of a new layout are not there yet; what is on the screen stands a moment
            # longer.
            return
        self.follow_layout()
        if self._ui.clock.monotonic_s() - self._sorted_s >= RESORT_EVERY_S:
            if ChipTable.is_living(self.wanted):
                # Values pass limits, jobs move on.
                self._rebuild(self._monitor.store.layout)
            elif self.sorting.key != columns.NAME:
                self._resort()
        super().tick()

    def renew(self) -> None:
        """Drop caches, and repaint everything at the next tick: another monitor is shown."""
        self._texts.own.renew()
        # What is on the screen is another time's, so that it may not stand until there are
        # roll-ups.
        self._painted.clear()
        self._sorted_s = -math.inf

    def _behind(self) -> bool:
        store = self._monitor.store
        rollups = self._frame.rollups
        return bool(store.layout.instances) and rollups.generation != store.generation

    def _nothing(self, width: int) -> list[Line]:
        also = f"; {words}" if (words := hint(self.pattern, CHIP_COLUMNS)) else ""
        text = (
            f" Nothing matches {plain(self.pattern)}{also}"
            if self.wanted
            else " Waiting for descriptors of the fleet"
        )
        return [text_line((("", theme.QUIET),), width), text_line(((text, theme.QUIET),), width)]

    # Following what changes

    def follow_layout(self) -> None:
        layout = self._monitor.store.layout
        has_fleets = self._index.fleets.total == self._texts.rows_of_fleets(is_shut=False).total
        if layout is self._index.layout and (has_fleets or self.flat is not None):
            return
        is_first = not self._index.layout.instances and self._expansion == Expansion()
        if is_first and 0 < len(layout.instances) <= SMALL_FLEET:
            self._expansion.set_depth("", Level.INSTANCE)
        self._rebuild(layout)

    def _rebuild(self, layout: Layout) -> None:
        """Index a layout, with the filter."""
        was_visible = self._is_visible()
        self._selection = self._select(layout)
        if self._selection is None:
            self._found_expansion = None
        elif self._found_expansion is None:
            self._found_expansion = Expansion({"": self._selection.depth})
        fleets = self._texts.rows_of_fleets(is_shut=self._is_shut and self._selection is None)
        self._index = (
            TreeIndex(
                layout,
                self._found_expansion or self._expansion,
                self._selection,
                self._order,
                fleets,
            )
            if self.flat is None
            else FlatIndex(layout, self.flat, self._selection, self._order)
        )
        self._sorted_s = self._ui.clock.monotonic_s()
        if self._reveal_due and layout.find(self.cursor) is not None:
            self._reveal_due = False
            self._index.reveal(self.cursor)
        self._take_row(keep_visible=was_visible)

    def _select(self, layout: Layout) -> TreeSelection | None:
        matches = self._chips.select(self.wanted) if layout.chips else None
        return None if matches is None else TreeSelection.build(layout, *matches)

    def _resort(self) -> None:
        was_visible = self._is_visible()
        self._sorted_s = self._ui.clock.monotonic_s()
        self._index.resort()
        self._take_row(keep_visible=was_visible)

    def _is_visible(self) -> bool:
        return 0 <= self._row - self.top < max(1, self.lines_size().height)

    def _take_row(self, *, keep_visible: bool) -> None:
        """Find the cursor's row again, and the extent."""
        self.set_extent(0, self._index.rows)
        node = find_node(self._index.layout, self.cursor)
        if self.flat is None or (node is not None and self._index.row_of(node) is not None):
            self._row = self._index.nearest(self._key or "")
        else:
            # What has left a list of the first few is no longer meant by the cursor.
            self._row = max(0, min(self._row, self._index.rows - 1))
            self._key = None
        if not self._key:
            self._take_cursor()
        if keep_visible:
            self.reveal()

    def _take_cursor(self) -> None:
        """Take on the address of the cursor's row."""
        before = self.cursor
        self._key = self.row_key(self._row)
        if before != self.cursor:
            self.post_message(View.Moved(self.cursor))

    def _order(self, level: Level, numbers: NDArray[np.int64]) -> NDArray[np.intp] | None:
        key, descending = self.sorting
        if self._index.layout is not self._monitor.store.layout:
            # The rows are of a layout whose values are gone; the next tick makes new ones.
            return None
        if level is Level.CORE:
            # In their physical order, which the pairs of logical cores go by.
            return None
        if key == columns.NAME:
            return np.arange(len(numbers))[::-1] if descending else None
        values = self._texts.own.values(key, level, numbers)
        # What is not known stays last either way.
        return np.argsort(-values if descending else values, kind="stable")

    # Where the cursor goes

    def point(self, number: int) -> None:
        """Move the cursor to a row, or to the nearest one.

        Scroll to it and report the change.
        """
        self._row = max(0, min(self._index.rows - 1, number))
        self._take_cursor()
        before = self.top
        self.reveal()
        # A window that moved has been painted by that.
        self._paint(is_done=self.top != before)

    def show_address(self, path: str) -> None:
        """Move the cursor to an address and open its ancestors.

        An unknown address is awaited.
        """
        self.follow_layout()
        if not path or path == self.cursor:
            self.reveal()
            return
        node = find_node(self._index.layout, path)
        is_left = self.flat is not None and (node is None or self._index.row_of(node) is None)
        self._key = path
        self._is_shut = False
        if is_left:
            self.flat = None
        if self._index.fleets.is_shut or is_left:
            self._rebuild(self._monitor.store.layout)
        known = self._index.layout.find(path) is not None
        self._reveal_due = not known
        if known:
            self._index.reveal(path)
        self._take_row(keep_visible=True)
        self.tick()

    def reveal(self) -> None:
        """Scroll the cursor into the window at once."""
        height = self.lines_size().height
        if height <= 0:
            return
        if self._row < self.top:
            self.scroll_to(y=self._row, animate=False, force=True, immediate=True)
        elif self._row >= self.top + height:
            self.scroll_to(y=self._row - height + 1, animate=False, force=True, immediate=True)

    def resized(self) -> None:
        """Keep the cursor on the screen."""
        self.reveal()

    # What can be asked for

    def filter(self, wanted: Filter) -> None:
        """Show only the matches of a filter and their ancestors.

        An empty filter shows everything.
        """
        self.wanted = wanted
        self._found_expansion = None
        self._rebuild(self._monitor.store.layout)
        if not wanted:
            self._index.reveal(self.cursor)
            self._take_row(keep_visible=True)
        elif self._index.rows:
            self._go_to_match()
        self._paint()

    def _go_to_match(self) -> None:
        """Move the cursor to the first match unless it is on a match."""
        layout = self._index.layout
        selection = self._selection
        node = find_node(layout, self.cursor)
        is_match = node is not None and selection is not None and node.level >= selection.depth
        if selection is not None and not (
            is_match and node and self._index.row_of(node) is not None
        ):
            for number, row in enumerate(self._index.window(0, _SEARCHED_ROWS)):
                if row.node.level is selection.depth:
                    self._row = number
                    self._take_cursor()
                    break
        self.reveal()

    def show_flat(self, flat: Flat | None, sorting: columns.Sorting | None = None) -> None:
        """Show a flat list, or the tree again with the cursor on the same row.

        Args:
            flat: The list; None for the tree.
            sorting: Its order; None for the present one.
        """
        self.flat = flat
        self.sorting = sorting or self.sorting
        self._rebuild(self._monitor.store.layout)
        if flat is None:
            self._index.reveal(self.cursor)
            self._take_row(keep_visible=True)
            self._paint()
        else:
            self.to_top()

    def sort_by(self, key: str) -> None:
        """Sort siblings by a column.

        Numbers are sorted largest first, names from A to Z, states from the worst.
        """
        if key == self.sorting.key:
            self.sorting = self.sorting.reversed()
        else:
            self.sorting = columns.Sorting(key, descending=key not in {columns.NAME, columns.STATE})
        self._resort()
        self._paint()
        self.to_top()

    def _change(self, change: Callable[[Expansion, str], None]) -> None:
        """Change the expansion at the cursor."""
        here = self._index.at(self._row)
        if here is None or here.node.level is Level.CORE:
            return
        if here.is_flat:
            self.show_flat(None)
            here = here._replace(is_flat=False)
        if here.fleet is not None:
            self._open_fleet(here.fleet, is_open=here.is_open)
            return
        change(self._found_expansion or self._expansion, node_path(self._index.layout, here.node))
        self._index.refresh()
        self._take_row(keep_visible=True)
        self._paint()

    def _open_fleet(self, fleet: int, *, is_open: bool) -> None:
        """Open or close the tree of a fleet.

        The tree of another fleet is in its own view.
        """
        if fleet != self._texts.number:
            self.post_message(View.OpenFleet(self._ui.fleets.names[fleet]))
            return
        self._is_shut = is_open
        self._rebuild(self._monitor.store.layout)
        self._paint()

    def _paint(self, *, is_done: bool = False) -> None:
        """Paint the change of a key or click at once, head and foot included."""
        if not is_done:
            self.tick()
        self.post_message(self.Changed())

    def action_open(self) -> None:
        """Open the row under the cursor, or go to its first child if open.

        On a row known only from roll-ups, ask for its chips.
        """
        here = self._index.at(self._row)
        if here is not None and here.fleet is None:
            open_chips(self._ui, node_path(self._index.layout, here.node))
        if here is not None and self._index.lacks_chips(here):
            self._change(Expansion.open)
        elif here is not None and here.is_open:
            self.point(self._row + 1)
        elif here is not None:
            self._change(Expansion.toggle)

    def action_close(self) -> None:
        """Close the row under the cursor, or go to its parent if it is closed."""
        here = self._index.at(self._row)
        if here is not None and here.is_open:
            self._change(Expansion.toggle)
        elif here is not None and here.node.level is Level.CLUSTER and self._ui.fleets.are_several:
            self.point(self._index.nearest(fleet_key(self._texts.number)))
        elif here is not None and here.node.level > Level.CLUSTER and not here.is_flat:
            self.point(
                self._index.nearest(address.parent(node_path(self._index.layout, here.node)))
            )

    def action_enter(self) -> None:
        """Open the row under the cursor.

        On a chip or core, ask for the Chip view.
        """
        here = self._index.at(self._row)
        if here is None:
            return
        if here.node.level >= Level.CHIP:
            self.post_message(View.Open(node_path(self._index.layout, here.node)))
        else:
            self.action_open()

    def action_all(self) -> None:
        """Open everything below the cursor, or close it where it is open."""
        here = self._index.at(self._row)
        if here is not None and here.fleet == self._texts.number:
            is_deep = self._expansion.depth_at("") is Level.CORE
            (self._found_expansion or self._expansion).set_depth(
                "", Level.CLUSTER if is_deep else Level.CORE
            )
            self._is_shut = False
            self._rebuild(self._monitor.store.layout)
            self._paint()
        elif here is not None:
            depth = here.node.level if here.is_open else Level.CORE
            self._change(lambda expansion, path: expansion.set_depth(path, depth))

    def action_level(self) -> None:
        """Open one more level of everything below the cursor."""

        def deepen(expansion: Expansion, path: str) -> None:
            depth = max(expansion.depth_at(path), address.level_of(path))
            expansion.set_depth(path, Level(min(depth + 1, Level.CORE)))

        self._change(deepen)

    def action_sort(self, by: int) -> None:
        keys = self.plan.sortable
        place = keys.index(self.sorting.key) if self.sorting.key in keys else 0
        self.sort_by(keys[(place + by) % len(keys)])

    def action_reverse(self) -> None:
        self.sort_by(self.sorting.key)

    def click_row(self, number: int, event: events.Click) -> None:
        """Move the cursor to a row.

        A click on its triangle opens or closes it; a double click on its name goes deeper.
        """
        row = self._index.at(number)
        if row is not None and event.x in triangle_at(row, self._texts.own.indent):
            self.point(number)
            self._change(Expansion.toggle)
        else:
            super().click_row(number, event)
