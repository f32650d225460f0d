"""How list, time line and charts share the rows of the Events view."""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.tui.trends.grid import LEAST_ROWS, MOST_ROWS

RATES_FROM = 100
CHARTS_FROM = 120
"""Least cells of the view for the time line, and for charts."""
RATES = 6
TALL_RATES = 9
"""Rows of the time line, with one row per severity and with two."""
TALL_FROM = 40
"""Rows from which time line and charts are shown beside a list of any length."""
LEAST_LIST = 8
LEAST_BESIDE = 14
LIST_STEP = 4
"""Rows of the list there: at least, and beside the details; and in steps of."""


class Space(NamedTuple):
    """Rows below the list."""

    rates: int = 0
    charts: int = 0

    @staticmethod
    def of(width: int, rows: int, listed: int, *, is_beside: bool) -> Space:
        """Return the rows shared out.

        Args:
            width: Cells of the view.
            rows: Rows without tabs, head and foot.
            listed: Rows needed by the whole list.
            is_beside: Whether the event's details are beside the list.
        """
        if width < RATES_FROM:
            return Space()
        # In steps, so that the rows below do not move with each event.
        list_rows = -(-(listed + 1) // LIST_STEP) * LIST_STEP
        spare = rows - max(LEAST_BESIDE if is_beside else LEAST_LIST, list_rows)
        if rows >= TALL_FROM:
            spare = max(spare, rows // 2)
        if spare < RATES:
            return Space()
        charts = min(MOST_ROWS, spare - TALL_RATES) if width >= CHARTS_FROM else 0
        if charts >= LEAST_ROWS:
            return Space(TALL_RATES, charts)
        return Space(TALL_RATES if spare >= TALL_RATES else RATES)
