"""Training jobs: steps of compute, collectives and optimizer, checkpoints between them, all jobs at once.

Owns the jobs' progress. A tick asks how much of its window each phase took; the answer is the difference of cumulative
functions at the window's ends, so that windows of any length give the same averages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.fleet import Training
from trnfleet.errors import ConfigError
from trnfleet.sim.noise import Stream
from trnfleet.sim.phases import ACTIVITY, QUANTITIES, TRAINING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Inference
    from trnfleet.sim.noise import Noise

EXECUTIONS_PER_STEP = 8
"""Graph executions that make one optimizer step (gradient accumulation): assumed."""

_LIVED_CYCLES = 400
"""Jobs are up to so many checkpoint intervals old when the simulation begins: assumed."""


class Window(NamedTuple):
    """What training jobs did in a tick's window; arrays of shape (jobs, 4 phases)."""

    work: NDArray[np.float64]
    """Nominal seconds of work done a second, by phase."""
    time: NDArray[np.float64]
    """Share of the window spent, by phase; a row adds up to 1."""


class TrainingJobs:
    """The progress of all training jobs; arrays are in the order of the jobs given."""

    def __init__(self, jobs: Sequence[Training], ordinals: NDArray[np.intp], noise: Noise) -> None:
        """Begin in the middle of the jobs' lives, drawn from the seed.

        Args:
            jobs: What the fleet file says.
            ordinals: Their numbers among all jobs of the file, which their draws go by.
            noise: The run's randomness.

        Raises:
            ConfigError: a job's `mfu` is more than its phases can give.
        """
        step_s = np.array([job.step_time_s for job in jobs], np.float64)
        compute = step_s * [job.compute_share for job in jobs]
        collective = step_s * [job.collective_share for job in jobs]
        optimizer = np.maximum(step_s - compute - collective, 0.0)
        steps = np.array([job.checkpoint_every_steps for job in jobs], np.int64)
        checkpoint = np.where(steps > 0, [job.checkpoint_s for job in jobs], 0.0)
        self.step_s = compute + collective + optimizer
        self.mfu = np.array([job.mfu for job in jobs], np.float64)
        self.tokens_per_step = np.array([job.tokens_per_step for job in jobs], np.float64)
        self._parts = np.stack([compute, collective, optimizer, checkpoint], axis=1).reshape(-1, 4)
        self._steps = np.maximum(steps, 1)
        self.tflops_per_tensor = self._calibrate(jobs)
        """Share of peak FLOP/s that a fully active tensor engine gives, so that a whole step has the job's MFU."""
        draws = np.stack([noise.uniform(Stream.JOB_START, index, _count(ordinals)) for index in (0, 1)])
        lived, place = draws[:, ordinals]
        self._cycle = (lived * _LIVED_CYCLES).astype(np.int64)
        # The first half of an interval, so that no job opens with a checkpoint.
        self._at_s = place * 0.5 * self._steps * self.step_s

    def _calibrate(self, jobs: Sequence[Training]) -> NDArray[np.float64]:
        tensor = ACTIVITY[TRAINING, QUANTITIES["tensor"]]
        active = self._parts[:, 0] * tensor[0] + self._parts[:, 1] * tensor[1] + self._parts[:, 2] * tensor[2]
        active /= self.step_s
        for job, most in zip(jobs, active, strict=True):
            if job.mfu > most:
                raise ConfigError(
                    f"jobs.{job.name}.mfu = {job.mfu}: its compute_share and collective_share keep the tensor engine "
                    f"busy for {most:.2f} of a step, so that is the most"
                )
        return np.asarray(self.mfu / active)

    def advance(
        self, elapsed_s: float, compute_pace: NDArray[np.float64], link_pace: NDArray[np.float64]
    ) -> Window:
        """Move on by `elapsed_s` and say what was done.

        Args:
            elapsed_s: Length of the window.
            compute_pace: For each job, the slowest chip's share of peak.
            link_pace: For each job, the slowest link's share of its bandwidth.
        """
        ones = np.ones_like(compute_pace)
        pace = np.stack([compute_pace, link_pace, ones, ones], axis=1)
        parts_s = self._parts / pace
        step_s = parts_s[:, 0] + parts_s[:, 1] + parts_s[:, 2]
        cycle_s = self._steps * step_s + parts_s[:, 3]
        before = self._cumulative(self._at_s)
        spent = before / pace
        reached_s = spent[:, 0] + spent[:, 1] + spent[:, 2] + spent[:, 3] + elapsed_s
        cycles = np.floor(reached_s / cycle_s)
        self._at_s = self._locate(np.maximum(reached_s - cycles * cycle_s, 0.0), parts_s, step_s, pace)
        self._cycle += cycles.astype(np.int64)
        whole = self._parts.copy()
        whole[:, :3] *= self._steps[:, None]
        work = np.maximum(self._cumulative(self._at_s) - before + cycles[:, None] * whole, 0.0)
        return Window(work / elapsed_s, work / pace / elapsed_s)

    def effective_step_s(
        self, compute_pace: NDArray[np.float64], link_pace: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how long a step takes at these paces, seconds."""
        compute, collective, optimizer = self._parts.T[:3]
        step_s: NDArray[np.float64] = compute / compute_pace + collective / link_pace + optimizer
        return step_s

    def executions(self) -> NDArray[np.uint64]:
        """Return how many executions each job has completed in its life."""
        step = np.minimum(np.floor(self._at_s / self.step_s), self._steps)
        inside = np.where(step < self._steps, self._at_s - step * self.step_s, 0.0)
        share = np.clip(inside / self.step_s, 0.0, 1.0 - 2.0**-40)
        done = (self._cycle * self._steps + step.astype(np.int64)) * EXECUTIONS_PER_STEP
        count: NDArray[np.int64] = done + np.floor(share * EXECUTIONS_PER_STEP).astype(np.int64)
        return count.astype(np.uint64)

    def _cumulative(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nominal work of each phase since the interval's begin: shape (jobs, 4)."""
        step = np.minimum(np.floor(at_s / self.step_s), self._steps)
        inside = np.maximum(at_s - step * self.step_s, 0.0)
        in_steps = step < self._steps
        result = self._parts * step[:, None]
        result[:, 3] = np.where(in_steps, 0.0, np.minimum(inside, self._parts[:, 3]))
        left = np.where(in_steps, inside, 0.0)
        for phase in range(3):
            part = np.minimum(left, self._parts[:, phase])
            result[:, phase] += part
            left = left - part
        return result

    def _locate(
        self,
        time_s: NDArray[np.float64],
        parts_s: NDArray[np.float64],
        step_s: NDArray[np.float64],
        pace: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the place (nominal seconds in the interval) that is reached after `time_s` of real time."""
        step = np.minimum(np.floor(time_s / step_s), self._steps)
        left = np.maximum(time_s - step * step_s, 0.0)
        in_steps = step < self._steps
        place = np.where(in_steps, 0.0, np.minimum(left, self._parts[:, 3]))
        left = np.where(in_steps, left, 0.0)
        for phase in range(3):
            part = np.minimum(left, parts_s[:, phase])
            place = place + part * pace[:, phase]
            left = left - part
        return step * self.step_s + place


def training_of(jobs: Sequence[Training | Inference]) -> tuple[list[Training], NDArray[np.intp]]:
    """Return a file's training jobs and their numbers among all its jobs."""
    chosen = [(number, job) for number, job in enumerate(jobs) if isinstance(job, Training)]
    return [job for _, job in chosen], np.array([number for number, _ in chosen], np.intp)


def _count(ordinals: NDArray[np.intp]) -> int:
    return int(ordinals.max()) + 1 if len(ordinals) else 0
