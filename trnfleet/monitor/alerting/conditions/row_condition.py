"""The interface of conditions over targets with addresses.

The package's docstring describes when each method is called.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.alerts.signals import LANES, LEVEL_OF, Scope
from trnfleet.monitor.alerting.conditions.compare import compare, compare_codes, not_clear
from trnfleet.monitor.slices import ROWS_A_SLICE, Slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.layout import Layout
    from trnfleet.domain.metrics import Metric
    from trnfleet.monitor.alerting.conditions.windows import Counters
    from trnfleet.monitor.alerting.inputs import Readings

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Values = NDArray[np.float64]


class MatchingRows(NamedTuple):
    """Targets that fulfil a condition."""

    rows: Rows
    """Ascending."""
    values: Values
    """NaN where the condition has no number."""


NO_ROWS = np.zeros(0, np.int64)
NOTHING = MatchingRows(NO_ROWS, np.zeros(0))


class RowCondition(abc.ABC):
    """One kind of condition.

    The package's docstring describes when each method is called.
    """

    refines = False
    """Whether the mask lets more through than fulfils the condition, so that the values decide."""
    is_narrow = False
    """Whether it finds the few targets that can match without a look at all."""
    has_telling_mask = True
    """Whether the mask of all targets alone, without `update`, can show that no target matches."""
    needs_known = True
    """Whether only targets with live values can fulfil it."""

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:  # noqa: ARG002  for windows
        self.scope = scope
        self.level = LEVEL_OF[scope]
        self.condition = condition
        self.figure = condition.figure or ""
        self.limit = math.nan if condition.limit is None else condition.limit
        """The number compared with; NaN if there is none."""

    def update(self, readings: Readings) -> None:  # noqa: B027  most kinds remember nothing
        """Apply the data received since the last evaluation, before any other call."""

    def is_quick(self, readings: Readings) -> bool:  # noqa: ARG002  for kinds that go by the layout
        """Return whether the mask of all targets fits into one slice."""
        return True

    @abc.abstractmethod
    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return a flag per target of a part: may fulfil the condition.

        It covers all matches, and some more where the kind `refines`. A quick one is called with
        all targets at once.
        """

    @abc.abstractmethod
    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return the compared values of some targets.

        NaN without a value.
        """

    def is_beyond_all(self, readings: Readings, metric: Metric, factor: float) -> bool:
        """Return whether a column's largest or least code shows no match.

        Args:
            readings: The instant.
            metric: The metric of the column.
            factor: Factor of its values.
        """
        condition = self.condition
        codes = readings.store.columns[metric.name]
        if condition.above is None and condition.below is None:
            return False
        end = codes.min() if condition.above is None else codes.max(initial=0)
        # Where the largest code means not available, others may fulfil it.
        return (
            int(end) != metric.top
            and not compare_codes(
                end.reshape(1),
                metric,
                condition.comparison.key,
                *(limit / factor for limit in condition.limits),
            ).any()
        )

    def holds(self, readings: Readings, rows: Rows) -> Flags:
        """Return a flag for each of some targets: fulfils the condition."""
        return compare(self.condition, self.values(readings, rows))

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, Values]:
        """Return three arrays for active targets without a match.

        They are: value known, not clear yet, values.
        """
        values = self.values(readings, rows)
        return readings.is_wholly_known(self.scope, rows), not_clear(self.condition, values), values

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return the rows of all possible matches, ascending."""
        total = count_of(readings.layout, self.scope)
        if self.is_quick(readings):
            return np.flatnonzero(self.mask(readings, slice(0, total)))
        parts: list[Rows] = []
        for first in range(0, total, ROWS_A_SLICE):
            if first:
                yield from readings.checkpoint()
            part = slice(first, min(total, first + ROWS_A_SLICE))
            parts.append(np.flatnonzero(self.mask(readings, part)) + first)
        return np.concatenate(parts) if parts else NO_ROWS


def count_of(layout: Layout, scope: Scope) -> int:
    """Return how many targets a scope has."""
    return layout.count(LEVEL_OF[scope]) * (len(LANES[scope]) if scope in LANES else 1)
