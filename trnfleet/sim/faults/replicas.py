"""Replicas of inference jobs slowed or stopped by faults.

Replicas are independent: a fault affects only its own, and the job's router sends its requests to
the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.jobs.slowdown import Halt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

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

    def _of(self, job: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
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
        members, first = self._of(job)
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
