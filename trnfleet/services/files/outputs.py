"""Outputs of a recorder: a recording, or lines of JSON."""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
import threading
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, Protocol

from trnfleet.clock import Clock, SteadyWall
from trnfleet.errors import ConfigError, write_failure
from trnfleet.files import open_private, sync_folder
from trnfleet.record.format.lines import encode_line
from trnfleet.record.read.reader import PartReader
from trnfleet.record.write.recorder import SYNC_EVERY_S, Recorder, RecordStatus
from trnfleet.tasks import END_S, POLL_S
from trnfleet.wire.ports import Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.record.format.metadata import About

LINE_QUEUE_BYTES = 64 * 2**20
"""Most bytes of lines waiting for their reader."""


class Sink(Protocol):
    """Output that a recorder writes to."""

    @property
    def status(self) -> RecordStatus:
        """Counts of written messages, and why writing failed."""

    @property
    def is_drained(self) -> bool:
        """Whether all that was taken is written."""

    def start(self) -> None:
        """Start writing."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Write a batch, or queue it to be written."""

    def close(self) -> None:
        """Finish; everything taken is written then."""

    async def failed(self) -> None:
        """Return when writing has failed."""


class LineSink:
    """Lines as mosquitto_sub writes them, into a file or to stdout.

    A thread writes them: the reader of a pipe may stop reading, and neither the connection nor
    ctrl+c may wait for that.
    """

    def __init__(
        self,
        descriptor: int,
        clock: Clock,
        *,
        queue_bytes: int = LINE_QUEUE_BYTES,
        durable: bool = False,
    ) -> None:
        """Own the descriptor of an open file.

        Args:
            descriptor: The descriptor.
            clock: The time to go by.
            queue_bytes: What may wait to be written.
            durable: Whether the disk itself holds what was written, every second.
        """
        self.status = RecordStatus(parts=1)
        self._file = descriptor
        self._clock = clock
        # The wall clock may step; lines must not go back in time.
        self._wall = SteadyWall(clock)
        self._queue_bytes = queue_bytes
        self._durable = durable
        self._synced_bytes = 0
        self._synced_s = -math.inf
        self._queue: deque[tuple[bytes, int, int]] = deque()
        """Lines, their number, and the bytes of their payloads. The first entry is being written.
        """
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self._is_closing = False
        self._is_abandoned = False
        """Whether the reader has closed the pipe."""
        self._thread: threading.Thread | None = None

    @property
    def is_drained(self) -> bool:
        """Whether all that was taken is written."""
        return not self._queue

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def take(self, batch: Sequence[Envelope]) -> None:
        """Queue a batch to be written.

        Messages beyond the queue's limit count as lost.
        """
        status = self.status
        lines = []
        for envelope in batch:
            status.last_ns = max(status.last_ns, self._wall.to_ns(envelope.received_s))
            status.first_ns = status.first_ns or status.last_ns
            lines.append(encode_line(Stored(status.last_ns, envelope)))
        data = b"".join(lines)
        with self._wake:
            has_ended = self._is_closing or self._is_abandoned or bool(status.failed)
            if has_ended or self._queued_bytes + len(data) > self._queue_bytes:
                status.lost += len(batch)
                return
            self._queue.append((data, len(batch), sum(len(envelope.payload) for envelope in batch)))
            self._queued_bytes += len(data)
            self._wake.notify()

    def close(self) -> None:
        """Write the rest of the queue, as long as it is read.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
        """
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(END_S)
        with self._wake:
            self.status.lost += sum(count for _, count, _ in self._queue)
            self._queue.clear()
        if self._is_abandoned:
            raise BrokenPipeError

    async def failed(self) -> None:
        """Return when writing has failed.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
        """
        while not self.status.failed:
            if self._is_abandoned:
                raise BrokenPipeError
            await self._clock.sleep(POLL_S)

    def _run(self) -> None:
        """Write until closed and nothing is left."""
        try:
            while True:
                with self._wake:
                    self._wake.wait_for(
                        lambda: self._queue or self._is_closing, self._until_sync_s()
                    )
                    if not self._queue and self._is_closing:
                        break
                self._sync_when_due()
                with self._wake:
                    if not self._queue:
                        continue
                    data, count, payload_bytes = self._queue[0]
                self._write(data)
                with self._wake:
                    if not self._queue:
                        # Closed meanwhile, and counted as lost.
                        break
                    self._queue.popleft()
                    self._queued_bytes -= len(data)
                    self.status.messages += count
                    self.status.payload_bytes += payload_bytes
                    self.status.file_bytes += len(data)
            if self._durable:
                os.fsync(self._file)
            os.close(self._file)
        except BrokenPipeError:
            self._is_abandoned = True
        except OSError as error:
            self.status.failed = error.strerror or str(error)

    def _until_sync_s(self) -> float | None:
        """Return the time until the next sync; None where there is nothing to sync."""
        if not self._durable or self.status.file_bytes == self._synced_bytes:
            return None
        return max(0.0, self._synced_s + SYNC_EVERY_S - self._clock.monotonic_s())

    def _sync_when_due(self) -> None:
        """Wait for the disk, once a second."""
        if self._until_sync_s() == 0.0:
            written = self.status.file_bytes
            os.fsync(self._file)
            self._synced_s = self._clock.monotonic_s()
            self._synced_bytes = written
            self.status.syncs += 1

    def _write(self, data: bytes) -> None:
        """Write lines.

        If a disk accepts only a part, cut off an incomplete last line.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            written = data[: len(data) - len(rest)]
            torn = len(written) - (written.rfind(b"\n") + 1)
            if stat.S_ISREG(os.fstat(self._file).st_mode):
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, os.lseek(self._file, 0, os.SEEK_CUR) - torn)
                    self._count_whole(written.count(b"\n"), len(written) - torn)
            raise

    def _count_whole(self, lines: int, size_bytes: int) -> None:
        """Count the lines written from a partly written first batch."""
        with self._wake:
            if self._queue:
                data, count, payload_bytes = self._queue[0]
                self._queue[0] = data, count - lines, payload_bytes
            self.status.messages += lines
            self.status.file_bytes += size_bytes


def make_sink(
    path: Path,
    about: About,
    clock: Clock,
    *,
    stdout: BinaryIO | None = None,
    is_ndjson: bool,
    split_bytes: int | None = None,
    split_ns: int | None = None,
    keep_ns: int | None = None,
    durable: bool = False,
) -> Sink:
    """Return an output, not started yet.

    Args:
        path: The file.
        about: Metadata for a recording.
        clock: The time to go by.
        stdout: The stream to write lines to instead of the file.
        is_ndjson: Whether to write lines instead of a recording.
        split_bytes: Size at which another file begins.
        split_ns: Time after which another file begins.
        keep_ns: Age at which files of the recording are deleted.
        durable: Whether the disk itself holds what was written, every second.

    Raises:
        ConfigError: the file exists, or cannot be created.
    """
    if not is_ndjson:
        return Recorder(
            path,
            about,
            clock=clock,
            split_bytes=split_bytes,
            split_ns=split_ns,
            keep_ns=keep_ns,
            durable=durable,
        )
    if stdout is not None:
        # A descriptor of its own, past Python's buffer: that one may not be left behind locked.
        stdout.flush()
        return LineSink(os.dup(stdout.fileno()), clock)
    try:
        descriptor = open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if durable:
            sync_folder(path.parent)
        return LineSink(descriptor, clock, durable=durable)
    except OSError as error:
        raise write_failure(f"{path}: cannot be made", error) from error


def find_former(path: Path, *, is_split: bool, overwrite: bool) -> list[Path]:
    """Return the file to replace, or its parts if it is split.

    Nothing is removed yet.

    Raises:
        ConfigError: a file exists that may not be replaced, or the folder does not exist.
    """
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")
    former = [path] if path.exists() else []
    if is_split:
        part = re.compile(re.escape(path.stem) + r"-(\d{4,})" + re.escape(path.suffix))
        former = [file for file in sorted(path.parent.iterdir()) if part.fullmatch(file.name)]
    if former and not overwrite:
        raise ConfigError(f"{former[0]}: is there already; choose another name, or --overwrite")
    for file in former:
        if not file.is_file():
            raise ConfigError(f"{file}: not a regular file, so it is not replaced")
        number = int(file.stem.rpartition("-")[2]) if is_split else 0
        if is_split and not _is_part(file, number):
            raise ConfigError(
                f"{file}: not part of such a recording, so it is not replaced: choose another name"
            )
    return former


def remove_former(former: Sequence[Path]) -> None:
    """Remove the files from `find_former`.

    Raises:
        ConfigError: it cannot be removed.
    """
    for file in former:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be replaced: {error.strerror or error}") from error


def _is_part(path: Path, number: int) -> bool:
    """Return whether a file is the numbered part of a recording, by its metadata.

    The name alone is not enough.
    """
    try:
        part = PartReader(path)
    except ConfigError:
        return False
    part.close()
    return bool(part.about.id) and part.about.part == number
