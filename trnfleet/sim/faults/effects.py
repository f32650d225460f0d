"""Effects of open incidents on jobs, instances, links and counters.

`update` sums up all that is open; `mark` and `count` write it into a tick's columns, `patches` is
that of the links. A new effect needs a member of `domain.faults.fault.Effect` and a row in one of
the two tables below. Of heat and power nothing is known here: which inlet is warm and which rack is
capped is an input of `hardware.thermal`.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.faults.fault import Count, Effect, FaultScope, Reaction
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS, Scope
from trnfleet.sim.faults.incident import Incident, is_on_hardware
from trnfleet.sim.hardware.chips import NO_STRAGGLERS, Stragglers
from trnfleet.sim.hardware.columns import LANES
from trnfleet.sim.hardware.links import balanced_pace, find_patches
from trnfleet.sim.hardware.thermal import WELL_COOLED, PoorCooling
from trnfleet.sim.jobs.activity import AXES
from trnfleet.sim.jobs.slowdown import Halt, Slowdowns
from trnfleet.sim.rng import Rng, Stream, share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.placement import Placement


class Replicas:
    """Replicas of all inference jobs, in the order of their rows, and their faults."""

    def __init__(self, layout: Layout, placement: Placement) -> None:
        self._layout = layout
        self._placement = placement
        self.pace = np.ones(placement.replicas)
        """Share of speed left to each."""
        self.halt = np.zeros(placement.replicas, np.int8)
        """A `Halt` for each."""
        self._members: dict[int, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}

    def serves(self, job: int) -> bool:
        """Return whether a job has replicas."""
        return bool(self._placement.replica_chips[job])

    def clear(self) -> None:
        """Return every replica to its full pace."""
        self.pace = np.ones(self._placement.replicas)
        self.halt = np.zeros(self._placement.replicas, np.int8)

    def hit(
        self,
        job: int,
        instances: Iterable[int],
        chips: Iterable[int],
        *,
        pace: float = 1.0,
        halt: Halt = Halt.NONE,
    ) -> None:
        """Slow or stop the replicas on some chips.

        Without chips, all chips of the instances count.
        """
        self._hit(self._numbers(job, self._places(job, instances, chips)), pace, halt)

    def hit_across(self, job: int, halves: tuple[Iterable[int], Iterable[int]], halt: Halt) -> None:
        """Stop the replicas spanning both of two sets of instances."""
        one, other = (self._numbers(job, self._places(job, half, ())) for half in halves)
        self._hit(one & other, 1.0, halt)

    def hit_between(
        self, job: int, ends: tuple[int, ...], *, pace: float = 1.0, halt: Halt = Halt.NONE
    ) -> None:
        """Slow or stop the replica of the chips at a link's ends.

        No replica uses a link to another replica.
        """
        numbers = self._numbers(job, self._places(job, (), ends))
        if len(numbers) == 1:
            self._hit(numbers, pace, halt)

    def _hit(self, numbers: set[int], pace: float, halt: Halt) -> None:
        rows = sorted(numbers)
        self.pace[rows] = np.minimum(self.pace[rows], pace)
        self.halt[rows] = np.maximum(self.halt[rows], halt)

    def _numbers(self, job: int, places: list[tuple[int, int]]) -> set[int]:
        """Return the replicas with chips in ranges of places, numbered over all jobs."""
        size = int(self._placement.replica_chips[job])
        start = int(self._placement.replica_start[job])
        return {
            start + number
            for first, last in places
            for number in range(first // size, (last - 1) // size + 1)
        }

    def _job_rows(self, job: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return a job's instances and the place of each one's first chip in the job.

        The last place is the job's number of chips.
        """
        if job not in self._members:
            members = np.flatnonzero(self._placement.job_of_instance == job)
            sizes = np.diff(self._layout.chip_start)[members]
            self._members[job] = members, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return self._members[job]

    def _places(
        self, job: int, instances: Iterable[int], chips: Iterable[int]
    ) -> list[tuple[int, int]]:
        """Return the ranges of places, among a job's chips, of chips or of whole instances."""
        members, first = self._job_rows(job)
        ranges = []
        for chip in chips:
            instance = int(self._layout.instance_of_chip[chip])
            place = int(np.searchsorted(members, instance))
            if place < len(members) and members[place] == instance:
                at = int(first[place]) + chip - int(self._layout.chip_start[instance])
                ranges.append((at, at + 1))
        if ranges:
            return ranges
        for instance in instances:
            place = int(np.searchsorted(members, instance))
            if place < len(members) and members[place] == instance:
                ranges.append((int(first[place]), int(first[place + 1])))
        return ranges


