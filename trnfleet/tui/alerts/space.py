"""How list, details and charts share the Alerts view, and the place of the charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.signals import Scope
from trnfleet.tui.state.highlight import place_of
from trnfleet.tui.trends.grid import LEAST_ROWS, MOST_ROWS
from trnfleet.tui.trends.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.tui.state.context import UiContext

ROOMY_FROM = 160
ROOMY_ROWS = 30
"""Least cells and rows for a list with only the rows it needs. The panes below get the others."""
CHARTS_FROM = 120
"""Least cells for charts in the rows below a short list."""
LEAST_LIST = 8
LIST_STEP = 4
"""Rows of the list there: at least, and in steps of."""
DETAILS = 18
"""Rows of the details above charts: facts, and the chart of the alert's own figure."""


class Space(NamedTuple):
    """Rows below the list."""

    details: int
    charts: int = 0

    @staticmethod
    def of(width: int, height: int, listed: int, *, is_large: bool) -> Space:
        """Return how a view's rows are shared out.

        Args:
            width: Cells of the view.
            height: Its rows.
            listed: Rows that the list would fill.
            is_large: Whether the details are to have most of the room.
        """
        # In steps, so that the details do not move with each alert. An empty list needs only its
        # text, and has no details.
        list_rows = -(-(listed + 2) // LIST_STEP) * LIST_STEP
        if width < ROOMY_FROM or height < ROOMY_ROWS:
            rows = max(3, height - 8) if is_large else min(22, max(4, height * 3 // 8))
            if not listed and width >= CHARTS_FROM:
                rows = 0
            elif listed and width < CHARTS_FROM and not is_large:
                # There are no charts, so that what a short list leaves is the details'.
                rows = max(rows, min(DETAILS, height - 2 - max(LIST_STEP, 2 * (listed // 2 + 1))))
            spare = (
                0
                if is_large or width < CHARTS_FROM
                else height - rows - 2 - max(LEAST_LIST, list_rows)
            )
            return Space(rows if height >= 12 else 0, spare if spare >= LEAST_ROWS else 0)
        share = 3 if is_large else 6
        rows = height - 2 - min(max(LEAST_LIST, list_rows), height * share // 10)
        charts = min(MOST_ROWS, rows - (DETAILS if listed else 0))
        return Space(rows) if is_large or charts < LEAST_ROWS else Space(rows - charts, charts)


def charted(context: UiContext, alerts: Sequence[Alert], place: str) -> Place | None:
    """Return the place of the charts: the fleet if nothing is listed.

    None if the subject has no place, such as a publisher.

    Args:
        context: The fleet.
        alerts: Alerts under the cursor.
        place: Address of their cause. Empty without one.
    """
    if not alerts:
        return Place(context)
    alert = alerts[0]
    scope = alert.rule.scope
    if scope is Scope.RESERVATION:
        table = context.monitor.reservations.table()
        layout = context.monitor.store.layout
        reservation = next((row for row in table if row.message.id == alert.target), None)
        place = "" if reservation is None else place_of(reservation, layout)
    job = alert.job if scope is Scope.JOB else ""
    if not place and not job:
        return None
    own = (alert.worst or address_of(alert)).partition(":")[0]
    # The details have a chart of the alert's own figure.
    is_charted = len(alerts) == 1 and (bool(job) or place == own)
    return Place(context, place, job, (alert.rule.figure or "") if is_charted else "")
