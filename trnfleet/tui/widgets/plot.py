"""Lines and bands of samples in braille dots, two by four a cell: pure functions from values to dots and cells.

Time goes in columns of dots, two a cell. A column knows the least, the mean and the largest of its samples, so that nothing aliases;
which samples are a column's depends on their numbers alone, so that a chart moves by whole columns and does not shimmer.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.store.rings.record import Track

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Dots = NDArray[np.bool_]

ROWS, COLUMNS = 4, 2
"""Dots of a cell."""
_WEIGHTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of a braille character, top row first."""
CHARACTERS = np.array([" ", *(chr(0x2800 + bits) for bits in range(1, 256))])
"""The character of each set of dots."""


class Bands(NamedTuple):
    """The least, mean and largest sample of each column of dots; NaN where there is none."""

    low: Floats
    mean: Floats
    high: Floats


class Grid(NamedTuple):
    """Columns of dots over a span of time."""

    span_s: int
    columns: int
    end_s: int
    """Where it ends: seconds since the first sample ever."""

    @property
    def _last(self) -> int:
        """Number of its last column, counted from the first sample on."""
        return -(-self.end_s * self.columns // self.span_s) - 1

    def edges(self, step_s: int) -> tuple[Ints, Ints]:
        """Return for each column the number of its first sample of a length, and of the one after its last.

        Where a sample is longer than a column, several columns have it.
        """
        return _edges(self.span_s, self.columns, self._last, step_s)

    def column_of(self, time_s: float) -> int:
        """Return the column of a moment; negative before the first, and from `columns` on after the last."""
        return int(time_s * self.columns // self.span_s) - self._last + self.columns - 1

    def bands(self, track: Track, *, has_extremes: bool = True) -> Bands:
        """Return the bands of a track; without extremes, means in their place."""
        starts, ends = self.edges(track.step_s)
        first, kept = track.total - len(track.mean), len(track.mean)
        starts, ends = np.clip(starts - first, 0, kept), np.clip(ends - first, 0, kept)
        has = np.flatnonzero(ends > starts)
        mean = np.full(len(starts), np.nan)
        if not len(has):
            return Bands(mean, mean, mean)
        begins = starts[has]
        if (ends[has] - begins == 1).all():
            mean[has] = track.mean[begins]
            if not has_extremes:
                return Bands(mean, mean, mean)
            low, high = mean.copy(), mean.copy()
            low[has], high[has] = track.low[begins], track.high[begins]
            return Bands(low, mean, high)
        # Ranges follow on each other without overlap where any is longer than one value.
        last = int(ends[has][-1])
        mean[has] = _means(track.mean[:last], begins)
        if not has_extremes:
            return Bands(mean, mean, mean)
        low, high = mean.copy(), mean.copy()
        low[has] = np.fmin.reduceat(track.low[:last].astype(np.float64), begins)
        high[has] = np.fmax.reduceat(track.high[:last].astype(np.float64), begins)
        return Bands(low, mean, high)


@functools.lru_cache(maxsize=16)
def _edges(span_s: int, columns: int, last: int, step_s: int) -> tuple[Ints, Ints]:
    """Return a grid's edges, which all series of the charts of a moment share and none changes."""
    # In whole numbers: no sample may change its column by what a quotient is wrong by.
    numbers = np.arange(last - columns + 1, last + 2, dtype=np.int64)
    starts = numbers * span_s // (columns * step_s)
    return starts[:-1], np.maximum(starts[1:], starts[:-1] + 1)


def _means(values: NDArray[np.floating], begins: Ints) -> Floats:
    """Return the mean of what is known of each of the ranges that begin there; NaN for nothing."""
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0).astype(np.float64), begins)
    if known.all():
        means: Floats = sums / np.diff(begins, append=len(values))
        return means
    counts = np.add.reduceat(known.astype(np.float64), begins)
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), np.nan)


def row_of(values: Floats, low: float, high: float, rows: int) -> Ints:
    """Return the row of dots of each value, 0 the lowest; ends take what lies beyond them, and NaN is -1."""
    share = np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return np.where(np.isnan(share), -1, np.rint(np.nan_to_num(share) * (rows - 1))).astype(
        np.int64
    )


