"""The event queue of incidents, and each one's life from begin to end of recovery.

The engine calls this in a fixed order within a tick:

1. `boundaries` cuts the tick's window where something begins or ends. It fetches from the schedule
    everything due by then.
2. At the begin of each part, `move_to` carries out what is due, that instant included, and sums up
    the open incidents in `effects`. Jobs, heat and power limits then advance through a part without
    changes.
3. At the window's end, `effects.patches` lists the links that differ, for the chips' columns.
4. `effects.mark` writes health, links and throttling over these columns. It comes after the chips,
    because they write throttling, and shows the state of the last part.
5. `effects.count` adds the window's events to the counters. It comes after `mark` and before the
    corrected errors: first the counters of an instance replaced within the window restart at 0.
6. `move_to` the window's end: an incident that begins at that very instant is logged with this tick
    and shows in the next.

Time is only the seconds passed in: no clock is read here.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import parse_chip
from trnfleet.domain.faults.fault import Fault, FaultScope, Reaction, Recovery
from trnfleet.domain.layout import whole_spans_of
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.sim.events import EventSource, SimEvent
from trnfleet.sim.faults.effects import FaultEffects
from trnfleet.sim.faults.incident import (
    Incident,
    Step,
    cures,
    initial_halt,
    is_on_hardware,
    place_again,
)
from trnfleet.sim.faults.schedule import FaultSchedule
from trnfleet.sim.faults.spares import Move, Spares
from trnfleet.sim.ids import ec2_id, serial_number
from trnfleet.sim.jobs.slowdown import Halt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout
    from trnfleet.domain.scenario import Scenario
    from trnfleet.sim.placement import Placement
    from trnfleet.sim.rng import Rng


_SOURCES: dict[str, EventSource] = {
    "instance_reboot": "ec2",
    "instance_retirement": "ec2",
    "instance_failure": "ec2",
    "nic_down": "network",
    "nic_failed": "network",
    "storage_slow": "operator",
    "power_cap": "operator",
}
_MENDED: dict[Recovery, tuple[str, EventSource, str]] = {
    Recovery.REPAIR: ("fault_repaired", "operator", "{what} on {address} is repaired"),
    Recovery.RELOAD: ("driver_reloaded", "operator", "the Neuron driver of {where} is reloaded"),
    Recovery.REBOOT: ("instance_rebooted", "ec2", "{where} has rebooted"),
    Recovery.REPLACE: ("instance_replaced", "ec2", "{where} is replaced by {new}"),
}


class LogWriter:
    """Writes the events of incidents."""

    def __init__(self, layout: Layout, job_names: tuple[str, ...], rng: Rng) -> None:
        self._layout = layout
        self._jobs = job_names
        self._rng = rng

    def begin(self, incident: Incident, generation: int) -> Iterator[SimEvent]:
        """Yield the events of an incident's begin."""
        fault = incident.fault
        at_s = incident.begins_s
        text = self._kernel_log(incident, generation)
        if text:
            source = _SOURCES.get(fault.name, "hardware")
            yield SimEvent(
                at_s, incident.path, source, fault.name, fault.severity, text, self._job(incident)
            )

    def failure(self, incident: Incident, at_s: float) -> Iterator[SimEvent]:
        """Yield the runtime's event of failing executions; nothing if none run."""
        fault = incident.fault
        job = self._job(incident)
        if fault.runtime_log and job is not None:
            name = "execution_failed" if fault.hw_error or fault.log else fault.name
            words = fault.runtime_log.format(nd=self._device(incident))
            if fault.nrt is None:
                yield SimEvent(at_s, incident.path, "job", name, fault.severity, words, job)
                return
            text = f"{words} (NRT_{fault.nrt_name}, {fault.nrt})"
            yield SimEvent(
                at_s, incident.path, "runtime", name, fault.severity, text, job, fault.nrt
            )

    def end(self, incident: Incident, at_s: float) -> Iterator[SimEvent]:
        """Yield the event of an incident's end, by itself or with its hardware."""
        source = _SOURCES.get(incident.fault.name, "hardware")
        text = f"{_plain(incident.fault)} on {incident.address} is over"
        yield SimEvent(at_s, incident.path, source, "fault_over", Severity.INFO, text)

    def step(
        self, incident: Incident, step: Step, at_s: float, generation: int
    ) -> Iterator[SimEvent]:
        """Yield the event of a step of an incident's recovery."""
        fault = incident.fault
        what = _plain(fault)
        address = incident.address
        where = (
            incident.path
            if len(incident.instances) > 1
            else self._layout.instances[incident.instances[0]]
        )

        def event(name: str, source: EventSource, text: str) -> SimEvent:
            return SimEvent(at_s, where, source, name, Severity.INFO, text)

        if step is Step.DETECT and incident.stages.detect_s:
            yield event("fault_detected", "operator", f"{what} on {address} is noticed")
        elif step is Step.QUARANTINE and incident.stages.quarantine_s:
            if fault.has_detour:
                group = self._layout.instances[incident.instances[0]].rpartition("/")[0]
                is_paired = any(link.is_unused for link in incident.links)
                how = "between two pairs, as its drivers elect" if is_paired else "beside it"
                yield event(
                    "detour_begun", "operator", f"jobs that start on {group} now use EFA {how}"
                )
            if incident.drains:
                yield event("instance_quarantined", "operator", f"nothing new is placed on {where}")
            elif fault.recovery is Recovery.REPAIR:
                yield event("repair_begun", "operator", f"the repair of {address} has begun")
        elif step is Step.DRAIN and incident.drains and incident.stages.drain_s:
            yield event("instance_drained", "operator", f"no job runs on {where} any more")
        elif step is Step.MEND and fault.recovery in _MENDED:
            name, source, text = _MENDED[fault.recovery]
            new = ec2_id(self._rng.token, where, generation)
            yield event(name, source, text.format(what=what, address=address, where=where, new=new))
        elif step is Step.RETURN and incident.stages.return_s:
            yield event(
                "instance_returned", "operator", f"{where} has passed its checks and is used again"
            )

    def move(self, move: Move, at_s: float) -> SimEvent:
        """Return the event of a job's move to a spare."""
        failed, spare = (
            next(whole_spans_of(self._layout, np.array(place)))
            for place in (move.failed, move.spare)
        )
        name = self._jobs[move.job]
        text = f"{name} starts on {spare} instead of {failed}"
        return SimEvent(at_s, spare, "operator", "spare_taken", Severity.INFO, text, name)

    def _kernel_log(self, incident: Incident, generation: int) -> str:
        fault = incident.fault
        if fault.hw_error:
            instance = self._layout.instances[incident.instances[0]]
            return (
                f"NEURON_HW_ERR={fault.hw_error}"
                f" instance-id={ec2_id(self._rng.token, instance, generation)}"
                f" hostname={instance.rpartition('/')[2]} nd-id={self._device(incident)} nc-id=0"
                f" serial-num={serial_number(self._rng.token, incident.path, generation)}"
                f" action={fault.action}"
            )
        lane = incident.target.direction
        first = incident.instances[0]
        sides = [len(rack) for rack in incident.racks]
        return fault.log.format(
            nd=self._device(incident),
            direction=self._layout.lane_names_of(first)[lane] if lane >= 0 else "",
            nodes=sum(sides),
            split="+".join(map(str, sides)),
        )

    def _job(self, incident: Incident) -> str | None:
        return self._jobs[incident.jobs[0]] if incident.jobs else None

    def _device(self, incident: Incident) -> int:
        """Return the number of the chip within its instance."""
        if incident.fault.scope not in {FaultScope.CHIP, FaultScope.LINK}:
            return 0
        return parse_chip(incident.path.rpartition("/")[2]) or 0


