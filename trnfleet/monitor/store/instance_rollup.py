"""Chip values aggregated per instance: the lowest roll-up, over the million values.

Raw codes are aggregated directly if every chip counts and every value is available. The other
instances are read again, value by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.metrics import Aggregate, Metric
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import ROWS_A_SLICE, Slices, checkpoint
from trnfleet.monitor.store.per_instance import (
    INSTANCES_A_SLICE,
    Spread,
    combine,
    spread,
    sums,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.store import Store

    Rows = NDArray[np.int64] | slice

BITWISE = {Aggregate.OR: np.bitwise_or, Aggregate.AND: np.bitwise_and}
COMPARED = ("link_tx_bytes_per_s",)
"""Metrics of which findings and rules compare the chips of an instance with each other."""


class Included:
    """Masks of the chips and nodes included in the roll-up of the level above."""

    def __init__(self, store: Store, states: NDArray[np.int64]) -> None:
        layout = store.layout
        live = states[:, Freshness.LIVE]
        self.instance_live: NDArray[np.bool_] = live > 0
        self.partly: NDArray[np.bool_] = (
            self.instance_live & (live < np.diff(layout.chip_start)) & ~layout.is_rolled
        )
        """Instances with both counted and uncounted chips."""
        self.all_chips = not self.partly.any()
        self.ultraserver_live = _any(self.instance_live, layout.ultraserver_start)
        self.cluster_live = _any(self.ultraserver_live, layout.cluster_start)

    def chips(self, store: Store, rows: Rows) -> NDArray[np.bool_]:
        """Return a mask of the counted chips in `rows`.

        Live chips count. All chips of an instance count if none is live.
        """
        live: NDArray[np.bool_] = store.chip_state[rows] == Freshness.LIVE.value
        return live | ~self.instance_live[store.layout.instance_of_chip[rows]]

    def takes(self, layout: Layout) -> dict[Level, NDArray[np.bool_]]:
        """Return masks of the nodes included in their parents, by level.

        Live nodes are included. All are if none is live.
        """
        return {
            level: live | ~np.repeat(_any(live, starts), np.diff(starts))
            for level, starts, live in (
                (Level.ULTRASERVER, layout.ultraserver_start, self.instance_live),
                (Level.CLUSTER, layout.cluster_start, self.ultraserver_live),
                (Level.FLEET, np.array([0, len(layout.clusters)]), self.cluster_live),
            )
        }


class Reduced(NamedTuple):
    """Aggregates of the chips of some instances."""

    total: NDArray[np.float64] | float
    """The aggregates; a number where all instances have the same."""
    chips: NDArray[np.float64] | None
    """How many chips went into each; None for all of them."""


def reduce_chips(
    store: Store,
    metric: Metric,
    part: slice,
    sizes: NDArray[np.float64],
    included: Included,
) -> Slices[Reduced]:
    """Return the aggregates of a slice of instances with `sizes` chips."""
    layout = store.layout
    generation = store.generation
    starts = layout.chip_start[part.start : part.stop + 1]
    rows = slice(int(starts[0]), int(starts[-1]))
    codes = store.columns[metric.name][rows]
    highest = int(codes.max(initial=0))
    if highest != metric.top and included.all_chips:
        total = _reduce_codes(metric, codes, starts, layout.chips_per_instance, highest)
        return Reduced(total, None)
    count = sizes.copy()
    careful = included.partly[part]
    known = highest
    if highest == metric.top:
        # The next code after the top one is 0, so that the largest of them is that of the largest
        # value.
        following = codes + codes.dtype.type(1)
        known = int(following.max()) - 1
        if known < 0:
            return Reduced(np.zeros(len(sizes)), np.zeros(len(sizes)))
        lacking, nothing = _lacking(following == 0, starts, layout.chips_per_instance)
        careful = (careful | lacking) & ~nothing
        count[nothing] = 0.0
    some = np.flatnonzero(careful)
    total = made = np.zeros(len(sizes))
    if len(some) < len(careful):
        # What missing codes make of their instances is not looked at.
        made[:] = _reduce_codes(metric, codes, starts, layout.chips_per_instance, known)
        made[count == 0] = 0.0
    for first in range(0, len(some), INSTANCES_A_SLICE):
        if first:
            yield from checkpoint(store, generation)
        few = some[first : first + INSTANCES_A_SLICE]
        made[few], count[few] = _reduce_values(store, metric, few + part.start, included)
    return Reduced(total, count)


def _reduce_codes(
    metric: Metric,
    codes: NDArray[Any],
    starts: NDArray[np.int64],
    chips_per_instance: int,
    highest: int,
) -> NDArray[np.float64] | float:
    """Return the aggregate of each instance's raw codes, or one number common to all.

    Args:
        metric: The metric.
        codes: The codes of the chips.
        starts: The first chip of each instance and the end of the last, counted from the first of
            `codes`.
        chips_per_instance: Of every instance, or 0 if it varies.
        highest: The largest code of the relevant instances.
    """
    if not highest:
        # Counters without errors, healthy chips, no throttling: the usual case, and what all of it
        # makes is 0.
        return 0.0
    if metric.aggregate is Aggregate.AND and int(codes.min()) == highest:
        return float(highest)
    if metric.aggregate in BITWISE:
        return combine(BITWISE[metric.aggregate], codes, starts, chips_per_instance).astype(
            np.float64
        )
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
    store: Store, metric: Metric, instances: NDArray[np.int64], included: Included
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (aggregate, chip count) per instance, over counted chips with an available value."""
    layout = store.layout
    rows = layout.chip_rows(instances)
    sizes = np.diff(layout.chip_start)[instances]
    offsets = (np.cumsum(sizes) - sizes).astype(np.intp)
    counts = included.chips(store, rows)
    if metric.aggregate in BITWISE:
        return _reduce_bits(metric, store.columns[metric.name][rows], offsets, counts)
    values = store.chip_values(metric, rows)
    usable = counts & ~np.isnan(values)
    count = np.add.reduceat(usable, offsets, dtype=np.float64)
    if metric.aggregate is Aggregate.MAX:
        most = np.maximum.reduceat(np.where(usable, values, -np.inf), offsets)
        return np.where(count > 0, most, 0.0), count
    return np.add.reduceat(np.where(usable, values, 0.0), offsets), count


