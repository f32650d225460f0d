"""How the list, the time line and the charts of the Events view share its rows."""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.tui.trends.grid import LEAST_ROWS, MOST_ROWS

RATES_FROM, CHARTS_FROM = 100, 120
"""Cells of the view from which the rows that the list leaves have the time line, and charts."""
RATES, TALL_RATES = 6, 9
"""Rows of the time line, a row for each severity, and those with two."""
TALL_FROM = 40
"""Rows to share from which there are time line and charts beside a list of any length."""
LEAST_LIST, LEAST_BESIDE, LIST_STEP = 8, 14, 4
"""Rows of the list there: at least, and beside the details; and in steps of."""


class Space(NamedTuple):
    """Rows below the list."""

    rates: int = 0
    charts: int = 0

    @staticmethod
    def of(width: int, rows: int, listed: int, *, is_beside: bool) -> Space:
        """Return how rows are shared out.

        Args:
            width: Cells of the view.
            rows: Rows without tabs, head and foot.
            listed: Rows that the list would fill.
            is_beside: Whether the event's details stand beside the list.
        """
        if width < RATES_FROM:
            return Space()
        # In steps, so that what is read does not move with each event.
        wanted = -(-(listed + 1) // LIST_STEP) * LIST_STEP
        spare = rows - max(LEAST_BESIDE if is_beside else LEAST_LIST, wanted)
        if rows >= TALL_FROM:
            spare = max(spare, rows // 2)
        if spare < RATES:
            return Space()
        charts = min(MOST_ROWS, spare - TALL_RATES) if width >= CHARTS_FROM else 0
        if charts >= LEAST_ROWS:
            return Space(TALL_RATES, charts)
        return Space(TALL_RATES if spare >= TALL_RATES else RATES)
