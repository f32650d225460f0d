"""MQTT 5 packets from a socket: messages as batches of envelopes.

`mqtt5` decodes all other packets. Owns framing and input limits. It knows no socket, and answers
nothing itself.

Telemetry repeats topics and properties. Such a message is parsed here, in about a third of the time
needed to build its strings again (measured); messages with anything new go through the codec.
`mqtt5` 0.8 panics on text that is not UTF-8, and prints that on the terminal, so a packet's texts
are checked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mqtt5

from trnfleet.transport.client import MAX_PACKET_BYTES, RECEIVE_MAXIMUM, ForbiddenPacketError
from trnfleet.transport.packets.properties import check_texts, keep_properties
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.transport.inbox import Delivery, Reception
    from trnfleet.transport.security.login import Login

MOST_KNOWN_PROPERTIES = 256
"""Most cached forms of properties; telemetry has two content types."""
LONGEST_KNOWN_PROPERTIES = 127
"""Longest cached properties in bytes; the length fits one byte."""
NEW_WORK = 16
"""Known messages handled in the time of one with anything new, about (measured)."""
_PUBLISH = 3
_PINGRESP = 13
_PROPERTIES_AT: Final = {2: 2, 9: 2, 11: 2, 14: 1, 15: 1}
"""Bytes before the properties, by the kind of packet: CONNACK, SUBACK, UNSUBACK, DISCONNECT and
AUTH."""
_QOS_0 = 0x30
"""First byte of an unretained message with QoS 0."""
_OLDER_CONNACK = b"\x20\x02"
_NEW: Final = object()
_envelope: Final = tuple.__new__
"""Makes an envelope from all its fields. Its own constructor needs three times as long (measured).
"""


class MalformedPacketError(Exception):
    """An invalid MQTT 5 packet; it ends the connection."""


class OlderVersionError(Exception):
    """An answer to CONNECT in MQTT 3.1.1."""


def connect_packet(login: Login, password: str | None) -> bytes:
    """Return the CONNECT of a reader.

    Raises:
        ValueError: client id, user or password is not UTF-8 or too long.
    """
    packet: bytes = mqtt5.ConnectPacket(
        login.client_id,
        username=login.url.user,
        password=None if password is None else password.encode(),
        clean_start=True,
        keep_alive=login.keepalive_s,
        receive_max=RECEIVE_MAXIMUM,
        max_packet_size=MAX_PACKET_BYTES,
    ).write()
    return packet


class PacketReader:
    """The packets of one connection; the last may be incomplete."""

    def __init__(
        self, reception: Reception, delivery: Delivery, handle: Callable[[Any], None]
    ) -> None:
        """Begin empty.

        Args:
            reception: Counts messages dropped for their size.
            delivery: The destination of messages.
            handle: Called with each packet other than a message.
        """
        self.acknowledgements = bytearray()
        """PUBACK packets still to send to the broker; the sender empties it."""
        self.work = 0
        """Packets so far; a message with anything new counts as `NEW_WORK`."""
        self._reception = reception
        self._delivery = delivery
        self._handle = handle
        self._known_topics = delivery.by_bytes
        self._known_properties: dict[bytes, str | None] = {}
        """Content types by well-formed properties without anything else to keep."""
        self._rest = bytearray()
        """Beginning of an incomplete packet."""
        self._missing = 0
        """Its missing bytes, if its length is known. It is parsed again when they have arrived, not
        with each read."""
        self._left_out = 0
        """Remaining bytes of a message over the limit."""

    def feed(self, data: bytes, now_s: float) -> None:
        """Add bytes from the socket, and hand over the messages in them.

        Raises:
            ForbiddenPacketError: a packet could use unbounded memory.
            MalformedPacketError: it is not valid MQTT 5.
            OlderVersionError: it is MQTT 3.1.1.
        """
        if self._left_out:
            skipped = min(self._left_out, len(data))
            self._left_out -= skipped
            data = data[skipped:]
        begun = b""
        at = 0
        if self._rest:
            at = self._missing
            if len(data) < at:
                self._rest += data
                self._missing -= len(data)
                return
            # Where its length is known only the packet itself is put together, not all that was
            # read after its beginning.
            self._rest += data[:at] if at else data
            begun = bytes(self._rest)
            self._rest = bytearray()
            if not at:
                data = begun
                begun = b""
        self._missing = 0
        batch: list[Envelope] = []
        try:
            if begun:
                self._take_in(begun, 0, now_s, batch)
            at = self._take_in(data, at, now_s, batch)
        finally:
            if batch:
                self.work += len(batch)
                self._delivery.put_all(batch)
        self._rest += data[at:]

    def _take_in(self, data: bytes, at: int, now_s: float, batch: list[Envelope]) -> int:
        """Read packets from an offset; return the offset of the first incomplete one."""
        # What is owed of earlier messages is looked for in the longer way.
        known_topics = {} if self._reception.owed else self._known_topics
        known_properties = self._known_properties
        end = len(data)
        while at + 1 < end:
            size = data[at + 1]
            body = at + 2
            if size > 0x7F:
                if body < end and data[body] < 0x80:
                    # Two bytes, as a host's frame has.
                    size = size & 0x7F | data[body] << 7
                    body = body + 1
                else:
                    size, body = _length(data, at)
                    if not body:
                        return at
            after = body + size
            if size > MAX_PACKET_BYTES:
                return self._leave_out(data, at, body, after)
            if after > end:
                self._missing = after - end
                return at
            if data[at] == _QOS_0 and size > 3:
                begin = body + 2
                topic_end = begin + (data[body] << 8 | data[body + 1])
                topic = known_topics.get(data[begin:topic_end])
                if topic is not None and topic_end < after:
                    payload = topic_end + 1 + data[topic_end]
                    content_type: Any = known_properties.get(data[topic_end:payload], _NEW)
                    if content_type is not _NEW and payload <= after:
                        fields = (
                            topic,
                            data[payload:after],
                            0,
                            False,
                            content_type,
                            now_s,
                            0,
                            0,
                            None,
                        )
                        batch.append(_envelope(Envelope, fields))
                        at = after
                        continue
            packet = data[at:after]
            if packet[0] >> 4 == _PUBLISH:
                self._take_message(packet, body - at, now_s, batch)
            else:
                self._take_other(packet, body - at)
            at = after
        return at

    def _take_message(self, packet: bytes, head: int, now_s: float, batch: list[Envelope]) -> None:
        """Read a message with a new topic or new properties."""
        self.work += NEW_WORK
        if packet[0] & 0x06 == 0x04:
            raise ForbiddenPacketError(
                "the broker sent a message with QoS 2, which nobody subscribed to"
            )
        begin = head + 2
        topic_end = begin + int.from_bytes(packet[head:begin], "big")
        block = topic_end + (2 if packet[0] & 0x06 else 0)
        size, after = _length(packet, block - 1)
        properties = packet[block : after + size]
        try:
            packet[begin:topic_end].decode()
            if properties not in self._known_properties:
                check_texts(properties)
        except (KeyError, ValueError) as error:
            raise MalformedPacketError("the broker sent a message with damaged texts") from error
        message = _decoded(packet)
        if not message.topic:
            raise MalformedPacketError("the broker sent a topic alias, which was not offered")
        qos = packet[0] >> 1 & 1
        if qos:
            self.acknowledgements += mqtt5.PubAckPacket(message.packet_id).write()
        try:
            message_properties = keep_properties(
                message.user_properties,
                message.response_topic,
                message.correlation_data,
                message.message_expiry_interval,
            )
        except ValueError:
            self._reception.note_oversize()
            return
        envelope = self._delivery.envelope(
            message.topic,
            message.payload,
            qos,
            message.content_type,
            retain=message.retain,
            kept=message_properties,
            received_s=now_s,
        )
        if envelope is None:
            return
        batch.append(envelope)
        if message_properties is None and size <= LONGEST_KNOWN_PROPERTIES:
            if len(self._known_properties) >= MOST_KNOWN_PROPERTIES:
                # A publisher with ever new ones must not lock out all others.
                self._known_properties.clear()
            self._known_properties[properties] = envelope.content_type

    def _take_other(self, packet: bytes, head: int) -> None:
        self.work += 1
        kind = packet[0] >> 4
        if packet[:2] == _OLDER_CONNACK:
            raise OlderVersionError
        if kind != _PINGRESP and kind not in _PROPERTIES_AT:
            raise MalformedPacketError(
                f"the broker sent a packet of kind {kind}, which none is expected of"
            )
        block = head + _PROPERTIES_AT.get(kind, 0)
        try:
            if kind != _PINGRESP and block < len(packet):
                check_texts(packet[block:])
        except (KeyError, ValueError) as error:
            raise MalformedPacketError("the broker sent damaged properties") from error
        self._handle(_decoded(packet))

    def _leave_out(self, data: bytes, at: int, body: int, after: int) -> int:
        """Skip a message over the limit: count it, and acknowledge it if necessary.

        The rest of it is dropped as it arrives. The connection, and with it all the other messages,
        goes on.
        """
        if data[at] >> 4 != _PUBLISH:
            raise ForbiddenPacketError("the broker sent a packet over the limit that is no message")
        qos = data[at] >> 1 & 3
        if qos > 1:
            raise ForbiddenPacketError(
                "the broker sent a message with QoS 2, which nobody subscribed to"
            )
        if qos:
            number = body + 2 + int.from_bytes(data[body : body + 2], "big")
            if len(data) < max(body, number) + 2:
                return at
            self.acknowledgements += mqtt5.PubAckPacket(
                int.from_bytes(data[number : number + 2], "big")
            ).write()
        self._reception.note_oversize()
        self._left_out = max(0, after - len(data))
        return min(after, len(data))


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the remaining length of a packet at `at`, and where it begins.

    0 and 0 if its length is incomplete.

    Raises:
        MalformedPacketError: the length is invalid.
    """
    size = 0
    for place in range(4):
        where = at + 1 + place
        if where >= len(data):
            return 0, 0
        byte = data[where]
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size, where + 1
    raise MalformedPacketError("the broker sent a packet of no possible length")


def _decoded(packet: bytes) -> Any:
    """Return a whole packet.

    Raises:
        MalformedPacketError: it is not valid MQTT 5.
    """
    try:
        decoded, size = mqtt5.read(memoryview(packet))
    except (ValueError, IndexError) as error:
        raise MalformedPacketError(
            f"the broker sent no packet of MQTT 5: {str(error).lower()}"
        ) from error
    except BaseException as error:
        # A panic of the codec is no Exception.
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise MalformedPacketError("the broker sent a packet that the codec cannot read") from None
    if size != len(packet):
        raise MalformedPacketError("the broker sent a packet of another length than it says")
    return decoded
