"""Training and fine-tuning jobs: steps, waits for data, checkpoints, evaluations and pauses, all jobs at once.

Owns the jobs' progress. A window asks how much of it each phase took; the answer is the difference of cumulative
functions at the window's ends, so that windows of any length give the same averages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.jobs import FineTuning, Training
from trnfleet.sim.jobs.activity import EFA_CEILING, QUANTITIES, STEP, TRAINING, Phase
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Job
    from trnfleet.sim.jobs.training_plan import StepPlan
    from trnfleet.sim.rng import Rng

EXECUTIONS_PER_STEP = 8
"""Graph executions that make one optimizer step (gradient accumulation): assumed."""

_LIVED_CYCLES = 400
"""Largest age of a job at the start of the simulation, in checkpoint intervals: assumed."""
_STALLS = 8
"""Lengths of waits for data that a job goes through in turn."""
_PARTS = len(STEP)
_STALL, _TAIL = TRAINING.index(Phase.STALL), TRAINING.index(Phase.CHECKPOINT)
_COLUMNS = len(TRAINING)


class TrainingWork(NamedTuple):
    """Work of training jobs in a window; arrays of shape (jobs, phases), the phases as in `activity.TRAINING`."""

    work: NDArray[np.float64]
    """Nominal seconds of work done a second, by phase."""
    time: NDArray[np.float64]
    """Share of the window spent, by phase."""


class TrainingPace(NamedTuple):
    """Speed of training jobs: shares of nominal."""

    step: NDArray[np.float64]
    """Phases of a step; shape (jobs, phases of a step)."""
    tail: NDArray[np.float64]
    """The phases after a run's steps: checkpoint, evaluation, pause; shape (jobs, 3)."""
    storage: NDArray[np.float64]
    """Waits for data; shape (jobs,)."""


