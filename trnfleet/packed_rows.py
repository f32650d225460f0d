"""Rows of whole numbers in eight bytes a number, for long storage.

Examples are the times of seconds and the places of chunks.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterable, Sequence
from typing import overload

Row = tuple[int, ...]


class PackedRows(Sequence[Row]):
    """Rows of one width, oldest first, with numbers from 0 to 2^64 - 1.

    `append` adds at the end, `drop` removes at the beginning.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        """Copy rows.

        The first one sets the width.
        """
        self._width = 1
        self._numbers = array("Q")
        for row in rows:
            self.append(row)

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self._row(place) for place in places]
        return self._row(places)

    def append(self, row: Row) -> None:
        """Add a row.

        Raises:
            OverflowError: a number is negative or too large.
        """
        if not self._numbers:
            self._width = len(row)
        self._numbers.extend(array("Q", row))

    def drop(self, count: int) -> None:
        """Remove the oldest rows."""
        del self._numbers[: count * self._width]

    def bisect_right(self, column: int, value: int) -> int:
        """Return the number of the first row above a value in a column.

        The column must never fall.
        """
        places = range(column, len(self._numbers), self._width)
        return bisect.bisect_right(places, value, key=self._numbers.__getitem__)

    def _row(self, place: int) -> Row:
        return tuple(self._numbers[place * self._width : (place + 1) * self._width])
