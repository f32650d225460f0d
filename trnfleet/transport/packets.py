"""MQTT packets: messages to send, messages received, and their properties.

Sent telemetry of QoS 0 goes in batches: a client spends most of a small message's time on its
bookkeeping until the socket has accepted it, and a batch needs that once.

Received telemetry repeats topics and properties. Such a message is parsed here, in about a third of
the time needed to build its strings again (measured). Messages with anything new, and all other
packets, go through the codec. `mqtt5` 0.8 panics on text that is not UTF-8, and prints that on the
terminal, so a packet's texts are checked first.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiomqtt
import mqtt5
from paho.mqtt import MQTTException
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from trnfleet.transport.inbox import CONTENT_TYPES, PUBLISH_QOS_0, Delivery, Reception
from trnfleet.wire.ports import LARGEST_TWO_BYTES, Envelope, MessageProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trnfleet.transport.security import Login


MAX_PACKET_BYTES = 2 * 1024 * 1024
"""Largest packet accepted from an MQTT 5 broker. The broker drops larger packets silently, so this
stays well above the largest payload: packets in between are dropped here, and counted."""
RECEIVE_MAXIMUM = 16_384
"""Most unacknowledged QoS 1 messages from an MQTT 5 broker.

At a subscription Mosquitto silently drops the retained messages beyond these and its queue of
1,000. With the 8,192 descriptors of 4,000,000 chips in flight at once, `max_queued_messages` only
matters for messages the socket cannot accept. They do not pile up here: paho acknowledges as it
reads, and the inbox is bounded.
"""
MOST_PROPERTIES_BYTES = 4_096
"""Largest accepted properties of a message. They wait beside its payload, which has its own limit.
"""
UNLIMITED = 268_435_460
"""Largest MQTT packet. A fixed header of 5 bytes and a remaining length of 2^28 - 1."""
RETAIN_UNAVAILABLE = "the broker does not keep retained messages"
BATCH_BYTES = 256 * 1024
"""Payload at which a batch is full. Two frames of blocks of the largest size, or some hundred of
hosts."""
MOST_KNOWN_PROPERTIES = 256
"""Most cached forms of properties; telemetry has two content types."""
_KEPT = ("UserProperty", "ResponseTopic", "CorrelationData", "MessageExpiryInterval")
_FIXED_BYTES = {"Byte": 1, "Two Byte Integer": 2, "Four Byte Integer": 4}
_MARK = "\ufeff".encode()
_REPLACEMENT = "\ufffd".encode()
_ENDINGS = frozenset({PacketTypes.DISCONNECT, PacketTypes.AUTH})
"""Packets with one byte before their properties; other kinds have two."""
_EXPECTED = _ENDINGS | {
    PacketTypes.CONNACK,
    PacketTypes.SUBACK,
    PacketTypes.UNSUBACK,
    PacketTypes.PINGRESP,
}
"""Packets of a broker to a reader, other than messages."""
OLDER_CONNACK = b"\x20\x02"
"""First bytes of an answer to CONNECT in MQTT 3.1.1."""
_NEW: Final = object()
_envelope: Final = tuple.__new__
"""Makes an envelope from all its fields. Its own constructor needs three times as long (measured).
"""


class _OtherPropertiesError(Exception):
    """Properties besides the content type."""


@functools.lru_cache(maxsize=256)
def content_type_of(properties: bytes) -> str | None:
    """Return the content type from a message's properties, with leading length; None if unset.

    Raises:
        Exception: they are not well-formed, in one of many ways, or have more in them that is kept.
    """
    unpacked = _empty(PacketTypes.PUBLISH)
    unpacked.unpack(properties)  # type: ignore[no-untyped-call]  # paho's properties have no types
    if kept_properties(unpacked) is not None:
        raise _OtherPropertiesError
    content_type: str | None = getattr(unpacked, "ContentType", None)
    return content_type


def kept_properties(properties: Properties | None) -> MessageProperties | None:
    """Return a message's properties besides the content type; None without any, the usual case.

    Raises:
        ValueError: it is more than `MOST_PROPERTIES_BYTES`.
    """
    # paho's own hasattr goes through more than this.
    given = {} if properties is None else vars(properties)
    if not any(name in given for name in _KEPT):
        return None
    return keep_properties(
        [(str(name), str(value)) for name, value in given.get("UserProperty", ())],
        given.get("ResponseTopic"),
        given.get("CorrelationData"),
        given.get("MessageExpiryInterval"),
    )


def keep_properties(
    user: Sequence[tuple[str, str]],
    response_topic: str | None,
    correlation: bytes | None,
    expiry_s: int | None,
) -> MessageProperties | None:
    """Return a message's properties besides the content type; None without any.

    Raises:
        ValueError: they exceed `MOST_PROPERTIES_BYTES`.
    """
    if not user and response_topic is None and correlation is None and expiry_s is None:
        return None
    size = sum(len(name) + len(value) for name, value in user)
    if size + len(response_topic or "") + len(correlation or b"") > MOST_PROPERTIES_BYTES:
        raise ValueError(f"properties over {MOST_PROPERTIES_BYTES:,} bytes")
    return MessageProperties(tuple(user), response_topic, correlation, expiry_s)


def check_texts(properties: bytes) -> None:
    """Raise if a text is not UTF-8 or has a NUL.

    The codec checks the rest. paho checks more, and refuses U+FEFF, although MQTT allows it and
    brokers pass it on.

    Args:
        properties: Properties with leading length; more bytes may follow.

    Raises:
        KeyError: an identifier is unknown in MQTT.
        ValueError: a text is not UTF-8 or has a NUL, or the stated length is wrong.
    """
    at, size = _variable(properties, 0)
    end = at + size
    while at < end <= len(properties):
        kind = _kinds()[properties[at]]
        at += 1
        if kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        elif kind == "Variable Byte Integer":
            at, _ = _variable(properties, at)
        else:
            for _ in range(2 if kind == "UTF-8 String Pair" else 1):
                begin = at + 2
                at = begin + int.from_bytes(properties[at:begin], "big")
                if kind != "Binary Data" and "\0" in properties[begin:at].decode():
                    raise ValueError("a text has a NUL")
    if at != end or end > len(properties):
        raise ValueError("properties of another length than they say")


def without_byte_order_marks(packet: bytearray, command: int) -> bytearray:
    """Return an MQTT 5 PUBLISH packet with U+FEFF in its properties replaced by U+FFFD.

    Both have the same length. MQTT allows U+FEFF and brokers pass it on, but paho ends the
    connection over it.

    Args:
        packet: The bytes after the fixed header, possibly cut.
        command: The first byte of the fixed header.
    """
    begin = 2 + int.from_bytes(packet[:2], "big") + (2 if command & 0x06 else 0)
    try:
        begin, size = _variable(packet, begin)
    except ValueError:
        return packet
    properties = packet[begin : begin + size]
    if _MARK not in properties:
        return packet
    return packet[:begin] + properties.replace(_MARK, _REPLACEMENT) + packet[begin + size :]


@functools.cache
def _kinds() -> dict[int, str]:
    """Return the type of each property, by its identifier."""
    table = _empty(PacketTypes.PUBLISH)
    return {identifier: table.types[kind] for identifier, (kind, _) in table.properties.items()}


def _variable(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Return where a variable byte integer ends, and its value.

    Raises:
        ValueError: it has no end.
    """
    value = 0
    for place, byte in enumerate(data[at : at + 4]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return at + place + 1, value
    raise ValueError("an integer without an end")


class _PackedProperties(Properties):
    """PUBLISH properties packed once; paho packs them again for every message."""

    def __init__(self, content_type: str) -> None:
        super().__init__(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho's properties have no types
        self.ContentType = content_type
        # paho's own __setattr__ takes only the names of MQTT properties.
        object.__setattr__(self, "_packed", super().pack())  # type: ignore[no-untyped-call]  # as above

    def pack(self) -> bytes:
        packed: bytes = self.__dict__["_packed"]
        return packed


def publish_properties(envelope: Envelope) -> Properties | None:
    """Return the properties of a message; None where it has none.

    Raises:
        ValueError: MQTT has no such properties.
    """
    if envelope.properties is None:
        return None if envelope.content_type is None else _with_content_type(envelope.content_type)
    properties = _empty(PacketTypes.PUBLISH)
    given = envelope.properties
    try:
        for name, value in (
            ("ContentType", envelope.content_type),
            ("UserProperty", list(given.user) or None),
            ("ResponseTopic", given.response_topic),
            ("CorrelationData", given.correlation),
            ("MessageExpiryInterval", given.expiry_s),
        ):
            if value is not None:
                setattr(properties, name, value)
    except MQTTException as error:
        raise ValueError(str(error)) from error
    return properties


@functools.lru_cache(maxsize=16)
def _with_content_type(content_type: str) -> Properties:
    return _PackedProperties(content_type)


@functools.lru_cache(maxsize=16)
def content_type_bytes(content_type: str | None) -> bytes:
    """Return properties with at most a content type, with leading length.

    Raises:
        ValueError: MQTT has no such content type.
    """
    return b"\0" if content_type is None else _with_content_type(content_type).pack()  # type: ignore[no-untyped-call]  # paho's properties have no types


def properties_bytes(properties: Properties | None) -> int:
    """Return the size of a message's properties in MQTT 5: at least the length byte."""
    return 1 if properties is None else len(properties.pack())  # type: ignore[no-untyped-call]  # paho's properties have no types


def _empty(packet_type: int) -> Properties:
    return Properties(packet_type)  # type: ignore[no-untyped-call]  # paho's properties have no types


def connect_properties() -> Properties:
    """Return CONNECT properties with our limits, for an MQTT 5 broker."""
    properties = _empty(PacketTypes.CONNECT)
    properties.MaximumPacketSize = MAX_PACKET_BYTES
    properties.ReceiveMaximum = RECEIVE_MAXIMUM
    return properties


def make_will(envelope: Envelope, *, version5: bool) -> aiomqtt.Will:
    """Return an envelope as a last will; only MQTT 5 has a content type."""
    properties = None
    if version5 and envelope.content_type is not None:
        properties = _empty(PacketTypes.WILLMESSAGE)
        properties.ContentType = envelope.content_type
    return aiomqtt.Will(envelope.topic, envelope.payload, envelope.qos, envelope.retain, properties)


class BrokerLimits(NamedTuple):
    """Limits of a broker; by default MQTT's own."""

    packet_bytes: int = UNLIMITED
    qos: int = 2
    retains: bool = True
    """Whether it keeps retained messages."""
    under_way: int = LARGEST_TWO_BYTES
    """Most unacknowledged messages at once (receive maximum)."""

    @classmethod
    def from_connack(cls, connack: Properties | None) -> BrokerLimits:
        """Return the limits in a CONNACK's properties."""
        return cls(
            getattr(connack, "MaximumPacketSize", UNLIMITED),
            getattr(connack, "MaximumQoS", 2),
            bool(getattr(connack, "RetainAvailable", 1)),
            getattr(connack, "ReceiveMaximum", LARGEST_TWO_BYTES),
        )

    @property
    def restrict_messages(self) -> bool:
        """Whether some messages are beyond the limits; most brokers accept all."""
        return self.packet_bytes < UNLIMITED or not self.retains

    def reason_against(self, envelope: Envelope, properties_bytes: int) -> str:
        """Return why the broker does not take a message; empty where it does.

        Args:
            envelope: The message.
            properties_bytes: Size of its properties with their length; 0 in MQTT 3.1.1.
        """
        if envelope.retain and not self.retains:
            return RETAIN_UNAVAILABLE
        if self.packet_bytes >= UNLIMITED:
            return ""
        size = publish_bytes(envelope, properties_bytes)
        if size > self.packet_bytes:
            return f"a packet of {size:,} bytes, over the broker's limit of {self.packet_bytes:,}"
        return ""


def publish_bytes(envelope: Envelope, properties_bytes: int) -> int:
    """Return the size of a PUBLISH packet."""
    remaining = 2 + len(envelope.topic.encode()) + (2 if envelope.qos else 0) + properties_bytes
    remaining += len(envelope.payload)
    return len(_head(remaining)) + remaining


class Batch(NamedTuple):
    """Messages as packets."""

    data: bytes
    envelopes: list[Envelope]
    """Messages with a packet."""
    ends: list[int]
    """Bytes up to the end of each one's packet."""
    others: list[Envelope]
    """Messages without a packet, or with one too large: the client reports why."""

    def after(self, taken_bytes: int) -> list[Envelope]:
        """Return the messages incomplete within the first bytes."""
        return [
            envelope
            for envelope, end in zip(self.envelopes, self.ends, strict=True)
            if end > taken_bytes
        ]


def is_batched(envelope: Envelope) -> bool:
    """Return whether a message goes in batches: nobody acknowledges it, and no broker keeps it."""
    return not (envelope.qos or envelope.retain or envelope.properties)


def batches(envelopes: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """Split messages, in order, into batches."""
    batch: list[Envelope] = []
    size = 0
    for envelope in envelopes:
        batch.append(envelope)
        size += len(envelope.topic) + len(envelope.payload)
        if size >= BATCH_BYTES:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def make_batch(envelopes: Sequence[Envelope], most_bytes: int, *, has_properties: bool) -> Batch:
    """Return messages as packets.

    Args:
        envelopes: Messages for a batch.
        most_bytes: Largest packet accepted by the broker.
        has_properties: Whether packets have properties, as in MQTT 5.
    """
    parts: list[bytes] = []
    end = 0
    packed: list[Envelope] = []
    ends: list[int] = []
    others: list[Envelope] = []
    for envelope in envelopes:
        topic = envelope.topic
        payload = envelope.payload
        try:
            name = _topic(topic)
            properties = content_type_bytes(envelope.content_type) if has_properties else b""
        except (ValueError, MQTTException):
            others.append(envelope)
            continue
        size = len(name) + len(properties) + len(payload)
        head = _head(size)
        if len(head) + size > most_bytes:
            others.append(envelope)
            continue
        parts += (head, name, properties, payload)
        end += len(head) + size
        packed.append(envelope)
        ends.append(end)
    return Batch(b"".join(parts), packed, ends, others)


def _topic(topic: str) -> bytes:
    """Return a topic with its length before it.

    Raises:
        ValueError: no message can have it.
    """
    name = topic.encode()
    if not 0 < len(name) <= LARGEST_TWO_BYTES or "+" in topic or "#" in topic:
        raise ValueError("no topic of a message")
    return len(name).to_bytes(2, "big") + name


@functools.lru_cache(maxsize=1_024)
def _head(size: int) -> bytes:
    """Return the fixed header of an unretained message with QoS 0."""
    made = bytearray((PUBLISH_QOS_0,))
    while size >= 0x80:
        made.append(size & 0x7F | 0x80)
        size >>= 7
    made.append(size)
    return bytes(made)


class ForbiddenPacketError(Exception):
    """A packet that ends the connection, because its memory is unbounded.

    Its text names it.
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
        self.count = 0
        """Packets so far."""
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
            self.count += 1
            if data[at] == PUBLISH_QOS_0 and size > 3:
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
            if packet[0] >> 4 == PacketTypes.PUBLISH:
                self._take_message(packet, body - at, now_s, batch)
            else:
                self._take_other(packet, body - at)
            at = after
        return at

    def _take_message(self, packet: bytes, head: int, now_s: float, batch: list[Envelope]) -> None:
        """Read a message with a new topic or new properties."""
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
            properties=message_properties,
            received_s=now_s,
        )
        if envelope is None:
            return
        batch.append(envelope)
        # Others are not cached: a publisher could have ever new ones.
        is_usual = message.content_type is None or message.content_type in CONTENT_TYPES
        if message_properties is None and is_usual and after == block + 1:
            if len(self._known_properties) >= MOST_KNOWN_PROPERTIES:
                # Ever new subscription identifiers must not lock out the usual forms.
                self._known_properties.clear()
            self._known_properties[properties] = envelope.content_type

    def _take_other(self, packet: bytes, head: int) -> None:
        kind = packet[0] >> 4
        if packet.startswith(OLDER_CONNACK):
            raise OlderVersionError
        if kind not in _EXPECTED:
            raise MalformedPacketError(f"the broker sent an unexpected packet of kind {kind}")
        block = head + (1 if kind in _ENDINGS else 2)
        try:
            if block < len(packet):
                check_texts(packet[block:])
        except (KeyError, ValueError) as error:
            raise MalformedPacketError("the broker sent damaged properties") from error
        self._handle(_decoded(packet))

    def _leave_out(self, data: bytes, at: int, body: int, after: int) -> int:
        """Skip a message over the limit: count it, and acknowledge it if necessary.

        The rest of it is dropped as it arrives. The connection, and with it all the other messages,
        goes on.
        """
        if data[at] >> 4 != PacketTypes.PUBLISH:
            raise ForbiddenPacketError(
                "the broker sent a packet over the limit other than a message"
            )
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
    raise MalformedPacketError("the broker sent a packet with an invalid length")


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
        raise MalformedPacketError("the broker sent a packet whose length differs from its header")
    return decoded
