"""The app's parts for each fleet: views, forms for alerts, and news.

One of several fleets is on the screen. The others' views stay as they are, unpainted; their alerts
are still followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.tui.alerts.actions import AlertActions
from trnfleet.tui.bars.news import NOTICE_S, News
from trnfleet.tui.notifications import AlertWatch, Notice
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import App

    from trnfleet.tui.bars.tour import Tour
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.view import View


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