DETOUR_PACE = 0.2
"""Pace of collectives between two pairs of instances over EFA instead of Z links: assumed. Derived:
at most 17 of 64 GB/s per chip (measured on trn2.48xlarge with all 16 chips at once: 266 to 279
GB/s, Mooncake's EFA documents), less EFA's latency and the job's own traffic there."""
DECODE_COLLECTIVES = 0.15
"""Share of a decode step in collectives, stretched by a slow link: assumed."""
BURST_S = 20
"""Seconds after which a storm of errors reaches its rate. Within it errors come in bursts: half of
its seconds have almost none, and the worst has a third of all. Assumed; a weak row is read often
for a while, then not."""
RESTARTED_COUNTERS = (
    "mem_ecc_corrected",
    "mem_ecc_uncorrected",
    "sram_ecc_corrected",
    "sram_ecc_uncorrected",
    "exec_errors",
    "efa_retransmits",
)
"""Event counters, restarted at 0 on a new instance."""

_HEALTH = {name: 1 << number for number, name in enumerate(HEALTH_BITS)}


class JobPace(NamedTuple):
    """Remaining shares of a job's speed under one incident."""

    compute: float = 1.0
    link: float = 1.0
    efa: float = 1.0
    storage: float = 1.0


class InstanceEffects(NamedTuple):
    """Effects on instances as a whole; arrays of shape (instances,)."""

    silent: NDArray[np.bool_]
    """Instances that publish nothing."""
    inlet_delta_c: NDArray[np.float32]
    """On top of the fleet's inlet temperature."""
    cap_share: NDArray[np.float32]
    """Share of the chips' maximum power allowed by a cap; 1 without one."""
    efa_share: NDArray[np.float32]
    """Share of its EFA bandwidth that is left."""

    def clear(self) -> None:
        """Return to a fleet without faults."""
        self.silent[:] = False
        self.inlet_delta_c[:] = 0.0
        self.cap_share[:] = 1.0
        self.efa_share[:] = 1.0


def _silence(state: InstanceEffects, instances: list[int], _magnitude: float) -> None:
    state.silent[instances] = True


def _warm(state: InstanceEffects, instances: list[int], degrees_c: float) -> None:
    state.inlet_delta_c[instances] = np.maximum(state.inlet_delta_c[instances], degrees_c)


def _cap(state: InstanceEffects, instances: list[int], share: float) -> None:
    state.cap_share[instances] = np.minimum(state.cap_share[instances], share)


def _lose_packets(state: InstanceEffects, instances: list[int], share: float) -> None:
    state.efa_share[instances] = np.minimum(state.efa_share[instances], share)


_ON_JOBS: Mapping[Effect, Callable[[float], JobPace]] = {
    Effect.CHIP_PACE: lambda withheld_pct: JobPace(compute=1.0 - withheld_pct / 100.0),
    Effect.LINK_CAPACITY: lambda share: JobPace(
        link=balanced_pace(share) if share else DETOUR_PACE
    ),
    Effect.EFA_PACE: lambda share: JobPace(efa=share),
    Effect.STORAGE_PACE: lambda share: JobPace(storage=share),
}
"""Slowdown of an incident's jobs per effect, by magnitude."""
_ON_INSTANCES: Mapping[Effect, Callable[[InstanceEffects, list[int], float], None]] = {
    Effect.SILENT: _silence,
    Effect.INLET: _warm,
    Effect.POWER_CAP: _cap,
    Effect.EFA_PACE: _lose_packets,
}
"""Effects on an incident's instances, by magnitude. The worst of several on one instance counts."""


