"""The simulator's engine: computes each tick's columns and events.

Owns time in ticks and the order of a tick's parts. It is synchronous, reads no clock and sends
nothing. The same fleet, scenario, seed and ticks give the same bits, with any sharding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.clock import NS_PER_MS, NS_PER_S
from trnfleet.domain.fleet import FleetFile, Inference, expand, lnc_by_instance
from trnfleet.domain.layout import Layout, whole_spans_of
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.errors import ConfigError
from trnfleet.sim.events import SimEvent
from trnfleet.sim.faults.effects import RESTARTED_COUNTERS
from trnfleet.sim.faults.timeline import IncidentTimeline
from trnfleet.sim.hardware.chips import ChipPhysics
from trnfleet.sim.hardware.ecc import CorrectedErrors
from trnfleet.sim.hardware.hosts import HostPhysics, SilentHosts
from trnfleet.sim.hardware.thermal import Throttling
from trnfleet.sim.jobs.window import JobTick
from trnfleet.sim.jobs.workloads import Workloads
from trnfleet.sim.placement import IDLE, Cohorts, Placement, check_hardware
from trnfleet.sim.reservations.account import BlockAllocation, CapacityAccount
from trnfleet.sim.reservations.messages import block_events
from trnfleet.sim.rng import Rng
from trnfleet.sim.sharding import WHOLE, Shard, own_instances

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from numpy.typing import NDArray

    from trnfleet.domain.scenario import Scenario
    from trnfleet.sim.faults.spares import Move
    from trnfleet.sim.jobs.slowdown import Slowdowns
    from trnfleet.sim.jobs.traces import Trace

LEAP_S = 3_600.0
"""Longest stretch of a jump simulated at once, in seconds."""
SETTLING_S = 600.0
"""Final seconds of a jump, with stretches ending at fault changes. Ten time constants of air
cooling: temperatures then match a fleet simulated without a jump."""
_FROM_ZERO = frozenset({*RESTARTED_COUNTERS, "health"})
"""Metrics changed only by events, from 0 on."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Result of a step beside the columns."""

    number: int
    """0 for the tick at the start; negative before it."""
    ts_ns: int
    """Source time, nanoseconds since 1970 UTC, whole milliseconds."""
    figures: dict[str, NDArray[np.float64]]
    """Job figures by the names of `metrics.JOB_FIGURES`: shape (jobs,), NaN if not applicable."""
    states: NDArray[np.int8]
    """Index into `jobs.JOB_STATES` for each job, at the end of the window; shape (jobs,)."""
    events: tuple[SimEvent, ...]
    """Events since the last step's tick, in order of time, in the whole fleet."""
    allocations: tuple[BlockAllocation, ...] = ()
    """Changes of Capacity Blocks since the last step's tick, in order, in the whole fleet."""


