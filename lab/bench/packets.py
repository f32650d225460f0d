"""Pre-encoded MQTT 5 packets on a plain socket: a cheap message generator."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import mqtt5

from trnfleet.wire.ports import CONTENT_TYPE_CBOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.transport.url import BrokerUrl

SLICES_PER_S = 50
"""Bursts of messages per second."""
AT_ONCE = 20
"""Unacknowledged messages with QoS 1 Mosquitto accepts of a connection."""
REPEAT_S = 60
"""Time in which every descriptor is published once more."""
SEQ = b"\x63seq\x1b"
TS = b"\x62ts\x1b"
"""Bytes before a frame's number and its time. Both have 8 bytes."""
_ANSWERS_WITHIN_S = 10.0
_MOST_VECTORS = 900
"""Buffers of one call; the system takes 1,024."""


def connect(broker: BrokerUrl, client: str) -> socket.socket:
    """Return a connection that has been accepted."""
    connection = socket.create_connection((broker.host, broker.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(mqtt5.ConnectPacket(client).write())
    connection.recv(200)
    return connection


def cut_frame(topic: str, payload: bytes) -> tuple[bytes, bytes]:
    """Return the packet of a frame before its number, and after its time."""
    packet = mqtt5.PublishPacket(topic, payload, content_type=CONTENT_TYPE_CBOR).write()
    at = packet.index(SEQ) + len(SEQ)
    assert packet[at + 8 : at + 8 + len(TS)] == TS
    return packet[:at], packet[at + 16 + len(TS) :]


def stamp(seq: int, ts_ns: int) -> bytes:
    """Return the bytes between the two parts of a frame."""
    return seq.to_bytes(8, "big") + TS + ts_ns.to_bytes(8, "big")


def send_buffers(connection: socket.socket, buffers: Sequence[bytes]) -> None:
    """Send all bytes of many buffers without copying them."""
    for first in range(0, len(buffers), _MOST_VECTORS):
        part = buffers[first : first + _MOST_VECTORS]
        size = sum(map(len, part))
        sent = connection.sendmsg(part)
        if sent < size:
            connection.sendall(b"".join(part)[sent:])


def send_state(connection: socket.socket, messages: Sequence[tuple[str, bytes]]) -> None:
    """Send retained messages with QoS 1, `AT_ONCE` at most."""
    connection.sendall(
        b"".join(
            mqtt5.PublishPacket(
                topic, payload, retain=True, qos=mqtt5.QoS.AT_LEAST_ONCE, packet_id=n + 1
            ).write()
            for n, (topic, payload) in enumerate(messages)
        )
    )


def await_answers(connection: socket.socket, count: int) -> None:
    """Read a PUBACK of four bytes, or six where nobody reads it, for each message."""
    answers = b""
    while count:
        answers += connection.recv(65_536)
        while len(answers) >= 2 and len(answers) >= 2 + answers[1]:
            answers = answers[2 + answers[1] :]
            count = count - 1


class StateSender:
    """A connection for retained messages.

    It waits at most for the answers to the batch before.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._owed = 0

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages; the last of them are not answered yet."""
        for first in range(0, len(messages), AT_ONCE):
            part = messages[first : first + AT_ONCE]
            await_answers(self._connection, self._owed)
            send_state(self._connection, part)
            self._owed = len(part)


def dropped(broker: BrokerUrl) -> int | None:
    """Return Mosquitto's count of messages dropped for slow clients.

    None if it sends none.
    """
    with connect(broker, "bench-dropped") as connection:
        connection.settimeout(_ANSWERS_WITHIN_S)
        wanted = mqtt5.TopicFilter("$SYS/broker/publish/messages/dropped")
        connection.sendall(mqtt5.SubscribePacket(1, [wanted]).write())
        taken = b""
        while True:
            try:
                taken += connection.recv(4_096)
            except TimeoutError:
                return None
            while read := _read(taken):
                packet, size = read
                if isinstance(packet, mqtt5.PublishPacket):
                    return int(packet.payload or b"0")
                taken = taken[size:]


def _read(data: bytes) -> tuple[mqtt5.Packet, int] | None:
    """Return the first packet of some bytes, and its size.

    None if incomplete.
    """
    try:
        return mqtt5.read(memoryview(data))
    except IndexError:
        return None
