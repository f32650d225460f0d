"""New alerts: which have begun to fire since somebody last looked, and when the terminal may ring for them.

Pure of the terminal: it says what to tell and how often; the app writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.severity import Severity
from trnfleet.tui.format.alerts import alarm_text, where_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.lifecycle import AlertWithStatus

ALARM_EVERY_S = 10.0
"""Seconds between two alarms: what comes meanwhile is told together."""


class Notice(NamedTuple):
    """What is told for a while beside the place."""

    severity: Severity
    path: str
    """Where; empty for the fleet."""
    text: str


class AlertNews:
    """Which alerts have been told; each is new once for every time that it begins to fire."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        """When each active alert began to fire that was told, by fingerprint."""
        self._newest: tuple[float, Alert, int | None, Notice] | None = None
        self._waiting: list[AlertWithStatus] = []
        self._alarm_s = -ALARM_EVERY_S

    def take(self, held: Iterable[AlertWithStatus], now_s: float) -> list[AlertWithStatus]:
        """Look at the alerts of the moment; return the critical and warning ones that are new and not quieted.

        Args:
            held: All active ones.
            now_s: Monotonic seconds.
        """
        fresh: list[AlertWithStatus] = []
        told: dict[str, int] = {}
        for each in held:
            alert = each.alert
            fired_ns = alert.fired_ns
            if fired_ns is None:
                continue
            known = self._told.get(alert.fingerprint) == fired_ns
            is_loud = each.status is AlertStatus.FIRING and each.severity <= Severity.WARNING
            if known or is_loud:
                told[alert.fingerprint] = fired_ns
            if is_loud and not known:
                fresh.append(each)
        self._told = told
        if fresh:
            self._waiting += fresh
            worst = min(fresh, key=lambda each: (each.severity, -(each.alert.fired_ns or 0)))
            more = f" (+{len(fresh) - 1:,} more)" if len(fresh) > 1 else ""
            text = f"{worst.alert.name}{more}: {summary(worst.alert)}"
            notice = Notice(worst.severity, where_text(worst.alert), text)
            self._newest = now_s, worst.alert, worst.alert.fired_ns, notice
        return fresh

    def know(self, held: Iterable[AlertWithStatus]) -> None:
        """Take alerts as they are for told: another moment is shown."""
        fired = ((each.alert.fingerprint, each.alert.fired_ns) for each in held)
        self._told = {fingerprint: fired_ns for fingerprint, fired_ns in fired if fired_ns is not None}
        self._newest, self._waiting = None, []

    def notice(self, now_s: float, within_s: float) -> Notice | None:
        """Return what was new within the last seconds and still fires; None for nothing."""
        if self._newest is None:
            return None
        told_s, alert, fired_ns, notice = self._newest
        if now_s - told_s > within_s or self._told.get(alert.fingerprint) != fired_ns:
            return None
        return notice

    def alarm(self, now_s: float) -> str:
        """Return what to ring for, all that is new together; empty where nothing is, or it rang just now."""
        if not self._waiting or now_s - self._alarm_s < ALARM_EVERY_S:
            return ""
        # What has ended or was taken in hand meanwhile needs no alarm.
        waiting = [
            each for each in self._waiting if self._told.get(each.alert.fingerprint) == each.alert.fired_ns
        ]
        self._waiting = []
        if not waiting:
            return ""
        self._alarm_s = now_s
        return alarm_text(waiting)
