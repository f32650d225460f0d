"""The app's parts of a fleet: views, forms for alerts, and news.

One of several fleets is on the screen. The others' views stay as they are, unpainted; their alerts
are still followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.tui.alerts.actions import AlertActions
from trnfleet.tui.notifications import AlertWatch, Notice
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import App

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.bars.tour import Tour
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.view import Lists, View
NOTICE_S = 20.0
"""Seconds for a new alert, or an event above information, in every view."""


class News:
    """News beside the breadcrumbs: the newest alert or event, else the tour of a first run."""

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


class FleetPages:
    """The views of one fleet and their companions."""

    def __init__(
        self, app: App[Any], context: UiContext, *, rings: bool, notifies: bool, tour: Tour
    ) -> None:
        """Make the companions of a fleet's views, and no view yet.

        Args:
            app: The app of the terminal.
            context: The fleet.
            rings: Whether the terminal rings for new alerts.
            notifies: Whether it is asked for a desktop notification.
            tour: The tour of a first run.
        """
        self.context = context
        self.views: dict[str, View] = {}
        """Views opened so far, by title."""
        self.actions = AlertActions(context)
        self.watch = AlertWatch(app, context, rings=rings, notifies=notifies)
        self.news = News(context.monitor, self.watch, tour)
        self.place = ""
        """Where one was when another fleet came onto the screen."""
        self._source = context.monitor.revision.source

    @property
    def name(self) -> str:
        """The fleet's name."""
        return self.context.monitor.fleet_name

    def make_view(self, title: str) -> View:
        """Make the view of a title, and return it; the app mounts it."""
        kind = next(entry.kind for entry in VIEWS if entry.title == title)
        view = self.views[title] = kind()(self.context)
        return view

    def follow_source(self) -> bool:
        """Drop caches after a change of the fleet's monitor; return whether it changed."""
        source = self.context.monitor.revision.source
        if source == self._source:
            return False
        self._source = source
        self.context.alerts.renew()
        self.watch.renew()
        for view in self.views.values():
            view.renew()
        self.news.renew()
        return True


def notice_of_others(others: Iterable[FleetPages], now_s: float) -> Notice | None:
    """Return the worst new alert of fleets not on the screen; None for none.

    Args:
        others: The fleets.
        now_s: Real monotonic seconds.
    """
    notices = [
        notice._replace(fleet=fleet.name)
        for fleet in others
        if (notice := fleet.watch.notice(now_s, NOTICE_S)) is not None
    ]
    return min(notices, key=lambda notice: notice.severity, default=None)