def _lacking(
    missing: NDArray[np.bool_], starts: NDArray[np.int64], chips_per_instance: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of instances with any code missing and with all codes missing."""
    width = missing.shape[1] if missing.ndim > 1 else 1
    counted = count_flags(missing, starts, chips_per_instance)
    return counted > 0, counted == np.diff(starts) * width


def count_flags(
    flags: NDArray[np.bool_], starts: NDArray[np.int64], chips_per_instance: int
) -> NDArray[np.float64]:
    """Return the number of set flags per instance.

    A chip can have several flags.
    """
    width = flags.shape[1] if flags.ndim > 1 else 1
    if chips_per_instance:
        return sums(flags.view(np.uint8), chips_per_instance * width, 1)
    offsets = (starts[:-1] - starts[0]).astype(np.intp) * width
    counts: NDArray[np.float64] = np.add.reduceat(flags.reshape(-1), offsets, dtype=np.float64)
    return counts


def count_states(store: Store) -> dict[Level, NDArray[np.int64]]:
    """Return the chips in each `Freshness` per node, by level from instance to fleet."""
    layout = store.layout
    instances = len(layout.instances)
    if not instances:
        return {
            level: np.zeros((1 if level is Level.FLEET else 0, len(Freshness)), np.int64)
            for level in (Level.INSTANCE, Level.ULTRASERVER, Level.CLUSTER, Level.FLEET)
        }
    counted = np.zeros((instances, len(Freshness)), np.int64)
    counted[:, Freshness.LIVE] = np.diff(layout.chip_start)
    for state in tuple(Freshness)[1:] if store.chip_state.any() else ():
        flags = store.chip_state == state.value
        if flags.any():
            counted[:, state] = count_flags(flags, layout.chip_start, layout.chips_per_instance)
            counted[:, Freshness.LIVE] -= counted[:, state]
    if layout.has_rolled:
        counted[store.rolled.numbers] = store.rolled.states_now(layout.sizes)
    ultraservers = np.add.reduceat(counted, layout.ultraserver_start[:-1].astype(np.intp), axis=0)
    clusters = np.add.reduceat(ultraservers, layout.cluster_start[:-1].astype(np.intp), axis=0)
    return {
        Level.INSTANCE: counted,
        Level.ULTRASERVER: ultraservers,
        Level.CLUSTER: clusters,
        Level.FLEET: clusters.sum(axis=0, keepdims=True),
    }


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


def _any(flags: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each range of `flags` whether any is set."""
    if not len(flags):
        return np.zeros(len(starts) - 1, np.bool_)
    return np.logical_or.reduceat(flags, starts[:-1].astype(np.intp))


def gather_instances(
    store: Store,
    metric: Metric,
    chips: NDArray[np.float64],
    included: Included,
    spreads: dict[str, Spread],
) -> Slices[tuple[NDArray[np.float64] | float, NDArray[np.float64]]]:
    """Return a metric's (aggregate, chip count) for all instances.

    The aggregate is one number if common to all; the count is `chips` itself if all are counted.
    The spread of a metric in `COMPARED` is stored in `spreads`.
    """
    layout = store.layout
    generation = store.generation
    count = chips
    ends: list[Spread] = []
    totals: list[NDArray[np.float64] | float] = []
    parts = list(_parts(layout))
    for part in parts:
        if metric.name in COMPARED:
            starts = layout.chip_start[part.start : part.stop + 1]
            codes = store.columns[metric.name][int(starts[0]) : int(starts[-1])]
            ends.append(spread(codes, starts, layout.chips_per_instance))
        total, known = yield from reduce_chips(store, metric, part, chips[part], included)
        totals.append(total)
        if known is not None:
            count = count.copy() if count is chips else count
            count[part] = known
        yield from checkpoint(store, generation)
    if ends:
        spreads[metric.name] = Spread.joined(ends)
    if len(totals) == 1 or (
        totals and all(isinstance(value, float) and value == totals[0] for value in totals)
    ):
        return totals[0], count
    made = np.zeros(len(chips))
    for part, total in zip(parts, totals, strict=True):
        made[part] = total
    return made, count


def _parts(layout: Layout) -> Iterator[slice]:
    """Yield slices of instances of about a millisecond each."""
    instances = len(layout.instances)
    if not instances:
        return
    step = max(1, ROWS_A_SLICE * instances // max(1, layout.chips))
    for first in range(0, instances, step):
        yield slice(first, min(instances, first + step))
