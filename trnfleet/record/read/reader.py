"""One file of a recording: finished, unfinished or damaged.

A finished file is read by its index. Where the index is missing, damaged or contradictory, the file
is scanned from its begin to the last whole record. Each chunk is checked when it is read; a damaged
one is left out and counted.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mcap.opcode import Opcode
from mcap.records import Channel, Header, Metadata

from trnfleet.clock import format_rfc3339
from trnfleet.errors import ConfigError, WireError
from trnfleet.record.format.decoding import Messages, read_messages
from trnfleet.record.format.envelopes import KEYFRAME, MAX_NS, OTHER
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS, RecordLimits
from trnfleet.record.format.metadata import PROFILE, About
from trnfleet.record.format.records import (
    HEAD,
    LARGEST_CHUNK_HEAD,
    MAGIC,
    MESSAGE_FIELDS,
    MESSAGE_HEAD,
    U16,
    U32,
    ChunkEntry,
    parse_chunk_head,
    parse_record,
)
from trnfleet.record.format.schema import MAJOR, read_major
from trnfleet.record.format.summary import ChunkEntries, FileSummary, has_footer, read_summary
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


_WINDOW_BYTES = 4_096
"""Bytes read at a time in a scan. A file's header is not larger."""
_STRETCH_BYTES = 2**20
"""Most bytes of a channel or metadata record, and of a run of messages outside of chunks."""
_PASSED_OVER = frozenset(opcode.value for opcode in Opcode) - {Opcode.FOOTER.value}


@dataclass(slots=True)
class ScanFacts:
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


class FileWindow:
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
        self._window = FileWindow(file)
        self._file = file
        self._limits = limits
        self._channels: set[int] = set()
        """Channels of the last entry. Stored in it when the next entry comes: extending its tuple
        each time would take quadratic time."""
        self.facts = ScanFacts()

    def walk(self, begin: int, end: int) -> None:
        """Scan the records from `begin` to the end of the stretch or of the data.

        An incomplete last record also ends the scan.
        """
        try:
            self._walk(begin, end)
        finally:
            self._settle()

    def _walk(self, begin: int, end: int) -> None:
        facts = self.facts
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
        facts = self.facts
        size = past - at - HEAD.size
        if opcode == Opcode.CHUNK:
            self._meet_chunk(at, past)
        elif opcode == Opcode.MESSAGE_INDEX:
            self._meet_message_index(at, past)
        elif opcode == Opcode.MESSAGE:
            self._meet_message(at, past)
        elif opcode == Opcode.DATA_END:
            facts.has_ended = True
        elif opcode in {Opcode.CHANNEL, Opcode.METADATA} and size <= _STRETCH_BYTES:
            data = self._window.get(at + HEAD.size, size)
            try:
                if opcode == Opcode.CHANNEL:
                    channel = parse_record(data, Channel)
                    facts.channels.setdefault(channel.id, _name_of(channel))
                else:
                    metadata = parse_record(data, Metadata)
                    if len(facts.metadata) < 16:
                        facts.metadata.setdefault(metadata.name, metadata)
            except WireError:
                facts.skipped += 1

    def _add(self, entry: ChunkEntry) -> None:
        self._settle()
        self.facts.entries.append(entry)

    def _settle(self) -> None:
        """Set the channels of the last entry."""
        entries = self.facts.entries
        if entries and self._channels:
            entries[-1] = entries[-1]._replace(channels=tuple(sorted(self._channels)))
        self._channels.clear()

    def _meet_chunk(self, at: int, past: int) -> None:
        facts = self.facts
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
        facts = self.facts
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
        facts = self.facts
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
            and past - last.offset <= _STRETCH_BYTES
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


