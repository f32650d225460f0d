"""Alerts as watches publish them and receivers get them, for tests."""

from __future__ import annotations

from typing import Any

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.export.notification import Notification
from trnfleet.wire.alerts import AlertMessage

BEGIN_NS = 1_767_600_000 * NS_PER_S


def fingerprint(number: int) -> str:
    """Return the fingerprint of a numbered alert."""
    return f"{number:016x}"


def alert_message(number: int = 1, fired_s: float = 0.0, **change: Any) -> AlertMessage:
    """Return an alert that fires, changed."""
    fired = format_rfc3339(BEGIN_NS + round(fired_s * NS_PER_S))
    known: dict[str, Any] = {
        "fingerprint": fingerprint(number),
        "rule": "held-back",
        "severity": Severity.CRITICAL,
        "state": "firing",
        "target": f"uc1/us-0001/i-{number}",
        "labels": {
            "alertname": "held-back",
            "severity": "critical",
            "target": f"uc1/us-0001/i-{number}",
            "none": "",
        },
        "summary": f"number {number}",
        "runbook": "look",
        "value": 40.0,
        "since": fired,
        "fired": fired,
        "watch": "watch-1",
    }
    return AlertMessage(**known | change)


def notification(
    number: int = 1, fired_s: float = 0.0, resolved_s: float | None = None, **change: Any
) -> Notification:
    """Return a notification; its wall clock is the fleet's."""
    if resolved_s is not None:
        resolved = format_rfc3339(BEGIN_NS + round(resolved_s * NS_PER_S))
        change = {"state": "resolved", "resolved": resolved, **change}
    message = alert_message(number, fired_s, **change)
    ends_ns = None if message.resolved is None else parse_rfc3339(message.resolved)
    return Notification("demo", message, parse_rfc3339(message.fired), ends_ns)
