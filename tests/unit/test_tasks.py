from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from trnfleet import tasks
from trnfleet.tasks import Ending, background, in_thread, preserve_cancellation, run_until


async def forever() -> None:
    await asyncio.Event().wait()


async def answer(value: int) -> int:
    return value


async def succeed() -> None:
    await answer(0)


async def fail() -> None:
    raise ValueError("broken")


async def test_background_ends_with_the_body() -> None:
    """Tasks run under their names while the body does, and are cancelled after it."""
    async with background(one=forever(), two=forever()):
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
    """SIGTERM requests the end, its number is stored, and work is cancelled."""
    ending = Ending()
    with ending.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        await run_until(ending, forever())
    assert ending.signal_number == signal.SIGTERM
    ending.ask(signal.SIGINT)
    assert ending.signal_number == signal.SIGTERM


async def test_a_signal_outside_of_work_cancels_at_once() -> None:
    """A signal cancels connecting, or tidying up after a first signal.

    The status is the signal's.
    """
    ending, left = Ending(), list[str]()

    async def connect() -> None:
        with ending.on_signals():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await forever()
            finally:
                left.append("closed")

    with pytest.raises(SystemExit) as ended:
        await connect()
    assert (ended.value.code, left, ending.asked) == (143, ["closed"], True)
    again = Ending()

    async def tidy_up() -> None:
        with again.on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            await run_until(again, forever())
            os.kill(os.getpid(), signal.SIGINT)
            await forever()

    with pytest.raises(SystemExit) as ended:
        await tidy_up()
    assert (ended.value.code, again.signal_number) == (130, signal.SIGTERM)


async def test_a_cancellation_of_ones_own_is_no_signal() -> None:
    """A body cancelled by another task ends by a cancellation, not by an exit."""
    entered = asyncio.Event()

    async def body() -> None:
        with Ending().on_signals():
            entered.set()
            await forever()

    task = asyncio.create_task(body())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_whose_goodbye_hangs_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging goodbye, and one after it, delay the end for a while each."""
    monkeypatch.setattr(tasks, "GOODBYE_S", 0.01)
    ending, said, entered = Ending(), list[str](), asyncio.Event()

    async def work() -> None:
        try:
            entered.set()
            await forever()
        finally:
            try:
                said.append("offline")
                await forever()
            finally:
                said.append("really")
                await forever()

    running = asyncio.create_task(run_until(ending, work()))
    await entered.wait()
    ending.ask()
    await asyncio.wait_for(running, 2)
    assert said == ["offline", "really"]


async def test_work_that_ends_by_itself() -> None:
    """Without a request to end, work runs to its end and its failure is raised."""
    await run_until(Ending(), succeed())
    with pytest.raises(ValueError, match="broken"):
        await run_until(Ending(), fail())


@pytest.mark.parametrize("comes", ["result", "failure", "nothing"])
async def test_a_cancellation_is_heeded_whatever_comes_along_with_it(comes: str) -> None:
    """A task cancelled in the same turn as its result ends as cancelled."""
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    entered = asyncio.Event()

    async def ask() -> int:
        entered.set()
        return await preserve_cancellation(asyncio.wait_for(reply, 60))

    task = asyncio.create_task(ask())
    await entered.wait()
    if comes == "result":
        reply.set_result(1)
    elif comes == "failure":
        reply.set_exception(ValueError("refused"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_not_cancelled_comes_through() -> None:
    """Without a cancellation the result or failure arrives unchanged.

    Also in a task cancelled before.
    """
    assert await preserve_cancellation(answer(5)) == 5
    with pytest.raises(ValueError, match="broken"):
        await preserve_cancellation(fail())

    entered = asyncio.Event()

    async def clean_up() -> int:
        try:
            entered.set()
            await forever()
        except asyncio.CancelledError:
            return await preserve_cancellation(answer(6))
        return 0

    task = asyncio.create_task(clean_up())
    await entered.wait()
    task.cancel()
    assert await task == 6


async def test_the_loop_goes_on_while_a_call_blocks() -> None:
    """Other tasks run while a call waits, and its answer arrives."""
    entered, let_go = threading.Event(), threading.Event()

    def call() -> int:
        entered.set()
        assert let_go.wait(10)
        return 7

    task = asyncio.create_task(in_thread(call))
    assert await asyncio.to_thread(entered.wait, 10)
    assert not task.done()
    let_go.set()
    assert await task == 7


async def test_what_a_call_raises_is_raised() -> None:
    """A failure reaches the awaiting caller."""

    def call() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_thread(call)


def test_a_call_that_hangs_does_not_hold_the_end_up() -> None:
    """The loop ends while a call still waits, and the call's late answer disturbs nobody."""
    let_go, entered, left = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        entered.set()
        let_go.wait(10)
        left.set()

    async def give_up() -> None:
        task = asyncio.create_task(in_thread(call))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert not left.is_set()
    let_go.set()
    assert left.wait(10)
    for thread in threading.enumerate():
        if thread.name == "blocking-call":
            thread.join(10)
