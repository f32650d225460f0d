"""Conditions over targets that have names: jobs, reservations, publishers and the pipeline.

A condition takes the value of the moment to the value that is compared, through the same two transforms as its keys: a window,
then a reference to its own past. For these each target has its own memory and is evaluated by itself: there are few jobs,
reservations and pipelines. Values of the moment are compared as whole columns, because each host of a large fleet is a publisher.
"""

from __future__ import annotations

import abc
import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.alerting.conditions.compare import compare, holds
from trnfleet.monitor.alerting.conditions.windows import Samples, UsualValue
from trnfleet.monitor.alerting.named_targets import Texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.alerting.named_targets import NamedTable, Value

LEAST_SAMPLES = 4
"""Fewest samples of which a maximum or mean is taken."""


class NamedValue:
    """The value that a condition compares, for each target: here the figure as it is, which needs no memory."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    def add(self, name: str, raw: Value, now_ns: int) -> None:
        """Remember the value of the moment; None is not known."""

    def value(self, name: str, raw: Value, now_ns: int) -> Value:  # noqa: ARG002  for kinds with a memory
        """Return what is compared, given the value of the moment; None where that is not known."""
        return float(raw) if isinstance(raw, int) else raw

    def learn(self, name: str, raw: Value, now_ns: int) -> None:
        """Take the value of the moment as a usual one."""

    def usual(self, name: str) -> float | None:  # noqa: ARG002  for the kind that has a past
        """Return a target's usual value; None while that is not known."""
        return None

    def keep(self, names: set[str]) -> None:
        """Forget all other targets."""


class WindowValue(NamedValue, abc.ABC):
    """What a figure did over the window."""

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
        """Return what the window makes of the samples in it."""
        samples = self._samples.get(name)
        return None if samples is None else self.of(samples, now_ns)

    def keep(self, names: set[str]) -> None:
        for name in self._samples.keys() - names:
            del self._samples[name]

    @abc.abstractmethod
    def of(self, samples: Samples, now_ns: int) -> float | None:
        """Return the number that a target's samples make; None where they are too few."""


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
        """Return it; None while time runs faster than the window can follow."""
        values = samples.within(now_ns)
        return max(values) if len(values) >= LEAST_SAMPLES else None


class MeanValue(WindowValue):
    """The mean."""

    def of(self, samples: Samples, now_ns: int) -> float | None:
        """Return it; None while time runs faster than the window can follow."""
        values = samples.within(now_ns)
        return float(sum(values) / len(values)) if len(values) >= LEAST_SAMPLES else None


class PastShareValue(NamedValue):
    """A value as a share of what is usual for the same target: the median of its own past."""

    def __init__(self, condition: Condition, of: NamedValue) -> None:
        super().__init__(condition)
        self._of = of
        self._past: dict[str, UsualValue] = {}

    def add(self, name: str, raw: Value, now_ns: int) -> None:
        self._of.add(name, raw, now_ns)

    def value(self, name: str, raw: Value, now_ns: int) -> Value:
        """Return the share; None while too little is known of the past."""
        value = self._of.value(name, raw, now_ns)
        usual = self.usual(name)
        return value / usual if isinstance(value, float) and usual else None

    def usual(self, name: str) -> float | None:
        return self._past[name].usual() if name in self._past else None

    def learn(self, name: str, raw: Value, now_ns: int) -> None:
        value = self._of.value(name, raw, now_ns)
        if not isinstance(raw, float | int) or not isinstance(value, float):
            return
        past = self._past.get(name)
        if past is None:
            past = self._past[name] = UsualValue(self.condition.past or 0.0)
        past.add(now_ns, value)

    def keep(self, names: set[str]) -> None:
        self._of.keep(names)
        for name in self._past.keys() - names:
            del self._past[name]


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
    """The conditions of one rule over targets that have names."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._value = named_value(rule)
        self.is_plain = type(self._value) is NamedValue
        """Whether the values of the moment say all."""

    def places(self, table: NamedTable) -> NDArray[np.int64]:
        """Return which targets fulfil all conditions by their values of the moment, as numbers in the table."""
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
            active: Those that are pending or firing: what they do at present is not usual.
        """
        rule, now_ns = self.rule, readings.instant.flow_ns
        found: dict[str, tuple[float, str]] = {}
        if self.is_plain:
            column = table.column(str(rule.figure))
            for place in self.places(table).tolist():
                raw = column[place]
                if raw is not None:
                    found[table.names[place]] = (
                        (math.nan, raw) if isinstance(raw, str) else (float(raw), "")
                    )
            return found
        self._value.keep(set(table.names))
        for place, (name, raw) in enumerate(
            zip(table.names, table.column(str(rule.figure)), strict=True)
        ):
            # Times in which the other conditions do not hold are left out of windows and of what is usual.
            also = self._also_hold(table, place)
            self._value.add(name, raw if also else None, now_ns)
            value = self._value.value(name, raw, now_ns)
            is_hit = also and value is not None and holds(rule, value)
            if also and not is_hit and name not in active:
                self._value.learn(name, raw, now_ns)
            if is_hit and value is not None:
                found[name] = (math.nan, value) if isinstance(value, str) else (float(value), "")
        return found

    def usual(self, name: str) -> float | None:
        """Return what is usual for a target, where the rule compares with that; None while it is not known."""
        return self._value.usual(name)

    def number(self, name: str, raw: Value, now_ns: int) -> float | None:
        """Return the number that is compared, for a target that is looked at again in the same evaluation."""
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
    """Return which targets fulfil a condition by their values of the moment."""
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
