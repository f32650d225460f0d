"""Texts of alerts: a rule's summary and description with the alert's values, and its conditions in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.conditions import plain_value
from trnfleet.domain.alerts.signals import FIGURES, Scope
from trnfleet.domain.quantities import DurationStyle, duration

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.alerts.rules import Rule


def value_text(
    rule: Rule, value: float | None, text: str = "", style: DurationStyle = DurationStyle.LONG
) -> str:
    """Return a rule's value as people read it, with its unit.

    Args:
        rule: The rule.
        value: Its value; None or NaN for none.
        text: Text that stands for the value; empty for none.
        style: Form of durations.
    """
    if text:
        return text
    if value is None or math.isnan(value):
        return "n/a"
    if rule.figure is None:
        return duration(value, style)
    transform = rule.reference or rule.window
    write = plain_value if transform is None else transform.value_text
    return write(value, FIGURES[rule.scope][rule.figure].unit, style)


def limit_text(scope: Scope, condition: Condition) -> str:
    """Return what a condition compares its figure with, such as `above 5.0 %`."""
    unit = "" if condition.figure is None else FIGURES[scope][condition.figure].unit
    return condition.comparison.words(condition, unit)


def condition_text(scope: Scope, condition: Condition) -> str:
    """Return a condition as people read it, such as `exec_errors increase over 15m above 3`."""
    if condition.figure is None:
        return limit_text(scope, condition)
    said = condition.figure
    if condition.named:
        said += f" ({', '.join(condition.named)})"
    for transform in (condition.window, condition.reference):
        if transform is not None:
            said = transform.operand(said, condition)
    return f"{said} {limit_text(scope, condition)}"


def fill(template: str, alert: Alert) -> str:
    """Return a rule's text with an alert's figures."""
    rule = alert.rule
    return template.format(
        alertname=rule.name,
        target=alert.target or "the fleet",
        place=alert.place or alert.target or "the fleet",
        worst=alert.worst or alert.target or "the fleet",
        value=value_text(rule, alert.value, alert.text),
        limit=limit_text(rule.scope, rule),
        count=f"{alert.members:,}",
        chips=f"{alert.chips:,} chip" + ("" if alert.chips == 1 else "s"),
        links=f"{links_of(alert):,}",
        job=alert.job or "no job",
        cause=alert.cause or "unknown",
        severity=rule.severity.value,
    )


def links_of(alert: Alert) -> int:
    """Return how many links an alert is about, each of whose two ends its rule counts."""
    ends = (
        alert.members
        if alert.rule.scope is Scope.LINK or alert.value is None
        else round(alert.value)
    )
    return -(-ends // 2)


def title(alert: Alert) -> str:
    """Return an alert in a few words, without its place: its rule's title, or the rule's name and the value."""
    if alert.published_title:
        return alert.published_title
    rule = alert.rule
    if rule.title is not None:
        return fill(rule.title, alert)
    value = value_text(rule, alert.value, alert.text, DurationStyle.SHORT)
    return rule.name if value == "n/a" else f"{rule.name} {value}"


def summary(alert: Alert) -> str:
    """Return an alert in one line: its rule's summary, what caused it, and whether it flaps."""
    if alert.published_summary:
        return alert.published_summary
    said = fill(alert.rule.summary, alert)
    if alert.cause and "{cause}" not in alert.rule.summary:
        said += f"; cause: {alert.cause}"
    if alert.is_flapping:
        said += f" (flapping, {alert.times} times in 30 min)"
    return said