class Engine:
    """One simulated fleet.

    A tick's values are averages over the period that ends at its time. A fault or a repair within
    it takes effect at its instant; marks on single chips are those of the period's last part.
    Stepping several ticks at once returns the last one's number and the average over all.

    With a lead-in, the first ticks lie before the start and have negative numbers: the fleet in its
    usual operation. Faults and changes of load and of Capacity Blocks occur from the start on, and
    corrected errors count from there.
    """

    def __init__(
        self,
        fleet: FleetFile,
        seed: int,
        period_s: float,
        start_ns: int,
        *,
        scenario: Scenario | None = None,
        traces: Mapping[str, Trace] | None = None,
        shard: Shard = WHOLE,
        lead_in: int = 0,
    ) -> None:
        """Lay out the fleet and place its jobs.

        Args:
            fleet: The fleet file.
            seed: Decides all randomness; any integer.
            period_s: Simulated seconds from tick to tick.
            start_ns: Time of tick 0, nanoseconds since 1970 UTC.
            scenario: Faults and changes of load, beside those of the fleet file.
            traces: Recorded load of the jobs that follow one, by the job's name.
            shard: The part whose columns are made.
            lead_in: Ticks before tick 0.

        Raises:
            ConfigError: a file names something unknown, twice, or impossible; the message names key
                and value.
        """
        if not period_s > 0:
            raise ConfigError(f"period {period_s!r} s: must be above 0")
        self.fleet = fleet
        self.period_s = period_s
        self.start_ns = start_ns
        try:
            self.layout = Layout.of(expand(fleet))
            self.lnc = lnc_by_instance(fleet)
            """LNC by instance path, only where the fleet file sets one."""
        except ValueError as error:
            raise ConfigError(f"fleet {fleet.name!r}: clusters: {error}") from error
        check_hardware(self.layout, fleet)
        placement = Placement.resolve(self.layout, fleet)
        self.shard = shard
        self.own = own_instances(self.layout, shard)
        """Simulated instances: consecutive rows."""
        self.job_of_instance = placement.job_of_instance
        """Index into `job_names` for each instance, -1 where it is idle; shape (instances,)."""
        self.job_names = tuple(job.name for job in fleet.jobs)
        self.jobs_on = [job.on for job in fleet.jobs]
        """Where each job runs: addresses and ranges of siblings."""
        self.columns: dict[str, NDArray[Any]] = _allocate(self.layout, self.own)
        """Wire codes of every metric, rewritten in place by `step`: shape (rows,) or (rows, lanes).
        Rows of a silent instance are "not available"."""
        rng = self.rng = Rng(seed, from_s=-lead_in * period_s)
        self._serves = np.array([*(isinstance(job, Inference) for job in fleet.jobs), False])
        self.placement = placement
        """Jobs by instance, and the hardware of each job."""
        self._cohorts = Cohorts.group(self.layout, placement)
        self._workloads = Workloads(fleet, placement, rng, traces or {}, layout=self.layout)
        self.incidents = IncidentTimeline(
            self.layout, fleet, placement, rng, scenario, self._workloads.link_need
        )
        self._effects = self.incidents.effects
        self.flops_per_token = self._workloads.flops_per_token
        """Model FLOPs of a token of each training job, by its number."""
        self._throttling = Throttling(self.layout, fleet, rng)
        self._chips = ChipPhysics(self.layout, self._cohorts, self.columns, rng, fleet, self.own)
        self._hosts = HostPhysics(self.layout, self._cohorts, self.columns, rng, self.own)
        self._errors = CorrectedErrors(rng, self.layout.chip_start)
        self._silent_rows = SilentHosts(self.layout, self.columns)
        self.account = CapacityAccount(self.layout, fleet, placement, rng)
        """The account's Capacity Blocks."""
        self.incidents.spares.hold(np.flatnonzero(self.account.governed))
        self.silent = np.zeros(len(self.layout.instances), np.bool_)
        """Instances without telemetry in the last tick; shape (instances,)."""
        self.lead_in = lead_in
        """Ticks before tick 0."""
        self.ticks = -lead_in
        self._is_settled = False

    @property
    def now_s(self) -> float:
        """Simulated seconds from the start to the last tick; negative before the start.

        Before the first tick: seconds to the first tick.
        """
        return max(self.ticks - 1, -self.lead_in) * self.period_s

    def restart_at(self, start_ns: int) -> None:
        """Set the time of tick 0, which a live run knows only when it begins.

        Raises:
            RuntimeError: a step was made already.
        """
        if self.ticks != -self.lead_in:
            raise RuntimeError("the engine has already made a step")
        self.start_ns = start_ns

    def begin(self) -> None:
        """Begin simulated time: from then on there are reservations.

        The first step does it otherwise.

        Raises:
            ConfigError: two blocks of the fleet file hold an instance at the same time.
        """
        self.account.begin(self.start_ns, self._workloads)

    def time_ns(self, tick: int) -> int:
        """Return a tick's source time in nanoseconds since 1970 UTC.

        Rounded to a whole millisecond.
        """
        return _whole_ms(self.start_ns + tick * round(self.period_s * NS_PER_S))

    def moment_ns(self, at_s: float) -> int:
        """Return the source time of an instant in seconds since the start.

        Rounded to a whole millisecond.
        """
        return _whole_ms(self.start_ns + round(at_s * NS_PER_S))

    def step(self, ticks: int = 1) -> Tick:
        """Move on by `ticks` periods and rewrite the columns.

        Args:
            ticks: More than 1 to catch up or to jump: the ticks between are not made, but their
                time passes.
        """
        number = self.ticks + ticks - 1
        elapsed_s = ticks * self.period_s
        end_s = number * self.period_s
        # Where the last step ended, bit for bit: a difference would leave slivers of time between
        # ticks.
        begin_s = (self.ticks - 1) * self.period_s
        self._silent_rows.restore()
        self.begin()
        parts: list[tuple[JobTick, float]] = []
        events: list[SimEvent] = []
        allocations: list[BlockAllocation] = []
        begin = begin_s
        for edge in (*self.incidents.boundaries(begin_s, end_s), end_s):
            while begin < edge:
                # Tick 0's period lies before the start, and has the state at the start.
                self._move_to(begin if end_s < 0.0 else max(begin, 0.0))
                events += self._of_blocks(allocations)
                # A block may change anywhere in between, and its next change follows from this
                # one.
                due_s = self.account.next_s()
                end = due_s if begin < due_s < edge else edge
                part = self._live_through(begin, end)
                parts.append((part, end - begin))
                events += self._events_of(part, begin, end)
                begin = end
        jobs = JobTick.join(parts)
        self._chips.fill(
            number,
            elapsed_s,
            jobs,
            self._effects.patches,
            self._effects.instances.inlet_delta_c,
            self._throttling.throttled,
            end_s,
            self._effects.stragglers,
            self._effects.cooling,
        )
        self._hosts.fill(number, elapsed_s, jobs, end_s, self._effects.instances.efa_share)
        self._effects.mark(self.columns)
        self._effects.count(self.columns, end_s)
        if number >= 0:
            # None before the start, so that the counters there do not depend on the number of
            # ticks before it.
            self._errors.add(self.columns, number, elapsed_s)
        self.silent = self._effects.instances.silent.copy()
        self._silent_rows.hide(self.silent, self.own)
        # What begins at the tick's very instant is logged with it and shows in the next.
        self._move_to(end_s)
        events += self.incidents.drain()
        events += self._of_blocks(allocations)
        self.ticks = number + 1
        events.sort(key=lambda event: event.time_s)
        return Tick(
            number,
            self.time_ns(number),
            jobs.figures,
            jobs.states,
            tuple(events),
            tuple(allocations),
        )

    def leap(self, ticks: int) -> Iterator[Tick]:
        """Simulate `ticks` periods in stretches of at most an hour.

        Yields after each stretch so that other tasks can run. A window has one temperature per
        inlet, and a new fleet is settled by its first window. So the first stretch after a start is
        a single tick, and in the last `SETTLING_S` each stretch ends at the tick before a change.

        Args:
            ticks: May be 0.
        """
        target = self.ticks + ticks
        while self.ticks < target:
            yield self.step(self._stretch(target))

    def _stretch(self, target: int) -> int:
        """Return the ticks of the next stretch of a jump to the tick before `target`."""
        if self.ticks == 0:
            return 1
        most = max(1, round(LEAP_S / self.period_s))
        settling = target - math.ceil(SETTLING_S / self.period_s)
        if self.ticks < settling:
            return min(most, settling - self.ticks)
        edges = self.incidents.boundaries(self.now_s, (target - 1) * self.period_s)
        before = (math.floor(edge / self.period_s) + 1 for edge in edges)
        end = next((number for number in before if number > self.ticks), target)
        return min(most, end - self.ticks)

    def inject(
        self,
        fault: str,
        target: str,
        *,
        lasts_s: float | None = None,
        magnitude: float | None = None,
        by: str = "",
    ) -> str:
        """Begin a fault at the last tick's time, so that the next tick shows it.

        Returns:
            An answer of one line.

        Raises:
            ConfigError: fault or target is unknown, or they do not go together; the message names
                the nearest.
        """
        return self.incidents.inject(
            fault, target, self.now_s, lasts_s=lasts_s, magnitude=magnitude, by=by
        )

    def _move_to(self, now_s: float) -> None:
        """Carry out all begins and ends up to an instant."""
        self.incidents.move_to(now_s)
        for move in self.incidents.moves:
            self._follow(move)
        self.incidents.moves.clear()
        self.account.move_to(now_s, self.incidents.active(), self._workloads)

    def _follow(self, move: Move) -> None:
        """Take a job's new place over: the two places change their parts."""
        layout = self.layout
        chips = (layout.chip_rows(np.array(place)) for place in (move.failed, move.spare))
        _swap(self._cohorts.of_chip, *chips)
        _swap(self._cohorts.hosts.of_instance, np.array(move.failed), np.array(move.spare))
        self._chips.regroup()
        self.account.use(move.spare)
        places = np.flatnonzero(self.job_of_instance == move.job)
        self.jobs_on[move.job] = tuple(whole_spans_of(layout, places))

    def _of_blocks(self, allocations: list[BlockAllocation]) -> list[SimEvent]:
        """Add the blocks' changes since the last call to `allocations`; return their events."""
        changed = self.account.drain()
        for allocation in changed:
            self.incidents.spares.hold(np.array(allocation.block.places))
        allocations += changed
        generation = self.incidents.generation
        return [
            event
            for allocation in changed
            for event in block_events(self.account, allocation, generation)
        ]

    def _live_through(self, begin_s: float, end_s: float) -> JobTick:
        """Advance jobs, heat and limits through part of a window without fault changes."""
        effects = self._effects.instances
        throttling = self._throttling
        elapsed_s = end_s - begin_s
        middle_s = (begin_s + end_s) / 2.0
        throttling.set_cooling(self._effects.cooling)
        throttling.limit(elapsed_s, effects.inlet_delta_c, effects.cap_share)
        slowdowns = self._slowdowns()
        jobs = self._workloads.advance(elapsed_s, middle_s, self.moment_ns(middle_s), slowdowns)
        settled_w = None
        if not self._is_settled:
            settled_w = self._chips.instance_power_w(self._workloads.usual(jobs, slowdowns))
        throttling.advance(
            elapsed_s,
            self._chips.instance_power_w(jobs),
            effects.inlet_delta_c,
            effects.cap_share,
            None if self.fleet.rack_power_cap_w is None else self._hosts.instance_power_w(jobs),
            settled_w,
        )
        if not self._is_settled:
            self._chips.settle(
                throttling.chip_temperature_c(np.arange(self.own.start, self.own.stop))
            )
            self._is_settled = True
        return jobs

    def _slowdowns(self) -> Slowdowns:
        """Return the slowdowns by faults, heat and power caps."""
        slowdowns = self._effects.slowdowns
        pace = self._throttling.pace
        slow = np.flatnonzero((pace < 1.0) & (self.job_of_instance != IDLE))
        if not len(slow):
            return slowdowns
        slowdowns = slowdowns.copy()
        job = self.job_of_instance[slow]
        serves = self._serves[job]
        np.minimum.at(slowdowns.compute, job[~serves], pace[slow[~serves]])
        rows, of_slow = self._cohorts.replicas_on(slow[serves], len(self.job_names))
        np.minimum.at(slowdowns.replica, rows, pace[slow[serves]][of_slow])
        return slowdowns

    def _events_of(self, jobs: JobTick, begin_s: float, end_s: float) -> list[SimEvent]:
        """Return the events of a part of a window, of faults and of jobs."""
        events = self.incidents.drain()
        for change in jobs.changes:
            job = self.fleet.jobs[change.job]
            on = self.jobs_on[change.job][0].partition("..")[0]
            # What faults and blocks do to jobs comes where windows are cut; a job's own begin and
            # end lie anywhere in one.
            own_s = {
                "job_started": job.starts_at_s,
                "job_ended": job.ends_at_s,
                "job_hung": float(self._workloads.lifecycle.hung_at_s[change.job]),
            }.get(change.name)
            at_s = begin_s if own_s is None or not begin_s <= own_s <= end_s else own_s
            events.append(
                SimEvent(
                    max(at_s, -self.lead_in * self.period_s),
                    on,
                    "job",
                    change.name,
                    change.severity,
                    change.text,
                    self.job_names[change.job],
                )
            )
        return events


