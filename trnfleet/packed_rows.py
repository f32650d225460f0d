"""Rows of whole numbers in eight bytes a number, for long storage.

Examples are the times of seconds and the places of chunks.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK_ROWS = 256
"""Rows of a block. The newest block is not packed: 16 KiB at eight numbers a row."""
_NUMBER_BYTES = array("Q").itemsize
_MASK = 2**64 - 1

Row = tuple[int, ...]


class PackedRows(Sequence[Row]):
    """Rows of one width, oldest first, with numbers from 0 to 2^64 - 1.

    `append` adds at the end, `drop` removes at the beginning.
    """

    def __init__(self, width: int, rows: Iterable[Row] = ()) -> None:
        """Copy rows.

        Args:
            width: Numbers of a row.
            rows: The first rows.
        """
        self._width = width
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

    def _rows(self, block: int) -> list[Row]:
        """Return the rows of a block, without dropped ones."""
        count = self._count if block == len(self._packed) else BLOCK_ROWS
        begin = self._dropped if block == 0 else 0
        return [self._row(block, place) for place in range(begin, count)]

    def _row(self, block: int, place: int) -> Row:
        if block == len(self._packed):
            return tuple(self._newest[place * self._width : (place + 1) * self._width])
        data = self._packed[block]
        if self._unpacked[0] is not data:
            self._unpacked = data, _unpacked(data, self._width)
        return self._unpacked[1][place]


def _packed(numbers: array[int], width: int) -> bytes:
    """Return the packed rows of a block.

    Columns are stored one after the other as differences, their lowest bytes first, compressed.
    """
    differences = array("Q")
    for column in range(width):
        last = 0
        for number in numbers[column::width]:
            differences.append((number - last) & _MASK)
            last = number
    data = differences.tobytes()
    planes = b"".join(data[place::_NUMBER_BYTES] for place in range(_NUMBER_BYTES))
    # The differences hardly repeat; only their zeros compress.
    return zlib.compress(planes, zlib.Z_BEST_SPEED)


def _unpacked(data: bytes, width: int) -> list[Row]:
    planes = zlib.decompress(data)
    size = len(planes) // _NUMBER_BYTES
    joined = bytearray(len(planes))
    for place in range(_NUMBER_BYTES):
        joined[place::_NUMBER_BYTES] = planes[place * size : (place + 1) * size]
    differences = array("Q", bytes(joined))
    columns = (
        itertools.accumulate(
            differences[column * BLOCK_ROWS : (column + 1) * BLOCK_ROWS],
            lambda a, b: (a + b) & _MASK,
        )
        for column in range(width)
    )
    return list(zip(*columns, strict=True))
