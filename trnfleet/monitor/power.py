"""Power by rack, UltraServer, job or reservation: watts, peaks, caps and headroom.

Everything is computed for all groups at once, from the means that the whole screen shows. Groups
divide the fleet's instances, so that their watts add up to the fleet's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import FLEET_NODE
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.power import (
    FLEET,
    J_PER_KWH,
    POWER_SHARE,
    POWER_W,
    chip_watts,
    of_types,
    power_key,
)
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.goodput_report import NO_JOB
from trnfleet.monitor.power_groups import JOBS, RESERVATIONS, groups_of
from trnfleet.monitor.store.rings.record import TIERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.metrics import Metric
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.goodput_report import JobTime
    from trnfleet.monitor.power_groups import PowerGroups
    from trnfleet.monitor.store.announced import Announced
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.store import Store

    Floats = NDArray[np.float64]

STEP_S = TIERS[0].step
"""Wall seconds of a mean in peaks, as in headlines."""
PEAK_PCT = 95
NEAR_CAP = 0.9
"""Share of a cap above which a place counts as near it."""
SWING_S = 2
"""Seconds of the largest swing, as in POLCA (arXiv 2308.12908): published."""
HISTOGRAM_EDGES = {
    "temperature_c": (40.0, 60.0, 65.0, 70.0, 75.0, 85.0),
    "throttle_pct": (0.05, 1.0, 10.0, 20.0),
    POWER_W: (0.2, 0.4, 0.6, 0.8, 0.9, 1.0),
    POWER_SHARE: (20.0, 40.0, 60.0, 80.0, 90.0, 100.0),
}
"""Lower ends of all bins but the first; of power as shares of the largest chip's maximum."""


class KwhPrice(NamedTuple):
    """A price of energy."""

    amount: float
    currency: str


class PowerTable(NamedTuple):
    """The power of all groups at one moment; NaN where unknown.

    The last row is the fleet.
    """

    groups: PowerGroups
    instance_w: Floats
    """Watts of each instance: its part of the fleet's."""
    chips: Floats
    """In hardware."""
    covered: Floats
    """Chips with known power. The cap is theirs."""
    watts: Floats
    """Mean of the last seconds."""
    peak: Floats
    """95th percentile of the window's means."""
    cap: Floats
    is_own_cap: NDArray[np.bool_]
    """Whether a person has set the cap."""
    above_s: Floats
    """Fleet seconds above the cap in the window."""
    tflops_per_w: Floats
    tokens_per_j: Floats
    hottest_c: Floats
    window_s: float
    """Fleet seconds of the means in `peak`; 0 if none are kept."""
    is_modelled: bool
    """Whether watts are modelled from shares of power."""
    energy: list[JobTime | None]
    """Paid time of jobs, with their energy since it is watched; None for other groups."""

    @property
    def fleet(self) -> int:
        """Row of the fleet."""
        return self.groups.size

    @property
    def headroom(self) -> Floats:
        """Cap less the larger of peak and present mean: a load may have just begun."""
        return self.cap - np.fmax(self.peak, self.watts)

    @property
    def used(self) -> Floats:
        """The larger of peak and present mean, as a share of the cap."""
        return np.fmax(self.peak, self.watts) / np.where(self.cap > 0, self.cap, np.nan)

    def place(self, row: int) -> str:
        """Return the label of a row."""
        return FLEET if row == self.fleet else self.groups.label(row)


