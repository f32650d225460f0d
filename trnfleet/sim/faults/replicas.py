"""Replicas of inference jobs: their instances, and the replicas that are slow or out.

Replicas are independent: a slow one takes capacity from its job and activity from its own instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.fleet import Inference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.placement import Cohorts, Placement


class Replicas:
    """The replicas of all inference jobs, and the pace of those that are slow."""

    def __init__(self, layout: Layout, placement: Placement, fleet: FleetFile) -> None:
        self._layout = layout
        self._placement = placement
        self._count = len(fleet.jobs)
        self._chips = {
            number: job.replica_chips(int(placement.instance_chips[number]))
            for number, job in enumerate(fleet.jobs)
            if isinstance(job, Inference)
        }
        self._members: dict[int, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}
        self._slow: dict[tuple[int, int], float] = {}
        """By job and number of the replica, its pace."""

    def serves(self, job: int) -> bool:
        """Return whether a job has replicas."""
        return job in self._chips

    def clear(self) -> None:
        """Return every replica to its full pace."""
        self._slow.clear()

    def slow(self, job: int, instances: Iterable[int], chips: Iterable[int], pace: float) -> None:
        """Slow the replicas that some chips, or without any all chips of some instances, are part of."""
        size = self._chips[job]
        for first, last in self._places(job, instances, chips):
            for number in range(first // size, (last - 1) // size + 1):
                key = (job, number)
                self._slow[key] = min(self._slow.get(key, 1.0), pace)

    def slow_across(self, job: int, halves: tuple[Iterable[int], Iterable[int]], pace: float) -> None:
        """Slow the replicas that reach over both of two sets of instances."""
        size = self._chips[job]
        numbers = [
            {
                number
                for first, last in self._places(job, half, ())
                for number in range(first // size, (last - 1) // size + 1)
            }
            for half in halves
        ]
        for number in numbers[0] & numbers[1]:
            key = (job, number)
            self._slow[key] = min(self._slow.get(key, 1.0), pace)

    def slow_between(self, job: int, ends: tuple[int, ...], pace: float) -> None:
        """Slow the replica that the chips at a link's ends are part of; no replica uses a link to another one."""
        numbers = {first // self._chips[job] for first, _ in self._places(job, (), ends)}
        if len(numbers) == 1:
            key = (job, numbers.pop())
            self._slow[key] = min(self._slow.get(key, 1.0), pace)

    def capacity(self) -> NDArray[np.float64]:
        """Return for each job the share of its replicas' throughput that is left."""
        lost = np.zeros(self._count)
        for (job, _), pace in self._slow.items():
            lost[job] += (1.0 - pace) * self._chips[job] / float(self._placement.chips[job])
        left: NDArray[np.float64] = np.maximum(1.0 - lost, 0.0)
        return left

    def instances(self) -> set[int]:
        """Return the instances that slow replicas run on."""
        return set(self._paces())

    def of_cohorts(self, cohorts: Cohorts) -> NDArray[np.float64]:
        """Return the pace of each cohort."""
        pace_of = np.ones(len(cohorts.job))
        for instance, pace in self._paces().items():
            cohort = cohorts.of_instance[instance]
            pace_of[cohort] = min(pace_of[cohort], pace)
        return pace_of

    def _paces(self) -> dict[int, float]:
        """Return the mean pace of the chips of each instance that slow replicas run on."""
        pace_of: dict[int, float] = {}
        for (job, number), pace in self._slow.items():
            size = self._chips[job]
            members, first = self._of(job)
            begin, end = number * size, (number + 1) * size
            for place in range(
                int(np.searchsorted(first, begin, side="right")) - 1,
                int(np.searchsorted(first, end, side="left")),
            ):
                inside = min(end, int(first[place + 1])) - max(begin, int(first[place]))
                share = inside / int(first[place + 1] - first[place])
                instance = int(members[place])
                pace_of[instance] = pace_of.get(instance, 1.0) - (1.0 - pace) * share
        return pace_of

    def _of(self, job: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return a job's instances, and the place of each one's first chip among the job's, with their number at the end."""
        if job not in self._members:
            members = np.flatnonzero(self._placement.job_of_instance == job)
            sizes = np.diff(self._layout.chip_start)[members]
            self._members[job] = members, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return self._members[job]

    def _places(self, job: int, instances: Iterable[int], chips: Iterable[int]) -> list[tuple[int, int]]:
        """Return the ranges of places, among a job's chips, of chips or of whole instances."""
        members, first = self._of(job)
        found = []
        for chip in chips:
            instance = int(self._layout.instance_of_chip[chip])
            place = int(np.searchsorted(members, instance))
            if place < len(members) and members[place] == instance:
                at = int(first[place]) + chip - int(self._layout.chip_start[instance])
                found.append((at, at + 1))
        if found:
            return found
        for instance in instances:
            place = int(np.searchsorted(members, instance))
            if place < len(members) and members[place] == instance:
                found.append((int(first[place]), int(first[place + 1])))
        return found