class TrainingJobs:
    """The progress of all such jobs; arrays are in the order of the jobs given."""

    def __init__(
        self,
        jobs: Sequence[Training | FineTuning],
        plans: Sequence[StepPlan],
        ordinals: NDArray[np.intp],
        rng: Rng,
    ) -> None:
        """Begin in the middle of the jobs' lives, drawn from the seed; those that start later begin with step 0.

        Args:
            jobs: From the fleet file.
            plans: Their steps.
            ordinals: Their numbers among all jobs of the file, which key their draws.
            rng: The run's randomness.
        """
        self._parts = np.array([each[:_PARTS] for each in plans], np.float64).reshape(-1, _PARTS)
        self.step_s = self._parts[:, 0] + self._parts[:, 1] + self._parts[:, 2] + self._parts[:, 3]
        """Time of a step when nothing is slow."""
        self.mfu = np.array([each.flops.mfu for each in plans], np.float64)
        self.tokens_per_step = np.array([each.flops.tokens for each in plans], np.float64)
        self.compute_flops_share = np.array([each.compute_flops_share for each in plans], np.float64)
        """FLOP/s of the compute phase as a share of the dense BF16 peak, so that a whole step has the job's MFU; other phases
        of a step have none."""
        self._link_wait = np.array([each.link_wait for each in plans], np.float64)
        efa = np.array([each.activity[list(STEP), QUANTITIES["efa"]] for each in plans]).reshape(-1, _PARTS)
        self.efa_need = efa / EFA_CEILING
        """Share of the reachable EFA bandwidth that each phase of a step sends; shape (jobs, phases of a step)."""
        self._intervals(jobs, plans, rng, ordinals)
        draws = np.stack([rng.uniform(Stream.JOB_START, index, _count(ordinals)) for index in (0, 1)])
        lived, place = draws[:, ordinals]
        is_new = np.array([job.starts_at_s is not None for job in jobs], np.bool_)
        self._cycle = np.where(is_new, 0, (lived * _LIVED_CYCLES).astype(np.int64))
        # The first half of an interval, so that no job opens with a checkpoint.
        begin_s = np.where(is_new, 0.0, place * 0.5 * self._steps * self.step_s)
        full = self.pace(*(np.ones(len(jobs)) for _ in range(4)))
        self._step, self._in_s = self._locate(begin_s, full)
        self._extra = np.zeros(len(jobs), np.int64)
        self.productive_s = np.zeros(len(jobs))
        """Nominal time of the steps and evaluations made since the start of the simulation and not lost."""
        self.steps_lost = np.zeros(len(jobs), np.int64)
        """Steps that were made and lost since the start of the simulation."""

    def _intervals(
        self,
        jobs: Sequence[Training | FineTuning],
        plans: Sequence[StepPlan],
        rng: Rng,
        ordinals: NDArray[np.intp],
    ) -> None:
        """Set the parts of an interval: blocks of steps, each after a wait for data, and a tail."""
        checkpoint = np.array([job.checkpoint_every_steps for job in jobs], np.int64)
        stall = np.array([job.data_stall_every_steps for job in jobs], np.int64)
        self._saves = checkpoint > 0
        self._steps = np.where(self._saves, checkpoint, np.maximum(stall, 1)).astype(np.float64)
        self._block = np.where(stall > 0, np.minimum(stall, self._steps), self._steps).astype(np.float64)
        blocks = np.ceil(self._steps / self._block)
        stalls = _STALLS if stall.any() else 1
        length_s = np.where(stall > 0, [job.data_stall_s for job in jobs], 0.0)
        self.stall_s = np.empty((len(jobs), stalls))
        """Waits for data that each job goes through in turn; shape (jobs, lengths)."""
        for index in range(stalls):
            drawn = rng.uniform(Stream.DATA_STALL, index, _count(ordinals))[ordinals]
            self.stall_s[:, index] = length_s * (0.5 + drawn)
        self._before_s = np.zeros((len(jobs), stalls + 1))
        """Waits before each of the blocks that the lengths go round over, and of all of them."""
        for index in range(stalls):
            self._before_s[:, index + 1] = self._before_s[:, index] + self.stall_s[:, index]
        self._stalled_s = self._stalls_before(blocks)
        self._tail = np.array(
            [
                (
                    each.checkpoint_s if job.checkpoint_every_steps else 0.0,
                    job.evaluation_s if isinstance(job, FineTuning) else 0.0,
                    job.pause_s if isinstance(job, FineTuning) else 0.0,
                )
                for job, each in zip(jobs, plans, strict=True)
            ]
        ).reshape(-1, 3)

    def pace(
        self,
        compute: NDArray[np.float64],
        link: NDArray[np.float64],
        efa: NDArray[np.float64],
        storage: NDArray[np.float64],
    ) -> TrainingPace:
        """Return the speed of each phase.

        Collectives of gradients go at the pace of the slowest link; forward and backward passes wait for it in the part of
        their time that tensor parallelism takes.

        Args:
            compute: For each job, the slowest chip's share of peak.
            link: For each job, the slowest NeuronLink's share of its bandwidth.
            efa: For each job, the share of EFA bandwidth that it gets; it slows the phases that need more.
            storage: For each job, the share of the shared storage's bandwidth that it gets.
        """
        ones = np.ones_like(compute)
        passes = compute / (1.0 + compute * self._link_wait * (1.0 / link - 1.0))
        step = np.stack([passes, passes, link, ones], axis=1)
        short = efa[:, None] < self.efa_need
        limit = np.where(short, efa[:, None] / np.where(short, self.efa_need, 1.0), 1.0)
        return TrainingPace(np.minimum(step, limit), np.stack([storage, compute, ones], axis=1), storage)

    def advance(self, elapsed_s: float, run_s: NDArray[np.float64], pace: TrainingPace) -> TrainingWork:
        """Move on and return the work done.

        Args:
            elapsed_s: Length of the window, of which the answer gives shares.
            run_s: For each job, how much of it the job runs.
            pace: Its speed.
        """
        full = np.concatenate([pace.step, pace.storage[:, None], pace.tail], axis=1)
        before = self._cumulative()
        spent = before / full
        reached_s = run_s.copy()
        for column in range(_COLUMNS):
            reached_s += spent[:, column]
        whole = np.concatenate(
            [self._parts * self._steps[:, None], self._stalled_s[:, None], self._tail], axis=1
        )
        cycle_s = np.zeros(len(run_s))
        for column in range(_COLUMNS):
            cycle_s += whole[:, column] / full[:, column]
        cycles = np.floor(reached_s / cycle_s)
        step, in_s = self._locate(np.maximum(reached_s - cycles * cycle_s, 0.0), pace)
        runs = run_s > 0
        cycles[~runs] = 0.0
        self._step, self._in_s = np.where(runs, step, self._step), np.where(runs, in_s, self._in_s)
        self._cycle += cycles.astype(np.int64)
        work = np.maximum(self._cumulative() - before + cycles[:, None] * whole, 0.0)
        for column in range(_PARTS):
            self.productive_s += work[:, column]
        self.productive_s += work[:, _TAIL + 1]
        return TrainingWork(work / elapsed_s, work / full / elapsed_s)

    def step_time_s(self, pace: TrainingPace) -> NDArray[np.float64]:
        """Return the time of a step at a pace, seconds."""
        step_s = np.zeros(len(self.step_s))
        for column in range(_PARTS):
            step_s += self._parts[:, column] / pace.step[:, column]
        return step_s

    def step_shares(self) -> NDArray[np.float64]:
        """Return the phases' shares of a step when nothing is slow; shape (jobs, phases of a step)."""
        return self._parts / self.step_s[:, None]

    def lose(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return jobs to their last complete checkpoint; return the number of steps that each has lost."""
        in_tail = self._step >= self._steps
        is_saved = in_tail & self._saves & (self._in_s >= self._tail[:, 0])
        made = self._executions()
        since = np.where(self._saves, self._step, self._step + self._cycle * self._steps).astype(np.int64)
        lost = np.where(which & ~is_saved, since, 0)
        nominal_s = self._step * self.step_s + self._into_step_s()
        waste_s = np.where(self._saves, np.where(is_saved, 0.0, nominal_s), np.inf)
        self.productive_s -= np.where(which, np.minimum(waste_s, self.productive_s), 0.0)
        kept = np.where(self._saves, self._cycle + is_saved, 0)
        self._cycle = np.where(which, kept, self._cycle)
        self._step = np.where(which, 0.0, self._step)
        self._in_s = np.where(which, 0.0, self._in_s)
        self._extra += np.where(which, made - self._executions(), 0)
        self.steps_lost += lost
        return lost

    def executions(self) -> NDArray[np.uint64]:
        """Return how many executions each job has completed in its life, those of lost steps too."""
        return (self._executions() + self._extra).astype(np.uint64)

    def steps_completed(self) -> NDArray[np.int64]:
        """Return the number of the step that each job has come to, lost ones not counted."""
        return self._cycle * self._steps.astype(np.int64) + self._step.astype(np.int64)

    def phases(self) -> NDArray[np.intp]:
        """Return each job's present phase: `COMPUTE` for any part of a step, else a wait, checkpoint, evaluation or pause."""
        in_tail = self._step >= self._steps
        stalls = ~in_tail & (self._in_s < self._stall_ahead())
        saving, evaluated = self._tail[:, 0], self._tail[:, 0] + self._tail[:, 1]
        tail = np.where(
            self._in_s < saving,
            Phase.CHECKPOINT,
            np.where(self._in_s < evaluated, Phase.EVALUATION, Phase.IDLE),
        )
        return np.where(in_tail, tail, np.where(stalls, Phase.STALL, Phase.COMPUTE))

    def _executions(self) -> NDArray[np.int64]:
        share = np.clip(self._into_step_s() / self.step_s, 0.0, 1.0 - 2.0**-40)
        done: NDArray[np.int64] = self.steps_completed() * EXECUTIONS_PER_STEP
        return done + np.floor(share * EXECUTIONS_PER_STEP).astype(np.int64)

    def _into_step_s(self) -> NDArray[np.float64]:
        """Return the nominal seconds of the current step that are done; 0 in a tail."""
        inside = np.maximum(self._in_s - self._stall_ahead(), 0.0)
        return np.where(self._step < self._steps, inside, 0.0)

    def _stall_ahead(self) -> NDArray[np.float64]:
        """Return the wait that comes before the current step, seconds at the storage's full bandwidth."""
        block = np.floor(self._step / self._block)
        lengths = self.stall_s.shape[1]
        place = (block - np.floor(block / lengths) * lengths).astype(np.intp)
        length_s = self.stall_s[np.arange(len(place)), place]
        return np.where(block * self._block == self._step, length_s, 0.0)

    def _stalls_before(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the waits before a number of blocks, seconds."""
        lengths = self.stall_s.shape[1]
        rounds = np.floor(block / lengths)
        place = (block - rounds * lengths).astype(np.intp)
        rest: NDArray[np.float64] = self._before_s[np.arange(len(place)), place]
        return rounds * self._before_s[:, lengths] + rest

    def _cumulative(self) -> NDArray[np.float64]:
        """Return the nominal work of each phase since the interval's begin: shape (jobs, phases)."""
        in_steps = self._step < self._steps
        ahead_s = self._stall_ahead()
        result = np.empty((len(self._step), _COLUMNS))
        result[:, :_PARTS] = self._parts * self._step[:, None]
        result[:, _STALL] = np.where(
            in_steps,
            self._stalls_before(np.ceil(self._step / self._block)) + np.minimum(self._in_s, ahead_s),
            self._stalled_s,
        )
        left = np.where(in_steps, np.maximum(self._in_s - ahead_s, 0.0), 0.0)
        for column in range(_PARTS):
            part = np.minimum(left, self._parts[:, column])
            result[:, column] += part
            left = left - part
        left = np.where(in_steps, 0.0, self._in_s)
        for column in range(3):
            part = np.minimum(left, self._tail[:, column])
            result[:, _TAIL + column] = part
            left = left - part
        return result

    def _locate(
        self, time_s: NDArray[np.float64], pace: TrainingPace
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return where an interval is after `time_s` of real time: steps made, and nominal seconds into what follows."""
        parts_s = self._parts / pace.step
        step_s = self.step_time_s(pace)
        stall_s = self.stall_s / pace.storage[:, None]
        before_s = self._before_s / pace.storage[:, None]
        lengths = stall_s.shape[1]
        steps_s = self._steps * step_s + self._stalled_s / pace.storage
        in_tail = time_s >= steps_s
        # Blocks differ in their waits only, and these go round: whole rounds first, then the block within one.
        block_s = self._block * step_s
        round_s = before_s[:, lengths] + lengths * block_s
        rounds = np.floor(time_s / round_s)
        left = np.maximum(time_s - rounds * round_s, 0.0)
        place = np.zeros(len(left), np.intp)
        for index in range(1, lengths):
            place += left >= before_s[:, index] + index * block_s
        rows = np.arange(len(left))
        left = np.maximum(left - before_s[rows, place] - place * block_s, 0.0)
        ahead_s = stall_s[rows, place]
        stalled_s = np.minimum(left, ahead_s)
        left = left - stalled_s
        inside = np.minimum(np.floor(left / step_s), self._block - 1.0)
        step = np.minimum((rounds * lengths + place) * self._block + inside, self._steps - 1.0)
        left = np.maximum(left - inside * step_s, 0.0)
        in_s = np.where(inside == 0, stalled_s * pace.storage, 0.0)
        for column in range(_PARTS):
            part = np.minimum(left, parts_s[:, column])
            in_s = in_s + part * pace.step[:, column]
            left = left - part
        left = np.where(in_tail, time_s - steps_s, 0.0)
        tail_s = np.zeros(len(left))
        for column in range(3):
            part = np.minimum(left, self._tail[:, column] / pace.tail[:, column])
            tail_s = tail_s + part * pace.tail[:, column]
            left = left - part
        return np.where(in_tail, self._steps, step), np.where(in_tail, tail_s, in_s)


def training_of(jobs: Sequence[Job]) -> tuple[list[Training | FineTuning], NDArray[np.intp]]:
    """Return a file's training and fine-tuning jobs and their numbers among all its jobs."""
    chosen = [(number, job) for number, job in enumerate(jobs) if isinstance(job, Training | FineTuning)]
    return [job for _, job in chosen], np.array([number for number, _ in chosen], np.intp)


def _count(ordinals: NDArray[np.intp]) -> int:
    return int(ordinals.max()) + 1 if len(ordinals) else 0
