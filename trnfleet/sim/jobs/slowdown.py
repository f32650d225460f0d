"""Slowdowns of jobs by faults, heat and networks: all that workloads need to know about these."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Halt(enum.IntEnum):
    """States in which a job cannot go on."""

    NONE = 0
    HANG = 1
    """Its processes wait for something that does not come: cores are busy, nothing is done, nothing is lost yet."""
    DOWN = 2
    """Its processes are gone: cores are idle, and when it comes back it starts from its last checkpoint."""
    WAITING = 3
    """Down, and without the instances that it needs: it starts when they are back."""


@dataclass(slots=True)
class Slowdowns:
    """Shares of speed left to jobs during a window, above 0 and at most 1, and halted jobs."""

    compute: NDArray[np.float64]
    """For each job, its slowest chip's share of peak (1 for inference, whose replicas are independent)."""
    link: NDArray[np.float64]
    """For each job, its slowest NeuronLink's share of bandwidth."""
    efa: NDArray[np.float64]
    """For each job, the share of EFA bandwidth that its worst instance has."""
    storage: NDArray[np.float64]
    """For each job, the share of the shared storage's bandwidth that it gets: checkpoints and input data."""
    load: NDArray[np.float64]
    """For each job, what its offered load is multiplied by (inference; 1 unless a scenario says otherwise, may be
    above 1)."""
    halt: NDArray[np.int8]
    """For each job, a `Halt`."""
    replica: NDArray[np.float64]
    """For each replica of a serving job, the share of speed left to it by slow chips and links."""
    replica_halt: NDArray[np.int8]
    """For each replica, a `Halt`; `HANG` and `DOWN` are as for jobs."""

    def copy(self) -> Slowdowns:
        """Return a copy that can be changed."""
        return Slowdowns(*(getattr(self, field.name).copy() for field in fields(self)))

    @staticmethod
    def healthy(jobs: int, replicas: int) -> Slowdowns:
        """Return the slowdowns of a fleet without faults."""
        compute, link, efa, storage, load = (np.ones(jobs) for _ in range(5))
        halt = np.zeros(jobs, np.int8)
        return Slowdowns(
            compute, link, efa, storage, load, halt, np.ones(replicas), np.zeros(replicas, np.int8)
        )