def _swap(values: NDArray[Any], one: NDArray[np.int64], other: NDArray[np.int64]) -> None:
    values[one], values[other] = values[other], values[one]


def to_ns(moment: datetime) -> int:
    """Return a moment with a time zone as nanoseconds since 1970 UTC."""
    return round(moment.timestamp() * 1_000) * NS_PER_MS


def _whole_ms(exact_ns: int) -> int:
    return (exact_ns + NS_PER_MS // 2) // NS_PER_MS * NS_PER_MS


def _allocate(layout: Layout, own: range) -> dict[str, NDArray[Any]]:
    """Return the columns of a fleet before any event.

    Unwritten metrics of the instances `own` remain not available. Other instances' rows are not
    published; writing them in a large fleet would cost memory in every shard.
    """
    rows = {Scope.CHIP: layout.chips, Scope.INSTANCE: len(layout.instances)}
    chips = slice(int(layout.chip_start[own.start]), int(layout.chip_start[own.stop]))
    published = {Scope.CHIP: chips, Scope.INSTANCE: slice(own.start, own.stop)}
    columns: dict[str, NDArray[Any]] = {}
    for metric in SIMULATED:
        shape = (rows[metric.scope], metric.width) if metric.is_vector else (rows[metric.scope],)
        columns[metric.name] = np.zeros(shape, metric.dtype)
        if metric.name not in _FROM_ZERO:
            columns[metric.name][published[metric.scope]] = metric.top
    columns["links_up"][:] = layout.chip_links_mask
    # A lane without a link says not available from the start; the others are rewritten by every
    # tick.
    for name in ("link_tx_bytes_per_s", "link_rx_bytes_per_s"):
        column = columns[name]
        lanes = np.arange(column.shape[1], dtype=np.uint8)
        column[columns["links_up"][:, None] >> lanes & 1 == 0] = BY_NAME[name].top
    return columns
