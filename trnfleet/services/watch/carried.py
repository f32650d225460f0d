"""The published alerts that a leader carries on, and those that it leaves to the watch that publishes them."""

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
    """Yield the published alerts to carry on: of others that publish, only what fires here, too, because they end their own.

    Args:
        published: All that are published, by fingerprint.
        others: Watches that may publish.
        alerts: The alerts here.
    """
    for message in published.values():
        if message.watch not in others or alerts.fires(message.fingerprint):
            yield message


def to_publish(alerts: Alerts, notification_log: NotificationLog) -> list[Alert]:
    """Return the firing alerts that a leader is to publish: all but those that cells publish, unless it has begun before they did.

    A cell's watch notifies of its alerts. One that was notified of here goes on, so that no receiver is told that it has ended.
    """
    return [
        each
        for each in alerts.evaluated()
        if each.fired_ns is not None
        and (not alerts.is_left_to_cells(each) or notification_log.publishes(each.fingerprint))
    ]


def own_alerts(
    firing: Iterable[Alert],
    published: Mapping[str, AlertMessage],
    others: Container[str],
    alerts: Alerts,
    notification_log: NotificationLog,
) -> Iterator[Alert]:
    """Yield the alerts to publish: all but those that fire only because another watch that is present publishes them.

    A leader that repeated those would seem to agree with the watch that took over from it, and end them soon after.

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
