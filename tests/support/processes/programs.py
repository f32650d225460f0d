"""The program under test, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (sys.executable, "-m", "trnfleet")


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without settings of ours or a terminal's size, and with `more`."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TRNFLEET_", "NO_COLOR", "AWS_")) and key not in {"COLUMNS", "LINES"}
    }
    return {**kept, **more}


def run(*arguments: str, timeout_s: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return what it printed."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        check=False,
    )


class Program:
    """A command that goes on until it is ended."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=environment(),
            )

    @property
    def output(self) -> str:
        """All that it printed so far."""
        return self._log.read_text()

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
