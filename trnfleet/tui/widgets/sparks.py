"""Charts in block characters from NumPy series, as strings and parts of a line.

These are pure functions. A missing sample leaves a gap, unlike the lowest block.
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


def spark(values: NDArray[np.float64], low: float, high: float, *, most: int = 8) -> str:
    """Return a sparkline, one character per value; a space for NaN.

    It uses the lowest `most` of eight heights from `low` to `high`.
    """
    share = _shares(values, low, high)
    known = ~np.isnan(share)
    heights = np.where(
        known, 1 + np.minimum(most - 1, (np.nan_to_num(share) * most).astype(np.int64)), 0
    )
    return "".join(_SPARK[heights].tolist())


def area(values: NDArray[np.float64], low: float, high: float, height: int) -> list[str]:
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


def _shares(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Return the position of values between `low` (0) and `high` (1), clamped."""
    span = high - low
    return np.clip(
        (np.asarray(values, dtype=np.float64) - low) / (span if span > 0 else 1.0), 0.0, 1.0
    )
