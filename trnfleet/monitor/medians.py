"""Median of known values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def median(values: NDArray[np.float64]) -> float:
    """Return the median of known values; NaN for none."""
    return float(np.median(values)) if len(values) else float("nan")
