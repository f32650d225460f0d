"""Limits for marking figures, from the rules in force.

A figure without a rule uses its own limits from the table of displays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.metrics import BY_NAME, Aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.domain.address import Level
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.severity import Severity
    from trnfleet.monitor.fleet_state import FleetState

    Judge = Callable[[float], Severity | None]


class JudgedFigure(Protocol):
    """A figure on the screen with limits of its own."""

    @property
    def key(self) -> str:
        """Its name in rules."""

    def severity(self, value: float) -> Severity | None:
        """Return the severity of a value by its own limits; None if good or NaN."""


def rules_about(rules: Sequence[Rule], figure: str, level: Level) -> list[Rule]:
    """Return the plain rules with one limit for a figure at a level.

    Plain rules have no other condition.

    A rule of chips applies to higher levels only if their figure is the maximum over chips.
    """
    metric = BY_NAME.get(figure)
    is_largest = metric is not None and metric.aggregate is Aggregate.MAX
    plain_rules = []
    for rule in rules:
        if rule.figure != figure or not rule.is_plain or rule.also or rule.limit is None:
            continue
        here = LEVEL_OF.get(rule.scope) is level and rule.scope not in {Scope.CORE, Scope.LINK}
        if here or (is_largest and rule.scope is Scope.CHIP and rule.comparison.key == "above"):
            plain_rules.append(rule)
    return plain_rules


class MarkLimits:
    """The severities of values, by the rules of the monitor shown."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._rules: Sequence[Rule] | None = None
        self._found: dict[tuple[str, Level], Judge | None] = {}

    def severity(self, figure: JudgedFigure, value: float, level: Level) -> Severity | None:
        """Return the severity of a value at a level; None if good or NaN."""
        judge = self.judge(figure, level)
        return None if judge is None else judge(value)

    def judge(self, figure: JudgedFigure, level: Level) -> Judge | None:
        """Return a function from values at a level to severities; None for an unmarked figure."""
        rules = self._monitor.alerts.rules
        if rules is not self._rules:
            self._rules = rules
            self._found.clear()
        key = figure.key, level
        if key not in self._found:
            above = [
                (rule.limit, rule.severity)
                for rule in rules_about(rules, figure.key, level)
                if rule.comparison.key == "above" and rule.limit is not None
            ]
            self._found[key] = (
                _judge(above) if above else figure.severity if figure.severity(math.inf) else None
            )
        return self._found[key]


def _judge(limits: list[tuple[float, Severity]]) -> Judge:
    """Return a function from values to severities, by the limits they exceed."""
    ranked = sorted(limits, key=lambda pair: pair[1].rank)
    least = min(limit for limit, _ in limits)

    def judge(value: float) -> Severity | None:
        if not value > least:
            return None
        return next((severity for limit, severity in ranked if value > limit), None)

    return judge
