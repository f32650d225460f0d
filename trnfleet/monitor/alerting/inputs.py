"""The inputs of rules at an instant: values of figures, by row or by name.

Targets with addresses have rows, the others names. It reads the store and the roll-ups, and caches
only values that one evaluation needs twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import (
    JOB_PREPARES,
    JOB_SLOWDOWN,
    LANES,
    LEVEL_OF,
    PREPARING,
    Scope,
)
from trnfleet.domain.hardware.topology import MOST_LANES
from trnfleet.domain.links import neighbour
from trnfleet.domain.metrics import BY_NAME, Metric
from trnfleet.domain.metrics import Scope as MetricScope
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.medians import median
from trnfleet.monitor.slices import Slices, checkpoint
from trnfleet.monitor.store import fields
from trnfleet.monitor.store.events import Event, Events

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import ChipType
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.named_targets import NamedTable
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

    Rows = NDArray[np.int64]
    Some = NDArray[np.int64] | slice

LEAST_PEERS = 4
"""Fewest chips for a median, and samples for a maximum or mean."""

_POPCOUNT = np.array([code.bit_count() for code in range(256)], np.float64)


def _hbm(chip: ChipType) -> float:
    return 100.0 / chip.hbm_bytes.value


def _power(chip: ChipType) -> float:
    return 100.0 / chip.power_max_w.value


def _mfu(chip: ChipType) -> float:
    return 100.0 * 1e12 / chip.bf16_dense_flops.value


SHARES = {
    "hbm_used_pct": ("hbm_used_bytes", _hbm),
    "power_share_pct": ("power_w", _power),
    "mfu_pct": ("tflops", _mfu),
}
"""Figures that are a metric times a constant of the chip type. In a fleet of one type, their limits
become limits on the metric's codes."""


@dataclass(slots=True, frozen=True)
class Instant:
    """The time of an evaluation."""

    now_ns: int
    """Monitor time."""
    flow_ns: int
    """Monitor time, running on while nothing arrives. Silence is timed by it."""


