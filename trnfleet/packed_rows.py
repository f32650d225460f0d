"""Rows of whole numbers in few bytes each, for long storage.

Examples are the times of seconds and the places of chunks. Such rows grow by a little from one to
the next. They are stored in blocks of a fixed number: the newest as it is, in memory allocated
once, and each full one as the compressed differences of its rows. Growing lists would be copied to
ever larger places, and leave holes as large as themselves.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import zlib
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK_ROWS = 256
"""Rows of a block. The newest block is not packed: 16 KiB at eight numbers a row."""
_NUMBER_BYTES = 8
_MASK = 2**64 - 1
_LEVEL = 1
"""Compression level. The differences hardly repeat; only their zeros compress."""

Row = tuple[int, ...]


class PackedRows(Sequence[Row]):
    """Rows of one width, oldest first, with numbers from 0 to 2^64 - 1.

    `append` adds at the end, `drop` removes at the beginning.
    """

    def __init__(self, width: int, rows: Iterable[Row] = ()) -> None:
        """Take rows.

        Args:
            width: Numbers of a row.
            rows: The first rows.
        """
        self._width = width
        self._packed: list[bytes] = []
        self._heads: list[Row] = []
        """First row of each block, the newest included."""
        self._dropped = 0
        """Rows dropped from the oldest block."""
        self._newest = array("Q")
        """As long as a whole block from the first row on."""
        self._count = 0
        """Rows of the newest block."""
        self._unpacked: tuple[bytes, list[Row]] = b"", []
        """Block unpacked last. A row's neighbours are often read next."""
        for row in rows:
            self.append(row)

    def __len__(self) -> int:
        return len(self._packed) * BLOCK_ROWS + self._count - self._dropped

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(index)
        block, place = divmod(index % count + self._dropped, BLOCK_ROWS)
        return self._row(block, place)

    def __iter__(self) -> Iterator[Row]:
        for block in range(len(self._heads)):
            yield from self._rows(block)

    def __reversed__(self) -> Iterator[Row]:
        for block in reversed(range(len(self._heads))):
            yield from reversed(self._rows(block))

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers, without the block unpacked last."""
        return len(self._newest) * _NUMBER_BYTES + sum(len(block) for block in self._packed)

    def append(self, row: Row) -> None:
        """Take one more.

        Raises:
            OverflowError: a number is negative or too large.
        """
        if self._count == BLOCK_ROWS:
            self._packed.append(_packed(self._newest, self._width))
            self._count = 0
        elif not self._newest:
            self._newest = array("Q", bytes(BLOCK_ROWS * self._width * _NUMBER_BYTES))
        begin = self._count * self._width
        self._newest[begin : begin + self._width] = array("Q", row)
        if not self._count:
            self._heads.append(row)
        self._count += 1

    def drop(self, count: int) -> None:
        """Remove the oldest rows."""
        if count >= len(self):
            self._packed.clear()
            self._heads.clear()
            self._dropped = self._count = 0
            return
        blocks, self._dropped = divmod(self._dropped + count, BLOCK_ROWS)
        del self._packed[:blocks], self._heads[:blocks]

    def bisect_right(self, column: int, value: int) -> int:
        """Return the number of the first row above a value in a column.

        The column must never fall.
        """
        block = bisect.bisect_right(self._heads, value, key=operator.itemgetter(column)) - 1
        if block < 0:
            return 0
        rows = range(self._count if block == len(self._packed) else BLOCK_ROWS)
        place = bisect.bisect_right(
            rows, value, key=lambda number: self._row(block, number)[column]
        )
        return max(0, block * BLOCK_ROWS + place - self._dropped)

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
    return zlib.compress(
        b"".join(data[place::_NUMBER_BYTES] for place in range(_NUMBER_BYTES)), _LEVEL
    )


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
