"""Placement of jobs: instances of each job, and cohorts of instances that are alike in all that a job decides.

A tick computes values once a cohort and then hands them out to chips by index. Jobs stay where they are; instances that
with faults are set apart, and joined again when these end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.fleet import instances_of
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
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
    """Jobs by instance."""

    job_of_instance: NDArray[np.int32]
    """Number of the job in the fleet file's order, or `IDLE`; shape (instances,)."""
    chips: NDArray[np.int64]
    """Chips of each job."""
    spans: NDArray[np.bool_]
    """Whether a job reaches over more than one NeuronLink domain (UltraServer or standalone instance)."""
    instance_chips: NDArray[np.int64]
    """Chips of the first instance of each job."""
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
        chips, instance_chips = np.zeros(len(fleet.jobs), np.int64), np.ones(len(fleet.jobs), np.int64)
        kinds: list[ChipType] = []
        for number in range(len(fleet.jobs)):
            members = np.flatnonzero(owner == number)
            chips[number], instance_chips[number] = sizes[members].sum(), sizes[members[0]]
            spans[number] = bool((domain[members] != domain[members[0]]).any())
            present = (
                layout.types[index].chip for index in np.unique(layout.instance_type[members]).tolist()
            )
            kinds.append(min(present, key=lambda chip: chip.hbm_bytes_per_s.value))
        return Placement(owner, chips, spans, instance_chips, tuple(kinds))


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Sets of instances with the same job, type, and links to other instances that the job uses."""

    of_instance: NDArray[np.intp]
    """Cohort of each instance."""
    job: NDArray[np.intp]
    """Job of each cohort; `IDLE` indexes the last row of a table of jobs, which is the idle one."""
    type_index: NDArray[np.intp]
    """Index into the layout's types."""
    used_lanes: NDArray[np.uint8]
    """For each cohort, the bits of the link lanes that may carry its job's traffic: those to other instances only where the
    job runs there, too."""

    @staticmethod
    def of(layout: Layout, placement: Placement) -> Cohorts:
        """Group the instances."""
        owner = placement.job_of_instance
        used = _used_lanes(layout, owner)
        key = owner.astype(np.int64) + 1
        for part, base in ((layout.instance_type, max(len(layout.types), 1)), (used, 256)):
            key = key * base + part
        _, first, of_instance = np.unique(key, return_index=True, return_inverse=True)
        return Cohorts(
            of_instance.astype(np.intp),
            owner[first].astype(np.intp),
            layout.instance_type[first].astype(np.intp),
            used[first],
        )

    def setting_apart(self, instances: Iterable[int]) -> Cohorts:
        """Return the same cohorts with one more for each of some instances, which have a pace of their own."""
        chosen = np.array(sorted(set(instances)), np.intp)
        if not len(chosen):
            return self
        own = self.of_instance[chosen]
        of_instance = self.of_instance.copy()
        of_instance[chosen] = len(self.job) + np.arange(len(chosen))
        parts = (self.job, self.type_index, self.used_lanes)
        return Cohorts(of_instance, *(np.concatenate([part, part[own]]) for part in parts))


def _used_lanes(layout: Layout, owner: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return for each instance the bits of the link lanes that may carry its job's traffic."""
    inside = np.array([(1 << len(kind.topology.lanes)) - 1 for kind in layout.types], np.uint8)
    used = inside[layout.instance_type] if len(layout.types) else np.zeros(0, np.uint8)
    starts = layout.ultraserver_start
    sizes = np.diff(starts)
    kinds = np.zeros(len(sizes), np.int64) if not len(layout.types) else layout.instance_type[starts[:-1]]
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
                    each.name
                    for each in INSTANCE_TYPES.values()
                    if each.between is None and (each.chip, each.chips) == (kind.chip, kind.chips)
                ]
                instead = f", or use {alone[0]}" if alone else ""
                raise ConfigError(
                    f"fleet {fleet.name!r}: {path} has a {kind.name}, which exists only in UltraServers: list it under "
                    f"clusters.ultraservers{instead}"
                )


def _domains(layout: Layout) -> NDArray[np.int64]:
    """Return a number for each instance that is the same within an UltraServer and its own for a standalone one."""
    group = np.repeat(np.arange(len(layout.ultraservers)), np.diff(layout.ultraserver_start))
    alone = layout.is_standalone[group]
    return np.where(alone, -1 - np.arange(len(group)), group)
