from __future__ import annotations

import asyncio

import pytest
from support.memory_bus import MemoryBus

from trnfleet.clock import ManualClock
from trnfleet.errors import BrokerError
from trnfleet.transport.inbox import InboxLimits
from trnfleet.wire.ports import Envelope, Publisher, PublishResult, RefusedMessage, Source


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(ManualClock(monotonic_s=5.0))


async def test_live_messages_reach_who_subscribed(bus: MemoryBus) -> None:
    """A message reaches matching sources at the lower QoS, with its arrival time."""
    publisher, source, other = (
        bus.publisher(),
        bus.source([("t/+", 1), ("t/#", 0)]),
        bus.source([("x", 1)]),
    )
    bus.reconnect()
    await publisher.publish(
        [Envelope("t/a", b"1", qos=1, content_type="application/json"), Envelope("t/b", b"2")]
    )
    assert await source.take() == [
        Envelope("t/a", b"1", qos=1, content_type="application/json", received_s=5.0),
        Envelope("t/b", b"2", received_s=5.0),
    ]
    assert other.waiting == 0
    assert (publisher.status.sent, source.status.received) == (2, 2)


async def test_retained_state_greets_the_late(bus: MemoryBus) -> None:
    """Retained messages come at the subscription, with their flag; live ones without it."""
    publisher = bus.publisher()
    late = bus.source([("#", 1)])
    publisher.connect()
    await publisher.publish(
        [Envelope("node/a", b"1", 1, retain=True), Envelope("node/a", b"2", 1, retain=True)]
    )
    late.connect()
    await publisher.publish([Envelope("node/a", b"3", 1, retain=True)])
    assert [(each.payload, each.retain) for each in await late.take()] == [
        (b"2", True),
        (b"3", False),
    ]


async def test_empty_retained_message_clears(bus: MemoryBus) -> None:
    """An empty retained payload is delivered and leaves nothing retained."""
    publisher = bus.publisher()
    source = bus.source([("#", 1)])
    bus.reconnect()
    await publisher.publish(
        [Envelope("a", b"1", 1, retain=True), Envelope("a", b"", 1, retain=True)]
    )
    assert [each.payload for each in await source.take()] == [b"1", b""]
    assert bus.retained == {}


async def test_will_is_published_at_death_alone(bus: MemoryBus) -> None:
    """The last will is published when a publisher dies, not when it disconnects."""
    will = Envelope("publisher/a", b"offline", 1, retain=True)
    publisher = bus.publisher(will=will)
    source = bus.source([("#", 1)])
    bus.reconnect()
    publisher.disconnect()
    publisher.die()
    assert source.waiting == 0
    publisher.connect()
    publisher.die()
    assert [each.payload for each in await source.take()] == [b"offline"]
    assert not publisher.status.connected


async def test_without_a_connection_telemetry_is_dropped_and_counted(bus: MemoryBus) -> None:
    """While disconnected, telemetry and events count as dropped; retained state does not."""
    publisher = bus.publisher()
    await publisher.publish(
        [Envelope("t", b""), Envelope("e", b"", 1), Envelope("s", b"", 1, retain=True)]
    )
    assert (publisher.status.dropped, publisher.status.sent) == (2, 0)


async def test_reconnect_announces_in_order_before_anything_else(bus: MemoryBus) -> None:
    """After a broker's death subscribers get the announcements again, in order."""
    publisher, source = bus.publisher(), bus.source([("#", 1)])
    publisher.on_connect(
        lambda: [Envelope("node/a", b"", 1, retain=True), Envelope("node/b", b"", 1, retain=True)]
    )
    publisher.on_connect(lambda: [Envelope("publisher/p", b"online", 1, retain=True)])
    bus.reconnect()
    await source.take()
    bus.disconnect()
    assert bus.retained == {}
    assert not source.status.connected
    bus.reconnect()
    await publisher.publish([Envelope("t", b"")])
    assert [each.topic for each in await source.take()] == ["node/a", "node/b", "publisher/p", "t"]
    assert (publisher.status.connects, source.status.connects) == (2, 2)


async def test_slow_source_is_bounded(bus: MemoryBus) -> None:
    """A source without a reader drops its oldest telemetry and counts it."""
    publisher = bus.publisher()
    source = bus.source([("#", 0)], limits=InboxLimits(messages=10))
    bus.reconnect()
    await publisher.publish(Envelope(str(number), b"") for number in range(25))
    assert [each.topic for each in await source.take()] == [str(number) for number in range(15, 25)]
    assert (source.status.dropped, source.status.queue_peak) == (15, 10)


async def test_run_connects_and_leaves(bus: MemoryBus) -> None:
    """Clients of the bus run like a broker's: as a task, waited for, cancelled."""
    publisher: Publisher = (memory_publisher := bus.publisher())
    source: Source = bus.source([("#", 0)])
    with pytest.raises(BrokerError, match="no answer within"):
        await memory_publisher.wait_connected(0)
    running = asyncio.create_task(memory_publisher.run())
    await memory_publisher.wait_connected(1)
    assert publisher.status.connected
    assert not source.status.connected
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert publisher.status.last_error == "stopped"


async def test_an_interruption_is_a_death_and_a_return() -> None:
    """An interrupted publisher leaves its last will, waits, and announces again."""
    bus = MemoryBus(clock := ManualClock())
    publisher, source = (
        bus.publisher(will=Envelope("publisher/p", b"offline", 1, retain=True)),
        bus.source([("#", 1)]),
    )
    publisher.on_connect(lambda: [Envelope("publisher/p", b"online", 1, retain=True)])
    source.connect()
    running = asyncio.create_task(publisher.run())
    await clock.advance(5)
    publisher.interrupt(10)
    await publisher.publish([Envelope("t", b"")])
    await clock.advance(9.9)
    assert not publisher.status.connected
    await clock.advance(0.2)
    assert [each.payload for each in await source.take()] == [b"online", b"offline", b"online"]
    assert (publisher.status.dropped, publisher.status.connects) == (1, 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_refused_messages_stay_away_and_are_counted(bus: MemoryBus) -> None:
    """A bus refuses with a reason at QoS 1 and silently at QoS 0.

    As an access list does.
    """
    bus.refuse("f/ack/#")
    publisher = bus.publisher()
    publisher.connect()
    batch = [Envelope("f/ack/a", b"1", 1, retain=True), Envelope("f/alert/a", b"1", 1, retain=True)]
    assert await publisher.publish(batch) == PublishResult(
        1, 1, 1, "the broker refuses f/ack/a: not authorised"
    )
    assert publisher.status.last_refusal == RefusedMessage("f/ack/a", "not authorised")
    assert (publisher.status.sent, publisher.status.refused, set(bus.retained)) == (
        1,
        1,
        {"f/alert/a"},
    )
