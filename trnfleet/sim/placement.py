"""Where jobs run: instances of each job, and cohorts of instances that are alike in all that a job decides.

A tick computes values once a cohort and then hands them out to chips by index. Jobs stay where they are; instances that
something is wrong with are set apart and joined again as faults come and go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.fleet import instances_of
from trnfleet.domain.hardware import topology
from trnfleet.domain.layout import Layout, Node
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.catalogue import ChipType

IDLE = -1
"""The job number of an instance on which nothing runs."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Which job each instance belongs to."""

    job_of_instance: NDArray[np.int32]
    """Number of the job in the fleet file's order, or `IDLE`; shape (instances,)."""
    chips: NDArray[np.int64]
    """Chips of each job."""
    spans: NDArray[np.bool_]
    """Whether a job reaches over more than one NeuronLink domain (UltraServer or standalone instance)."""
    chip_types: tuple[ChipType, ...]
    """For each job the chip that it runs on; where they differ, the one with the least HBM bandwidth."""

    @staticmethod
    def of(layout: Layout, fleet: FleetFile) -> Placement:
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
                taken = np.flatnonzero(owner[instances.start : instances.stop] != IDLE)
                if len(taken):
                    first = instances.start + int(taken[0])
                    other = fleet.jobs[int(owner[first])].name
                    raise ConfigError(
                        f"{key} = {target!r}: {layout.instances[first]} already runs {other!r}; an instance runs one job"
                    )
                owner[instances.start : instances.stop] = number
        sizes = np.diff(layout.chip_start)
        domain = _domains(layout)
        spans = np.zeros(len(fleet.jobs), np.bool_)
        chips = np.zeros(len(fleet.jobs), np.int64)
        kinds: list[ChipType] = []
        for number in range(len(fleet.jobs)):
            members = np.flatnonzero(owner == number)
            chips[number] = sizes[members].sum()
            spans[number] = bool((domain[members] != domain[members[0]]).any())
            present = (
                layout.types[index].chip for index in np.unique(layout.instance_type[members]).tolist()
            )
            kinds.append(min(present, key=lambda chip: chip.hbm_bytes_per_s.value))
        return Placement(owner, chips, spans, tuple(kinds))


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Sets of instances that share a job, a type and which Z links the job uses."""

    of_instance: NDArray[np.intp]
    """Cohort of each instance."""
    job: NDArray[np.intp]
    """Job of each cohort; `IDLE` indexes the last row of a table of jobs, which is the idle one."""
    type_index: NDArray[np.intp]
    """Index into the layout's types."""
    z_prev: NDArray[np.bool_]
    """Whether the instance before in the Z ring belongs to the same job."""
    z_next: NDArray[np.bool_]

    @staticmethod
    def of(layout: Layout, placement: Placement) -> Cohorts:
        """Group the instances."""
        owner = placement.job_of_instance
        before, after = ring_members(layout)
        z_prev = (before >= 0) & (owner[before] == owner) & (owner != IDLE)
        z_next = (after >= 0) & (owner[after] == owner) & (owner != IDLE)
        key = owner.astype(np.int64) + 1
        for part, base in ((layout.instance_type, 64), (z_prev, 2), (z_next, 2)):
            key = key * base + part
        _, first, of_instance = np.unique(key, return_index=True, return_inverse=True)
        return Cohorts(
            of_instance.astype(np.intp),
            owner[first].astype(np.intp),
            layout.instance_type[first].astype(np.intp),
            z_prev[first],
            z_next[first],
        )

    def setting_apart(self, instances: Iterable[int]) -> Cohorts:
        """Return the same cohorts with one more for each of some instances, which have a pace of their own."""
        chosen = np.array(sorted(set(instances)), np.intp)
        if not len(chosen):
            return self
        own = self.of_instance[chosen]
        of_instance = self.of_instance.copy()
        of_instance[chosen] = len(self.job) + np.arange(len(chosen))
        parts = (self.job, self.type_index, self.z_prev, self.z_next)
        return Cohorts(of_instance, *(np.concatenate([part, part[own]]) for part in parts))


def ring_members(layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each instance, the instances before and after it in its UltraServer's Z ring; -1 outside one."""
    count = len(layout.instances)
    before, after = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    starts = layout.ultraserver_start
    sizes = np.diff(starts)
    for size in np.unique(sizes[~layout.is_standalone]).tolist():
        first = starts[:-1][(sizes == size) & ~layout.is_standalone]
        for place in range(size):
            before[first + place] = first + topology.ring_neighbour(place, topology.Z_PREV, size)
            after[first + place] = first + topology.ring_neighbour(place, topology.Z_NEXT, size)
    return before, after


def check_hardware(layout: Layout, fleet: FleetFile) -> None:
    """Refuse hardware that does not exist as the file describes it.

    Raises:
        ConfigError: a member of UltraServers stands alone.
    """
    for number, path in enumerate(layout.ultraservers):
        if not layout.is_standalone[number]:
            continue
        for instance in layout.instance_range(Node(Level.ULTRASERVER, number)):
            kind = layout.type_of(instance)
            if kind.z_links:
                raise ConfigError(
                    f"fleet {fleet.name!r}: {path} has a {kind.name}, which exists only in UltraServers: list it under "
                    "clusters.ultraservers, or use trn2.48xlarge"
                )


def _domains(layout: Layout) -> NDArray[np.int64]:
    """Return a number for each instance that is the same within an UltraServer and its own for a standalone one."""
    group = np.repeat(np.arange(len(layout.ultraservers)), np.diff(layout.ultraserver_start))
    alone = layout.is_standalone[group]
    return np.where(alone, -1 - np.arange(len(group)), group)
