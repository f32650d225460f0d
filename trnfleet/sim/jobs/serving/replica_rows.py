"""Rows of serving replicas in the tables of work: the work of each replica's chips."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.sim.jobs.activity import QUANTITIES, Phase
from trnfleet.sim.jobs.startup import (
    MEMORY_BUSY,
    MEMORY_IDLE,
    MEMORY_OF_STARTS,
    STARTUP,
    StartWork,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.sim.jobs.serving.inference import ReplicaWork

    Row = NDArray[np.float64]

TENSOR_PER_FULL_BATCH = 0.10
"""Additional tensor-engine activity of a full batch in decode: assumed."""


class JobShares(NamedTuple):
    """Shares of a window in which serving jobs run, start and hang as a whole.

    Arrays of shape (serving jobs,), but for those of the start.
    """

    run: Row
    hang: Row
    start: StartWork


class ReplicaRows:
    """Activity of all replicas from the tables of their jobs."""

    def __init__(
        self,
        tables: NDArray[np.float64],
        serving: NDArray[np.intp],
        job: NDArray[np.intp],
        count: NDArray[np.int64],
    ) -> None:
        """Look up each quantity in the phases of serving.

        Args:
            tables: The table of activity of each serving job: shape (serving jobs, phases,
                quantities).
            serving: Their numbers among all jobs.
            job: Place of each replica's job among these.
            count: Replicas of each.
        """
        self._serving = serving
        self._job = job
        self._count = count
        self._begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])[:-1]
        self._factors: list[dict[Phase, float | Row]] = []
        for quantity in range(len(QUANTITIES)):
            of_phase: dict[Phase, float | Row] = {}
            for phase in (Phase.PREFILL, Phase.DECODE, Phase.HANG, Phase.IDLE, *STARTUP):
                values = tables[:, phase, quantity]
                if len(values) and values.any():
                    same = bool((values == values[0]).all())
                    of_phase[phase] = float(values[0]) if same else values[job]
            self._factors.append(of_phase)

    def mean(self, values: Row) -> Row:
        """Return the mean over the replicas of each job."""
        if not len(values):
            return np.zeros(0)
        total: Row = np.add.reduceat(values, self._begin)
        return total / self._count

    def rows(self, of_jobs: Row, of_replicas: Row) -> Row:
        """Return the values of all rows; a serving job has the mean of its replicas."""
        of_jobs[self._serving] = self.mean(of_replicas)
        return np.concatenate([of_jobs, of_replicas])

    def hbm_used(self, work: ReplicaWork, shares: JobShares, idle: float) -> Row:
        """Return the share of HBM in use of each replica; `idle` without its processes."""
        of_jobs = shares.run + shares.start.loaded_s + shares.hang
        there = of_jobs[self._job] * work.there
        return np.minimum(work.hbm_used * there + idle * (1.0 - there), 1.0)

    def host_memory(self, work: ReplicaWork, shares: JobShares) -> Row:
        """Return the share of host memory in use by the host of each replica."""
        starts = work.start.time_s + shares.start.time_s[:, self._job]
        used = MEMORY_IDLE + (shares.run + shares.hang)[self._job] * np.where(
            work.there > 0.0, MEMORY_BUSY - MEMORY_IDLE, 0.0
        )
        for time, memory in zip(starts, MEMORY_OF_STARTS, strict=True):
            used += (memory - MEMORY_IDLE) * time
        # A replica that starts alone does so in its job's running time.
        result: Row = used - (MEMORY_BUSY - MEMORY_IDLE) * work.start.time_s.sum(axis=0)
        return result

    def phases(
        self, work: ReplicaWork, shares: JobShares
    ) -> tuple[dict[Phase, Row], dict[Phase, Row]]:
        """Return work and time of each replica by phase."""
        start = work.start.time_s + shares.start.time_s[:, self._job]
        start_work = work.start.work_s + shares.start.work_s[:, self._job]
        hang = work.hang + shares.hang[self._job]
        idle = np.maximum(1.0 - (work.prefill + work.decode + start.sum(axis=0) + hang), 0.0)
        time = {
            Phase.PREFILL: work.prefill,
            Phase.DECODE: work.decode,
            Phase.HANG: hang,
            Phase.IDLE: idle,
            **dict(zip(STARTUP, start, strict=True)),
        }
        done = {
            **time,
            Phase.PREFILL: work.prefill * work.pace,
            Phase.DECODE: work.decode * work.pace,
            **dict(zip(STARTUP, start_work, strict=True)),
        }
        return done, time

    def fill(
        self,
        average: NDArray[np.float64],
        done: dict[Phase, Row],
        time: dict[Phase, Row],
        work: ReplicaWork,
    ) -> None:
        """Write the mean activity of each replica.

        Args:
            average: Rows of the replicas, which are 0: shape (replicas, quantities).
            done: Work of each replica by phase.
            time: Time of each by phase. Cores that wait for another one count as busy.
            work: What else they did.
        """
        busy = {**time, Phase.START: done[Phase.START]}
        for quantity, factors in enumerate(self._factors):
            column = average[:, quantity]
            spent = busy if quantity == QUANTITIES["nc"] else done
            for phase, factor in factors.items():
                column += spent[phase] * factor
        average[:, QUANTITIES["tensor"]] += TENSOR_PER_FULL_BATCH * work.batch_share
