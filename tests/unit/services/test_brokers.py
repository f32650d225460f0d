"""Several brokers as one source and one publisher, over buses in memory."""

from __future__ import annotations

import asyncio
import random

import pytest
from support.fake_network import FakeConnection, Network
from support.memory_bus import MemoryBus, MemoryPublisher, MemorySource

from trnfleet.clock import ManualClock
from trnfleet.errors import BrokerError
from trnfleet.services.brokers import FanOutPublisher, MergedSource, reached
from trnfleet.tasks import background
from trnfleet.transport import link as link_module
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.transport.url import BrokerUrl
from trnfleet.wire.ports import Envelope

TELEMETRY = "t/v1/demo/telemetry/"
STATE = "t/v1/demo/node/"


def merged(*buses: MemoryBus) -> MergedSource:
    sources: list[MemorySource] = [bus.source([("t/#", 1)]) for bus in buses]
    return MergedSource(sources, unmarked=TELEMETRY)


async def publisher_on(bus: MemoryBus) -> MemoryPublisher:
    publisher = bus.publisher("feeder")
    publisher.connect()
    return publisher


async def test_messages_of_all_sources_come_and_state_names_its_connection() -> None:
    """Messages from both sources arrive in one stream.

    A cancelled call loses none.
    """
    one = MemoryBus()
    two = MemoryBus()
    source = merged(one, two)
    async with background(source=source.run()):
        await source.wait_connected(1.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.take(), 0.01)
        await (await publisher_on(one)).publish([Envelope(STATE + "a", b"1", 1, retain=True)])
        await (await publisher_on(two)).publish(
            [Envelope(STATE + "b", b"2", 1, retain=True), Envelope(TELEMETRY + "b", b"3")]
        )
        found: list[Envelope] = []
        while len(found) < 3:
            found += await asyncio.wait_for(source.take(), 1.0)
    assert {(each.topic, each.payload, each.link) for each in found} == {
        (STATE + "a", b"1", 1),
        (STATE + "b", b"2", 2),
        (TELEMETRY + "b", b"3", 0),
    }
    assert source.status.received == 3


async def test_the_whole_stands_while_a_part_does() -> None:
    """One lost connection is a partial loss; the last one is a total loss.

    Its return counts as one connect.
    """
    one = MemoryBus()
    two = MemoryBus()
    source = merged(one, two)
    async with background(source=source.run()):
        await source.wait_connected(1.0)
        assert (source.status.connected, source.status.connects) == (True, 1)
        before = source.status.changes
        two.disconnect()
        status = source.status
        assert status.connected
        assert status.connects == 1
        assert [part.connected for part in status.parts] == [True, False]
        assert status.of_parts(0b10) == (status.parts[1],)
        assert status.changes != before
        one.disconnect()
        assert not source.status.connected
        one.reconnect()
        assert (source.status.connected, source.status.connects) == (True, 2)


async def test_what_is_written_reaches_a_broker_that_was_away_once_it_is_back() -> None:
    """Every broker receives a message.

    One that returns receives each topic's newest retained message once.
    """
    one = MemoryBus()
    two = MemoryBus()
    publisher = FanOutPublisher([one.publisher("desk"), two.publisher("desk")])
    async with background(publisher=publisher.run()):
        await publisher.wait_connected(1.0)
        two.disconnect()
        topic = "t/v1/demo/ack/1"
        for payload in (b"first", b"second"):
            result = await publisher.publish([Envelope(topic, payload, 1, retain=True)])
            assert (result.sent, result.unsent) == (1, 0)
        assert one.retained[topic].payload == b"second"
        assert topic not in two.retained
        reader = two.source([("t/#", 1)])
        two.reconnect()
        reader.connect()
        assert [each.payload for each in await reader.take()] == [b"second"]
        assert two.retained[topic].payload == b"second"


def test_brokers_that_are_all_away_are_all_named() -> None:
    """One reachable broker is enough.

    Without one the line has the reason of each. An error of another kind is raised unchanged.
    """
    away = [
        BrokerError("broker mqtt://a:1883: connection refused"),
        BrokerError("broker mqtt://b:1883: name not found"),
    ]
    assert reached([away[0], "found"]) == ["found"]
    assert reached([None, away[1]]) == [None]
    with pytest.raises(
        BrokerError,
        match=r"^broker mqtt://a:1883: connection refused; broker mqtt://b:1883: name not found$",
    ):
        reached(away)
    with pytest.raises(ZeroDivisionError):
        reached([ZeroDivisionError(), "found"])


