"""New alerts: the notice beside the breadcrumbs, the terminal's bell and desktop notifications.

The bell rings for live alerts alone, even during playback. `AlertNews` is pure of the terminal; `AlertWatch` reads the alerts that are
shown, and those of the present while the past is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import title
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems import texts
from trnfleet.tui.format.alerts import alarm_text, where_text
from trnfleet.tui.pacing import send_notification
from trnfleet.tui.state.alerts import AlertSnapshot

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from textual.app import App

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.problems.problem import Problem, ProblemCounts
    from trnfleet.tui.state.context import UiContext

ALARM_EVERY_S = 10.0
"""Seconds between two alarms; alerts that come in between share the next one."""


class Notice(NamedTuple):
    """A notice beside the breadcrumbs, shown for a while."""

    severity: Severity
    path: str
    """Where; empty for the fleet."""
    text: str
    fleet: str = ""
    """Name of the fleet; empty for the one on the screen."""


class AlertNews:
    """New alerts: each is new once for every time that it begins to fire."""

    def __init__(self) -> None:
        self._fired: dict[str, int] = {}
        """When each known active alert began to fire, by fingerprint."""
        self._unhandled: set[str] = set()
        """Those of them that nobody has acknowledged or silenced and no wider alert covers."""
        self._newest: tuple[float, Alert, int | None, Notice] | None = None
        self._waiting: list[AlertWithStatus] = []
        self._alarm_s = -ALARM_EVERY_S

    def take(
        self, alerts: Iterable[AlertWithStatus], now_s: float, problems: Iterable[Problem] = ()
    ) -> list[AlertWithStatus]:
        """Look at the alerts of the moment; return the critical and warning ones that are new and not quieted.

        Args:
            alerts: All active ones.
            now_s: Monotonic seconds.
            problems: Those that the alerts are in: an alert of one that is known, and no worse, is no news.
        """
        fresh: list[AlertWithStatus] = []
        before, fired = self._fired, dict[str, int]()
        self._unhandled = unhandled = set()
        for each in alerts:
            alert = each.alert
            fired_ns = alert.fired_ns
            if fired_ns is None:
                continue
            known = before.get(alert.fingerprint) == fired_ns
            is_loud = each.status is AlertStatus.FIRING and each.severity <= Severity.WARNING
            if each.status is AlertStatus.FIRING:
                unhandled.add(alert.fingerprint)
            if known or is_loud:
                fired[alert.fingerprint] = fired_ns
            if is_loud and not known:
                fresh.append(each)
        self._fired = fired
        if fresh:
            self._waiting += fresh
            told = _news_among(fresh, before, problems)
            if told:
                worst, place, text = min(
                    told, key=lambda each: (each[0].severity, -(each[0].alert.fired_ns or 0))
                )
                more = f" (+{len(told) - 1:,} more)" if len(told) > 1 else ""
                notice = Notice(worst.severity, place, text + more)
                self._newest = now_s, worst.alert, worst.alert.fired_ns, notice
        return fresh

    def know(self, alerts: Iterable[AlertWithStatus]) -> None:
        """Take alerts as known: another moment is shown."""
        pairs = ((each.alert.fingerprint, each.alert.fired_ns) for each in alerts)
        self._fired = {
            fingerprint: fired_ns for fingerprint, fired_ns in pairs if fired_ns is not None
        }
        self._newest, self._waiting = None, []

    def notice(self, now_s: float, within_s: float) -> Notice | None:
        """Return what was new within the last seconds, still fires and is not handled; None for nothing."""
        if self._newest is None:
            return None
        told_s, alert, fired_ns, notice = self._newest
        if now_s - told_s > within_s or not self._is_open(alert, fired_ns):
            return None
        return notice

    def alarm(self, now_s: float) -> str:
        """Return what to ring for, all that is new together; empty where nothing is, or it rang just now."""
        if not self._waiting or now_s - self._alarm_s < ALARM_EVERY_S:
            return ""
        # Alerts that ended or were handled meanwhile need no alarm.
        waiting = [each for each in self._waiting if self._is_open(each.alert, each.alert.fired_ns)]
        self._waiting = []
        if not waiting:
            return ""
        self._alarm_s = now_s
        return alarm_text(waiting)

    def _is_open(self, alert: Alert, fired_ns: int | None) -> bool:
        """Return whether an alert still fires as it began, and nobody has seen to it."""
        fingerprint = alert.fingerprint
        return self._fired.get(fingerprint) == fired_ns and fingerprint in self._unhandled


def _news_among(
    fresh: Sequence[AlertWithStatus], known: Container[str], problems: Iterable[Problem]
) -> list[tuple[AlertWithStatus, str, str]]:
    """Return what new alerts tell that was not known: each with its place and its words.

    A new problem is told once, by its worst alert and in its own words; a known one again where an alert is worse than all before.
    """
    of_alert = {each.alert.fingerprint: problem for problem in problems for each in problem.alerts}
    worst: dict[str, AlertWithStatus] = {}
    for each in fresh:
        problem = of_alert.get(each.alert.fingerprint)
        key = each.alert.fingerprint if problem is None else problem.key
        if key not in worst or each.severity < worst[key].severity:
            worst[key] = each
    told: list[tuple[AlertWithStatus, str, str]] = []
    for each in worst.values():
        problem = of_alert.get(each.alert.fingerprint)
        old = (
            [one.severity for one in problem.alerts if one.alert.fingerprint in known]
            if problem
            else []
        )
        if problem is not None and not old:
            told.append((each, texts.place_text(problem.place), texts.text_of(problem)))
        elif not old or each.severity < min(old):
            told.append((each, where_text(each.alert), title(each.alert)))
    return told


class AlertWatch:
    """The new alerts of the present, and of a past that is played."""

    def __init__(self, app: App[Any], context: UiContext, *, rings: bool, notifies: bool) -> None:
        """Make it.

        Args:
            app: Whose terminal rings.
            context: The fleet that is shown.
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
        self._seen: dict[AlertSnapshot, int] = {}
        """Revision at which each was looked at last: the widget that paints first reads the alerts again."""
        self._is_past = False
        self._left: ProblemCounts | None = None
        """Alerts of the present when one left it."""

    @property
    def revision(self) -> int:
        """Goes up with the alerts of the present while the past is shown."""
        board = self._live_board
        return board.alerts.revision if board is not None and self._is_past else 0

    def note_present(self) -> None:
        """Keep the counts of the present when it is left, before the monitor is exchanged."""
        before, self._is_past = self._is_past, self._context.shows_past
        if self._is_past and not before:
            self._left = self._board.problem_counts if self._live_board is not None else None

    def renew(self) -> None:
        """Take the alerts of the moment that is shown now as known."""
        self._knows_past = False

    def look(self, now_s: float) -> None:
        """Read the alerts, and ring for new ones of the present.

        Args:
            now_s: Real monotonic seconds.
        """
        present: AlertSnapshot | None = self._board
        has_changed = self._refresh(self._board, now_s)
        if self._is_past:
            if has_changed and self._knows_past:
                self._past_news.take(self._board.active, now_s, self._board.problems.all)
            elif has_changed:
                self._past_news.know(self._board.active)
                self._knows_past = True
            present = self._live_board
            has_changed = present is not None and self._refresh(present, now_s)
        if present is not None and has_changed:
            self._news.take(present.active, now_s, present.problems.all)
        alarm = self._news.alarm(now_s)
        if alarm and self._rings:
            self._app.bell()
        if alarm and self._notifies:
            send_notification(self._app, alarm)

    def _refresh(self, board: AlertSnapshot, now_s: float) -> bool:
        """Bring alerts up to date; return whether they are others than at the last look."""
        board.refresh(now_s)
        before, self._seen[board] = self._seen.get(board), board.revision
        return before != board.revision

    def notice(self, now_s: float, within_s: float) -> Notice | None:
        """Return what was new within the last seconds, at the moment that is shown."""
        return (self._past_news if self._is_past else self._news).notice(now_s, within_s)

    def present(self) -> tuple[ProblemCounts | None, ProblemCounts | None]:
        """Return the alerts of the present when one left it and now; None where that is not known."""
        board = self._live_board
        if board is None or not board.has_rules or not board.revision:
            return None, None
        return self._left, board.problem_counts
