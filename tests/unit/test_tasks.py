from __future__ import annotations

import asyncio
import os
import signal

import pytest

from trnfleet.tasks import Ending, background, run_until


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("broken")


async def test_background_ends_with_the_body() -> None:
    """Tasks run under their names while the body does, and are cancelled after it."""
    async with background(one=forever(), two=forever()):
        await asyncio.sleep(0)
        assert {"one", "two"} <= {task.get_name() for task in asyncio.all_tasks()}
    assert not {"one", "two"} & {task.get_name() for task in asyncio.all_tasks()}


async def test_a_failure_ends_everything_and_is_raised_itself() -> None:
    """The first failure cancels body and siblings and arrives as itself, not as a group."""
    with pytest.raises(ValueError, match="broken"):
        async with background(good=forever(), bad=fail()):
            await forever()


async def test_a_failure_of_the_body_wins() -> None:
    """The body's own error passes through."""
    with pytest.raises(KeyError):
        async with background(good=forever()):
            raise KeyError("x")


async def test_signals_ask_for_the_end() -> None:
    """SIGTERM asks for the end and says which signal it was; work is cancelled."""
    ending = Ending()
    with ending.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        await run_until(ending, forever())
    assert ending.signal_number == signal.SIGTERM
    ending.ask(signal.SIGINT)
    assert ending.signal_number == signal.SIGTERM


async def test_work_that_ends_by_itself() -> None:
    """Without a request to end, work runs to its end and its failure is raised."""
    await run_until(Ending(), asyncio.sleep(0))
    with pytest.raises(ValueError, match="broken"):
        await run_until(Ending(), fail())
