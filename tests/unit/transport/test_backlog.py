"""Waiting packets of a connection, whole or in pieces.

When behind, the newest of each topic.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from trnfleet.clock import ManualClock
from trnfleet.transport.backlog import CHUNK_BYTES, LARGEST_BYTES, MOST_BYTES, PACKET_BYTES, Backlog
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import Delivery, Reception
from trnfleet.wire.ports import Envelope, LinkStatus

PREFIX = "t/telemetry/"


def packet(topic: str, payload: bytes, *, kind: int = 0x30) -> bytes:
    """Return a PUBLISH."""
    body = struct.pack(">H", len(topic)) + topic.encode() + payload
    length = len(body)
    head = bytearray([kind])
    while True:
        byte = length & 0x7F
        length = length >> 7
        head.append(byte | (0x80 if length else 0))
        if not length:
            return bytes(head) + body


class Socket:
    """A socket with some bytes and then no more."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = memoryview(data)

    def __call__(self, size: int) -> bytes:
        if not self.data:
            raise BlockingIOError
        read = self.data[:size]
        self.data = self.data[size:]
        return bytes(read)


def everything(backlog: Backlog, now_s: float = 0.0) -> list[bytes]:
    """Return all that waits."""
    found = []
    while backlog:
        found.append(backlog.read(Socket(), now_s))
    return found


def made() -> tuple[Backlog, list[str]]:
    """Return a backlog and its shed topics."""
    shed: list[str] = []
    backlog, _, _ = connected(shed)
    return backlog, shed


def connected(
    shed: list[str] | None = None, *, has_properties: bool = False
) -> tuple[Backlog, Delivery, list[Envelope]]:
    """Return a backlog, its receiver, and the messages handed over."""
    delivered: list[Envelope] = []
    reception = Reception(delivered.extend, topic_pattern("t/#"), LinkStatus())
    delivery = Delivery(reception, ManualClock())
    backlog = Backlog(
        PREFIX.encode(),
        (list[str]() if shed is None else shed).append,
        delivery,
        content_type if has_properties else None,
    )
    return backlog, delivery, delivered


def content_type(properties: bytes) -> str | None:
    """Return the content type of properties with nothing else."""
    if properties == b"\0":
        return None
    if properties[1] != 3:
        raise ValueError(properties)
    return properties[4:].decode()


def test_bytes_come_out_as_they_came_in_however_they_are_cut() -> None:
    """A reader that keeps up gets every packet once and in order.

    Also one of a megabyte, and invalid ones.
    """
    random = Random(7)  # noqa: S311  cuts, not secrets
    packets = [
        packet(f"{PREFIX}{number % 3}", b"x" * random.choice((0, 1, 120, 130, 20_000)))
        for number in range(300)
    ]
    packets += [
        packet(f"{PREFIX}0", b"y" * 2**20),
        packet("t/node/a", b"z", kind=0x33),
        b"\xd0\x00",
    ]
    whole = b"".join(packets) + b"\x30\xff\xff\xff\xff\xff\xff"
    backlog, shed = made()
    out = b""
    at = 0
    while at < len(whole):
        size = random.choice((1, 2, 3, 500, 70_000))
        backlog.feed(whole[at : at + size], 0.0)
        at += size
        if random.random() < 0.3:
            out += b"".join(everything(backlog))
    assert out + b"".join(everything(backlog)) == whole
    assert not shed
    assert backlog.size_bytes == 0


def test_a_newer_message_takes_the_place_of_an_older_one_once_behind() -> None:
    """When behind, each topic's newest message remains, in its topic's turn.

    State, other topics and QoS 1 stay, and shed messages are reported.
    """
    backlog, shed = made()
    state = (
        packet("t/node/a", b"d"),
        packet(f"{PREFIX}a", b"q", kind=0x32),
        packet(f"{PREFIX}a", b"r", kind=0x31),
    )
    backlog.feed(packet(f"{PREFIX}a", b"1") + b"".join(state) + packet(f"{PREFIX}b", b"1"), 0.0)
    backlog.feed(packet(f"{PREFIX}a", b"2") + packet(f"{PREFIX}c", b"1"), 0.9)
    assert not shed
    backlog.feed(packet(f"{PREFIX}b", b"3") + b"".join(state) + packet(f"{PREFIX}a", b"3"), 1.0)
    assert shed == [f"{PREFIX}a", f"{PREFIX}b", f"{PREFIX}a"]
    assert everything(backlog) == [
        packet(f"{PREFIX}a", b"3"),
        *state,
        packet(f"{PREFIX}b", b"3"),
        packet(f"{PREFIX}c", b"1"),
        *state,
    ]


