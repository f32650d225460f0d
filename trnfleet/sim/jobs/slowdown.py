"""Slowdowns of jobs by faults, heat and networks, as input of the workloads."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.jobs.activity import AXES

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Halt(enum.IntEnum):
    """States in which a job cannot go on."""

    NONE = 0
    HANG = 1
    """Its processes wait forever: cores are busy without work, and none is lost yet."""
    DOWN = 2
    """Its processes are gone and cores are idle. It restarts from its last checkpoint."""
    WAITING = 3
    """Down, and short of instances: it starts once they are back."""


@dataclass(slots=True)
class Slowdowns:
    """Remaining speed of jobs in a window (above 0, at most 1), and halted jobs."""

    compute: NDArray[np.float64]
    """For each job, its slowest chip's share of peak. 1 for inference: its replicas are
    independent."""
    link: NDArray[np.float64]
    """For each job and axis of `activity.AXES`, the share of their bandwidth that collectives get
    beside the slowest NeuronLink; shape (jobs, axes)."""
    efa: NDArray[np.float64]
    """For each job, its worst instance's share of EFA bandwidth."""
    storage: NDArray[np.float64]
    """For each job, its share of the shared storage's bandwidth, for checkpoints and input data."""
    load: NDArray[np.float64]
    """For each job, the factor of its offered load (inference). 1 unless a scenario changes it; may
    be above 1."""
    halt: NDArray[np.int8]
    """For each job, a `Halt`."""
    replica: NDArray[np.float64]
    """For each replica of a serving job, its speed under slow chips and links."""
    replica_halt: NDArray[np.int8]
    """For each replica, a `Halt`; `HANG` and `DOWN` are as for jobs."""
    is_cold: NDArray[np.bool_]
    """For each job, whether its next start compiles."""

    def copy(self) -> Slowdowns:
        """Return a copy that can be changed."""
        return Slowdowns(*(getattr(self, field.name).copy() for field in fields(self)))

    @staticmethod
    def healthy(jobs: int, replicas: int) -> Slowdowns:
        """Return the slowdowns of a fleet without faults."""
        compute, efa, storage, load = (np.ones(jobs) for _ in range(4))
        link = np.ones((jobs, len(AXES)))
        halt = np.zeros(jobs, np.int8)
        return Slowdowns(
            compute,
            link,
            efa,
            storage,
            load,
            halt,
            np.ones(replicas),
            np.zeros(replicas, np.int8),
            np.zeros(jobs, np.bool_),
        )
