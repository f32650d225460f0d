"""aiomqtt's client on a pair of sockets: a test for each private name of paho that it uses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import aiomqtt
import mqtt5
import pytest
from support.processes.waiting import eventually

from trnfleet.clock import ManualClock
from trnfleet.transport.client import Client
from trnfleet.transport.diagnosis import EndedEarlyError
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import Delivery, Reception
from trnfleet.transport.packets import MAX_PACKET_BYTES, ForbiddenPacketError
from trnfleet.transport.security import Login
from trnfleet.transport.url import BrokerUrl
from trnfleet.transport.writing import WritingConnection
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Paired(NamedTuple):
    client: Client
    broker: socket.socket
    """The broker's end of the socket."""
    connect: bytes
    """What came before the answer to CONNECT."""
    delivered: list[Envelope]
    status: LinkStatus

    async def send(self, *packets: Any) -> None:
        data = b"".join(packet.write() for packet in packets)
        await asyncio.get_running_loop().sock_sendall(self.broker, data)

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.broker, 65_536)


def make(reception: Reception, **options: Any) -> Client:
    clock = ManualClock()
    options = {"hostname": "h", "protocol": aiomqtt.ProtocolVersion.V5} | options
    return Client(Delivery(reception, clock), reception, clock, **options)


@contextlib.asynccontextmanager
async def connected(
    connack: mqtt5.ConnAckPacket | None = None, **options: Any
) -> AsyncIterator[Paired]:
    """Connect a client to a test as its broker; drop it at the end."""
    near, broker = socket.socketpair()
    broker.setblocking(False)
    near.setblocking(False)
    status = LinkStatus()
    delivered = list[Envelope]()
    client = make(Reception(delivered.extend, topic_pattern("a/#"), status), **options)
    greeting = asyncio.create_task(client.greet(near))
    connect = await asyncio.get_running_loop().sock_recv(broker, 65_536)
    made = Paired(client, broker, connect, delivered, status)
    await made.send(connack or mqtt5.ConnAckPacket())
    await greeting
    try:
        yield made
    finally:
        client.drop()
        await asyncio.sleep(0)
        broker.close()


async def test_create_socket_gives_paho_our_socket() -> None:
    """CONNECT goes over the socket that was dialed here."""
    async with connected() as made:
        assert made.connect.startswith(b"\x10")
        assert made.client.is_open


async def test_sock_recv_reads_for_paho() -> None:
    """What paho reads passes through the client, which keeps the first bytes."""
    async with connected() as made:
        assert made.client.heard == mqtt5.ConnAckPacket().write()[:16]
        await made.send(mqtt5.PublishPacket("a/b", b"1"), mqtt5.PublishPacket("b/b", b"2"))
        await made.send(mqtt5.PublishPacket("a/c", b"3", retain=True))
        await eventually(lambda: len(made.delivered) == 2, 5)
        assert [envelope.topic for envelope in made.delivered] == ["a/b", "a/c"]
        assert made.delivered[1].retain
        assert made.status.unsolicited == 1


async def test_in_packet_shows_the_size_of_an_incoming_packet() -> None:
    """A message over the limit is counted, and the connection stays."""
    async with connected() as made:
        await made.send(
            mqtt5.PublishPacket("a/large", bytes(MAX_PACKET_BYTES)),
            mqtt5.PublishPacket("a/b", b"1"),
        )
        await eventually(lambda: len(made.delivered) == 1, 5)
        assert [envelope.topic for envelope in made.delivered] == ["a/b"]
        assert made.status.oversize == 1


async def test_handle_publish_may_repair_a_message() -> None:
    """U+FEFF in a property, over which paho ends the connection, is replaced."""
    async with connected() as made:
        await made.send(mqtt5.PublishPacket("a/b", b"1", user_properties=[("\ufeffkey", "x")]))
        await eventually(lambda: len(made.delivered) == 1, 5)
        properties = made.delivered[0].properties
        assert properties is not None
        assert properties.user == (("\ufffdkey", "x"),)


