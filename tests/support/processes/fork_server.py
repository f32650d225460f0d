"""Commands forked from one process with the program imported.

A fork takes 30 ms of processor time instead of 500 to 900 ms. The suite starts hundreds of
commands. The imports of a new interpreter are tested where a command is a new process: the demo's
children, commands below a shell, and tests setting an interpreter's own variables, such as a seed
for hashes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVER = Path(__file__).with_name("fork_server_main.py")


class ForkedProcess:
    """A forked command, with the `subprocess.Popen` methods used in tests."""

    def __init__(self, pid: int, ended_fd: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Exit status; a signal's number below zero for a death by it. None until it is known."""
        self._ended_fd = ended_fd

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        status = self._read(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended_fd], [], [], timeout_s)[0]:
            # Nothing where the server itself is gone, with all that it has forked.
            self.returncode = int(os.read(self._ended_fd, 32) or -signal.SIGKILL)
            os.close(self._ended_fd)
        return self.returncode


class ForkServer:
    """Parent process of forked commands.

    It starts with the first of them.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fits(self, environ: Mapping[str, str]) -> bool:
        """Return whether a new interpreter would be like this one.

        True if the interpreter's variables are the same.
        """
        return _of_interpreter(environ) == _of_interpreter(self._environ)

    def start(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        has_terminal: bool = False,
    ) -> ForkedProcess:
        """Fork a command.

        Args:
            arguments: What follows `trnfleet`.
            environ: Its environment.
            stdin: A file descriptor, as are `stdout` and `stderr`; they stay open here.
            stdout: Its output.
            stderr: Its errors.
            has_terminal: Whether `stdin` is a terminal that becomes its own, in a session of its
                own.
        """
        request = {
            "arguments": list(arguments),
            "environ": dict(environ),
            "folder": str(Path.cwd()),
            "has_terminal": has_terminal,
        }
        with self._lock:
            channel = self._connect()
            ended_fd, end_fd = os.pipe()
            try:
                socket.send_fds(
                    channel, [json.dumps(request).encode()], [stdin, stdout, stderr, end_fd]
                )
            finally:
                os.close(end_fd)
            answer = channel.recv(32)
        assert answer, "the fork server has ended"
        return ForkedProcess(int(answer), ended_fd)

    def close(self) -> None:
        """End it; what it has forked goes on."""
        if self._process is not None and self._channel is not None:
            self._channel.close()
            self._process.wait(timeout=10)
            self._channel = self._process = None

    def _connect(self) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, str(SERVER), str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=self._environ,
                    start_new_session=True,
                )
        return self._channel


def _of_interpreter(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables read by a starting interpreter."""
    return {key: value for key, value in environ.items() if key.startswith("PYTHON")}
