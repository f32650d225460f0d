"""The live buffer: a recording of the last minutes, bounded in size.

It can be read while it is written, and saved. It is written in parts, in a folder of its own; the
oldest parts are deleted. Each part is a complete recording: what a crash leaves can be read, too.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import NS_PER_S
from trnfleet.errors import ConfigError
from trnfleet.record.format.envelopes import CHANNELS, channel_namer
from trnfleet.record.format.limits import RecordLimits
from trnfleet.record.format.packing import QUICK_LEVEL
from trnfleet.record.read.reader import GrowingPart
from trnfleet.record.read.timeline import Timeline
from trnfleet.record.write.export import save_parts
from trnfleet.record.write.orphaned_buffers import NAME, FolderLock
from trnfleet.record.write.recorder import FLUSHED_AFTER_S, RecordingThread
from trnfleet.record.write.thinning import Thinning
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.record.format.metadata import About
    from trnfleet.record.format.records import ChunkEntry
    from trnfleet.record.read.reader import PartReader
    from trnfleet.wire.ports import Envelope, Keyframe, Stored

log = logs.get_logger(__name__)

PARTS = 32
"""Approximate number of files; the oldest is deleted at a time."""
_SMALLEST_PART_BYTES = 2**20
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
        memory_bytes: int = 64 * 2**20,
        disk_bytes: int = 2**30,
    ) -> None:
        """Bind to a folder.

        `start` makes it.

        Args:
            folder: Folder of this buffer alone.
            about: Metadata of the parts.
            clock: Wall clock for the start, monotonic clock from then on.
            memory_bytes: Most memory used.
            disk_bytes: Most disk space used.
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
            self._lock.take()
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
        part_bytes = max(_SMALLEST_PART_BYTES, self.disk_bytes // PARTS)
        self._writer = RecordingWriter(
            self._folder / NAME,
            self._about,
            split_bytes=part_bytes,
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
