"""The recorder: the event loop queues batches, a thread writes them.

The thread works in short slices, so it never blocks the interpreter for long. Slow work
(compressing, writing) is done outside of it. The queue between the two is bounded; the excess is
counted.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock, SteadyWall
from trnfleet.record.format.limits import MESSAGE_BYTES
from trnfleet.record.write.writer import CUT_NS, RecordingError, RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trnfleet.record.format.metadata import About
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

QUEUE_BYTES = 48 * 2**20
FLUSHED_AFTER_S = CUT_NS / NS_PER_S
"""Longest time from receipt to the file."""
SYNC_EVERY_S = 1.0
"""Time between two syncs of a durable recording. Bounds the loss in a crash of the machine, at few
disk waits a minute."""
SLICE = 192
"""Messages between two releases of the GIL beside a screen: about 0.3 ms."""
SWITCH_S = 0.001
"""Longest delay at a time for the reading thread. In an app it also paints."""
_GIL_RELEASE_S = 0.0001
_RECEIVED_S = attrgetter("received_s")


@dataclass(slots=True)
class RecordStatus:
    """State of a recording: set by its thread, read by the screen."""

    messages: int = 0
    """Messages handed to the file."""
    payload_bytes: int = 0
    """Payload bytes of them."""
    file_bytes: int = 0
    """Bytes written, including deleted parts."""
    lost: int = 0
    """Messages missing in the recording: the queue was full, or writing had failed."""
    parts: int = 0
    """Files on disk."""
    syncs: int = 0
    """Waits for the disk, of a durable recording."""
    sync_s: float = 0.0
    """Their total time in seconds."""
    failed: str = ""
    """Reason why writing stopped, such as `No space left on device`. Empty if there is no problem.
    """
    first_ns: int = 0
    """Time of the first message; 0 before it."""
    last_ns: int = 0
    """Time of the last message."""

    @property
    def length_s(self) -> float:
        """Seconds from the first message to the last."""
        return max(0, self.last_ns - self.first_ns) / NS_PER_S


class RecordingThread:
    """The queue and its writing thread; the owner supplies the writer."""

    def __init__(
        self,
        make: Callable[[], RecordingWriter],
        *,
        clock: Clock,
        queue_bytes: int,
        durable: bool = False,
    ) -> None:
        """Bind to a factory of the writer.

        The thread calls it.

        Args:
            make: The factory.
            clock: Wall clock for the start, monotonic clock from then on.
            queue_bytes: Most bytes waiting to be written.
            durable: Whether the file is synced to the disk, every `SYNC_EVERY_S`.
        """
        self.status = RecordStatus()
        self.wall = SteadyWall(clock)
        """The recording's time of a monotonic one."""
        self._make = make
        self._clock = clock
        self._queue_bytes = queue_bytes
        self._durable = durable
        self._synced_bytes = 0
        """Bytes written at the last sync."""
        self._synced_s = -math.inf
        self._queue: deque[tuple[Sequence[Envelope], int, int]] = deque()
        """Batches, their sizes and their numbers."""
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self._gil_release = threading.Lock()
        """Held for good: to wait for it gives the interpreter away."""
        self._gil_release.acquire()
        self._unwritten = 0
        """Messages of the thread's batch not yet written."""
        self._is_closing = False
        self._taken = 0
        """Number of the last queued batch."""
        self._flush_to = 0
        """Number of the last batch to flush."""
        self._flushed = 0
        """Number of the last batch in the file."""
        self._writer: RecordingWriter | None = None
        self._thread: threading.Thread | None = None

    @property
    def filled(self) -> float:
        """Used share of the queue."""
        return self._queued_bytes / self._queue_bytes

    def take(self, batch: Sequence[Envelope]) -> None:
        """Queue a batch.

        Messages beyond the queue's limit are counted as lost.
        """
        if not batch:
            return
        size = sum([len(envelope.payload) for envelope in batch]) + len(batch) * MESSAGE_BYTES
        with self._wake:
            status = self.status
            if self._is_closing or status.failed:
                status.lost += len(batch)
                return
            if self._queued_bytes + size > self._queue_bytes:
                batch, size = self._what_fits(batch)
                if not batch:
                    return
            self._taken += 1
            self._queue.append((batch, size, self._taken))
            self._queued_bytes += size
            self._wake.notify()

    def _what_fits(self, batch: Sequence[Envelope]) -> tuple[Sequence[Envelope], int]:
        room = self._queue_bytes - self._queued_bytes
        fitting = []
        used = 0
        for envelope in batch:
            size = len(envelope.payload) + MESSAGE_BYTES
            if used + size > room:
                break
            fitting.append(envelope)
            used += size
        self.status.lost += len(batch) - len(fitting)
        return fitting, used

    def start(self) -> None:
        """Begin to write.

        Raises:
            ConfigError: the file exists or cannot be made.
        """
        self._writer = self._make()
        self._count(self._writer)
        # Each read from a socket lets other threads in, and Python lets one go on for 5 ms before
        # another gets its turn.
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def fail(self, why: str) -> None:
        """Write nothing more."""
        with self._wake:
            self.status.failed = why
            self.status.lost += self._unwritten + sum(len(batch) for batch, _, _ in self._queue)
            self._unwritten = 0
            self._queue.clear()
            self._queued_bytes = 0
            self._wake.notify_all()

    def ask_flush(self) -> None:
        """Request a flush of all queued messages to the file."""
        with self._wake:
            if self._flush_to < self._taken:
                self._flush_to = self._taken
                self._wake.notify()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken is in the file; return whether it is.

        Not for the event loop.
        """
        with self._wake:
            mine = self._flush_to = self._taken
            self._wake.notify_all()
            self._wake.wait_for(
                lambda: self._flushed >= mine or bool(self.status.failed), timeout_s
            )
            return self._flushed >= mine

    @property
    def is_drained(self) -> bool:
        """Whether all queued messages are in the file."""
        return self._flushed == self._taken and not self.status.failed

    def close(self) -> None:
        """Write queued messages, finish the file and end the thread.

        A second call does nothing.
        """
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        writer = self._writer
        assert writer is not None  # noqa: S101  `start` has made it
        try:
            self._write_all(writer)
            writer.close()
        except RecordingError as error:
            self.fail(error.reason)
            log.warning("recording_failed", reason=error.reason)
        except (
            Exception
        ) as error:  # the border of the thread: whatever it is, the app must hear of it
            self.fail(f"{type(error).__name__}: {error}")
            log.exception("recording_failed")
        self.status.messages -= writer.lost
        self.status.lost += writer.lost
        self._count(writer)

    def _write_all(self, writer: RecordingWriter) -> None:
        """Write until closed and nothing is left."""
        pending_since_s: float | None = None
        number = 0
        while True:
            item = self._next(pending_since_s)
            if item is not None:
                batch, _, number = item
                self._unwritten = len(batch)
                for begin in range(0, len(batch), SLICE):
                    if begin or self._queue:
                        self._gil_release.acquire(timeout=_GIL_RELEASE_S)
                    self._write(writer, batch[begin : begin + SLICE])
            if writer.pending_bytes and pending_since_s is None:
                pending_since_s = self._clock.monotonic_s()
            is_flushed = (
                item is None
                or self._flushed < self._flush_to <= number
                or self._is_late(pending_since_s)
            )
            if is_flushed:
                writer.flush()
            if not writer.pending_bytes:
                pending_since_s = None
            self._count(writer)
            if self._durable and self._until_sync_s() <= 0:
                self._sync(writer)
            with self._wake:
                if is_flushed:
                    self._flushed = number
                    self._wake.notify_all()
                if item is None and self._is_closing and not self._queue:
                    return

    def _next(self, pending_since_s: float | None) -> tuple[Sequence[Envelope], int, int] | None:
        """Wait for a batch; None where it is time to flush or to end instead."""
        with self._wake:
            if not self._queue and not self._is_closing and self._flush_to <= self._flushed:
                wait_s = None
                if pending_since_s is not None:
                    passed_s = self._clock.monotonic_s() - pending_since_s
                    wait_s = FLUSHED_AFTER_S - passed_s
                if self._durable and not math.isinf(self._until_sync_s()):
                    sync_s = self._until_sync_s()
                    wait_s = sync_s if wait_s is None else min(wait_s, sync_s)
                self._wake.wait(wait_s)
            if not self._queue:
                return None
            item = self._queue.popleft()
            self._queued_bytes -= item[1]
            return item

    def _until_sync_s(self) -> float:
        """Return the seconds until the next sync.

        Infinite if all is on the disk.
        """
        if self.status.file_bytes == self._synced_bytes:
            return math.inf
        return self._synced_s + SYNC_EVERY_S - self._clock.monotonic_s()

    def _sync(self, writer: RecordingWriter) -> None:
        """Wait for the disk.

        New messages queue up meanwhile.
        """
        began_s = self._clock.monotonic_s()
        written = writer.bytes_written
        writer.sync()
        self._synced_s = self._clock.monotonic_s()
        self._synced_bytes = written
        self.status.syncs += 1
        self.status.sync_s += self._synced_s - began_s

    def _is_late(self, pending_since_s: float | None) -> bool:
        return (
            pending_since_s is not None
            and self._clock.monotonic_s() - pending_since_s >= FLUSHED_AFTER_S
        )

    def _write(self, writer: RecordingWriter, batch: Sequence[Envelope]) -> None:
        status = self.status
        # What was read at once came at the same time.
        for received_s, part in itertools.groupby(batch, _RECEIVED_S):
            time_ns = self.wall.to_ns(received_s or self._clock.monotonic_s())
            messages = list(part)
            done = writer.messages + writer.lost
            left_out = writer.left_out
            try:
                writer.write_many(time_ns, messages)
            finally:
                done = writer.messages + writer.lost - done
                left_out = writer.left_out - left_out
                self._unwritten -= done + left_out
                status.messages += done
                status.lost += left_out
            status.payload_bytes += sum([len(envelope.payload) for envelope in messages])
            if done:
                status.first_ns = status.first_ns or time_ns
                status.last_ns = max(time_ns, status.last_ns)

    def _count(self, writer: RecordingWriter) -> None:
        self.status.file_bytes = writer.bytes_written
        self.status.parts = len(writer.parts)


class Recorder(RecordingThread):
    """A recording of all messages received from `start` to `close`."""

    def __init__(
        self,
        path: Path,
        about: About,
        *,
        clock: Clock,
        queue_bytes: int = QUEUE_BYTES,
        split_bytes: int | None = None,
        split_ns: int | None = None,
        keep_ns: int | None = None,
        durable: bool = False,
    ) -> None:
        """Make the first file.

        Args:
            path: The file; see `RecordingWriter` for splits.
            about: The recording's metadata.
            clock: Wall clock for the start, monotonic clock from then on.
            queue_bytes: Most bytes waiting to be written.
            split_bytes: Size of a part.
            split_ns: Length of a part.
            keep_ns: Parts older than this are deleted.
            durable: Whether the file is synced to the disk every second.

        Raises:
            ConfigError: the file exists or cannot be made.
        """
        self.writer = writer = RecordingWriter(
            path,
            about,
            split_bytes=split_bytes,
            split_ns=split_ns,
            keep_ns=keep_ns,
            durable=durable,
        )
        super().__init__(lambda: writer, clock=clock, queue_bytes=queue_bytes, durable=durable)

    async def failed(self) -> None:
        """Return when writing has failed; `status.failed` says why."""
        while not self.status.failed:
            await self._clock.sleep(FLUSHED_AFTER_S)
