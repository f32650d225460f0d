"""One fault on one target, and the steps of its life at their times."""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.domain.address import Level
from trnfleet.domain.faults.fault import (
    Count,
    Effect,
    Fault,
    FaultScope,
    Reaction,
    Recovery,
    Stages,
)
from trnfleet.domain.hardware.topology import TopologyKind
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.links import neighbour
from trnfleet.sim.hardware.links import SlowLink
from trnfleet.sim.jobs.slowdown import Halt

if TYPE_CHECKING:
    from trnfleet.domain.targets import Target
    from trnfleet.sim.placement import Placement


MOVE_S = 30.0
"""Least seconds from a fault to its job's start on a spare: assumed, until the loss is noticed."""


class Step(enum.Enum):
    """Steps of an incident's life."""

    BEGIN = "begin"
    END = "end"
    DETECT = "detect"
    QUARANTINE = "quarantine"
    DRAIN = "drain"
    MOVE = "move"
    MEND = "mend"
    RETURN = "return"


@dataclass(slots=True, eq=False)
class Incident:
    """A fault to come, under way, or in recovery."""

    fault: Fault
    target: Target
    address: str
    """Of the target, as a user would write it."""
    begins_s: float
    ends_s: float
    """Infinite where it does not end by itself."""
    magnitude: float
    is_logged: bool
    path: str
    """Address for its events."""
    instances: tuple[int, ...]
    """Instances concerned."""
    rows: tuple[int, ...]
    """Chips showing it in health and counters."""
    jobs: tuple[int, ...]
    """Jobs that it concerns."""
    stages: Stages
    """Length of each step of its recovery."""
    links: tuple[SlowLink, ...] = ()
    racks: tuple[tuple[int, ...], ...] = ()
    """Instances of each rack of an UltraServer; empty for other targets."""
    is_open: bool = False
    """Whether its effects are there."""
    is_over: bool = False
    halt: Halt = Halt.NONE
    """State of its jobs at present."""
    is_down: bool = False
    """Whether its instances are down."""
    finds_jobs_down: bool = False
    """Whether no execution could fail at its begin: other faults had stopped its jobs before."""
    has_failed: bool = False
    """Whether executions have failed; under a hang they fail at their timeout."""
    counting: tuple[int, ...] = ()
    """Chips with this incident in their counters: `rows` without chips replaced since."""
    counted: dict[str, int] = field(default_factory=dict)
    """Events added to each counter so far."""

    @property
    def counts(self) -> tuple[Count, ...]:
        """Events added to counters: executions fail only where a job has some."""
        runs = bool(self.jobs) and not self.finds_jobs_down
        return tuple(count for count in self.fault.counts if runs or count.metric != "exec_errors")

    @property
    def present_effect(self) -> Effect:
        """The fault's effect while open, else no effect."""
        return self.fault.effect if self.is_open else Effect.NONE

    @property
    def cuts_links(self) -> bool:
        """Whether links between or within its instances are down at present."""
        effect = self.present_effect
        return effect is Effect.SPLIT or (effect is Effect.LINK_CAPACITY and self.magnitude <= 0.0)

    def steps(self) -> list[tuple[float, Step]]:
        """Return the steps of its life with their times, seconds after the start."""
        if self.fault.ends_by_itself:
            ends = [] if self.ends_s == float("inf") else [(self.ends_s, Step.END)]
            return [(self.begins_s, Step.BEGIN), *ends]
        at_s = self.begins_s
        steps = [(at_s, Step.BEGIN)]
        for step, length_s in zip(
            (Step.DETECT, Step.QUARANTINE, Step.DRAIN, Step.MEND, Step.RETURN),
            self.stages,
            strict=True,
        ):
            at_s += length_s
            steps.append((at_s, step))
            if step is Step.DRAIN and self.takes_down:
                steps.append((max(at_s, self.begins_s + MOVE_S), Step.MOVE))
        return steps

    @property
    def over_s(self) -> float:
        """End including its recovery; infinite without one."""
        return self.ends_s if self.fault.ends_by_itself else self.begins_s + self.stages.total_s

    @property
    def drains(self) -> bool:
        """Whether its recovery removes the job from the instance."""
        return self.fault.recovery in {Recovery.RELOAD, Recovery.REBOOT, Recovery.REPLACE} or (
            self.fault.effect is Effect.SPLIT
        )

    @property
    def takes_down(self) -> bool:
        """Whether its recovery stops the instance."""
        return self.fault.recovery in {Recovery.REBOOT, Recovery.REPLACE}


