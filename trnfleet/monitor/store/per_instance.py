"""Sums and extremes of chip wire codes per instance.

If all instances have the same number of chips, numpy's `reduceat` and sums along short rows spend
most of their time between the rows. Combining halves has the same result, because all values are
integers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.int64] | slice

EVEN_SHARE = 7 / 8
"""Least share of a lane's largest code for an instance's chips to count as alike."""
INSTANCES_A_SLICE = 2_048
"""Instances whose chips are compared in one slice."""
SLACK = 1e-5
"""Relative error of a single-precision value after a few operations, with a margin."""


def combine(
    operation: np.ufunc, codes: NDArray[Any], starts: NDArray[np.int64], chips_per_instance: int
) -> NDArray[Any]:
    """Return the minimum, maximum or bits of each instance's codes, as `reduceat` does.

    Args:
        operation: `np.minimum`, `np.maximum`, `np.bitwise_or` or `np.bitwise_and`.
        codes: The codes of the chips, shape (chips,) or (chips, width), without gaps between rows.
        starts: The first chip of each instance and the end of the last, from the first of `codes`
            on.
        chips_per_instance: Of every instance, or 0 where they differ.
    """
    if chips_per_instance < 2 or chips_per_instance % 2:
        combined: NDArray[Any] = operation.reduceat(
            codes, (starts[:-1] - starts[0]).astype(np.intp)
        )
        return combined
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


class Spread(NamedTuple):
    """Smallest and largest code of each instance's chips, lane by lane: instances x lanes."""

    lowest: NDArray[Any]
    highest: NDArray[Any]

    def of(self, some: Rows) -> Spread:
        """Return that of some instances."""
        return Spread(self.lowest[some], self.highest[some])

    @staticmethod
    def joined(parts: Sequence[Spread]) -> Spread:
        """Return the spread of several adjacent ranges of instances."""
        return Spread(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def uneven(self, top: int) -> NDArray[np.bool_]:
        """Return a mask of uneven instances.

        An instance is uneven if a lane's smallest code is below `EVEN_SHARE` of its largest, or if
        codes are missing.
        """
        # In the codes' own type: what is below 7/8 of the largest is more than an eighth of it
        # away.
        lowest, highest = self
        flags = (highest - lowest) > (highest >> 3)
        if int(highest.max(initial=0)) == top:
            flags |= (highest == top) & (lowest != top)
        return any_lane(flags)


def spread(codes: NDArray[Any], starts: NDArray[np.int64], chips_per_instance: int) -> Spread:
    """Return the least and the largest codes of each instance's chips.

    Args:
        codes: The codes of the chips, shape (chips, width), without gaps.
        starts: The first chip of each instance and the end of the last, from the first of `codes`
            on.
        chips_per_instance: Of every instance, or 0 where they differ.
    """
    # Small slices stay in the processor's cache, and need no new pages for results in between.
    parts = []
    for first in range(0, len(starts) - 1, INSTANCES_A_SLICE):
        some = starts[first : first + INSTANCES_A_SLICE + 1]
        part = codes[some[0] - starts[0] : some[-1] - starts[0]]
        parts.append(
            Spread(
                combine(np.minimum, part, some, chips_per_instance),
                combine(np.maximum, part, some, chips_per_instance),
            )
        )
    return Spread.joined(parts)


class Uneven(NamedTuple):
    """Instances with differing chips, and how alike the lanes of their chips are."""

    instances: NDArray[np.int64]
    """Uneven instances, ascending. A lane's smallest code is below `EVEN_SHARE` of its largest, or
    codes are missing."""
    alike: NDArray[np.float32]
    """Smallest quotient of two lanes of a chip, both as shares of the instance's largest.

    The largest code of the same lane counts. 0 if codes are missing. Nearly 1 for chips less busy
    than others on all lanes alike.
    """


NONE_UNEVEN = Uneven(np.zeros(0, np.int64), np.zeros(0, np.float32))


def any_lane(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of rows with any flag set."""
    # Whole columns, because numpy reads short rows slowly.
    flagged: NDArray[np.bool_] = functools.reduce(np.logical_or, flags.T)
    return flagged


def alikeness(table: NDArray[Any], spread: Spread, top: int) -> NDArray[np.float32]:
    """Return how alike the lanes of some instances' chips are, as `Uneven.alike`.

    Args:
        table: Codes, instances x chips x lanes; a chip may be there twice.
        spread: The least and the largest of them.
        top: The code that means not available.
    """
    lowest, highest = spread
    # Of a lane on which nothing is carried, or known, there is no share.
    is_used = (highest > 0) & (lowest != top)
    lanes = np.flatnonzero(np.logical_or.reduce(is_used, axis=0))
    by_lane = table.transpose(2, 0, 1)
    largest = highest
    if not len(lanes):
        return np.full(len(table), np.inf, np.float32)
    if len(lanes) < len(by_lane):
        # Jobs that do not go beyond their instance use a third of the lanes.
        by_lane = by_lane[lanes]
        largest = highest[:, lanes]
        is_used = is_used[:, lanes]
    steps = np.where(is_used, 1 / np.maximum(largest, 1, dtype=np.float32), 0).astype(np.float32)
    shares = np.multiply(by_lane, steps.T[:, :, None], dtype=np.float32, order="C")
    most = shares.max(axis=0)
    if not is_used.all():
        shares += np.where(is_used, np.float32(0), np.float32(2)).T[:, :, None]
    ratio: NDArray[np.float32] = shares.min(axis=0)
    ratio /= np.maximum(most, np.finfo(np.float32).tiny)
    alike: NDArray[np.float32] = functools.reduce(np.minimum, ratio.T)
    if int(highest.max(initial=0)) == top:
        alike[((highest == top) & (lowest != top)).any(axis=1)] = 0
    return alike


def sums(codes: NDArray[Any], lanes: int, highest: int) -> NDArray[np.float64]:
    """Return the sums of consecutive codes, such as the lanes of each instance's chips.

    Args:
        codes: The codes, without gaps.
        lanes: How many codes make each sum; not 0.
        highest: The largest of the codes.
    """
    table = codes.reshape(-1, lanes)
    if not highest:
        return np.zeros(len(table))
    # Sums of 64-bit counters may pass 64 bits.
    is_wide = codes.dtype == np.uint64
    dtype = np.float64 if is_wide else np.result_type(codes, np.min_scalar_type(highest * lanes))
    # Adds along short rows at the speed of long ones, unlike `sum`, and starts no threads, unlike
    # `@`.
    totals: NDArray[Any] = np.einsum("ij->i", table, dtype=dtype, casting="unsafe")
    return totals.astype(np.float64)


def fold(
    operation: np.ufunc, values: NDArray[Any], starts: NDArray[np.intp], nodes_per_group: int
) -> NDArray[Any]:
    """Return node values combined per group, as `reduceat` does.

    Args:
        operation: The operation on two values.
        values: A value per node.
        starts: The first node of each group.
        nodes_per_group: Of every group, or 0 if it varies.
    """
    combined: NDArray[Any] = (
        # Whole columns, because numpy combines short rows slowly.
        functools.reduce(operation, values.reshape(-1, nodes_per_group).T)
        if nodes_per_group
        else operation.reduceat(values, starts)
    )
    return combined
