"""The program under test, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.processes.fork_server import ForkedProcess, ForkServer

COMMAND = (sys.executable, "-m", "trnfleet")


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, without our settings, plus `more`.

    Settings files and a terminal's size are removed, too.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TRNFLEET_", "NO_COLOR", "AWS_")) and key not in {"COLUMNS", "LINES"}
    }
    return {**kept, "TRNFLEET_CONFIG": "none", **more}


fork_servers: list[ForkServer] = []
"""Parents of forked commands. Without one each command is a new interpreter, as in benchmarks and
in `make chaos`."""


def fork_server_for(environ: dict[str, str]) -> ForkServer | None:
    """Return a fork server fit for a command with this environment."""
    return next((each for each in fork_servers if each.fits(environ)), None)


def start(
    *arguments: str,
    stdout: IO[bytes],
    stderr: IO[bytes],
    program: Sequence[str] = COMMAND,
    **variables: str,
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start a command without input, with its output in files."""
    environ = environment(**variables)
    server = fork_server_for(environ) if program is COMMAND else None
    if server is None:
        return subprocess.Popen(
            [*program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environ,
        )
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123  a name for it, not a path
        return server.start(
            arguments,
            environ,
            stdin=nothing.fileno(),
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
        )


def run(
    *arguments: str, timeout_s: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(*arguments, stdout=output, stderr=errors, **variables)
        try:
            status = process.wait(timeout=timeout_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(arguments, status, _text(output), _text(errors))


def _text(file: IO[bytes]) -> str:
    """Return a file's content with text line ends."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


class Program:
    """A command running until it is ended."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        program: Sequence[str] = COMMAND,
        **variables: str,
    ) -> None:
        self._log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        with self._log.open("wb") as output:
            self.process = start(
                *arguments, stdout=output, stderr=output, program=program, **variables
            )

    @property
    def output(self) -> str:
        """All that it printed so far."""
        return self._log.read_text()

    def wait_for(self, text: str, within_s: float = 40.0) -> None:
        """Wait until it has printed something."""
        until = time.monotonic() + within_s
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.05)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