def make_incident(
    layout: Layout,
    placement: Placement,
    fault: Fault,
    target: Target,
    begins_s: float,
    *,
    lasts_s: float | None = None,
    magnitude: float | None = None,
    stages: Stages | None = None,
    is_logged: bool | None = None,
) -> Incident:
    """Return an incident on a target.

    Args:
        layout: The fleet.
        placement: Where its jobs run.
        fault: Row of the table.
        target: Where the fault is.
        begins_s: Seconds after the start.
        lasts_s: Its duration, recovery included; the table's if not given.
        magnitude: Its magnitude; the table's if not given.
        stages: Length of each step of its recovery; the table's if not given.
        is_logged: Whether it has events; as in the table if not given.
    """
    instances = _instances(layout, fault, target)
    racks = _racks(layout, target.node) if fault.scope is FaultScope.ULTRASERVER else ()
    amount = fault.magnitude if magnitude is None else magnitude
    links = _links(layout, placement, fault, target, racks, amount)
    rows: tuple[int, ...] = ()
    if fault.scope is FaultScope.LINK:
        rows = tuple(sorted(set(links[0].rows)))
        instances = tuple(sorted({int(layout.instance_of_chip[row]) for row in rows}))
    elif fault.effect is Effect.SPLIT:
        rows = tuple(sorted({row for link in links for row in link.rows}))
    elif fault.scope is FaultScope.CHIP:
        rows = (target.node.number,)
    elif fault.scope is FaultScope.INSTANCE:
        rows = (int(layout.chip_start[target.node.number]),)
    ends_s = float("inf")
    stages = fault.stages if stages is None else stages
    if fault.ends_by_itself:
        ends_s = begins_s + (fault.lasts_s if lasts_s is None else lasts_s)
    elif lasts_s is not None:
        stages = Stages(*(stage_s * lasts_s / stages.total_s for stage_s in stages))
    return Incident(
        fault=fault,
        target=target,
        address=target.address(layout),
        begins_s=begins_s,
        ends_s=ends_s,
        magnitude=amount,
        is_logged=fault.is_logged if is_logged is None else is_logged,
        path=layout.path(target.node),
        instances=instances,
        rows=rows,
        counting=rows,
        jobs=_jobs(placement, fault, instances, links, racks),
        stages=stages,
        links=links,
        racks=racks,
    )


def place_again(incident: Incident, layout: Layout, placement: Placement) -> None:
    """Let an incident concern the jobs that run on its target by now."""
    incident.links = _links(
        layout, placement, incident.fault, incident.target, incident.racks, incident.magnitude
    )
    incident.jobs = _jobs(
        placement, incident.fault, incident.instances, incident.links, incident.racks
    )


def _links(
    layout: Layout,
    placement: Placement,
    fault: Fault,
    target: Target,
    racks: tuple[tuple[int, ...], ...],
    capacity: float,
) -> tuple[SlowLink, ...]:
    """Return the links of a fault: its own one first, then others that are out of use."""
    if fault.effect is Effect.SPLIT:
        return _between_racks(layout, placement, racks, capacity)
    if fault.scope is not FaultScope.LINK:
        return ()
    own = SlowLink.at(layout, placement, target.node.number, target.direction, capacity)
    return (own, *(_unused_beside(layout, placement, own) if fault.has_detour else ()))


def _instances(layout: Layout, fault: Fault, target: Target) -> tuple[int, ...]:
    covered = layout.instance_range(target.node)
    if fault.scope is FaultScope.RACK:
        group = layout.parent(target.node)
        return next(
            (rack for rack in _racks(layout, group) if covered.start in rack), tuple(covered)
        )
    return tuple(covered)


def _racks(layout: Layout, ultraserver: Node) -> tuple[tuple[int, ...], ...]:
    """Return the instances of each rack of an UltraServer.

    Empty for a standalone segment.
    """
    kind = layout.ultraserver_type(ultraserver.number)
    if kind is None:
        return ()
    members = layout.instance_range(ultraserver)
    return tuple(
        tuple(instance for instance in members if kind.rack_of(instance - members.start) == rack)
        for rack in range(len(kind.racks))
    )


