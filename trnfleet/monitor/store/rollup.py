"""Roll-ups: every metric at every level from instance to fleet, with what they cover.

A node's roll-up is made of the chips below it that are live; where none is live, of the last values known (which is
drawn dimmed). Values that are not available are skipped, and `covered` says how many chips went in.

A pass runs in slices (`monitor/slices.py`) of one metric over some instances. Its arrays become the roll-ups only at the end,
together and with the generation of the layout that they were computed for. Where the store's generation is another one, the
roll-ups are stale: their rows belong to the layout before, until the next pass ends. Readers compare `generation` with the
store's before they join rows of both; views read the old roll-ups with `layout`, which is theirs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.domain.metrics import BY_NAME, METRICS, Aggregate, Metric, Scope
from trnfleet.monitor.slices import checkpoint
from trnfleet.monitor.store.per_instance import combine, fold, sums
from trnfleet.monitor.store.store import Freshness, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.monitor.slices import Slices

    Rows = NDArray[np.int64] | slice
    Pick = NDArray[np.int64] | slice
    """Numbers of nodes, or a range of them."""

ALL = slice(None)
"""All nodes of a level."""
LEVELS = (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE)

_BITWISE = {Aggregate.OR: np.bitwise_or, Aggregate.AND: np.bitwise_and}
_UPWARDS: dict[Aggregate, tuple[np.ufunc, float]] = {
    Aggregate.SUM: (np.add, 0.0),
    Aggregate.MEAN: (np.add, 0.0),
    Aggregate.MAX: (np.maximum, -np.inf),
    Aggregate.OR: (np.bitwise_or, 0),
    Aggregate.AND: (np.bitwise_and, 0),
}
"""What puts the nodes of a level together, and what stands for one that does not count; of bits that is a code of the metric's."""
_SLICE_LANES = 4_000_000
"""Lanes (chips x width) that one slice of work takes: about a millisecond."""
_CAREFUL_LANES = 50_000
"""The same where each value is looked at, because some are not available or do not count."""


