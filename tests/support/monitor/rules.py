"""Rules and alerts for tests, with no more keys than they need."""

from __future__ import annotations

from typing import Any

from trnfleet.config import validate
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.rules import Rule, RuleFile
from trnfleet.domain.alerts.status import AlertState

HOT = {
    "name": "hot",
    "scope": "chip",
    "severity": "warning",
    "figure": "temperature_c",
    "above": 90,
    "summary": "{worst} is at {value}",
}
"""A rule with no more keys than it must have."""


def rules_of(*rules: dict[str, Any]) -> tuple[Rule, ...]:
    """Return rules as a file would have them."""
    return validate({"rules": list(rules)}, RuleFile, "rules.toml").rules


def rule_of(**changed: Any) -> Rule:
    """Return a valid rule with some keys changed; None leaves one out."""
    (made,) = rules_of(
        {key: value for key, value in {**HOT, **changed}.items() if value is not None}
    )
    return made


def alert_of(
    name: str, target: str, *, state: AlertState = AlertState.FIRING, **changed: Any
) -> Alert:
    """Return an alert of a named rule."""
    rule = rule_of(name=name, **changed)
    alert = Alert(rule, target, fingerprint_of("demo", name, target), state=state)
    alert.labels = labels_of("demo", rule, target)
    alert.fired_ns = 5 if state in {AlertState.FIRING, AlertState.RESOLVED} else None
    return alert
