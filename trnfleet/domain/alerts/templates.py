"""An alert in words: its rule's texts with the figures filled in, as plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.signals import FIGURES
from trnfleet.domain.quantities import DurationStyle, duration, with_unit

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Condition, Rule


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
    if rule.share_of_median_of is not None:
        return f"{100 * value:.0f} %"
    if rule.figure is None:
        return duration(value, style)
    unit = FIGURES[rule.scope][rule.figure].unit
    if rule.window == "rate_over":
        return f"{value:.3g} {unit or ''}".rstrip() + "/s"
    if unit == "s":
        if value >= 60:
            return duration(value, style)
        return f"{value:.3g}{' ' if style is DurationStyle.LONG else ''}s"
    if rule.minus_median_of is not None:
        return f"{'+' if value >= 0 else '-'}{with_unit(abs(value), unit)}"
    return with_unit(value, unit)


def limit_text(rule: Rule) -> str:
    """Return what a rule's value is held against, such as `above 5.0 %`."""
    return condition_text(rule, rule)


def condition_text(rule: Rule, condition: Condition) -> str:
    """Return a condition as people read it, without its figure."""
    if condition.absent:
        return "silent"
    if condition.texts:
        return " or ".join(condition.texts)
    if condition.has:
        return "has " + " or ".join(condition.has)
    limit = condition.limit
    if limit is None:
        return ""
    said = f"{100 * limit:g} %" if condition.share_of_median_of else f"{limit:g}"
    if condition.figure is not None and not condition.share_of_median_of:
        unit = FIGURES[rule.scope][condition.figure].unit
        if unit in {"%", "s", "degC", "W"}:
            said = (
                duration(limit) if unit == "s" and limit >= 60 else f"{limit:g} {unit}".replace("degC", "°C")
            )
    return f"{condition.comparison} {said}"


def fill(template: str, alert: Alert) -> str:
    """Return a rule's text with an alert's figures."""
    rule = alert.rule
    return template.format(
        alertname=rule.name,
        target=alert.target or "the fleet",
        place=alert.place or alert.target or "the fleet",
        worst=alert.worst or alert.target or "the fleet",
        value=value_text(rule, alert.value, alert.text),
        limit=limit_text(rule),
        count=f"{alert.members:,}",
        chips=f"{alert.chips:,} chip" + ("" if alert.chips == 1 else "s"),
        job=alert.job or "no job",
        cause=alert.cause or "unknown",
        severity=rule.severity.value,
    )


def summary(alert: Alert) -> str:
    """Return an alert in one line: its rule's summary, what caused it, and whether it flaps."""
    said = fill(alert.rule.summary, alert)
    if alert.cause and "{cause}" not in alert.rule.summary:
        said += f"; cause: {alert.cause}"
    if alert.is_flapping:
        said += f" (flapping, {alert.times} times in 30 min)"
    return said
