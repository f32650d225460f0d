"""The live buffer: a recording of the last minutes, bounded in size.

It can be read while it is written, and saved. It is written in parts, in a folder of its own; the
oldest parts are deleted. Each part is a complete recording: what a crash leaves can be read, too.
"""

from __future__ import annotations

import contextlib
import math
import threading
from bisect import bisect_right
from typing import TYPE_CHECKING

from mcap.opcode import Opcode

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock
from trnfleet.errors import ConfigError
from trnfleet.record.format.envelopes import CHANNEL_IDS, CHANNELS, KEYFRAME, channel_namer
from trnfleet.record.format.limits import RecordLimits
from trnfleet.record.format.packing import QUICK_LEVEL
from trnfleet.record.format.records import HEAD, U16, U32, ChunkEntry
from trnfleet.record.read.reader import GrowingPart, PartReader
from trnfleet.record.read.timeline import Timeline
from trnfleet.record.write.orphaned_buffers import NAME, FolderLock
from trnfleet.record.write.part import PartFile
from trnfleet.record.write.recorder import FLUSHED_AFTER_S, RecordingThread
from trnfleet.record.write.writer import RecordingError, RecordingWriter
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trnfleet.record.format.metadata import About
    from trnfleet.record.read.slots import Slot
    from trnfleet.wire.ports import Envelope, Keyframe, Stored


_KEYFRAME_ID = CHANNEL_IDS[KEYFRAME]


def save_parts(slots: Sequence[Slot], path: Path, about: About) -> int:
    """Write chunks of our own files as one recording, and return its messages.

    Args:
        slots: The chunks in order. All files have the channels of a `PartFile`.
        path: The new file.
        about: Its metadata.

    Raises:
        ConfigError: the file exists or cannot be made.
        RecordingError: the disk is full. The file is deleted.
    """
    try:
        file = PartFile(path, about.with_part(1))
    except FileExistsError:
        raise ConfigError(f"{path}: exists already; name another file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror}") from error
    messages = 0
    is_whole = False
    try:
        for slot in slots:
            data = slot.part.raw(slot.entry)
            counts, offsets = _read_indexes(memoryview(data)[slot.entry.length :])
            file.copy(slot.entry, data, counts, offsets)
            messages += sum(count for channel, count in counts.items() if channel != _KEYFRAME_ID)
        file.finish()
        is_whole = True
    except OSError as error:
        raise RecordingError(path, error) from error
    finally:
        if not is_whole:
            file.abandon()
            path.unlink(missing_ok=True)
    return messages


