from __future__ import annotations

import numpy as np
import pytest

from trnfleet.monitor.medians import median, sort_columns


@pytest.mark.parametrize("size", [1, 2, 3, 8, 101])
def test_a_median_is_what_numpy_says(size: int) -> None:
    """A median equals NumPy's, in any order; NaN for nothing.

    It is the middle value or the mean of the two there.
    """
    values = np.random.default_rng(size).normal(size=size)
    assert median(values) == np.median(values)
    assert np.isnan(median(np.zeros(0)))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 21])
@pytest.mark.parametrize("columns", [5, 400])
def test_sorted_columns_are_what_numpy_says(size: int, columns: int) -> None:
    """Every column is sorted as by NumPy, for few and many columns.

    The input is unchanged.
    """
    table = np.random.default_rng(size).integers(0, 9, (size, columns)).astype(np.uint16)
    before = table.copy()
    assert np.array_equal(sort_columns(table), np.sort(table, axis=0))
    assert np.array_equal(table, before)
