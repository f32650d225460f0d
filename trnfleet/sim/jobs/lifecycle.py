"""Lifecycle of jobs: not begun, starting, running, hung, down, ended; all jobs at once.

Divides a window among these, exactly for windows of any length. The work of a running job is its
kind's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.jobs.startup import Startup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Job
    from trnfleet.sim.jobs.startup import StartWork


@dataclass(frozen=True, slots=True)
class WindowSplit:
    """Division of a window for each job; seconds, arrays of shape (jobs,)."""

    live_s: NDArray[np.float64]
    """Between its beginning and its end, failed or not."""
    run_s: NDArray[np.float64]
    start: StartWork
    """Its start."""
    hang_s: NDArray[np.float64]
    idle_s: NDArray[np.float64]
    failed: NDArray[np.bool_]
    """Whether its processes have gone away, and with them all since its last checkpoint."""
    hung: NDArray[np.bool_]
    """Whether its hang has become known."""
    resumed: NDArray[np.bool_]
    """Whether it goes on after a known hang."""
    restarted: NDArray[np.bool_]
    """Whether it has begun to start again."""
    started: NDArray[np.bool_]
    """Whether it has begun to start for the first time."""
    ended: NDArray[np.bool_]


class JobLifecycle:
    """The lifecycle of all jobs, in the fleet file's order."""

    def __init__(self, jobs: Sequence[Job], load_s: NDArray[np.float64]) -> None:
        """Begin with the jobs without a start time running.

        Args:
            jobs: From the fleet file.
            load_s: Time that each one's weights take to load.
        """
        never = np.inf
        self._jobs = tuple(jobs)
        self._from_s = np.array(
            [-never if job.starts_at_s is None else job.starts_at_s for job in jobs]
        )
        self._until_s = np.array(
            [never if job.ends_at_s is None else job.ends_at_s for job in jobs]
        )
        # A reserved instance has nothing to start.
        compile_s, warm_up_s = (
            np.array([float(getattr(job, name, 0.0)) for job in jobs])
            for name in ("compile_s", "startup_s")
        )
        count = len(jobs)
        self.startup = Startup(compile_s, load_s, warm_up_s)
        self.startup.restart(~np.isneginf(self._from_s), is_cold=True)
        self.halt = np.zeros(count, np.int8)
        self.hung_at_s = np.full(count, never)
        """When the present hang of each job becomes known; infinite without one."""
        self.is_hung = np.zeros(count, np.bool_)
        """Jobs whose hang is known."""
        self._begun = np.isneginf(self._from_s)
        self._ended = np.zeros(count, np.bool_)

    @property
    def there(self) -> NDArray[np.bool_]:
        """Jobs that have begun and not ended."""
        return self._begun & ~self._ended

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Jobs begun, not ended, and with running processes."""
        return self.there & (self.halt < Halt.DOWN)

    def withhold(self, job: int) -> None:
        """Keep a job waiting for `open`, as if it had never begun."""
        self._from_s[job] = np.inf
        self._begun[job] = False
        self.startup.restart(job, is_cold=True)

    def open(self, job: int, at_s: float) -> None:
        """Start a job at `at_s`, or at its own time if later."""
        starts_at_s = self._jobs[job].starts_at_s
        ends_at_s = self._jobs[job].ends_at_s
        self._from_s[job] = at_s if starts_at_s is None else max(at_s, starts_at_s)
        self._until_s[job] = np.inf if ends_at_s is None else ends_at_s
        self.startup.restart(job, is_cold=True)
        self._begun[job] = False
        self._ended[job] = self._until_s[job] <= self._from_s[job]

    def close(self, job: int, at_s: float) -> None:
        """End a job at `at_s`, or at its own time if earlier."""
        self._until_s[job] = min(self._until_s[job], at_s)

    def advance(
        self,
        elapsed_s: float,
        middle_s: float,
        halt: NDArray[np.int8],
        storage: NDArray[np.float64],
        hung_after_s: NDArray[np.float64],
        is_cold: NDArray[np.bool_],
    ) -> WindowSplit:
        """Move on by `elapsed_s` and return its division.

        Args:
            elapsed_s: Length of the window.
            middle_s: Its middle, simulated seconds since the start.
            halt: For each job, a `Halt`.
            storage: For each job, its share of the shared storage's bandwidth, which a start waits
                for.
            hung_after_s: For each job, the time without a step after which its hang is known.
            is_cold: Jobs that are down and have to compile.
        """
        begin_s = middle_s - elapsed_s / 2.0
        end_s = middle_s + elapsed_s / 2.0
        live_s = np.clip(
            np.minimum(self._until_s, end_s) - np.maximum(self._from_s, begin_s), 0.0, elapsed_s
        )
        # Rounding must not take a sliver from jobs without an end.
        live_s[(self._from_s <= begin_s) & (self._until_s >= end_s)] = elapsed_s
        started = ~self._begun & (self._from_s < end_s)
        ended = ~self._ended & (self._until_s <= end_s)
        was_down = self.halt >= Halt.DOWN
        is_down = halt >= Halt.DOWN
        known = self._begun & ~self._ended
        failed = known & is_down & ~was_down
        restarted = known & was_down & ~is_down
        hangs = halt == Halt.HANG
        begins = hangs & (self.halt != Halt.HANG)
        self.hung_at_s[begins] = begin_s + hung_after_s[begins]
        self.hung_at_s[~hangs] = np.inf
        was_hung = self.is_hung
        self.is_hung = hangs & (self.hung_at_s <= end_s)
        hung = known & self.is_hung & ~was_hung
        resumed = known & (halt == Halt.NONE) & was_hung
        self.startup.restart(is_down, is_cold=is_cold[is_down])
        hang_s = np.where(hangs, live_s, 0.0)
        free_s = np.where(halt == Halt.NONE, live_s, 0.0)
        start = self.startup.advance(free_s, storage)
        self._begun |= started
        self._ended |= ended
        self.halt = halt.copy()
        return WindowSplit(
            live_s=live_s,
            run_s=start.left_s,
            start=start,
            hang_s=hang_s,
            idle_s=elapsed_s - hang_s - free_s,
            failed=failed,
            hung=hung,
            resumed=resumed,
            restarted=restarted,
            started=started,
            ended=ended,
        )
