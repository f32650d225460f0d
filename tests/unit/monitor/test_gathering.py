"""Messages read together: the start of a tick, and a lone batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from trnfleet.clock import ManualClock
from trnfleet.monitor.slices import (
    FEW,
    GATHER_FIRST_S,
    SLICE_BYTES,
    SLICE_MESSAGES,
    WHOLE_MESSAGES,
    WHOLE_S,
    BatchSlicing,
    gathered,
)
from trnfleet.transport.inbox import Inbox, InboxLimits
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

TELEMETRY, OTHER = Envelope("telemetry", b"x"), Envelope("alert", b"x")


class InboxSource:
    """A source of messages from a test's inbox."""

    def __init__(self) -> None:
        self.status = LinkStatus(connected=True)
        self.inbox = Inbox(InboxLimits(), self.status)

    async def take(self) -> list[Envelope]:
        """Wait for the next messages."""
        return await self.inbox.take()

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""


def reading(source: InboxSource, clock: ManualClock) -> asyncio.Task[list[Envelope]]:
    """Begin to read."""
    return asyncio.create_task(gathered(source, {"telemetry"}, clock))


async def test_the_first_messages_of_a_tick_wait_for_the_others() -> None:
    """Messages just after an idle source's first telemetry join its batch.

    Without more messages it is a batch of its own.
    """
    source = InboxSource()
    clock = ManualClock()
    task = reading(source, clock)
    await clock.advance(1.0)
    source.inbox.put_all([TELEMETRY] * 2)
    await clock.advance(GATHER_FIRST_S / 2)
    source.inbox.put_all([TELEMETRY, OTHER])
    assert not task.done()
    await clock.advance(GATHER_FIRST_S)
    assert task.done()
    assert await task == [TELEMETRY, TELEMETRY, TELEMETRY, OTHER]
    task = reading(source, clock)
    source.inbox.put_all([TELEMETRY])
    await clock.advance(2 * GATHER_FIRST_S)
    assert task.done()
    assert await task == [TELEMETRY]


@pytest.mark.parametrize("batch", [[OTHER], [TELEMETRY, OTHER], [TELEMETRY] * FEW])
async def test_what_somebody_may_wait_for_is_read_at_once(batch: list[Envelope]) -> None:
    """Neither an alert nor a large batch waits for more."""
    source = InboxSource()
    clock = ManualClock()
    task = reading(source, clock)
    await clock.advance(0.0)
    source.inbox.put_all(batch)
    await clock.advance(0.0)
    assert task.done()
    assert await task == batch


async def test_what_waits_already_is_read_at_once() -> None:
    """A source that is not idle has had its time to gather between two batches."""
    source = InboxSource()
    clock = ManualClock()
    source.inbox.put_all([TELEMETRY])
    task = reading(source, clock)
    await clock.advance(0.0)
    assert task.done()
    assert await task == [TELEMETRY]


@pytest.mark.parametrize(
    ("count", "payload", "each_s", "is_alone", "expected"),
    [
        (WHOLE_MESSAGES, b"x", 2e-5, True, WHOLE_MESSAGES),
        (WHOLE_MESSAGES + 1, b"x", 2e-5, True, SLICE_MESSAGES),
        (WHOLE_MESSAGES, b"x", 2e-5, False, SLICE_MESSAGES),
        (WHOLE_MESSAGES, b"x", 2 * WHOLE_S / WHOLE_MESSAGES, True, SLICE_MESSAGES),
        (100, b"x" * (SLICE_BYTES // 10), 2e-5, True, 10),
    ],
)
def test_a_batch_that_is_alone_is_one_slice(
    count: int, payload: bytes, each_s: float, is_alone: bool, expected: int
) -> None:
    """A lone batch of few, quick messages is one slice.

    Quick as judged by the last messages; no other batch may wait.
    """
    slicing = BatchSlicing()
    batch = [Envelope("t", payload)] * count
    slicing.note(SLICE_MESSAGES, SLICE_MESSAGES * each_s)
    # A single message takes much more than each of many.
    slicing.note(1, 0.01)
    assert slicing.end(batch, 0, is_alone=is_alone) == expected
