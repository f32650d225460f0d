"""Conditions over targets with names: jobs, reservations, publishers and the pipeline.

A condition turns the current value into the compared one through the same two transforms as its
keys: a window, then a reference to its own past. For these each target has its own history and is
evaluated by itself: there are few jobs, reservations and pipelines. Current values are compared as
whole columns, because each host of a large fleet is a publisher.
"""

from __future__ import annotations

import abc
import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.alerting.conditions.compare import compare, holds
from trnfleet.monitor.alerting.conditions.windows import Samples, UsualValue
from trnfleet.monitor.alerting.inputs import LEAST_PEERS, Readings
from trnfleet.monitor.alerting.named_targets import NamedTable, Texts, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.alerts.rules import Rule


class NamedValue:
    """The compared value of each target.

    This kind is the figure itself, without history.
    """

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    def add(self, name: str, raw: Value, now_ns: int) -> None:
        """Add the current value to the history; None if unknown."""

    def value(self, name: str, raw: Value, now_ns: int) -> Value:  # noqa: ARG002  for kinds with a memory
        """Return the compared value for the current figure.

        None if unknown.
        """
        return float(raw) if isinstance(raw, int) else raw

    def learn(self, name: str, raw: Value, now_ns: int) -> None:
        """Add the current value to the usual ones."""

    def learn_before(self, before: NamedValue) -> None:
        """Copy the usual values of an earlier time."""

    def usual(self, name: str) -> float | None:  # noqa: ARG002  for the kind that has a past
        """Return a target's usual value.

        None while unknown.
        """
        return None

    def keep(self, names: set[str]) -> None:
        """Forget all other targets."""


class WindowValue(NamedValue, abc.ABC):
    """An aggregate of a figure over the window."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition)
        self.window_s = condition.window_s or 0.0
        self._samples: dict[str, Samples] = {}

    def add(self, name: str, raw: Value, now_ns: int) -> None:
        samples = self._samples.get(name)
        if samples is None:
            samples = self._samples[name] = Samples(self.window_s)
        samples.add(now_ns, raw)

    def value(self, name: str, raw: Value, now_ns: int) -> Value:  # noqa: ARG002  as all kinds
        """Return the aggregate of the samples in the window."""
        samples = self._samples.get(name)
        return None if samples is None else self.of(samples, now_ns)

    def keep(self, names: set[str]) -> None:
        for name in self._samples.keys() - names:
            del self._samples[name]

    @abc.abstractmethod
    def of(self, samples: Samples, now_ns: int) -> float | None:
        """Return the aggregate of a target's samples.

        None if there are too few.
        """


class ChangesValue(WindowValue):
    """How often the figure changed."""

    def of(self, samples: Samples, now_ns: int) -> float | None:
        return samples.changes(now_ns)


class IncreaseValue(WindowValue):
    """By how much a counter has grown."""

    def of(self, samples: Samples, now_ns: int) -> float | None:
        return samples.increase(now_ns)


class RateValue(WindowValue):
    """By how much a counter has grown a second."""

    def of(self, samples: Samples, now_ns: int) -> float | None:
        increase = samples.increase(now_ns)
        return None if increase is None else increase / self.window_s


class MaxValue(WindowValue):
    """The largest value."""

    def of(self, samples: Samples, now_ns: int) -> float | None:
        """Return the maximum.

        None while time runs too fast for the window.
        """
        values = samples.within(now_ns)
        return max(values) if len(values) >= LEAST_PEERS else None


class MeanValue(WindowValue):
    """The mean."""

    def of(self, samples: Samples, now_ns: int) -> float | None:
        """Return the mean.

        None while time runs too fast for the window.
        """
        values = samples.within(now_ns)
        return float(sum(values) / len(values)) if len(values) >= LEAST_PEERS else None


class PastShareValue(NamedValue):
    """A value as a share of the target's usual value (`UsualValue`)."""

    def __init__(self, condition: Condition, of: NamedValue) -> None:
        super().__init__(condition)
        self._of = of
        self.past: dict[str, UsualValue] = {}

    def add(self, name: str, raw: Value, now_ns: int) -> None:
        self._of.add(name, raw, now_ns)

    def value(self, name: str, raw: Value, now_ns: int) -> Value:
        """Return the share.

        None while the past is too short.
        """
        value = self._of.value(name, raw, now_ns)
        usual = self.usual(name)
        return value / usual if isinstance(value, float) and usual else None

    def usual(self, name: str) -> float | None:
        return self.past[name].usual() if name in self.past else None

    def learn(self, name: str, raw: Value, now_ns: int) -> None:
        value = self._of.value(name, raw, now_ns)
        if not isinstance(raw, float | int) or not isinstance(value, float):
            return
        self._past_of(name).add(now_ns, value)

    def learn_before(self, before: NamedValue) -> None:
        if isinstance(before, PastShareValue):
            for name, past in before.past.items():
                self._past_of(name).prepend(past)

    def _past_of(self, name: str) -> UsualValue:
        past = self.past.get(name)
        if past is None:
            past = self.past[name] = UsualValue(self.condition)
        return past

    def keep(self, names: set[str]) -> None:
        self._of.keep(names)
        for name in self.past.keys() - names:
            del self.past[name]


