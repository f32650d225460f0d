"""Who is told of new alerts: the terminal rings for those of the present alone, whatever moment is on the screen.

It reads the board of what is shown, and one of its own of the present while the past is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.tui.desktop_notifications import AlertNews
from trnfleet.tui.pacing import send_notification
from trnfleet.tui.state.alerts import AlertSnapshot

if TYPE_CHECKING:
    from textual.app import App

    from trnfleet.monitor.alerting.engine import Counts
    from trnfleet.tui.desktop_notifications import Notice
    from trnfleet.tui.state.context import UiContext


class AlertWatch:
    """What is new among the alerts of the present, and among those of a past that is played."""

    def __init__(self, app: App[Any], context: UiContext, *, rings: bool, notifies: bool) -> None:
        """Make it.

        Args:
            app: Whose terminal rings.
            context: What is shown.
            rings: Whether the terminal rings.
            notifies: Whether it is asked for a desktop notification.
        """
        self._app = app
        self._context = context
        self._board = context.alerts
        self._rings, self._notifies = rings, notifies
        live = None if context.playback is None else context.playback.live
        self._live_board = None if live is None else AlertSnapshot(live)
        """Of the present; read only while the past is shown."""
        self._news = AlertNews()
        """Of the present."""
        self._past_news = AlertNews()
        self._knows_past = False
        """Whether the alerts with which a shown moment began are known, so that others are new."""
        self._is_past = False
        self._left: Counts | None = None
        """Alerts of the present when one left it."""

    @property
    def revision(self) -> int:
        """Goes up with the alerts of the present while the past is shown."""
        board = self._live_board
        return board.alerts.revision if board is not None and self._is_past else 0

    def look_back(self) -> None:
        """Take note of whether the present has been left, before what is shown of it is dropped."""
        before, self._is_past = self._is_past, self._context.shows_past
        if self._is_past and not before:
            self._left = self._board.counts if self._live_board is not None else None

    def renew(self) -> None:
        """Take the alerts of the moment that is shown now for known."""
        self._knows_past = False

    def look(self, now_s: float) -> None:
        """Read the alerts, and ring for what is new in the present.

        Args:
            now_s: Real monotonic seconds.
        """
        present: AlertSnapshot | None = self._board
        has_changed = self._board.refresh(now_s)
        if self._is_past:
            if has_changed and self._knows_past:
                self._past_news.take(self._board.held, now_s)
            elif has_changed:
                self._past_news.know(self._board.held)
                self._knows_past = True
            present = self._live_board
            has_changed = present is not None and present.refresh(now_s)
        if present is not None and has_changed:
            self._news.take(present.held, now_s)
        alarm = self._news.alarm(now_s)
        if alarm and self._rings:
            self._app.bell()
        if alarm and self._notifies:
            send_notification(self._app, alarm)

    def notice(self, now_s: float, within_s: float) -> Notice | None:
        """Return what was new within the last seconds, at the moment that is shown."""
        return (self._past_news if self._is_past else self._news).notice(now_s, within_s)

    def present(self) -> tuple[Counts | None, Counts | None]:
        """Return the alerts of the present when one left it and now; None where nobody knows."""
        board = self._live_board
        if board is None or not board.has_rules or not board.revision:
            return None, None
        return self._left, board.counts
