"""Where `trnfleet record` writes to: a recording, or lines of JSON."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, Protocol

from trnfleet.cli.recording import stdout_bytes
from trnfleet.clock import NS_PER_S
from trnfleet.errors import ConfigError
from trnfleet.wire.ports import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.record.about import About
    from trnfleet.record.recorder import Recorder
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
    def messages(self) -> int:
        """Messages written."""

    @property
    def file_bytes(self) -> int:
        """Size of all files."""

    @property
    def lost(self) -> int:
        """Messages that could not be written in time."""

    @property
    def parts(self) -> int:
        """Files written."""

    @property
    def failure(self) -> str:
        """Why writing ended; empty while it goes on."""

    @property
    def length_s(self) -> float:
        """Seconds from the first message to the last."""

    def start(self) -> None:
        """Begin."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Write a batch, or hand it over to be written."""

    def close(self) -> None:
        """Finish; what was taken is written then."""

    async def failed(self) -> None:
        """Return when writing has failed."""


class RecordingSink:
    """A recording."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def messages(self) -> int:
        """Messages written."""
        return self._recorder.status.messages

    @property
    def file_bytes(self) -> int:
        """Size of all files."""
        return self._recorder.status.file_bytes

    @property
    def lost(self) -> int:
        """Messages that could not be written in time."""
        return self._recorder.status.lost

    @property
    def parts(self) -> int:
        """Files written."""
        return self._recorder.status.parts

    @property
    def failure(self) -> str:
        """Why writing ended; empty while it goes on."""
        return self._recorder.status.failed

    @property
    def length_s(self) -> float:
        """Seconds from the first message to the last."""
        status = self._recorder.status
        return max(0, status.last_ns - status.first_ns) / NS_PER_S

    def start(self) -> None:
        """Begin."""
        self._recorder.start()

    def take(self, batch: Sequence[Envelope]) -> None:
        """Hand a batch over to be written."""
        self._recorder.take(batch)

    def close(self) -> None:
        """Write what is left and finalise."""
        self._recorder.close()

    async def failed(self) -> None:
        """Return when writing has failed."""
        await self._recorder.failed()


class LineSink:
    """Lines as mosquitto_sub writes them, into a file or to stdout.

    A thread writes them: whoever reads a pipe may stop reading, and neither the connection nor ctrl+c may wait for that.
    """

    def __init__(self, output: BinaryIO, clock: Clock, *, queue_bytes: int = LINE_QUEUE_BYTES) -> None:
        # A descriptor of its own, past Python's buffer: that one may not be left behind locked.
        output.flush()
        self._file = os.dup(output.fileno())
        if output is not sys.stdout.buffer:
            output.close()
        self._clock = clock
        # The wall clock may step; lines must not go back in time.
        self._wall_ns, self._since_s = clock.wall_ns(), clock.monotonic_s()
        self._queue_bytes = queue_bytes
        self._queue: deque[tuple[bytes, int]] = deque()
        """Lines, and how many they are; the first of them is being written."""
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self._is_closing = False
        self._is_left = False
        """Whether whoever reads has left."""
        self._first_ns = self._last_ns = 0
        self._thread: threading.Thread | None = None
        self.messages = 0
        self.file_bytes = 0
        self.failure = ""
        self.lost = 0
        self.parts = 1

    @property
    def length_s(self) -> float:
        """Seconds from the first message to the last."""
        return max(0, self._last_ns - self._first_ns) / NS_PER_S

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def take(self, batch: Sequence[Envelope]) -> None:
        """Hand a batch over to be written; what does not fit into the queue is counted as lost."""
        from trnfleet.record.lines import encode_line  # noqa: PLC0415  --help stays quick

        lines = []
        for envelope in batch:
            time_ns = self._wall_ns + round((envelope.received_s - self._since_s) * NS_PER_S)
            self._last_ns = max(self._last_ns, time_ns)
            self._first_ns = self._first_ns or self._last_ns
            lines.append(encode_line(Stored(self._last_ns, envelope)))
        data = b"".join(lines)
        with self._wake:
            has_ended = self._is_closing or self._is_left or bool(self.failure)
            if has_ended or self._queued_bytes + len(data) > self._queue_bytes:
                self.lost += len(batch)
                return
            self._queue.append((data, len(batch)))
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
            self.lost += sum(count for _, count in self._queue)
            self._queue.clear()
        if self._is_left:
            raise BrokenPipeError

    async def failed(self) -> None:
        """Return when writing has failed.

        Raises:
            BrokenPipeError: whoever reads has left.
        """
        while not self.failure:
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
                    data, count = self._queue[0]
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                with self._wake:
                    if not self._queue:
                        # Closed meanwhile, and counted as lost.
                        break
                    self._queue.popleft()
                    self._queued_bytes -= len(data)
                    self.messages += count
                    self.file_bytes += len(data)
            os.close(self._file)
        except BrokenPipeError:
            self._is_left = True
        except OSError as error:
            self.failure = error.strerror or str(error)


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
        from trnfleet.record.recorder import Recorder  # noqa: PLC0415  lines need no recorder

        return RecordingSink(
            Recorder(path, about, clock=clock, split_bytes=split_bytes, split_ns=split_ns, keep_ns=keep_ns)
        )
    if str(path) == STDOUT:
        return LineSink(stdout_bytes(), clock)
    try:
        return LineSink(path.open("xb"), clock)
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
    from trnfleet.record.reader import PartReader  # noqa: PLC0415  only for --overwrite

    try:
        part = PartReader(path)
    except ConfigError:
        return False
    part.close()
    return bool(part.about.id) and part.about.part == number
