from __future__ import annotations

import numpy as np
import pytest

from trnfleet.monitor.medians import median


@pytest.mark.parametrize("size", [1, 2, 3, 8, 101])
def test_a_median_is_what_numpy_says(size: int) -> None:
    """A median equals NumPy's, in any order; NaN for nothing.

    It is the middle value or the mean of the two there.
    """
    values = np.random.default_rng(size).normal(size=size)
    assert median(values) == np.median(values)
    assert np.isnan(median(np.zeros(0)))
