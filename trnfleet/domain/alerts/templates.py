"""Texts of alerts: a rule's summary and description with values, and its conditions in words."""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING, Self

from trnfleet.domain.alerts.alert import Alert, address_of, rack_text
from trnfleet.domain.alerts.conditions import Condition, compared_with, exact_duration, plain_value
from trnfleet.domain.alerts.signals import FIGURES, LEVEL_OF, Scope
from trnfleet.domain.quantities import DurationStyle, counted, duration, signed_percent

if TYPE_CHECKING:
    from trnfleet.domain.alerts.rules import Rule


def value_text(
    rule: Rule, value: float | None, text: str = "", style: DurationStyle = DurationStyle.LONG
) -> str:
    """Return a rule's value as people read it, with its unit.

    Args:
        rule: The rule.
        value: Its value; None or NaN without one.
        text: Text instead of the value; empty without one.
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
    """Return a condition's comparison in words, such as `> 85 °C`."""
    unit = "" if condition.figure is None else FIGURES[scope][condition.figure].unit
    return condition.comparison.words(condition, unit)


def clear_text(scope: Scope, condition: Condition) -> str:
    """Return the value that clears an alert, such as `82 °C`.

    Empty for the limit itself.
    """
    if condition.clear is None or condition.figure is None:
        return ""
    return compared_with(condition.clear, condition, FIGURES[scope][condition.figure].unit)


def condition_text(scope: Scope, condition: Condition) -> str:
    """Return a condition in words, such as `exec errors in 15 min > 3`."""
    if condition.figure is None:
        return limit_text(scope, condition)
    figure = FIGURES[scope][condition.figure]
    if figure.flag is not None and condition.is_plain and condition.equals in {0.0, 1.0}:
        return figure.flag[condition.equals == 1.0]
    words = figure.words
    if condition.named:
        words += f" ({', '.join(condition.named)})"
    if condition.window is not None:
        window = exact_duration(condition.window_s or 0.0)
        words = condition.window.words.format(figure=words, window=window)
    return f"{words} {limit_text(scope, condition)}"


def conditions_text(rule: Rule) -> str:
    """Return all conditions of a rule in words, with commas.

    For example `link tx < 85 % of the instance's median, link up`.
    """
    return ", ".join(condition_text(rule.scope, condition) for condition in rule.conditions)


class _Counted(str):
    """Text of a number before a noun: `{value:error}` is `1 error` or `2 errors`."""

    __slots__ = ("number",)
    number: float | None

    def __new__(cls, text: str, number: float | None) -> Self:
        made = super().__new__(cls, text)
        made.number = number
        return made

    def __format__(self, noun: str) -> str:
        if not noun:
            return str(self)
        return f"{self} {noun}" + (
            "" if self.number is not None and round(self.number) == 1 else "s"
        )


def fill(template: str, alert: Alert) -> str:
    """Return a rule's text with an alert's figures."""
    rule = alert.rule
    place = place_text(alert)
    links = links_of(alert)
    share = alert.value if rule.reference is not None and rule.share_of_median_of else None
    return template.format(
        alertname=rule.name,
        target=_shown(alert, alert.target) or place,
        place=place,
        worst=alert.names.address(alert.worst) or _shown(alert, alert.target) or place,
        value=_Counted(value_text(rule, alert.value, alert.text), alert.value),
        change="n/a" if share is None else signed_percent(100.0 * (share - 1.0)),
        limit=limit_text(rule.scope, rule),
        count=_Counted(f"{alert.members:,}", alert.members),
        chips=counted(alert.chips, "chip"),
        links=_Counted(f"{links:,}", links),
        job=alert.names.job(alert.job) or "no job",
        cause=alert.names.address(alert.cause) or "unknown",
        severity=rule.severity.value,
        silence=alert.silence,
    )


def place_text(alert: Alert) -> str:
    """Return where an alert is: the whole address and the rack, or kind and name."""
    scope = alert.rule.scope
    address = alert.worst if alert.members == 1 and alert.worst else address_of(alert)
    if not (address if scope in LEVEL_OF else alert.target) or scope is Scope.PIPELINE:
        return f"fleet {alert.labels['fleet']}" if "fleet" in alert.labels else "the fleet"
    if scope not in LEVEL_OF:
        return f"{scope.value} {_shown(alert, alert.target)}"
    return f"{alert.names.address(address)} {rack_text(alert.rack)}".rstrip()


def _shown(alert: Alert, target: str) -> str:
    """Return the text shown for a target of an alert's scope."""
    is_job = alert.rule.scope is Scope.JOB
    return alert.names.job(target) if is_job else alert.names.address(target)


def _below(address: str, place: str) -> str:
    """Return an address without its place; a chip's lane keeps the chip: `chip06:east`."""
    above = place.rpartition("/")[0] if address.startswith(f"{place}:") else place
    return address.removeprefix(f"{above}/")


def links_of(alert: Alert) -> int:
    """Return the number of links of an alert; its rule counts both ends of each."""
    ends = (
        alert.members
        if alert.rule.scope is Scope.LINK or alert.value is None
        else round(alert.value)
    )
    return -(-ends // 2)


def title(alert: Alert) -> str:
    """Return a short title of an alert, without its place.

    Its rule's title, or the rule's name and the value.
    """
    if alert.published_title:
        return alert.published_title
    rule = alert.rule
    if rule.title is not None:
        return fill(rule.title, alert)
    value = value_text(rule, alert.value, alert.text, DurationStyle.SHORT)
    return rule.name if value == "n/a" else f"{rule.name} {value}"


def summary(alert: Alert) -> str:
    """Return an alert in one line: place, text, worst member, cause, and flapping.

    The text is the rule's summary, or else its title; parts missing in it are added.
    """
    if alert.published_summary:
        return alert.published_summary
    rule = alert.rule
    template = rule.summary or rule.title or ""
    said = fill(template, alert) if template else title(alert)
    named = {name for _, name, _, _ in string.Formatter().parse(template)}
    if not named & {"target", "place", "worst"}:
        said = f"{place_text(alert)}: {said}"
    if alert.members > 1 and alert.worst and "worst" not in named:
        # Silent chips and events have no order.
        is_ordered = rule.comparison.is_worse is not None and not rule.named
        address = alert.names.address
        member = _below(address(alert.worst), address(address_of(alert)))
        said += f", {'worst' if is_ordered else 'first'} {member}"
    if alert.cause and "cause" not in named:
        said += f"; cause: {alert.names.address(alert.cause)}"
    if alert.is_flapping:
        said += f" (flapping, {alert.times} times in 30 min)"
    return said
