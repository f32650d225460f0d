"""Telemetry in batches on real connections.

Order, few writes, refusals, a stalled broker, and counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import running, take_until

from trnfleet.transport.client import Client, Writing
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.packets import BATCH_BYTES
from trnfleet.transport.url import BrokerUrl
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.transport.connection import ProtocolName

pytestmark = pytest.mark.broker


HUGE = 20 * 2**20
"""More than the buffers of both sockets hold."""


@pytest.fixture
def writings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the written batches."""
    sizes: list[int] = []
    write = Client.write

    def noted(self: Client, packets: bytes) -> Writing:
        sizes.append(len(packets))
        return write(self, packets)

    monkeypatch.setattr(Client, "write", noted)
    return sizes


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_state_and_telemetry_arrive_in_order(
    mosquitto_with: Callable[..., MosquittoProcess], writings: list[int], protocol: ProtocolName
) -> None:
    """Presence, descriptor, frames and acknowledged messages arrive in order.

    Frames are sent in a few writes.
    """
    broker = mosquitto_with("max_queued_messages 0")
    publisher = MqttPublisher(broker.url, client_id="p", protocol=protocol)
    publisher.on_connect(lambda: [Envelope("t/online", b"1", 1, retain=True)])
    source = MqttSource(broker.url, [("t/#", 1)])
    frames = [
        Envelope(f"t/{number % 50}", b"%d" % number, content_type=CONTENT_TYPE_CBOR)
        for number in range(1_000)
    ]
    state = Envelope("t/node", b"{}", 1, retain=True)
    last = Envelope("t/kept", b"x", retain=True)
    async with running(source.run()):
        await source.wait_connected(5)
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            result = await publisher.publish([state, *frames[:600], state, *frames[600:], last])
            assert (result.sent, result.unsent, publisher.status.sent) == (1_003, 0, 1_004)
            taken = await take_until(source, lambda all_: len(all_) >= 1_004)
    sent = [("t/online", b"1"), ("t/node", b"{}"), *((each.topic, each.payload) for each in frames)]
    sent.insert(602, ("t/node", b"{}"))
    assert [(each.topic, each.payload) for each in taken] == [*sent, ("t/kept", b"x")]
    kept = CONTENT_TYPE_CBOR if protocol == "5" else None
    assert {each.content_type for each in taken if each.topic == "t/7"} == {kept}
    assert len(writings) == 2


async def test_a_websocket_has_a_message_a_frame(
    mosquitto_with: Callable[..., MosquittoProcess], writings: list[int]
) -> None:
    broker = mosquitto_with(scheme="ws")
    publisher = MqttPublisher(broker.url, client_id="p")
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        assert (await publisher.publish(Envelope("t", b"x") for _ in range(20))).sent == 20
    assert not writings


async def test_of_a_batch_only_what_cannot_be_sent_stays(
    mosquitto_with: Callable[..., MosquittoProcess],
) -> None:
    """An unsendable message of a batch is counted, and named with its own reason."""
    broker = mosquitto_with("max_packet_size 1500")
    publisher = MqttPublisher(broker.url, client_id="p")
    source = MqttSource(broker.url, [("t/#", 0)])
    messages = [("t/1", 10), ("t/a", 1_492), ("t/2", 1_491), ("t/+", 5), ("t/3", 10)]
    async with running(source.run(), publisher.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        result = await publisher.publish(Envelope(topic, b"x" * size) for topic, size in messages)
        assert (result.sent, result.refused, result.unsent) == (3, 2, 2)
        assert (
            result.error
            == "the broker refuses t/a: a packet of 1,501 bytes, over the broker's limit of 1,500"
        )
        taken = await take_until(source, lambda all_: len(all_) >= 3)
    assert [each.topic for each in taken] == ["t/1", "t/2", "t/3"]
    assert (publisher.status.refused, publisher.status.dropped) == (2, 0)


@contextlib.asynccontextmanager
async def broker_that_stops_reading() -> AsyncIterator[tuple[BrokerUrl, asyncio.Event]]:
    """Answer CONNECT and read nothing more, until the event ends the connection."""
    end = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4_096)
        writer.write(b"\x20\x03\x00\x00\x00")
        await writer.drain()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads has it
        await end.wait()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield BrokerUrl("127.0.0.1", server.sockets[0].getsockname()[1]), end
    finally:
        end.set()
        server.close()
        await server.wait_closed()


async def still(writings: list[int]) -> None:
    """Wait until nothing more is given to the socket."""
    before = -1
    while before != len(writings):
        before = len(writings)
        await asyncio.sleep(0.2)


async def test_a_broker_that_stops_taking_holds_the_publisher_back(writings: list[int]) -> None:
    """With a stalled broker one batch waits.

    At the end sent and dropped add up.
    """
    count = 20_000
    made = 0

    def messages() -> Iterator[Envelope]:
        nonlocal made
        for _ in range(count):
            made += 1
            yield Envelope("t", bytes(1_000))

    async with broker_that_stops_reading() as (url, end):
        publisher = MqttPublisher(url, client_id="p", protocol="5")
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            tracemalloc.start()
            try:
                publishing = asyncio.create_task(publisher.publish(messages()), name="publishing")
                await still(writings)
                assert not publishing.done()
                assert made < count
                assert tracemalloc.get_traced_memory()[0] < 8 * BATCH_BYTES
            finally:
                tracemalloc.stop()
            end.set()
            result = await asyncio.wait_for(publishing, 10)
            assert (result.sent + result.unsent, made) == (count, count)
            assert 0 < result.sent < count
            assert (publisher.status.sent, publisher.status.dropped) == (result.sent, result.unsent)


async def test_of_a_batch_that_went_in_part_what_is_whole_counts_as_sent(
    writings: list[int],
) -> None:
    small = [Envelope("t", b"x")] * 3
    async with broker_that_stops_reading() as (url, end):
        publisher = MqttPublisher(url, client_id="p", protocol="5", max_payload_bytes=HUGE)
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            publishing = asyncio.create_task(
                publisher.publish([*small, Envelope("t", bytes(HUGE)), *small]), name="publishing"
            )
            await still(writings)
            end.set()
            result = await asyncio.wait_for(publishing, 10)
            assert (result.sent, result.unsent, len(writings)) == (3, 4, 1)
            assert (publisher.status.sent, publisher.status.dropped) == (3, 4)
