"""Where `trnfleet record` writes to: a recording, or lines of JSON."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol

from trnfleet.cli.recording import stdout_bytes
from trnfleet.clock import SteadyWall
from trnfleet.errors import ConfigError
from trnfleet.record.format.lines import encode_line
from trnfleet.record.write.recorder import Recorder, RecordStatus
from trnfleet.wire.ports import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.record.format.metadata import About
    from trnfleet.wire.ports import Envelope

STDOUT = "-"
LINE_QUEUE_BYTES = 64 * 2**20
"""Lines that wait for whoever reads them."""
LINE_WAIT_S = 2.0
"""How long the end waits for a reader that does not read."""
LINE_LOOKED_EVERY_S = 0.1


class Sink(Protocol):
    """Takes what comes from a broker."""

    @property
    def status(self) -> RecordStatus:
        """How writing fares."""

    def start(self) -> None:
        """Begin."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Write a batch, or hand it over to be written."""

    def close(self) -> None:
        """Finish; what was taken is written then."""

    async def failed(self) -> None:
        """Return when writing has failed."""


class LineSink:
    """Lines as mosquitto_sub writes them, into a file or to stdout.

    A thread writes them: whoever reads a pipe may stop reading, and neither the connection nor ctrl+c may wait for that.
    """

    def __init__(self, descriptor: int, clock: Clock, *, queue_bytes: int = LINE_QUEUE_BYTES) -> None:
        """Bind to the descriptor of an open file, which is the sink's own from now on."""
        self.status = RecordStatus(parts=1)
        self._file = descriptor
        self._clock = clock
        # The wall clock may step; lines must not go back in time.
        self._wall = SteadyWall(clock)
        self._queue_bytes = queue_bytes
        self._queue: deque[tuple[bytes, int, int]] = deque()
        """Lines, how many they are, and the bytes of their payloads; the first of them is being written."""
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self._is_closing = False
        self._is_left = False
        """Whether whoever reads has left."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def take(self, batch: Sequence[Envelope]) -> None:
        """Hand a batch over to be written; what does not fit into the queue is counted as lost."""
        status, lines = self.status, []
        for envelope in batch:
            status.last_ns = max(status.last_ns, self._wall.to_ns(envelope.received_s))
            status.first_ns = status.first_ns or status.last_ns
            lines.append(encode_line(Stored(status.last_ns, envelope)))
        data = b"".join(lines)
        with self._wake:
            has_ended = self._is_closing or self._is_left or bool(status.failed)
            if has_ended or self._queued_bytes + len(data) > self._queue_bytes:
                status.lost += len(batch)
                return
            self._queue.append((data, len(batch), sum(len(envelope.payload) for envelope in batch)))
            self._queued_bytes += len(data)
            self._wake.notify()

    def close(self) -> None:
        """Write what is left, as long as it is read.

        Raises:
            BrokenPipeError: whoever reads has left.
        """
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(LINE_WAIT_S)
        with self._wake:
            self.status.lost += sum(count for _, count, _ in self._queue)
            self._queue.clear()
        if self._is_left:
            raise BrokenPipeError

    async def failed(self) -> None:
        """Return when writing has failed.

        Raises:
            BrokenPipeError: whoever reads has left.
        """
        while not self.status.failed:
            if self._is_left:
                raise BrokenPipeError
            await self._clock.sleep(LINE_LOOKED_EVERY_S)

    def _run(self) -> None:
        """Write until closed and nothing is left."""
        try:
            while True:
                with self._wake:
                    self._wake.wait_for(lambda: self._queue or self._is_closing)
                    if not self._queue:
                        break
                    data, count, payload_bytes = self._queue[0]
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                with self._wake:
                    if not self._queue:
                        # Closed meanwhile, and counted as lost.
                        break
                    self._queue.popleft()
                    self._queued_bytes -= len(data)
                    self.status.messages += count
                    self.status.payload_bytes += payload_bytes
                    self.status.file_bytes += len(data)
            os.close(self._file)
        except BrokenPipeError:
            self._is_left = True
        except OSError as error:
            self.status.failed = error.strerror or str(error)


def make_sink(
    path: Path,
    about: About,
    clock: Clock,
    *,
    is_ndjson: bool,
    split_bytes: int | None = None,
    split_ns: int | None = None,
    keep_ns: int | None = None,
) -> Sink:
    """Return what writes to a file, or to stdout.

    Raises:
        ConfigError: the file is there, or cannot be made.
    """
    if not is_ndjson:
        return Recorder(path, about, clock=clock, split_bytes=split_bytes, split_ns=split_ns, keep_ns=keep_ns)
    if str(path) == STDOUT:
        # A descriptor of its own, past Python's buffer: that one may not be left behind locked.
        output = stdout_bytes()
        output.flush()
        return LineSink(os.dup(output.fileno()), clock)
    try:
        return LineSink(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), clock)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror or error}") from error


def find_former(path: Path, *, is_split: bool, overwrite: bool) -> list[Path]:
    """Return the file that is to be replaced, or the parts where it is split; nothing is removed yet.

    Raises:
        ConfigError: something is there that may not be replaced, or the folder is not there.
    """
    if str(path) == STDOUT:
        return []
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")
    there = [path] if path.exists() else []
    if is_split:
        part = re.compile(re.escape(path.stem) + r"-(\d{4,})" + re.escape(path.suffix))
        there = [each for each in sorted(path.parent.iterdir()) if part.fullmatch(each.name)]
    if there and not overwrite:
        raise ConfigError(f"{there[0]}: is there already; choose another name, or --overwrite")
    for each in there:
        if not each.is_file():
            raise ConfigError(f"{each}: is no file, and is not replaced")
        number = int(each.stem.rpartition("-")[2]) if is_split else 0
        if is_split and not _is_part(each, number):
            raise ConfigError(
                f"{each}: is no part of such a recording, and is not replaced: choose another name"
            )
    return there


def remove_former(former: Sequence[Path]) -> None:
    """Remove what `find_former` has found.

    Raises:
        ConfigError: it cannot be removed.
    """
    for each in former:
        try:
            each.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{each}: cannot be replaced: {error.strerror or error}") from error


def _is_part(path: Path, number: int) -> bool:
    """Say whether a file is that part of a recording by what it says of itself, and not by its name alone."""
    from trnfleet.record.read.reader import PartReader  # noqa: PLC0415  only for --overwrite

    try:
        part = PartReader(path)
    except ConfigError:
        return False
    part.close()
    return bool(part.about.id) and part.about.part == number