NAMED_VALUES: Mapping[str, type[WindowValue]] = MappingProxyType(
    {
        "changes_over": ChangesValue,
        "increase_over": IncreaseValue,
        "rate_over": RateValue,
        "max_over": MaxValue,
        "mean_over": MeanValue,
    }
)
"""How each window is evaluated, by its key."""


def named_value(condition: Condition) -> NamedValue:
    """Return the evaluation of a condition's transforms."""
    window = condition.window
    value = NamedValue(condition) if window is None else NAMED_VALUES[window.key](condition)
    return value if condition.reference is None else PastShareValue(condition, value)


class NamedCondition:
    """The conditions of one rule over targets with names."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._value = named_value(rule)
        self.is_plain = type(self._value) is NamedValue
        """Whether the values of the moment say all."""

    def places(self, table: NamedTable) -> NDArray[np.int64]:
        """Return the table positions of matching targets, by their current values."""
        flags = _fulfil(self.rule, table)
        for condition in self.rule.also:
            if not flags.any():
                break
            flags = flags & _fulfil(condition, table)
        return np.flatnonzero(flags)

    def search(
        self, readings: Readings, table: NamedTable, active: set[str]
    ) -> dict[str, tuple[float, str]]:
        """Return the targets that fulfil all conditions, with their values as number and text.

        Args:
            readings: The instant.
            table: The targets.
            active: Pending or firing targets. Their current values are not usual.
        """
        rule = self.rule
        now_ns = readings.instant.flow_ns
        hits: dict[str, tuple[float, str]] = {}
        if self.is_plain:
            column = table.column(str(rule.figure))
            for place in self.places(table).tolist():
                raw = column[place]
                if raw is not None:
                    hits[table.names[place]] = (
                        (math.nan, raw) if isinstance(raw, str) else (float(raw), "")
                    )
            return hits
        self._value.keep(set(table.names))
        for place, (name, raw) in enumerate(
            zip(table.names, table.column(str(rule.figure)), strict=True)
        ):
            # Times without the other conditions are left out of windows and usual values.
            also = self._also_hold(table, place)
            self._value.add(name, raw if also else None, now_ns)
            value = self._value.value(name, raw, now_ns)
            is_hit = also and value is not None and holds(rule, value)
            if also and not is_hit and name not in active:
                self._value.learn(name, raw, now_ns)
            if is_hit and value is not None:
                hits[name] = (math.nan, value) if isinstance(value, str) else (float(value), "")
        return hits

    def usual(self, name: str) -> float | None:
        """Return a target's usual value.

        None while unknown, or if the rule does not compare with it.
        """
        return self._value.usual(name)

    def learn_before(self, before: NamedCondition) -> None:
        """Copy the usual values of an earlier time."""
        self._value.learn_before(before._value)

    def number(self, name: str, raw: Value, now_ns: int) -> float | None:
        """Return the compared number for a target checked again in the same evaluation."""
        value = self._value.value(name, raw, now_ns)
        return value if isinstance(value, float) else None

    def _also_hold(self, table: NamedTable, place: int) -> bool:
        """Return whether a target fulfils the conditions of `also`."""
        for condition in self.rule.also:
            other = table.column(str(condition.figure))[place]
            if other is None or not holds(condition, other):
                return False
        return True


def _fulfil(condition: Condition, table: NamedTable) -> NDArray[np.bool_]:
    """Return a flag per target: fulfils a condition by its current value."""
    figure = str(condition.figure)
    values = table.array(figure)
    if values is None:
        return np.array(
            [value is not None and holds(condition, value) for value in table.column(figure)],
            np.bool_,
        )
    if not isinstance(values, Texts):
        return compare(condition, values)
    flags = np.zeros(len(values.codes), np.bool_)
    for code, text in enumerate(values.texts):
        if text in condition.texts:
            flags |= values.codes == code
    return flags
