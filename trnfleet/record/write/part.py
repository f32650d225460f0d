"""One file of a recording: written chunk by chunk, with its index at the end.

A chunk is written in one piece, straight to the kernel: a killed process loses only its uncut
messages. When a write fails, the file is cut back to its last whole chunk.
"""

from __future__ import annotations

import errno
import os
import zlib
from typing import TYPE_CHECKING

from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    Metadata,
    MetadataIndex,
    Statistics,
    SummaryOffset,
)

from trnfleet.files import open_private, sync_folder
from trnfleet.record.format.envelopes import CHANNELS
from trnfleet.record.format.metadata import LIBRARY, PROFILE, About
from trnfleet.record.format.packing import COMPRESSION, LEVEL, ChunkPacker, PackedChunk
from trnfleet.record.format.records import FOOTER, MAGIC, ChunkEntry, to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MESSAGE_ENCODING = "cbor"
DELETED = "the file was deleted"
_INDEX_ENTRY_BYTES = 160
"""Approximate bytes per chunk in the index."""


class PartFile:
    """A file being written.

    Raises:
        OSError: from every writing method. The file then ends with its last whole chunk.
    """

    def __init__(
        self, path: Path, about: About, level: int = LEVEL, *, durable: bool = False
    ) -> None:
        """Make the file with its header, metadata and channels.

        An existing file is an error.

        Args:
            path: The file.
            about: Its metadata.
            level: Compression level.
            durable: Whether its name, and its content at its end, are synced to the disk.
        """
        self.path = path
        self._durable = durable
        self.packer = ChunkPacker(level)
        self.size = 0
        """Bytes in the file."""
        self.start_ns = 0
        """Time of the first chunk."""
        self._file = open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._has_name = os.fstat(self._file).st_nlink > 0
        """Whether the file system counts names. If so, the removal of the last one is noticed."""
        self._sequences = [0] * (len(CHANNELS) + 1)
        self._index = bytearray()
        """Index entries of the chunks: a day has hundreds of thousands of them."""
        self._times: tuple[int, int] | None = None
        """The earliest begin and the latest end of a chunk."""
        self.chunks = 0
        self._counts: dict[int, int] = {}
        self._channels = [
            Channel(
                id=number, topic=name, message_encoding=MESSAGE_ENCODING, metadata={}, schema_id=0
            )
            for number, name in enumerate(CHANNELS, 1)
        ]
        head = MAGIC + to_bytes([Header(PROFILE, LIBRARY)])
        metadata = to_bytes([Metadata(PROFILE, about.to_metadata())])
        self._metadata = MetadataIndex(offset=len(head), length=len(metadata), name=PROFILE)
        try:
            self._write(head + metadata + to_bytes(self._channels))
            if durable:
                sync_folder(path.parent)
        except OSError:
            os.close(self._file)
            path.unlink(missing_ok=True)
            raise

    @property
    def likely_size(self) -> int:
        """Bytes of the file if it were finished now, without the uncut messages."""
        return self.size + (self.chunks + 8) * _INDEX_ENTRY_BYTES

    def add(self, channel: int, time_ns: int, published_ns: int, data: bytes) -> None:
        """Take a message into the present chunk; nothing is written."""
        sequence = self._sequences[channel]
        self._sequences[channel] = (sequence + 1) & 0xFFFF_FFFF
        self.packer.add(channel, sequence, time_ns, published_ns, data)

    def add_many(self, channel: int, time_ns: int, messages: Sequence[tuple[int, bytes]]) -> None:
        """Take in messages of one time, given by their publish times and data."""
        sequence = self._sequences[channel]
        self._sequences[channel] = (sequence + len(messages)) & 0xFFFF_FFFF
        self.packer.add_many(channel, sequence, time_ns, messages)

    def cut(self) -> ChunkEntry | None:
        """Write the present chunk and return its entry.

        None if it is empty.
        """
        return self._append(self.packer.pack()) if self.packer.size else None

    def copy(
        self, entry: ChunkEntry, data: bytes, counts: dict[int, int], offsets: dict[int, int]
    ) -> None:
        """Append a chunk and its indexes from another file with the same channels.

        Args:
            entry: The chunk in the other file.
            data: Its record and its indexes.
            counts: Messages by channel.
            offsets: Start of each channel's message index, counted from the end of the chunk's
                record.
        """
        self._append(
            PackedChunk(
                data[: entry.length],
                data[entry.length :],
                entry.start_ns,
                entry.end_ns,
                entry.compressed_size,
                entry.size,
                offsets,
                counts,
            )
        )

    def _append(self, chunk: PackedChunk) -> ChunkEntry:
        offset = self.size
        self._write(chunk.record + chunk.indexes)
        indexes_at = offset + len(chunk.record)
        if not self.chunks:
            self.start_ns = chunk.start_ns
        self.chunks += 1
        begin_ns, end_ns = self._times or (chunk.start_ns, chunk.end_ns)
        self._times = min(begin_ns, chunk.start_ns), max(end_ns, chunk.end_ns)
        index = ChunkIndex(
            message_start_time=chunk.start_ns,
            message_end_time=chunk.end_ns,
            chunk_start_offset=offset,
            chunk_length=len(chunk.record),
            message_index_offsets={c: indexes_at + at for c, at in chunk.index_offsets.items()},
            message_index_length=len(chunk.indexes),
            compression=COMPRESSION,
            compressed_size=chunk.compressed_size,
            uncompressed_size=chunk.size,
        )
        self._index += to_bytes([index])
        for channel, count in chunk.counts.items():
            self._counts[channel] = self._counts.get(channel, 0) + count
        return ChunkEntry(
            chunk.start_ns,
            chunk.end_ns,
            offset,
            len(chunk.record),
            len(chunk.indexes),
            COMPRESSION,
            chunk.compressed_size,
            chunk.size,
            tuple(sorted(chunk.counts)),
        )

    def finish(self) -> None:
        """Append index and footer and close the file; without room for them it stays without."""
        try:
            self._write(to_bytes([DataEnd(0)]) + self._summary())
            if self._durable:
                self.sync()
        finally:
            self.abandon()

    def sync(self) -> None:
        """Wait until the file is on the disk itself.

        It then survives a crash of the machine.
        """
        if self._file >= 0:
            os.fsync(self._file)

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _summary(self) -> bytes:
        """Return the end of the file: channels, statistics, indexes, their offsets, footer."""
        data_end = to_bytes([DataEnd(0)])
        summary_at = self.size + len(data_end)
        start_ns, end_ns = self._times or (0, 0)
        statistics = Statistics(
            attachment_count=0,
            channel_count=len(self._channels),
            channel_message_counts=dict(sorted(self._counts.items())),
            chunk_count=self.chunks,
            message_count=sum(self._counts.values()),
            metadata_count=1,
            message_start_time=start_ns,
            message_end_time=end_ns,
            schema_count=0,
        )
        groups: list[tuple[Opcode, bytes | bytearray]] = [
            (Opcode.CHANNEL, to_bytes(self._channels)),
            (Opcode.STATISTICS, to_bytes([statistics])),
            (Opcode.CHUNK_INDEX, self._index),
            (Opcode.METADATA_INDEX, to_bytes([self._metadata])),
        ]
        offsets = []
        offsets_at = summary_at
        for opcode, records in groups:
            if records:
                offsets.append(
                    SummaryOffset(
                        group_opcode=opcode, group_start=offsets_at, group_length=len(records)
                    )
                )
            offsets_at += len(records)
        summary = b"".join((*(records for _, records in groups), to_bytes(offsets)))
        head = FOOTER.pack(Opcode.FOOTER, FOOTER.size - 9, summary_at, offsets_at, 0)[:-4]
        crc = zlib.crc32(head, zlib.crc32(summary))
        return summary + to_bytes([Footer(summary_at, offsets_at, crc)]) + MAGIC

    def _write(self, data: bytes) -> None:
        """Append bytes, all or none."""
        view = memoryview(data)
        done = 0
        if self._has_name and not os.fstat(self._file).st_nlink:
            # It would be written on and on, and be gone in the end.
            raise FileNotFoundError(errno.ENOENT, DELETED)
        try:
            while done < len(view):
                done += os.write(self._file, view[done:])
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(data)
