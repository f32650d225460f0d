"""Programs and files that an agent reads on and on: neuron-monitor, the journal, a growing file.

Each is read in a thread of its own, because a reader that waits must stop nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, cast

import trnfleet.transport
from trnfleet import logs
from trnfleet.bridge.neuron.programs import last_line
from trnfleet.domain.quantities import duration
from trnfleet.errors import ConfigError
from trnfleet.services.child_process import how_ended
from trnfleet.tasks import END_S, POLL_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.clock import Clock

log = logs.get_logger(__name__)

Item = TypeVar("Item")

BACKOFF_S = (1.0, 30.0)
"""Shortest and longest wait before a restart. A child that ran for the longest begins again with
the shortest."""
MOST_WAITING = 256
"""Most items that wait for a tick: a minute of a journal in trouble."""
_STDERR_BYTES = 4096
_BEGIN_BYTES = 2**20
"""Bytes before a file's end where reading begins: a document of 64 processes has 0.3 MB."""


class ItemSource(Generic[Item]):
    """Items of a program or a file, waiting for the next tick."""

    def __init__(
        self,
        name: str,
        parse: Callable[[IO[bytes]], Iterable[Item]],
        *,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        """Describe a source; it is read while `run` runs.

        Args:
            name: Its name in messages.
            parse: Yields the items of a stream; called in a thread.
            clock: The time to go by.
            wake: Called for each item.
        """
        self.name = name
        self.problem = ""
        """Reason why nothing comes; empty while it works."""
        self.dropped = 0
        """Items that came while too many were waiting."""
        self.count = 0
        """Items so far."""
        self.old: Item | None = None
        """Newest item of a file's content of before: state, and nothing that happens now."""
        self._parse = parse
        self._clock = clock
        self._wake = wake
        self._items: deque[Item] = deque()
        self._before: list[Item] = []
        """That item until the file's end is reached."""
        self._last_s = clock.monotonic_s()

    def drain(self) -> list[Item]:
        """Return the items since the last call."""
        items = list(self._items)
        self._items.clear()
        return items

    def _read(self, stream: IO[bytes], is_behind: Callable[[], bool] = bool) -> Callable[[], None]:
        """Return a call that reads a stream to its end.

        Args:
            stream: The stream.
            is_behind: Returns whether content of before is being read; of its items only the newest
                counts.
        """
        loop = asyncio.get_running_loop()

        def read() -> None:
            with stream:
                for item in self._parse(stream):
                    if is_behind():
                        self._before = [item]
                    else:
                        loop.call_soon_threadsafe(self._add, item)

        return read

    def _add_old(self, item: Item) -> None:
        self.old = item
        self._add(item)

    def _add(self, item: Item) -> None:
        if len(self._items) >= MOST_WAITING:
            self._items.popleft()
            self.dropped += 1
        self._items.append(item)
        self.count += 1
        self.problem = ""
        self._last_s = self._clock.monotonic_s()
        self._wake()


class ChildSource(ItemSource[Item]):
    """A child process, started again without end."""

    def __init__(
        self, *args: Any, command: Callable[[], Sequence[str]], quiet_s: float = 0.0, **rest: Any
    ) -> None:
        """Describe a child.

        Args:
            *args: Those of a source.
            command: Returns its program and arguments; called for every start.
            quiet_s: Longest time without an item before it is killed; 0 for any.
            **rest: Those of a source.
        """
        super().__init__(*args, **rest)
        self._command = command
        self._quiet_s = quiet_s
        self.pid = 0
        """Process id of the present child; 0 without one."""

    async def run(self) -> None:
        """Run the child until cancelled."""
        wait_s, longest_s = BACKOFF_S
        while True:
            begun_s = self._clock.monotonic_s()
            try:
                reason = await self._run_once()
            except (ConfigError, OSError) as error:
                reason = str(error)
            if self._clock.monotonic_s() - begun_s >= longest_s:
                wait_s = BACKOFF_S[0]
            write = log.debug if reason == self.problem else log.warning
            write("source_ended", source=self.name, reason=reason, restart=duration(wait_s))
            self.problem = reason
            self._wake()
            await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, longest_s)

    async def _run_once(self) -> str:
        """Run the child to its end; return how it ended."""
        program, *arguments = self._command()
        starter = Path(trnfleet.transport.__path__[0]) / "die_with_parent.py"
        process = subprocess.Popen(  # noqa: S603, ASYNC220  a program of the host; starting it is short
            [
                *(sys.executable, "-I", "-S", str(starter), str(os.getpid())),
                *(program, *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The terminal's ctrl+c is for the agent, which then ends its children.
            start_new_session=True,
        )
        stdout = cast("IO[bytes]", process.stdout)
        stderr = cast("IO[bytes]", process.stderr)
        self.pid = process.pid
        self._last_s = self._clock.monotonic_s()
        end = asyncio.ensure_future(in_thread(process.wait))
        reading = asyncio.ensure_future(in_thread(self._read(stdout)))
        last_words = asyncio.ensure_future(in_thread(lambda: _last_bytes(stderr)))
        was_quiet = False
        try:
            while not end.done() and not reading.done():
                await asyncio.wait(
                    {end, reading},
                    timeout=self._quiet_s or BACKOFF_S[0],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not end.done() and not self._quiet_s:
                    # It works without an item, as a journal in which nothing happens.
                    self.problem = ""
                quiet_s = self._clock.monotonic_s() - self._last_s
                if not end.done() and self._quiet_s and quiet_s >= self._quiet_s:
                    was_quiet = True
                    _end(process, signal.SIGKILL)
            # Its output ends before it does.
            await asyncio.wait({end}, timeout=POLL_S)
            has_closed = not end.done()
        finally:
            self.pid = 0
            if not end.done():
                _end(process, signal.SIGTERM)
                await asyncio.wait({end}, timeout=END_S / 2)
            # Its own children would go on writing beside the next one's.
            _end(process, signal.SIGKILL)
            await asyncio.wait({end, reading, last_words}, timeout=POLL_S)
        words = last_line(last_words.result()) if last_words.done() else ""
        if reading.done() and (error := reading.exception()):
            return f"not read: {type(error).__name__}: {error}"
        if was_quiet:
            return f"wrote nothing for {duration(self._quiet_s)}"
        if has_closed:
            return "closed its output"
        how = how_ended(end.result())
        return f"{how}: {words}" if words else how


class FileSource(ItemSource[Item]):
    """A file that grows, a pipe, or stdin."""

    def __init__(self, *args: Any, path: str, **rest: Any) -> None:
        """Describe a file.

        Args:
            *args: Those of a source.
            path: The file, `-` for stdin.
            **rest: Those of a source.
        """
        super().__init__(*args, **rest)
        self._path = path

    async def run(self) -> None:
        """Read on and on until cancelled; stdin to its end."""
        wait_s, longest_s = BACKOFF_S
        loop = asyncio.get_running_loop()

        def at_end() -> None:
            while self._before:
                loop.call_soon_threadsafe(self._add_old, self._before.pop())

        while True:
            is_over = threading.Event()
            try:
                file = await in_thread(functools.partial(_open, self._path, is_over, at_end))
                is_behind = functools.partial(getattr, file, "is_behind", False)
                read = self._read(cast("IO[bytes]", io.BufferedReader(file)), is_behind)
                reading = asyncio.ensure_future(in_thread(read))
                try:
                    await asyncio.wait({reading})
                    reading.result()
                finally:
                    is_over.set()
                    await asyncio.wait({reading}, timeout=END_S / 2)
                self.problem = "has ended"
            except OSError as error:
                self.problem = f"{self._path}: {error.strerror or error}"
            self._wake()
            log.warning("source_ended", source=self.name, reason=self.problem)
            await self._clock.sleep(wait_s if self._path != "-" else float("inf"))
            wait_s = min(2 * wait_s, longest_s)


class _GrowingFile(io.RawIOBase):
    """A file without an end: at its present one the reader waits for more.

    A file in its place, as after a rotation, is read from its beginning.
    """

    def __init__(self, path: Path, is_over: threading.Event, at_end: Callable[[], None]) -> None:
        self._path = path
        self._is_over = is_over
        self._at_end = at_end
        self._file = path.open("rb", buffering=0)
        status = os.fstat(self._file.fileno())
        self.is_behind = stat.S_ISREG(status.st_mode)
        """Whether content of before is being read."""
        if self.is_behind and status.st_size > _BEGIN_BYTES:
            self._file.seek(-_BEGIN_BYTES, os.SEEK_END)
            while self._file.read(1) not in {b"\n", b""}:
                pass

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Wait for the next bytes."""
        while not (count := self._file.readinto(buffer)):
            self.is_behind = False
            self._at_end()
            if self._is_over.wait(POLL_S):
                return 0
            with contextlib.suppress(OSError):
                self._reopen()
        return count

    def _reopen(self) -> None:
        """Open the file in its place if that is another, or shorter than what was read."""
        now = self._path.stat()
        own = os.fstat(self._file.fileno())
        if stat.S_ISREG(now.st_mode) and (
            (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino) or now.st_size < self._file.tell()
        ):
            file = self._path.open("rb", buffering=0)
            self._file.close()
            self._file = file


class _Stdin(io.RawIOBase):
    """Stdin, which a reader can leave: a thread that waits in it would delay the process's end."""

    def __init__(self, is_over: threading.Event) -> None:
        self._is_over = is_over

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for the next bytes."""
        while not select.select([0], [], [], POLL_S)[0]:
            if self._is_over.is_set():
                return 0
        return os.readv(0, [buffer])


def _open(path: str, is_over: threading.Event, at_end: Callable[[], None]) -> io.RawIOBase:
    return _Stdin(is_over) if path == "-" else _GrowingFile(Path(path), is_over, at_end)


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a child and its own children, which would keep its pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _last_bytes(stream: IO[bytes]) -> bytes:
    """Read a stream to its end, and return its last bytes."""
    last = b""
    with stream:
        while data := os.read(stream.fileno(), _STDERR_BYTES):
            last = (last + data)[-_STDERR_BYTES:]
    return last
