"""Expectations of a rule test: the active alerts of an instant, compared with the actual."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.rule_tests import AlertCase


class ActiveAlert(NamedTuple):
    """An active alert at an instant."""

    target: str
    state: str
    """firing or pending."""
    value: float | str | None
    place: str
    members: int
    summary: str

    def __str__(self) -> str:
        """Return it in one line."""
        value = "" if self.value is None else f" value={_short(self.value)}"
        place = f" place={self.place}" if self.place and self.place != self.target else ""
        return (
            f"{self.target or 'the fleet'} {self.state}{value} members={self.members}{place} "
            f" {self.summary}"
        )


Frame = dict[str, tuple[ActiveAlert, ...]]
"""The active alerts of an instant by rule, in the order of their targets."""


class FailedExpectation(NamedTuple):
    """An expectation that failed."""

    test: str
    at_s: float
    rule: str
    expected: tuple[str, ...]
    got: tuple[str, ...]


def fits(expected: Sequence[AlertCase], got: Sequence[ActiveAlert]) -> bool:
    """Return whether the alerts are the expected ones, one for each."""
    left = {(active.target, active.state): active for active in got}
    if len(expected) != len(got):
        return False
    for alert in expected:
        seen = left.pop((alert.target, alert.state), None)
        if seen is None or not _is_as(alert, seen):
            return False
    return True


def _is_as(alert: AlertCase, seen: ActiveAlert) -> bool:
    if alert.value is not None and not _same_value(alert.value, seen.value):
        return False
    return (
        alert.place in {None, seen.place}
        and alert.members in {None, seen.members}
        and alert.summary in {None, seen.summary}
    )


def _same_value(one: float | str, other: float | str | None) -> bool:
    if isinstance(one, str) or not isinstance(other, float):
        return one == other
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def words(alert: AlertCase) -> str:
    """Return an expected alert in one line, in the form of `ActiveAlert`."""
    value = "" if alert.value is None else f" value={_short(alert.value)}"
    members = "" if alert.members is None else f" members={alert.members}"
    place = "" if alert.place is None else f" place={alert.place}"
    summary_text = "" if alert.summary is None else f"  {alert.summary}"
    return f"{alert.target or 'the fleet'} {alert.state}{value}{members}{place}{summary_text}"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.9g}"
