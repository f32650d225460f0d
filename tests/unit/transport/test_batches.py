"""Messages of QoS 0 as packets in one piece."""

from __future__ import annotations

import mqtt5
import pytest

from trnfleet.transport.packets.batches import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    batches,
    is_batched,
    make_batch,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope, MessageProperties

LARGEST = 2**28
MESSAGES = [
    Envelope("t/a", b""),
    Envelope("t/ä", b"x" * 120, content_type=CONTENT_TYPE_JSON),
    *(
        Envelope("t", bytes(size), content_type=CONTENT_TYPE_CBOR)
        for size in (106, 107, 16_362, 16_363)
    ),
    Envelope("t" * 65_535, b"x" * 2_097_152),
]


def test_packets_are_those_of_mqtt_5() -> None:
    """Another codec reads the same messages, at every header length."""
    batch = make_batch(MESSAGES, LARGEST, has_properties=True)
    begin = 0
    for sent, end in zip(MESSAGES, batch.ends, strict=True):
        packet, size = mqtt5.read(memoryview(batch.data)[begin:])
        assert isinstance(packet, mqtt5.PublishPacket)
        assert (packet.topic, packet.payload, packet.content_type) == (
            sent.topic,
            sent.payload,
            sent.content_type,
        )
        assert (packet.qos, packet.retain, begin + size) == (mqtt5.QoS.AT_MOST_ONCE, False, end)
        begin = end
    assert begin == len(batch.data)


def test_packets_of_mqtt_3_1_1_have_no_properties() -> None:
    batch = make_batch(
        [Envelope("t/a", b"xyz", content_type=CONTENT_TYPE_JSON)], LARGEST, has_properties=False
    )
    assert batch.data == b"\x30\x08\x00\x03t/axyz"


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope("", b"x"),
        Envelope("t/+", b"x"),
        Envelope("t/#", b"x"),
        Envelope("t" * 65_536, b"x"),
        Envelope("t/\ud800", b"x"),
        Envelope("t", b"x", content_type="\ud800"),
        Envelope("t", b"x" * 94),
    ],
    ids=["no topic", "plus", "hash", "long", "surrogate", "content type", "large"],
)
def test_what_has_no_packet_is_left_to_the_client(envelope: Envelope) -> None:
    """The others of its batch go, in order."""
    before = Envelope("t", b"x" * 93)
    after = Envelope("t", b"2")
    batch = make_batch([before, envelope, after], 99, has_properties=True)
    assert (batch.envelopes, batch.others) == ([before, after], [envelope])
    assert batch.ends == [99, 106]


def test_what_the_socket_has_taken_is_known_to_the_message() -> None:
    messages = [Envelope("t", b"%d" % number) for number in range(3)]
    batch = make_batch(messages, LARGEST, has_properties=True)
    size = len(batch.data) // 3
    assert batch.after(0) == batch.after(size - 1) == messages
    assert batch.after(size) == batch.after(2 * size - 1) == messages[1:]
    assert not batch.after(3 * size)


def test_batches_are_bounded() -> None:
    """In messages, and in bytes except for the last message; no more are read."""
    small = [Envelope("t", b"x")] * (BATCH_MESSAGES + 1)
    assert list(map(len, batches(small))) == [BATCH_MESSAGES, 1]
    large = iter([Envelope("t", bytes(BATCH_BYTES - 1))] * 5)
    assert list(map(len, batches(large))) == [2, 2, 1]
    more = iter([Envelope("t", bytes(BATCH_BYTES))] * 3)
    next(batches(more))
    assert len(list(more)) == 2


def test_only_what_nobody_acknowledges_and_keeps_is_batched() -> None:
    assert is_batched(Envelope("t", b"x", content_type=CONTENT_TYPE_CBOR))
    assert not is_batched(Envelope("t", b"x", 1))
    assert not is_batched(Envelope("t", b"x", retain=True))
    assert not is_batched(Envelope("t", b"x", properties=MessageProperties(expiry_s=5)))
