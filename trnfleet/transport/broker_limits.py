"""Limits from an MQTT 5 broker's CONNACK, and the messages beyond them.

A broker ends the connection over such a message, so it is not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from paho.mqtt.properties import Properties

    from trnfleet.wire.ports import Envelope

UNLIMITED = 268_435_460
"""Largest MQTT packet. A fixed header of 5 bytes and a remaining length of 2^28 - 1."""
RETAIN_UNAVAILABLE = "the broker does not keep retained messages"
_LENGTHS = (128, 16_384, 2_097_152)
"""Remaining lengths at which the fixed header grows by a byte."""


class BrokerLimits(NamedTuple):
    """Limits of a broker; by default MQTT's own."""

    packet_bytes: int = UNLIMITED
    qos: int = 2
    retains: bool = True
    """Whether it keeps retained messages."""
    under_way: int = 65_535
    """Most unacknowledged messages at once (receive maximum)."""

    @classmethod
    def of(cls, connack: Properties | None) -> BrokerLimits:
        """Return the limits in a CONNACK's properties."""
        return cls(
            getattr(connack, "MaximumPacketSize", UNLIMITED),
            getattr(connack, "MaximumQoS", 2),
            bool(getattr(connack, "RetainAvailable", 1)),
            getattr(connack, "ReceiveMaximum", 65_535),
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
    return 2 + sum(remaining >= length for length in _LENGTHS) + remaining