def refuse_special(path: Path) -> None:
    """Refuse anything but a file or a folder, before it is opened.

    Raises:
        ConfigError: it is a pipe, a socket or a device.
        OSError: it is not there, or cannot be looked at.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ConfigError(
            f"{path}: is a pipe or a device, not a file: write it to a file first, or let trnfleet"
            " convert read a pipe as -"
        )


class FileRecovery(NamedTuple):
    """Result of recovering an unfinished file, or one with a damaged index."""

    path: str
    why: str
    """The defect, such as `was not finished`."""
    messages: int
    """Recovered messages without repeats; -1 if unknown without reading them."""
    chunks: int
    lost_bytes: int
    """Bytes at the end outside of a whole record."""
    end_ns: int
    """Time of the last recovered message; 0 without one."""

    def text(self) -> str:
        """Return it as one line for people."""
        amount = f"{self.messages} messages" if self.messages >= 0 else f"{self.chunks} chunks"
        until = f" up to {format_rfc3339(self.end_ns)}" if self.end_ns else ""
        lost = (
            f"; the last {self.lost_bytes} bytes are torn and lost"
            if self.lost_bytes
            else "; nothing in it is torn"
        )
        return f"{self.path}: {self.why}: recovered {amount}{until}{lost}"


class PartReader:
    """One file."""

    def __init__(self, path: Path, limits: RecordLimits = DEFAULT_RECORD_LIMITS) -> None:
        """Open a file and find its chunks.

        Raises:
            ConfigError: it cannot be read, is not MCAP, has another profile or a newer schema.
        """
        self._begin(path, limits)
        try:
            refuse_special(path)
            self._file = _open(path)
            size = os.fstat(self._file).st_size
            begin = self._read_header()
            self._find(begin, size)
        except OSError as error:
            self.close()
            raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
        except ConfigError:
            self.close()
            raise
        self.major = read_major(self.about.schema, str(path))

    def _begin(self, path: Path, limits: RecordLimits) -> None:
        """Set the initial state, before anything is known of the file."""
        self.path = path
        self.limits = limits
        self.about = About()
        self.channels: dict[int, str] = {}
        self.entries = ChunkEntries()
        """Chunk entries in file order."""
        self.recovery: FileRecovery | None = None
        self.is_finished = False
        self.skipped = 0
        """Records the scan could not parse."""
        self._known_counts: dict[int, int] | None = None
        self._damaged: set[int] = set()
        self._has_learned = False
        self._file = -1
        self.major = MAJOR
        """Major version of its schema."""

    def __del__(self) -> None:
        self.close()

    @property
    def damaged(self) -> int:
        """Chunks left out so far, and unparseable records."""
        return len(self._damaged) + self.skipped

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return os.fstat(self._file).st_size if self._file >= 0 else 0

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        file = getattr(self, "_file", -1)
        self._file = -1
        if file >= 0:
            with contextlib.suppress(OSError):
                os.close(file)

    def messages(self, entry: ChunkEntry) -> Messages:
        """Return the messages of a chunk.

        Raises:
            WireError: it is damaged or beyond the limits; it is counted.
        """
        try:
            messages = read_messages(self._file, entry, self.limits)
        except OSError as error:
            self._damaged.add(entry.offset)
            raise WireError(f"chunk cannot be read: {error.strerror}") from error
        except WireError:
            self._damaged.add(entry.offset)
            raise
        if messages.channels:
            self._learn(messages.channels)
        return messages

    def raw(self, entry: ChunkEntry) -> bytes:
        """Return a chunk's record and its indexes as they stand in the file."""
        return os.pread(self._file, entry.length + entry.index_length, entry.offset)

    def channel_name(self, channel: int) -> str:
        """Return the name of a channel, `other` where the file never says it."""
        name = self.channels.get(channel)
        if name is None and not self._has_learned:
            self._has_learned = True
            for entry in self.entries:
                with contextlib.suppress(WireError):
                    self.messages(entry)
            name = self.channels.get(channel)
        return OTHER if name is None else name

    def counts(self) -> dict[str, int]:
        """Return messages by channel, from the index where it says them, else by reading."""
        known = self._known_counts
        if known is None:
            known = {}
            for entry in self.entries:
                with contextlib.suppress(WireError):
                    for item in self.messages(entry).items:
                        known[item.channel] = known.get(item.channel, 0) + 1
            self._known_counts = known
        result: dict[str, int] = {}
        for channel, count in known.items():
            name = self.channel_name(channel)
            result[name] = result.get(name, 0) + count
        return result

    def _learn(self, channels: dict[int, bytes]) -> None:
        for number, fields in channels.items():
            if number not in self.channels:
                with contextlib.suppress(WireError):
                    self.channels[number] = _name_of(parse_record(fields, Channel))

    def _read_header(self) -> int:
        """Check the magic and profile; return where the records begin.

        Raises:
            ConfigError: it is not MCAP or has another profile.
        """
        data = os.pread(self._file, _WINDOW_BYTES, 0)
        if not data:
            raise ConfigError(f"{self.path}: is empty; nothing was recorded")
        if not data.startswith(MAGIC[: len(data)]):
            raise ConfigError(f"{self.path}: is not a recording: it is not MCAP")
        at = len(MAGIC) + HEAD.size
        if len(data) < at:
            raise ConfigError(f"{self.path}: ends within its header; nothing was recorded")
        opcode, length = HEAD.unpack_from(data, len(MAGIC))
        if opcode != 1 or length > _WINDOW_BYTES - at:
            raise ConfigError(f"{self.path}: is not a recording: its header is damaged")
        if at + length > len(data):
            raise ConfigError(f"{self.path}: ends within its header; nothing was recorded")
        try:
            header = parse_record(data[at : at + length], Header)
        except WireError as error:
            raise ConfigError(f"{self.path}: is not a recording: its {error}") from error
        if header.profile != PROFILE:
            raise ConfigError(
                f"{self.path}: is MCAP of profile {header.profile[:40]!r}, not a recording of"
                f" trnfleet ({PROFILE!r})"
            )
        return at + int(length)

    def _find(self, begin: int, size: int) -> None:
        """Find channels, metadata and chunks, by the index where it holds."""
        try:
            summary = read_summary(self._file, size, self.limits)
        except WireError as error:
            why = (
                f"its index is damaged ({error})"
                if has_footer(self._file, size)
                else "was not finished"
            )
            self._walk(begin, size, why)
        else:
            self._follow(summary, begin)
            self.is_finished = True

    def _walk(self, begin: int, size: int, why: str) -> None:
        scanner = Scanner(self._file, self.limits)
        scanner.walk(begin, size)
        facts = scanner.facts
        self.channels = facts.channels
        self.skipped = facts.skipped
        self._take_about(facts.metadata)
        self._learn_last(facts)
        self.entries = ChunkEntries(facts.entries)
        known = all(entry.channels is not None for entry in facts.entries)
        self._known_counts = facts.counts if known else None
        repeats = {number for number, name in facts.channels.items() if name == KEYFRAME}
        messages = sum(count for number, count in facts.counts.items() if number not in repeats)
        self.recovery = FileRecovery(
            str(self.path),
            why,
            messages if known else -1,
            len(facts.entries),
            size - facts.end if facts.is_torn else 0,
            max((entry.end_ns for entry in facts.entries), default=0),
        )

    def _learn_last(self, facts: ScanFacts) -> None:
        """Read the last chunk itself: its message indexes may be torn."""
        last = max((n for n, entry in enumerate(facts.entries) if not entry.is_loose), default=None)
        counts = facts.last_counts
        if last is not None:
            with contextlib.suppress(WireError):
                counts = {}
                for item in self.messages(facts.entries[last]).items:
                    counts[item.channel] = counts.get(item.channel, 0) + 1
                facts.entries[last] = facts.entries[last]._replace(
                    channels=tuple(sorted(counts)) or None
                )
        for channel, count in counts.items():
            facts.counts[channel] = facts.counts.get(channel, 0) + count

    def _follow(self, summary: FileSummary, begin: int) -> None:
        """Apply the index, and scan between its chunks for the head and loose messages."""
        self.channels = summary.channels
        metadata: dict[str, Metadata] = {}
        entries: list[ChunkEntry] = []
        for start, end, entry in _gaps(summary, begin):
            if end > start:
                scanner = Scanner(self._file, self.limits)
                scanner.walk(start, end)
                facts = scanner.facts
                entries += facts.entries
                metadata = {**facts.metadata, **metadata}
                self.channels = {**facts.channels, **self.channels}
                self.skipped += facts.skipped + facts.is_torn
            if entry is not None:
                entries.append(entry)
        self.entries = ChunkEntries(entries)
        self._take_about(metadata)
        if summary.statistics is not None:
            self._known_counts = dict(summary.statistics.channel_message_counts)

    def _take_about(self, metadata: dict[str, Metadata]) -> None:
        profile = metadata.get(PROFILE)
        if profile is not None:
            self.about = About.from_metadata(profile.metadata)


class GrowingPart(PartReader):
    """File still being written.

    Its writer supplies the chunks.
    """

    def __init__(self, path: Path, about: About, channels: Sequence[str]) -> None:
        """Open a file this program is writing.

        Raises:
            OSError: it cannot be read.
        """
        self._begin(path, DEFAULT_RECORD_LIMITS)
        self.about = about
        self.channels = dict(enumerate(channels, 1))
        self._file = _open(path)


def _name_of(channel: Channel) -> str:
    """Return a channel's name as stored: 65,536 channels may have 1 MiB each in a small file."""
    return channel.topic[: DEFAULT_LIMITS.text_chars]


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))


def _gaps(summary: FileSummary, begin: int) -> Iterator[tuple[int, int, ChunkEntry | None]]:
    """Yield each stretch before a chunk with the chunk, and the last stretch with none."""
    at = begin
    for entry in summary.entries:
        yield at, entry.offset, entry
        at = entry.offset + entry.length + entry.index_length
    yield at, summary.begin, None