def _plain(fault: Fault) -> str:
    """Return a fault's name as words of a sentence."""
    return fault.name.replace("_", " ")


MOST_BOUNDARIES = 64
"""Most cuts of one window. Changes beyond it apply at the next cut."""
_MOST_NAMED = 4
"""Targets that the answer to a request names."""


class IncidentTimeline:
    """Open and future incidents of a fleet."""

    def __init__(
        self,
        layout: Layout,
        fleet: FleetFile,
        placement: Placement,
        rng: Rng,
        scenario: Scenario | None = None,
        link_need: NDArray[np.float64] | None = None,
    ) -> None:
        """Resolve the entries of both files; `link_need` as for `find_patches`.

        Raises:
            ConfigError: an address, link or job does not exist, a fault cannot hit it, or two
                entries of the fleet file are active on the same thing at a time; the message names
                the nearest.
        """
        self._layout = layout
        self._schedule = FaultSchedule(layout, fleet, placement, rng, scenario)
        self._log_writer = LogWriter(layout, tuple(job.name for job in fleet.jobs), rng)
        self.effects = FaultEffects(layout, fleet, placement, rng, link_need)
        """The sum of all effects since the last `move_to`."""
        count = len(layout.instances)
        self.generation = np.zeros(count, np.int32)
        """Number of times that each instance was replaced."""
        self.boots = np.zeros(count, np.int32)
        """Number of boots of each instance since the start."""
        self._placement = placement
        self.spares = Spares(layout, fleet, placement)
        self.moves: list[Move] = []
        """Jobs that took a spare, in order. The engine carries them out and clears the list."""
        self._queue: list[tuple[float, float, int, Incident | None, Step]] = []
        """Future steps by time. At one instant the older incident's step goes first, in any order
        of insertion. A load change has no incident."""
        self._tie = itertools.count()
        self._open: list[Incident] = []
        self._down: list[Incident] = []
        """Open incidents with instances down."""
        self._events: list[SimEvent] = []
        self._now_s = 0.0
        for incident in self._schedule.of_fleet_file:
            self._enqueue(incident)
        for load in self._schedule.loads:
            for time_s in (load.begins_s, load.ends_s):
                self._push(time_s, None, Step.BEGIN)

    def boundaries(self, begin_s: float, end_s: float) -> list[float]:
        """Return the instants of change between `begin_s` and `end_s`, in order."""
        self._look_ahead(end_s)
        if not self._queue or self._queue[0][0] >= end_s:
            return []
        times = sorted({time_s for time_s, *_ in self._queue if begin_s < time_s < end_s})
        if len(times) > MOST_BOUNDARIES:
            chosen = np.arange(1, MOST_BOUNDARIES + 1) * len(times) // MOST_BOUNDARIES - 1
            times = [times[number] for number in chosen.tolist()]
        return times

    def move_to(self, now_s: float) -> bool:
        """Carry out the steps that are due up to `now_s`, itself included.

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
            loads = self._schedule.loads
            present = (
                (load.job, load.factor) for load in loads if load.begins_s <= now_s < load.ends_s
            )
            self.effects.update(self._open, present)
        return changed

    def drain(self) -> list[SimEvent]:
        """Return the events since the last call, in order of time."""
        events = self._events
        self._events = []
        return events

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
        """Begin a fault at `now_s`; return an answer of one line.

        Raises:
            ConfigError: fault or target is unknown, they do not go together, or it is there
                already; the message names the nearest.
        """
        made = self._schedule.request(fault, target, now_s, lasts_s=lasts_s, magnitude=magnitude)
        row = made[0].fault
        there = {
            incident.target: incident
            for incident in (*self._open, *self._beginning(now_s))
            if incident.fault is row
        }
        for begun in made:
            if begun.target in there:
                raise ConfigError(f"{fault} is already there on {there[begun.target].address}")
        able = [incident for incident in made if not self._obstacle(incident)]
        if not able:
            raise ConfigError(f"{fault} on {made[0].address}: {self._obstacle(made[0])}")
        for incident in able:
            self._enqueue(incident)
        where = ", ".join(incident.address for incident in able[:_MOST_NAMED])
        more = f" and {len(able) - _MOST_NAMED} more" if len(able) > _MOST_NAMED else ""
        length_s = able[0].ends_s - now_s if row.ends_by_itself else able[0].stages.total_s
        until = f"for {length_s:g} s" + ("" if row.ends_by_itself else f": {row.recovery.value}")
        return f"{fault} on {where}{more}, {until}" + (f" (asked by {by})" if by else "")

    def active(self) -> list[Incident]:
        """Return the incidents in effect or in recovery, oldest first."""
        return list(self._open)

    def _look_ahead(self, end_s: float) -> None:
        for incident in self._schedule.until(end_s):
            self._enqueue(incident)

    def _beginning(self, now_s: float) -> list[Incident]:
        """Return the incidents due to begin and not yet carried out."""
        return [
            incident
            for time_s, _, _, incident, step in self._queue
            if step is Step.BEGIN and incident is not None and time_s <= now_s
        ]

    def _push(self, time_s: float, incident: Incident | None, step: Step) -> None:
        begins_s = time_s if incident is None else incident.begins_s
        heapq.heappush(self._queue, (time_s, begins_s, next(self._tie), incident, step))

    def _enqueue(self, incident: Incident) -> None:
        for time_s, step in incident.steps():
            self._push(time_s, incident, step)

    def _carry_out(self, incident: Incident, step: Step, at_s: float) -> None:
        if step is Step.BEGIN:
            self._begin(incident)
            return
        if step is Step.END:
            if incident.is_logged:
                self._events += self._log_writer.end(incident, at_s)
            self._close(incident)
            return
        recovery = incident.fault.recovery
        hangs = incident.fault.reaction is Reaction.HANG
        if hangs and step is Step.DETECT:
            self._fail(incident, at_s)
        if step is Step.QUARANTINE and (hangs or incident.fault.has_detour):
            incident.halt = Halt.DOWN if hangs else Halt.NONE
        if step is Step.DRAIN and incident.drains:
            incident.halt = Halt.WAITING
            if incident.takes_down:
                incident.is_down = True
                self._down.append(incident)
        if step is Step.MOVE:
            self._move(incident, at_s)
            return
        if step is Step.MEND:
            incident.is_open = False
            if incident.is_down:
                self._bring_back(incident)
                self._boot(incident, is_new=recovery is Recovery.REPLACE)
            self._cure(incident, at_s)
        if incident.is_logged:
            generation = int(self.generation[incident.instances[0]])
            self._events += self._log_writer.step(incident, step, at_s, generation)
        if step is Step.RETURN:
            self._close(incident)

    def _move(self, incident: Incident, at_s: float) -> None:
        """Let the incident's job start on a spare, if it has one."""
        if not incident.is_open:
            return
        broken = np.zeros(len(self.generation), np.bool_)
        for other in self._open:
            broken[list(other.instances)] = True
        for job, instance in itertools.product(incident.jobs, incident.instances):
            move = self.spares.move(job, instance, broken)
            if move is None:
                continue
            self.moves.append(move)
            for other in self._open:
                place_again(other, self._layout, self._placement)
            self._events.append(self._log_writer.move(move, at_s))

    def _begin(self, incident: Incident) -> None:
        if self._obstacle(incident):
            incident.is_over = True
            return
        incident.is_open = True
        if self.spares.have_moved:
            place_again(incident, self._layout, self._placement)
        incident.halt = initial_halt(incident)
        incident.finds_jobs_down = self.effects.are_down(incident.jobs, self._open)
        self._open.append(incident)
        self.effects.start_counting(incident)
        if incident.is_logged:
            self._events += self._log_writer.begin(
                incident, int(self.generation[incident.instances[0]])
            )
        if incident.fault.reaction is not Reaction.HANG:
            self._fail(incident, incident.begins_s)

    def _fail(self, incident: Incident, at_s: float) -> None:
        """Fail the executions concerned: at once, or at the timeout if they hang."""
        incident.has_failed = True
        if incident.is_logged and not incident.finds_jobs_down:
            self._events += self._log_writer.failure(incident, at_s)

    def _boot(self, incident: Incident, *, is_new: bool) -> None:
        for instance in incident.instances:
            self.boots[instance] += 1
            if is_new:
                self.generation[instance] += 1
                self.effects.replace(instance)

    def _cure(self, incident: Incident, at_s: float) -> None:
        """End the other faults of instances that are new, rebooted, or have a reloaded driver."""
        recovery = incident.fault.recovery
        if not incident.drains:
            return
        for other in list(self._open):
            if other is not incident and any(
                cures(recovery, other, instance) for instance in incident.instances
            ):
                if other.is_logged:
                    self._events += self._log_writer.end(other, at_s)
                self._close(other)

    def _close(self, incident: Incident) -> None:
        if incident.is_down:
            self._bring_back(incident)
        incident.is_open = False
        incident.is_over = True
        incident.halt = Halt.NONE
        self._open.remove(incident)

    def _bring_back(self, incident: Incident) -> None:
        incident.is_down = False
        self._down.remove(incident)

    def _obstacle(self, incident: Incident) -> str:
        """Return the reason why an incident cannot happen at present; empty if it can."""
        if incident.fault.needs_job and self.effects.are_down(incident.jobs, self._open):
            return "no job runs there that it could hit"
        for other in self._down:
            # What many instances share can fail while one of them is away.
            if any(is_on_hardware(incident, instance) for instance in other.instances):
                return f"{self._layout.instances[other.instances[0]]} is down: {other.fault.name}"
        return ""
