"""Requests of serving jobs: the day's rate, and the arrivals at each replica.

Requests of a replica in a slot are Poisson-distributed, by integers and tables, and depend only on
the seed, the slot and the replica.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.durations import DAY_S
from trnfleet.sim.jobs.serving.times import LENGTHS
from trnfleet.sim.rng import Rng, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.jobs import Inference, Peak

SLOT_S = 1.0
"""Length of a slot, counted from the start. Requests arrive at the begin of slots."""
MAX_SLOTS = 64
"""Most simulated slots of a window. In a longer window they represent the others."""
MINUTE_NOISE = 0.04
MINUTE_KNOT_S = 60.0
"""Slow noise of a job's load, relative: assumed."""
IMBALANCE = 0.10
IMBALANCE_KNOT_S = 300.0
"""Largest relative deviation of a replica's load from its capacity's share: assumed. Routers with
session or prefix affinity are less even."""
_EDGE = 1e-6
"""Relative rounding of slots."""
_STEPS = 16
"""Means in the table for each unit."""
_MOST = 16
"""Largest mean in the table; above it counts are rounded from a normal distribution's."""
_DRAWS = 1_024
_STRIDES = (1, 637, 229)
"""Order of the quantiles of each request of a slot: odd, so that each comes once."""


class RequestSlots:
    """The slots of consecutive windows."""

    def __init__(self) -> None:
        self._next: int | None = None

    def split(self, elapsed_s: float, middle_s: float) -> Iterator[tuple[int, float, bool]]:
        """Yield a window's slots or their representatives.

        Each as number, seconds, and whether its requests arrive now.

        Args:
            elapsed_s: Length of the window.
            middle_s: Its middle, simulated seconds since the start.
        """
        begin_s = middle_s - elapsed_s / 2.0
        end_s = middle_s + elapsed_s / 2.0
        if self._next is None:
            self._next = math.ceil(begin_s / SLOT_S - _EDGE)
        if elapsed_s > MAX_SLOTS * SLOT_S:
            for place in range(MAX_SLOTS):
                yield (
                    math.floor((begin_s + (place + 0.5) * elapsed_s / MAX_SLOTS) / SLOT_S),
                    SLOT_S,
                    True,
                )
            self._next = math.ceil(end_s / SLOT_S - _EDGE)
            return
        if not begin_s < end_s:
            yield math.floor(begin_s / SLOT_S + _EDGE), elapsed_s, False
            return
        at_s = begin_s
        while at_s < end_s:
            slot = math.floor(at_s / SLOT_S + _EDGE)
            until_s = (slot + 1) * SLOT_S
            until_s = end_s if until_s > end_s - _EDGE else until_s
            yield slot, until_s - at_s, slot >= self._next
            self._next = max(self._next, slot + 1)
            at_s = until_s


class Load:
    """Load of serving jobs over the day, as shares of their replicas' capacity.

    Arrays of shape (jobs,).
    """

    def __init__(self, jobs: Sequence[Inference], ordinals: NDArray[np.intp], rng: Rng) -> None:
        """Look the jobs' curves up.

        Args:
            jobs: From the fleet file.
            ordinals: Their numbers among all jobs of the file, which key their noise.
            rng: The run's randomness.
        """

        def column(name: str) -> NDArray[np.float64]:
            return np.array([getattr(job, name) for job in jobs], np.float64)

        self._rng = rng
        self._ordinals = ordinals
        self._mean, self._swing = column("load_mean"), column("load_swing")
        self._peak_s = column("peak_hour_utc") * 3_600.0
        self._peaks = [(place, peak) for place, job in enumerate(jobs) for peak in job.peaks]
        self._count = int(ordinals.max()) + 1 if len(ordinals) else 0

    def at(
        self, middle_s: float, time_of_day_s: float, elapsed_s: float = 0.0
    ) -> NDArray[np.float64]:
        """Return each job's load at a moment, 0 to 1.

        Args:
            middle_s: The moment, simulated seconds since the start.
            time_of_day_s: The moment, seconds since midnight UTC.
            elapsed_s: Length of the window around it, of which a peak may cover a part.
        """
        from_peak = (time_of_day_s - self._peak_s) / DAY_S
        # The distance from the trough, 0 to 1, through a smooth step: a cosine's shape from
        # portable operations.
        near = np.abs((from_peak - np.floor(from_peak)) * 2.0 - 1.0)
        daily = near * near * (3.0 - 2.0 * near) * 2.0 - 1.0
        minute = self._rng.smooth(Stream.LOAD_MINUTE, middle_s, MINUTE_KNOT_S, self._count)
        offered = (self._mean + self._swing * daily) * (1.0 + MINUTE_NOISE * minute[self._ordinals])
        for place, peak in self._peaks:
            offered[place] *= 1.0 + (peak.factor - 1.0) * _covered(
                peak, middle_s, time_of_day_s, elapsed_s
            )
        return np.clip(offered, 0.0, 1.0)


