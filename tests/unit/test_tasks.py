from __future__ import annotations

import asyncio
import os
import signal

import pytest

from trnfleet.tasks import Ending, background, preserve_cancellation, run_until


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


@pytest.mark.parametrize("comes", ["result", "failure", "nothing"])
async def test_a_cancellation_is_heeded_whatever_comes_along_with_it(comes: str) -> None:
    """A task that is cancelled in the very turn in which its answer comes ends as cancelled; it does not go on."""
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(preserve_cancellation(asyncio.wait_for(answer, 60)))
    await asyncio.sleep(0)
    if comes == "result":
        answer.set_result(1)
    elif comes == "failure":
        answer.set_exception(ValueError("refused"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_not_cancelled_comes_through() -> None:
    """Without a cancellation the result or the failure arrives as it is, also in a task that was cancelled before."""
    assert await preserve_cancellation(asyncio.sleep(0, 5)) == 5
    with pytest.raises(ValueError, match="broken"):
        await preserve_cancellation(fail())

    async def clean_up() -> int:
        try:
            await forever()
        except asyncio.CancelledError:
            return await preserve_cancellation(asyncio.sleep(0, 6))
        return 0

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == 6
