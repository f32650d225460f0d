"""Compact list of a file's chunks.

An entry takes about 20 bytes. A live buffer has hundreds of thousands of chunks, and a tuple of
numbers takes 500 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from trnfleet.packed_rows import PackedRows
from trnfleet.record.format.records import ChunkEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WIDTH = 8
"""Seven numbers of an entry, and its kind's number. A file has few kinds."""


class ChunkEntries(Sequence[ChunkEntry]):
    """Chunk entries in file order."""

    def __init__(self, entries: Iterable[ChunkEntry] = ()) -> None:
        """Take entries."""
        self._rows = PackedRows(_WIDTH)
        self._kinds: dict[tuple[str, tuple[int, ...] | None, bool], int] = {}
        """Compression, channels and whether it is loose, with the number of the kind."""
        self._kind_list: list[tuple[str, tuple[int, ...] | None, bool]] = []
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> ChunkEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[ChunkEntry]: ...

    def __getitem__(self, index: int | slice) -> ChunkEntry | list[ChunkEntry]:
        if isinstance(index, slice):
            return [self._entry(*row) for row in self._rows[index]]
        return self._entry(*self._rows[index])

    def __iter__(self) -> Iterator[ChunkEntry]:
        return (self._entry(*row) for row in self._rows)

    @property
    def nbytes(self) -> int:
        """Size of the rows in bytes."""
        return self._rows.nbytes

    def append(self, entry: ChunkEntry) -> None:
        """Take one more."""
        key = entry.compression, entry.channels, entry.is_loose
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kind_list)
            self._kind_list.append(key)
        self._rows.append(
            (
                entry.start_ns,
                entry.end_ns,
                entry.offset,
                entry.length,
                entry.index_length,
                entry.compressed_size,
                entry.size,
                kind,
            )
        )

    def _entry(
        self,
        start_ns: int,
        end_ns: int,
        offset: int,
        length: int,
        index_length: int,
        compressed_size: int,
        size: int,
        kind: int,
    ) -> ChunkEntry:
        compression, channels, is_loose = self._kind_list[kind]
        return ChunkEntry(
            start_ns,
            end_ns,
            offset,
            length,
            index_length,
            compression,
            compressed_size,
            size,
            channels,
            is_loose,
        )
