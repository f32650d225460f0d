"""The properties of MQTT 5 packets."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import aiomqtt
from paho.mqtt import MQTTException
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from trnfleet.wire.ports import MessageProperties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.wire.ports import Envelope


MOST_PROPERTIES_BYTES = 4_096
"""Largest accepted properties of a message. They wait beside its payload, which has its own limit.
"""
_KEPT = ("UserProperty", "ResponseTopic", "CorrelationData", "MessageExpiryInterval")


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


_MARK, _REPLACEMENT = "\ufeff".encode(), "\ufffd".encode()


_FIXED_BYTES = {"Byte": 1, "Two Byte Integer": 2, "Four Byte Integer": 4}


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


def connect_properties(max_packet_bytes: int, receive_maximum: int) -> Properties:
    """Return CONNECT properties with our limits, for an MQTT 5 broker.

    Args:
        max_packet_bytes: Largest packet from the broker.
        receive_maximum: Most unacknowledged messages from it.
    """
    properties = _empty(PacketTypes.CONNECT)
    properties.MaximumPacketSize = max_packet_bytes
    properties.ReceiveMaximum = receive_maximum
    return properties


def make_will(envelope: Envelope, *, version5: bool) -> aiomqtt.Will:
    """Return an envelope as a last will; only MQTT 5 has a content type."""
    properties = None
    if version5 and envelope.content_type is not None:
        properties = _empty(PacketTypes.WILLMESSAGE)
        properties.ContentType = envelope.content_type
    return aiomqtt.Will(envelope.topic, envelope.payload, envelope.qos, envelope.retain, properties)