async def test_send_pubrec_is_called_for_a_message_with_qos_2() -> None:
    """Such a message, which paho would keep without a bound, ends the connection."""
    async with connected() as made:
        await made.send(mqtt5.PublishPacket("a/b", b"1", qos=mqtt5.QoS.EXACTLY_ONCE, packet_id=1))
        async with asyncio.timeout(5):
            assert isinstance(await made.client.end(), ForbiddenPacketError)


async def test_packet_queue_writes_bytes_in_their_turn() -> None:
    """Packets go out unchanged, after what waits."""
    packets = mqtt5.PublishPacket("a/b", b"1").write()
    async with connected() as made:
        writing = made.client.write(packets)
        assert await made.receive() == packets
        await asyncio.wait_for(writing.accepted, 5)
        assert writing.taken_bytes == len(packets)


async def test_mid_generate_numbers_every_write() -> None:
    """Each of several writes is reported as its own."""
    async with connected() as made:
        first = made.client.write(b"\xc0\x00")
        second = made.client.write(b"\xc0\x00")
        assert len(made.client._answers) == 2
        await asyncio.wait_for(asyncio.gather(first.accepted, second.accepted), 5)
        assert made.client._answers == {}


async def test_out_packet_tells_how_much_the_socket_has_taken() -> None:
    """Of a write that the broker does not read only the beginning is taken."""
    async with connected() as made:
        size = 20 * 2**20
        writing = made.client.write(bytes(size))
        await eventually(lambda: writing.taken_bytes > 0, 5)
        assert 0 < writing.taken_bytes < size
        assert not writing.accepted.done()


async def test_sock_close_closes_the_socket() -> None:
    """A dropped client leaves neither a socket nor a reader behind."""
    async with connected() as made:
        made.client.drop()
        assert await asyncio.wait_for(made.receive(), 5) == b""
        assert not made.client.is_open
        assert isinstance(await made.client.end(), aiomqtt.MqttError)


async def test_max_inflight_messages_follow_the_broker() -> None:
    """No more messages are under way than the broker accepts."""
    connack = mqtt5.ConnAckPacket(receive_max=2)
    async with connected(connack, max_inflight_messages=64) as made:
        sending = [
            asyncio.create_task(made.client.send(Envelope(f"a/{number}", b"x", 1), None, 5.0))
            for number in range(3)
        ]
        await asyncio.sleep(0.05)
        received = await made.receive()
        assert b"a/1" in received
        assert b"a/2" not in received
        await made.send(*(mqtt5.PubAckPacket(number) for number in (1, 2)))
        assert b"a/2" in await made.receive()
        await made.send(mqtt5.PubAckPacket(3))
        codes = await asyncio.gather(*sending)
        assert [code.value for code in codes if code is not None] == [0, 0, 0]


async def test_an_end_before_the_answer_is_an_error() -> None:
    """A broker that closes the connection instead of answering CONNECT ends the wait."""
    near, broker = socket.socketpair()
    near.setblocking(False)
    client = make(Reception(None, topic_pattern(), LinkStatus()))
    greeting = asyncio.create_task(client.greet(near))
    await asyncio.sleep(0)
    broker.close()
    with pytest.raises(EndedEarlyError):
        await asyncio.wait_for(greeting, 5)
    client.drop()
    await asyncio.sleep(0)


async def test_what_a_broker_sends_while_a_connection_closes_ends_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Aiomqtt raises whatever the client has ended with, such as for a forbidden packet."""
    reception = Reception(None, topic_pattern("t/#"), LinkStatus())
    connection = WritingConnection(Login(BrokerUrl("h"), "c"), "5", ManualClock(), reception)
    connection.ended = asyncio.get_running_loop().create_future()

    async def refuse(*_: object) -> None:
        raise ForbiddenPacketError("a message with QoS 2")

    monkeypatch.setattr(connection._client, "__aexit__", refuse)
    await connection.close()
    assert connection.ended.cancelled()
