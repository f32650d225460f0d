"""Scan of a file from record to record, for files without an index.

It also covers the stretches an index leaves out. Only the heads of records are read. Nothing in the
file is trusted: lengths are checked against the file and the limits.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcap.opcode import Opcode
from mcap.records import Channel, Metadata

from trnfleet.errors import WireError
from trnfleet.record.format.envelopes import MAX_NS
from trnfleet.record.format.records import (
    HEAD,
    LARGEST_CHUNK_HEAD,
    MESSAGE_FIELDS,
    MESSAGE_HEAD,
    U16,
    U32,
    ChunkEntry,
    parse_chunk_head,
    parse_record,
)

if TYPE_CHECKING:
    from trnfleet.record.format.limits import RecordLimits

_WINDOW_BYTES = 4_096
_RUN_BYTES = 2**20
"""Bytes of messages outside of chunks read at a time."""
_SMALL_BYTES = 2**20
"""Channels and metadata are not larger."""
_PASSED_OVER = frozenset(opcode.value for opcode in Opcode) - {Opcode.FOOTER.value}


@dataclass(slots=True)
class Found:
    """The result of a scan."""

    entries: list[ChunkEntry] = field(default_factory=list)
    channels: dict[int, str] = field(default_factory=dict)
    """Names by number."""
    metadata: dict[str, Metadata] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    """Messages by channel, loose ones included. The last chunk and chunks without message indexes
    are missing."""
    last_counts: dict[int, int] = field(default_factory=dict)
    """Messages by channel of the last chunk. Its message indexes may be torn."""
    skipped: int = 0
    """Chunks beyond the limits or with an invalid head."""
    end: int = 0
    """End of the last whole record."""
    is_torn: bool = False
    """Whether an incomplete record follows."""
    has_ended: bool = False
    """Whether the mark at the data's end was met."""


class Window:
    """Bytes of a file, read a few kilobytes at a time."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._data = b""
        self._at = 0

    def get(self, at: int, size: int) -> bytes:
        """Return `size` bytes from `at`, or fewer at the file's end."""
        begin = at - self._at
        if begin < 0 or begin + size > len(self._data):
            self._data = os.pread(self._file, max(size, _WINDOW_BYTES), at)
            self._at = at
            begin = 0
        return self._data[begin : begin + size]


class Scanner:
    """One scan of a stretch of a file."""

    def __init__(self, file: int, limits: RecordLimits) -> None:
        self._window = Window(file)
        self._file = file
        self._limits = limits
        self._channels: set[int] = set()
        """Channels of the last entry. Stored in it when the next entry comes: extending its tuple
        each time would take quadratic time."""
        self.found = Found()

    def walk(self, begin: int, end: int) -> None:
        """Scan the records from `begin` to the end of the stretch or of the data.

        An incomplete last record also ends the scan.
        """
        try:
            self._walk(begin, end)
        finally:
            self._settle()

    def _walk(self, begin: int, end: int) -> None:
        facts = self.found
        window = self._window
        at = facts.end = begin
        while at < end and not facts.has_ended:
            head = window.get(at, HEAD.size)
            if len(head) < HEAD.size:
                facts.is_torn = True
                return
            opcode, length = HEAD.unpack(head)
            past = at + HEAD.size + length
            if past > end or opcode not in _PASSED_OVER:
                facts.is_torn = True
                return
            self._meet(opcode, at, past)
            if len(facts.entries) > self._limits.chunks:
                facts.is_torn = True
                return
            at = facts.end = past

    def _meet(self, opcode: int, at: int, past: int) -> None:
        facts = self.found
        size = past - at - HEAD.size
        if opcode == Opcode.CHUNK:
            self._meet_chunk(at, past)
        elif opcode == Opcode.MESSAGE_INDEX:
            self._meet_message_index(at, past)
        elif opcode == Opcode.MESSAGE:
            self._meet_message(at, past)
        elif opcode == Opcode.DATA_END:
            facts.has_ended = True
        elif opcode in {Opcode.CHANNEL, Opcode.METADATA} and size <= _SMALL_BYTES:
            data = self._window.get(at + HEAD.size, size)
            try:
                if opcode == Opcode.CHANNEL:
                    channel = parse_record(data, Channel)
                    if len(facts.channels) < self._limits.channels:
                        facts.channels.setdefault(channel.id, channel.topic)
                else:
                    metadata = parse_record(data, Metadata)
                    if len(facts.metadata) < 16:
                        facts.metadata.setdefault(metadata.name, metadata)
            except WireError:
                facts.skipped += 1

    def _add(self, entry: ChunkEntry) -> None:
        self._settle()
        self.found.entries.append(entry)

    def _settle(self) -> None:
        """Set the channels of the last entry."""
        entries = self.found.entries
        if entries and self._channels:
            entries[-1] = entries[-1]._replace(channels=tuple(sorted(self._channels)))
        self._channels.clear()

    def _meet_chunk(self, at: int, past: int) -> None:
        facts = self.found
        try:
            head = parse_chunk_head(self._window.get(at, LARGEST_CHUNK_HEAD))
        except WireError:
            facts.skipped += 1
            return
        if head.end_ns > MAX_NS:
            facts.skipped += 1
            return
        entry = ChunkEntry(
            head.start_ns,
            head.end_ns,
            at,
            past - at,
            0,
            head.compression,
            head.data_size,
            head.size,
            None,
        )
        self._add(entry)
        for channel, count in facts.last_counts.items():
            facts.counts[channel] = facts.counts.get(channel, 0) + count
        facts.last_counts.clear()

    def _meet_message_index(self, at: int, past: int) -> None:
        """Record a channel of the chunk before."""
        facts = self.found
        if not facts.entries or past - at < HEAD.size + 6:
            return
        entry = facts.entries[-1]
        if entry.is_loose or entry.offset + entry.length + entry.index_length != at:
            return
        data = self._window.get(at + HEAD.size, 6)
        channel = U16.unpack_from(data)[0]
        size = U32.unpack_from(data, 2)[0]
        if size and channel not in self._channels:
            self._channels.add(channel)
            facts.last_counts[channel] = size // 16
        facts.entries[-1] = entry._replace(index_length=entry.index_length + past - at)

    def _meet_message(self, at: int, past: int) -> None:
        """Add a loose message to the run before it, or begin a run."""
        facts = self.found
        size = past - at
        try:
            _, _, channel, _, time_ns, _ = MESSAGE_HEAD.unpack(
                self._window.get(at, MESSAGE_HEAD.size)
            )
        except struct.error:
            facts.skipped += 1
            return
        if (
            time_ns > MAX_NS
            or size < HEAD.size + MESSAGE_FIELDS
            or size > self._limits.record_bytes + MESSAGE_HEAD.size
        ):
            facts.skipped += 1
            return
        facts.counts[channel] = facts.counts.get(channel, 0) + 1
        last = facts.entries[-1] if facts.entries else None
        if (
            last is not None
            and last.is_loose
            and past - last.offset <= _RUN_BYTES
            and self._follows(last, at)
        ):
            facts.entries[-1] = last._replace(
                start_ns=min(last.start_ns, time_ns),
                end_ns=max(last.end_ns, time_ns),
                length=past - last.offset,
                compressed_size=past - last.offset,
                size=past - last.offset,
            )
        else:
            self._add(
                ChunkEntry(time_ns, time_ns, at, size, 0, "", size, size, None, is_loose=True)
            )
        self._channels.add(channel)

    @staticmethod
    def _follows(run: ChunkEntry, at: int) -> bool:
        """Return whether a message at `at` directly follows a run."""
        return run.offset + run.length == at