@dataclass
class Readings:
    """The figures of one instant."""

    store: Store
    rollups: Rollups
    instant: Instant
    tables: Mapping[Scope, NamedTable]
    """The targets of scopes without addresses."""
    events: Sequence[Event] = ()
    """Events since the last evaluation, oldest first."""
    tick_s: float = 0.0
    """Longest monitor time between two messages of a source; 0 if unknown."""
    publishers: Mapping[int, str] = field(default_factory=dict)
    """Client of each numbered publisher's start."""
    all_events: Events = field(default_factory=Events)
    """All stored events, for probable causes."""
    pipeline_causes: Mapping[str, str] = field(default_factory=dict)
    """Cause of each pipeline problem, by the rule about it."""
    is_cut_off: bool = False
    """True if the monitor cannot hear its sources. Then only pipeline rules are evaluated."""
    unsettled: NDArray[np.bool_] | None = None
    """Instances heard for too short a time to call them silent; None for none."""
    job_of: NDArray[np.int32] = field(init=False)
    """Number of each instance's job in `tables`: jobs may be placed again during an evaluation."""
    _medians: dict[tuple[str, int], float] = field(default_factory=dict, init=False)
    _host_medians: dict[str, NDArray[np.float64]] = field(default_factory=dict, init=False)
    _generation: int = field(init=False)
    _revision: int = field(init=False)

    def __post_init__(self) -> None:
        self.job_of = self.store.job_of.copy()
        self._generation = self.store.generation
        self._revision = self.store.revision

    @property
    def is_overtaken(self) -> bool:
        """Whether messages arrived since the evaluation began.

        Then a rule may have seen values unknown to the rules before it.
        """
        return self.store.revision != self._revision

    @property
    def layout(self) -> Layout:
        """The store's layout."""
        return self.store.layout

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Flag per chip: its values are live."""
        flags: NDArray[np.bool_] = self.store.chip_state == Freshness.LIVE.value
        return flags

    @cached_property
    def all_live(self) -> bool:
        """Whether all chips' values are live."""
        # The code of live is 0.
        return not self.store.chip_state.any()

    @cached_property
    def silent(self) -> NDArray[np.bool_]:
        """Flag per chip: stale or offline, by no trouble of ours."""
        state = self.store.chip_state
        flags: NDArray[np.bool_] = (state == Freshness.STALE.value) | (
            state == Freshness.OFFLINE.value
        )
        return flags if self.unsettled is None else flags & ~self.unheard(Level.CHIP)

    def unheard(self, level: Level) -> NDArray[np.bool_]:
        """Return a flag per chip, instance or UltraServer: nothing live is known.

        The cause may be our own trouble.
        """
        if self.unsettled is None:
            return np.zeros(self.layout.count(level), np.bool_)
        if level is Level.CHIP:
            stale: NDArray[np.bool_] = self.store.chip_state == Freshness.STALE.value
            return stale & self.unsettled[self.layout.instance_of_chip]
        states = self.rollups.states(level)
        unsettled = self.unsettled
        if level is Level.ULTRASERVER:
            unsettled = np.logical_or.reduceat(
                unsettled, self.layout.ultraserver_start[:-1].astype(np.intp)
            )
        flags: NDArray[np.bool_] = (
            (states[:, Freshness.LIVE] == 0) & (states[:, Freshness.STALE] > 0) & unsettled
        )
        return flags

    def is_wholly_known(self, scope: Scope, rows: Rows) -> NDArray[np.bool_]:
        """Return a flag per target: enough is known to call a condition over.

        A sum over an UltraServer drops while some chips are not heard, perhaps by our own trouble.
        """
        known = self.is_known(scope, rows)
        level = LEVEL_OF[scope]
        if self.unsettled is None or level is Level.CHIP:
            return known
        missing = (self.rollups.states(Level.INSTANCE)[:, Freshness.STALE] > 0) & self.unsettled
        if level is Level.ULTRASERVER:
            missing = np.logical_or.reduceat(
                missing, self.layout.ultraserver_start[:-1].astype(np.intp)
            )
        return known & ~missing[rows]

    @cached_property
    def expected_links(self) -> NDArray[np.uint8] | np.uint8:
        """Bits of `links_up` set on a healthy chip: one mask, or one per chip."""
        uniform = self.layout.uniform_links_mask
        return self.layout.chip_links_mask if uniform is None else np.uint8(uniform)

    @cached_property
    def all_links_up(self) -> bool:
        """Whether every link of every chip is up according to the roll-ups.

        Chips outside the roll-ups do not count.
        """
        layout = self.layout
        if self.expected_links is layout.chip_links_mask or not len(layout.instances):
            return False
        total, count = self.rollups.parts("links_up", Level.INSTANCE)
        expected = layout.links_mask
        return bool((((total.astype(np.uint8) & expected) == expected) | (count == 0)).all())

    def is_known(self, scope: Scope, rows: Rows) -> NDArray[np.bool_]:
        """Return a flag per target: anything live is known."""
        level = LEVEL_OF[scope]
        if level is Level.CHIP:
            return self.live[self.chips_of(scope, rows)]
        known: NDArray[np.bool_] = self.rollups.states(level)[rows, Freshness.LIVE] > 0
        return known

    def chips_of(self, scope: Scope, rows: Rows) -> Rows:
        """Return the chip rows of targets of the scopes chip, core and link."""
        return rows // len(LANES[scope]) if scope in LANES else rows

    def column_of(self, scope: Scope, figure: str) -> tuple[Metric, float] | None:
        """Return the metric whose column contains a figure, and the factor of its values.

        None if the figure is computed, or the factor differs between chips.
        """
        if LEVEL_OF[scope] is not Level.CHIP:
            return None
        if figure in SHARES:
            name, factor_of = SHARES[figure]
            factors = {factor_of(kind.chip) for kind in self.layout.types}
            return (BY_NAME[name], factors.pop()) if len(factors) == 1 else None
        metric = BY_NAME.get(figure)
        if (
            metric is None
            or metric.scope is not MetricScope.CHIP
            or metric.is_vector != (scope in LANES)
        ):
            return None
        return metric, 1.0

    def checkpoint(self) -> Slices[None]:
        """End a slice of an evaluation.

        Raises:
            LayoutChanged: the layout is another one than at this instant.
        """
        return checkpoint(self.store, self._generation)

    def values(self, scope: Scope, figure: str, rows: Some) -> NDArray[np.float64]:
        """Return a figure's values for targets with addresses.

        NaN if unknown.
        """
        if scope in LANES:
            return self._lane_values(scope, figure, rows)
        level = LEVEL_OF[scope]
        if level is Level.CHIP:
            return self._chip_values(figure, rows)
        if figure in {"links_down", "z_links_down"}:
            return self._links_down(level, only_z=figure == "z_links_down")[rows]
        if figure in SHARES and figure not in fields.BY_KEY:
            return self._share(figure, level)[rows]
        if figure in fields.BY_KEY:
            pick = None if isinstance(rows, slice) and rows == slice(None) else rows
            if isinstance(pick, slice):
                pick = np.arange(self.layout.count(level))[pick]
            return fields.BY_KEY[figure].values(self.store, self.rollups, level, pick)
        return self.rollups.value(figure, level)[rows]

    def bits(self, scope: Scope, figure: str, rows: Some) -> NDArray[Any]:
        """Return a bit mask's codes; 0 where it is not available."""
        level = LEVEL_OF[scope]
        metric = BY_NAME[figure]
        if level is Level.CHIP:
            codes = self.store.columns[figure][rows]
            return np.where(codes == metric.top, 0, codes)
        return np.nan_to_num(self.rollups.value(figure, level)[rows]).astype(np.int64)

    def lane_bits(self, scope: Scope, names: Collection[str], rows: Some) -> NDArray[np.uint8]:
        """Return the link lane bits of some names for each target.

        Levels above the chip use the first instance.
        """
        layout = self.layout
        level = LEVEL_OF[scope]
        by_type = np.array(
            [
                sum(1 << lane for lane, name in enumerate(lanes) if name in names)
                for lanes in layout.lane_names
            ],
            np.uint8,
        )
        of_instance = by_type[layout.instance_type]
        if level is Level.CHIP:
            return of_instance[layout.instance_of_chip[rows]]
        firsts = layout.ultraserver_start[:-1] if level is Level.ULTRASERVER else slice(None)
        bits: NDArray[np.uint8] = of_instance[firsts][rows]
        return bits

    def job_median(self, figure: str, job: int) -> float:
        """Return the median of a figure over a job's live chips.

        NaN below `LEAST_PEERS`.
        """
        known = self._medians.get((figure, job))
        if known is None:
            rows = self._job_rows(job)
            rows = rows[self.live[rows]]
            values = self._chip_values(figure, rows)
            values = values[~np.isnan(values)]
            known = median(values) if len(values) >= LEAST_PEERS else np.nan
            self._medians[figure, job] = known
        return known

    def host_medians(self, figure: str) -> NDArray[np.float64]:
        """Return the median of a figure over the live instances of each job.

        NaN below `LEAST_PEERS`; the last is for instances without a job.
        """
        if figure not in self._host_medians:
            jobs = self.store.job_of
            values = self.values(Scope.INSTANCE, figure, slice(None))
            live = self.is_known(Scope.INSTANCE, np.arange(len(jobs)))
            peers = np.flatnonzero(live & (jobs >= 0) & ~np.isnan(values))
            # Sorted by job, and by value within a job; lexsort takes eight times as long.
            shares = values[peers] / (2 * np.abs(values[peers]).max(initial=0) + 1)  # under 0.5
            peers = peers[np.argsort(jobs[peers] + shares)]
            starts = np.flatnonzero(np.diff(jobs[peers], prepend=-1))
            counts = np.diff(starts, append=len(peers))
            middles = [(counts - 1) // 2, counts // 2]
            of_jobs = np.mean([values[peers[starts + middle]] for middle in middles], axis=0)
            medians = np.full(int(jobs.max(initial=-1)) + 2, np.nan)
            medians[jobs[peers[starts]]] = np.where(counts >= LEAST_PEERS, of_jobs, np.nan)
            self._host_medians[figure] = medians
        return self._host_medians[figure]

    def job_of_chips(self, rows: Rows) -> NDArray[np.int32]:
        """Return the job number of each chip, -1 for none."""
        return self.job_of[self.layout.instance_of_chip[rows]]

    @cached_property
    def job_slowdowns(self) -> NDArray[np.float64]:
        """Step time of each numbered job over that of its plan; NaN where either is unknown."""
        jobs = self.tables[Scope.JOB]
        step_s, ideal_s = (
            np.array(jobs.column(name), np.float64) for name in ("step_time_s", "ideal_step_s")
        )
        unknown = np.full(len(step_s), np.nan)
        return np.asarray(np.divide(step_s, ideal_s, out=unknown, where=ideal_s > 0))

    @cached_property
    def preparing_jobs(self) -> NDArray[np.float64]:
        """1 for each numbered job whose state is one of `PREPARING`, else 0."""
        states = self.tables[Scope.JOB].column("state")
        return np.array([state in PREPARING for state in states], np.float64)

    def _job_rows(self, job: int) -> Rows:
        return self.layout.chip_rows(np.flatnonzero(self.job_of == job))

    def _chip_values(self, figure: str, rows: Some) -> NDArray[np.float64]:
        if figure == "links_down":
            expected = self.expected_links
            links = expected if isinstance(expected, np.uint8) else expected[rows]
            up = self.store.columns["links_up"][rows]
            return np.where(up == BY_NAME["links_up"].top, np.nan, _POPCOUNT[links & ~up])
        if figure in {JOB_SLOWDOWN, JOB_PREPARES}:
            jobs = self.job_of[self.layout.instance_of_chip[rows]]
            of_jobs: NDArray[np.float64] = (
                np.append(self.job_slowdowns, np.nan)
                if figure == JOB_SLOWDOWN
                else np.append(self.preparing_jobs, 0.0)
            )
            return of_jobs[jobs]
        if figure in SHARES:
            name, factor_of = SHARES[figure]
            values = self.store.chip_values(BY_NAME[name], rows)
            by_type = np.array([factor_of(kind.chip) for kind in self.layout.types])
            owner = self.layout.instance_of_chip[rows]
            shares: NDArray[np.float64] = values * by_type[self.layout.instance_type[owner]]
            return shares
        if figure in fields.BY_KEY:
            pick = np.arange(self.layout.chips)[rows] if isinstance(rows, slice) else rows
            return fields.BY_KEY[figure].values(self.store, self.rollups, Level.CHIP, pick)
        return self.store.chip_values(BY_NAME[figure], rows)

    def _lane_values(self, scope: Scope, figure: str, rows: Some) -> NDArray[np.float64]:
        width = len(LANES[scope])
        numbers = np.arange(self.layout.chips * width)[rows] if isinstance(rows, slice) else rows
        chips, lanes = np.divmod(numbers, width)
        if figure == "link_up":
            expected = self.expected_links
            expected_bits = (
                expected if isinstance(expected, np.uint8) else expected[chips]
            ) >> lanes & 1
            codes = self.store.columns["links_up"][chips]
            known = (expected_bits == 1) & (codes != BY_NAME["links_up"].top)
            return np.where(known, codes >> lanes & 1, np.nan)
        metric = BY_NAME[figure]
        return metric.decode(self.store.columns[figure][chips, lanes])

    def _share(self, figure: str, level: Level) -> NDArray[np.float64]:
        """Return a share for every node of a level.

        It is the mean of its chips divided by the mean for their types.
        """
        name, factor_of = SHARES[figure]
        layout = self.layout
        mean = self.rollups.mean(name, level)
        factors = [factor_of(kind.chip) for kind in layout.types] or [1.0]
        if len(set(factors)) == 1:
            return np.asarray(mean * factors[0], np.float64)
        chips = layout.sizes.astype(np.float64)
        whole = chips / np.array(factors)[layout.instance_type]
        if level is Level.ULTRASERVER:
            starts = layout.ultraserver_start[:-1].astype(np.intp)
            chips = np.add.reduceat(chips, starts)
            whole = np.add.reduceat(whole, starts)
        return np.asarray(mean * chips / whole, np.float64)

    def _links_down(self, level: Level, *, only_z: bool) -> NDArray[np.float64]:
        if self.all_links_up:
            return np.zeros(self.layout.count(level))
        codes = self.store.columns["links_up"]
        expected = self.expected_links
        links = expected & self.layout.between_mask if only_z else expected
        missing = np.where(self.live & (codes != BY_NAME["links_up"].top), links & ~codes, 0)
        starts = self.layout.chip_start
        if not len(self.layout.instances):
            return np.zeros(0)
        if not missing.any():
            return np.zeros(self.layout.count(level))
        sums = np.add.reduceat(_POPCOUNT[missing], starts[:-1].astype(np.intp))
        if level is Level.ULTRASERVER:
            # A link counts twice whether its other end can be heard or not.
            np.add.at(sums, self.layout.instance_of_chip[self._unheard_ends(missing)], 1)
            sums = np.add.reduceat(sums, self.layout.ultraserver_start[:-1].astype(np.intp))
        return sums

    def _unheard_ends(self, missing: NDArray[Any]) -> NDArray[np.int64]:
        """Return the chips not live at the far ends of links between instances.

        A chip appears once for each link.

        Args:
            missing: Bits of the links missing on live chips, one value per chip.
        """
        layout = self.layout
        ends_unheard = [np.zeros(0, np.int64)]
        if self.all_live:
            return ends_unheard[0]
        starts = layout.ultraserver_start
        for lane in range(MOST_LANES):
            rows = np.flatnonzero(missing & layout.between_mask & (1 << lane))
            if not len(rows):
                continue
            instance = layout.instance_of_chip[rows]
            group = layout.ultraserver_of_instance[instance]
            # Where the other end lies depends on these alone.
            place = (
                layout.instance_type[instance],
                np.diff(starts)[group],
                instance - starts[group],
                rows - layout.chip_start[instance],
            )
            _, first, alike = np.unique(
                np.stack(place), axis=1, return_index=True, return_inverse=True
            )
            ends = [neighbour(layout, int(row), lane) for row in rows[first]]
            offsets = [
                0 if end is None else end - int(row)
                for end, row in zip(ends, rows[first], strict=True)
            ]
            others = rows + np.array(offsets, np.int64)[alike.reshape(-1)]
            ends_unheard.append(others[~self.live[others]])
        return np.concatenate(ends_unheard)
