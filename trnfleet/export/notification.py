"""Notifications: the state of an alert with wall-clock times.

Independent of the fleet's own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from trnfleet.wire.alerts import AlertMessage


class Notification(NamedTuple):
    """An alert that began to fire or resolved."""

    fleet: str
    message: AlertMessage
    starts_ns: int
    """Wall clock at its start, ns since 1970."""
    ends_ns: int | None = None
    """Wall clock at its end; None while it fires."""

    @property
    def fingerprint(self) -> str:
        return self.message.fingerprint

    @property
    def is_firing(self) -> bool:
        return self.message.state == "firing"

    @property
    def mark(self) -> str:
        """The record of its delivery: the state, and when the alert began to fire."""
        return mark_of(self.message.state, self.message.fired)


def mark_of(state: str, fired: str) -> str:
    """Return the record of a delivered state: `firing@...` or `resolved@...`.

    With the time at which the alert began to fire.
    """
    return f"{state}@{fired}"


def facts(notification: Notification) -> dict[str, Any]:
    """Return a notification as a JSON object; its times are the fleet's own."""
    message = notification.message
    return {
        "ts": message.resolved or message.fired,
        "state": message.state,
        "alertname": message.rule,
        "severity": message.severity.value,
        "fleet": notification.fleet,
        "target": message.target,
        "place": message.place,
        "labels": dict(message.labels),
        "summary": message.summary,
        "description": message.description,
        "runbook": message.runbook,
        "runbook_url": message.runbook_url,
        "generator_url": message.generator_url,
        "cause": message.cause,
        "value": message.value,
        "value_text": message.value_text,
        "members": message.members,
        "chips": message.chips,
        "flapping": message.flapping,
        "fingerprint": message.fingerprint,
        "ack": ack_command(message, notification.fleet),
        "since": message.since,
        "fired": message.fired,
        "resolved": message.resolved,
    }


def ack_command(message: AlertMessage, fleet: str) -> str:
    """Return the command that acknowledges an alert.

    The reader's own settings name the broker.
    """
    return f"trnfleet ack {message.fingerprint} --name {fleet}"


def annotations_of(notification: Notification) -> dict[str, str]:
    """Return an alert's texts by their names in Alertmanager, without empty ones."""
    message = notification.message
    texts = {
        "summary": message.summary,
        "description": message.description,
        "runbook": message.runbook,
        "runbook_url": message.runbook_url,
        "cause": message.cause,
        "value": message.value_text or ("" if message.value is None else f"{message.value:g}"),
        "fingerprint": message.fingerprint,
        "ack": ack_command(message, notification.fleet),
    }
    return {name: text for name, text in texts.items() if text}


def links_of(message: AlertMessage) -> dict[str, str]:
    """Return the link to an alert by its name in Alertmanager; empty without one."""
    return {"generatorURL": message.generator_url} if message.generator_url else {}


def labels_of(message: AlertMessage) -> dict[str, str]:
    """Return an alert's labels for Alertmanager, without empty ones."""
    return {name: text for name, text in message.labels.items() if text}
