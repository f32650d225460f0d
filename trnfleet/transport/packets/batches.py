"""PUBLISH packets of telemetry, many messages of QoS 0 in one piece of bytes.

A client spends most of a small message's time on its bookkeeping until the socket has accepted it;
a batch needs that once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from paho.mqtt import MQTTException

from trnfleet.transport.packets.properties import content_type_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.wire.ports import Envelope

BATCH_BYTES = 256 * 1024
"""Payload at which a batch is full. Two frames of blocks of the largest size, or some hundred of
hosts."""
BATCH_MESSAGES = 256
_QOS_0 = b"\x30"
"""First byte of an unretained message with QoS 0."""
_LONGEST_TOPIC = 65_535


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
        size += len(envelope.payload)
        if size >= BATCH_BYTES or len(batch) >= BATCH_MESSAGES:
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
        head = _QOS_0 + _length(size)
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
    if not 0 < len(name) <= _LONGEST_TOPIC or "+" in topic or "#" in topic:
        raise ValueError("no topic of a message")
    return len(name).to_bytes(2, "big") + name


@functools.lru_cache(maxsize=1_024)
def _length(size: int) -> bytes:
    """Return a remaining length as a variable byte integer."""
    made = bytearray()
    while size >= 0x80:
        made.append(size & 0x7F | 0x80)
        size >>= 7
    made.append(size)
    return bytes(made)
