from __future__ import annotations

import asyncio

import pytest
from support.memory_bus import MemoryBus, MemoryPublisher

from trnfleet.clock import ManualClock
from trnfleet.errors import BrokerError
from trnfleet.services.publishing import fail_if_all_refused, raise_if_refused
from trnfleet.tasks import background
from trnfleet.wire.ports import Envelope, LinkStatus

NODE, JOB = (Envelope(f"f/{name}/a", b"1", 1, retain=True) for name in ("node", "job"))


def running_bus(*refused: str) -> MemoryPublisher:
    bus = MemoryBus(ManualClock())
    for topic_filter in refused:
        bus.refuse(topic_filter)
    publisher = bus.publisher()
    publisher.connect()
    return publisher


async def test_a_publisher_that_is_refused_a_part_goes_on_and_fails_at_its_end() -> None:
    """A publisher continues after one accepted message.

    At the end it counts the refused ones, with the last reason.
    """
    publisher = running_bus("f/node/#")
    clock = ManualClock()
    async with background(refused=fail_if_all_refused(publisher.status, clock)):
        for _ in range(3):
            await publisher.publish([JOB, NODE])
            await clock.advance(1)
    with pytest.raises(
        BrokerError,
        match="memory: 3 messages were refused; the last: the broker refuses f/node/a: not auth",
    ):
        raise_if_refused(publisher.status)
    raise_if_refused(LinkStatus(sent=3))


async def test_a_publisher_of_which_nothing_is_taken_ends() -> None:
    """A publisher with all its state refused ends.

    Telemetry at QoS 0 proves nothing.
    """
    publisher = running_bus("#")
    clock = ManualClock()
    checking = asyncio.create_task(fail_if_all_refused(publisher.status, clock))
    await publisher.publish([NODE, Envelope("f/telemetry/a", b"1")])
    await clock.advance(60)
    assert not checking.done()
    await publisher.publish([JOB])
    await clock.advance(1)
    with pytest.raises(
        BrokerError, match="nothing is published: the broker refuses f/job/a: not authorised"
    ):
        await checking


async def test_a_publisher_that_nobody_answers_ends() -> None:
    """Without an acknowledgement in time, a broker is given up.

    A broker that acknowledged before is waited for.
    """
    clock = ManualClock()
    silent = LinkStatus(broker="b", unacknowledged=1)
    slow = LinkStatus(acknowledged=1, unacknowledged=64)
    with pytest.raises(
        BrokerError,
        match=r"^b: nothing is published: .* acknowledges nothing: no PUBACK within 10 s$",
    ):
        await fail_if_all_refused(silent, clock)
    async with background(refused=fail_if_all_refused(slow, clock)):
        await clock.advance(60)
