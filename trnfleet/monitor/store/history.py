"""History: the last minutes of the figures that charts show, at every level that fits into memory.

A ring a level, one sample a second, in float32. The budget is shared out level by level from the fleet down; a level
whose ring would be shorter than `MIN_SAMPLES` is left out, and single nodes of it are kept from the moment that
they are looked at (`watch`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.store import fields
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.store.fields import Field
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

KEPT: tuple[Field, ...] = tuple(field for field in fields.FIELDS if field.has_history)
"""The fields that history keeps."""

MAX_SAMPLES = 900
"""Seconds that a ring holds at most: 15 minutes."""
MIN_SAMPLES = 120
BUDGET_BYTES = 64 * 2**20
"""Memory for all rings together; no level gets more than half of it."""
MAX_WATCHED = 64
"""Single nodes that are kept beside the rings; the one looked at longest ago goes first."""

_LEVELS = (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE, Level.CHIP)


class _Ring:
    """Samples x fields x nodes."""

    def __init__(self, samples: int, nodes: int) -> None:
        self.values: NDArray[np.float32] = np.full((samples, len(KEPT), nodes), np.nan, np.float32)
        self.filled = 0
        self.next = 0

    def push(self, rows: list[NDArray[np.float64]]) -> None:
        for number, row in enumerate(rows):
            self.values[self.next, number] = row
        self.next = (self.next + 1) % len(self.values)
        self.filled = min(self.filled + 1, len(self.values))

    def skip(self, samples: int) -> None:
        """Leave samples out."""
        samples = min(samples, len(self.values))
        self.values[(self.next + np.arange(samples)) % len(self.values)] = np.nan
        self.next = (self.next + samples) % len(self.values)
        self.filled = min(self.filled + samples, len(self.values))

    def series(self, field: int, node: int) -> NDArray[np.float32]:
        column = self.values[:, field, node]
        if self.filled < len(column):
            return column[: self.filled].copy()
        return np.concatenate([column[self.next :], column[: self.next]])


class History:
    """The rings of one store."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES, most_samples: int = MAX_SAMPLES) -> None:
        self._budget = budget_bytes
        self._most = most_samples
        self._layout: Layout | None = None
        self._rings: dict[Level, _Ring] = {}
        self._watched: OrderedDict[str, _Ring] = OrderedDict()
        self.samples = 0
        """Samples taken since the start."""

    def seconds(self, level: Level) -> int:
        """Return how many seconds the ring of a level can hold; 0 where the level does not fit."""
        ring = self._rings.get(level)
        return len(ring.values) if ring else 0

    @property
    def layout(self) -> Layout | None:
        """The layout that nodes are numbers of; None before the first sample."""
        return self._layout

    @property
    def nbytes(self) -> int:
        """Bytes that all rings take."""
        return sum(ring.values.nbytes for ring in (*self._rings.values(), *self._watched.values()))

    def watch(self, path: str) -> None:
        """Keep the node at `path` from now on, where its level has no ring of its own."""
        if path in self._watched:
            self._watched.move_to_end(path)
            return
        while len(self._watched) >= MAX_WATCHED:
            self._watched.popitem(last=False)
        self._watched[path] = _Ring(self._most, 1)

    def push(self, store: Store, rollups: Rollups) -> None:
        """Take one sample of everything that is kept; called once a second."""
        if not rollups.ready or rollups.generation != store.generation:
            return
        layout = store.layout
        if layout is not self._layout:
            self._take_layout(layout)
        for level, ring in self._rings.items():
            silent = ~_live(store, rollups, level)
            ring.push([_with_gaps(field.values(store, rollups, level, None), silent) for field in KEPT])
        for path, ring in self._watched.items():
            node = layout.find(path)
            if node is None or node.level in self._rings:
                continue
            numbers = np.array([node.number])
            silent = ~_live(store, rollups, node.level)[numbers]
            ring.push(
                [_with_gaps(field.values(store, rollups, node.level, numbers), silent) for field in KEPT]
            )
        self.samples += 1

    def skip(self, seconds: int) -> None:
        """Leave a gap for seconds in which no sample was taken."""
        for ring in (*self._rings.values(), *self._watched.values()):
            ring.skip(seconds)
        self.samples += seconds

    def series(self, layout: Layout, node: Node, key: str) -> NDArray[np.float32]:
        """Return the samples of a field for a node, oldest first, one a second; empty where nothing is kept."""
        field = next((number for number, each in enumerate(KEPT) if each.key == key), None)
        if field is None:
            return np.zeros(0, np.float32)
        ring = self._rings.get(node.level)
        if ring is not None and layout is self._layout:
            return ring.series(field, node.number)
        watched = self._watched.get(layout.path(node))
        return watched.series(field, 0) if watched else np.zeros(0, np.float32)

    def _take_layout(self, layout: Layout) -> None:
        """Make rings for a new layout; nodes that stay keep their past."""
        old_layout, old_rings = self._layout, self._rings
        self._layout, self._rings = layout, {}
        left = self._budget
        for level in _LEVELS:
            sample_bytes = layout.count(level) * len(KEPT) * 4
            samples = min(self._most, min(left, self._budget // 2) // max(1, sample_bytes))
            if not sample_bytes or samples < MIN_SAMPLES:
                break
            ring = self._rings[level] = _Ring(samples, layout.count(level))
            left -= ring.values.nbytes
            before = old_rings.get(level)
            if before is not None and old_layout is not None:
                _carry_over(before, old_layout, ring, layout, level)


def _live(store: Store, rollups: Rollups, level: Level) -> NDArray[np.bool_]:
    """Return which nodes of a level have anything live: the others' last values are no news."""
    live: NDArray[np.bool_]
    if level is Level.CHIP:
        live = store.chip_state == Freshness.LIVE
    else:
        live = rollups.states(level)[:, Freshness.LIVE] > 0
    return live


def _with_gaps(values: NDArray[np.float64], silent: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(silent, np.nan, values) if silent.any() else values


def _carry_over(before: _Ring, old: Layout, ring: _Ring, new: Layout, level: Level) -> None:
    """Copy the past of the nodes that both layouts have."""
    places = {path: number for number, path in enumerate(_paths(old, level))}
    pairs = [(number, places[path]) for number, path in enumerate(_paths(new, level)) if path in places]
    if not pairs or not before.filled:
        return
    to, source = (np.array(side) for side in zip(*pairs, strict=True))
    kept = min(before.filled, len(ring.values))
    order = (np.arange(before.next - kept, before.next)) % len(before.values)
    ring.values[:kept, :, to] = before.values[order][:, :, source]
    ring.filled, ring.next = kept, kept % len(ring.values)


def _paths(layout: Layout, level: Level) -> tuple[str, ...]:
    if level is Level.FLEET:
        return ("",)
    if level is Level.CLUSTER:
        return layout.clusters
    if level is Level.ULTRASERVER:
        return layout.ultraservers
    if level is Level.INSTANCE:
        return layout.instances
    starts = layout.chip_start
    return tuple(
        f"{path}/{number}"
        for instance, path in enumerate(layout.instances)
        for number in range(int(starts[instance + 1] - starts[instance]))
    )
