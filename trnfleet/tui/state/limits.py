"""Values from which figures are marked: those at which rules in force fire; without a rule about a figure its own in the table of displays."""

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


class Figure(Protocol):
    """A figure that is shown, with limits of its own."""

    @property
    def key(self) -> str:
        """Its name in rules."""

    def severity(self, value: float) -> Severity | None:
        """Return how bad a value is by its own limits; None for a good one, or none."""


def rules_about(rules: Sequence[Rule], figure: str, level: Level) -> list[Rule]:
    """Return the rules that compare a figure of nodes of a level with one limit, and ask for nothing else.

    A rule of chips says something of what is above them only where that is the largest of them all.
    """
    metric = BY_NAME.get(figure)
    is_largest = metric is not None and metric.aggregate is Aggregate.MAX
    found = []
    for rule in rules:
        if rule.figure != figure or not rule.is_plain or rule.also or rule.limit is None:
            continue
        here = LEVEL_OF.get(rule.scope) is level and rule.scope not in {Scope.CORE, Scope.LINK}
        if here or (is_largest and rule.scope is Scope.CHIP and rule.comparison.key == "above"):
            found.append(rule)
    return found


class MarkLimits:
    """The severities of values, by the rules of the monitor that is shown."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._rules: Sequence[Rule] | None = None
        self._found: dict[tuple[str, Level], Judge | None] = {}

    def severity(self, figure: Figure, value: float, level: Level) -> Severity | None:
        """Return how bad a value of a node of a level is; None for a good one, or none."""
        judge = self.judge(figure, level)
        return None if judge is None else judge(value)

    def judge(self, figure: Figure, level: Level) -> Judge | None:
        """Return what says how bad values of nodes of a level are; None for a figure that is never marked."""
        rules = self._monitor.alerts.rules
        if rules is not self._rules:
            self._rules = rules
            self._found.clear()
        key = figure.key, level
        if key not in self._found:
            above = [
                (each.limit, each.severity)
                for each in rules_about(rules, figure.key, level)
                if each.comparison.key == "above" and each.limit is not None
            ]
            self._found[key] = (
                _judge(above) if above else figure.severity if figure.severity(math.inf) else None
            )
        return self._found[key]


def _judge(limits: list[tuple[float, Severity]]) -> Judge:
    """Return what says how bad values are by limits above which they are."""
    ranked = sorted(limits, key=lambda each: each[1].rank)
    least = min(limit for limit, _ in limits)

    def judge(value: float) -> Severity | None:
        if not value > least:
            return None
        return next((severity for limit, severity in ranked if value > limit), None)

    return judge
