"""Alerts made by hand, and the snapshot for drawing their lines."""

from __future__ import annotations

from typing import Any

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.inputs import Instant
from trnfleet.monitor.alerting.store import AlertWithStatus

NOW_NS = 1_767_600_000 * NS_PER_S


def rule(name: str = "hot", severity: str = "critical", **rest: Any) -> Rule:
    fields = {
        "name": name,
        "scope": "chip",
        "severity": severity,
        "figure": "temperature_c",
        "above": 90.0,
    }
    return Rule.model_validate({**fields, "summary": "{worst} is at {value}", **rest})


def held(
    target: str = "uc1/us-0001/trn2u-0001-0/chip05",
    *,
    of: Rule | None = None,
    status: AlertStatus = AlertStatus.FIRING,
    age_s: float = 60.0,
    **rest: Any,
) -> AlertWithStatus:
    of = of or rule()
    begun_ns = NOW_NS - round(age_s * NS_PER_S)
    alert = Alert(
        of, target, fingerprint_of("demo", of.name, target), labels=labels_of("demo", of, target)
    )
    alert.since_ns = begun_ns
    alert.value = 95.0
    alert.chips = 1
    alert.place = target
    if status is not AlertStatus.PENDING:
        alert.state = AlertState.FIRING
        alert.fired_ns = begun_ns
    for name, value in rest.items():
        setattr(alert, name, value)
    return AlertWithStatus(alert, status)


class Board:
    """What lines ask a board for."""

    def __init__(self) -> None:
        self.alerts = Alerts("demo", [rule()])
        self.alerts.instant = Instant(NOW_NS, NOW_NS)
        self.now_ns = NOW_NS


def storm(count: int, **rest: Any) -> list[AlertWithStatus]:
    return [
        held(f"uc1/us-{number:04d}/trn2u-{number:04d}-0/chip00", **rest)
        for number in range(1, count + 1)
    ]