class RollupReader(Protocol):
    """Roll-ups as fields read them: those of the last pass, or means."""

    def value(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric's aggregate for nodes of a level."""

    def mean(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric for one covered chip (or instance)."""

    def covered(self, name: str, level: Level) -> NDArray[np.float64]:
        """Return how many chips (or instances) went into a metric."""

    def takes(self, level: Level) -> NDArray[np.bool_]:
        """Return which nodes of the level below went into `level`."""


class Rollups:
    """The roll-ups of one store, as of the last pass."""

    def __init__(self) -> None:
        self.generation = -1
        """The store's layout generation that these belong to."""
        self.revision = 0
        """Goes up with every finished pass."""
        self.layout: Layout = EMPTY_LAYOUT
        self._of: int | None = None
        """The store's revision when the last pass began; None where its owner does not tell."""
        self._total: dict[tuple[str, Level], NDArray[np.float64]] = {}
        self._count: dict[tuple[str, Level], NDArray[np.float64]] = {}
        self._states: dict[Level, NDArray[np.int64]] = {}
        self._takes: dict[Level, NDArray[np.bool_]] = {}

    def value(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric's aggregate (sum, mean, maximum or bits, as its row says) for nodes of a level.

        NaN where nothing below is available. For bit masks, the bits as a number.
        """
        total, count = self._total[name, level][pick], self._count[name, level][pick]
        if BY_NAME[name].aggregate is Aggregate.MEAN:
            return total / _positive(count)
        return np.where(count > 0, total, np.nan)

    def mean(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a summed or averaged metric for one covered chip (or instance), so that levels compare."""
        if BY_NAME[name].aggregate is Aggregate.MAX:
            return self.value(name, level, pick)
        return self._total[name, level][pick] / _positive(self._count[name, level][pick])

    def parts(self, name: str, level: Level) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric's total (or maximum, or bits) and how many chips or instances went into it, for all nodes of a level."""
        return self._total[name, level], self._count[name, level]

    def frozen(self) -> Rollups:
        """Return the same roll-ups, which later passes do not change."""
        return copy.copy(self)

    def covered(self, name: str, level: Level) -> NDArray[np.float64]:
        """Return how many chips (or instances) went into a metric's roll-up for all nodes of a level."""
        return self._count[name, level]

    def takes(self, level: Level) -> NDArray[np.bool_]:
        """Return which nodes of the level below went into the roll-up of `level` (UltraServer, cluster or fleet)."""
        return self._takes[level]

    def states(self, level: Level) -> NDArray[np.int64]:
        """Return nodes x 4: how many chips below each node are in each `Freshness`."""
        return self._states[level]

    @property
    def ready(self) -> bool:
        """Whether a pass has been finished."""
        return self.generation >= 0

    def passes(self, store: Store, revision: int | None = None) -> Slices[None]:
        """Compute every roll-up in slices; results change all at once at the end.

        Args:
            store: The values.
            revision: The store's revision, of an owner that raises it with every change: of the same values the roll-ups are the
                same, and are not computed again. Without it they are computed.

        Raises:
            LayoutChanged: the store has another layout now; the roll-ups are as before.
        """
        layout, generation = store.layout, store.generation
        if revision is not None and (generation, revision) == (self.generation, self._of):
            self.revision += 1
            return
        totals: dict[tuple[str, Level], NDArray[np.float64]] = {}
        counts: dict[tuple[str, Level], NDArray[np.float64]] = {}
        states = _count_states(store)
        yield from checkpoint(store, generation)
        included = _Included(store, states[Level.INSTANCE])
        takes = included.takes(layout)
        # Of most metrics every chip, or every instance, is known: what all of them cover is counted once.
        chips = np.diff(layout.chip_start).astype(np.float64)
        steps = _steps(layout)
        of_all = _covered(steps, chips, takes)
        of_instances = _covered(steps, np.ones(len(chips)), takes)
        for metric in METRICS:
            total, count = np.zeros(len(chips)), chips
            covered = of_all
            if metric.scope is Scope.CHIP:
                for part in _parts(layout, metric.width):
                    total[part], known = yield from _reduce_chips(store, metric, part, chips[part], included)
                    if known is not None:
                        count = count.copy() if count is chips else count
                        count[part] = known
                    yield from checkpoint(store, generation)
                if count is not chips:
                    covered = _covered(steps, count, takes)
            else:
                values = store.values(metric, slice(None))
                # While an instance's chips live, its own values count only if they are fresh too.
                counts_in = ~np.isnan(values) & (store.instance_fresh | ~included.instance_live)
                is_all = bool(counts_in.all())
                covered = of_instances if is_all else _covered(steps, counts_in.astype(np.float64), takes)
                total = values if is_all else np.where(counts_in, values, 0.0)
            _roll_up(steps, metric, total, covered, totals, counts)
        self._total, self._count, self._states = totals, counts, states
        self._takes = takes
        self.layout, self.generation, self._of = layout, generation, revision
        self.revision += 1


class _Included:
    """Masks of the chips and nodes that go into the roll-up of the level above them."""

    def __init__(self, store: Store, states: NDArray[np.int64]) -> None:
        layout = store.layout
        live = states[:, Freshness.LIVE]
        self.instance_live: NDArray[np.bool_] = live > 0
        self.partly: NDArray[np.bool_] = self.instance_live & (live < np.diff(layout.chip_start))
        """Instances of which some chips count and others do not."""
        self.all_chips = not self.partly.any()
        self.ultraserver_live = _any(self.instance_live, layout.ultraserver_start)
        self.cluster_live = _any(self.ultraserver_live, layout.cluster_start)

    def chips(self, store: Store, rows: Rows) -> NDArray[np.bool_]:
        """Return which of some chips count: the live ones, or all of an instance where none is."""
        live: NDArray[np.bool_] = store.chip_state[rows] == Freshness.LIVE
        return live | ~self.instance_live[store.layout.instance_of_chip[rows]]

    def takes(self, layout: Layout) -> dict[Level, NDArray[np.bool_]]:
        """Return which nodes go into what is above them: the live ones, or all where none is."""
        return {
            level: live | ~np.repeat(_any(live, starts), np.diff(starts))
            for level, starts, live in (
                (Level.ULTRASERVER, layout.ultraserver_start, self.instance_live),
                (Level.CLUSTER, layout.cluster_start, self.ultraserver_live),
                (Level.FLEET, np.array([0, len(layout.clusters)]), self.cluster_live),
            )
        }


def _parts(layout: Layout, width: int) -> Iterator[slice]:
    """Yield slices of instances that take about a millisecond each."""
    instances = len(layout.instances)
    if not instances:
        return
    step = max(1, _SLICE_LANES * instances // max(1, layout.chips * width))
    for first in range(0, instances, step):
        yield slice(first, min(instances, first + step))


def _reduce_chips(
    store: Store, metric: Metric, part: slice, sizes: NDArray[np.float64], included: _Included
) -> Slices[tuple[NDArray[np.float64], NDArray[np.float64] | None]]:
    """Return (aggregate, count of chips) for a slice of instances, which have `sizes` chips; None for a count of all of them.

    Codes are put together as they are, which is right where every chip counts and every value is there. The other instances are
    looked at once more, value by value.
    """
    layout, generation = store.layout, store.generation
    starts = layout.chip_start[part.start : part.stop + 1]
    rows = slice(int(starts[0]), int(starts[-1]))
    codes = store.columns[metric.name][rows]
    highest = int(codes.max(initial=0))
    if highest != metric.top and included.all_chips:
        return _reduce_codes(metric, codes, starts, layout.chips_per_instance, highest), None
    total, count, careful = np.zeros(len(sizes)), sizes.copy(), included.partly[part]
    if highest == metric.top:
        if int(codes.min(initial=metric.top)) == metric.top:
            return total, np.zeros(len(sizes))
        missing = _count(codes == metric.top, starts, layout.chips_per_instance)
        nothing = missing == sizes * metric.width
        careful = (careful | (missing > 0)) & ~nothing
        count[nothing] = 0.0
    some = np.flatnonzero(careful)
    if len(some) < len(careful):
        total = _reduce_codes(metric, codes, starts, layout.chips_per_instance, highest)
        total[count == 0] = 0.0
    step = max(1, _CAREFUL_LANES // max(1, layout.most_chips * metric.width))
    for first in range(0, len(some), step):
        if first:
            yield from checkpoint(store, generation)
        few = some[first : first + step]
        total[few], count[few] = _reduce_values(store, metric, few + part.start, included)
    return total, count


def _reduce_codes(
    metric: Metric, codes: NDArray[Any], starts: NDArray[np.int64], chips_per_instance: int, highest: int
) -> NDArray[np.float64]:
    """Return the aggregate of the codes of each instance as they are.

    Args:
        metric: Whose codes.
        codes: The codes of the chips.
        starts: The first chip of each instance and the end of the last, from the first of `codes` on.
        chips_per_instance: Of every instance, or 0 where they differ.
        highest: The largest of the codes.
    """
    if metric.aggregate in _BITWISE:
        return combine(_BITWISE[metric.aggregate], codes, starts, chips_per_instance).astype(np.float64)
    if metric.aggregate is Aggregate.MAX:
        return metric.decode(combine(np.maximum, codes, starts, chips_per_instance))
    if chips_per_instance:
        total = sums(codes, chips_per_instance * metric.width, highest)
    else:
        # Sums of 64-bit counters may pass 64 bits, all others stay far below.
        dtype = np.float64 if metric.wire == "u64" else np.uint64
        offsets = (starts[:-1] - starts[0]).astype(np.intp) * metric.width
        total = np.add.reduceat(codes.reshape(-1), offsets, dtype=dtype).astype(np.float64)
    total *= metric.scale
    if metric.is_vector and metric.lane_aggregate is Aggregate.MEAN:
        total /= metric.width
    return total


def _reduce_values(
    store: Store, metric: Metric, instances: NDArray[np.int64], included: _Included
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (aggregate, count of chips) for some instances, of the chips that count and whose value is available."""
    layout = store.layout
    rows = layout.chip_rows(instances)
    sizes = np.diff(layout.chip_start)[instances]
    offsets = (np.cumsum(sizes) - sizes).astype(np.intp)
    counts = included.chips(store, rows)
    if metric.aggregate in _BITWISE:
        return _reduce_bits(metric, store.columns[metric.name][rows], offsets, counts)
    values = store.chip_values(metric, rows)
    usable = counts & ~np.isnan(values)
    count = np.add.reduceat(usable, offsets, dtype=np.float64)
    if metric.aggregate is Aggregate.MAX:
        most = np.maximum.reduceat(np.where(usable, values, -np.inf), offsets)
        return np.where(count > 0, most, 0.0), count
    return np.add.reduceat(np.where(usable, values, 0.0), offsets), count


def _count(
    flags: NDArray[np.bool_], starts: NDArray[np.int64], chips_per_instance: int
) -> NDArray[np.float64]:
    """Return how many flags of the chips of each instance are set, one or several a chip."""
    width = flags.shape[1] if flags.ndim > 1 else 1
    if chips_per_instance:
        return sums(flags.view(np.uint8), chips_per_instance * width, 1)
    offsets = (starts[:-1] - starts[0]).astype(np.intp) * width
    found: NDArray[np.float64] = np.add.reduceat(flags.reshape(-1), offsets, dtype=np.float64)
    return found


def _reduce_bits(
    metric: Metric, codes: NDArray[Any], offsets: NDArray[np.intp], included: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    usable = included & (codes != metric.top)
    count = np.add.reduceat(usable, offsets, dtype=np.float64)
    if metric.aggregate is Aggregate.OR:
        bits = np.bitwise_or.reduceat(np.where(usable, codes, 0), offsets)
    else:
        bits = np.bitwise_and.reduceat(np.where(usable, codes, metric.top), offsets)
    return np.where(count > 0, bits, 0).astype(np.float64), count


class _Covered(NamedTuple):
    """How many chips (or instances) of a metric went into the nodes of a level, and what of it goes into the level above."""

    chips: NDArray[np.float64]
    usable: NDArray[np.bool_] | None
    """Nodes that go into the level above; None for all of them."""


class _Step(NamedTuple):
    """The way from the nodes of one level to the level above."""

    level: Level
    """The one above."""
    starts: NDArray[np.intp]
    """Where the nodes of each of its nodes begin."""
    nodes_per_group: int
    """How many each has, or 0 where that differs."""


def _steps(layout: Layout) -> tuple[_Step, ...]:
    """Return the steps from instances up to the fleet."""
    sizes = np.diff(layout.ultraserver_start)
    instances = int(sizes[0]) if len(sizes) and bool((sizes == sizes[0]).all()) else 0
    return (
        _Step(Level.ULTRASERVER, layout.ultraserver_start[:-1].astype(np.intp), instances),
        _Step(Level.CLUSTER, layout.cluster_start[:-1].astype(np.intp), 0),
        _Step(Level.FLEET, np.zeros(1, np.intp), 0),
    )


def _covered(
    steps: tuple[_Step, ...], count: NDArray[np.float64], takes: dict[Level, NDArray[np.bool_]]
) -> tuple[_Covered, ...]:
    """Return what goes into the nodes of each level, from instances up to the fleet, of which nothing goes on."""
    made: list[_Covered] = []
    for level, starts, nodes_per_group in steps:
        taken = count if takes[level].all() else np.where(takes[level], count, 0.0)
        usable = taken > 0
        made.append(_Covered(count, None if usable.all() else usable))
        count = fold(np.add, taken, starts, nodes_per_group) if len(taken) else np.zeros(len(starts))
    return (*made, _Covered(count, None))


def _roll_up(
    steps: tuple[_Step, ...],
    metric: Metric,
    total: NDArray[np.float64],
    covered: tuple[_Covered, ...],
    totals: dict[tuple[str, Level], NDArray[np.float64]],
    counts: dict[tuple[str, Level], NDArray[np.float64]],
) -> None:
    """Carry a metric from instances up to the fleet."""
    name = metric.name
    operation, nothing = _UPWARDS[metric.aggregate]
    totals[name, Level.INSTANCE], counts[name, Level.INSTANCE] = total, covered[0].chips
    if metric.aggregate in _BITWISE:
        total, nothing = total.astype(np.int64), metric.top if metric.aggregate is Aggregate.AND else 0
    for (level, starts, nodes_per_group), (_, usable), above in zip(
        steps, covered, covered[1:], strict=False
    ):
        if not len(total):
            total = np.zeros(len(starts), total.dtype)
        else:
            total = fold(operation, _or_else(usable, total, nothing), starts, nodes_per_group)
        totals[name, level], counts[name, level] = total.astype(np.float64, copy=False), above.chips


def _or_else(usable: NDArray[np.bool_] | None, total: NDArray[Any], other: float) -> NDArray[Any]:
    """Return totals, with another number in place of those that are not usable."""
    return total if usable is None else np.where(usable, total, other)


def _count_states(store: Store) -> dict[Level, NDArray[np.int64]]:
    layout = store.layout
    instances = len(layout.instances)
    if not instances:
        return {
            level: np.zeros((1 if level is Level.FLEET else 0, len(Freshness)), np.int64) for level in LEVELS
        }
    counted = np.zeros((instances, len(Freshness)), np.int64)
    if not store.chip_state.any():
        counted[:, Freshness.LIVE] = np.diff(layout.chip_start)
    else:
        for state in Freshness:
            counted[:, state] = _count(
                store.chip_state == state, layout.chip_start, layout.chips_per_instance
            )
    ultraservers = np.add.reduceat(counted, layout.ultraserver_start[:-1].astype(np.intp), axis=0)
    clusters = np.add.reduceat(ultraservers, layout.cluster_start[:-1].astype(np.intp), axis=0)
    return {
        Level.INSTANCE: counted,
        Level.ULTRASERVER: ultraservers,
        Level.CLUSTER: clusters,
        Level.FLEET: clusters.sum(axis=0, keepdims=True),
    }


def _any(flags: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each range of `flags` whether any is set."""
    if not len(flags):
        return np.zeros(len(starts) - 1, np.bool_)
    return np.logical_or.reduceat(flags, starts[:-1].astype(np.intp))


def _positive(count: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts with NaN for zero, so that a mean of nothing is NaN without a warning."""
    return np.where(count > 0, count, np.nan)
