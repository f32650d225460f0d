"""Training and fine-tuning jobs: steps, data waits, checkpoints, evaluations and pauses.

All jobs are computed at once. Owns the jobs' progress. The time per phase in a window is the
difference of cumulative functions at the window's ends, cycle by cycle, so that windows of any
length give the same averages. Steps, waits and checkpoints vary in length (`cycles`): a step's work
is constant, so a longer one runs more slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.jobs import FineTuning, Training
from trnfleet.sim.jobs.activity import (
    AXES,
    AXIS_QUANTITIES,
    EFA_CEILING,
    LINK_CEILING,
    QUANTITIES,
    STEP,
    TRAINING,
    Phase,
)
from trnfleet.sim.rng import Rng, Stream, bell, next_word, share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Job
    from trnfleet.sim.jobs.training_plan import StepPlan


CYCLE_SD = 0.010
"""Relative standard deviation of a cycle's pace (network, temperature, data): assumed. Published: 1
to 2 % variation of throughput within a day (The Llama 3 Herd of Models)."""
DRIFT_SD = 0.05
DRIFT_STEPS = 16
"""Drift of step begins per `DRIFT_STEPS` steps, in steps: assumed. 0.4 % of these steps' time."""
STEP_SD = 0.0055
"""Further deviation of each step's begin, in steps: assumed. 0.8 % of a step's time. With the
values above, step times have a standard deviation of about 1.3 %; over 64,000 GPUs 9 % of GPU time
were published (PRISM, arXiv 2510.15596)."""
TAIL_SD = (0.10, 0.03, 0.20)
"""Relative standard deviations of checkpoints, evaluations and pauses: assumed. Checkpoints share
their storage with others."""
WAIT_SPREAD = 0.5
"""Largest relative deviation of a wait for data from its mean: assumed. Evenly distributed, as in
the fleet files."""
SLOW_STEPS = 500
"""One step in this many is slow because of the software (sequence lengths, garbage collection):
assumed, with at most one a cycle."""
SLOW_STEP = (0.2, 10.0)
"""Least excess of such a step over the mean, and the factor up to the largest one, 2: assumed.
Published: irregular steps take over twice as long (HOLMES)."""
MOST_WAITS = 64
"""Most waits drawn per cycle; a cycle with more reuses them in turn."""