def test_pieces_of_a_large_packet_are_no_packets() -> None:
    """A message over `LARGEST_BYTES` that looks like telemetry inside stays unchanged.

    So does everything after it.
    """
    inner = packet(f"{PREFIX}a", b"1")
    large = packet(f"{PREFIX}a", inner * (LARGEST_BYTES // len(inner) + 1_000))
    backlog, shed = made()
    stream = large + inner
    begin = len(large) - 5_000 * len(inner)
    backlog.feed(stream[:begin], 0.0)
    backlog.feed(stream[begin:], 5.0)
    backlog.feed(inner, 10.0)
    assert b"".join(everything(backlog)) == large + inner
    assert shed == [f"{PREFIX}a"]


def test_what_is_read_ahead_is_bounded() -> None:
    """Endless topics are read up to `MOST_BYTES`; the system and the broker queue the rest."""
    backlog, _ = made()
    source = Socket(
        b"".join(
            packet(f"{PREFIX}{number}", b"x" * 60_000)
            for number in range(MOST_BYTES // 60_000 + 100)
        )
    )
    before = len(source.data)
    for turn in range(100):
        backlog.drain(source, float(turn))
    assert MOST_BYTES <= backlog.size_bytes <= MOST_BYTES + CHUNK_BYTES
    assert before - len(source.data) <= MOST_BYTES + 2 * CHUNK_BYTES


def test_the_smallest_packets_are_bounded_by_the_memory_that_they_take() -> None:
    """A packet of two bytes takes more than a hundred times as much."""
    backlog, _ = made()
    source = Socket(b"\xd0\x00" * (MOST_BYTES // PACKET_BYTES + CHUNK_BYTES))
    backlog.drain(source, 0.0)
    assert MOST_BYTES <= backlog.size_bytes <= MOST_BYTES + CHUNK_BYTES // 2 * (PACKET_BYTES + 2)
    assert source.data
    while backlog:
        backlog.read(source, 0.0)
    assert backlog.size_bytes == 0


def test_it_reads_until_a_packet_is_whole_and_says_so_at_the_end() -> None:
    """Without a whole packet nothing comes out; the end of the connection does."""
    backlog, _ = made()
    with pytest.raises(BlockingIOError):
        backlog.read(Socket(packet("a", b"1")[:-1]), 0.0)
    assert backlog.read(Socket(b"1"), 0.0) == packet("a", b"1")
    assert backlog.read(lambda _size: b"", 0.0) == b""


def test_messages_on_known_topics_are_handed_over_and_all_else_is_left_in_its_place() -> None:
    """QoS 0 on known topics is handed over in order.

    It stops at the first other packet.
    """
    backlog, delivery, delivered = connected()
    delivery.put(f"{PREFIX}a", b"0", 0, None, retain=False)
    for others in (
        packet(f"{PREFIX}b", b"new topic"),
        packet(f"{PREFIX}a", b"QoS 1", kind=0x32),
        packet(f"{PREFIX}a", b"retained", kind=0x31),
        b"\xd0\x00",
        packet("x/a", b"not subscribed to"),
    ):
        backlog.feed(packet(f"{PREFIX}a", b"1") + packet(f"{PREFIX}a", b"") + others, 0.0)
        backlog.feed(packet(f"{PREFIX}a", b"2"), 0.0)
        delivered.clear()
        assert backlog.hand_over(10) == 2
        assert [each.payload for each in delivered] == [b"1", b""]
        assert backlog.hand_over(10) == 0
        assert backlog.read(Socket(), 0.0) == others
        assert backlog.hand_over(0) == 0
        assert backlog.hand_over(10) == 1
        assert delivered[-1] == Envelope(f"{PREFIX}a", b"2", 0, retain=False)
    assert backlog.size_bytes == 0


def test_part_of_a_large_message_is_not_handed_over() -> None:
    """A message above the largest size is passed on as it arrives.

    Though its beginning looks like a complete one.
    """
    backlog, delivery, delivered = connected()
    delivery.put(f"{PREFIX}a", b"0", 0, None, retain=False)
    whole = packet(f"{PREFIX}a", b"x" * (LARGEST_BYTES + 9))
    for part in (whole[:LARGEST_BYTES], whole[LARGEST_BYTES:]):
        backlog.feed(part, 0.0)
        assert backlog.hand_over(10) == 0
    assert len(delivered) == 1


def test_messages_of_mqtt_5_are_handed_over_with_their_content_type() -> None:
    """Properties are cut off; invalid or too long ones are left to the client."""
    backlog, delivery, delivered = connected(has_properties=True)
    delivery.put(f"{PREFIX}a", b"0", 0, None, retain=False)
    delivered.clear()
    json = b"\x03\x00\x10application/json"
    backlog.feed(packet(f"{PREFIX}a", bytes([len(json)]) + json + b"{}"), 0.0)
    backlog.feed(packet(f"{PREFIX}a", b"\0payload"), 0.0)
    assert backlog.hand_over(10) == 2
    assert [(each.payload, each.content_type) for each in delivered] == [
        (b"{}", "application/json"),
        (b"payload", None),
    ]
    for wrong in (b"", b"\x05\x03\x00", b"\x01\x09x", b"\x80\x01" + bytes(200)):
        backlog.feed(packet(f"{PREFIX}a", wrong), 0.0)
        assert backlog.hand_over(10) == 0
        assert backlog.read(Socket(), 0.0) == packet(f"{PREFIX}a", wrong)