class PowerReader:
    """The tables of a monitor; groups and peaks are computed once until they change."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._groups: tuple[object, PowerGroups] | None = None
        self._course_of: tuple[object, Floats] | None = None

    def renew(self) -> None:
        """Drop what another monitor had."""
        self._groups = None
        self._course_of = None

    def groups(self, kind: str) -> PowerGroups:
        """Return the groups of a kind in the present layout."""
        monitor = self._monitor
        held = None
        if kind == RESERVATIONS:
            held = [(row.message.id, row.rows) for row in monitor.reservations.table()]
        state = (kind, id(monitor.store.layout), monitor.ingest.job_table.placements, held)
        if self._groups is None or self._groups[0] != state:
            self._groups = (
                state,
                groups_of(
                    kind, monitor.store, monitor.ingest.job_table, monitor.reservations.table()
                ),
            )
            self._course_of = None
        return self._groups[1]

    def read(self, kind: str, averages: Averages, announced: Announced) -> PowerTable | None:
        """Return the table of a kind of group; None before the first pass, and without power.

        Args:
            kind: One of `GROUPS`.
            averages: The means shown on the screen.
            announced: What sources know.
        """
        store = self._monitor.store
        key = power_key(announced.knows)
        if key is None or not averages.rollups.ready or averages.generation != store.generation:
            return None
        groups = self.groups(kind)
        layout = groups.layout
        covered = averages.covered(key, Level.INSTANCE).astype(np.float64)
        most_w = of_types(layout, "power_max_w")
        watts = chip_watts(key, averages.shares(key), covered, layout)
        work = averages.shares("tflops")
        both = ~np.isnan(work) & ~np.isnan(watts)
        cap = groups.sums(most_w * covered)
        is_own = np.zeros(groups.size + 1, np.bool_)
        for place, cap_w in self._monitor.caps.items():
            row = groups.find(place)
            if row is not None:
                cap[row] = cap_w
                is_own[row] = True
        total = groups.sums(watts)
        course = self._course(groups, key)
        fleet_s = STEP_S * (self._monitor.moment().speed or 1.0)
        live = averages.rollups.live(Level.INSTANCE)
        temperature = averages.value("temperature_c", Level.INSTANCE)
        return PowerTable(
            groups,
            watts,
            groups.sums(layout.sizes.astype(np.float64)),
            groups.sums(np.where(np.isnan(watts), 0.0, covered)),
            total,
            percentile(course, PEAK_PCT),
            cap,
            is_own,
            (course > cap).sum(axis=0) * fleet_s,
            groups.sums(np.where(both, work, np.nan)) / groups.sums(np.where(both, watts, np.nan)),
            self._tokens(groups) / total,
            groups.highest(np.where(live, temperature, np.nan)),
            len(course) * fleet_s,
            key == POWER_SHARE,
            self._energy(groups),
        )

    def _energy(self, groups: PowerGroups) -> list[JobTime | None]:
        if groups.kind != JOBS:
            return [None] * (groups.size + 1)
        report = self._monitor.goodput.report()
        by_job = {time.job: time for time in report.jobs}
        return [*(by_job.get(name) for name in (*groups.places[:-1], NO_JOB)), report.whole]

    def _tokens(self, groups: PowerGroups) -> Floats:
        """Return the tokens a second of each job; NaN for other groups."""
        made = np.full(groups.size + 1, np.nan)
        if groups.kind == JOBS:
            jobs = self._monitor.ingest.job_table
            for row, name in enumerate(jobs.placed):
                job = jobs.by_key.get(name)
                if job is not None and job.tokens_per_s is not None and name not in jobs.last_known:
                    made[row] = job.tokens_per_s
        return made

    def _course(self, groups: PowerGroups, key: str) -> Floats:
        """Return the means over time of all groups and, last, of the fleet."""
        history = self._monitor.history
        state = (key, history.end // STEP_S)
        if self._course_of is None or self._course_of[0] != state:
            fleet = history.means(groups.layout, Level.FLEET, POWER_W)
            means = history.means(groups.layout, Level.INSTANCE, POWER_W)
            steps = min(len(fleet), len(means) or len(fleet), TIERS[0].length)
            steps = steps if key == POWER_W else 0
            course = np.full((steps, groups.size + 1), np.nan)
            if len(means):
                course = groups.sums(means[len(means) - steps :])
            course[:, -1] = fleet[len(fleet) - steps :, 0]
            self._course_of = state, course
        return self._course_of[1]


def percentile(course: NDArray[np.floating], percent: int) -> Floats:
    """Return a percentile of the known values of each column; NaN without one."""
    if not len(course):
        return np.full(course.shape[1], np.nan)
    # NaN is sorted behind all values.
    ordered = np.sort(course, axis=0)
    known = (~np.isnan(course)).sum(axis=0)
    rank = np.maximum(0, -(-known * percent // 100) - 1)
    picked: Floats = ordered[rank, np.arange(len(rank))].astype(np.float64)
    return picked


class Energy(NamedTuple):
    """The chips' energy in a window."""

    kwh: float
    window_s: float
    """Fleet seconds."""
    coverage_pct: float
    """Share of the window with known power. The rest is not in the energy."""
    swing_w: float
    """Largest difference within 2 s, in the seconds still stored; NaN if none are."""


def energy_of(monitor: FleetState, span_s: int) -> Energy | None:
    """Return the energy of a span that ends at the moment shown; None without samples.

    A sample holds the last value for three periods: history has a gap only after that.

    Args:
        monitor: The monitor shown.
        span_s: Wall seconds.
    """
    history = monitor.history
    speed = monitor.moment().speed or 1.0
    layout = monitor.store.layout
    track = history.track(layout, FLEET_NODE, POWER_W, span_s).last(span_s)
    known = ~np.isnan(track.mean)
    if not known.any():
        return None
    joule = float(track.mean[known].sum(dtype=np.float64)) * track.step_s * speed
    seconds = history.series(layout, FLEET_NODE, POWER_W)
    swing_w = np.nan
    if len(seconds) > SWING_S:
        windows = np.lib.stride_tricks.sliding_window_view(seconds, SWING_S + 1)
        windows = windows[~np.isnan(windows).any(axis=1)]
        if len(windows):
            swing_w = float((windows.max(axis=1) - windows.min(axis=1)).max())
    return Energy(
        joule / J_PER_KWH,
        len(known) * track.step_s * speed,
        100.0 * float(known.mean()),
        swing_w,
    )


class Distribution(NamedTuple):
    """Chips by a metric."""

    metric: Metric
    edges: tuple[float, ...]
    """Lower ends of all bins but the first, in the metric's unit."""
    chips: NDArray[np.int64]
    """Live chips in each bin."""


def distribution(store: Store, name: str) -> Distribution | None:
    """Return the live chips by a metric; None where no source knows it."""
    metric = BY_NAME[name]
    if not store.announces([name], slice(None)) or not len(store.chip_state):
        return None
    edges = HISTOGRAM_EDGES[name]
    if name == POWER_W:
        most_w = max(kind.chip.power_max_w.value for kind in store.layout.types)
        edges = tuple(edge * most_w for edge in edges)
    # Codes are counted, then the bins of codes: quicker than a search for a million values.
    values = metric.decode(np.arange(metric.top + 1, dtype=metric.dtype))
    bins = np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, "right"))
    codes = store.columns[name]
    live = store.chip_state == Freshness.LIVE.value
    of_codes = np.bincount(codes if live.all() else codes[live], minlength=len(bins))
    counts = np.bincount(bins, of_codes, len(edges) + 2)[: len(edges) + 1]
    return Distribution(metric, edges, counts.astype(np.int64))
