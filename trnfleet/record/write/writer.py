"""The writer of a recording: envelopes in, MCAP files out.

It decides when to cut a chunk, repeat a keyframe, begin the next file and delete an old one. Times
come from the caller and no clock is read: the same calls make the same bytes.
"""

from __future__ import annotations

import glob
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.durations import MINUTE_NS
from trnfleet.errors import ConfigError, TrnfleetError, write_failure
from trnfleet.record.format.envelopes import (
    CHANNEL_IDS,
    KEYFRAME,
    MAX_NS,
    KeyframeBound,
    channel_namer,
    pack,
    pack_bound,
    pack_many,
    pack_repeat,
    source_ns,
)
from trnfleet.record.format.keyframes import (
    MOST_STATE_BYTES,
    MOST_VALUES_BYTES,
    KeyframeTracker,
    is_due,
)
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS
from trnfleet.record.format.packing import LEVEL
from trnfleet.record.format.records import MESSAGE_HEAD, ChunkEntry
from trnfleet.record.write.part import PartFile
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from trnfleet.record.format.metadata import About
    from trnfleet.wire.ports import Envelope


class EndedPart(NamedTuple):
    """A finished part on disk."""

    path: Path
    size_bytes: int
    chunks: int
    last_ns: int
    """Time of its last message."""


class EndedParts:
    """Finished parts, oldest first, and their retention."""

    def __init__(
        self,
        *,
        keep_ns: int | None = None,
        keep_bytes: int | None = None,
        keep_chunks: int | None = None,
        on_drop: Callable[[Path], None] | None = None,
    ) -> None:
        """Begin with none.

        Args:
            keep_ns: Parts ended longer ago are deleted.
            keep_bytes: The oldest parts beyond this total are deleted.
            keep_chunks: The oldest parts beyond this number of chunks are deleted.
            on_drop: Called with every part about to be deleted.
        """
        self.keep_bytes = keep_bytes
        self._keep_ns = keep_ns
        self._keep_chunks = keep_chunks
        self._on_drop = on_drop
        self._parts: deque[EndedPart] = deque()
        self._size_bytes = self._chunks = self._deleted_bytes = 0

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [part.path for part in self._parts]

    @property
    def bytes_written(self) -> int:
        """Bytes of all parts, including deleted ones."""
        return self._deleted_bytes + self._size_bytes

    def append(self, part: EndedPart) -> None:
        """Add a part just finished."""
        self._parts.append(part)
        self._size_bytes += part.size_bytes
        self._chunks += part.chunks

    def forget(self, now_ns: int, size_bytes: int, chunks: int) -> None:
        """Delete the oldest parts beyond the limits.

        Args:
            now_ns: Time of the last message.
            size_bytes: Bytes of the part being written, with room for the next data.
            chunks: Chunks of the part being written.
        """
        while self._parts:
            oldest = self._parts[0]
            is_old = self._keep_ns is not None and oldest.last_ns < now_ns - self._keep_ns
            is_over = (
                self.keep_bytes is not None and self._size_bytes + size_bytes > self.keep_bytes
            ) or (self._keep_chunks is not None and self._chunks + chunks > self._keep_chunks)
            if not (is_old or is_over):
                return
            self._parts.popleft()
            self._size_bytes -= oldest.size_bytes
            self._chunks -= oldest.chunks
            self._deleted_bytes += oldest.size_bytes
            if self._on_drop is not None:
                self._on_drop(oldest.path)
            oldest.path.unlink(missing_ok=True)


def part_namer(path: Path, *, splits: bool) -> Callable[[int], Path]:
    """Return a function from a part's number, from 1 on, to its file.

    A recording never split is `path` itself.

    Raises:
        ConfigError: parts of an earlier recording exist under names this one would reach.
    """
    if not splits:
        return lambda _number: path
    stem, suffix = glob.escape(path.stem), glob.escape(path.suffix)
    for former in sorted(path.parent.glob(f"{stem}-[0-9][0-9][0-9][0-9]*{suffix}")):
        if former.name[len(path.stem) + 1 : len(former.name) - len(path.suffix)].isdecimal():
            raise ConfigError(f"{former}: exists already; name another file")
    return lambda number: path.with_name(f"{path.stem}-{number:04d}{path.suffix}")


CHUNK_BYTES = 2**20
"""Uncompressed size at which a chunk is cut."""
LARGEST_CHUNK_BYTES = 4 * CHUNK_BYTES
"""Most bytes of a chunk. Up to this size a chunk is cut only before a message of a later time, so
that later chunks have later times."""
CUT_NS = 500_000_000
"""Age of its first message at which a chunk is cut. Bounds the time lost in a crash."""
_SPLITS_IN_KEPT = 24
"""Parts within the retention, if a limit is set without a part's length."""
_TELEMETRY = TopicClass.TELEMETRY.value
_KEYFRAME_ID = CHANNEL_IDS[KEYFRAME]


