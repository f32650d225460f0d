"""Sums and extremes of chip wire codes per instance, fast enough for 1,000,000 chips.

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

_EXACT = 2**53
"""Whole numbers up to here are exact as floats."""
_SUMS = ((2**16, np.uint16), (2**32, np.uint32), (2**64, np.uint64))
"""Types of sums, the narrowest first, and where each ends."""
_BLOCK = 1_024
"""Instances per block. Their codes stay in the processor's cache while compared."""
_WIDEST = 128
"""Most codes of an instance for `_BLOCK` instances to fit the cache."""
_MANY = 512
"""Fewest instances for blocks and words to pay off."""
_A_WORD = 4
"""Codes of 16 bits in a word of 64."""
_WORD_LANES = 6
"""Lanes of 16 bits per chip: the lanes of two chips are three words."""
_COLUMNS = 250
_BLOCKS = 10
"""Instances whose words are put in columns together, and blocks at once. Measured: half of the
processor's cache."""
_LOWER = np.uint32(0xFFFF)
"""Bits of the lower of two codes."""
EVEN_SHARE = 7 / 8
"""Least share of a lane's largest code for an instance's chips to count as alike."""
UNEVEN_A_SLICE = 2_048
"""Uneven instances per slice of work: half a millisecond."""
SLACK = 1e-5
"""Relative error of a single-precision value after a few operations, with a margin."""
_FEW = 16
"""Most nodes of a group added one by one."""


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
    if codes.ndim == 1 and not left & (left - 1) and len(starts) > _MANY:
        return _slid(operation, codes, left)
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


