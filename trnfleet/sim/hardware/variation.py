"""Differences of chips with the same work: fixed per part, and varying with time.

A chip's work in a tick varies in all its metrics together, slowly and from tick to tick; each
metric also varies a little on its own. All are factors with mean 1 on the cohort's value, sums of
even distributions, so that none has a hard limit. Owns the fixed factors of power and the places of
HBM. The random words are a function of seed, instance and time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.sim.hardware.columns import noise_chips
from trnfleet.sim.rng import LaneReader, Rng, Stream, knot_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

POWER_SD = 0.02
"""Standard deviation of power above the background between chips with the same work: assumed.
Published for GPUs of one type at equal work are 8 % in performance under a power limit, 22 % at
most (Sinha et al., SC22); parts of a fleet are binned."""
SLOW_SD = 0.009
KNOT_S = 5.0
"""Variation of a chip's work over some seconds, and their number: assumed. Causes are clocks,
queues and the part of a step in the window."""
SAMPLE_SD = 0.005
"""Variation of a chip's work from one tick of a second to the next: assumed."""
OWN_SD = 0.004
"""Further variation of each metric (sensors, counters), without memory: assumed."""
MOST_FACTOR = 1.06
"""Largest factor of a metric with a mean no chip exceeds: beyond 4 standard deviations."""

_MIXERS = {
    "tflops": np.uint16(40_503),
    "hbm_read_bytes_per_s": np.uint16(30_011),
    "hbm_write_bytes_per_s": np.uint16(30_011),
}
"""Factors that mix a word, in integers that wrap around. The high bytes of the products are not
correlated with each other or with the word's bytes. Reads and writes of HBM vary together."""
_BYTE_SD = 256.0 / 12.0**0.5
_BYTE_MEAN = 127.5
_USED_STEPS = 8
"""Limit of HBM differences between a job's chips, in steps of 4 MiB: assumed."""


class Varied(NamedTuple):
    """Factors of a chunk's chips; arrays of shape (instances, chips)."""

    work: NDArray[np.float32]
    """Common factor of all metrics of a chip's work, without each one's own part."""
    own: NDArray[np.float32]
    """One of these, written by `factor`."""
    samples: NDArray[np.uint16]
    """Random words: the low byte for power, others mixed from both bytes."""
    step: np.float32

    def factor(self, name: str) -> NDArray[np.float32]:
        """Return the factor of one metric, valid until the next call."""
        if name in _MIXERS:
            bytes_ = self.samples * _MIXERS[name]
            bytes_ >>= np.uint16(8)
        else:
            bytes_ = self.samples & np.uint16(0xFF)
        np.multiply(bytes_, self.step, out=self.own)
        np.add(self.own, self.work, out=self.own)
        return self.own


class Variation:
    """The factors of the instances `own`, chunk after chunk."""

    def __init__(self, layout: Layout, rng: Rng, own: range) -> None:
        """Draw the fixed factors."""
        self._rng = rng
        self._first = own.start
        self._chips = noise_chips(layout)
        words = part_words(layout, rng, own)
        self.power = power_deviations(words)
        """Relative deviation of each chip's power above the background; shape (chip rows of
        `own`,)."""
        self.used_steps = (words >> np.uint32(8) & np.uint32(_USED_STEPS - 1)).astype(np.uint8)
        """Each chip's excess of HBM, in steps of 4 MiB; shape as before."""
        self._knot = -(2**62)
        self._knots = [np.zeros(len(words), np.uint16) for _ in range(2)]
        """Sums of two bytes at the knots around the present time; shape as before."""

    def begin(self, tick: int, at_s: float, elapsed_s: float) -> None:
        """Set the readers to a tick's words.

        Args:
            tick: Its number.
            at_s: Its time, simulated seconds since the start.
            elapsed_s: Length of its window, over which what varies is averaged.
        """
        knot, blend = knot_of(at_s, KNOT_S)
        slow = SLOW_SD * min(1.0, math.sqrt(KNOT_S / elapsed_s))
        # The squares of the weights add up to 1, so that the deviation is the same between knots as
        # at them.
        step = slow / (_BYTE_SD * math.sqrt(2.0))
        self._weights = [np.float32(step * math.sqrt(part)) for part in (1.0 - blend, blend)]
        lessened = min(1.0, 1.0 / math.sqrt(elapsed_s))
        self._sample, self._own = (
            np.float32(sd * lessened / _BYTE_SD) for sd in (SAMPLE_SD, OWN_SD)
        )
        means = self._sample + self._own + 2.0 * (self._weights[0] + self._weights[1])
        self._middle = np.float32(1.0 - _BYTE_MEAN * means)
        self._words = self._reader(Stream.CHIP_SAMPLE, tick)
        self._refresh: list[tuple[NDArray[np.uint16], LaneReader]] = []
        if knot == self._knot + 1:
            self._knots.reverse()
            self._refresh = [(self._knots[1], self._reader(Stream.CHIP_KNOT, knot + 1))]
        elif knot != self._knot:
            self._refresh = [
                (sums, self._reader(Stream.CHIP_KNOT, number))
                for sums, number in zip(self._knots, (knot, knot + 1), strict=True)
            ]
        self._knot = knot

    def fill(
        self,
        rows: slice,
        shape: tuple[int, int],
        out: NDArray[np.float32],
        spare: NDArray[np.float32],
    ) -> Varied:
        """Return the factors of the next instances.

        Args:
            rows: Of their chips, counted from the first of `own`.
            shape: (instances, chips).
            out: Takes the factors of work; of that shape.
            spare: As large, for those of a metric.
        """
        for sums, reader in self._refresh:
            sums[rows] = _two_bytes(_read(reader, shape)).reshape(-1)
        samples = _read(self._words, shape)
        np.multiply(samples >> np.uint16(8), self._sample, out=out)
        out += self._middle
        for sums, weight in zip(self._knots, self._weights, strict=True):
            np.multiply(sums[rows].reshape(shape), weight, out=spare)
            out += spare
        return Varied(out, spare, samples, self._own)

    def _reader(self, stream: Stream, index: int) -> LaneReader:
        return self._rng.lanes(stream, index, self._chips * 2, self._first)


def _read(reader: LaneReader, shape: tuple[int, int]) -> NDArray[np.uint16]:
    words: NDArray[np.uint16] = reader.read(shape[0], np.uint16)[:, : shape[1]]
    return words


def _two_bytes(words: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return the sums of words' two bytes, a triangle from 0 to 510."""
    total: NDArray[np.uint16] = (words & np.uint16(0xFF)) + (words >> np.uint16(8))
    return total


def part_words(layout: Layout, rng: Rng, own: range) -> NDArray[np.uint32]:
    """Return the word behind each chip's fixed properties.

    Shape (chip rows of the instances `own`,).
    """
    most = noise_chips(layout)
    if not own:
        return np.zeros(0, np.uint32)
    lanes = rng.lanes(Stream.CHIP_POWER, 0, most * 4, own.start).read(len(own), np.uint32)
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    words: NDArray[np.uint32] = lanes[np.arange(most) < chips[:, None]]
    return words


def power_deviations(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return the relative deviations of chips' power from its mean.

    Sums of a word's four bytes, within 3.5 standard deviations.
    """
    total = np.zeros(len(words), np.uint16)
    for column in words.view(np.uint8).reshape(-1, 4).T:
        total += column
    step = np.float32(POWER_SD / (_BYTE_SD * 2.0))
    deviations: NDArray[np.float32] = (
        total.astype(np.float32) - np.float32(4.0 * _BYTE_MEAN)
    ) * step
    return deviations