class Cycles:
    """The present cycle of each job; arrays of shape (jobs, ...)."""

    def __init__(
        self,
        rng: Rng,
        ordinals: NDArray[np.intp],
        steps: NDArray[np.float64],
        block: NDArray[np.float64],
        wait_s: NDArray[np.float64],
    ) -> None:
        """Take the jobs' constants; `draw` begins a cycle.

        Args:
            rng: The run's randomness.
            ordinals: Numbers of the jobs among all jobs of the file, which key their draws.
            steps: Steps of a cycle.
            block: Steps between two waits for data.
            wait_s: Mean length of a wait, 0 for none.
        """
        self._rng = rng
        self._ordinals = ordinals.astype(np.int64)
        self._steps = steps
        self._block = block
        self._wait_s = wait_s
        self.blocks = np.ceil(steps / block)
        """Blocks of a cycle, and with them its waits."""
        count = len(steps)
        waits = 1
        if len(steps) and wait_s.any():
            waits = int(min(self.blocks[wait_s > 0].max(), MOST_WAITS))
        self._word = np.zeros(count, np.uint64)
        self.pace = np.ones(count)
        """Length of the cycle's steps over their mean."""
        self.slow_step = np.full(count, -1.0)
        """The cycle's slow step; -1 without one."""
        self.excess = np.zeros(count)
        """How much longer it is, in mean steps."""
        self.tail = np.ones((count, 3))
        """The same of its checkpoint, evaluation and pause."""
        self.waits_s = np.zeros((count, waits))
        """Lengths of its waits for data, used in turn."""
        self.before_s = np.zeros((count, waits + 1))
        """Sum of the waits before each of these, and of all of them."""

    def draw(
        self, which: NDArray[np.bool_], cycle: NDArray[np.int64], failures: NDArray[np.int64]
    ) -> None:
        """Draw the cycles that some jobs begin.

        Args:
            which: The jobs.
            cycle: The cycles' numbers, of all jobs.
            failures: Failures of each job so far: a repeated cycle is drawn again.
        """
        rows = np.flatnonzero(which)
        word = self._rng.scattered(Stream.CYCLE, self._ordinals[rows], cycle[rows], failures[rows])
        self._word[rows] = word
        lead = 4
        waits = self.waits_s.shape[1]
        drawn = next_word(word[:, None], np.arange(lead + waits + 3, dtype=np.int64)[None, :])
        chance, place, strength = share_of(drawn[:, lead + waits :]).T
        steps = self._steps[rows]
        is_slow = chance < steps / SLOW_STEPS
        self.slow_step[rows] = np.where(is_slow, np.floor(place * steps), -1.0)
        least, factor = SLOW_STEP
        self.excess[rows] = np.where(is_slow, least * factor**strength, 0.0)
        varied = bell(drawn[:, :lead])
        self.pace[rows] = 1.0 + CYCLE_SD * varied[:, 0]
        self.tail[rows] = 1.0 + np.array(TAIL_SD) * varied[:, 1:lead]
        spread = 1.0 + WAIT_SPREAD * (2.0 * share_of(drawn[:, lead : lead + waits]) - 1.0)
        self.waits_s[rows] = self._wait_s[rows, None] * spread
        self.before_s[rows, 1:] = np.cumsum(self.waits_s[rows], axis=1)

    def steps_s(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time of the steps before `step`, in mean steps.

        `step` and the result have the shape (..., jobs).
        """
        inside = (step > 0.0) & (step < self._steps)
        first = np.minimum(np.floor(step / DRIFT_STEPS), 2.0**40) * DRIFT_STEPS
        last = np.minimum(first + DRIFT_STEPS, self._steps)
        keys = np.stack([step * 2.0 + 1.0, first * 2.0, last * 2.0]).astype(np.int64)
        own, before, after = bell(next_word(self._word, keys + 4_096))
        before = np.where(first > 0.0, before, 0.0)
        after = np.where(last < self._steps, after, 0.0)
        place = (step - first) / np.maximum(last - first, 1.0)
        stray = STEP_SD * own + DRIFT_SD * (before + (after - before) * place)
        late = np.where(step > self.slow_step, self.excess, 0.0)
        result: NDArray[np.float64] = self.pace * (step + np.where(inside, stray, 0.0) + late)
        return result

    @property
    def length(self) -> NDArray[np.float64]:
        """Time of the cycle's steps over that of as many mean steps."""
        return self.pace * (1.0 + self.excess / self._steps)

    def wait_ahead_s(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the wait before a step, seconds at the storage's full bandwidth.

        0 without a wait.
        """
        block = np.floor(step / self._block)
        waits = self.waits_s.shape[1]
        place = (block - np.floor(block / waits) * waits).astype(np.intp)
        length_s = self.waits_s[np.arange(len(place)), place]
        return np.where((block * self._block == step) & (step < self._steps), length_s, 0.0)

    def waited_s(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the waits before a number of blocks, seconds.

        `block` and the result have the shape (..., jobs).
        """
        waits = self.waits_s.shape[1]
        rounds = np.floor(block / waits)
        place = (block - rounds * waits).astype(np.intp)
        rest = self.before_s[np.arange(block.shape[-1]), place]
        result: NDArray[np.float64] = rounds * self.before_s[:, waits] + rest
        return result


EXECUTIONS_PER_STEP = 8
"""Graph executions per optimizer step (gradient accumulation): assumed."""

_LIVED_CYCLES = 400
"""Largest age of a job at the start of the simulation, in checkpoint intervals: assumed."""
_ENDLESS_STEPS = 64
"""Least steps per nominal cycle of a job without checkpoints."""
MOST_CYCLES = 64
"""Most cycles of a window computed one by one. Further ones have their mean length."""
_PARTS = len(STEP)
_STALL, _TAIL = TRAINING.index(Phase.STALL), TRAINING.index(Phase.CHECKPOINT)
_COLUMNS = len(TRAINING)


class TrainingWork(NamedTuple):
    """Work of training jobs in a window.

    Arrays have the shape (jobs, phases), with the phases of `activity.TRAINING`.
    """

    work: NDArray[np.float64]
    """Nominal seconds of work done a second, by phase."""
    time: NDArray[np.float64]
    """Share of the window spent, by phase."""
    steps_per_s: NDArray[np.float64]
    """Steps made a second, parts of one by their time; shape (jobs,)."""
    step_s: NDArray[np.float64]
    """Time of a job's current step; in a tail, of its cycle's last; shape (jobs,)."""


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
        """Begin in the middle of the jobs' lives, drawn from the seed.

        Jobs with a later start begin with step 0.

        Args:
            jobs: From the fleet file.
            plans: Their steps.
            ordinals: Their numbers among all jobs of the file: keys of their draws.
            rng: The run's randomness.
        """
        self._parts = np.array([plan[:_PARTS] for plan in plans], np.float64).reshape(-1, _PARTS)
        self.step_s = self._parts[:, 0] + self._parts[:, 1] + self._parts[:, 2] + self._parts[:, 3]
        """Time of a step when nothing is slow."""
        self.mfu = np.array([plan.flops.mfu for plan in plans], np.float64)
        self.tokens_per_step = np.array([plan.flops.tokens for plan in plans], np.float64)
        self.compute_flops_share = np.array(
            [plan.compute_flops_share for plan in plans], np.float64
        )
        """FLOP/s of the compute phase as a share of the dense BF16 peak. A whole step then has the
        job's MFU; other phases of a step have no FLOPs."""
        self._link_wait = np.array([plan.link_wait for plan in plans], np.float64)
        self._tensor_axes = np.array([plan.tensor_axes for plan in plans], np.bool_).reshape(
            -1, len(AXES)
        )
        tables = np.array([plan.activity for plan in plans], np.float64).reshape(
            -1, len(Phase), len(QUANTITIES)
        )
        self._link_need = tables[:, [*STEP]][:, :, AXIS_QUANTITIES] / LINK_CEILING
        """Share of reachable NeuronLink bandwidth by phase of a step and axis; shape (jobs, phases
        of a step, axes)."""
        self.link_need = np.where(self._tensor_axes, 1.0, self._link_need.max(axis=1))
        """The same of the busiest phase; all of it where tensor parallelism sends in bursts. Shape
        (jobs, axes)."""
        efa = np.array([plan.activity[list(STEP), QUANTITIES["efa"]] for plan in plans]).reshape(
            -1, _PARTS
        )
        self.efa_need = efa / EFA_CEILING
        """Each step phase's share of reachable EFA bandwidth; shape (jobs, phases of a step)."""
        self._set_intervals(jobs, plans, rng, ordinals)
        draws = np.stack(
            [rng.uniform(Stream.JOB_START, index, _count(ordinals)) for index in (0, 1)]
        )
        lived, place = draws[:, ordinals]
        is_new = np.array([job.starts_at_s is not None for job in jobs], np.bool_)
        self._cycle = np.where(is_new, 0, (lived * _LIVED_CYCLES).astype(np.int64))
        self._failures = np.zeros(len(jobs), np.int64)
        self._cycles.draw(np.ones(len(jobs), np.bool_), self._cycle, self._failures)
        # The first half of an interval, so that no job opens with a checkpoint.
        begin_s = np.where(is_new, 0.0, place * 0.5 * self._steps * self.step_s)
        ones = np.ones(len(jobs))
        full = self.pace(ones, np.ones((len(jobs), len(AXES))), ones, ones)
        self._step, self._in_s = self._locate(begin_s, full)
        self._set_near()
        self._extra = np.zeros(len(jobs), np.int64)
        self.productive_s = np.zeros(len(jobs))
        """Nominal time of steps and evaluations done and not lost since the simulation's start."""
        self.steps_lost = np.zeros(len(jobs), np.int64)
        """Steps done and lost since the simulation's start."""

    def _set_intervals(
        self,
        jobs: Sequence[Training | FineTuning],
        plans: Sequence[StepPlan],
        rng: Rng,
        ordinals: NDArray[np.intp],
    ) -> None:
        """Set the parts of a cycle.

        These are blocks of steps, each after a data wait, and a tail.
        """
        checkpoint = np.array([job.checkpoint_every_steps for job in jobs], np.int64)
        stall = np.array([job.data_stall_every_steps for job in jobs], np.int64)
        self._saves = checkpoint > 0
        block = np.maximum(stall, 1)
        endless = -(-_ENDLESS_STEPS // block) * block
        self._steps = np.where(self._saves, checkpoint, endless).astype(np.float64)
        self._block = np.where(stall > 0, np.minimum(stall, self._steps), self._steps).astype(
            np.float64
        )
        wait_s = np.where(stall > 0, [job.data_stall_s for job in jobs], 0.0)
        self._cycles = Cycles(rng, ordinals, self._steps, self._block, wait_s)
        self._tail = np.array(
            [
                (
                    plan.checkpoint_s if job.checkpoint_every_steps else 0.0,
                    job.evaluation_s if isinstance(job, FineTuning) else 0.0,
                    job.pause_s if isinstance(job, FineTuning) else 0.0,
                )
                for job, plan in zip(jobs, plans, strict=True)
            ]
        ).reshape(-1, 3)
        waits_s = wait_s * self._cycles.blocks
        self._whole = np.concatenate(
            [self._parts * self._steps[:, None], waits_s[:, None], self._tail], axis=1
        )
        """Nominal work of a mean cycle by phase; shape (jobs, phases)."""

    def pace(
        self,
        compute: NDArray[np.float64],
        link: NDArray[np.float64],
        efa: NDArray[np.float64],
        storage: NDArray[np.float64],
    ) -> TrainingPace:
        """Return the speed of each phase.

        A slow link costs time where its axis has no room left. Collectives of gradients use one
        axis after the other. Forward and backward passes wait for the links of tensor parallelism
        in its part of their time, and for others only if these cannot carry the traffic meanwhile.

        Args:
            compute: For each job, the slowest chip's share of peak.
            link: For each job and axis, the share of their bandwidth that its collectives get.
            efa: For each job, the share of EFA bandwidth that it gets; it slows the phases that
                need more.
            storage: For each job, the share of the shared storage's bandwidth that it gets.
        """
        ones = np.ones_like(compute)
        wait = np.where(self._tensor_axes, link, 1.0).min(axis=1)
        passes = compute / (1.0 + compute * self._link_wait * (1.0 / wait - 1.0))
        # The share of its reachable bandwidth that a phase needs, over the share that is there.
        carried = 1.0 / np.maximum(self._link_need / link[:, None, :], 1.0).max(axis=2)
        place = STEP.index(Phase.COLLECTIVE)
        part = self._link_need[:, place]
        part = part / np.maximum(_sum(part), 1.0)[:, None]
        carried[:, place] = 1.0 / (1.0 + _sum(part * (1.0 / link - 1.0)))
        step = np.minimum(np.stack([passes, passes, ones, ones], axis=1), carried)
        short = efa[:, None] < self.efa_need
        limit = np.where(short, efa[:, None] / np.where(short, self.efa_need, 1.0), 1.0)
        return TrainingPace(
            np.minimum(step, limit), np.stack([storage, compute, ones], axis=1), storage
        )

    def advance(
        self, elapsed_s: float, run_s: NDArray[np.float64], pace: TrainingPace
    ) -> TrainingWork:
        """Move on and return the work done.

        Args:
            elapsed_s: Length of the window, of which the answer gives shares.
            run_s: For each job, how much of it the job runs.
            pace: Its speed.
        """
        full = np.concatenate([pace.step, pace.storage[:, None], pace.tail], axis=1)
        runs = run_s > 0
        work = np.zeros_like(full)
        time = np.zeros_like(full)
        before_work, before_time = self._cumulative()
        before_time /= full
        steps = -self._steps_made(pace)
        left_s = run_s + _sum(before_time)
        while True:
            whole_work, whole_time = self._whole_cycle()
            whole_time /= full
            cycle_s = _sum(whole_time)
            over = runs & (left_s >= cycle_s)
            if not over.any():
                break
            share = over.astype(np.float64)
            work += (whole_work - before_work) * share[:, None]
            time += (whole_time - before_time) * share[:, None]
            before_work[over], before_time[over] = 0.0, 0.0
            left_s = np.where(over, np.maximum(left_s - cycle_s, 0.0), left_s)
            mean_time = self._whole / full
            mean_s = _sum(mean_time)
            many = np.where(over, np.floor(left_s / mean_s) - MOST_CYCLES, 0.0)
            many = np.where(many > 1.0, many, 0.0)
            work += self._whole * many[:, None]
            time += mean_time * many[:, None]
            left_s = left_s - mean_s * many
            steps += (share + many) * self._steps
            self._cycle += (share + many).astype(np.int64)
            self._cycles.draw(over, self._cycle, self._failures)
        step, in_s = self._locate(left_s, pace)
        self._step, self._in_s = np.where(runs, step, self._step), np.where(runs, in_s, self._in_s)
        self._set_near()
        after_work, after_time = self._cumulative()
        work = np.maximum(work + after_work - before_work, 0.0)
        time = np.maximum(time + after_time / full - before_time, 0.0)
        steps = np.maximum(steps + self._steps_made(pace), 0.0)
        self.productive_s += _sum(work[:, :_PARTS]) + work[:, _TAIL + 1]
        return TrainingWork(
            work / elapsed_s,
            time / elapsed_s,
            steps / elapsed_s,
            self.step_time_s(pace) * self._length,
        )

    def mean_cycle(self, pace: TrainingPace) -> TrainingWork:
        """Return the work of a whole mean cycle at a pace.

        It stands for the history of a job in the middle of its life.
        """
        full = np.concatenate([pace.step, pace.storage[:, None], pace.tail], axis=1)
        time = self._whole / full
        cycle_s = _sum(time)
        share = cycle_s[:, None]
        return TrainingWork(
            self._whole / share, time / share, self._steps / cycle_s, self.step_time_s(pace)
        )

    def step_time_s(self, pace: TrainingPace) -> NDArray[np.float64]:
        """Return the mean time of a step at a pace, seconds."""
        step_s = np.zeros(len(self.step_s))
        for column in range(_PARTS):
            step_s += self._parts[:, column] / pace.step[:, column]
        return step_s

    def step_shares(self) -> NDArray[np.float64]:
        """Return the phases' shares of a step at full speed.

        Shape (jobs, phases of a step).
        """
        return self._parts / self.step_s[:, None]

    def lose(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Reset jobs to their last complete checkpoint; return the steps lost by each."""
        in_tail = self._step >= self._steps
        is_saved = in_tail & self._saves & (self._in_s >= self._tail[:, 0])
        made = self._executions()
        since = np.where(self._saves, self._step, self._step + self._cycle * self._steps).astype(
            np.int64
        )
        lost = np.where(which & ~is_saved, since, 0)
        nominal_s = self._step * self.step_s + self._into_step_s()
        waste_s = np.where(self._saves, np.where(is_saved, 0.0, nominal_s), np.inf)
        self.productive_s -= np.where(which, np.minimum(waste_s, self.productive_s), 0.0)
        cycle = np.where(self._saves, self._cycle + is_saved, 0)
        self._cycle = np.where(which, cycle, self._cycle)
        self._step = np.where(which, 0.0, self._step)
        self._in_s = np.where(which, 0.0, self._in_s)
        self._failures += which
        self._cycles.draw(which, self._cycle, self._failures)
        self._set_near()
        self._extra += np.where(which, made - self._executions(), 0)
        self.steps_lost += lost
        return lost

    def executions(self) -> NDArray[np.uint64]:
        """Return each job's completed executions, including lost steps."""
        return (self._executions() + self._extra).astype(np.uint64)

    def steps_completed(self) -> NDArray[np.int64]:
        """Return each job's current step number, without lost steps."""
        return self._cycle * self._steps.astype(np.int64) + self._step.astype(np.int64)

    def phases(self) -> NDArray[np.intp]:
        """Return each job's present phase.

        `COMPUTE` for any part of a step, else a wait, checkpoint, evaluation or pause.
        """
        in_tail = self._step >= self._steps
        stalls = ~in_tail & (self._in_s < self._ahead_s)
        saving = self._tail[:, 0]
        evaluated = self._tail[:, 0] + self._tail[:, 1]
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
        inside = np.maximum(self._in_s - self._ahead_s, 0.0)
        return np.where(self._step < self._steps, inside, 0.0)

    def _steps_made(self, pace: TrainingPace) -> NDArray[np.float64]:
        """Return the steps done since the cycle's begin.

        The current one counts in proportion to its time.
        """
        left = self._into_step_s()
        into_s = np.zeros(len(left))
        for column in range(_PARTS):
            part = np.minimum(left, self._parts[:, column])
            into_s += part / pace.step[:, column]
            left = left - part
        made: NDArray[np.float64] = self._step + into_s / self.step_time_s(pace)
        return made

    def _set_near(self) -> None:
        """Set the values for the current step's place in its cycle."""
        begin, end = self._cycles.steps_s(np.stack([self._step, self._step + 1.0]))
        self._begin = begin
        """Time of the cycle's steps before the current one, in mean steps."""
        self._length = np.where(self._step < self._steps, end - begin, self._cycles.pace)
        """Time of the current step, in mean steps."""
        self._ahead_s = self._cycles.wait_ahead_s(self._step)
        """Wait before the current step, seconds at the storage's full bandwidth."""

    def _whole_cycle(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return nominal work and time of the present cycle at full speed, by phase.

        Shape (jobs, phases).
        """
        cycles = self._cycles
        work = self._whole.copy()
        work[:, _STALL] = cycles.waited_s(cycles.blocks)
        time = work.copy()
        time[:, :_PARTS] *= cycles.length[:, None]
        time[:, _TAIL:] *= cycles.tail
        return work, time

    def _cumulative(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return nominal work and time at full speed since the cycle's begin, by phase.

        Shape (jobs, phases).
        """
        in_steps = self._step < self._steps
        work = np.empty((len(self._step), _COLUMNS))
        waited_s = self._cycles.waited_s(np.ceil(self._step / self._block))
        waiting_s = np.where(in_steps, np.minimum(self._in_s, self._ahead_s), 0.0)
        work[:, _STALL] = waited_s + waiting_s
        time = work.copy()
        left = self._into_step_s()
        for column in range(_PARTS):
            part = np.minimum(left, self._parts[:, column])
            work[:, column] = self._parts[:, column] * self._step + part
            time[:, column] = self._parts[:, column] * self._begin + part * self._length
            left = left - part
        left = np.where(in_steps, 0.0, self._in_s)
        for column in range(3):
            part = np.minimum(left, self._tail[:, column])
            work[:, _TAIL + column] = part
            time[:, _TAIL + column] = part * self._cycles.tail[:, column]
            left = left - part
        return work, time

    def _locate(
        self, time_s: NDArray[np.float64], pace: TrainingPace
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a cycle's position after `time_s` of real time.

        The position is the steps done, and the nominal seconds into the part after them.
        """
        cycles = self._cycles
        step_s = self.step_time_s(pace)
        steps_s = (
            self._steps * cycles.length * step_s + cycles.waited_s(cycles.blocks) / pace.storage
        )
        in_tail = time_s >= steps_s
        # Before the slow step, in it, or behind it.
        before, after = (
            self._guess(np.maximum(passed_s, 0.0), pace, cycles.pace * step_s)
            for passed_s in (time_s, time_s - cycles.excess * cycles.pace * step_s)
        )
        guess = np.clip(cycles.slow_step, after, before)
        # Steps stray by less than a step.
        near = np.clip(guess + np.array([[-1.0], [0.0], [1.0]]), 0.0, self._steps - 1.0)
        begins = cycles.steps_s(near)
        begin_s = begins * step_s + cycles.waited_s(np.ceil(near / self._block)) / pace.storage
        chosen = (time_s >= begin_s[1]).astype(np.intp) + (time_s >= begin_s[2])
        rows = np.arange(len(chosen))
        step = near[chosen, rows]
        length = cycles.steps_s(step + 1.0) - begins[chosen, rows]
        left = np.maximum(time_s - begin_s[chosen, rows], 0.0)
        stalled_s = np.minimum(left, cycles.wait_ahead_s(step) / pace.storage)
        left = left - stalled_s
        in_s = stalled_s * pace.storage
        for column in range(_PARTS):
            part = np.minimum(left, self._parts[:, column] * length / pace.step[:, column])
            in_s = in_s + part * pace.step[:, column] / length
            left = left - part
        left = np.where(in_tail, time_s - steps_s, 0.0)
        tail_s = np.zeros(len(left))
        for column in range(3):
            stretch = cycles.tail[:, column] / pace.tail[:, column]
            part = np.minimum(left, self._tail[:, column] * stretch)
            tail_s = tail_s + part / stretch
            left = left - part
        return np.where(in_tail, self._steps, step), np.where(in_tail, tail_s, in_s)

    def _guess(
        self, time_s: NDArray[np.float64], pace: TrainingPace, step_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a cycle's step after `time_s` if all its steps last `step_s`.

        It may be off by one.
        """
        waits_s = self._cycles.waits_s / pace.storage[:, None]
        before_s = self._cycles.before_s / pace.storage[:, None]
        count = waits_s.shape[1]
        # Blocks differ in their waits only, and these go round: whole rounds first, then the block
        # within one.
        block_s = self._block * step_s
        round_s = before_s[:, count] + count * block_s
        rounds = np.floor(time_s / round_s)
        left = np.maximum(time_s - rounds * round_s, 0.0)
        later_s = before_s[:, 1:count] + np.arange(1, count) * block_s[:, None]
        place = (left[:, None] >= later_s).sum(axis=1)
        rows = np.arange(len(left))
        left = np.maximum(
            left - before_s[rows, place] - place * block_s - waits_s[rows, place], 0.0
        )
        inside = np.minimum(np.floor(left / step_s), self._block - 1.0)
        step: NDArray[np.float64] = (rounds * count + place) * self._block + inside
        return np.minimum(step, self._steps - 1.0)


def training_of(jobs: Sequence[Job]) -> tuple[list[Training | FineTuning], NDArray[np.intp]]:
    """Return a file's training and fine-tuning jobs and their numbers among all its jobs."""
    chosen = [
        (number, job) for number, job in enumerate(jobs) if isinstance(job, Training | FineTuning)
    ]
    return [job for _, job in chosen], np.array([number for number, _ in chosen], np.intp)


def _sum(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums over columns, in a fixed order."""
    total = np.zeros(len(columns))
    for column in columns.T:
        total += column
    return total


def _count(ordinals: NDArray[np.intp]) -> int:
    return int(ordinals.max()) + 1 if len(ordinals) else 0
