"""History as it was at a moment: the samples of whoever has monitored on, cut off where the past stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.store.history import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.domain.address import Level
    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store


class ChartedHistory(History):
    """The past's history: another monitor's up to the past's time, and its own where the other has not come so far."""

    def __init__(self, other: Monitor, now_s: Callable[[], float]) -> None:
        """Look at a monitor's samples.

        Args:
            other: The one that has gone on: the live monitor, or the one that looks through the file.
            now_s: The past's time, monotonic seconds of the other.
        """
        super().__init__()
        # Views look whether there is anything to draw, and the other's samples are.
        self.samples = other.history.samples
        self._other = other
        self._now_s = now_s

    def seconds(self, level: Level) -> int:
        """Return how many seconds the ring of a level can hold."""
        return self._other.history.seconds(level) or super().seconds(level)

    def push(self, store: Store, rollups: Rollups) -> None:
        """Take a sample of its own where the other one has none."""
        if self._cut() < 0:
            super().push(store, rollups)
        else:
            self.samples += 1

    def watch(self, path: str) -> None:
        """Keep a node from now on."""
        super().watch(path)
        self._other.history.watch(path)

    def series(self, layout: Layout, node: Node, key: str) -> NDArray[np.float32]:
        """Return the samples of a field for a node up to the past's time, oldest first, one a second."""
        own = super().series(layout, node, key)
        there = self._other.history.layout
        same = node if there is layout else there.find(layout.path(node)) if there is not None else None
        if there is None or same is None:
            return own
        series = self._other.history.series(there, same, key)
        cut = self._cut()
        if cut < 0:
            # Between the other's last sample and the first of its own nobody has looked.
            gap = max(0, -cut - len(own))
            return np.concatenate([series, np.full(gap, np.nan, np.float32), own[cut:]])
        return series[: max(0, len(series) - cut)]

    def _cut(self) -> int:
        """Return how many of the other's samples are later than the past; negative where it is behind the past."""
        return round(self._other.history_s - self._now_s())
