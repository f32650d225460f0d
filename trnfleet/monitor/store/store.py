"""Store of the newest value of every metric, one NumPy column each, and its freshness.

Columns contain wire codes (`domain/metrics.py`): chip columns have a row per chip, instance columns
a row per instance, in the order of the layout. A code is converted on read to a number, or NaN if
not available. A changed fleet gets a new layout with a new generation. References across ticks must
be addresses, not rows.

Memory: 82 bytes per chip for values and 17 for freshness, 24 bytes per instance for its own values.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.domain.metrics import METRICS, Aggregate, Metric, Scope
from trnfleet.monitor.freshness import STALE_AFTER_PERIODS, Freshness
from trnfleet.monitor.medians import median
from trnfleet.monitor.slices import Slices, finish
from trnfleet.monitor.store.announced import bits_of
from trnfleet.monitor.store.jobs import Placement
from trnfleet.monitor.store.layout_changes import moves, same_instances
from trnfleet.monitor.store.rolled import Rolled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Rows = slice | NDArray[np.int64] | int

_MOST_LOOKED_AT = 16_384
"""Most chips for a pass to wait for the last of them. Assumed."""


class Store:
    """The newest telemetry of one fleet."""

    def __init__(self) -> None:
        self.generation = 0
        """Goes up with every change of the layout."""
        self.revision = 0
        """Goes up with every change of values or freshness."""
        self.rolled = Rolled()
        """Figures of rows known from roll-ups only."""
        self._placement: Placement | None = None
        self._allocate(EMPTY_LAYOUT)

    def _allocate(self, layout: Layout) -> None:
        self.layout = layout
        chips = layout.chips
        instances = len(layout.instances)
        self.columns: dict[str, NDArray[Any]] = {
            metric.name: metric.blank(chips if metric.scope is Scope.CHIP else instances)
            for metric in METRICS
        }
        self.chip_seen_s: NDArray[np.float64] = np.full(chips, -np.inf)
        """Monotonic seconds of each chip's last values."""
        self.chip_ts_ns: NDArray[np.int64] = np.zeros(chips, np.int64)
        """Source time of each chip's values, ns since 1970."""
        self.chip_state: NDArray[np.uint8] = np.full(chips, Freshness.UNKNOWN, np.uint8)
        self.described_s: NDArray[np.float64] = np.full(instances, -np.inf)
        """Monotonic seconds of each instance's first descriptor."""
        self.instance_fresh: NDArray[np.bool_] = np.ones(instances, np.bool_)
        """Whether each instance's own values are at most three periods old."""
        self.instance_seen_s: NDArray[np.float64] = np.full(instances, -np.inf)
        self.refused_s: NDArray[np.float64] = np.full(instances, -np.inf)
        """Monotonic seconds of the last refused message per instance."""
        self.is_refused: NDArray[np.bool_] = np.zeros(instances, np.bool_)
        """Whether the last refusal was within three periods. Updated when a chip is found not live.
        """
        self.period_s: NDArray[np.float64] = np.ones(instances)
        """Publishing period of each instance, wall seconds."""
        self.publisher_of: NDArray[np.int32] = np.full(instances, -1, np.int32)
        """Number of each instance's publisher, -1 where unknown."""
        self.links_of: NDArray[np.int32] = np.zeros(instances, np.int32)
        """Bit mask of the connections with messages from each instance. 0 in a fleet with one
        connection."""
        self.is_forwarded: NDArray[np.bool_] = np.zeros(instances, np.bool_)
        """Whether a relay forwards each instance under a lease. Its cell evaluates the rules for
        it."""
        self.announced: NDArray[np.uint64] = np.zeros(instances, np.uint64)
        """Bit mask of the metrics that each instance's source announces, in the table's order."""
        self.job_of: NDArray[np.int32] = np.full(instances, -1, np.int32)
        """Job number of each instance; -1 for none."""

    def replace_layout(self, layout: Layout) -> None:
        """Apply a new layout.

        Remaining instances (same path and type) keep their values and freshness.
        """
        self.take_over(finish(self.moved(layout)))

    def moved(self, layout: Layout, numbers: NDArray[np.int64] | None = None) -> Slices[Store]:
        """Return a store of another layout with values and freshness of remaining instances.

        Runs in slices. This store must not be written meanwhile.

        Args:
            layout: The layout.
            numbers: Result of `same_instances`, if known.
        """
        twin = copy.copy(self)
        twin._allocate(layout)  # noqa: SLF001  of the same class
        yield
        ranges = list(moves(same_instances(layout, self.layout) if numbers is None else numbers))
        yield
        chips = [(layout.chips_of(to), self.layout.chips_of(source)) for to, source in ranges]
        yield
        for metric in METRICS:
            mine = self.columns[metric.name]
            theirs = twin.columns[metric.name]
            for rows, before in chips if metric.scope is Scope.CHIP else ranges:
                theirs[rows] = mine[before]
            yield
        for keys, places in ((_CHIP_ARRAYS, chips), (_INSTANCE_ARRAYS, ranges)):
            for key in keys:
                mine = getattr(self, key)
                theirs = getattr(twin, key)
                for rows, before in places:
                    theirs[rows] = mine[before]
                yield
        return twin

    def take_over(self, twin: Store) -> None:
        """Apply layout and columns of a store from `moved`."""
        self.layout = twin.layout
        self.columns = twin.columns
        for key in (*_CHIP_ARRAYS, *_INSTANCE_ARRAYS):
            setattr(self, key, getattr(twin, key))
        self.generation += 1
        self.revision += 1

    def values(self, metric: Metric, rows: Rows) -> NDArray[np.float64]:
        """Return a metric's values in its unit for rows, shape (rows,) or (rows, width).

        NaN if not available.
        """
        codes = self.columns[metric.name][rows]
        return metric.decode(
            np.atleast_1d(codes) if isinstance(rows, int) and not metric.is_vector else codes
        )

    def chip_values(self, metric: Metric, rows: Rows) -> NDArray[np.float64]:
        """Return one value per chip.

        Lanes of a vector are joined as its metric defines.

        NaN is skipped.
        """
        if not metric.is_vector:
            return self.values(metric, rows)
        return join_lanes(metric, metric.decode(self.columns[metric.name][rows]))

    def refresh_states(
        self,
        now_s: float,
        publisher_online: NDArray[np.bool_],
        stale_periods: float = STALE_AFTER_PERIODS,
    ) -> None:
        """Work out every chip's freshness at monotonic `now_s`.

        Args:
            now_s: Monotonic seconds.
            publisher_online: Whether each numbered publisher is online; the last entry is for an
                unknown one.
            stale_periods: Periods without a message after which values are stale.
        """
        owner = self.layout.instance_of_chip
        deadline = now_s - stale_periods * self.period_s
        fresh = self.instance_seen_s >= deadline
        if not np.array_equal(fresh, self.instance_fresh):
            self.instance_fresh = fresh
            self.revision += 1
        self.is_refused = self.refused_s >= deadline
        offline = ~publisher_online[self.publisher_of]
        if self.chip_seen_s.min(initial=np.inf) >= deadline.max(initial=-np.inf):
            # The usual case, without reading the deadline of each chip.
            states = np.full(len(owner), Freshness.LIVE, np.uint8)
        else:
            # Flags are the codes of live and stale.
            states = (self.chip_seen_s < deadline[owner]).view(np.uint8)
        # What was described a moment ago may still come; what has not come after three periods is
        # silent.
        young = self.described_s >= deadline
        if young.any():
            states[young[owner] & np.isinf(self.chip_seen_s)] = Freshness.UNKNOWN
        if offline.any():
            states[self.layout.chip_rows(np.flatnonzero(offline))] = Freshness.OFFLINE
        if self.rolled.blocks:
            self._refresh_rolled(states, deadline, ~offline, young, now_s, publisher_online)
        if not np.array_equal(states, self.chip_state):
            self.chip_state = states
            self.revision += 1

    def _refresh_rolled(
        self,
        states: NDArray[np.uint8],
        deadline: NDArray[np.float64],
        is_online: NDArray[np.bool_],
        is_young: NDArray[np.bool_],
        now_s: float,
        publisher_online: NDArray[np.bool_],
    ) -> None:
        """Update the rows seen by relays.

        The chip row of a row is live if any chip of the row is, and never silent by itself.
        """
        rolled = self.rolled
        first = self.layout.chip_start[:-1]
        before = rolled.states_now(self.layout.sizes)
        unseen = rolled.observe(deadline, is_online, is_young, now_s, publisher_online)
        counted = rolled.states_now(self.layout.sizes)
        of_rows = np.full(len(rolled), Freshness.UNOBSERVED, np.uint8)
        of_rows[rolled.observed | rolled.awaited] = Freshness.UNKNOWN
        of_rows[counted[:, Freshness.LIVE] > 0] = Freshness.LIVE
        rows = first[rolled.numbers]
        states[rows] = of_rows
        self.chip_seen_s[rows] = rolled.seen_s
        self.chip_ts_ns[rows] = rolled.ts_ns
        # The relay's columns are the same for all rows; a row's hosts may lack some.
        has_come = rolled.announced > 0
        self.announced[rolled.numbers[has_come]] = rolled.announced[has_come]
        # Of what its publisher describes here no relay decides.
        unseen = unseen[self.is_forwarded[unseen]]
        if len(unseen):
            rows = self.layout.chip_rows(unseen)
            states[rows[states[rows] != Freshness.LIVE]] = Freshness.UNOBSERVED
        if not np.array_equal(before, counted):
            self.revision += 1

    def has_heard_all(self, since_s: float) -> bool:
        """Return whether every live chip has had values since a monotonic second.

        A pass waits for this. Always true above `_MOST_LOOKED_AT` chips, because their ticks are
        spread over much of a second. Relays' roll-ups are not checked: `refresh_states` handles
        their times.
        """
        if self.rolled.blocks or len(self.chip_state) > _MOST_LOOKED_AT:
            return True
        return not ((self.chip_seen_s <= since_s) & (self.chip_state == Freshness.LIVE.value)).any()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without derived data."""
        return {**self.__dict__, "_placement": None}

    def announces(self, names: Iterable[str], instances: slice) -> bool:
        """Return whether the source of any of these instances announces all of these metrics."""
        needed = np.uint64(bits_of(names))
        return bool(((self.announced[instances] & needed) == needed).any())

    def count(self, state: Freshness) -> int:
        """Return how many rows of chips are in a state."""
        return int(np.count_nonzero(self.chip_state == state.value))

    def chips_by_state(self) -> list[int]:
        """Return the chip count per `Freshness`.

        The counts add up to all chips of the layout.
        """
        counts = np.bincount(self.chip_state, minlength=len(Freshness))
        layout = self.layout
        if layout.has_rolled:
            # One row stands for all chips of its instances.
            rows = layout.chip_start[:-1][layout.is_rolled]
            more = layout.sizes[layout.is_rolled] - 1
            counts = counts + np.bincount(self.chip_state[rows], more, len(Freshness))
        return [int(count) for count in counts]

    @property
    def has_live(self) -> bool:
        """Whether any chip is live."""
        # The code of live is 0.
        return not self.chip_state.all()

    @property
    def placement(self) -> Placement:
        """Where jobs run; the same object for as long as they stay there."""
        if self._placement is None or not self._placement.is_of(self.layout, self.job_of):
            self._placement = Placement(self.layout, self.job_of)
        return self._placement

    @property
    def links_heard(self) -> int:
        """Bit mask of the connections with messages.

        0 in a fleet with one connection.
        """
        return int(np.bitwise_or.reduce(self.links_of, initial=0))

    @property
    def usual_period_s(self) -> float:
        """Publishing period of the usual instance, wall seconds: the median."""
        periods = self.period_s
        if not len(periods):
            return 1.0
        return float(periods[0]) if (periods == periods[0]).all() else median(periods)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        arrays = [getattr(self, key) for key in (*_CHIP_ARRAYS, *_INSTANCE_ARRAYS)]
        return self.rolled.nbytes + sum(
            int(array.nbytes) for array in (*self.columns.values(), *arrays)
        )


_CHIP_ARRAYS = ("chip_seen_s", "chip_ts_ns", "chip_state")
_INSTANCE_ARRAYS = (
    "described_s",
    "instance_fresh",
    "instance_seen_s",
    "refused_s",
    "is_refused",
    "period_s",
    "publisher_of",
    "links_of",
    "is_forwarded",
    "announced",
    "job_of",
)


def join_lanes(metric: Metric, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one value per row for a vector metric's rows x width values.

    NaN is skipped. NaN if every lane is.
    """
    missing = np.isnan(values)
    count = values.shape[-1] - missing.sum(axis=-1)
    total = np.where(missing, 0.0, values).sum(axis=-1)
    if metric.lane_aggregate is Aggregate.MEAN:
        total = total / np.maximum(count, 1)
    return np.where(count > 0, total, np.nan)