async def test_what_is_written_goes_to_chosen_brokers() -> None:
    """Writes go to brokers with parts of the fleet, or to all while unknown."""
    one, two = MemoryBus(), MemoryBus()
    publisher = FanOutPublisher([one.publisher("desk"), two.publisher("desk")])
    async with background(publisher=publisher.run()):
        await publisher.wait_connected(1.0)
        publisher.chosen = lambda: 0b10
        await publisher.publish([Envelope("t/v1/demo/ack/1", b"x", 1, retain=True)])
        publisher.chosen = lambda: 0
        await publisher.publish([Envelope("t/v1/demo/ack/2", b"x", 1, retain=True)])
    assert list(one.retained) == ["t/v1/demo/ack/2"]
    assert list(two.retained) == ["t/v1/demo/ack/1", "t/v1/demo/ack/2"]


async def test_a_broker_that_refuses_is_named() -> None:
    """A message refused by one of several brokers counts as refused.

    It is not retried.
    """
    one = MemoryBus()
    two = MemoryBus()
    two.refuse("t/v1/demo/ack/#")
    publisher = FanOutPublisher([one.publisher("desk"), two.publisher("desk")])
    async with background(publisher=publisher.run()):
        await publisher.wait_connected(1.0)
        result = await publisher.publish([Envelope("t/v1/demo/ack/1", b"x", 1, retain=True)])
    assert (result.sent, result.refused) == (1, 1)
    assert "refuses" in result.error
    assert publisher._pending == [{}, {}]


ACK = Envelope("t/v1/demo/ack/1", b"x", 1, retain=True)


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Network]:
    """Put two brokers made of answers, `a` and `b`, in the place of real ones."""
    found = {"a": Network(), "b": Network()}
    for each in found.values():
        each.gate.set()
    monkeypatch.setattr(
        link_module,
        "WritingConnection",
        lambda login, protocol, _clock, _deliver: FakeConnection(
            found[login.url.host], protocol, login
        ),
    )
    return found


def fan_out(clock: ManualClock) -> FanOutPublisher:
    rng = random.Random(1)  # noqa: S311  spreads attempts
    return FanOutPublisher(
        [MqttPublisher(BrokerUrl(host), client_id="desk", clock=clock, rng=rng) for host in "ab"]
    )


async def test_what_a_returning_broker_loses_again_waits_on(networks: dict[str, Network]) -> None:
    """Waiting messages lost with a returning connection are sent with the next one."""
    clock = ManualClock()
    network = networks["b"]
    publisher = fan_out(clock)
    async with background(publisher=publisher.run()):
        await clock.advance(0)
        network.connections[-1].end("connection lost")
        await clock.advance(0)
        assert (await publisher.publish([ACK])).sent == 1
        network.gate.clear()
        await clock.advance(3)
        assert len(network.connections) == 2
        network.connections[-1].end("connection lost")
        network.gate.set()
        await clock.advance(10)
        assert (len(network.connections), network.sent) == (3, [ACK.topic])
        network.connections[-1].end("connection lost")
        await clock.advance(10)
        assert (len(network.connections), network.sent) == (4, [ACK.topic])


async def test_what_is_written_while_a_broker_comes_back_reaches_it(
    networks: dict[str, Network],
) -> None:
    """A message written during the announcement is sent after it."""
    clock, network = ManualClock(), networks["b"]
    publisher = fan_out(clock)
    publisher.on_connect(lambda: [ACK._replace(topic="announced")])
    async with background(publisher=publisher.run()):
        network.gate.clear()
        await clock.advance(0)
        writing = asyncio.create_task(publisher.publish([ACK]))
        await clock.advance(0)
        assert [part.connected for part in publisher.status.parts] == [True, False]
        network.gate.set()
        await clock.advance(0)
        assert network.sent == ["announced", ACK.topic]
        assert (await writing).sent == 1
