"""The properties of MQTT 5 packets."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope


@functools.lru_cache(maxsize=256)
def content_type_of(properties: bytes) -> str | None:
    """Return the content type among the properties of a message, with their length before them; None for none.

    Raises:
        Exception: they are not well-formed, in one of many ways.
    """
    unpacked = _empty(PacketTypes.PUBLISH)
    unpacked.unpack(properties)  # type: ignore[no-untyped-call]  # paho's properties have no types
    content_type: str | None = getattr(unpacked, "ContentType", None)
    return content_type


class _PackedProperties(Properties):
    """PUBLISH properties whose bytes are made once; paho packs them again for every message."""

    def __init__(self, content_type: str) -> None:
        super().__init__(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho's properties have no types
        self.ContentType = content_type
        # paho's own __setattr__ takes only the names of MQTT properties.
        object.__setattr__(self, "_packed", super().pack())  # type: ignore[no-untyped-call]  # as above

    def pack(self) -> bytes:
        packed: bytes = self.__dict__["_packed"]
        return packed


@functools.lru_cache(maxsize=16)
def publish_properties(content_type: str) -> Properties:
    """Return the properties of a message with a content type."""
    return _PackedProperties(content_type)


def properties_bytes(content_type: str | None) -> int:
    """Return the size of the properties of a message with a content type, in MQTT 5: at least their length, of one byte."""
    return 1 if content_type is None else len(publish_properties(content_type).pack())  # type: ignore[no-untyped-call]  # as above


def _empty(packet_type: int) -> Properties:
    return Properties(packet_type)  # type: ignore[no-untyped-call]  # paho's properties have no types


def connect_properties(max_packet_bytes: int, receive_maximum: int) -> Properties:
    """Return the CONNECT properties that state our limits to an MQTT 5 broker.

    Args:
        max_packet_bytes: Largest packet that it may send.
        receive_maximum: Unacknowledged messages that it may have under way.
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
