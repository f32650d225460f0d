"""The chunks of a file, in 64 bytes each: a live buffer has hundreds of thousands, and a tuple of numbers takes 500."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from trnfleet.record.format.records import ChunkEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NUMBERS = 7
"""Numbers of an entry, beside which it has a few kinds of everything else."""


class ChunkEntries(Sequence[ChunkEntry]):
    """Chunk entries in the order in which they stand in the file."""

    def __init__(self, entries: Iterable[ChunkEntry] = ()) -> None:
        """Take entries."""
        self._numbers = array("Q")
        self._kinds: dict[tuple[str, tuple[int, ...] | None, bool], int] = {}
        """Compression, channels and whether it is loose, with the number of the kind."""
        self._kind_list: list[tuple[str, tuple[int, ...] | None, bool]] = []
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self._numbers) // (_NUMBERS + 1)

    @overload
    def __getitem__(self, index: int) -> ChunkEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[ChunkEntry]: ...

    def __getitem__(self, index: int | slice) -> ChunkEntry | list[ChunkEntry]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        at = self._place(index)
        return self._entry(*self._numbers[at : at + _NUMBERS + 1])

    def __iter__(self) -> Iterator[ChunkEntry]:
        numbers = iter(self._numbers)
        for fields in zip(*[numbers] * (_NUMBERS + 1), strict=True):
            yield self._entry(*fields)

    def __setitem__(self, index: int, entry: ChunkEntry) -> None:
        at = self._place(index)
        self._numbers[at : at + _NUMBERS + 1] = self._packed(entry)

    def append(self, entry: ChunkEntry) -> None:
        """Take one more."""
        self._numbers.extend(self._packed(entry))

    def _place(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(index)
        return (index % count) * (_NUMBERS + 1)

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

    def _packed(self, entry: ChunkEntry) -> array[int]:
        key = entry.compression, entry.channels, entry.is_loose
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kind_list)
            self._kind_list.append(key)
        return array(
            "Q",
            (
                entry.start_ns,
                entry.end_ns,
                entry.offset,
                entry.length,
                entry.index_length,
                entry.compressed_size,
                entry.size,
                kind,
            ),
        )