def reach(bottom: Ints, top: Ints) -> tuple[Ints, Ints]:
    """Return the rows of columns, each drawn up or down to the one before it where they do not touch; -1 stays a gap."""
    lower, upper = bottom.copy(), top.copy()
    known = bottom >= 0
    both = known[1:] & known[:-1]
    rises = both & (bottom[1:] > top[:-1] + 1)
    falls = both & (top[1:] < bottom[:-1] - 1)
    lower[1:][rises] = top[:-1][rises] + 1
    upper[1:][falls] = bottom[:-1][falls] - 1
    return lower, upper


def picture(bottom: Ints, top: Ints, rows: int) -> Dots:
    """Return rows x columns of dots, top row first: each column filled from one row to another; none for -1."""
    row = np.arange(rows - 1, -1, -1)[:, np.newaxis]
    filled: Dots = (row >= bottom) & (row <= top) & (bottom >= 0)
    return filled


def cells_of(dots: Dots) -> Ints:
    """Return the bits of the cells of a picture: rows of cells x columns of cells."""
    rows, columns = dots.shape
    blocks = dots.reshape(rows // ROWS, ROWS, columns // COLUMNS, COLUMNS)
    bits: Ints = np.einsum("arbc,rc->ab", blocks, _WEIGHTS)
    return bits


def bits_across(row: int) -> int:
    """Return the bits of a cell whose dots are all of one row, 0 the topmost."""
    return int(_WEIGHTS[row].sum())


def row_runs(values: Ints) -> list[list[tuple[int, int, int]]]:
    """Return runs of equal values in each row: first place, the place after the last, and the value."""
    firsts: list[list[int]] = [[0] for _ in values]
    rows, places = np.nonzero(values[:, 1:] != values[:, :-1])
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        firsts[row].append(place + 1)
    return [
        [(first, after, row[first]) for first, after in pairwise((*starts, len(row)))]
        for starts, row in zip(firsts, values.tolist(), strict=True)
    ]


def words_near(
    taken: NDArray[np.bool_], first: int, after: int, text: str
) -> list[tuple[int, int, str]]:
    """Return where the words stand that a gap in the middle row has no room for, as row, first cell and text; nothing where no place is free.

    They are below each other in the gap where each fits, else in one line across it, in the free row that is the nearest.

    Args:
        taken: Cells that are not free.
        first: The gap's first cell.
        after: The cell after its last.
        text: The words.
    """
    rows, cells = taken.shape
    middle, room, words = rows // 2, after - first, text.split()
    if max(map(len, words)) <= room and middle + len(words) < rows:
        return [
            (middle + 1 + number, first, word.center(room)) for number, word in enumerate(words)
        ]
    begins = range(max(0, first - len(text) + 1), min(after, cells - len(text) + 1))
    centred = sorted(begins, key=lambda begin: abs(2 * begin + len(text) - first - after))
    for row in sorted(set(range(rows)) - {middle}, key=lambda row: (abs(row - middle), -row)):
        for begin in centred:
            # A cell beside it, too, so that it touches no line.
            if not taken[row, max(0, begin - 1) : begin + len(text) + 1].any():
                return [(row, begin, text)]
    return []


_NICE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def nice_ceiling(value: float) -> float:
    """Return the round number at or above a positive value: 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(
        next((each * power for each in _NICE if each * power >= value * (1 - 1e-9)), 10.0 * power)
    )


_TICKS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 345_600, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
)  # fmt: skip  # a list of numbers


def tick_every(span_s: int, cells: int, label: int) -> int:
    """Return the seconds between two ticks, so that labels of a number of cells have room between them."""
    least_s = span_s * (label + 3) / max(1, cells)
    return next((each for each in _TICKS_S if each >= least_s), _TICKS_S[-1])


def back_text(seconds: int) -> str:
    """Return how long ago a tick is, in the largest unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size and not seconds % size:
            return f"{seconds // size}{unit}"
    if seconds >= 3_600:
        return f"{seconds / 3_600:g}h"
    return f"{seconds / 60:g}m" if seconds >= 60 else f"{seconds}s"
