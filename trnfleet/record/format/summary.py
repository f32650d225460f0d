"""The index at the end of a finished file.

An invalid one is not used.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from mcap.opcode import Opcode
from mcap.records import Channel, Statistics

from trnfleet.errors import WireError
from trnfleet.packed_rows import PackedRows
from trnfleet.record.format.envelopes import MAX_NS
from trnfleet.record.format.records import (
    COMPRESSIONS,
    FOOTER,
    FOOTER_BYTES,
    HEAD,
    MAGIC,
    ChunkEntry,
    parse_chunk_index,
    parse_record,
)

if TYPE_CHECKING:
    from trnfleet.record.format.limits import RecordLimits


class ChunkEntries(Sequence[ChunkEntry]):
    """Chunk entries in file order."""

    def __init__(self, entries: Iterable[ChunkEntry] = ()) -> None:
        """Take entries."""
        self._rows = PackedRows()
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


@dataclass(slots=True)
class FileSummary:
    """The content of an index."""

    entries: list[ChunkEntry] = field(default_factory=list)
    """Chunk entries in file order."""
    channels: dict[int, str] = field(default_factory=dict)
    statistics: Statistics | None = None
    begin: int = 0
    """Offset of the index: the data ends before."""


def has_footer(file: int, size: int) -> bool:
    """Return whether a file ends with a footer."""
    return (
        size >= len(MAGIC) + FOOTER_BYTES and os.pread(file, len(MAGIC), size - len(MAGIC)) == MAGIC
    )


def read_summary(file: int, size: int, limits: RecordLimits) -> FileSummary:
    """Return the index of a finished file.

    Raises:
        WireError: it is missing, damaged or contradictory; the file must be scanned instead.
    """
    tail = os.pread(file, FOOTER_BYTES, max(0, size - FOOTER_BYTES))
    if len(tail) != FOOTER_BYTES or not tail.endswith(MAGIC):
        raise WireError("no footer")
    opcode, length, begin, _, crc = FOOTER.unpack_from(tail)
    end = size - FOOTER_BYTES
    if opcode != Opcode.FOOTER or length != FOOTER.size - HEAD.size:
        raise WireError("the footer is damaged")
    if not begin:
        raise WireError("no index")
    if not len(MAGIC) <= begin <= end or end - begin > limits.index_bytes:
        raise WireError("the footer names an impossible place")
    data = os.pread(file, end - begin, begin)
    if len(data) != end - begin:
        raise WireError("the index is cut short")
    if crc and zlib.crc32(tail[: FOOTER.size - 4], zlib.crc32(data)) != crc:
        raise WireError("the index's checksum does not agree")
    summary = _parse(memoryview(data), begin, limits)
    summary.entries.sort(key=lambda entry: entry.offset)
    _check(summary)
    return summary


def _parse(data: memoryview, begin: int, limits: RecordLimits) -> FileSummary:
    summary = FileSummary(begin=begin)
    at = 0
    while at < len(data):
        if at + HEAD.size > len(data):
            raise WireError("the index ends within a record")
        opcode, length = HEAD.unpack_from(data, at)
        fields = data[at + HEAD.size : at + HEAD.size + length]
        if len(fields) != length:
            raise WireError("the index ends within a record")
        at += HEAD.size + length
        if opcode == Opcode.CHUNK_INDEX:
            summary.entries.append(parse_chunk_index(fields))
        elif opcode == Opcode.CHANNEL:
            channel = parse_record(bytes(fields), Channel)
            summary.channels[channel.id] = channel.topic
        elif opcode == Opcode.STATISTICS:
            summary.statistics = parse_record(bytes(fields), Statistics)
        if len(summary.entries) > limits.chunks:
            raise WireError("the index has more chunks than a recording may have")
    return summary


def _check(summary: FileSummary) -> None:
    """Check the entries against the file and each other.

    Raises:
        WireError: one of them cannot be.
    """
    past = len(MAGIC)
    for entry in summary.entries:
        if entry.offset < past:
            raise WireError("the index has chunks that overlap")
        past = entry.offset + entry.length + entry.index_length
        if past > summary.begin:
            raise WireError("the index has a chunk beyond the data")
        if not 0 <= entry.start_ns <= entry.end_ns <= MAX_NS:
            raise WireError("the index has a chunk that ends before it begins")
        if entry.compression not in COMPRESSIONS or entry.compressed_size > entry.length:
            raise WireError("the index has a chunk of impossible sizes")
