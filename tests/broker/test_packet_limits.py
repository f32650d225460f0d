"""Packet limits: our own towards any broker, and a real Mosquitto's."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import eventually, running, take_until

from trnfleet.errors import BrokerError
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

MIB = 2**20


def header(command: int, remaining: int) -> bytes:
    """Return the fixed header of a packet."""
    digits = bytearray([command])
    while True:
        remaining, digit = divmod(remaining, 128)
        digits.append(digit | (128 if remaining else 0))
        if not remaining:
            return bytes(digits)


@contextlib.asynccontextmanager
async def broker_that_sends(*parts: bytes) -> AsyncIterator[BrokerUrl]:
    """Speak MQTT 3.1.1, and send something behind each SUBACK; PUBACKs are read and forgotten."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while packet := await reader.read(4096):
                if packet[0] == 0x10:
                    writer.write(b"\x20\x02\x00\x00")
                elif packet[0] == 0x82:
                    writer.write(bytes([0x90, 3]) + packet[2:4] + b"\x01")
                    for part in parts:
                        writer.write(part)
                        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield BrokerUrl("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


async def test_a_message_beyond_the_limit_is_skipped_unread() -> None:
    """A message beyond the limit is counted unread, and the next one comes.

    It costs neither memory nor the connection.
    """
    body = b"\x00\x01a\x00\x07" + b"x" * (MIB - 5)
    flood = [header(0x32, 64 * MIB), body, *[b"x" * MIB] * 63]
    async with broker_that_sends(*flood, header(0x30, 4) + b"\x00\x01ab") as url:
        source = MqttSource(url, [("a", 1)], protocol="3.1.1")
        tracemalloc.start()
        try:
            async with running(source.run()):
                taken = await take_until(source, bool)
                assert [(each.topic, each.payload) for each in taken] == [("a", b"b")]
                assert (source.status.oversize, source.status.received, source.status.connects) == (
                    1,
                    2,
                    1,
                )
                # The test's own megabyte and the stream's buffers are in it.
                assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (
            header(0x34, 6) + b"\x00\x01a\x00\x01x",
            "the broker sent a message with QoS 2, which nobody subscribed to",
        ),
        (
            header(0x90, 3 * MIB) + b"\x00" * (3 * MIB),
            "the broker sent a packet over the limit other than a message",
        ),
        (header(0x90, 4) + b"\x00\x09\x00\x00", ""),
    ],
    ids=["QoS 2", "large SUBACK", "unexpected SUBACK"],
)
async def test_what_no_broker_should_send_ends_no_reader(packet: bytes, reason: str) -> None:
    """A packet without a memory bound ends the connection with a reason.

    The source goes on.
    """
    async with broker_that_sends(packet) as url:
        source = MqttSource(url, [("a", 1)], protocol="3.1.1")
        async with running(source.run()) as tasks:
            await eventually(lambda: source.status.last_error == reason)
            await asyncio.sleep(0.05)
            assert not tasks[0].done()
            assert source.status.received == 0


async def test_what_a_broker_states_is_obeyed(
    mosquitto_with: Callable[..., MosquittoProcess],
) -> None:
    """A packet over the broker's limit is not sent, and named with its size.

    The largest within it is sent, and the link stays.
    """
    broker = mosquitto_with("max_packet_size 1500", "max_inflight_messages 4")
    publisher = MqttPublisher(broker.url, client_id="p")
    # 2 + 1 for the header, 2 + 6 for the topic, 2 for the identifier, 1 for no properties.
    sizes = {"node/a": 1487, "node/b": 1486}
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        result = await publisher.publish(
            [Envelope(topic, b"x" * size, 1, retain=True) for topic, size in sizes.items()]
        )
        reason = "a packet of 1,501 bytes, over the broker's limit of 1,500"
        assert (result.sent, result.error) == (1, f"the broker refuses node/a: {reason}")
        with_type = Envelope("node/b", b"x" * 1486, 1, content_type=CONTENT_TYPE_JSON)
        assert (await publisher.publish([with_type])).refused == 1
        assert (await publisher.publish([Envelope("many", b"", 1)] * 64)).sent == 64
        assert (publisher.status.connects, publisher.status.refused) == (1, 2)


async def test_a_broker_without_qos_1_gets_qos_0(
    mosquitto_with: Callable[..., MosquittoProcess],
) -> None:
    """Messages and the last will use the broker's highest QoS."""
    broker = mosquitto_with("max_qos 0")
    publisher = MqttPublisher(broker.url, client_id="p", will=Envelope("will", b"offline", 1))
    source = MqttSource(broker.url, [("#", 1)])
    async with running(publisher.run(), source.run()):
        await publisher.wait_connected(5)
        await source.wait_connected(5)
        assert (await publisher.publish([Envelope("a", b"1", 1)])).sent == 1
        (taken,) = await take_until(source, bool)
        assert (taken.topic, taken.qos, publisher.status.connects) == ("a", 0, 1)
        publisher.interrupt(60)
        (will,) = await take_until(source, bool)
        assert (will.topic, will.payload) == ("will", b"offline")


async def test_a_broker_without_retained_messages_is_named(
    mosquitto_with: Callable[..., MosquittoProcess],
) -> None:
    """Retained state and a retained last will are refused in plain words.

    Other messages are sent.
    """
    broker = mosquitto_with("retain_available false")
    reason = "the broker does not keep retained messages"
    publisher = MqttPublisher(broker.url, client_id="p")
    willing = MqttPublisher(broker.url, client_id="w", will=Envelope("will", b"", 1, retain=True))
    async with running(publisher.run(), willing.run()):
        await publisher.wait_connected(5)
        batch = [Envelope("ack/a", b"1", 1, retain=True), Envelope("event", b"1", 1)]
        result = await publisher.publish(batch)
        assert (result.sent, result.error) == (1, f"the broker refuses ack/a: {reason}")
        with pytest.raises(BrokerError, match=f"{reason}, which the last will is"):
            await willing.wait_connected(5)
