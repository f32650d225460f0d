"""Published alerts: carried on by a leader, or left to their own watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.export.notification_log import NotificationLog
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.wire.alerts import AlertMessage


def taken_over(
    published: Mapping[str, AlertMessage], others: Container[str], alerts: Alerts
) -> Iterator[AlertMessage]:
    """Yield the published alerts to carry on.

    Alerts of other publishing watches are included only if they fire here, too, because those
    watches end their own.

    Args:
        published: All published alerts, by fingerprint.
        others: Watches that may publish.
        alerts: The alerts here.
    """
    for message in published.values():
        if message.watch not in others or alerts.fires(message.fingerprint):
            yield message


def to_publish(alerts: Alerts, notification_log: NotificationLog) -> list[Alert]:
    """Return the firing alerts for a leader to publish: all but those of cells.

    A cell's watch notifies of its alerts. An alert already notified of here goes on, so that no
    receiver is notified of its end.
    """
    return [
        alert
        for alert in alerts.evaluated()
        if alert.fired_ns is not None
        and (not alerts.is_left_to_cells(alert) or notification_log.publishes(alert.fingerprint))
    ]


def own_alerts(
    firing: Iterable[Alert],
    published: Mapping[str, AlertMessage],
    others: Container[str],
    alerts: Alerts,
    notification_log: NotificationLog,
) -> Iterator[Alert]:
    """Yield the alerts to publish, without those firing only on another watch's word.

    A leader that repeated them would seem to agree with the watch that took over from it, and end
    them soon after.

    Args:
        firing: All that fire.
        published: All that are published, by fingerprint.
        others: Watches that may publish.
        alerts: The alerts here.
        notification_log: What this watch publishes already goes on.
    """
    for alert in firing:
        message = published.get(alert.fingerprint)
        is_theirs = message is not None and message.watch in others and alerts.is_held(alert)
        if not is_theirs or notification_log.publishes(alert.fingerprint):
            yield alert
