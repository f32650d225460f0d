"""Where `trnfleet record` writes to: a recording, or lines of JSON."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, BinaryIO, Protocol

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
    """Lines as mosquitto_sub writes them, into a file or to stdout."""

    def __init__(self, output: BinaryIO, clock: Clock) -> None:
        self._output = output
        # The wall clock may step; lines must not go back in time.
        self._wall_ns, self._since_s = clock.wall_ns(), clock.monotonic_s()
        self._failed = asyncio.Event()
        self._first_ns = self._last_ns = 0
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
        """Begin; there is nothing to do."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Write a batch.

        Raises:
            BrokenPipeError: whoever reads has left.
        """
        from trnfleet.record.lines import encode_line  # noqa: PLC0415  --help stays quick

        if self.failure:
            self.lost += len(batch)
            return
        lines = []
        for envelope in batch:
            time_ns = self._wall_ns + round((envelope.received_s - self._since_s) * NS_PER_S)
            self._last_ns = max(self._last_ns, time_ns)
            self._first_ns = self._first_ns or self._last_ns
            lines.append(encode_line(Stored(self._last_ns, envelope)))
        written = b"".join(lines)
        try:
            self._output.write(written)
            self._output.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._fail(error, len(batch))
            return
        self.messages += len(batch)
        self.file_bytes += len(written)

    def close(self) -> None:
        """Close the file."""
        try:
            self._output.flush()
            if self._output is not sys.stdout.buffer:
                self._output.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._fail(error, 0)

    async def failed(self) -> None:
        """Return when writing has failed."""
        await self._failed.wait()

    def _fail(self, error: OSError, lost: int) -> None:
        self.failure = self.failure or error.strerror or str(error)
        self.lost += lost
        self._failed.set()


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
        return LineSink(sys.stdout.buffer, clock)
    try:
        return LineSink(path.open("xb"), clock)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror or error}") from error


def make_room(path: Path, *, is_split: bool, overwrite: bool) -> None:
    """Refuse a file that is there, or remove it where it may be overwritten; with its parts where it is split.

    Raises:
        ConfigError: it is there, or its folder is not.
    """
    if str(path) == STDOUT:
        return
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")
    there = [path] if path.exists() else []
    if is_split:
        part = re.compile(re.escape(path.stem) + r"-\d{4,}" + re.escape(path.suffix))
        there = [each for each in sorted(path.parent.iterdir()) if part.fullmatch(each.name)]
    if there and not overwrite:
        raise ConfigError(f"{there[0]}: is there already; choose another name, or --overwrite")
    for each in there:
        try:
            each.unlink()
        except OSError as error:
            raise ConfigError(f"{each}: cannot be replaced: {error.strerror or error}") from error
