"""Placement of jobs: instances, replicas of serving jobs, and cohorts of similar chips.

A tick computes values once per cohort, then distributes them to chips by index. Jobs, replicas and
cohorts do not move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.fleet import FleetFile, Inference, instances_of
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, ChipType
from trnfleet.domain.hardware.topology import Topology, TopologyKind
from trnfleet.domain.layout import Layout, Node
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


IDLE = -1
"""Job number of an idle instance."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Jobs by instance."""

    job_of_instance: NDArray[np.int32]
    """Number of the job in the fleet file's order, or `IDLE`; shape (instances,)."""
    chips: NDArray[np.int64]
    """Chips of each job."""
    spans: NDArray[np.bool_]
    """Whether a job spans more than one NeuronLink domain (UltraServer or standalone instance). For
    a serving job: whether a replica does."""
    instance_chips: NDArray[np.int64]
    """Chips of the first instance of each job."""
    chip_types: tuple[ChipType, ...]
    """Chip type of each job; of several types the one with the least HBM bandwidth."""
    replica_chips: NDArray[np.int64]
    """Chips per replica of each job; 0 for jobs without serving."""
    replica_start: NDArray[np.int64]
    """Number of each job's first replica, then the total; shape (jobs + 1,). Replicas are numbered
    over all jobs. They are consecutive chips of their job, in the order of its instances."""

    @property
    def replicas(self) -> int:
        """Replicas of all jobs that serve."""
        return int(self.replica_start[-1])

    @staticmethod
    def resolve(layout: Layout, fleet: FleetFile) -> Placement:
        """Resolve the jobs' addresses.

        Raises:
            ConfigError: an address is not in the fleet, or an instance has two jobs.
        """
        owner = np.full(len(layout.instances), IDLE, np.int32)
        for number, job in enumerate(fleet.jobs):
            key = f"jobs.{job.name}.on"
            try:
                covered = instances_of(layout, job.on, key)
            except ValueError as error:
                raise ConfigError(str(error)) from error
            for target, instances in zip(job.on, covered, strict=True):
                busy = np.flatnonzero(owner[instances.start : instances.stop] != IDLE)
                if len(busy):
                    first = instances.start + int(busy[0])
                    other = fleet.jobs[int(owner[first])].name
                    raise ConfigError(
                        f"{key} = {target!r}: {layout.instances[first]} already runs {other!r}; an"
                        " instance runs one job"
                    )
                owner[instances.start : instances.stop] = number
        sizes = np.diff(layout.chip_start)
        domain = layout.domain_of_instance
        spans = np.zeros(len(fleet.jobs), np.bool_)
        chips, instance_chips = (
            np.zeros(len(fleet.jobs), np.int64),
            np.ones(len(fleet.jobs), np.int64),
        )
        replica_chips = np.zeros(len(fleet.jobs), np.int64)
        kinds: list[ChipType] = []
        for number in range(len(fleet.jobs)):
            members = np.flatnonzero(owner == number)
            chips[number], instance_chips[number] = sizes[members].sum(), sizes[members[0]]
            job = fleet.jobs[number]
            if isinstance(job, Inference):
                replica_chips[number] = job.replica_chips(int(instance_chips[number]))
            spans[number] = _spans(domain[members], sizes[members], int(replica_chips[number]))
            present = (
                layout.types[index].chip
                for index in np.unique(layout.instance_type[members]).tolist()
            )
            kinds.append(min(present, key=lambda chip: chip.hbm_bytes_per_s.value))
        # What does not fill a whole replica is refused by `inference`.
        replicas = np.where(replica_chips > 0, -(-chips // np.maximum(replica_chips, 1)), 0)
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(replicas)])
        return Placement(owner, chips, spans, instance_chips, tuple(kinds), replica_chips, start)


