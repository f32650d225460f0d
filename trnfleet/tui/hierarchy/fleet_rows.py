"""Texts for the rows of a tree and of the other fleets.

Each row is read from its own fleet's state.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from trnfleet.tui.hierarchy.index import NO_FLEETS, FleetRows
from trnfleet.tui.hierarchy.rows import TreeRows
from trnfleet.tui.state.descriptors import Descriptions

if TYPE_CHECKING:
    from trnfleet.tui.hierarchy.columns import Plan
    from trnfleet.tui.hierarchy.index import Row
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cells import FixedParts


class FleetTreeRows:
    """Reader for the rows of one fleet's tree and for the other fleets' rows."""

    def __init__(self, context: UiContext, descriptions: Descriptions) -> None:
        self.own = TreeRows(context, descriptions)
        self.number = context.fleets.contexts.index(context)
        """The number of the tree's fleet."""
        self._fleets = context.fleets
        self._others: dict[int, TreeRows] = {}
        """Readers of other fleets shown so far, by fleet number."""

    def rows_of_fleets(self, *, is_shut: bool) -> FleetRows:
        """Return the rows that fleets have: none where there is one.

        Args:
            is_shut: Whether the tree is closed.
        """
        if not self._fleets.are_several:
            return NO_FLEETS
        return FleetRows(self.number, len(self._fleets.contexts), is_shut)

    def parts(self, rows: list[Row], plan: Plan, selected: Row | None) -> list[FixedParts]:
        """Return each row's styled texts, filling the plan's width.

        Args:
            rows: Rows of an index over the present layout.
            plan: The columns.
            selected: The row under the cursor.
        """
        made: list[FixedParts] = []
        for fleet, run in itertools.groupby(
            rows, lambda row: self.number if row.fleet < 0 else row.fleet
        ):
            now_s = self._fleets.contexts[fleet].monitor.clock.monotonic_s()
            made += self._rows_of(fleet).parts(list(run), plan, now_s, selected)
        return made

    def _rows_of(self, number: int) -> TreeRows:
        if number == self.number:
            return self.own
        if number not in self._others:
            context = self._fleets.contexts[number]
            self._others[number] = TreeRows(context, Descriptions(context.monitor))
        return self._others[number]