def _read_indexes(data: memoryview) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by channel, how many messages a chunk has and where their index begins."""
    counts: dict[int, int] = {}
    offsets: dict[int, int] = {}
    at = 0
    while at + HEAD.size + 6 <= len(data):
        opcode, length = HEAD.unpack_from(data, at)
        if opcode != Opcode.MESSAGE_INDEX:
            break
        (channel,) = U16.unpack_from(data, at + HEAD.size)
        offsets[channel] = at
        counts[channel] = U32.unpack_from(data, at + HEAD.size + 2)[0] // 16
        at += HEAD.size + length
    return counts, offsets


MOST_KEPT_PER_S = 16_000
"""Messages a second recorded without thinning. One costs 5 us by itself, half of it for
compression, and 7 to 12 us beside a reader of 62,500 messages a second (measured): at most a fifth
of a core."""
RATE_OVER_S = 4.0
"""Time over which the message rate is measured. It covers several ticks: part of a tick more or
less changes little."""
FULL_FROM = 0.5
"""Used share of the queue at which thinning doubles at any rate."""
LESS_AFTER_S = 30.0
"""Time during which less thinning must suffice before it is reduced."""
MOST_LEFT_OUT = 64
"""Strongest thinning: at least 1 message in this many is recorded."""
_MOST_CHANGES = 256


class Thinning:
    """Choice of recorded messages, by rate and by the length of the queue."""

    def __init__(
        self, is_telemetry: Callable[[str], bool], most_per_s: int = MOST_KEPT_PER_S
    ) -> None:
        """Begin without thinning.

        Args:
            is_telemetry: Whether a topic is one of telemetry.
            most_per_s: Messages a second recorded without thinning.
        """
        self._usual = 1
        """1 of this many messages per topic is recorded, by rate and queue."""
        self._gives_way = False
        self._is_telemetry = is_telemetry
        self._most_per_s = most_per_s
        self._left_out: dict[str, int] = {}
        """Messages since the last recorded one, by topic."""
        self._since_s = -math.inf
        self._count = 0
        """Messages since then."""
        self._shed = 0
        """Messages since then that were shed before they arrived here."""
        self._full_s = -math.inf
        """Time of the last doubling."""
        self._needed_s = -math.inf
        """Time at which so much thinning was needed last."""
        self._changes: list[tuple[int, int]] = []
        """Times (ns since 1970) with the value of `one_in` from then on."""

    @property
    def one_in(self) -> int:
        """1 of this many messages per topic is recorded."""
        return MOST_LEFT_OUT if self._gives_way else self._usual

    def at(self, time_ns: int) -> int:
        """Return the value of `one_in` at a time (ns since 1970)."""
        place = bisect_right(self._changes, time_ns, key=lambda change: change[0])
        return self._changes[place - 1][1] if place else 1

    def keep(
        self,
        batch: Sequence[Envelope],
        filled: float,
        to_ns: Callable[[float], int],
        *,
        gives_way: bool = False,
    ) -> Sequence[Envelope]:
        """Return the messages of a batch to record.

        Args:
            batch: The received messages.
            filled: Used share of the queue.
            to_ns: Converts monotonic seconds to ns since 1970.
            gives_way: Whether the reader has more urgent work. Thinning, if any, is then the
                strongest.
        """
        if not batch:
            return batch
        now_s = batch[-1].received_s
        before = self.one_in
        self._count += len(batch)
        self._shed += sum([envelope.shed for envelope in batch])
        # Live data goes before the past.
        is_behind = bool(self._shed) and self._count > self._most_per_s and not gives_way
        if filled >= FULL_FROM or is_behind:
            self._double(now_s)
        self._measure(now_s)
        self._gives_way = gives_way and self._usual > 1
        if self.one_in != before:
            self._changes.append((to_ns(now_s), self.one_in))
            del self._changes[:-_MOST_CHANGES]
        return self._thinned(batch) if self.one_in > 1 or self._left_out else batch

    def _double(self, now_s: float) -> None:
        """Double thinning, once a second."""
        self._needed_s = now_s
        if now_s - self._full_s >= 1.0:
            self._full_s = now_s
            self._usual = min(MOST_LEFT_OUT, 2 * self._usual)

    def _measure(self, now_s: float) -> None:
        """Adapt thinning to the rate: at once to a higher one, late and by halves to a lower."""
        passed_s = max(now_s - self._since_s, RATE_OVER_S)
        needed = math.ceil(self._count / (self._most_per_s * passed_s))
        if needed >= self._usual > 1:
            self._needed_s = now_s
        self._usual = max(self._usual, min(MOST_LEFT_OUT, needed))
        if now_s - self._since_s < RATE_OVER_S:
            # When an app joins a fleet, more may have arrived already than is stored in this time.
            return
        self._since_s = now_s
        self._count = 0
        self._shed = 0
        if now_s - self._needed_s >= LESS_AFTER_S:
            self._needed_s = now_s
            self._usual = max(1, needed, self._usual // 2)

    def _thinned(self, batch: Sequence[Envelope]) -> list[Envelope]:
        one_in = self.one_in
        stored = []
        left_out = self._left_out
        for envelope in batch:
            topic = envelope.topic
            former = left_out.get(topic)
            is_lasting = bool(envelope.retain or envelope.qos)
            if former is None:
                if one_in == 1 or is_lasting or not self._is_telemetry(topic):
                    stored.append(envelope)
                    continue
                # Spreads the first stored messages of topics over ticks.
                former = hash(topic) % one_in
            # Messages shed before count as well: each is a missing tick.
            left = former + envelope.shed
            # After stronger thinning many topics are overdue. They come again over some ticks: all
            # at once would fill the queue.
            is_left_out = left + 1 < one_in or (
                former >= one_in and hash((topic, left)) % one_in > 0
            )
            if is_left_out and not is_lasting:
                if topic in left_out or len(left_out) < DEFAULT_LIMITS.topics:
                    left_out[topic] = left + 1
                continue
            left_out.pop(topic, None)
            if one_in > 1 and len(left_out) < DEFAULT_LIMITS.topics:
                left_out[topic] = 0
            stored.append(envelope._replace(shed=left) if left != envelope.shed else envelope)
        return stored


log = logs.get_logger(__name__)

PARTS = 32
"""Approximate number of files; the oldest is deleted at a time."""
_CHUNK_BYTES_IN_MEMORY = 100
"""Most memory of a chunk's place in bytes. 25 suffice if chunks are alike, with 100 more while the
part is written."""
_FLUSH_WITHIN_S = 2.0
QUIET_S = 2 * FLUSHED_AFTER_S
"""Seconds until a missing message counts as never received."""


class LiveBuffer:
    """A bounded recording of the monitor's envelopes.

    The memory is split into quarters: unwritten messages, newest telemetry, places of chunks, and
    decompressed chunks. A full or missing disk stops nothing else: `problem` reports it, and
    recording stops.
    """

    def __init__(
        self,
        folder: Path,
        about: About,
        *,
        clock: Clock,
        disk_bytes: int,
        memory_bytes: int = 64 * 2**20,
    ) -> None:
        """Bind to a folder.

        `start` makes it.

        Args:
            folder: Folder of this buffer alone.
            about: Metadata of the parts.
            clock: Wall clock for the start, monotonic clock from then on.
            disk_bytes: Most disk space used.
            memory_bytes: Most memory used.
        """
        self._folder = folder
        self._about = about
        self._clock = clock
        self.disk_bytes = disk_bytes
        """Its part of the disk; `share` changes it."""
        self._quarter_bytes = max(2**20, memory_bytes // 4)
        self._limits = RecordLimits(cache_bytes=self._quarter_bytes)
        self._timeline = Timeline(self._limits)
        self._parts: list[GrowingPart] = []
        self._before: PartReader | None = None
        """Messages from before the buffer, in a file of their own. Dropped first."""
        self._order = threading.Lock()
        """Lock for adding and removing parts. The writing thread does both, and `backfill`
        prepends."""
        self._writer: RecordingWriter | None = None
        self._lock = FolderLock(folder)
        self._thread = RecordingThread(self._make, clock=clock, queue_bytes=self._quarter_bytes)
        self.status = self._thread.status
        name = channel_namer(about.root)
        self._thinning = Thinning(lambda topic: name(topic) == TopicClass.TELEMETRY)
        self.gives_way: Callable[[], bool] = lambda: False
        """Returns whether the reader has more urgent work than the past."""

    @property
    def start_ns(self) -> int:
        """Time of the oldest stored message; 0 without one."""
        return self._timeline.start_ns

    @property
    def end_ns(self) -> int:
        """Time up to which everything can be read; 0 if empty.

        At most about a second ago. It advances without messages, too: a silence can be viewed like
        anything else.
        """
        end_ns = self._timeline.end_ns
        if end_ns and self._thread.is_drained:
            return max(end_ns, self.to_ns(self._clock.monotonic_s() - QUIET_S))
        return end_ns

    @property
    def window_s(self) -> float:
        """Length of the stored time in seconds."""
        return max(0, self.end_ns - self.start_ns) / NS_PER_S

    @property
    def problem(self) -> str:
        """The reason why nothing more is kept; empty while all is well."""
        return self.status.failed

    def one_in(self, time_ns: int) -> int:
        """Return the thinning at a time: 1 of this many messages per topic was stored.

        1 if all were.
        """
        return self._thinning.at(time_ns)

    def share(self, disk_bytes: int) -> None:
        """Change the share of the disk.

        The excess is deleted when the next file begins.
        """
        self.disk_bytes = disk_bytes
        if self._writer is not None:
            self._writer.ended.keep_bytes = disk_bytes

    def take(self, batch: Sequence[Envelope]) -> None:
        """Store a batch, thinned if there is too much telemetry.

        Cheap, never waits and never fails.
        """
        filled = self._thread.filled
        gives_way = self.gives_way()
        self._thread.take(self._thinning.keep(batch, filled, self.to_ns, gives_way=gives_way))

    def backfill(self, part: PartReader) -> bool:
        """Prepend a finished recording, and return whether there is room for it.

        Args:
            part: Its file, with the channels of a buffer. Its name is not needed any more.
        """
        if self.problem or self.status.file_bytes + part.size_bytes > self.disk_bytes:
            return False
        with self._order:
            self._before = part
            self._timeline.prepend(part)
        return True

    def to_ns(self, monotonic_s: float) -> int:
        """Return the buffer's time of a monotonic one."""
        return self._thread.wall.to_ns(monotonic_s)

    def start(self) -> None:
        """Make the folder and begin to write.

        On failure, `problem` has the reason.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire()
            self._thread.start()
        except (OSError, ConfigError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._thread.fail(why or str(error))
            log.warning("live_buffer_failed", reason=why)

    def close(self, keep: bool = False) -> None:
        """End writing and delete the files, or finish and keep them.

        A second call does nothing.
        """
        self._thread.close()
        self._drop_before()
        for part in self._parts:
            if not keep:
                self._timeline.drop(part)
            part.close()
        if not keep:
            with contextlib.suppress(OSError):
                for path in self._writer.parts if self._writer is not None else ():
                    path.unlink(missing_ok=True)
        self._parts.clear()
        self._lock.release()
        if not keep:
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment.

        None if nothing so old is stored.
        """
        return self._timeline.keyframe(at_ns)

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns` in order.

        Messages later than `end_ns` are not readable yet: they are requested, and a later call has
        them. Do not read beyond `end_ns` when reading piece by piece.
        """
        if until_ns > self.end_ns:
            self._thread.ask_flush()
        return self._timeline.read(after_ns, until_ns)

    def save(self, path: Path) -> int:
        """Write the buffer as one finished recording, and return its messages.

        For a thread, not for the event loop.

        Raises:
            ConfigError: the file exists or cannot be made, or the buffer is empty.
            TrnfleetError: the disk is full. The file is deleted.
        """
        self._thread.flush(_FLUSH_WITHIN_S)
        slots = self._timeline.chunks()
        if not slots:
            raise ConfigError(f"{path}: there is nothing to save yet")
        return save_parts(slots, path, self._about)

    def _make(self) -> RecordingWriter:
        self._writer = RecordingWriter(
            self._folder / NAME,
            self._about,
            split_bytes=self.disk_bytes // PARTS,
            split_chunks=max(8, self._quarter_bytes // _CHUNK_BYTES_IN_MEMORY // PARTS),
            keep_bytes=self.disk_bytes,
            keep_chunks=self._quarter_bytes // _CHUNK_BYTES_IN_MEMORY,
            values_bytes=self._quarter_bytes // 2,
            state_bytes=self._quarter_bytes // 2,
            level=QUICK_LEVEL,
            on_cut=self._on_cut,
            on_drop=self._on_drop,
        )
        return self._writer

    def _on_cut(self, path: Path, entry: ChunkEntry) -> None:
        """Add a written chunk.

        Called in the writing thread.
        """
        writer = self._writer
        with self._order:
            before_bytes = self._before.size_bytes if self._before is not None else 0
            if writer is not None and writer.bytes_written + before_bytes > self.disk_bytes:
                self._drop_before()
            if not self._parts or self._parts[-1].path != path:
                self._parts.append(GrowingPart(path, self._about, CHANNELS))
            self._timeline.append(self._parts[-1], entry)

    def _on_drop(self, path: Path) -> None:
        """Forget a part being deleted.

        A read in progress reads to its end.
        """
        with self._order:
            self._drop_before()
            if self._parts and self._parts[0].path == path:
                self._timeline.drop(self._parts.pop(0))

    def _drop_before(self) -> None:
        """Forget the messages from before the buffer.

        The file closes after its last read.
        """
        part = self._before
        self._before = None
        if part is not None:
            self._timeline.drop(part)
