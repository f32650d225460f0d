"""Random faults: Poisson processes at the table's rates, over fixed stretches of time.

A draw belongs to a stretch, never to a tick, so that the same faults occur for any length of ticks
and any sharding. It also belongs to the fault's name: a new row in the table does not change the
other faults of a seed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.faults.fault import Fault, FaultScope
from trnfleet.domain.faults.table import FAULTS
from trnfleet.errors import ConfigError
from trnfleet.sim.rng import Stream, part_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Rates
    from trnfleet.sim.rng import Rng

STRETCH_S = 10.0
"""Seconds of a stretch of time, drawn as one."""
MOST_IN_STRETCH = 4
"""Most events of one fault in a stretch. At the highest mean allowed, more have a chance below 1 in
250."""
HIGHEST_MEAN = 1.0
"""Highest mean number of events of one fault in a stretch. A higher acceleration is refused."""
STRETCHES = 64
"""Stretches that are drawn in one go."""
_WORDS = 1 + 2 * MOST_IN_STRETCH
_SECONDS_A_DAY = 86_400.0


class RandomFault(NamedTuple):
    """A fault drawn at its rate."""

    time_s: float
    fault: Fault
    word: int
    """Random word of 64 bits; selects the target."""


class RandomFaults:
    """The random faults of a fleet, drawn stretch after stretch."""

    def __init__(self, rng: Rng, rates: Rates | None, chips: int) -> None:
        """Prepare a process for each chosen fault with a rate in the table.

        Raises:
            ConfigError: the acceleration gives more faults than a stretch can hold.
        """
        self._rng = rng
        self._next = 0
        self._drawn = -1
        self._words: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._processes: list[tuple[Fault, list[float]]] = []
        self._parts: list[int] = []
        if rates is None or rates.acceleration == 0:
            return
        for fault in FAULTS.values():
            chosen = (
                not rates.only or fault.name in rates.only
            ) and fault.name not in rates.without
            if (
                not chosen
                or fault.rate_per_device_day is None
                or fault.scope is FaultScope.PUBLISHER
            ):
                continue
            mean = (
                fault.rate_per_device_day * chips * rates.acceleration * STRETCH_S / _SECONDS_A_DAY
            )
            if mean > HIGHEST_MEAN:
                most = rates.acceleration * HIGHEST_MEAN / mean
                raise ConfigError(
                    f"rates.acceleration = {rates.acceleration:g}: {fault.name} would come"
                    f" {mean:.3g} times in {STRETCH_S:g} s on {chips:,} chips; at most {most:.3g}"
                )
            self._processes.append((fault, _steps(mean)))
            self._parts.append(part_of(fault.name))
        self._least = np.array([steps[0] for _, steps in self._processes])

    def until(self, end_s: float) -> list[RandomFault]:
        """Return the faults of undrawn stretches beginning before `end_s`, in order of time."""
        if not self._processes:
            return []
        drawn: list[RandomFault] = []
        while self._next * STRETCH_S < end_s:
            block, first = divmod(self._next, STRETCHES)
            # At least one: the end may be rounded to just below a stretch's begin.
            begun = math.ceil(end_s / STRETCH_S) - block * STRETCHES
            last = min(STRETCHES, max(first + 1, begun))
            words = self._block(block)[first:last]
            chance = (words[:, :, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
            for stretch, place in np.argwhere(chance >= self._least).tolist():
                fault, steps = self._processes[place]
                own: list[int] = words[stretch, place].tolist()
                for event in range(sum(float(chance[stretch, place]) >= step for step in steps)):
                    inside = (own[1 + 2 * event] >> 11) * 2.0**-53
                    drawn.append(
                        RandomFault(
                            (self._next + stretch + inside) * STRETCH_S, fault, own[2 + 2 * event]
                        )
                    )
            self._next = block * STRETCHES + last
        return sorted(drawn, key=lambda fault: fault.time_s)

    def _block(self, number: int) -> NDArray[np.uint64]:
        """Return the words of a block of stretches: shape (stretches, processes, words)."""
        if number != self._drawn:
            self._drawn = number
            count = STRETCHES * _WORDS
            words = [self._rng.words(Stream.WEAR, number, count, part) for part in self._parts]
            self._words = np.stack([block.reshape(STRETCHES, _WORDS) for block in words], axis=1)
        return self._words


def _steps(mean: float) -> list[float]:
    """Return the thresholds of a uniform draw for 1, 2, ... events."""
    steps = []
    below = 0.0
    term = math.exp(-mean)
    for events in range(1, MOST_IN_STRETCH + 1):
        below += term
        steps.append(below)
        term *= mean / events
    return steps
