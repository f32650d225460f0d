"""Counters of chips across minutes: last values and increases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.metrics import CHIP_METRICS, Kind
from trnfleet.monitor.store.layout_changes import moves, same_instances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.store import Store

    Rows = slice | NDArray[np.int64]

COUNTERS = tuple(metric for metric in CHIP_METRICS if metric.kind is Kind.COUNTER)


class CounterValues:
    """The last known value of every counter of every chip."""

    def __init__(self, chips: int) -> None:
        self.last: dict[str, NDArray[Any]] = {
            metric.name: metric.blank(chips) for metric in COUNTERS
        }

    def moved(self, to: Layout, source: Layout) -> CounterValues:
        """Return the values of the remaining instances under another layout's rows."""
        twin = CounterValues(to.chips)
        for new, old in moves(same_instances(to, source)):
            rows = to.chips_of(new)
            before = source.chips_of(old)
            for name, values in self.last.items():
                twin.last[name][rows] = values[before]
        return twin

    def copy(self) -> CounterValues:
        """Return a copy."""
        twin = CounterValues(0)
        twin.last = {name: values.copy() for name, values in self.last.items()}
        return twin

    def take(self, store: Store, rows: Rows) -> dict[str, NDArray[np.uint64]]:
        """Store the values of rows, and return the increases of changed counters.

        A lower value than before restarted at 0. A first value is no increase.
        """
        grown: dict[str, NDArray[np.uint64]] = {}
        for metric in COUNTERS:
            last = self.last[metric.name]
            new = store.columns[metric.name][rows]
            old = last[rows]
            if np.array_equal(new, old):
                continue
            top = metric.dtype.type(metric.top)
            known = new != top
            both = known & (old != top)
            # Most grow; where one is lower, all that it shows has come since.
            step = np.where(new >= old, new - old, new)
            grown[metric.name] = np.where(both, step, 0).astype(np.uint64)
            last[rows] = new if known.all() else np.where(known, new, old)
        return grown

    def put(self, store: Store, rows: Rows) -> None:
        """Replace the values of rows by known ones of the store."""
        for metric in COUNTERS:
            new = store.columns[metric.name][rows]
            self.last[metric.name][rows] = np.where(
                new != metric.top, new, self.last[metric.name][rows]
            )
