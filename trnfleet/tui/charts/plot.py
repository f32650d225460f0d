"""Dots and blocks of charts: pure functions from values to characters.

Lines and bands are braille dots, two by four per cell; areas and sparklines are blocks. Time is in
columns of dots, two per cell. A column has the least, mean and largest of its samples, so that
nothing aliases. The columns of samples depend only on sample numbers, so that a chart moves by
whole columns and does not shimmer.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.store.rings.record import Track

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Dots = NDArray[np.bool_]

ROWS = 4
COLUMNS = 2
"""Dots of a cell."""
_WEIGHTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of a braille character, top row first."""
CHARACTERS = np.array([" ", *(chr(0x2800 + bits) for bits in range(1, 256))])
"""The character of each set of dots."""


class Bands(NamedTuple):
    """The least, mean and largest sample of each column of dots; NaN without one."""

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
        """Return the first sample of each column, and the one after its last.

        Samples have a length of `step_s`. If it exceeds a column, several columns share a sample.
        """
        return _edges(self.span_s, self.columns, self._last, step_s)

    def column_of(self, time_s: float) -> int:
        """Return the column of a moment.

        It is negative before the first column, and at least `columns` after the last.
        """
        return int(time_s * self.columns // self.span_s) - self._last + self.columns - 1

    def bands(self, track: Track, *, has_extremes: bool = True) -> Bands:
        """Return the bands of a track; without extremes, means in their place."""
        starts, ends = self.edges(track.step_s)
        first = track.total - len(track.mean)
        samples = len(track.mean)
        starts = np.clip(starts - first, 0, samples)
        ends = np.clip(ends - first, 0, samples)
        has = np.flatnonzero(ends > starts)
        mean = np.full(len(starts), np.nan)
        if not len(has):
            return Bands(mean, mean, mean)
        begins = starts[has]
        if (ends[has] - begins == 1).all():
            mean[has] = track.mean[begins]
            if not has_extremes:
                return Bands(mean, mean, mean)
            low = mean.copy()
            high = mean.copy()
            low[has] = track.low[begins]
            high[has] = track.high[begins]
            return Bands(low, mean, high)
        # Ranges follow on each other without overlap where any is longer than one value.
        last = int(ends[has][-1])
        mean[has] = _means(track.mean[:last], begins)
        if not has_extremes:
            return Bands(mean, mean, mean)
        low = mean.copy()
        high = mean.copy()
        low[has] = np.fmin.reduceat(track.low[:last].astype(np.float64), begins)
        high[has] = np.fmax.reduceat(track.high[:last].astype(np.float64), begins)
        return Bands(low, mean, high)


@functools.lru_cache(maxsize=16)
def _edges(span_s: int, columns: int, last: int, step_s: int) -> tuple[Ints, Ints]:
    """Return a grid's edges.

    They are shared by all series of a moment's charts and never changed.
    """
    # In whole numbers: no sample may change its column by what a quotient is wrong by.
    numbers = np.arange(last - columns + 1, last + 2, dtype=np.int64)
    starts = numbers * span_s // (columns * step_s)
    return starts[:-1], np.maximum(starts[1:], starts[:-1] + 1)


def _means(values: NDArray[np.floating], begins: Ints) -> Floats:
    """Return the mean of the known values of each range; NaN if none.

    Ranges start at `begins`.
    """
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0).astype(np.float64), begins)
    if known.all():
        means: Floats = sums / np.diff(begins, append=len(values))
        return means
    counts = np.add.reduceat(known.astype(np.float64), begins)
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), np.nan)


def row_of(values: Floats, low: float, high: float, rows: int) -> Ints:
    """Return the row of dots of each value, 0 the lowest.

    Values beyond the ends are clamped; NaN is -1.
    """
    share = np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return np.where(np.isnan(share), -1, np.rint(np.nan_to_num(share) * (rows - 1))).astype(
        np.int64
    )


def reach(bottom: Ints, top: Ints) -> tuple[Ints, Ints]:
    """Return the rows of columns, extended to touch the column before. -1 stays a gap."""
    lower = bottom.copy()
    upper = top.copy()
    known = bottom >= 0
    both = known[1:] & known[:-1]
    rises = both & (bottom[1:] > top[:-1] + 1)
    falls = both & (top[1:] < bottom[:-1] - 1)
    lower[1:][rises] = top[:-1][rises] + 1
    upper[1:][falls] = bottom[:-1][falls] - 1
    return lower, upper


def picture(bottom: Ints, top: Ints, rows: int) -> Dots:
    """Return rows x columns of dots, top row first.

    Each column is filled from one row to another; -1 leaves it empty.
    """
    row = np.arange(rows - 1, -1, -1)[:, np.newaxis]
    filled: Dots = (row >= bottom) & (row <= top) & (bottom >= 0)
    return filled


