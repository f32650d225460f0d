"""Spares: idle instances that take the place of failed ones in a training job.

A job on whole UltraServers takes an idle UltraServer, one on a standalone instance another of
these: of the same types, in the same cluster, and not in a Capacity Block. A job on parts of an
UltraServer waits for the repair, and so does a serving job, whose other replicas go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.jobs import FineTuning, Training
from trnfleet.domain.layout import Layout, Node
from trnfleet.sim.placement import IDLE

if TYPE_CHECKING:
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
        """Look up the jobs that can move."""
        self._layout = layout
        self._job_of = placement.job_of_instance
        self._can_move = np.array([isinstance(job, Training | FineTuning) for job in fleet.jobs])
        self._held = np.zeros(len(layout.instances), np.bool_)
        self.have_moved = False
        """Whether any job has left its place."""

    def hold(self, places: NDArray[np.intp]) -> None:
        """Keep instances that belong to a Capacity Block from being left or taken."""
        self._held[places] = True

    def move(self, job: int, instance: int, broken: NDArray[np.bool_]) -> Move | None:
        """Move a job from an instance to the first spare; None if it cannot, or has none.

        Args:
            job: Its number.
            instance: The failed instance.
            broken: Mask of the instances with a fault; shape (instances,).
        """
        group = self._layout.parent(Node(Level.INSTANCE, instance))
        is_alone = bool(self._layout.is_standalone[group.number])
        members = self._layout.instance_range(group)
        failed = range(instance, instance + 1) if is_alone else members
        places = slice(failed.start, failed.stop)
        # Without all of an UltraServer, a job has neighbours there to which it stays linked.
        is_whole = bool((self._job_of[places] == job).all())
        if not self._can_move[job] or not is_whole or self._held[places].any():
            return None
        usable = (self._job_of == IDLE) & ~broken & ~self._held
        for first in self._alike(failed, group, usable).tolist():
            spare = range(first, first + len(failed))
            kinds = self._layout.instance_type
            if np.array_equal(kinds[spare.start : spare.stop], kinds[places]):
                self._job_of[spare.start : spare.stop] = job
                self._job_of[places] = IDLE
                self.have_moved = True
                return Move(job, failed, spare)
        return None

    def _alike(self, failed: range, group: Node, usable: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the first instances of usable places of the same size in the same cluster."""
        layout = self._layout
        begin, end = layout.cluster_start[layout.parent(group).number :][:2]
        starts = layout.ultraserver_start
        is_same = layout.is_standalone == layout.is_standalone[group.number]
        is_same[:begin] = is_same[end:] = False
        if layout.is_standalone[group.number]:
            return np.flatnonzero(usable & np.repeat(is_same, np.diff(starts)))
        is_free = np.logical_and.reduceat(usable, starts[:-1].astype(np.intp))
        sizes = np.diff(starts)
        return np.asarray(starts[:-1][is_same & is_free & (sizes == len(failed))], np.intp)
