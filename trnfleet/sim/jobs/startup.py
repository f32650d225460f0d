"""Starts of jobs and of replicas: their graphs compile, their weights load, and they warm up.

Divides time among these parts, exactly for windows of any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.sim.jobs.activity import Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

STARTUP = (Phase.COMPILE, Phase.LOAD, Phase.START)
"""The parts of a start, in order."""
MEMORY_IDLE = 0.02
MEMORY_BUSY = 0.22
"""Share of host memory in use without and with a job: assumed. Used for buffers, data loading and
checkpoint staging."""
MEMORY_OF_STARTS = (0.45, 0.35, MEMORY_BUSY)
"""The same in each part of a start: assumed. The compiler needs most, and weights pass through it.
"""
_COMPILE, _LOAD, _WARM_UP = range(len(STARTUP))


class StartWork(NamedTuple):
    """A window's part of starts; the first two arrays have the shape (parts, rows)."""

    time_s: NDArray[np.float64]
    work_s: NDArray[np.float64]
    """Seconds of work at full speed. A warm-up ramps up from 0."""
    loaded_s: NDArray[np.float64]
    """Seconds of `time_s` times the loaded share of what goes into HBM; shape (rows,)."""
    left_s: NDArray[np.float64]
    """What is left of the window for work; shape (rows,)."""

    def over(self, elapsed_s: float) -> StartWork:
        """Return the shares of a window."""
        return StartWork(*(seconds / elapsed_s for seconds in self))


class Startup:
    """How far each start has come."""

    def __init__(
        self,
        compile_s: NDArray[np.float64],
        load_s: NDArray[np.float64],
        warm_up_s: NDArray[np.float64],
    ) -> None:
        """Begin with all starts over.

        Args:
            compile_s: Time to compile all graphs, for each row.
            load_s: Time to load weights at the full bandwidth of the shared storage. If unknown, 0:
                they load during the warm-up.
            warm_up_s: Time from then to full speed.
        """
        self._lengths_s = np.stack([compile_s, load_s, warm_up_s])
        self._left_s = np.zeros_like(self._lengths_s)

    @property
    def part(self) -> NDArray[np.intp]:
        """Place in `STARTUP` of the present part of each row; behind the last one without any."""
        open_parts = self._left_s > 0.0
        return np.where(open_parts.any(axis=0), open_parts.argmax(axis=0), len(STARTUP))

    def restart(self, rows: NDArray[np.bool_] | int, *, is_cold: NDArray[np.bool_] | bool) -> None:
        """Let some rows start again.

        Graphs compile where it is cold, and where they were not all compiled yet.
        """
        compiles = (self._left_s[_COMPILE, rows] > 0.0) | is_cold
        self._left_s[:, rows] = self._lengths_s[:, rows]
        self._left_s[_COMPILE, rows] *= compiles

    def advance(
        self, free_s: NDArray[np.float64], storage: NDArray[np.float64] | float = 1.0
    ) -> StartWork:
        """Move on by the time that each row has.

        Args:
            free_s: This time.
            storage: Share of the shared storage's bandwidth, by which weights load.
        """
        if not self._left_s.any():
            nothing = np.zeros_like(self._left_s)
            return StartWork(nothing, nothing, nothing[0], free_s)
        time_s = np.zeros_like(self._left_s)
        work_s = np.zeros_like(self._left_s)
        loaded_s = np.zeros(len(free_s))
        for part, speed in ((_COMPILE, 1.0), (_LOAD, storage), (_WARM_UP, 1.0)):
            before_s = self._left_s[part]
            spent_s = np.minimum(before_s / speed, free_s)
            left_s = np.maximum(before_s - spent_s * speed, 0.0)
            left_s[spent_s < free_s] = 0.0
            # What grows with time adds up with its square.
            length_s = np.where(self._lengths_s[part] > 0.0, self._lengths_s[part], 1.0)
            done_s = length_s - left_s
            came_s = length_s - before_s
            ramp_s = (done_s * done_s - came_s * came_s) / (2.0 * length_s)
            time_s[part] = spent_s
            work_s[part] = ramp_s if part == _WARM_UP else before_s - left_s
            if part == _LOAD:
                loaded_s += ramp_s / speed
            elif part == _WARM_UP:
                loaded_s += np.where(self._lengths_s[_LOAD] > 0.0, spent_s, ramp_s)
            self._left_s[part] = left_s
            free_s = free_s - spent_s
        return StartWork(time_s, work_s, loaded_s, free_s)
