"""Spares: idle instances that take the place of failed ones in a training job.

A job on whole UltraServers takes an idle UltraServer, another job an idle instance; of the same
types, in the same cluster, and not in a Capacity Block. A serving job waits for the repair: its
other replicas go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.jobs import FineTuning, Training
from trnfleet.domain.layout import Layout, Node
from trnfleet.sim.placement import IDLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.sim.placement import Placement


class Move(NamedTuple):
    """A job that changed its place."""

    job: int
    failed: range
    """Instances that it left."""
    spare: range
    """Instances that it took: as many, of the same types in the same order."""


class Spares:
    """The idle instances of a fleet."""

    def __init__(self, layout: Layout, fleet: FleetFile, placement: Placement) -> None:
        """Look up the jobs that can move, and what Capacity Blocks of the fleet file hold."""
        self._layout = layout
        self._job_of = placement.job_of_instance
        self._moves = np.array([isinstance(job, Training | FineTuning) for job in fleet.jobs])
        self._held = np.zeros(len(layout.instances), np.bool_)
        for block in fleet.blocks:
            for target in block.on:
                covered = layout.find_instances(target)
                if covered is not None:
                    self._held[covered.start : covered.stop] = True

    def move(self, job: int, instance: int, broken: NDArray[np.bool_]) -> Move | None:
        """Move a job from an instance to the first spare; None if it cannot, or has none.

        Args:
            job: Its number.
            instance: The failed instance.
            broken: Mask of the instances with a fault; shape (instances,).
        """
        failed = self._unit(job, instance)
        if not self._moves[job] or self._held[failed.start : failed.stop].any():
            return None
        usable = (self._job_of == IDLE) & ~broken & ~self._held
        for spare in self._alike(failed):
            if usable[spare.start : spare.stop].all():
                self._job_of[spare.start : spare.stop] = job
                self._job_of[failed.start : failed.stop] = IDLE
                return Move(job, failed, spare)
        return None

    def hold(self, places: Iterable[int]) -> None:
        """Keep the instances of a Capacity Block from being taken."""
        self._held[list(places)] = True

    def _unit(self, job: int, instance: int) -> range:
        """Return the failed instance, or its UltraServer if the job has all of it."""
        group = self._layout.parent(Node(Level.INSTANCE, instance))
        members = self._layout.instance_range(group)
        is_whole = not self._layout.is_standalone[group.number] and bool(
            (self._job_of[members.start : members.stop] == job).all()
        )
        return members if is_whole else range(instance, instance + 1)

    def _alike(self, failed: range) -> Iterator[range]:
        """Yield the units of the same kind in the same cluster, in their order."""
        layout = self._layout
        group = layout.parent(Node(Level.INSTANCE, failed.start))
        cluster = layout.parent(group)
        kinds = layout.instance_type[failed.start : failed.stop]
        starts = layout.cluster_start[cluster.number : cluster.number + 2].tolist()
        for number in range(*starts):
            if layout.is_standalone[number] != layout.is_standalone[group.number]:
                continue
            members = layout.instance_range(Node(Level.ULTRASERVER, number))
            size = len(failed) if not layout.is_standalone[number] else 1
            for first in range(members.start, members.stop, size):
                unit = range(first, first + size)
                if unit.stop <= members.stop and np.array_equal(
                    layout.instance_type[unit.start : unit.stop], kinds
                ):
                    yield unit
