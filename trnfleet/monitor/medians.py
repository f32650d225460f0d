"""Median without NumPy's imports for its own, and sorted columns for many medians."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MANY_COLUMNS = 256
"""Columns from which on comparing whole rows is faster than a sort of each column."""


def median(values: NDArray[np.float64]) -> float:
    """Return the median of known values; NaN for none.

    NumPy's own loads its masked arrays with the first call, 1.3 MiB of code that nothing here
    needs.
    """
    size = len(values)
    if not size:
        return float("nan")
    middle = size // 2
    if size % 2:
        return float(np.partition(values, middle)[middle])
    # The one before it is the largest of those below, which is found faster than by another
    # partition.
    parted = np.partition(values, middle)
    return float(parted[:middle].max() + parted[middle]) / 2


def sort_columns(table: NDArray[Any]) -> NDArray[Any]:
    """Return a table with each column in ascending order.

    Of many short columns whole rows are compared by a sorting network (Batcher's odd-even merge
    sort): numpy sorts one column after the other, and the step from one to the next takes longer
    than the sort.
    """
    size, columns = table.shape
    if columns < _MANY_COLUMNS:
        return np.sort(table, axis=0)
    rows = [row.copy() for row in table]
    spare = np.empty(columns, table.dtype)
    for low, high in _comparators(size):
        np.minimum(rows[low], rows[high], out=spare)
        np.maximum(rows[low], rows[high], out=rows[high])
        rows[low], spare = spare, rows[low]
    return np.stack(rows)


@functools.cache
def _comparators(size: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of places to compare, in order, to sort `size` values."""
    pairs: list[tuple[int, int]] = []
    merged = 1
    while merged < size:
        step = merged
        while step:
            for first in range(step % merged, size - step, 2 * step):
                for low in range(first, min(first + step, size - step)):
                    if low // (2 * merged) == (low + step) // (2 * merged):
                        pairs.append((low, low + step))  # noqa: PERF401  four loops deep
            step //= 2
        merged *= 2
    return tuple(pairs)