def cells_of(dots: Dots) -> Ints:
    """Return the bits of a picture's cells: rows x columns of cells."""
    rows, columns = dots.shape
    blocks = dots.reshape(rows // ROWS, ROWS, columns // COLUMNS, COLUMNS)
    bits: Ints = np.einsum("arbc,rc->ab", blocks, _WEIGHTS)
    return bits


def row_runs(values: Ints) -> list[list[tuple[int, int, int]]]:
    """Return runs of equal values in each row: first place, end (exclusive), value."""
    firsts: list[list[int]] = [[0] for _ in values]
    rows, places = np.nonzero(values[:, 1:] != values[:, :-1])
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        firsts[row].append(place + 1)
    return [
        [(first, after, row[first]) for first, after in pairwise((*starts, len(row)))]
        for starts, row in zip(firsts, values.tolist(), strict=True)
    ]


def words_near(
    occupied: NDArray[np.bool_], first: int, after: int, text: str
) -> list[tuple[int, int, str]]:
    """Return places for the words of a gap too small for them.

    A place is row, first cell and text. Words are stacked in the gap if each fits. Otherwise they
    are in one line across it, in the nearest free row. Empty if no place is free.

    Args:
        occupied: Cells with dots or texts.
        first: The gap's first cell.
        after: The cell after its last.
        text: The words.
    """
    rows, cells = occupied.shape
    middle = rows // 2
    room = after - first
    words = text.split()
    if max(map(len, words)) <= room and middle + len(words) < rows:
        return [
            (middle + 1 + number, first, word.center(room)) for number, word in enumerate(words)
        ]
    begins = range(max(0, first - len(text) + 1), min(after, cells - len(text) + 1))
    centred = sorted(begins, key=lambda begin: abs(2 * begin + len(text) - first - after))
    for row in sorted(set(range(rows)) - {middle}, key=lambda row: (abs(row - middle), -row)):
        for begin in centred:
            # A cell beside it, too, so that it touches no line.
            if not occupied[row, max(0, begin - 1) : begin + len(text) + 1].any():
                return [(row, begin, text)]
    return []


SPARK_CELL_S = 5
"""Seconds per cell of a sparkline."""
_SPARK = np.array(list(" ▁▂▃▄▅▆▇█"))
"""Index 0 is a gap; a sparkline's lowest value still shows a block."""


def bucket(series: NDArray[Any], cells: int, per_cell: int, total: int | None = None) -> Floats:
    """Return the last samples averaged per cell, right-aligned; NaN without a sample.

    Cells begin at multiples of `per_cell` of all samples ever taken, so that a chart moves by whole
    cells and does not shimmer in between.

    Args:
        series: Samples, oldest first.
        cells: Width of the chart.
        per_cell: Samples averaged per cell.
        total: Samples taken since the start; `series` are the last of them. None for its length.
    """
    if cells <= 0:
        # Beside its label nothing of a chart may be left.
        return np.zeros(0)
    values = np.asarray(series, dtype=np.float64)[-cells * per_cell :]
    after = -(len(series) if total is None else total) % per_cell
    before = -(len(values) + after) % per_cell
    groups = np.concatenate([np.full(before, np.nan), values, np.full(after, np.nan)]).reshape(
        -1, per_cell
    )
    known = ~np.isnan(groups)
    counts = known.sum(axis=1)
    means = np.where(known, groups, 0.0).sum(axis=1) / np.maximum(counts, 1)
    means = np.where(counts > 0, means, np.nan)[-cells:]
    return np.concatenate([np.full(cells - len(means), np.nan), means])


def spark(values: Floats, low: float, high: float, *, is_apart: bool = False) -> str:
    """Return a sparkline, one character per value; a space for NaN.

    Args:
        values: A value per cell.
        low: Value of the lowest block.
        high: Value of the highest.
        is_apart: Whether to leave out the full block, so that rows below each other stay apart.
    """
    most = len(_SPARK) - 1 - is_apart
    share = _shares(values, low, high)
    known = ~np.isnan(share)
    heights = np.where(
        known, 1 + np.minimum(most - 1, (np.nan_to_num(share) * most).astype(np.int64)), 0
    )
    return "".join(_SPARK[heights].tolist())


def area(values: Floats, low: float, high: float, height: int) -> list[str]:
    """Return an area chart of `height` lines, top line first, one column per value.

    NaN is blank.

    A known value shows at least the lowest block, so that zero differs from a gap.
    """
    share = _shares(values, low, high)
    known = ~np.isnan(share)
    eighths = np.where(known, np.maximum(1, np.rint(np.nan_to_num(share) * 8 * height)), 0).astype(
        np.int64
    )
    floors = 8 * np.arange(height - 1, -1, -1)
    blocks = np.clip(eighths[np.newaxis, :] - floors[:, np.newaxis], 0, 8)
    return ["".join(line) for line in _SPARK[blocks].tolist()]


def _shares(values: Floats, low: float, high: float) -> Floats:
    """Return the position of values between `low` (0) and `high` (1), clamped."""
    span = high - low
    return np.clip(
        (np.asarray(values, dtype=np.float64) - low) / (span if span > 0 else 1.0), 0.0, 1.0
    )
