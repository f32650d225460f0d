"""A child process is restarted when it ends, three times in a row."""

from __future__ import annotations

import asyncio
import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import running

from trnfleet.clock import ManualClock
from trnfleet.errors import BrokerError
from trnfleet.services.child_process import (
    BACKOFF_S,
    MOST_RESTARTS,
    STABLE_S,
    TOLD_S,
    ChildProcess,
    how_ended,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KILLED = -9


class FakeProcess:
    """A process that ends on request."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_cleared = False

    async def wait(self) -> int:
        return await asyncio.shield(self.status)


class FakeProgram:
    """A program that is started several times."""

    def __init__(self) -> None:
        self.processes: list[FakeProcess] = []
        self.refusals = 0
        """Starts that fail next."""

    @contextlib.asynccontextmanager
    async def start(self) -> AsyncIterator[FakeProcess]:
        if self.refusals:
            self.refusals -= 1
            raise BrokerError("the port is taken")
        process = FakeProcess()
        self.processes.append(process)
        try:
            yield process
        finally:
            process.is_cleared = True

    def end(self, status: int = KILLED) -> None:
        self.processes[-1].status.set_result(status)


@contextlib.asynccontextmanager
async def supervised() -> AsyncIterator[tuple[ChildProcess, FakeProgram, ManualClock]]:
    """Yield a running child, its program and its clock."""
    program = FakeProgram()
    clock = ManualClock()
    child = ChildProcess("simulator", program.start, clock=clock, log_file=Path("/state/app.log"))
    async with child.started(), running(child.run()):
        await clock.advance(0.0)
        assert (child.note, child.figure) == ("", "")
        yield child, program, clock
    assert all(process.is_cleared for process in program.processes)


async def test_it_is_started_again_and_told() -> None:
    """While it is away, for a while after, and in a few words for ever."""
    async with supervised() as (child, program, clock):
        program.end()
        await clock.advance(0.0)
        away = "the simulator was killed by SIGKILL; it is started again in 500 ms (1 of 3)"
        assert child.note == away
        assert program.processes[0].is_cleared
        await clock.advance(BACKOFF_S[0])
        assert len(program.processes) == 2
        assert child.note == "the simulator was killed by SIGKILL and was started again (1 of 3)"
        await clock.advance(TOLD_S)
        assert child.note == ""
        assert child.figure == "simulator restarted 1"


async def test_it_is_given_up() -> None:
    """After the third restart, with how it ended and where the log is."""
    async with supervised() as (child, program, clock):
        for wait_s in BACKOFF_S:
            program.end()
            await clock.advance(wait_s)
        program.end(2)
        await clock.advance(1_000.0)
        assert len(program.processes) == 1 + MOST_RESTARTS
        given_up = (
            "the simulator ended with exit status 2; given up after 3 restarts; the log is"
            " /state/app.log"
        )
        assert child.note == given_up
        assert child.figure == "simulator ended"
        assert child.is_given_up


async def test_a_stable_while_counts_from_the_start() -> None:
    async with supervised() as (child, program, clock):
        for _ in range(2 * MOST_RESTARTS):
            await clock.advance(STABLE_S)
            program.end()
            await clock.advance(BACKOFF_S[0])
        assert child.restarts == 2 * MOST_RESTARTS
        assert "(1 of 3)" in child.note
        assert not child.is_given_up


async def test_a_start_that_fails_is_an_attempt() -> None:
    """The next one succeeds, or all are used up."""
    async with supervised() as (child, program, clock):
        program.refusals = 1
        program.end()
        await clock.advance(BACKOFF_S[0])
        assert (
            child.note
            == "the simulator could not be started: the port is taken; it is started again in 2 s"
            " (2 of 3)"
        )
        await clock.advance(BACKOFF_S[1])
        assert child.restarts == 1
        program.refusals = math.inf  # type: ignore[assignment]  # for ever
        program.end()
        await clock.advance(BACKOFF_S[2])
        assert child.is_given_up
        assert "could not be started: the port is taken; given up" in child.note


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (0, "ended with exit status 0"),
        (-11, "was killed by SIGSEGV"),
        (-42, "was killed by signal 42"),
    ],
)
def test_how_it_ended(status: int, how: str) -> None:
    assert how_ended(status) == how
