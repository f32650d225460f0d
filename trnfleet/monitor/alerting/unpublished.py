"""Alerts that fire here and are not published: what speaks against the watch that leads."""

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
    """Time for which the first of them has been missing."""


class Unpublished:
    """Alerts of one fleet that fire by the evaluation here and are not published, and for how long."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def reset(self) -> None:
        """Begin again: what is published could not be seen."""
        self._since_s.clear()

    def update(self, alerts: Alerts, published: Mapping[str, AlertMessage], now_s: float) -> None:
        """Take the alerts of an instant and what is published at that time."""
        missing = [
            alert.fingerprint
            for alert in notifying(alerts)
            if (message := published.get(alert.fingerprint)) is None or message.state != "firing"
        ]
        self._since_s = {each: self._since_s.get(each, now_s) for each in missing}

    def missing(self, alerts: Alerts, now_s: float, at_least_s: float = 0.0) -> Missing:
        """Return the alerts that have been missing for some time."""
        found = [
            (alert, now_s - since_s)
            for fingerprint, since_s in self._since_s.items()
            if now_s - since_s >= at_least_s and (alert := alerts.find(fingerprint)) is not None
        ]
        return Missing(
            [alert for alert, _ in found], max((lasted_s for _, lasted_s in found), default=0.0)
        )


def notifying(alerts: Alerts) -> list[Alert]:
    """Return the alerts that every watch has to publish and notify.

    Silenced and inhibited ones are left out, those of the pipeline, which are about the way to each watch, those that only go on
    because they flap, those that fire here only because they were published, and those of cells.
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
