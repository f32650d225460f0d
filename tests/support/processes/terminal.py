"""A program in a real pseudo-terminal: its output, and the terminal's state afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import psutil

from support.processes.programs import COMMAND, environment, fork_server_for
from support.processes.text_screen import TextScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from support.processes.fork_server import ForkedProcess

MODES_OFF = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?2004l")
"""Sequences restoring a terminal: main screen, cursor, mouse, bracketed paste."""


class Terminal:
    """`trnfleet ARGUMENTS`, or another program, in a terminal of a given size."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 120,
        rows: int = 40,
        program: Sequence[str] = COMMAND,
        **variables: str,
    ) -> None:
        self.started_s = time.monotonic()
        self.screen = TextScreen(columns, rows)
        self._lock = threading.Lock()
        self.keep = True
        """Whether all output is stored. Too much for a run of hours."""
        self.raw = bytearray()
        self._stalled = threading.Event()
        usual = {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
        }
        environ = environment(**{**usual, **variables})
        size = struct.pack("HHHH", rows, columns, 0, 0)
        server = fork_server_for(environ) if program is COMMAND else None
        self._forked: ForkedProcess | None = None
        if server is not None:
            self._fd, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
            self._forked = server.start(
                arguments, environ, stdin=theirs, stdout=theirs, stderr=theirs, has_terminal=True
            )
            os.close(theirs)
            self.pid = self._forked.pid
        else:
            self.pid, self._fd = pty.fork()
            if self.pid == 0:
                # Before the program looks: the parent may be late.
                fcntl.ioctl(0, termios.TIOCSWINSZ, size)
                os.execve(program[0], [*program, *arguments], environ)  # noqa: S606  the program under test, without a shell
        self.resize(columns, rows, tell=False)
        self.attributes: list[Any] = termios.tcgetattr(self._fd)
        self.process = psutil.Process(self.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.status: int | None = None

    def stall(self) -> None:
        """Read no more of what the program draws."""
        self._stalled.set()

    def unstall(self) -> None:
        """Read on."""
        self._stalled.clear()
        self._reader.join(timeout=0.1)
        if not self._reader.is_alive():
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self) -> None:
        while not self._stalled.is_set():
            try:
                data = os.read(self._fd, 65_536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                if self.keep:
                    self.raw += data
                self.screen.feed(data)

    def resize(self, columns: int, rows: int, *, tell: bool = True) -> None:
        """Give the terminal another size."""
        # As terminals do, first the screen: the kernel tells the program at once, which may draw
        # before we do.
        with self._lock:
            self.screen.resize(rows, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            os.kill(self.pid, signal.SIGWINCH)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        with self._lock:
            return self.screen.text_lines

    @property
    def text(self) -> str:
        """What stands on the screen, in one piece."""
        return "\n".join(self.lines)

    def send(self, keys: str | bytes) -> None:
        """Type."""
        os.write(self._fd, keys.encode() if isinstance(keys, str) else keys)

    def wait_for(self, *wanted: str, within_s: float = 40.0) -> str:
        """Wait until all of `wanted` stand on the screen; return the screen."""
        until = time.monotonic() + within_s
        while True:
            text = self.text
            if all(each in text for each in wanted):
                return text
            assert time.monotonic() < until, f"{wanted} not within {within_s:g} s on\n{text}"
            assert self.status is None
            time.sleep(0.02)

    def wait_until(self, holds: Callable[[list[str]], bool], within_s: float = 40.0) -> None:
        """Wait until something holds of the lines of the screen."""
        until = time.monotonic() + within_s
        while not holds(lines := self.lines):
            assert time.monotonic() < until, "\n".join((f"not within {within_s:g} s:", *lines))
            time.sleep(0.02)

    def wait_for_match(self, pattern: str, within_s: float = 40.0) -> str:
        """Wait until something on the screen matches `pattern`; return the screen."""
        until = time.monotonic() + within_s
        while True:
            text = self.text
            if re.search(pattern, text):
                return text
            assert time.monotonic() < until, f"no {pattern!r} within {within_s:g} s on\n{text}"
            time.sleep(0.02)

    def wait_for_no(self, unwanted: str, within_s: float = 40.0) -> None:
        """Wait until `unwanted` stands on the screen no more."""
        until = time.monotonic() + within_s
        while unwanted in self.text:
            assert time.monotonic() < until, (
                f"{unwanted!r} still there after {within_s:g} s on\n{self.text}"
            )
            time.sleep(0.02)

    def children(self) -> list[psutil.Process]:
        """Return the program's living child processes."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return self.process.children(recursive=True)
        return []

    def end(
        self, number: signal.Signals | None = None, keys: str | bytes = b"", within_s: float = 40.0
    ) -> int:
        """Send a signal or keys, wait for the end and return the exit status.

        It is 128 + n for a death by signal n.
        """
        if number is not None:
            os.kill(self.pid, number)
        if keys:
            self.send(keys)
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            code = self._poll()
            if code is not None:
                self.status = code if code >= 0 else 128 - code
                self._reader.join(timeout=1)
                return self.status
            time.sleep(0.01)
        raise AssertionError(f"did not end within {within_s:g} s")

    def _poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        if self._forked is not None:
            return self._forked.poll()
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def is_restored(self) -> bool:
        """Return whether the terminal was restored: modes off, line discipline as before."""
        left = termios.tcgetattr(self._fd)
        flags = [left[index] == self.attributes[index] for index in range(4)]
        return all(flags) and all(mode in self.raw for mode in MODES_OFF)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            for process in [*self.children(), self.process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            if self._forked is not None:
                self._forked.wait()
            else:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self.pid, 0)
        os.close(self._fd)
