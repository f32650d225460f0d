"""Sums and extremes of chips' wire codes for each instance, at the speed that a pass over 1,000,000 chips needs.

Where all instances have the same number of chips, numpy's `reduceat` and sums along short rows spend most of their time between
the rows. Halves are put together instead: the results are the same, because all of it is whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXACT = 2**53
"""Whole numbers up to here are exact as floats."""


def combine(
    operation: np.ufunc, codes: NDArray[Any], starts: NDArray[np.int64], chips_per_instance: int
) -> NDArray[Any]:
    """Return the minimum, maximum, or the bits of the codes of each instance's chips, as `reduceat` does.

    Args:
        operation: `np.minimum`, `np.maximum`, `np.bitwise_or` or `np.bitwise_and`.
        codes: The codes of the chips, shape (chips,) or (chips, width), without gaps between rows.
        starts: The first chip of each instance and the end of the last, from the first of `codes` on.
        chips_per_instance: Of every instance, or 0 where they differ.
    """
    if chips_per_instance < 2 or chips_per_instance % 2:
        found: NDArray[Any] = operation.reduceat(codes, (starts[:-1] - starts[0]).astype(np.intp))
        return found
    left = chips_per_instance
    if codes.ndim == 1:
        while left % 2 == 0:
            codes = operation(codes[0::2], codes[1::2])
            left //= 2
        return codes if left == 1 else operation.reduce(codes.reshape(-1, left), axis=1)
    width = codes.shape[1]
    if width == 1:
        return combine(operation, codes[:, 0], starts, chips_per_instance)[:, None]
    codes = codes.reshape(-1, left * width)
    while left % 2 == 0:
        left //= 2
        codes = operation(codes[:, : left * width], codes[:, left * width :])
    return codes if left == 1 else operation.reduce(codes.reshape(-1, left, width), axis=1)


def sums(codes: NDArray[Any], chips_per_instance: int, highest: int) -> NDArray[np.float64]:
    """Return the sum of the codes of each instance's chips.

    Args:
        codes: The codes of the chips, shape (chips,).
        chips_per_instance: Of every instance; not 0.
        highest: The largest of the codes.
    """
    left, room = chips_per_instance, min(_EXACT, int(np.iinfo(codes.dtype).max))
    if highest * left > room:
        if codes.dtype != np.uint16 or left % 2:
            # Sums of 64-bit counters may pass 64 bits, all others stay far below.
            dtype = np.float64 if codes.dtype == np.uint64 else np.uint64
            wide: NDArray[Any] = codes.reshape(-1, left).sum(axis=1, dtype=dtype)
            return wide.astype(np.float64)
        pairs = codes.view(np.uint32)
        codes = (pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16))
        left //= 2
    while left % 2 == 0:
        codes = codes[0::2] + codes[1::2]
        left //= 2
    found: NDArray[Any] = codes if left == 1 else codes.reshape(-1, left).sum(axis=1)
    return found.astype(np.float64)
