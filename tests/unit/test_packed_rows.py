"""Rows of whole numbers in eight bytes a number."""

from __future__ import annotations

import bisect

import pytest

from trnfleet.packed_rows import PackedRows

COUNT = 775


def rows_of_seconds(count: int = COUNT) -> list[tuple[int, ...]]:
    """Return rows of times a second apart, their ends, and places in a file.

    Each time is a few milliseconds late.
    """
    starts = [1_764_000_000 * 10**9 + n * 10**9 + noise(n) for n in range(count)]
    return [
        (start, start + 900_000_000 + noise(start), 30_000 * n) for n, start in enumerate(starts)
    ]


def noise(number: int) -> int:
    """Return up to five milliseconds, in no order."""
    return number * 2_654_435_761 % 5_000_000


def test_rows_come_back_as_they_were() -> None:
    """Rows come back by number, from the end, as a slice and in order.

    With the largest possible numbers.
    """
    given = [*rows_of_seconds(), (2**64 - 1, 0, 2**63), (0, 2**64 - 1, 1)]
    rows = PackedRows(given)
    assert len(rows) == len(given)
    assert list(rows) == given
    assert (rows[0], rows[256], rows[-1]) == (given[0], given[256], given[-1])
    assert rows[254:258] == given[254:258]


def test_a_row_beyond_either_end_is_an_error() -> None:
    """As of every sequence."""
    rows = PackedRows(rows_of_seconds(5))
    for number in (5, -6):
        with pytest.raises(IndexError):
            rows[number]


def test_a_number_that_does_not_fit_is_refused_and_leaves_nothing() -> None:
    """It would come back as another one."""
    rows = PackedRows([(1, 2)])
    for row in ((3, -1), (2**64, 3)):
        with pytest.raises(OverflowError):
            rows.append(row)
    assert list(rows) == [(1, 2)]


@pytest.mark.parametrize("dropped", [0, 1, 255, 256, COUNT])
def test_dropped_rows_are_gone_and_the_others_found(dropped: int) -> None:
    """Row numbers begin with the oldest remaining row."""
    given = rows_of_seconds()
    rows = PackedRows(given)
    rows.drop(dropped)
    rows.drop(0)
    left = given[dropped:]
    assert list(rows) == left
    assert list(reversed(rows)) == left[::-1]
    for column in (0, 1):
        numbers = [row[column] for row in left]
        for value in (
            0,
            *(row[column] + delta for row in given[::100] for delta in (-1, 0, 1)),
            2**64 - 1,
        ):
            assert rows.bisect_right(column, value) == bisect.bisect_right(numbers, value)
    rows.append(given[0])
    assert list(rows) == [*left, given[0]]
