"""Cycles of training jobs: variation of steps, waits and checkpoints.

A cycle lies between the ends of two checkpoints: blocks of steps, each after a wait for data, and a
tail of checkpoint, evaluation and pause. Owns the draws of each job's present cycle, keyed by its
number and by the job's failures, so that they are the same for windows of any length and in any
shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.rng import Stream, bell, next_word, share_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.sim.rng import Rng

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
        drawn = next_word(word[:, None], np.arange(lead + waits, dtype=np.int64)[None, :])
        varied = bell(drawn[:, :lead])
        self.pace[rows] = 1.0 + CYCLE_SD * varied[:, 0]
        self.tail[rows] = 1.0 + np.array(TAIL_SD) * varied[:, 1:lead]
        spread = 1.0 + WAIT_SPREAD * (2.0 * share_of(drawn[:, lead:]) - 1.0)
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
        result: NDArray[np.float64] = self.pace * (step + np.where(inside, stray, 0.0))
        return result

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