class FaultEffects:
    """The sum of the effects of all open incidents."""

    def __init__(
        self,
        layout: Layout,
        fleet: FleetFile,
        placement: Placement,
        rng: Rng,
        link_need: NDArray[np.float64] | None = None,
    ) -> None:
        """Begin without effects; `link_need` as for `find_patches`, 1 by default."""
        self._layout = layout
        # The last row is for links without a job.
        self._link_need = np.ones((len(fleet.jobs) + 1, len(AXES)))
        if link_need is not None:
            self._link_need[:-1] = link_need
        self._rng = rng
        self._job_count = len(fleet.jobs)
        self._replicas = Replicas(layout, placement)
        count = len(layout.instances)
        self.instances = InstanceEffects(
            np.zeros(count, np.bool_),
            np.zeros(count, np.float32),
            np.ones(count, np.float32),
            np.ones(count, np.float32),
        )
        self.slowdowns = Slowdowns.healthy(self._job_count, placement.replicas)
        """Speed left to each job and replica; another object after every `update`."""
        self._open: Sequence[Incident] = ()
        self.patches = find_patches(layout, (), self._link_need)
        """NeuronLink lanes with traffic different from their cohort's."""
        self.stragglers = NO_STRAGGLERS
        self.cooling = WELL_COOLED
        self._counting: list[Incident] = []
        self._replaced: list[int] = []
        self._marked: NDArray[np.int64] = np.zeros(0, np.int64)
        self._is_marked = True

    def update(
        self, incidents: Sequence[Incident], load_factors: Iterable[tuple[int, float]]
    ) -> None:
        """Sum up the effects of incidents.

        Args:
            incidents: All that are open or in recovery, oldest first.
            load_factors: Jobs whose offered load a scenario changes at present, each with a factor.
        """
        self._open = tuple(incidents)
        slowdowns = self.slowdowns = Slowdowns.healthy(self._job_count, 0)
        self.instances.clear()
        self._replicas.clear()
        for incident in self._open:
            effect = incident.present_effect
            if incident.is_down:
                _silence(self.instances, list(incident.instances), 0.0)
            if effect in _ON_INSTANCES:
                _ON_INSTANCES[effect](self.instances, list(incident.instances), incident.magnitude)
            pace = _ON_JOBS[effect](incident.magnitude) if effect in _ON_JOBS else JobPace()
            for job in incident.jobs:
                self._slow(slowdowns, incident, job, pace)
        for job, factor in load_factors:
            slowdowns.load[job] *= factor
        slowdowns.replica, slowdowns.replica_halt = self._replicas.pace, self._replicas.halt
        links = [link for incident in self._open if incident.is_open for link in incident.links]
        self.patches = find_patches(self._layout, links, self._link_need)
        withheld = self._worst(Effect.CHIP_PACE)
        self.stragglers = Stragglers(withheld[0], 1.0 - withheld[1] / 100.0)
        self.cooling = PoorCooling(*self._worst(Effect.COOLING))
        self._is_marked = False

    def _worst(self, effect: Effect) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the chips under an effect, and the largest magnitude on each."""
        worst: dict[int, float] = {}
        for incident in self._open:
            if incident.present_effect is effect:
                row = incident.rows[0]
                worst[row] = max(worst.get(row, 0.0), incident.magnitude)
        rows = sorted(worst)
        return np.array(rows, np.int64), np.array([worst[row] for row in rows], np.float64)

    def are_down(self, jobs: Iterable[int], incidents: Iterable[Incident]) -> bool:
        """Return whether incidents have stopped all of some jobs.

        A serving job continues with its other replicas.
        """
        stopped = {
            job for incident in incidents if incident.halt >= Halt.DOWN for job in incident.jobs
        }
        alive = [job for job in jobs if job not in stopped or self._replicas.serves(job)]
        return not alive

    def start_counting(self, incident: Incident) -> None:
        """Add an incident's events to counters from its begin on."""
        if incident.fault.counts:
            self._counting.append(incident)

    def replace(self, instance: int) -> None:
        """Restart the counters of a replaced instance at 0.

        Faults of its old chips no longer count.
        """
        self._replaced.append(instance)
        for incident in self._counting:
            if is_on_hardware(incident, instance):
                owners = self._layout.instance_of_chip
                incident.counting = tuple(
                    row for row in incident.counting if owners[row] != instance
                )
        self._counting = [incident for incident in self._counting if incident.counting]

    def mark(self, columns: dict[str, NDArray[Any]]) -> None:
        """Overwrite `health` and `links_up` of affected chips in a tick's columns."""
        if self._is_marked:
            return
        self._is_marked = True
        links_up = columns["links_up"]
        health = columns["health"]
        rows = self._marked
        links_up[rows] = self._layout.chip_links_mask[rows]
        health[rows] = 0
        touched: set[int] = set()
        for incident in self._open:
            touched.update(_mark(incident, links_up, health))
        self._marked = np.array(sorted(touched), np.int64)

    def count(self, columns: dict[str, NDArray[Any]], end_s: float) -> None:
        """Add uncounted events up to `end_s` to the counters.

        Counters of new instances begin at 0.
        """
        if self._replaced:
            instances = np.array(self._replaced, np.int64)
            rows = {Scope.INSTANCE: instances, Scope.CHIP: self._layout.chip_rows(instances)}
            for name in RESTARTED_COUNTERS:
                columns[name][rows[BY_NAME[name].scope]] = 0
            self._replaced = []
        for incident in self._counting:
            until_s = min(end_s, incident.ends_s)
            for count in incident.counts:
                at_once = count.at_once if incident.has_failed else 0
                events = at_once + self._events(
                    incident, count, max(until_s - incident.begins_s, 0.0)
                )
                new = events - incident.counted.get(count.metric, 0)
                incident.counted[count.metric] = max(events, events - new)
                for row in incident.counting if new > 0 else ():
                    columns[count.metric][row] += new
        self._counting = [
            incident
            for incident in self._counting
            if not incident.is_over and incident.ends_s > end_s
        ]

    def _events(self, incident: Incident, count: Count, passed_s: float) -> int:
        """Return the events of an incident's first `passed_s`: the same for ticks of any length."""
        if not count.per_s:
            return 0
        block = math.floor(passed_s / BURST_S)
        begin_s = block * float(BURST_S)
        length_s = min(float(BURST_S), incident.ends_s - incident.begins_s - begin_s)
        events = count.per_s * begin_s
        if length_s > 0.0:
            seconds = np.arange(math.ceil(length_s), dtype=np.int64)
            keys = (incident.rows[0], round(incident.begins_s * 1_000.0), block)
            words = self._rng.scattered(
                Stream.ECC_BURST, *(np.full_like(seconds, key) for key in keys), seconds
            )
            even = share_of(words)
            fourth = even * even * even * even
            # The last second of a storm may be a part of one.
            lasts_s = np.minimum(length_s - seconds, 1.0)
            weights = fourth * fourth * fourth * lasts_s
            into_s = np.clip(passed_s - begin_s - seconds, 0.0, lasts_s)
            share = float(np.cumsum(weights * into_s / lasts_s)[-1]) / float(np.cumsum(weights)[-1])
            events += count.per_s * length_s * share
        # What rounding leaves just below a whole number is one.
        return math.floor(events + 1e-6)

    def _slow(self, slowdowns: Slowdowns, incident: Incident, job: int, pace: JobPace) -> None:
        """Slow or halt one of an incident's jobs.

        A synchronous job is affected as a whole, a serving job only in the replicas hit.
        """
        slowdowns.efa[job] = min(slowdowns.efa[job], pace.efa)
        slowdowns.storage[job] = min(slowdowns.storage[job], pace.storage)
        if not self._replicas.serves(job):
            slowdowns.compute[job] = min(slowdowns.compute[job], pace.compute)
            if pace.link < 1.0:
                axis = AXES.index(incident.links[0].axis)
                slowdowns.link[job, axis] = min(slowdowns.link[job, axis], pace.link)
            slowdowns.halt[job] = max(slowdowns.halt[job], incident.halt)
            slowdowns.is_cold[job] |= incident.fault.is_cold
            return
        left = min(pace.compute, 1.0 / (1.0 - DECODE_COLLECTIVES + DECODE_COLLECTIVES / pace.link))
        halt = incident.halt
        scope = incident.fault.scope
        if incident.fault.effect is Effect.SPLIT:
            for halves in itertools.combinations(incident.racks, 2):
                self._replicas.hit_across(job, halves, halt)
        elif scope is FaultScope.LINK and halt is not Halt.WAITING:
            self._replicas.hit_between(job, incident.rows, pace=left, halt=halt)
        elif left < 1.0 or halt is not Halt.NONE:
            # One chip stops its own replica; an instance that is drained, all that run on it.
            is_one_chips = scope is FaultScope.CHIP and halt is not Halt.WAITING
            chips = incident.rows if is_one_chips else ()
            self._replicas.hit(job, incident.instances, chips, pace=left, halt=halt)


def _mark(incident: Incident, links_up: NDArray[Any], health: NDArray[Any]) -> tuple[int, ...]:
    """Mark the chips of an open incident; return their rows."""
    if not incident.is_open:
        return ()
    lost = [link for link in incident.links if link.capacity == 0 and not link.is_unused]
    for link in lost:
        bit = _HEALTH["link_interserver" if link.is_between else "link_intraserver"]
        for lane in link.lanes:
            row, direction = divmod(lane, LANES)
            links_up[row] &= 0xFF ^ (1 << direction)
            health[row] |= bit
    # Nobody knows of a hang before the runtime's timeout.
    if not incident.links and (incident.has_failed or incident.fault.reaction is not Reaction.HANG):
        bits = sum(_HEALTH[name] for name in incident.fault.health)
        health[list(incident.rows)] |= bits
    return incident.rows