def _jobs(
    placement: Placement,
    fault: Fault,
    instances: tuple[int, ...],
    links: tuple[SlowLink, ...],
    racks: tuple[tuple[int, ...], ...],
) -> tuple[int, ...]:
    owners = [int(placement.job_of_instance[instance]) for instance in instances]
    if fault.scope is FaultScope.LINK:
        return (links[0].job,) if links[0].job >= 0 else ()
    if fault.effect is Effect.SPLIT:
        # Only a job on both sides needs the lost links.
        sides = [{int(placement.job_of_instance[instance]) for instance in rack} for rack in racks]
        shared = {job for one, other in itertools.combinations(sides, 2) for job in one & other}
        return tuple(sorted(job for job in shared if job >= 0))
    return tuple(sorted({job for job in owners if job >= 0}))


def _between_racks(
    layout: Layout, placement: Placement, racks: tuple[tuple[int, ...], ...], capacity: float
) -> tuple[SlowLink, ...]:
    """Return the links between the racks of an UltraServer.

    Through switches: the links of all racks but the first.
    """
    members = list(itertools.chain.from_iterable(racks))
    rack_of = {instance: number for number, rack in enumerate(racks) for instance in rack}
    kind = layout.type_of(members[0])
    if kind.between is None or len(racks) < 2:
        return ()
    between = kind.between.resized(len(members))
    inside = len(kind.topology.lanes)
    ends: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    for place, instance in enumerate(members):
        for lane, end in enumerate(between.ends[place]):
            if between.kind is TopologyKind.SWITCHED:
                is_across = rack_of[instance] > 0
                other = (place, lane)
            else:
                is_across = end is not None and rack_of[members[end.member]] != rack_of[instance]
                other = (-1, -1) if end is None else (end.member, end.lane)
            if is_across and (place, lane) not in seen:
                seen.add(other)
                ends.append((instance, inside + lane))
    return tuple(
        SlowLink.at(layout, placement, chip, lane, capacity)
        for instance, lane in ends
        for chip in range(int(layout.chip_start[instance]), int(layout.chip_start[instance + 1]))
    )


def _unused_beside(layout: Layout, placement: Placement, lost: SlowLink) -> tuple[SlowLink, ...]:
    """Return the other Z links that are out of use while one is down.

    The drivers of an UltraServer of four instances elect the two pairs that do not need it
    (`neuron_pelect.c`: modes X2H and X2V), so that all links between the pairs have nothing to
    carry.
    """
    ends = [int(layout.instance_of_chip[row]) for row in lost.rows]
    members = layout.instance_range(layout.parent(Node(Level.INSTANCE, ends[0])))
    kind = layout.type_of(members.start)
    if (
        len(ends) < 2
        or len(members) != 4
        or kind.between is None
        or kind.between.kind is TopologyKind.SWITCHED
    ):
        return ()
    cut = {frozenset(ends), frozenset(set(members) - set(ends))}
    links: dict[tuple[int, ...], SlowLink] = {}
    for instance in members:
        for chip in range(int(layout.chip_start[instance]), int(layout.chip_start[instance + 1])):
            for lane in range(len(kind.topology.lanes), len(kind.lanes)):
                far = neighbour(layout, chip, lane)
                if (
                    far is None
                    or frozenset((instance, int(layout.instance_of_chip[far]))) not in cut
                ):
                    continue
                link = SlowLink.at(layout, placement, chip, lane, 1.0, is_unused=True)
                if link.job == lost.job >= 0 and set(link.lanes) != set(lost.lanes):
                    links[tuple(sorted(link.lanes))] = link
    return tuple(links.values())


def is_on_hardware(incident: Incident, instance: int) -> bool:
    """Return whether an incident affects an instance's own hardware.

    If so, new hardware ends it.
    """
    return instance in incident.instances and incident.fault.scope in {
        FaultScope.CHIP,
        FaultScope.LINK,
        FaultScope.INSTANCE,
    }


def cures(recovery: Recovery, other: Incident, instance: int) -> bool:
    """Return whether the recovery of an instance also ends another incident on it.

    New hardware ends every fault of the old; a reboot also loads the driver and starts the agent.
    """
    if not is_on_hardware(other, instance):
        return False
    if recovery is Recovery.REPLACE:
        return True
    if recovery is Recovery.REBOOT:
        return (
            other.fault.recovery in {Recovery.REBOOT, Recovery.RELOAD}
            or other.fault.effect is Effect.SILENT
        )
    return recovery is Recovery.RELOAD and other.fault.recovery is Recovery.RELOAD


def initial_halt(incident: Incident) -> Halt:
    """Return the state of an incident's jobs after its begin."""
    return {Reaction.HANG: Halt.HANG, Reaction.CRASH: Halt.DOWN}.get(
        incident.fault.reaction, Halt.NONE
    )
