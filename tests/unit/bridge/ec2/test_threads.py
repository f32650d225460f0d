from __future__ import annotations

import asyncio
import threading

import pytest

from trnfleet.bridge.ec2.threads import in_thread


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
    """A failure reaches the caller that awaits the answer."""

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
        if thread.name == "ec2":
            thread.join(10)
