"""News beside the breadcrumbs for a while: the newest alert or event, else the tour.

The tour belongs to a first run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.bars.tour import Tour
    from trnfleet.tui.notifications import AlertWatch, Notice
    from trnfleet.tui.view import Lists

NOTICE_S = 20.0
"""Seconds for a new alert, or an event above information, in every view."""


class News:
    """The present notice, or the tour without one."""

    def __init__(self, monitor: FleetState, watch: AlertWatch, tour: Tour) -> None:
        self._monitor = monitor
        self._watch = watch
        self.tour = tour
        self.item: Event | Notice | Tour | None = None
        """What is shown; None for nothing."""

    def look(self, now_s: float, lists: Lists, elsewhere: Notice | None = None) -> bool:
        """Choose the item to show.

        Return True if it changed.

        Args:
            now_s: Real monotonic seconds.
            lists: Lists on screen. Their content is not repeated.
            elsewhere: News of another fleet.
        """
        monitor = self._monitor
        before = self.item
        # The tour's minute begins with the first look, even if news is shown instead.
        tour = self.tour if self.tour.is_shown(now_s) else None
        alert = None if lists.problems else self._watch.notice(now_s, NOTICE_S)
        if alert is not None and elsewhere is not None and elsewhere.severity < alert.severity:
            # What is worse comes first, wherever it is.
            alert = elsewhere
        event = (
            None if lists.events else monitor.events.notable(monitor.clock.monotonic_s(), NOTICE_S)
        )
        self.item = alert or elsewhere or event or tour
        return self.item is not before

    def renew(self) -> None:
        """Show nothing until the next look: another moment is shown."""
        self.item = None