class RecordingError(TrnfleetError):
    """Failure to continue a recording.

    Everything written can be read.
    """

    def __init__(self, path: Path, error: OSError) -> None:
        self.reason = error.strerror or str(error)
        """The reason, in the system's words."""
        super().__init__(f"{path}: the recording ends here: {self.reason}")


class RecordingWriter:
    """A recording being written.

    With `split_bytes` or `split_ns`, `night.mcap` becomes `night-0001.mcap`, `night-0002.mcap` and
    so on; without, it is `night.mcap` itself. A time earlier than the one before is replaced by it.
    Times before 1970 or after 2262 are replaced by these limits.
    """

    _failure: OSError | None = None
    """The reason why writing failed."""

    def __init__(
        self,
        path: Path,
        about: About,
        *,
        split_bytes: int | None = None,
        split_ns: int | None = None,
        keep_ns: int | None = None,
        on_cut: Callable[[Path, ChunkEntry], None] | None = None,
        on_drop: Callable[[Path], None] | None = None,
        split_chunks: int | None = None,
        keep_bytes: int | None = None,
        keep_chunks: int | None = None,
        values_bytes: int = MOST_VALUES_BYTES,
        state_bytes: int = MOST_STATE_BYTES,
        level: int = LEVEL,
        durable: bool = False,
    ) -> None:
        """Make the first file.

        Args:
            path: The file, or the base name of its parts.
            about: The recording's metadata.
            split_bytes: Size at which a part ends. It has at least as much data as its first
                keyframe.
            split_ns: Length at which a part ends.
            keep_ns: This writer's parts ended longer ago are deleted.
            on_cut: Called with every written chunk.
            on_drop: Called with every part about to be deleted.
            split_chunks: Number of chunks at which a part ends.
            keep_bytes: The oldest parts beyond this total are deleted.
            keep_chunks: The oldest parts beyond this number of chunks are deleted; needs splits.
            values_bytes: Most newest telemetry in a keyframe.
            state_bytes: Most retained state in a keyframe.
            level: Compression level.
            durable: Whether files are synced to the disk at their start and end; else call `sync`.

        Raises:
            ConfigError: the file exists or cannot be made, or a limit makes no sense.
            TrnfleetError: the disk is full.
        """
        if keep_ns is not None and split_bytes is None and split_ns is None:
            split_ns = max(MINUTE_NS, keep_ns // _SPLITS_IN_KEPT)
        for name, value in (("split", split_bytes), ("split", split_ns), ("keep", keep_ns)):
            if value is not None and value <= 0:
                raise ConfigError(f"{path}: {name} must be more than 0, not {value}")
        self._path = path
        self._about = about
        self._level = level
        self._durable = durable
        self._splits = split_bytes is not None or split_ns is not None
        self._split_bytes = split_bytes
        self._split_ns = split_ns
        self.ended = EndedParts(
            keep_ns=keep_ns, keep_bytes=keep_bytes, keep_chunks=keep_chunks, on_drop=on_drop
        )
        """The parts before the present one."""
        self._on_cut = on_cut
        self._split_chunks = split_chunks
        self._channel_of = channel_namer(about.root)
        self._tracker = KeyframeTracker(values_bytes, state_bytes, about.root)
        self._number = 0
        self._keyframe_ns: int | None = None
        """Time of the last keyframe in the present part."""
        self._since_bytes = 0
        """Data since then, not compressed."""
        self._data_bytes = 0
        """Data in the present part, not compressed."""
        self._first_bytes = 0
        """Bytes of its first keyframe."""
        self._last_ns: int | None = None
        self._floor_ns = 0
        """Earliest time of the next message: a chunk cut on demand is complete."""
        self._is_closed = False
        self._uncut = 0
        """Messages not yet in the file."""
        self.messages = 0
        """Messages written, without repeats."""
        self.lost = 0
        """Messages not yet in the file when writing failed."""
        self.left_out = 0
        """Oversized messages of `write_many`."""
        self._name = part_namer(path, splits=self._splits)
        try:
            self._part = self._open()
        except FileExistsError:
            raise ConfigError(f"{self._name(1)}: exists already; name another file") from None
        except OSError as error:
            raise write_failure(f"{self._name(1)}: cannot be made", error) from error

    @property
    def parts(self) -> list[Path]:
        """Files on disk, oldest first."""
        return [*self.ended.paths, self._part.path]

    @property
    def bytes_written(self) -> int:
        """Bytes of all files, including deleted ones."""
        return self.ended.bytes_written + self._part.size

    @property
    def pending_bytes(self) -> int:
        """Bytes not yet in the file."""
        return self._part.packer.size

    def write(self, time_ns: int, envelope: Envelope) -> None:
        """Write a message.

        Args:
            time_ns: Time of receipt: wall clock, ns since 1970.
            envelope: The message. Its own time of receipt, by another clock, is ignored.

        Raises:
            RecordingError: the disk is full or gone. The recording has ended, and cut chunks can be
                read.
            TrnfleetError: the message is too large for a recording.
        """
        self._check_open()
        time_ns = self._held(time_ns)
        data = pack(envelope)
        if len(data) > DEFAULT_RECORD_LIMITS.record_bytes:
            raise TrnfleetError(
                f"{self._path}: a message of {len(data)} bytes on {envelope.topic[:80]!r} is over"
                f" the limit of {DEFAULT_RECORD_LIMITS.record_bytes}"
            )
        channel = self._channel_of(envelope.topic)
        self._go_on_at(time_ns)
        published_ns = source_ns(envelope.payload, time_ns) if channel == _TELEMETRY else time_ns
        self._part.add(CHANNEL_IDS[channel], time_ns, published_ns, data)
        self._tracker.add(channel, time_ns, envelope, data)
        self._count(1, len(data))

    def write_many(self, time_ns: int, batch: Iterable[Envelope]) -> None:
        """Write messages of the same time.

        The bytes are the same as from single `write` calls. Runs of telemetry take less time.
        Oversized messages are counted in `left_out`.

        Args:
            time_ns: When they came in: wall clock, ns since 1970.
            batch: The messages.

        Raises:
            RecordingError: as `write`.
        """
        run: list[Envelope] = []
        channel_of = self._channel_of
        for envelope in batch:
            is_usual = not (envelope.qos or envelope.retain or envelope.properties)
            if is_usual and channel_of(envelope.topic) == _TELEMETRY:
                run.append(envelope)
                continue
            if run:
                self._write_telemetry(time_ns, run)
                run = []
            self._write_or_leave_out(time_ns, envelope)
        if run:
            self._write_telemetry(time_ns, run)

    def _write_telemetry(self, time_ns: int, batch: list[Envelope]) -> None:
        """Write a batch of telemetry of one time."""
        self._check_open()
        at_ns = self._held(time_ns)
        messages = pack_many(batch, at_ns)
        size = sum([len(data) for _, data in messages])
        if self._part.packer.size + size + len(messages) * MESSAGE_HEAD.size >= LARGEST_CHUNK_BYTES:
            # One after the other they may be in two chunks, or one of them be left out.
            for envelope in batch:
                self._write_or_leave_out(time_ns, envelope)
            return
        self._go_on_at(at_ns)
        self._part.add_many(CHANNEL_IDS[_TELEMETRY], at_ns, messages)
        if self._tracker.has_values:
            for envelope, (_, data) in zip(batch, messages, strict=True):
                self._tracker.add(_TELEMETRY, at_ns, envelope, data)
        self._count(len(messages), size)

    def _write_or_leave_out(self, time_ns: int, envelope: Envelope) -> None:
        try:
            self.write(time_ns, envelope)
        except RecordingError:
            raise
        except TrnfleetError:
            self._check_open()
            self.left_out += 1

    def _check_open(self) -> None:
        """Raise the error of an ended recording, with its reason."""
        if self._failure is not None:
            raise RecordingError(self._part.path, self._failure)
        if self._is_closed:
            raise TrnfleetError(f"{self._path}: the recording has ended")

    def _held(self, time_ns: int) -> int:
        """Return a time within the possible range, not earlier than the last one."""
        last_ns = self._last_ns
        time_ns = (
            max(time_ns, self._floor_ns)
            if last_ns is None
            else max(time_ns, last_ns, self._floor_ns)
        )
        return min(time_ns, MAX_NS)

    def _go_on_at(self, time_ns: int) -> None:
        """Do the work due before a message.

        The time is from `_held`.

        Raises:
            RecordingError: as `write`.
        """
        try:
            if self._last_ns is None or time_ns > self._last_ns:
                self._pass_to(time_ns)
            elif self._part.packer.size >= LARGEST_CHUNK_BYTES:
                self._cut()
        except OSError as error:
            raise self._fail(error) from error
        self._last_ns = time_ns

    def _count(self, messages: int, size_bytes: int) -> None:
        self._since_bytes += size_bytes
        self._data_bytes += size_bytes
        self.messages += messages
        self._uncut += messages

    def flush(self) -> None:
        """Write everything pending to the file.

        Later messages get a later time.

        Raises:
            RecordingError: as `write`.
        """
        if self._is_closed or self._last_ns is None:
            return
        self._floor_ns = self._last_ns + 1
        try:
            self._cut()
        except OSError as error:
            raise self._fail(error) from error

    def sync(self) -> None:
        """Wait until the file is on the disk itself.

        Raises:
            RecordingError: as `write`.
        """
        if self._is_closed:
            return
        try:
            self._part.sync()
        except OSError as error:
            raise self._fail(error) from error

    def close(self) -> None:
        """Write the rest, index and footer.

        A second call does nothing.

        Raises:
            RecordingError: the disk has no room for them. Cut chunks can be read.
        """
        if self._is_closed:
            return
        try:
            self._cut()
            self._part.finish()
        except OSError as error:
            raise self._fail(error) from error
        finally:
            self._is_closed = True

    def _fail(self, error: OSError) -> RecordingError:
        """End the recording where it can be read."""
        self._is_closed = True
        self._failure = error
        self.messages -= self._uncut
        self.lost = self.lost + self._uncut
        self._uncut = 0
        try:
            self._part.finish()
        except OSError:
            self._part.abandon()
        return RecordingError(self._part.path, error)

    def _pass_to(self, time_ns: int) -> None:
        """Cut, repeat or split as due between the last message and a later time."""
        part = self._part
        if self._keyframe_ns is None or self._last_ns is None:
            self._write_keyframe(max(0, time_ns - 1) if self._last_ns is None else self._last_ns)
            return
        size = part.packer.size
        if size >= CHUNK_BYTES or (size and time_ns - part.packer.start_ns >= CUT_NS):
            self._cut()
        if self._splits and self._is_full(time_ns):
            self._split()
            self._write_keyframe(self._last_ns)
        elif is_due(time_ns - self._keyframe_ns, self._since_bytes, self._tracker.size_bytes):
            self._write_keyframe(self._last_ns)

    def _is_full(self, time_ns: int) -> bool:
        """Return whether the present part ends before a message of this time."""
        part = self._part
        if not part.chunks or self._data_bytes < self._first_bytes:
            return False
        if self._split_ns is not None and time_ns - part.start_ns >= self._split_ns:
            return True
        if self._split_chunks is not None and part.chunks >= self._split_chunks:
            return True
        return self._split_bytes is not None and part.likely_size >= self._split_bytes

    def _write_keyframe(self, time_ns: int) -> None:
        """Write a keyframe in chunks of its own."""
        self._cut()
        tracker = self._tracker
        part = self._part
        tracker.forget(time_ns)
        bound = KeyframeBound(len(tracker), tracker.has_values, end=False)
        part.add(_KEYFRAME_ID, time_ns, time_ns, pack_bound(bound))
        for repeat in tracker:
            part.add(
                _KEYFRAME_ID, time_ns, repeat.time_ns, pack_repeat(repeat.data, repeat.time_ns)
            )
            if part.packer.size >= CHUNK_BYTES:
                self._cut()
        part.add(_KEYFRAME_ID, time_ns, time_ns, pack_bound(bound._replace(end=True)))
        self._cut()
        self._keyframe_ns = time_ns
        self._since_bytes = 0

    def _cut(self) -> None:
        entry = self._part.cut()
        if entry is None:
            return
        self._uncut = 0
        if self._on_cut is not None:
            self._on_cut(self._part.path, entry)
        self._forget(entry.end_ns, CHUNK_BYTES)

    def _split(self) -> None:
        """End the present part and begin the next."""
        self._cut()
        part = self._part
        part.finish()
        last_ns = self._last_ns or 0
        self.ended.append(EndedPart(part.path, part.size, part.chunks, last_ns))
        self._part = self._open()
        self._data_bytes = 0
        self._first_bytes = self._tracker.size_bytes
        self._forget(last_ns, self._split_bytes or 0)

    def _forget(self, now_ns: int, room_bytes: int) -> None:
        """Delete the oldest parts beyond the limits, with room for the next data."""
        if len(self.ended):
            self.ended.forget(now_ns, self._part.likely_size + room_bytes, self._part.chunks)

    def _open(self) -> PartFile:
        self._number += 1
        return PartFile(
            self._name(self._number),
            self._about.with_part(self._number),
            self._level,
            durable=self._durable,
        )
