"""MQTT packets: batches to send, limits of a broker, and packets read from a socket."""

from __future__ import annotations

import random
import tracemalloc
from sys import getsizeof
from typing import TYPE_CHECKING, Any

import mqtt5
import pytest

from trnfleet.clock import ManualClock
from trnfleet.transport import inbox
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import MAX_CACHED_BYTES, Delivery, Reception
from trnfleet.transport.packets import (
    BATCH_BYTES,
    MAX_PACKET_BYTES,
    MOST_KNOWN_PROPERTIES,
    MOST_PROPERTIES_BYTES,
    BrokerLimits,
    ForbiddenPacketError,
    MalformedPacketError,
    OlderVersionError,
    PacketReader,
    batches,
    is_batched,
    make_batch,
    publish_bytes,
)
from trnfleet.wire.ports import (
    CONTENT_TYPE_CBOR,
    CONTENT_TYPE_JSON,
    Envelope,
    LinkStatus,
    MessageProperties,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Connected:
    """A reader subscribed to `t/#`, with its deliveries and counters."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []
        self.batches: list[int] = []
        self.handled: list[Any] = []
        self.status = LinkStatus()
        self.reception = Reception(self.take, topic_pattern("t/#"), self.status, owed={})
        self.delivery = Delivery(self.reception, ManualClock(monotonic_s=7.0))
        self.reader = PacketReader(self.reception, self.delivery, self.handled.append)

    def take(self, batch: Sequence[Envelope]) -> None:
        self.batches.append(len(batch))
        self.taken.extend(batch)

    def feed(self, *packets: bytes) -> list[Envelope]:
        """Feed packets in one read, and return the resulting messages."""
        before = len(self.taken)
        self.reader.feed(b"".join(packets), 7.0)
        return self.taken[before:]


def publish(topic: str, payload: bytes = b"x", qos: int = 0, **options: Any) -> bytes:
    number = 300 if qos else None
    return mqtt5.PublishPacket(
        topic, payload, qos=mqtt5.QoS(qos), packet_id=number, **options
    ).write()


def raw(kind: int, body: bytes) -> bytes:
    assert len(body) < 128
    return bytes([kind, len(body)]) + body


STREAM = [
    *(publish("t/a", bytes([number]) * 300, content_type=CONTENT_TYPE_CBOR) for number in range(3)),
    publish("t/a", b"", content_type=CONTENT_TYPE_JSON),
    publish(
        "t/\u00fc", b"q", qos=1, retain=True, user_properties=[("site", "fra"), ("site", "\u00fc")]
    ),
    publish("t/a", b"plain"),
    publish("t/a", b"plain"),
    publish("other", b"nobody asked"),
    publish("t/a", b"y" * 20_000, content_type=CONTENT_TYPE_CBOR),
    mqtt5.PingRespPacket().write(),
    publish("t/a", b"r", response_topic="t/r", correlation_data=b"\x00", message_expiry_interval=9),
    publish("t/a", b"last", content_type=CONTENT_TYPE_CBOR),
]
EXPECTED = [
    *(
        Envelope("t/a", bytes([number]) * 300, 0, False, CONTENT_TYPE_CBOR, 7.0)
        for number in range(3)
    ),
    Envelope("t/a", b"", 0, False, CONTENT_TYPE_JSON, 7.0),
    Envelope(
        "t/\u00fc",
        b"q",
        1,
        True,
        None,
        7.0,
        0,
        0,
        MessageProperties((("site", "fra"), ("site", "\u00fc"))),
    ),
    Envelope("t/a", b"plain", 0, False, None, 7.0),
    Envelope("t/a", b"plain", 0, False, None, 7.0),
    Envelope("t/a", b"y" * 20_000, 0, False, CONTENT_TYPE_CBOR, 7.0),
    Envelope("t/a", b"r", 0, False, None, 7.0, 0, 0, MessageProperties((), "t/r", b"\x00", 9)),
    Envelope("t/a", b"last", 0, False, CONTENT_TYPE_CBOR, 7.0),
]


@pytest.fixture
def connected() -> Connected:
    return Connected()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 299, 1_000, 100_000])
def test_messages_are_the_same_however_they_are_cut(connected: Connected, size: int) -> None:
    """Messages come in order and whole, however reads cut them, also the second time."""
    stream = b"".join(STREAM)
    for _ in range(2):
        connected.taken.clear()
        for begin in range(0, len(stream), size):
            connected.feed(stream[begin : begin + size])
        assert connected.taken == EXPECTED
    assert connected.status.unsolicited == 2
    assert len(connected.handled) == 2
    assert bytes(connected.reader.acknowledgements) == b"\x40\x02\x01\x2c" * 2
    assert {type(each.qos) for each in connected.taken} == {int}


def test_a_large_message_in_small_parts_is_put_together_once(connected: Connected) -> None:
    """The parts of a message are joined once: copying all with each takes minutes."""
    packet = publish("t/a", bytes(MAX_PACKET_BYTES - 100))
    tracemalloc.start()
    try:
        for begin in range(0, len(packet), 1_000):
            connected.feed(packet[begin : begin + 1_000])
            if begin == 1_000_000:
                tracemalloc.reset_peak()
                whole_bytes = tracemalloc.get_traced_memory()[0]
            if begin == 1_010_000:
                assert tracemalloc.get_traced_memory()[1] < whole_bytes + 500_000
    finally:
        tracemalloc.stop()
    assert [len(each.payload) for each in connected.taken] == [MAX_PACKET_BYTES - 100]


def test_unusual_content_types_are_not_cached(connected: Connected) -> None:
    """A publisher with ever new content types uses no lasting memory."""
    for number in range(3):
        connected.feed(publish("t/a", content_type=f"text/{number}"))
    connected.feed(publish("t/a", content_type=CONTENT_TYPE_CBOR))
    assert list(connected.reader._known_properties.values()) == [CONTENT_TYPE_CBOR]
    assert len(connected.taken) == 4


def test_ever_new_subscription_identifiers_are_cached_up_to_a_number(connected: Connected) -> None:
    """A broker may name any of 268,435,455 with each message."""
    for number in range(2 * MOST_KNOWN_PROPERTIES):
        connected.feed(mqtt5.PublishPacket("t/a", b"x", subscription_ids=[number + 1]).write())
    assert len(connected.reader._known_properties) <= MOST_KNOWN_PROPERTIES
    assert len(connected.taken) == 2 * MOST_KNOWN_PROPERTIES


def test_long_topics_are_not_kept_without_a_bound(connected: Connected) -> None:
    """Cached topics are forgotten before their texts exceed their limit."""
    for number in range(300):
        connected.feed(publish(f"t/{number}/" + "x" * 65_000))
    assert sum(map(len, connected.delivery.by_bytes)) <= MAX_CACHED_BYTES
    assert len(connected.taken) == 300


def test_topics_of_state_push_out_none_of_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors and presences of many hosts leave telemetry topics cached."""
    monkeypatch.setattr(inbox, "MAX_CACHED_BYTES", 3 * getsizeof("t/0"))
    connected = Connected()
    for number in range(3):
        connected.feed(publish(f"t/{number}"))
    for number in range(20):
        connected.feed(publish(f"t/state/{number}", qos=number % 2, retain=True))
    assert sorted(connected.delivery.by_bytes) == [b"t/0", b"t/1", b"t/2"]
    assert len(connected.taken) == 23


def outcome(packet: bytes, *before: bytes) -> tuple[list[Envelope], int, str]:
    """Return a reader's result for a packet after others: messages, skipped ones, error."""
    connected = Connected()
    connected.feed(*before)
    connected.taken.clear()
    connected.status.unsolicited = 0
    try:
        taken = connected.feed(packet)
        error = ""
    except (ForbiddenPacketError, MalformedPacketError) as failure:
        taken = []
        error = str(failure)
    return taken, connected.status.unsolicited, error


def test_what_has_come_before_is_read_as_the_codec_reads_it() -> None:
    """Known topics and properties have the same messages and errors as new ones.

    Whole and damaged.
    """
    chance = random.Random(17)  # noqa: S311  bytes, nothing secret
    before = [
        publish(topic, b"x", content_type=content_type)
        for topic in ("t/a", "t/b", "t/\u00fc")
        for content_type in (CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, None)
    ]
    errors = 0
    for _ in range(3_000):
        topic = chance.choice(["t/a", "t/b", "t/\u00fc", "t/new", "other"])
        size = chance.choice([0, 3, 90, 130, 700])
        content_type = chance.choice([CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, None, "text/plain"])
        packet = bytearray(
            publish(
                topic,
                bytes(size),
                qos=chance.random() < 0.1,
                content_type=content_type,
                retain=chance.random() < 0.1,
            )
        )
        for _ in range(chance.choice([0, 1, 1, 2])):
            packet[chance.randrange(min(len(packet), 40))] = chance.randrange(256)
        known = outcome(bytes(packet), *before)
        new = outcome(bytes(packet))
        assert known == new, bytes(packet[:60])
        errors += bool(known[2])
    assert 300 < errors < 2_700


def test_a_read_is_handed_over_as_one_batch(connected: Connected) -> None:
    """One read is one call to the consumer; topics and content types are shared."""
    taken = connected.feed(*STREAM[:4])
    assert connected.batches == [4]
    assert len({id(each.topic) for each in taken}) == 1
    assert taken[0].content_type is taken[2].content_type


MALFORMED = {
    "a topic that is not UTF-8": b"\x30\x05\x00\x01\xff\x00x",
    "a property that is not UTF-8": raw(0x30, b"\x00\x03t/a\x04\x03\x00\x01\xffx"),
    "a property with a NUL": raw(0x30, b"\x00\x03t/a\x04\x03\x00\x01\x00x"),
    "a property that is none": raw(0x30, b"\x00\x03t/a\x02\x7e\x00x"),
    "a property without its end": raw(0x30, b"\x00\x03t/a\x04\x03\x00\x02ax"),
    "a number without an end": raw(0x30, b"\x00\x03t/a\x05\x0b\xff\xff\xff\xff"),
    "a reason that is not UTF-8": raw(0xE0, b"\x8e\x04\x1f\x00\x01\xff"),
    "a CONNACK's text that is not UTF-8": raw(0x20, b"\x00\x00\x04\x12\x00\x01\xff"),
    "properties beyond the packet": raw(0x30, b"\x00\x03t/a\x7fx"),
    "a topic beyond the packet": raw(0x30, b"\x00\x7ft/a"),
    "an empty message": raw(0x30, b""),
    "a QoS that is none": raw(0x36, b"\x00\x03t/a\x00\x01\x00"),
    "a topic alias": raw(0x30, b"\x00\x00\x03\x23\x00\x01x"),
    "a length that is none": b"\x30\xff\xff\xff\xff\x01",
    "a kind that is none": raw(0x00, b""),
    "a CONNECT": mqtt5.ConnectPacket("c").write(),
    "a PUBACK of nothing": mqtt5.PubAckPacket(1).write(),
    "a reason code that is none": raw(0xE0, b"\x77\x00"),
    "another protocol": b"HTTP/1.1 404 Not Found\r\n\r\n" + b"x" * 200,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_packet_ends_the_connection(
    connected: Connected, data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Damage raises one error and prints nothing; earlier messages are handed over."""
    with pytest.raises(MalformedPacketError):
        connected.feed(publish("t/a", b"before"), data)
    assert [each.payload for each in connected.taken] == [b"before"]
    assert capfd.readouterr() == ("", "")


def test_a_property_may_have_every_character_of_unicode() -> None:
    """U+FEFF in a property ends no connection.

    MQTT allows it and Mosquitto passes it on, but paho refuses it.
    """
    user = [("site", "\ufeffa"), ("\U0001f600", "\uffff")]
    (taken,) = Connected().feed(publish("t/a", content_type="\ufefftext", user_properties=user))
    assert (taken.content_type, taken.properties) == ("\ufefftext", MessageProperties(tuple(user)))


def test_known_properties_that_go_beyond_their_packet_are_not_taken_for_them(
    connected: Connected,
) -> None:
    """A message with a wrong length is parsed as new, though its bytes are known."""
    whole = publish("t/a", b"x", content_type=CONTENT_TYPE_CBOR)
    connected.feed(whole)
    short = bytes([0x30, 8]) + whole[2:10]
    with pytest.raises(MalformedPacketError):
        connected.feed(short + whole[10:])


def test_an_answer_in_the_older_version_is_told_apart() -> None:
    """A CONNACK of two bytes is MQTT 3.1.1, whatever its content."""
    with pytest.raises(OlderVersionError):
        Connected().feed(b"\x20\x02\x00\x01")


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (publish("t/a", qos=2), "a message with QoS 2"),
        (b"\x90\xff\xff\xff\x7f", "a packet over the limit other than a message"),
        (b"\x34\xff\xff\xff\x7f", "a message with QoS 2"),
    ],
    ids=["QoS 2", "large SUBACK", "large with QoS 2"],
)
def test_what_could_take_memory_without_a_bound_is_forbidden(packet: bytes, reason: str) -> None:
    """Unrequested or oversized packets end the connection with a reason."""
    with pytest.raises(ForbiddenPacketError, match=reason):
        Connected().feed(packet)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_message_over_the_limit_is_left_out(connected: Connected, qos: int, size: int) -> None:
    """It is counted and acknowledged, none of it is kept, and what follows it comes."""
    large = publish("t/a", bytes(MAX_PACKET_BYTES), qos)
    begin = large[: 10 * size]
    rest = large[10 * size :]
    for at in range(0, len(begin), size):
        connected.feed(begin[at : at + size])
    connected.feed(rest, publish("t/a", b"after"))
    assert [each.payload for each in connected.taken] == [b"after"]
    assert (connected.status.oversize, connected.status.received) == (1, 1)
    assert bytes(connected.reader.acknowledgements) == b"\x40\x02\x01\x2c" * qos


def test_properties_over_the_limit_are_counted(connected: Connected) -> None:
    """A message with more properties than are kept is counted as too large, and acknowledged."""
    packet = publish("t/a", qos=1, user_properties=[("a", "b" * MOST_PROPERTIES_BYTES)])
    assert not connected.feed(packet)
    assert connected.status.oversize == 1
    assert connected.reader.acknowledgements


def test_messages_of_a_read_were_received_in_their_order(connected: Connected) -> None:
    """All messages of one read have its time, even if the clock has moved since."""
    connected.feed(publish("t/a"))
    connected.reader.feed(publish("t/new") + publish("t/a") + publish("t/newer"), 6.5)
    assert [each.received_s for each in connected.taken[1:]] == [6.5] * 3


def test_what_was_left_out_before_a_topic_is_told_by_its_next_message(connected: Connected) -> None:
    """After the other reader's shed messages, the first of each topic has their number."""
    connected.feed(publish("t/a"), publish("t/b"))
    connected.reception.note_shed("t/a")
    assert [
        each.shed for each in connected.feed(publish("t/b"), publish("t/a"), publish("t/a"))
    ] == [0, 1, 0]


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
    """In bytes of topics and payloads, except for the last message; no more are read."""
    small = [Envelope("t", b"")] * (BATCH_BYTES + 1)
    assert list(map(len, batches(small))) == [BATCH_BYTES, 1]
    large = iter([Envelope("t", bytes(BATCH_BYTES - 2))] * 5)
    assert list(map(len, batches(large))) == [2, 2, 1]
    more = iter([Envelope("t", bytes(BATCH_BYTES))] * 3)
    next(batches(more))
    assert len(list(more)) == 2


def test_only_what_nobody_acknowledges_and_keeps_is_batched() -> None:
    assert is_batched(Envelope("t", b"x", content_type=CONTENT_TYPE_CBOR))
    assert not is_batched(Envelope("t", b"x", 1))
    assert not is_batched(Envelope("t", b"x", retain=True))
    assert not is_batched(Envelope("t", b"x", properties=MessageProperties(expiry_s=5)))


@pytest.mark.parametrize(
    ("remaining", "header"),
    [(127, 2), (128, 3), (16_383, 3), (16_384, 4), (2_097_151, 4), (2_097_152, 5)],
)
def test_the_header_grows_with_the_length(remaining: int, header: int) -> None:
    """A packet's length takes one byte up to 127, then two to four.

    Topics count in bytes, not in characters.
    """
    payload = bytes(remaining - 2 - 2 - 2 - 1)
    envelope = Envelope("ü", payload, 1)
    assert publish_bytes(envelope, 1) == header + remaining
    limits = BrokerLimits(packet_bytes=header + remaining)
    assert not limits.reason_against(envelope, 1)
    assert (
        limits.reason_against(envelope, 2)
        == f"a packet of {publish_bytes(envelope, 2):,} bytes, over the broker's limit of"
        f" {header + remaining:,}"
    )


def test_a_broker_that_states_nothing_takes_all() -> None:
    """MQTT 3.1.1 states no limits, and MQTT 5 only existing ones."""
    assert BrokerLimits.from_connack(None) == BrokerLimits()
    assert not BrokerLimits().reason_against(Envelope("a", bytes(1_000), 1, retain=True), 0)
    assert "retained" in BrokerLimits(retains=False).reason_against(
        Envelope("a", b"", 1, retain=True), 1
    )


def test_a_message_without_acknowledgement_has_no_number() -> None:
    """QoS 0 saves two bytes.

    A broker without retained messages accepts unretained ones.
    """
    assert (
        publish_bytes(Envelope("a", bytes(10), 1), 0)
        == publish_bytes(Envelope("a", bytes(10), 0), 0) + 2
    )
    assert not BrokerLimits(retains=False).reason_against(Envelope("a", b"", 1), 1)
