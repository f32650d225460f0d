"""Comparisons with a limit: of values, of wire codes, and with the limit for clearing.

The tables have one row per numeric comparison of `trnfleet.domain.alerts.conditions`.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.metrics import Metric

    Flags = NDArray[np.bool_]

_VALUES: Mapping[str, Callable[..., Flags]] = MappingProxyType(
    {
        "above": np.greater,
        "below": np.less,
        "equals": np.equal,
        "total_above": np.greater,
    }
)
"""Comparisons of values, by their key: called with the values and the limits."""


def compare(condition: Condition, values: NDArray[Any]) -> Flags:
    """Return a flag per value: fulfils the condition.

    NaN does not.
    """
    limits = condition.limits
    if not limits:
        return np.zeros(len(values), np.bool_)
    return _VALUES[condition.comparison.key](values, *limits)


def holds(condition: Condition, value: float | str) -> bool:
    """Return whether one value fulfils a condition."""
    if isinstance(value, str):
        return value in condition.texts
    return bool(compare(condition, np.array([value]))[0])


def not_clear(condition: Condition, values: NDArray[np.float64]) -> Flags:
    """Return a flag per value: not yet on the good side of the clear limit.

    The limit itself counts as clear.
    """
    if condition.clear is None:
        return np.zeros(len(values), np.bool_)
    return _VALUES[condition.comparison.key](values, condition.clear)


def compare_codes(codes: NDArray[Any], metric: Metric, comparison: str, *limits: float) -> Flags:
    """Compare wire codes with limits in the metric's unit, without decoding them."""
    return _CODES[comparison](codes, metric.top, *(_in_steps(limit, metric) for limit in limits))


def _in_steps(limit: float, metric: Metric) -> float:
    """Return a limit as a multiple of the step of one code."""
    steps = limit * metric.steps_per_unit if metric.steps_per_unit else limit / metric.scale
    if abs(steps - round(steps)) <= 1e-10 + abs(steps) * 2**-51:
        # 0.1 x 3 is 0.3 for the author of the rule, and a limit equal to a code's value is this
        # code.
        return round(steps)
    return steps


def available(codes: NDArray[Any], metric: Metric) -> Flags:
    """Return a flag per code: it is a value."""
    flags: Flags = codes != metric.top
    return flags


def _codes_above(codes: NDArray[Any], top: int, steps: float) -> Flags:
    least = math.floor(steps) + 1
    if least >= top:
        return np.zeros(codes.shape, np.bool_)
    flags: Flags = (codes >= max(least, 0)) & (codes != top)
    return flags


def _codes_below(codes: NDArray[Any], top: int, steps: float) -> Flags:
    most = math.ceil(steps)
    if most <= 0:
        return np.zeros(codes.shape, np.bool_)
    # The top code is the largest, so it is never below the limit.
    flags: Flags = codes < min(most, top)
    return flags


def _codes_equal(codes: NDArray[Any], top: int, steps: float) -> Flags:
    whole = round(steps)
    if whole != steps or not 0 <= whole < top:
        return np.zeros(codes.shape, np.bool_)
    flags: Flags = codes == whole
    return flags


_CODES: Mapping[str, Callable[..., Flags]] = MappingProxyType(
    {
        "above": _codes_above,
        "below": _codes_below,
        "equals": _codes_equal,
        "total_above": _codes_above,
    }
)
"""Comparisons of codes, by key. Arguments: the codes, the code for "not available", and the limits
in code steps."""
