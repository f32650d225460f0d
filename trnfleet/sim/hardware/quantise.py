"""Wire codes with noise, from integers alone: a base and a mask of random bits, so that bits agree on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.metrics import Metric

NOISE_SHIFT = 5
"""Noise is even over 1/32 to 1/16 of the value (plus or minus 1.6 to 3.1 %): assumed."""


def to_codes(metric: Metric, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the codes nearest to values in the metric's unit (not negative)."""
    scaled = values * metric.steps_per_unit if metric.steps_per_unit else values / metric.scale
    return np.floor(scaled + 0.5).astype(np.int64)


def noisy(
    codes: NDArray[np.int64], limit: NDArray[np.int64] | int, *, least: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (base, mask): base + (random bits & mask) varies around `codes` and lies in 0 to `limit`.

    Args:
        codes: What the mean shall be.
        limit: The highest code allowed.
        least: Bits of the mask that are set even for codes near 0.
    """
    mask = codes >> NOISE_SHIFT
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> shift
    mask |= least
    base = np.minimum(codes - (mask >> 1), limit - mask)
    return np.maximum(base, 0), mask


def table(
    metric: Metric, values: NDArray[np.int64], missing: NDArray[np.bool_] | None, *, fill: int, copies: int
) -> NDArray[Any]:
    """Return rows of `copies` times the lanes of `values`, in the metric's type, `fill` where a lane is missing."""
    if missing is not None:
        values = np.where(missing, fill, values)
    return np.tile(values, (1, copies)).astype(metric.dtype)
