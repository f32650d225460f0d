"""Charts in block characters from NumPy series: pure functions to strings, and parts that make a line.

A sample that is not available leaves a gap, which is not the same as the lowest block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPARK = np.array(list(" ▁▂▃▄▅▆▇█"))
"""Index 0 is a gap; a sparkline's lowest value still shows a block."""


def bucket(
    series: NDArray[Any], cells: int, per_cell: int, total: int | None = None
) -> NDArray[np.float64]:
    """Return the last samples as means of `per_cell` each, right-aligned in `cells` cells; NaN for no sample.

    Cells begin at multiples of `per_cell` of all samples ever taken, so that a chart moves by whole cells and does
    not shimmer in between.

    Args:
        series: Samples, oldest first.
        cells: Width of the chart.
        per_cell: Samples that a cell is the mean of.
        total: Samples taken since the start, of which `series` are the last ones; its length where there were no more.
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


def spark(values: NDArray[np.float64], low: float, high: float, *, most: int = 8) -> str:
    """Return a sparkline, one character a value: `most` of eight heights from `low` to `high`, a space for NaN."""
    share = _shares(values, low, high)
    known = ~np.isnan(share)
    heights = np.where(
        known, 1 + np.minimum(most - 1, (np.nan_to_num(share) * most).astype(np.int64)), 0
    )
    return "".join(_SPARK[heights].tolist())


def area(values: NDArray[np.float64], low: float, high: float, height: int) -> list[str]:
    """Return an area chart of `height` lines, top line first, one column a value; spaces for NaN.

    A known value shows at least the lowest block, so that zero is unlike a gap.
    """
    share = _shares(values, low, high)
    known = ~np.isnan(share)
    eighths = np.where(known, np.maximum(1, np.rint(np.nan_to_num(share) * 8 * height)), 0).astype(
        np.int64
    )
    floors = 8 * np.arange(height - 1, -1, -1)
    blocks = np.clip(eighths[np.newaxis, :] - floors[:, np.newaxis], 0, 8)
    return ["".join(line) for line in _SPARK[blocks].tolist()]


def _shares(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Return where values lie between `low` (0) and `high` (1); the ends take what lies beyond them."""
    span = high - low
    return np.clip(
        (np.asarray(values, dtype=np.float64) - low) / (span if span > 0 else 1.0), 0.0, 1.0
    )
