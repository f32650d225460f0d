"""What goes wrong and when: faults of the fleet file, of a scenario, of chance and of commands, from begin to recovery.

Owns the timetable and what all open incidents together do to jobs, instances and chips. It knows no clock beyond the
seconds that it is given, and nothing of heat or power: it says which inlet is warm and which rack is capped.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.faults import FAULTS, Effect, FaultScope, Reaction, Recovery, check_use, find_fault
from trnfleet.domain.fleet import chip_at, link_ends
from trnfleet.domain.hardware import topology
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.domain.targets import Target, resolve
from trnfleet.errors import ConfigError, nearest
from trnfleet.sim.faults.incident import Incident, Step, concerns, cures, make, reacts
from trnfleet.sim.faults.log_lines import LogWriter
from trnfleet.sim.faults.random_faults import RandomFaults
from trnfleet.sim.faults.replicas import Replicas
from trnfleet.sim.hardware.links import LANES, LinkPatches, Patches, SlowLink
from trnfleet.sim.jobs.slowdown import Halt, Slowdowns
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.domain.faults import Fault
    from trnfleet.domain.fleet import FleetFile, Link, Straggler
    from trnfleet.domain.scenario import FaultEntry, Scenario
    from trnfleet.sim.events import SimEvent
    from trnfleet.sim.faults.random_faults import RandomFault
    from trnfleet.sim.jobs.window import JobTick
    from trnfleet.sim.placement import Cohorts, Placement
    from trnfleet.sim.rng import Rng

DETOUR_PACE = 0.5
"""Pace of collectives on a ring that has lost a link: the other way round carries both halves (derived)."""
DECODE_COLLECTIVES = 0.15
"""Share of a decode step spent in collectives, which a slow link stretches: assumed."""
OUT_PACE = 0.02
"""What the chips of an inference replica still do whose processes are gone (runtimes that wait): assumed."""
MOST_BOUNDARIES = 64
"""Instants at which one window is cut; where more lie in it, some changes take effect at the next cut."""

_HEALTH = {name: 1 << number for number, name in enumerate(HEALTH_BITS)}
RESTARTED_COUNTERS = (
    "mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected", "exec_errors",
)  # fmt: skip  # one line is the list
"""Counters of events, which are 0 on a new instance."""


class IncidentTimeline:
    """All that is wrong with a fleet, and what is still to come."""

    def __init__(
        self,
        layout: Layout,
        fleet: FleetFile,
        placement: Placement,
        rng: Rng,
        scenario: Scenario | None = None,
    ) -> None:
        """Resolve what the files say.

        Raises:
            ConfigError: an address, link or job does not exist, a fault cannot hit it, or two entries of the fleet file
                are active on the same thing at a time; the message names the nearest.
        """
        self._layout = layout
        self._placement = placement
        self._rng = rng
        self._jobs = tuple(job.name for job in fleet.jobs)
        self._replicas = Replicas(layout, placement, fleet)
        self._log_writer = LogWriter(layout, self._jobs, rng)
        count = len(layout.instances)
        self.silent = np.zeros(count, np.bool_)
        """Instances that publish nothing; shape (instances,)."""
        self.inlet_delta_c = np.zeros(count, np.float32)
        """On top of the fleet's inlet temperature; shape (instances,)."""
        self.cap_share = np.ones(count, np.float32)
        """Share of the chips' maximum power that a cap allows, 1 without one; shape (instances,)."""
        self.generation = np.zeros(count, np.int32)
        """How often each instance was replaced."""
        self.boots = np.zeros(count, np.int32)
        """How often each instance has booted since the start."""
        self.apart: set[int] = set()
        """Instances whose pace is not their job's."""
        self.slowdowns = Slowdowns.healthy(len(fleet.jobs), 0)
        self._cohorts: Cohorts | None = None
        self._queue: list[tuple[float, float, int, Incident | None, Step]] = []
        """What is to come, by its time; at one instant the older incident's step goes first, whenever it was put in."""
        self._tie = itertools.count()
        self._open: list[Incident] = []
        self._out: list[Incident] = []
        """Of the open ones, those whose instances are down."""
        self._counting: list[Incident] = []
        self._replaced: list[int] = []
        self._told: list[SimEvent] = []
        self._links = LinkPatches(layout, ())
        self._marked: NDArray[np.int64] = np.zeros(0, np.int64)
        self._is_marked = True
        self._drawn = itertools.count(1)
        self._loads: list[tuple[int, float, float, float]] = []
        self._repeats: list[_Repeat] = []
        self._now_s = 0.0
        for entry in _from_file(layout, placement, fleet):
            self._schedule(entry)
        if scenario is not None:
            self._take(scenario)
        self._wear = RandomFaults(rng, None if scenario is None else scenario.rates, layout.chips)

    def bind(self, cohorts: Cohorts) -> None:
        """Take note of how instances are grouped, after `apart` has changed."""
        self._cohorts = cohorts
        self._slow_cohorts()

    def boundaries(self, begin_s: float, end_s: float) -> list[float]:
        """Return the instants between `begin_s` and `end_s` at which something changes, in order."""
        self._look_ahead(end_s)
        if not self._queue or self._queue[0][0] >= end_s:
            return []
        times = sorted({time_s for time_s, *_ in self._queue if begin_s < time_s < end_s})
        if len(times) > MOST_BOUNDARIES:
            places = np.arange(1, MOST_BOUNDARIES + 1) * len(times) // MOST_BOUNDARIES - 1
            times = [times[place] for place in places.tolist()]
        return times

    def move_to(self, now_s: float) -> bool:
        """Carry out what is due up to `now_s`, itself included.

        Returns:
            Whether anything has changed.
        """
        self._look_ahead(now_s)
        self._now_s = now_s
        changed = False
        while self._queue and self._queue[0][0] <= now_s:
            time_s, _, _, incident, step = heapq.heappop(self._queue)
            changed = True
            if incident is not None and not incident.is_over:
                self._carry_out(incident, step, time_s)
        if changed:
            self._sum_up()
        return changed

    def drain(self) -> list[SimEvent]:
        """Return the events since the last call, in order of time."""
        told, self._told = self._told, []
        return told

    def inject(
        self,
        fault: str,
        target: str,
        now_s: float,
        *,
        lasts_s: float | None = None,
        magnitude: float | None = None,
        by: str = "",
    ) -> str:
        """Let a fault begin at `now_s`; return what was done, in one line.

        Raises:
            ConfigError: fault or target is unknown, they do not go together, or it is there already; the message names
                the nearest.
        """
        row = find_fault(fault)
        if row.is_transport:
            raise ConfigError(
                f"{fault} is a fault of the publisher's connection, which this simulator cannot reach"
            )
        check_use(row, lasts_s, magnitude)
        targets = resolve(self._layout, row, target, self._draw(2**32 + next(self._drawn)))
        there = {each.target: each for each in (*self._open, *self._beginning(now_s)) if each.fault is row}
        for each in targets:
            if each in there:
                raise ConfigError(f"{fault} is already there on {there[each].address}")
        made = [
            make(self._layout, self._placement, row, each, now_s, lasts_s=lasts_s, magnitude=magnitude)
            for each in targets
        ]
        able = [incident for incident in made if not self._is_pointless(incident)]
        if not able:
            raise ConfigError(f"{fault} on {made[0].address}: {self._is_pointless(made[0])}")
        for incident in able:
            self._schedule(incident)
        made = able
        places = ", ".join(incident.address for incident in made[:4])
        more = f" and {len(made) - 4} more" if len(made) > 4 else ""
        length_s = made[0].ends_s - now_s if row.ends_by_itself else made[0].stages.total_s
        until = f"for {length_s:g} s" + ("" if row.ends_by_itself else f": {row.recovery.value}")
        return f"{fault} on {places}{more}, {until}" + (f" (asked by {by})" if by else "")

    def active(self) -> list[Incident]:
        """Return the incidents whose effects or recovery are under way, oldest first."""
        return list(self._open)

    def mark(self, columns: dict[str, NDArray[Any]]) -> None:
        """Write `health`, `links_up` and `throttle_pct` of the chips that are concerned, over what is there.

        Throttling is the larger of what is there and what an incident withholds.
        """
        if not self._is_marked:
            self._is_marked = True
            links_up, health = columns["links_up"], columns["health"]
            rows = self._marked
            links_up[rows] = self._layout.links_mask[self._layout.instance_of_chip[rows]]
            health[rows] = 0
            touched: set[int] = set()
            for incident in self._open:
                touched.update(self._mark(incident, links_up, health))
            self._marked = np.array(sorted(touched), np.int64)
        throttle, metric = columns["throttle_pct"], BY_NAME["throttle_pct"]
        for incident in self._open:
            if incident.fault.effect is Effect.CHIP_PACE and incident.is_open:
                row = incident.rows[0]
                throttle[row] = max(int(throttle[row]), metric.code_of(incident.magnitude))

    def count(self, columns: dict[str, NDArray[Any]], begin_s: float, end_s: float, tick: int) -> None:  # noqa: ARG002  a window and its number, as the other counters have
        """Add a window's events to the counters; those of replaced instances begin at 0."""
        if self._replaced:
            rows = self._layout.chip_rows(np.array(self._replaced, np.int64))
            for name in RESTARTED_COUNTERS:
                columns[name][rows] = 0
            self._replaced = []
        for incident in self._counting:
            until_s = min(end_s, incident.ends_s)
            for count in incident.counts:
                at_once = count.at_once if incident.has_failed else 0
                events = at_once + math.floor(count.per_s * max(until_s - incident.begins_s, 0.0))
                new = events - incident.counted.get(count.metric, 0)
                incident.counted[count.metric] = events
                for row in incident.rows if new > 0 else ():
                    columns[count.metric][row] += new
        self._counting = [each for each in self._counting if not each.is_over and each.ends_s > end_s]

    def patches(self, jobs: JobTick) -> Patches:
        """Return the lanes of NeuronLinks whose traffic differs from their cohort's in a tick."""
        return self._links.of(jobs)

    def _take(self, scenario: Scenario) -> None:
        for number, (entry, begin_s) in enumerate(zip(scenario.faults, scenario.begins(), strict=True)):
            fault = find_fault(entry.fault)
            if fault.is_transport:
                continue
            try:
                targets = resolve(self._layout, fault, entry.target, self._draw(number))
            except ConfigError as error:
                raise ConfigError(f"faults[{number}].target: {error}") from error
            if fault.recovery is Recovery.RESTART_JOB and not any(
                make(self._layout, self._placement, fault, each, begin_s).jobs for each in targets
            ):
                raise ConfigError(
                    f"faults[{number}].target = {entry.target!r}: {fault.name} needs a job, and none runs there"
                )
            self._repeats.append(_Repeat(entry, fault, targets, begin_s))
        for number, load in enumerate(scenario.loads):
            if load.job not in self._jobs:
                raise ConfigError(f"loads[{number}].job = {load.job!r}: {nearest(load.job, self._jobs)}")
            job = self._jobs.index(load.job)
            if not self._replicas.serves(job):
                raise ConfigError(
                    f"loads[{number}].job = {load.job!r}: it is no inference job, whose load can change"
                )
            self._loads.append((job, load.at, load.at + load.lasts_s, load.factor))
            for time_s in (load.at, load.at + load.lasts_s):
                self._push(time_s, None, Step.BEGIN)

    def _look_ahead(self, end_s: float) -> None:
        """Put what begins up to `end_s` into the timetable: repeated entries, and what comes by chance."""
        for repeat in self._repeats:
            while repeat.left and repeat.next_s <= end_s:
                entry = repeat.entry
                for target in repeat.targets:
                    self._schedule(
                        make(
                            self._layout, self._placement, repeat.fault, target, repeat.next_s,
                            lasts_s=entry.lasts_s, magnitude=entry.magnitude,
                        )
                    )  # fmt: skip  # one line an idea
                repeat.left -= 1
                repeat.next_s += entry.every or 0.0
        for wear in self._wear.until(end_s):
            place = self._place(wear)
            if place is not None:
                self._schedule(make(self._layout, self._placement, wear.fault, place, wear.time_s))

    def _place(self, wear: RandomFault) -> Target | None:
        """Return what a fault of chance hits, None if it would be something that the fleet does not have there."""
        layout, fault = self._layout, wear.fault
        chip = Node(Level.CHIP, wear.place % layout.chips)
        instance = layout.parent(chip)
        if fault.scope is FaultScope.CHIP:
            return Target(chip)
        if fault.scope is FaultScope.LINK:
            mask = int(layout.links_mask[instance.number])
            ways = [way for way in map(topology.DIRECTIONS.index, fault.directions) if mask >> way & 1]
            return Target(chip, ways[wear.place // layout.chips % len(ways)]) if ways else None
        if fault.scope is FaultScope.ULTRASERVER:
            group = layout.parent(instance)
            return None if layout.is_standalone[group.number] else Target(group)
        return Target(instance)

    def _draw(self, index: int) -> Callable[[int, int], list[int]]:
        """Return a function that draws different numbers below a limit, from the seed and `index`."""
        parts = itertools.count()

        def draw(count: int, limit: int) -> list[int]:
            chosen: dict[int, None] = {}
            for part in parts:
                words = self._rng.words(Stream.FAULT_TARGET, index, 4 * count + 16, part)
                for word in words.tolist():
                    chosen[word % limit] = None
                    if len(chosen) == count:
                        return sorted(chosen)
            raise AssertionError("there is always another part")

        return draw

    def _beginning(self, now_s: float) -> list[Incident]:
        """Return the incidents that are due to begin and have not been carried out."""
        return [
            incident
            for time_s, _, _, incident, step in self._queue
            if step is Step.BEGIN and incident is not None and time_s <= now_s
        ]

    def _push(self, time_s: float, incident: Incident | None, step: Step) -> None:
        begins_s = time_s if incident is None else incident.begins_s
        heapq.heappush(self._queue, (time_s, begins_s, next(self._tie), incident, step))

    def _schedule(self, incident: Incident) -> None:
        for time_s, step in incident.steps():
            self._push(time_s, incident, step)

    def _carry_out(self, incident: Incident, step: Step, at_s: float) -> None:
        if step is Step.BEGIN:
            self._begin(incident)
            return
        if step is Step.END:
            if incident.is_logged:
                self._told += self._log_writer.end(incident, at_s)
            self._close(incident)
            return
        recovery = incident.fault.recovery
        if step is Step.DETECT and incident.fault.reaction is Reaction.HANG:
            incident.halt = Halt.DOWN
            self._fail(incident, at_s)
        if step is Step.DRAIN and incident.drains:
            incident.halt = Halt.WAITING
            if incident.takes_down:
                incident.is_out = True
                self._out.append(incident)
        if step is Step.MEND:
            incident.is_open = False
            if incident.is_out:
                self._bring_back(incident)
                self._boot(incident, is_new=recovery is Recovery.REPLACE)
            self._cure(incident, at_s)
        if incident.is_logged:
            generation = int(self.generation[incident.instances[0]])
            self._told += self._log_writer.step(incident, step, at_s, generation)
        if step is Step.RETURN:
            self._close(incident)

    def _begin(self, incident: Incident) -> None:
        if self._is_pointless(incident):
            incident.is_over = True
            return
        incident.is_open = True
        incident.halt = reacts(incident)
        self._open.append(incident)
        if incident.fault.counts:
            self._counting.append(incident)
        if incident.is_logged:
            self._told += self._log_writer.begin(incident, int(self.generation[incident.instances[0]]))
        if incident.fault.reaction is not Reaction.HANG:
            self._fail(incident, incident.begins_s)

    def _fail(self, incident: Incident, at_s: float) -> None:
        """Let executions fail: at once, or when those that hang time out."""
        incident.has_failed = True
        if incident.is_logged:
            self._told += self._log_writer.failure(incident, at_s)

    def _boot(self, incident: Incident, *, is_new: bool) -> None:
        for instance in incident.instances:
            self.boots[instance] += 1
            if not is_new:
                continue
            self.generation[instance] += 1
            self._replaced.append(instance)
            # What the old chips counted is gone with them.
            self._counting = [each for each in self._counting if not concerns(each, instance)]

    def _cure(self, incident: Incident, at_s: float) -> None:
        """End what else was wrong with the instances that are new, have rebooted, or have their driver loaded again."""
        recovery = incident.fault.recovery
        if not incident.drains:
            return
        for other in list(self._open):
            if other is not incident and any(
                cures(recovery, other, instance) for instance in incident.instances
            ):
                if other.is_logged:
                    self._told += self._log_writer.end(other, at_s)
                self._close(other)

    def _close(self, incident: Incident) -> None:
        if incident.is_out:
            self._bring_back(incident)
        incident.is_open = False
        incident.is_over = True
        incident.halt = Halt.NONE
        self._open.remove(incident)

    def _bring_back(self, incident: Incident) -> None:
        incident.is_out = False
        self._out.remove(incident)

    def _is_pointless(self, incident: Incident) -> str:
        """Say why an incident cannot happen at present; nothing if it can."""
        if incident.fault.recovery is Recovery.RESTART_JOB and not incident.jobs:
            return "no job runs there that it could hit"
        for other in self._out:
            # What many instances share can fail while one of them is away.
            if any(concerns(incident, instance) for instance in other.instances):
                return f"{self._layout.instances[other.instances[0]]} is down: {other.fault.name}"
        return ""

    def _sum_up(self) -> None:
        """Find what all open incidents together do."""
        slowdowns = self.slowdowns = Slowdowns.healthy(len(self._jobs), 0)
        self.silent[:] = False
        self.inlet_delta_c[:] = 0.0
        self.cap_share[:] = 1.0
        self._replicas.clear()
        links: list[SlowLink] = []
        for incident in self._open:
            where = list(incident.instances)
            effect = incident.fault.effect if incident.is_open else Effect.NONE
            if incident.is_out or effect is Effect.SILENT:
                self.silent[where] = True
            if effect is Effect.INLET:
                self.inlet_delta_c[where] = np.maximum(self.inlet_delta_c[where], incident.magnitude)
            elif effect is Effect.POWER_CAP:
                self.cap_share[where] = np.minimum(self.cap_share[where], incident.magnitude)
            elif effect in {Effect.LINK_CAPACITY, Effect.SPLIT}:
                links += incident.links
            for job in incident.jobs:
                self._slow(slowdowns, incident, job, effect)
        for job, from_s, until_s, factor in self._loads:
            if from_s <= self._now_s < until_s:
                slowdowns.load[job] *= factor
        slowdowns.capacity[:] = self._replicas.capacity()
        self.apart = self._replicas.instances()
        self._links = LinkPatches(self._layout, links)
        self._is_marked = False
        self._slow_cohorts()

    def _slow(self, slowdowns: Slowdowns, incident: Incident, job: int, effect: Effect) -> None:
        """Let an incident slow or halt one of its jobs."""
        compute = link = 1.0
        if effect is Effect.CHIP_PACE:
            compute = 1.0 - incident.magnitude / 100.0
        elif effect is Effect.LINK_CAPACITY:
            link = incident.magnitude or DETOUR_PACE
        elif effect is Effect.EFA_PACE:
            slowdowns.efa[job] = min(slowdowns.efa[job], incident.magnitude)
        elif effect is Effect.STORAGE_PACE:
            slowdowns.storage[job] = min(slowdowns.storage[job], incident.magnitude)
        if not self._replicas.serves(job):
            slowdowns.compute[job] = min(slowdowns.compute[job], compute)
            slowdowns.link[job] = min(slowdowns.link[job], link)
            slowdowns.halt[job] = max(slowdowns.halt[job], incident.halt)
            return
        pace = min(compute, 1.0 / (1.0 - DECODE_COLLECTIVES + DECODE_COLLECTIVES / link))
        if incident.halt is not Halt.NONE:
            pace = OUT_PACE
        if incident.fault.effect is Effect.SPLIT:
            if incident.halt is not Halt.NONE:
                self._replicas.slow_across(job, (incident.instances[:2], incident.instances[2:]), OUT_PACE)
            return
        if pace < 1.0 and incident.fault.scope is FaultScope.LINK:
            self._replicas.slow_between(job, incident.rows, pace)
        elif pace < 1.0:
            # One chip stops its own replica; an instance that is drained, all that run on it.
            is_one_chips = incident.fault.scope is FaultScope.CHIP and incident.halt is not Halt.WAITING
            chips = incident.rows if is_one_chips else ()
            self._replicas.slow(job, incident.instances, chips, pace)

    def _slow_cohorts(self) -> None:
        if self._cohorts is not None:
            self.slowdowns.cohort = self._replicas.of_cohorts(self._cohorts)

    def _mark(self, incident: Incident, links_up: NDArray[Any], health: NDArray[Any]) -> tuple[int, ...]:
        """Mark the chips of an open incident; return their rows."""
        if not incident.is_open:
            return ()
        lost = [link for link in incident.links if link.capacity == 0]
        for link in lost:
            bit = _HEALTH["link_intraserver" if link.direction < topology.Z_PREV else "link_interserver"]
            for lane in link.lanes:
                row, direction = divmod(lane, LANES)
                links_up[row] &= 0xFF ^ (1 << direction)
                health[row] |= bit
        if not incident.links:
            bits = sum(_HEALTH[name] for name in incident.fault.health)
            health[list(incident.rows)] |= bits
        return incident.rows


class _Repeat:
    """An entry of a scenario with the times that are left."""

    def __init__(self, entry: FaultEntry, fault: Fault, targets: list[Target], begin_s: float) -> None:
        self.entry = entry
        self.fault = fault
        self.targets = targets
        self.next_s = begin_s
        self.left: float = 1 if entry.every is None else entry.times or math.inf


def _from_file(layout: Layout, placement: Placement, fleet: FleetFile) -> list[Incident]:
    """Return the stragglers and links of a fleet file, of which no event tells.

    Raises:
        ConfigError: an address or a link does not exist, or two entries are active on the same thing at a time.
    """
    stragglers = []
    for number, each in enumerate(fleet.stragglers):
        key = f"stragglers[{number}]"
        chip = _chip(layout, f"{key}.chip", each.chip)
        stragglers.append(
            make(
                layout, placement, FAULTS["straggler"], Target(Node(Level.CHIP, chip)), each.from_s,
                lasts_s=_until(key, each) - each.from_s, magnitude=each.throttle_pct, is_logged=False,
            )
        )  # fmt: skip  # one line an idea
    links = []
    for number, link in enumerate(fleet.links):
        key = f"links[{number}]"
        chip = _chip(layout, f"{key}.chip", link.chip)
        direction = topology.DIRECTIONS.index(link.direction)
        try:
            link_ends(layout, chip, direction)
        except ValueError as error:
            raise ConfigError(f"{key}.direction = {link.direction!r}: {error}") from error
        links.append(
            make(
                layout, placement, FAULTS["link_degraded"], Target(Node(Level.CHIP, chip), direction), link.from_s,
                lasts_s=_until(key, link) - link.from_s, magnitude=link.capacity, is_logged=False,
            )
        )  # fmt: skip  # one line an idea
    _refuse_overlaps(layout, stragglers, "stragglers")
    _refuse_overlaps(layout, links, "links")
    return stragglers + links


def _chip(layout: Layout, key: str, path: str) -> int:
    try:
        return chip_at(layout, path, key)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _until(key: str, given: Straggler | Link) -> float:
    if given.until_s is None:
        return math.inf
    if given.until_s <= given.from_s:
        raise ConfigError(f"{key}.until_s = {given.until_s:g}: must be after from_s, {given.from_s:g}")
    return given.until_s


def _refuse_overlaps(layout: Layout, incidents: list[Incident], key: str) -> None:
    """Refuse two entries for the same chip, or the same link from either end, at the same time."""
    last: dict[tuple[int, ...], tuple[int, float]] = {}
    for number, each in sorted(enumerate(incidents), key=lambda pair: pair[1].begins_s):
        place = each.rows if not each.links else tuple(sorted(each.links[0].lanes))
        other, until_s = last.get(place, (-1, 0.0))
        if other >= 0 and each.begins_s < until_s:
            path = layout.path(each.target.node)
            raise ConfigError(
                f"{key}[{number}].from_s = {each.begins_s:g}: {key}[{other}] is active on {path} at that time"
            )
        last[place] = (number, each.ends_s)