class Arrivals:
    """Draws of the arrivals at each replica; arrays of shape (replicas,)."""

    def __init__(self, replicas: int, rng: Rng) -> None:
        self._replicas = replicas
        self._rng = rng
        self._knot: int | None = None
        self._before = self._after = np.zeros(replicas)

    def weights(self, slot: int) -> NDArray[np.float64]:
        """Return each replica's load in a slot, relative to its share of the capacity."""
        place = slot * SLOT_S / IMBALANCE_KNOT_S
        knot = math.floor(place)
        if knot != self._knot:
            self._before = self._after if self._knot == knot - 1 else self._draw(knot)
            self._after = self._draw(knot + 1)
            self._knot = knot
        return self._before + (self._after - self._before) * (place - knot)

    def words(self, slot: int) -> NDArray[np.uint64]:
        """Return a random word for the requests of each replica in a slot."""
        return self._rng.words(Stream.REQUESTS, slot, self._replicas)

    def _draw(self, knot: int) -> NDArray[np.float64]:
        draws = self._rng.uniform(Stream.ROUTER, knot, self._replicas)
        return 1.0 + IMBALANCE * (2.0 * draws - 1.0)


class Lengths:
    """Lengths of prompts or answers, drawn from even quantiles of each job."""

    def __init__(self, quantiles: Sequence[NDArray[np.float64]], job: NDArray[np.intp]) -> None:
        """Make a table for one request, and for the mean of two and of three.

        Args:
            quantiles: Of each job.
            job: Place among these of the job of each replica.
        """
        tables = [np.zeros(0)]
        for values in quantiles:
            total = np.zeros(LENGTHS)
            tables.append(total)
            for drawn, step in enumerate(_STRIDES, start=1):
                total = total + values[np.arange(LENGTHS) * step % LENGTHS]
                tables.append(total / drawn)
        self._table = np.concatenate(tables)
        self._begin = job * ((1 + len(_STRIDES)) * LENGTHS)

    def mean(self, draws: NDArray[np.uint64], count: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean length of a number of requests at each replica; 0 without requests.

        Further requests of a slot are like the first three.

        Args:
            draws: Random words; their last bits are used.
            count: These numbers.
        """
        place = np.minimum(count, float(len(_STRIDES))).astype(np.int64)
        place *= LENGTHS
        place += self._begin
        place += (draws & np.uint64(LENGTHS - 1)).astype(np.int64)
        return np.take(self._table, place)


def poisson(mean: NDArray[np.float64], words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return Poisson-distributed counts of given means, from a random word each.

    A mean is a multiple of 1/16 from a table of 1,024 quantiles and one chance for the rest; above
    16 the count is that of a normal distribution, from four parts of the word.
    """
    scaled = np.minimum(mean, float(_MOST)) * _STEPS
    step = scaled.astype(np.int64)
    rest = (scaled - step) / _STEPS
    draws = (words >> np.uint64(54)).astype(np.int64)
    step *= _DRAWS
    step += draws
    counts: NDArray[np.float64] = np.take(_quantiles(), step, mode="clip").astype(np.float64)
    counts += (words & np.uint64(0xFFFF)).astype(np.float64) < rest * 65_536.0
    large = np.flatnonzero(mean > _MOST)
    if len(large):
        parts = words[large].view(np.uint16).reshape(-1, 4).astype(np.float64).sum(axis=1)
        # A sum of four even parts: mean 2 and variance 1/3 in units of 65,536.
        normal = (parts / 65_536.0 - 2.0) * math.sqrt(3.0)
        counts[large] = np.maximum(np.floor(mean[large] + np.sqrt(mean[large]) * normal + 0.5), 0.0)
    return counts


@cache
def _quantiles() -> NDArray[np.uint8]:
    """Return the counts at 1,024 even quantiles of each mean in the table.

    One mean after the other.
    """
    at = (np.arange(_DRAWS) + 0.5) / _DRAWS
    rows = []
    for step in range(_STEPS * _MOST + 1):
        mean = step / _STEPS
        term = math.exp(-mean)
        below = []
        total = term
        for count in range(1, 4 * _MOST):
            below.append(total)
            term *= mean / count
            total += term
        rows.append(np.searchsorted(np.array(below), at))
    return np.concatenate(rows).astype(np.uint8)


def _covered(peak: Peak, middle_s: float, time_of_day_s: float, elapsed_s: float) -> float:
    """Return the share of a window covered by a peak."""
    if peak.at_s is not None:
        since_s = middle_s - peak.at_s
        before, after = (
            min(max(since_s + half, 0.0), peak.for_s)
            for half in (-elapsed_s / 2.0, elapsed_s / 2.0)
        )
    else:
        since_s = time_of_day_s - (peak.at_hour_utc or 0.0) * 3_600.0
        before, after = (
            (since_s + half) // DAY_S * peak.for_s + min((since_s + half) % DAY_S, peak.for_s)
            for half in (-elapsed_s / 2.0, elapsed_s / 2.0)
        )
    if elapsed_s > 0:
        return (after - before) / elapsed_s
    return float(0.0 <= (since_s if peak.at_s is not None else since_s % DAY_S) < peak.for_s)
