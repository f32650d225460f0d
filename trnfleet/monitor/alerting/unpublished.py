"""Alerts firing here but not published: evidence against the leading watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.alerts.status import AlertStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.wire.alerts import AlertMessage


class Missing(NamedTuple):
    """Alerts that are not published."""

    alerts: list[Alert]
    longest_s: float
    """Seconds since the first of them went missing."""


class Unpublished:
    """Alerts of one fleet firing here without being published, and for how long."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def reset(self) -> None:
        """Start again: published alerts could not be seen."""
        self._since_s.clear()

    def update(self, alerts: Alerts, published: Mapping[str, AlertMessage], now_s: float) -> None:
        """Compare the alerts of an instant with the alerts published then."""
        missing = [
            alert.fingerprint
            for alert in notifying(alerts)
            if (message := published.get(alert.fingerprint)) is None or message.state != "firing"
        ]
        self._since_s = {
            fingerprint: self._since_s.get(fingerprint, now_s) for fingerprint in missing
        }

    def missing(self, alerts: Alerts, now_s: float, at_least_s: float = 0.0) -> Missing:
        """Return the alerts missing for at least `at_least_s`."""
        overdue = [
            (alert, now_s - since_s)
            for fingerprint, since_s in self._since_s.items()
            if now_s - since_s >= at_least_s and (alert := alerts.find(fingerprint)) is not None
        ]
        return Missing(
            [alert for alert, _ in overdue], max((lasted_s for _, lasted_s in overdue), default=0.0)
        )


def notifying(alerts: Alerts) -> list[Alert]:
    """Return the alerts that every watch must publish and notify.

    Left out are silenced and inhibited alerts, alerts of cells, pipeline alerts (about the path to
    each watch), alerts that only go on because they flap, and alerts that fire here only because
    they were published.
    """
    return [
        alert
        for alert in alerts.active()
        if alert.fired_ns is not None
        and not alert.cell
        and alert.rule.scope is not Scope.PIPELINE
        and not alert.is_flapping
        and alerts.status(alert) in {AlertStatus.FIRING, AlertStatus.ACKED}
        and not alerts.is_held(alert)
    ]