@dataclass(frozen=True, slots=True)
class Hosts:
    """Sets of instances with chips of the same cohorts."""

    of_instance: NDArray[np.intp]
    """Set of each instance."""
    type_index: NDArray[np.intp]
    """Index into the layout's types; shape (sets,)."""
    cohort: NDArray[np.intp]
    """Cohorts of the first set's chips, of the second's, and so on."""
    share: NDArray[np.float64]
    """Share of each cohort in the chips of its set."""
    begin: NDArray[np.intp]
    """Place in these at which each set begins."""

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of cohort values over the chips of each set."""
        total: NDArray[np.float64] = np.add.reduceat(values[self.cohort] * self.share, self.begin)
        return total


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Sets of chips with the same work row, type, and used links to other instances.

    The chips of an instance are one cohort. They are several if several replicas share the
    instance, or if the chips of a replica lie between different neighbours.
    """

    row: NDArray[np.intp]
    """Row of each cohort in a `JobTick`: its replica's, its job's, or the idle one."""
    job: NDArray[np.intp]
    """Job of each cohort, or `IDLE`."""
    type_index: NDArray[np.intp]
    """Index into the layout's types."""
    used_lanes: NDArray[np.uint8]
    """Bits of the link lanes available to each cohort's job. These lead to chips of the same job,
    or of the same replica if the job serves."""
    of_chip: NDArray[np.int32]
    """Cohort of each chip."""
    hosts: Hosts
    """Instances that are alike."""

    @staticmethod
    def group(layout: Layout, placement: Placement) -> Cohorts:
        """Group chips and instances."""
        owner = placement.job_of_instance
        row = _rows(layout, placement)
        used = np.repeat(
            _used_lanes(layout, _talks_to(layout, placement, row)), np.diff(layout.chip_start)
        )
        _keep_inside_replicas(used, layout, placement)
        is_first = np.append(True, (np.diff(row) != 0) | (np.diff(used) != 0))
        is_first[layout.chip_start[:-1]] = True
        begin = np.flatnonzero(is_first)
        instance = layout.instance_of_chip[begin].astype(np.int64)
        types = max(len(layout.types), 1)
        key = (row[begin].astype(np.int64) * types + layout.instance_type[instance]) * 256 + used[
            begin
        ]
        _, first, cohort = np.unique(key, return_index=True, return_inverse=True)
        lengths = np.diff(np.append(begin, layout.chips))
        of_chip = np.repeat(cohort.astype(np.int32), lengths)
        return Cohorts(
            row[begin[first]].astype(np.intp),
            owner[instance[first]].astype(np.intp),
            layout.instance_type[instance[first]].astype(np.intp),
            used[begin[first]],
            of_chip,
            _hosts(layout, instance, cohort, lengths),
        )

    def replicas_on(
        self, instances: NDArray[np.intp], jobs: int
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the serving replicas on some instances.

        Also return, for each replica, the place of its instance among them.

        Args:
            instances: Some of the layout's.
            jobs: How many jobs there are.
        """
        begin = np.append(self.hosts.begin, len(self.hosts.cohort))
        chosen = self.hosts.of_instance[instances]
        counts = (begin[1:] - begin[:-1])[chosen]
        ends = np.cumsum(counts)
        places = np.repeat(np.arange(len(instances)), counts)
        of_set = np.arange(len(places)) - (ends - counts)[places] + begin[chosen][places]
        return self.row[self.hosts.cohort[of_set]] - (jobs + 1), places


def _rows(layout: Layout, placement: Placement) -> NDArray[np.int32]:
    """Return the row of each chip in a `JobTick`."""
    jobs = len(placement.chips)
    owner = placement.job_of_instance
    row = np.repeat(
        np.where(owner == IDLE, jobs, owner).astype(np.int32), np.diff(layout.chip_start)
    )
    for job in np.flatnonzero(placement.replica_chips).tolist():
        chips = layout.chip_rows(np.flatnonzero(owner == job))
        first = jobs + 1 + placement.replica_start[job]
        row[chips] = first + np.arange(len(chips)) // placement.replica_chips[job]
    return row


def _hosts(
    layout: Layout,
    instance: NDArray[np.int64],
    cohort: NDArray[np.intp],
    lengths: NDArray[np.int64],
) -> Hosts:
    """Group the instances by their pieces: runs of chips of one cohort.

    Each instance has at least one.
    """
    count = len(layout.instances)
    pieces = np.bincount(instance, minlength=count)
    begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(pieces)])
    # Instances with several cohorts are a set each.
    key = np.where(pieces == 1, cohort[begin[:-1]], cohort.max(initial=0) + 1 + np.arange(count))
    _, first, of_instance = np.unique(key, return_index=True, return_inverse=True)
    chosen = np.concatenate([np.arange(begin[row], begin[row + 1]) for row in first])
    sizes = np.diff(layout.chip_start)[instance[chosen]]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(pieces[first])[:-1]])
    return Hosts(
        of_instance.astype(np.intp),
        layout.instance_type[first].astype(np.intp),
        cohort[chosen],
        lengths[chosen] / sizes,
        starts.astype(np.intp),
    )


def _talks_to(layout: Layout, placement: Placement, row: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return a number per instance, equal if their chips communicate; `IDLE` if idle.

    Replicas of a job do not communicate. A shared instance has the number of its first replica.

    Args:
        layout: The fleet.
        placement: Its jobs.
        row: Row of each chip in a `JobTick`.
    """
    first = row[layout.chip_start[:-1]].astype(np.int64)
    return np.where(first > len(placement.chips), first, placement.job_of_instance)


def _keep_inside_replicas(used: NDArray[np.uint8], layout: Layout, placement: Placement) -> None:
    """Restrict each chip's lanes to those inside its replica.

    A lane remains if it stays inside the replica for all chips of the instance. If no lane does,
    the chip's own lanes remain.

    Args:
        used: For each chip the bits of lanes.
        layout: The fleet.
        placement: Its jobs.
    """
    sizes = np.append(placement.replica_chips, 0)[placement.job_of_instance]
    for index, kind in enumerate(layout.types):
        here = layout.instance_type == index
        topology = kind.topology
        for size in np.unique(sizes[here & (sizes > 0) & (sizes < kind.chips)]).tolist():
            if kind.chips % size:
                # Replicas lie differently on each instance: all lanes may be theirs.
                continue
            inside = np.array(
                [_lanes_inside(topology, member, size) for member in range(kind.chips)], np.uint8
            )
            common = np.bitwise_and.reduce(inside)
            rows = layout.chip_rows(np.flatnonzero(here & (sizes == size))).reshape(-1, kind.chips)
            between = 0xFF << len(topology.lanes) & 0xFF
            used[rows] &= (np.full_like(inside, common) if common else inside) | np.uint8(between)


def _lanes_inside(topology: Topology, member: int, size: int) -> int:
    """Return the bits of a chip's lanes that lead only to its replica.

    A switch reaches all chips of the instance.
    """
    if topology.kind is TopologyKind.SWITCHED:
        return (1 << len(topology.lanes)) - 1 if size > 1 else 0
    return sum(
        1 << lane
        for lane in range(len(topology.lanes))
        if {peer // size for peer in topology.peers(member, lane)} == {member // size}
    )


def _used_lanes(layout: Layout, owner: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return, for each instance, the bits of the link lanes available to its job."""
    inside = np.array([(1 << len(kind.topology.lanes)) - 1 for kind in layout.types], np.uint8)
    used = inside[layout.instance_type] if len(layout.types) else np.zeros(0, np.uint8)
    starts = layout.ultraserver_start
    sizes = np.diff(starts)
    kinds = (
        np.zeros(len(sizes), np.int64)
        if not len(layout.types)
        else layout.instance_type[starts[:-1]]
    )
    pairs = np.stack([kinds, sizes], axis=1)[~layout.is_standalone]
    for index, size in np.unique(pairs, axis=0).tolist():
        kind = layout.types[index]
        if kind.between is None:
            continue
        first = starts[:-1][(kinds == index) & (sizes == size) & ~layout.is_standalone]
        between = kind.between.resized(size)
        for place in range(size):
            own = owner[first + place]
            for lane in range(len(between.lanes)):
                shared = np.zeros(len(first), np.bool_)
                for other in between.peers(place, lane):
                    shared |= owner[first + other] == own
                bit = np.uint8(1 << len(kind.topology.lanes) + lane)
                used[first + place] |= np.where(shared & (own != IDLE), bit, np.uint8(0))
    return used


def check_hardware(layout: Layout, fleet: FleetFile) -> None:
    """Raise if a file describes hardware that does not exist.

    Raises:
        ConfigError: a member of UltraServers stands alone.
    """
    for number, path in enumerate(layout.ultraservers):
        if not layout.is_standalone[number]:
            continue
        for instance in layout.instance_range(Node(Level.ULTRASERVER, number)):
            kind = layout.type_of(instance)
            if kind.between is not None:
                alone = [
                    other.name
                    for other in INSTANCE_TYPES.values()
                    if other.between is None
                    and (other.chip, other.chips) == (kind.chip, kind.chips)
                ]
                instead = f", or use {alone[0]}" if alone else ""
                raise ConfigError(
                    f"fleet {fleet.name!r}: {path} has a {kind.name}, which exists only in"
                    f" UltraServers: list it under clusters.ultraservers{instead}"
                )


def _spans(domain: NDArray[np.int64], sizes: NDArray[np.int64], replica_chips: int) -> bool:
    """Return whether a job spans more than one NeuronLink domain.

    For a serving job: whether a replica does.

    Args:
        domain: Of each of its instances.
        sizes: Chips of each of these.
        replica_chips: 0 for a job that does not serve.
    """
    if not replica_chips:
        return bool((domain != domain[0]).any())
    of_chip = np.repeat(domain, sizes)
    first = of_chip[::replica_chips]
    last = of_chip[np.minimum(np.arange(1, len(first) + 1) * replica_chips, len(of_chip)) - 1]
    return bool((first != last).any())
