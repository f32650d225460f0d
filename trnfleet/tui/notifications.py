"""New alerts: the notice beside the breadcrumbs, the bell and desktop notifications.

The bell rings for live alerts alone, even during playback. `AlertNews` is independent of the
terminal. `AlertWatch` reads the alerts shown, and the present's while the past is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import title
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems import texts
from trnfleet.text import plain
from trnfleet.tui.format.alerts import alarm_text, where_text
from trnfleet.tui.state.alerts import AlertSnapshot

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from textual.app import App

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.problems.problem import Problem, ProblemCounts
    from trnfleet.tui.state.context import UiContext

ALARM_EVERY_S = 10.0
"""Seconds between two alarms. Alerts in between share the next one."""


class AlertNotice(NamedTuple):
    """A notice beside the breadcrumbs, shown for a while."""

    severity: Severity
    path: str
    """Where; empty for the fleet."""
    text: str
    fleet: str = ""
    """Name of the fleet; empty for the one on the screen."""


class AlertNews:
    """New alerts: an alert is new each time it begins to fire."""

    def __init__(self) -> None:
        self._fired: dict[str, int] = {}
        """When each known active alert began to fire, by fingerprint."""
        self._unhandled: set[str] = set()
        """Alerts neither acknowledged nor silenced, nor covered by a wider alert."""
        self._newest: tuple[float, Alert, int | None, AlertNotice] | None = None
        self._waiting: list[AlertWithStatus] = []
        self._alarm_s = -ALARM_EVERY_S

    def read(
        self, alerts: Iterable[AlertWithStatus], now_s: float, problems: Iterable[Problem] = ()
    ) -> list[AlertWithStatus]:
        """Read the active alerts; return the new critical and warning ones not quieted.

        Args:
            alerts: All active ones.
            now_s: Monotonic seconds.
            problems: Problems of the alerts. An alert of a known problem is no news unless it is
                worse.
        """
        fresh: list[AlertWithStatus] = []
        before, fired = self._fired, dict[str, int]()
        self._unhandled = unhandled = set()
        for held in alerts:
            alert = held.alert
            fired_ns = alert.fired_ns
            if fired_ns is None:
                continue
            known = before.get(alert.fingerprint) == fired_ns
            is_loud = held.status is AlertStatus.FIRING and held.severity <= Severity.WARNING
            if held.status is AlertStatus.FIRING:
                unhandled.add(alert.fingerprint)
            if known or is_loud:
                fired[alert.fingerprint] = fired_ns
            if is_loud and not known:
                fresh.append(held)
        self._fired = fired
        if fresh:
            self._waiting += fresh
            told = _news_among(fresh, before, problems)
            if told:
                worst, place, text = min(
                    told, key=lambda news: (news[0].severity, -(news[0].alert.fired_ns or 0))
                )
                more = f" (+{len(told) - 1:,} more)" if len(told) > 1 else ""
                notice = AlertNotice(worst.severity, place, text + more)
                self._newest = now_s, worst.alert, worst.alert.fired_ns, notice
        return fresh

    def know(self, alerts: Iterable[AlertWithStatus]) -> None:
        """Take alerts as known: another moment is shown."""
        pairs = ((held.alert.fingerprint, held.alert.fired_ns) for held in alerts)
        self._fired = {
            fingerprint: fired_ns for fingerprint, fired_ns in pairs if fired_ns is not None
        }
        self._newest = None
        self._waiting = []

    def notice(self, now_s: float, within_s: float) -> AlertNotice | None:
        """Return the news of the last seconds still firing and unhandled; None for nothing."""
        if self._newest is None:
            return None
        told_s, alert, fired_ns, notice = self._newest
        if now_s - told_s > within_s or not self._is_open(alert, fired_ns):
            return None
        return notice

    def alarm(self, now_s: float) -> str:
        """Return the text of an alarm for all that is new.

        Empty without news, or just after an alarm.
        """
        if not self._waiting or now_s - self._alarm_s < ALARM_EVERY_S:
            return ""
        # Alerts that ended or were handled meanwhile need no alarm.
        waiting = [held for held in self._waiting if self._is_open(held.alert, held.alert.fired_ns)]
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
    """Return the news in new alerts, each with its place and text.

    A new problem is reported once, by its worst alert and in its own words. A known one is reported
    again for an alert worse than all before.
    """
    of_alert = {held.alert.fingerprint: problem for problem in problems for held in problem.alerts}
    worst: dict[str, AlertWithStatus] = {}
    for held in fresh:
        problem = of_alert.get(held.alert.fingerprint)
        key = held.alert.fingerprint if problem is None else problem.key
        if key not in worst or held.severity < worst[key].severity:
            worst[key] = held
    told: list[tuple[AlertWithStatus, str, str]] = []
    for held in worst.values():
        problem = of_alert.get(held.alert.fingerprint)
        old = (
            [one.severity for one in problem.alerts if one.alert.fingerprint in known]
            if problem
            else []
        )
        if problem is not None and not old:
            told.append(
                (held, texts.place_text(problem.place, problem.names), texts.text_of(problem))
            )
        elif not old or held.severity < min(old):
            told.append((held, where_text(held.alert), title(held.alert)))
    return told


class AlertWatch:
    """The new alerts of the present, and of a played past."""

    def __init__(self, app: App[Any], context: UiContext, *, rings: bool, notifies: bool) -> None:
        """Make it.

        Args:
            app: The app of the terminal.
            context: The fleet shown.
            rings: Whether the terminal rings.
            notifies: Whether it is asked for a desktop notification.
        """
        self._app = app
        self._context = context
        self._board = context.alerts
        self._rings = rings
        self._notifies = notifies
        live = None if context.playback is None else context.playback.live
        self._live_board = None if live is None else AlertSnapshot(live)
        """Of the present; read only while the past is shown."""
        self._news = AlertNews()
        """Of the present."""
        self._past_news = AlertNews()
        self._knows_past = False
        """Whether the first alerts of the moment shown are known, so that others are new."""
        self._seen: dict[AlertSnapshot, int] = {}
        """Revision of each at the last check. The first widget to paint reads the alerts again."""
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
        before = self._is_past
        self._is_past = self._context.shows_past
        if self._is_past and not before:
            self._left = self._board.problem_counts if self._live_board is not None else None

    def renew(self) -> None:
        """Mark the alerts of the moment shown as known."""
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
                self._past_news.read(self._board.active, now_s, self._board.problems.all)
            elif has_changed:
                self._past_news.know(self._board.active)
                self._knows_past = True
            present = self._live_board
            has_changed = present is not None and self._refresh(present, now_s)
        if present is not None and has_changed:
            self._news.read(present.active, now_s, present.problems.all)
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

    def notice(self, now_s: float, within_s: float) -> AlertNotice | None:
        """Return the news of the last seconds at the moment shown."""
        return (self._past_news if self._is_past else self._news).notice(now_s, within_s)

    def present(self) -> tuple[ProblemCounts | None, ProblemCounts | None]:
        """Return the present's alerts on leaving it and now; None if unknown."""
        board = self._live_board
        if board is None or not board.has_rules or not board.revision:
            return None, None
        return self._left, board.problem_counts


def notification(text: str) -> str:
    """Return the request for a desktop notification (OSC 9).

    The text cannot end or change the request.
    """
    # A text that begins with a number and a semicolon would be another request, so a word stands
    # before it.
    return f"\x1b]9;trnfleet: {plain(text)}\x07"


def send_notification(app: App[Any], text: str) -> None:
    """Ask the terminal for a desktop notification.

    One without support shows nothing.
    """
    driver = app._driver  # noqa: SLF001  no public name; pinned and tested
    if driver is not None and not app.is_headless:
        driver.write(notification(text))
