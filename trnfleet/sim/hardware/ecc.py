"""Corrected ECC errors: sparse bursts at a rate, per instance and tick.

Drawn by comparing integers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.sim.hardware.columns import LEAST_NOISE_CHIPS
from trnfleet.sim.rng import Rng, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


RATES_PER_CHIP_DAY = {
    "mem_ecc_corrected": (Stream.MEM_ECC, 2.0),
    "sram_ecc_corrected": (Stream.SRAM_ECC, 0.05),
}
"""Events per chip and day, and their random stream. Assumed: nothing is published for Trainium."""
BURSTS = np.array([1, 1, 1, 1, 1, 2, 3, 6], np.uint32)
"""Sizes of bursts, equally likely: assumed. Reading a row again gives the same error again. The
mean is 2."""

_SECONDS_A_DAY = 86_400.0
_BURST_SHIFT = 20
"""First bit of a word for the choice of its burst."""
_MOST_MEAN = 0.25
"""Mean bursts per round of draws of an instance; longer ticks need more rounds."""
_MOST_EVENTS = 4
"""Most bursts per round. Above the mean given above, more have a chance of 1 in 150,000."""


class CorrectedErrors:
    """Adds events to the counters of corrected errors."""

    def __init__(self, rng: Rng, chip_start: NDArray[np.int64]) -> None:
        self._rng = rng
        self._first = chip_start[:-1]
        self._chips = np.diff(chip_start)
        self._sizes = np.unique(self._chips).tolist()
        self._most = max([LEAST_NOISE_CHIPS, *self._sizes])
        """Chips per round. More for a fleet with larger instances, the same for all smaller ones.
        """

    def add(self, columns: dict[str, NDArray[Any]], tick: int, elapsed_s: float) -> None:
        """Add a tick's events."""
        for name, (stream, rate) in RATES_PER_CHIP_DAY.items():
            mean = rate * elapsed_s / _SECONDS_A_DAY * len(BURSTS) / float(BURSTS.sum())
            rounds = max(1, math.ceil(mean * self._most / _MOST_MEAN))
            thresholds = {size: _thresholds(mean * size / rounds) for size in self._sizes}
            for number in range(rounds):
                words = self._rng.words(stream, tick, len(self._chips), number)
                self._add(columns[name], words, thresholds)

    def _add(
        self,
        column: NDArray[Any],
        words: NDArray[np.uint64],
        thresholds: dict[int, NDArray[np.uint64]],
    ) -> None:
        lowest = min(levels[0] for levels in thresholds.values())
        candidates = np.flatnonzero(words >= lowest)
        for size, levels in thresholds.items():
            hit = candidates[self._chips[candidates] == size]
            drawn = words[hit]
            # The low bits choose the chip: they have no part in the comparison that one could see.
            rows = self._first[hit] + (drawn % np.uint64(size)).astype(np.int64)
            events = BURSTS[
                (drawn >> np.uint64(_BURST_SHIFT) & np.uint64(len(BURSTS) - 1)).astype(np.intp)
            ]
            for level in levels:
                reached = drawn >= level
                column[rows[reached]] += events[reached]


def _thresholds(mean: float) -> NDArray[np.uint64]:
    """Return the word thresholds for at least 1, 2, ... events, for a Poisson mean."""
    none = math.exp(-mean)
    fewer = 0.0
    levels = []
    term = none
    for events in range(1, _MOST_EVENTS + 1):
        fewer += term
        levels.append(min(int(fewer * 2.0**64), 2**64 - 1))
        term *= mean / events
    return np.array(levels, np.uint64)