def _slid(operation: np.ufunc, codes: NDArray[Any], row: int) -> NDArray[Any]:
    """Return the result of each row, for many rows, computed in blocks."""
    results = np.empty(len(codes) // row, codes.dtype)
    spare = [np.empty(min(_BLOCK * _WIDEST, len(codes)), codes.dtype) for _ in range(2)]
    block = _BLOCK * _WIDEST // row
    for first in range(0, len(results), block):
        part = codes[first * row : (first + block) * row]
        results[first : first + block] = _halved(operation, part, row, 1, spare)[::row]
    return results


def _halved(
    operation: np.ufunc, part: NDArray[Any], row: int, width: int, spare: list[NDArray[Any]]
) -> NDArray[Any]:
    """Return codes with each row's result in its first codes, lane by lane.

    The rest of each row is meaningless. Each code is combined with the code half a row behind it,
    even across row ends: that costs nothing and is not read.
    """
    source = part
    size = len(part)
    step = row // 2
    while step >= width:
        size -= step
        operation(source[:size], source[step : size + step], out=spare[0][:size])
        source = spare[0]
        step = step // 2
        spare.reverse()
    return source[: len(part)]


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


class WordSpread(NamedTuple):
    """Spread of six 16-bit lanes in words: the first four lanes, and the last two."""

    lowest: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    highest: tuple[NDArray[np.uint64], NDArray[np.uint64]]

    def of(self, some: Rows) -> Spread:
        """Return that of some instances."""
        return Spread(
            *(
                np.concatenate((_lanes(four[some]), _lanes(two[some])[:, :2]), axis=1)
                for four, two in self
            )
        )

    @staticmethod
    def joined(parts: Sequence[WordSpread]) -> WordSpread:
        """Return the spread of several adjacent ranges of instances."""
        lowest, highest = (
            (np.concatenate([pair[0] for pair in ends]), np.concatenate([pair[1] for pair in ends]))
            for ends in zip(*parts, strict=True)
        )
        return WordSpread(lowest, highest)

    def uneven(self, top: int) -> NDArray[np.bool_]:
        """Return a mask of uneven instances, as `Spread.uneven` does."""
        flags = np.zeros(len(self.lowest[0]), np.bool_)
        for lowest, highest in zip(self.lowest, self.highest, strict=True):
            # The lanes that the second word lacks are 0 in both.
            flags |= Spread(_lanes(lowest), _lanes(highest)).uneven(top)
        return flags


def _lanes(words: NDArray[np.uint64]) -> NDArray[np.uint16]:
    return words.view(np.uint16).reshape(-1, _A_WORD)


class Lanes(NamedTuple):
    """Results of reading the instances' codes once, lane by lane."""

    spread: WordSpread
    total: NDArray[np.float64] | None
    """The sum of each instance; None where codes are too large for it."""
    highest: int
    """The largest code."""


def has_word_lanes(codes: NDArray[Any], chips_per_instance: int) -> bool:
    """Return whether `read_lanes` can read the codes.

    They must be six lanes of 16 bits, with an even number of chips per instance.
    """
    return (
        codes.dtype == np.uint16
        and codes.dtype.isnative
        and codes.shape[1:] == (_WORD_LANES,)
        and codes.flags.c_contiguous
        and chips_per_instance > 0
        and chips_per_instance % 2 == 0
        and len(codes) > 0
    )


def read_lanes(codes: NDArray[Any], chips_per_instance: int) -> Lanes:
    """Return the spread and the sums of codes for which `has_word_lanes` is true.

    Two chips are three words, and the same words of all pairs of an instance have the same lanes.
    Words are put in columns first, a block of instances at a time, so that pairs are combined in
    whole columns.
    """
    instances = len(codes) // chips_per_instance
    pairs = chips_per_instance // 2
    words = codes.reshape(-1).view(np.uint64).reshape(instances, 3 * pairs)
    lowest, highest, total = (np.empty((3, instances), np.uint64) for _ in range(3))
    spare = np.empty(min(instances, _COLUMNS * _BLOCKS) * 3 * pairs, np.uint64)
    whole = instances - instances % _COLUMNS
    for first, last, columns in ((0, whole, _COLUMNS), (whole, instances, instances - whole)):
        for begin in range(first, last, _COLUMNS * _BLOCKS):
            end = min(last, begin + _COLUMNS * _BLOCKS)
            blocks = (end - begin) // columns
            table = spare[: (end - begin) * 3 * pairs].reshape(blocks, 3 * pairs, columns)
            np.copyto(
                table, words[begin:end].reshape(blocks, columns, 3 * pairs).transpose(0, 2, 1)
            )
            by_pair = table.reshape(blocks, pairs, 3 * columns)
            for operation, kind, made in (
                (np.minimum, np.uint16, lowest),
                (np.maximum, np.uint16, highest),
                (np.add, np.uint64, total),
            ):
                of_pairs = operation.reduce(by_pair.view(kind), axis=1).view(np.uint64)
                made[:, begin:end].reshape(3, blocks, columns)[...] = of_pairs.reshape(
                    blocks, 3, columns
                ).transpose(1, 0, 2)
    spread = WordSpread(_folded(np.minimum, lowest), _folded(np.maximum, highest))
    most = max(int(part.view(np.uint16).max()) for part in spread.highest)
    return Lanes(spread, _total(total) if pairs * most < 2**16 else None, most)


def _folded(
    operation: np.ufunc, words: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the result of each pair of chips.

    The lanes of its three words are 0 1 2 3, 4 5 0 1 and 2 3 4 5.
    """
    first, middle, last = words
    half = np.uint64(32)
    four = middle >> half
    four |= last << half
    two = last >> half
    operation(four.view(np.uint16), first.view(np.uint16), out=four.view(np.uint16))
    operation(two.view(np.uint16), middle.view(np.uint16), out=two.view(np.uint16))
    two &= np.uint64(2**32 - 1)
    return four, two


def _total(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the sum of the twelve codes in the three words of each instance."""
    codes = words.view(np.uint32)
    singles = codes & _LOWER
    singles += codes >> np.uint32(16)
    halves = singles[0] + singles[1]
    halves += singles[2]
    totals: NDArray[np.float64] = (halves[0::2] + halves[1::2]).astype(np.float64)
    return totals


def spread(codes: NDArray[Any], starts: NDArray[np.int64], chips_per_instance: int) -> Spread:
    """Return the least and the largest codes of each instance's chips.

    Args:
        codes: The codes of the chips, shape (chips, width), without gaps.
        starts: The first chip of each instance and the end of the last, from the first of `codes`
            on.
        chips_per_instance: Of every instance, or 0 where they differ.
    """
    if chips_per_instance < 2 or chips_per_instance & (chips_per_instance - 1):
        return Spread(
            combine(np.minimum, codes, starts, chips_per_instance),
            combine(np.maximum, codes, starts, chips_per_instance),
        )
    instances = len(starts) - 1
    width = codes.shape[1]
    flat = codes.reshape(-1)
    row = chips_per_instance * width
    made = Spread(*(np.empty((instances, width), codes.dtype) for _ in range(2)))
    spare = [np.empty(min(_BLOCK, instances) * row, codes.dtype) for _ in range(2)]
    for first in range(0, instances, _BLOCK):
        last = min(instances, first + _BLOCK)
        part = flat[first * row : last * row]
        for operation, extremes in ((np.minimum, made.lowest), (np.maximum, made.highest)):
            extremes[first:last] = _halved(operation, part, row, width, spare).reshape(-1, row)[
                :, :width
            ]
    return made


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
    """Return a mask of rows with any flag set.

    Rows must have no gaps between them.
    """
    rows, width = flags.shape
    flagged: NDArray[Any]
    if width % 2 or rows < 2:
        flagged = np.logical_or.reduce(flags, axis=1)
        return flagged
    # Two flags at once, of whole columns: each with those behind it, also over the ends of rows,
    # which are not read.
    pairs = flags.view(np.uint16).reshape(-1)
    step = width // 2
    last = len(pairs) - step + 1
    flagged = pairs[:last]
    for place in range(1, step):
        flagged = flagged | pairs[place : place + last]
    flagged = flagged[::step] > 0
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
    bound = highest * lanes
    if not highest:
        return np.zeros(len(table))
    if codes.dtype == np.uint64 and bound > _EXACT:
        # Sums of 64-bit counters may pass 64 bits, all others stay far below.
        wide: NDArray[np.float64] = table.sum(axis=1, dtype=np.float64)
        return wide
    words = lanes // _A_WORD
    parts = next(
        (
            parts
            for parts in (1, 2)
            if words % parts == 0 and _is_fast(words // parts) and words // parts * highest < 2**16
        ),
        0,
    )
    if (
        codes.dtype == np.uint16
        and codes.dtype.isnative
        and lanes % _A_WORD == 0
        and parts
        and len(table) > _MANY
    ):
        return _word_sums(codes.reshape(-1).view(np.uint64), words, parts)
    # None narrower than the codes: to make them so takes as long as adding them up.
    narrowest = next(
        dtype for end, dtype in _SUMS if bound < end and np.dtype(dtype).itemsize >= codes.itemsize
    )
    # Adds along short rows at the speed of long ones, which `sum` does not, and starts no threads,
    # which `@` does.
    totals: NDArray[Any] = np.einsum("ij->i", table, dtype=narrowest, casting="unsafe")
    return totals.astype(np.float64)


def _is_fast(words: int) -> bool:
    """Return whether rows of this length are added up fast."""
    return words == 2 or words % 4 == 0


def _word_sums(codes: NDArray[np.uint64], words: int, parts: int) -> NDArray[np.float64]:
    """Return the sums of 16-bit codes, four to a word, all four added at once.

    Args:
        codes: The words.
        words: How many make each sum.
        parts: Into how many equal parts of them a sum is cut so that in none of them any of the
            four passes 16 bits.
    """
    four: NDArray[np.uint64]
    if words // parts == 2:
        four = codes[0::2] + codes[1::2]
    elif words // parts == 4:
        # Each word is added to the one two behind it, also over the ends of rows, whose sums are
        # not read.
        two = codes[:-2] + codes[2:]
        four = two[0::4] + two[1::4]
    else:
        four = np.einsum("ij->i", codes.reshape(-1, words // parts))
    pairs = four.view(np.uint32)
    singles = pairs & _LOWER
    singles += pairs >> np.uint32(16)
    step = 2 * parts
    total = singles[0::step] + singles[1::step]
    for place in range(2, step):
        total += singles[place::step]
    return total.astype(np.float64)


def fold(
    operation: np.ufunc, values: NDArray[Any], starts: NDArray[np.intp], nodes_per_group: int
) -> NDArray[Any]:
    """Return node values combined per group, as `reduceat` does.

    The same array if each group is one node.

    Args:
        operation: The operation on two values.
        values: A value per node.
        starts: The first node of each group.
        nodes_per_group: Of every group, or 0 if it varies.
    """
    if nodes_per_group == 1:
        # Roll-ups of relays have one row an UltraServer.
        return values
    if not 1 < nodes_per_group <= _FEW:
        folded: NDArray[Any] = operation.reduceat(values, starts)
        return folded
    made: NDArray[Any] = operation(values[0::nodes_per_group], values[1::nodes_per_group])
    for place in range(2, nodes_per_group):
        operation(made, values[place::nodes_per_group], out=made)
    return made
