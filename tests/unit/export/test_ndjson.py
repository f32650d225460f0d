from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import threading
from typing import Any

import pytest
from support.monitor.alert_messages import fingerprint, notification
from support.processes.waiting import eventually, running

from trnfleet.clock import ManualClock, SystemClock
from trnfleet.export.ndjson import LineReceiver
from trnfleet.export.receiver import finished_within, pause_s


async def test_lines_are_written_at_once() -> None:
    """A notification is one complete line of ASCII, confirmed when written."""
    reader, writer = os.pipe()
    receiver = LineReceiver("stdout", writer, ManualClock())
    told: list[str] = []
    receiver.confirm = lambda each: told.append(each.fingerprint)
    async with running(receiver.run()):
        assert (
            receiver.notify([notification(1, summary="grün\n"), notification(2, resolved_s=3)]) == 2
        )
        await eventually(lambda: len(told) == 2)
    first, second = os.read(reader, 100_000).splitlines()
    assert first.isascii()
    line = json.loads(first)
    assert (line["state"], line["summary"], line["fingerprint"]) == (
        "firing",
        "grün\n",
        fingerprint(1),
    )
    assert (line["ts"], line["fired"], line["resolved"]) == (
        line["fired"],
        "2026-01-05T08:00:00.000Z",
        None,
    )
    assert json.loads(second)["ts"] == json.loads(second)["resolved"] == "2026-01-05T08:00:03.000Z"
    for descriptor in (reader, writer):
        os.close(descriptor)


async def test_a_reader_that_holds_still_keeps_nobody() -> None:
    """A full pipe blocks the writing thread alone: it can be cancelled at once."""
    reader, writer = os.pipe()
    receiver = LineReceiver("stdout", writer, ManualClock())
    async with running(receiver.run()):
        receiver.notify([notification(number) for number in range(2_000)])
        await eventually(lambda: not select.select([], [writer], [], 0)[1])
        assert receiver.tally.waiting > 0
    # The thread ends with the reader, and asyncio has nothing to complain about.
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: complaints.append(context)
    )
    os.close(reader)
    await eventually(
        lambda: not any(each.name == "blocking-call" for each in threading.enumerate())
    )
    del receiver
    handled = asyncio.Event()
    asyncio.get_running_loop().call_soon(handled.set)
    await handled.wait()
    gc.collect()
    assert complaints == []


async def test_a_reader_that_leaves_ends_it() -> None:
    """A closed pipe shows without another line."""
    reader, writer = os.pipe()
    receiver = LineReceiver("stdout", writer, SystemClock())
    task = asyncio.create_task(receiver.run())
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        await asyncio.wait_for(task, 5)
    with contextlib.suppress(OSError):
        os.close(writer)


async def test_work_has_so_much_time_and_pauses_grow() -> None:
    """Late work is cancelled, errors pass through, and pauses double up to 30 s."""
    clock = ManualClock()
    said: list[bool] = []

    async def wait() -> None:
        said.append(await finished_within(clock.sleep(10), clock, 5))

    async with running(wait()):
        await clock.advance(5)
    assert said == [False]

    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await finished_within(fail(), clock, 5)
    assert [pause_s(attempt) for attempt in (0, 1, 2, 4, 5, 50)] == [1, 2, 4, 16, 30, 30]
