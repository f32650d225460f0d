"""Roll-ups: every metric at every level from instance to fleet, with its coverage.

A node's roll-up includes the live chips below it. If none is live, it has the last known values
(drawn dimmed). Values not available are skipped, and `covered` counts the included chips.

Rows known from roll-ups only (`rolled.py`) have their totals, added from the level of instances
upwards like any others.

A pass runs in slices (`monitor/slices.py`) of one metric over some instances. Its arrays become the
roll-ups only at the end, together with the generation of their layout. If the store's generation
differs, the roll-ups are stale: their rows belong to the former layout until the next pass ends.
Readers compare `generation` with the store's before they join rows of both. Views read the old
roll-ups with their own `layout`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.domain.metrics import BY_NAME, METRICS, Aggregate, Metric, Scope
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import Slices, checkpoint
from trnfleet.monitor.store.instance_rollup import (
    BITWISE,
    COMPARED,
    Included,
    count_states,
    gather_instances,
)
from trnfleet.monitor.store.per_instance import (
    INSTANCES_A_SLICE,
    NONE_UNEVEN,
    Spread,
    Uneven,
    alikeness,
    fold,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.store.store import Store

    Rows = NDArray[np.int64] | slice
    Pick = NDArray[np.int64] | slice
    """Numbers of nodes, or a range of them."""

ALL = slice(None)
"""All nodes of a level."""
LEVELS = (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE)

_UPWARDS: dict[Aggregate, tuple[np.ufunc, float]] = {
    Aggregate.SUM: (np.add, 0.0),
    Aggregate.MEAN: (np.add, 0.0),
    Aggregate.MAX: (np.maximum, -np.inf),
    Aggregate.OR: (np.bitwise_or, 0),
    Aggregate.AND: (np.bitwise_and, 0),
}
"""Operation on the nodes of a level, and the value of an uncounted node. For bits, that value is a
code of the metric."""


class RollupReader(Protocol):
    """Roll-ups as read by fields: from the last pass, or means."""

    def value(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric's aggregate for nodes of a level."""

    def mean(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric for one covered chip (or instance)."""

    def covered(self, name: str, level: Level) -> NDArray[np.float64]:
        """Return how many chips (or instances) went into a metric."""

    def takes(self, level: Level) -> NDArray[np.bool_]:
        """Return a mask of lower-level nodes included in `level`."""


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
        self._spreads: dict[str, Spread] = {}
        self._uneven: dict[str, Uneven] = {}

    def value(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric's sum, mean, maximum or bits for nodes of a level.

        NaN if nothing below is available. Bit masks are returned as a number.
        """
        total = self._total[name, level][pick]
        count = self._count[name, level][pick]
        if BY_NAME[name].aggregate is Aggregate.MEAN:
            return total / _positive(count)
        return np.where(count > 0, total, np.nan)

    def mean(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a summed or averaged metric per covered chip or instance.

        It is comparable across levels.
        """
        if BY_NAME[name].aggregate is Aggregate.MAX:
            return self.value(name, level, pick)
        return self._total[name, level][pick] / _positive(self._count[name, level][pick])

    def parts(self, name: str, level: Level) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric's total, maximum or bits, and its chip or instance counts.

        One value per node of a level.
        """
        return self._total[name, level], self._count[name, level]

    def frozen(self) -> Rollups:
        """Return the same roll-ups, unaffected by later passes."""
        return copy.copy(self)

    def covered(self, name: str, level: Level) -> NDArray[np.float64]:
        """Return the chips or instances counted in a metric's roll-up per node of a level."""
        return self._count[name, level]

    def takes(self, level: Level) -> NDArray[np.bool_]:
        """Return a mask of lower-level nodes included in the roll-up of `level`.

        `level` is UltraServer, cluster or fleet.
        """
        return self._takes[level]

    def states(self, level: Level) -> NDArray[np.int64]:
        """Return nodes x 5: how many chips below each node are in each `Freshness`."""
        return self._states[level]

    def live(self, level: Level) -> NDArray[np.bool_]:
        """Return which nodes have a live chip."""
        flags: NDArray[np.bool_] = self._states[level][:, Freshness.LIVE] > 0
        return flags

    def spread(self, name: str, instances: Rows = ALL) -> Spread | None:
        """Return the smallest and largest chip codes of some instances for `COMPARED` metrics.

        Silent chips are included.
        """
        known = self._spreads.get(name)
        return None if known is None else known.of(instances)

    def uneven(self, name: str) -> Uneven | None:
        """Return the instances with differing chips for `COMPARED` metrics."""
        return self._uneven.get(name)

    @property
    def ready(self) -> bool:
        """Whether a pass has been finished."""
        return self.generation >= 0

    def passes(self, store: Store, revision: int | None = None) -> Slices[None]:
        """Compute every roll-up in slices; results change all at once at the end.

        Args:
            store: The values.
            revision: The store's revision, of an owner that raises it with every change: of the
                same values the roll-ups are the same, and are not computed again. Without it they
                are computed.

        Raises:
            LayoutChanged: the store has another layout now; the roll-ups are as before.
        """
        layout = store.layout
        generation = store.generation
        if revision is not None and (generation, revision) == (self.generation, self._of):
            self.revision += 1
            return
        totals: dict[tuple[str, Level], NDArray[np.float64]] = {}
        counts: dict[tuple[str, Level], NDArray[np.float64]] = {}
        spreads: dict[str, Spread] = {}
        basis = yield from _basis_of(store)
        states, included, takes, chips, steps, of_all, of_instances = basis
        is_all_fresh = bool(store.instance_fresh.all())
        rolled = store.rolled if layout.has_rolled else None
        coverage = _Coverage(steps, takes)
        for metric in METRICS:
            covered = of_all
            if rolled is not None and rolled.is_whole and metric.name not in COMPARED:
                total, count = rolled.parts(metric.name)
                total = total.copy()
                covered = coverage.of(count)
            elif metric.scope is Scope.CHIP:
                aggregate, count = yield from gather_instances(
                    store, metric, chips, included, spreads
                )
                total = np.broadcast_to(aggregate, len(chips))
                if rolled is not None:
                    total = total.copy()
                    count = count.copy() if count is chips else count
                    total[rolled.numbers], count[rolled.numbers] = rolled.parts(metric.name)
                if count is not chips:
                    covered = coverage.of(count)
            else:
                covered = of_instances
                total = store.values(metric, slice(None))
                top = int(store.columns[metric.name].max(initial=0))
                if not is_all_fresh or top == metric.top or rolled is not None:
                    total, count = _own_totals(store, metric, included)
                    covered = coverage.of(count)
            if rolled is not None:
                yield from checkpoint(store, generation)
            _roll_up(steps, metric, total, covered, totals, counts)
        yield from checkpoint(store, generation)
        differing = yield from _differing(store, spreads)
        self.layout = layout
        self.generation = generation
        self._states = states
        self._takes = takes
        self._total = totals
        self._count = counts
        self._spreads = spreads
        self._uneven = differing
        self._of = revision
        self.revision += 1


def _basis_of(store: Store) -> Slices[_Basis]:
    """Return the basis of all metrics."""
    layout = store.layout
    states = count_states(store)
    yield from checkpoint(store, store.generation)
    included = Included(store, states[Level.INSTANCE])
    takes = included.takes(layout)
    steps = _steps(layout)
    chips = np.diff(layout.chip_start).astype(np.float64)
    of_all, of_instances = (
        _covered(steps, counts, takes) for counts in (chips, np.ones(len(chips)))
    )
    return _Basis(states, included, takes, chips, steps, of_all, of_instances)


class _Basis(NamedTuple):
    """Data common to the roll-ups of all metrics.

    It depends on the layout and the live chips.
    """

    states: dict[Level, NDArray[np.int64]]
    included: Included
    takes: dict[Level, NDArray[np.bool_]]
    chips: NDArray[np.float64]
    """How many chips each instance has."""
    steps: tuple[_Step, ...]
    of_all: tuple[_Covered, ...]
    """Coverage of a metric present on all chips."""
    of_instances: tuple[_Covered, ...]
    """Coverage of a metric present on all instances."""


def _own_totals(
    store: Store, metric: Metric, included: Included
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an instance metric's total and count per instance.

    While an instance's chips live, its own values count only if they are fresh too.
    """
    values = store.values(metric, slice(None))
    counts_in = ~np.isnan(values) & (store.instance_fresh | ~included.instance_live)
    total = np.where(counts_in, values, 0.0)
    count = counts_in.astype(np.float64)
    if store.layout.has_rolled:
        rolled = store.rolled
        total[rolled.numbers], count[rolled.numbers] = rolled.parts(metric.name)
    return total, count


def _differing(store: Store, spreads: dict[str, Spread]) -> Slices[dict[str, Uneven]]:
    """Return the instances with differing chips, from their spreads.

    Includes how alike the lanes of each chip are there.
    """
    layout = store.layout
    generation = store.generation
    made: dict[str, Uneven] = {}
    for name, ends in spreads.items():
        top = BY_NAME[name].top
        some = np.flatnonzero(ends.uneven(top))
        alike = [NONE_UNEVEN.alike]
        for first in range(0, len(some), INSTANCES_A_SLICE):
            yield from checkpoint(store, generation)
            few = some[first : first + INSTANCES_A_SLICE]
            table = _chips_of(layout, store.columns[name], few)
            alike.append(alikeness(table, ends.of(few), top))
        made[name] = Uneven(some, np.concatenate(alike))
    return made


def _chips_of(layout: Layout, codes: NDArray[Any], instances: NDArray[np.int64]) -> NDArray[Any]:
    """Return instances x chips x lanes; instances with fewer chips repeat their last one."""
    if layout.chips_per_instance:
        return codes.reshape(len(layout.instances), layout.chips_per_instance, -1)[instances]
    starts = layout.chip_start[instances]
    sizes = np.diff(layout.chip_start)[instances]
    place = np.arange(int(sizes.max(initial=1)))
    table: NDArray[Any] = codes[starts[:, None] + np.minimum(place, sizes[:, None] - 1)]
    return table


class _Covered(NamedTuple):
    """Chips or instances counted per node of a level, and the part included above."""

    chips: NDArray[np.float64]
    unusable: NDArray[np.int64]
    """Nodes not included in the level above."""


class _Step(NamedTuple):
    """The way from the nodes of one level to the level above."""

    level: Level
    """The one above."""
    starts: NDArray[np.intp]
    """Where the nodes of each of its nodes begin."""
    nodes_per_group: int
    """Nodes per group, or 0 if it varies."""


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
    """Return the coverage of each level, from instances up to the fleet."""
    made: list[_Covered] = []
    for level, starts, nodes_per_group in steps:
        included = count if takes[level].all() else np.where(takes[level], count, 0.0)
        made.append(_Covered(count, np.flatnonzero(~(included > 0))))
        count = (
            fold(np.add, included, starts, nodes_per_group)
            if len(included)
            else np.zeros(len(starts))
        )
    return (*made, _Covered(count, np.zeros(0, np.int64)))


class _Coverage:
    """Coverage of each level.

    Most metrics share the same.
    """

    def __init__(self, steps: tuple[_Step, ...], takes: dict[Level, NDArray[np.bool_]]) -> None:
        self._steps = steps
        self._takes = takes
        self._latest: tuple[_Covered, ...] | None = None

    def of(self, count: NDArray[np.float64]) -> tuple[_Covered, ...]:
        """Return the coverage for a count of chips or instances per instance.

        `count` may be overwritten later.
        """
        if self._latest is None or not np.array_equal(self._latest[0].chips, count):
            self._latest = _covered(self._steps, count.copy(), self._takes)
        return self._latest


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
    totals[name, Level.INSTANCE] = total
    counts[name, Level.INSTANCE] = covered[0].chips
    if metric.aggregate in BITWISE:
        total = total.astype(np.int64)
        nothing = metric.top if metric.aggregate is Aggregate.AND else 0
    for (level, starts, nodes_per_group), (_, unusable), above in zip(
        steps, covered, covered[1:], strict=False
    ):
        if not len(total):
            total = np.zeros(len(starts), total.dtype)
        else:
            total = fold(operation, _or_else(unusable, total, nothing), starts, nodes_per_group)
        totals[name, level] = total.astype(np.float64, copy=False)
        counts[name, level] = above.chips


def _or_else(unusable: NDArray[np.int64], total: NDArray[Any], other: float) -> NDArray[Any]:
    """Return totals with another number at the unusable nodes.

    There are usually few.
    """
    if not len(unusable):
        return total
    total = total.copy()
    total[unusable] = other
    return total


def _positive(count: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts with NaN for zero.

    A mean of nothing is then NaN without a warning.
    """
    return np.where(count > 0, count, np.nan)
