"""Child processes: trnfleet itself as a child, and supervision of a child.

A supervised child is started again when it ends, with a note. After repeated ends it is not started
again; the log has the cause. The app shows the note.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import IO, TYPE_CHECKING, Protocol

import trnfleet.transport
from trnfleet import logs
from trnfleet.domain.quantities import duration
from trnfleet.errors import TrnfleetError
from trnfleet.tasks import END_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from trnfleet.clock import Clock

log = logs.get_logger(__name__)

BACKOFF_S = (0.5, 2.0, 8.0)
"""Wait before each restart. A temporary cause, such as a lack of memory, is over by the third."""
MOST_RESTARTS = len(BACKOFF_S)
STABLE_S = 60.0
"""Running time after which earlier restarts no longer count."""
TOLD_S = 20.0
"""Time for which a restart is shown: as long as a new alert."""


class Process(Protocol):
    """A process that was started."""

    async def wait(self) -> int:
        """Wait for its end and return its status, less than 0 for a signal."""


class ChildProcess:
    """A child process and a note about it."""

    def __init__(
        self,
        name: str,
        start: Callable[[], AbstractAsyncContextManager[Process]],
        *,
        clock: Clock,
        log_file: Path,
    ) -> None:
        """Describe a child.

        Args:
            name: Noun for messages, such as `simulator`.
            start: Returns a context in which the child runs; called for every start.
            clock: The time to go by.
            log_file: File that has the child's output.
        """
        self.name = name
        self._start = start
        self._clock = clock
        self._log_file = log_file
        self._stack = contextlib.AsyncExitStack()
        self._process: Process | None = None
        self._started_s = 0.0
        self._told = ""
        self._told_until_s = 0.0
        self._restarts = 0
        self.restarts = 0
        """Restarts in all."""
        self.is_given_up = False

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Start the child, and end the one that runs then after the body.

        Raises:
            TrnfleetError: it cannot be started.
        """
        await self._begin()
        try:
            yield
        finally:
            await self._stack.aclose()

    @property
    def note(self) -> str:
        """A line about a child process that ended or has just been restarted.

        Empty otherwise.
        """
        return self._told if self._clock.monotonic_s() < self._told_until_s else ""

    @property
    def figure(self) -> str:
        """A few words for a status line; empty for a child that has never ended."""
        if self.is_given_up:
            return f"{self.name} ended"
        return f"{self.name} restarted {self.restarts}" if self.restarts else ""

    async def run(self) -> None:
        """Start the child again whenever it has ended, until it is given up."""
        how = await self._end()
        while self._restarts < MOST_RESTARTS:
            wait_s = BACKOFF_S[self._restarts]
            self._restarts += 1
            count = f"({self._restarts} of {MOST_RESTARTS})"
            log.warning(
                "child_ended", kind=self.name, how=how, restart=self._restarts, wait_s=wait_s
            )
            self._tell(
                f"the {self.name} {how}; it is started again in {duration(wait_s)} {count}",
                float("inf"),
            )
            await self._clock.sleep(wait_s)
            try:
                await self._begin()
            except (TrnfleetError, OSError) as error:
                how = f"could not be started: {error}"
                continue
            self.restarts += 1
            log.warning("child_restarted", kind=self.name, restart=self._restarts)
            self._tell(f"the {self.name} {how} and was started again {count}", TOLD_S)
            how = await self._end()
        self.is_given_up = True
        log.error("child_given_up", kind=self.name, how=how)
        self._tell(
            f"the {self.name} {how}; given up after {MOST_RESTARTS} restarts; the log is"
            f" {self._log_file}",
            float("inf"),
        )

    async def _begin(self) -> None:
        self._process = await self._stack.enter_async_context(self._start())
        self._started_s = self._clock.monotonic_s()

    async def _end(self) -> str:
        """Wait for the child's end; return how it ended."""
        status = 0 if self._process is None else await self._process.wait()
        if self._clock.monotonic_s() - self._started_s >= STABLE_S:
            self._restarts = 0
        await self._stack.aclose()
        return how_ended(status)

    def _tell(self, line: str, seconds: float) -> None:
        self._told = line
        self._told_until_s = self._clock.monotonic_s() + seconds


def how_ended(status: int) -> str:
    """Return how a process with an exit status ended, less than 0 for a signal."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


@contextlib.asynccontextmanager
async def run_trnfleet(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    stdin: IO[bytes] | int,
    output: IO[bytes],
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `trnfleet ARGUMENTS` as a child while the body runs.

    Args:
        arguments: Behind the program's name.
        variables: Its whole environment.
        stdin: Its input.
        output: Its stdout and stderr.
    """
    starter = os.path.join(os.path.dirname(trnfleet.transport.__file__), "die_with_parent.py")  # noqa: PTH118, PTH120
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", starter, str(os.getpid())),
        *(sys.executable, "-m", "trnfleet", *arguments),
        stdin=stdin,
        stdout=output,
        stderr=output,
        env=variables,
        # A session of its own: the terminal's ctrl+c is for the parent, which then ends its
        # children.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a child to end, and kill it if it does not within `END_S`."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            # The process's own method would first take the status of one that has just ended, which
            # asyncio then misses and reports on stderr.
            os.kill(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
