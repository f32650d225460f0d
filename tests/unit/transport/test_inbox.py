"""Waiting messages of a source, and waiting packets of a connection."""

from __future__ import annotations

import asyncio
import struct
from random import Random
from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.clock import ManualClock
from trnfleet.transport import inbox as inbox_module
from trnfleet.transport.filters import topic_matches, topic_pattern
from trnfleet.transport.inbox import (
    BEHIND_FOR_S,
    MOST_BYTES,
    PACKET_BYTES,
    READ_BYTES,
    SHED_FROM_S,
    TAKEN_AT_ONCE,
    Backlog,
    Delivery,
    Inbox,
    InboxLimits,
    Reception,
)
from trnfleet.wire.ports import Envelope, LinkStatus, MessageProperties


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/bc", False),
        ("a/b", "a/b/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("+/+", "a/b", True),
        ("+/b/+", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/b.c", "a/bxc", False),
        ("/+", "/a", True),
        ("+", "/a", False),
    ],
)
def test_filter_matches_as_the_standard_says(topic_filter: str, topic: str, matches: bool) -> None:
    """`+` matches one level, `#` the rest with its parent.

    Neither matches the broker's own topics.
    """
    assert topic_matches(topic_filter, topic) is matches


@pytest.mark.parametrize("topic_filter", ["", "a/#/b", "a+", "a/b#", "#/a"])
def test_bad_filter_is_refused(topic_filter: str) -> None:
    """A wildcard in a place where none may stand is refused."""
    with pytest.raises(ValueError, match="not a topic filter"):
        topic_matches(topic_filter, "a")


def test_several_filters_are_one_pattern() -> None:
    """Topics of any filter match, each with its own bounds; without filters none does."""
    pattern = topic_pattern("a/+", "+/b", "c/#")
    assert [
        topic
        for topic in ("a/x", "x/b", "c", "c/d/e", "a/x/b", "$SYS/b", "ca")
        if pattern.fullmatch(topic)
    ] == [
        "a/x",
        "x/b",
        "c",
        "c/d/e",
    ]
    assert not topic_pattern().fullmatch("")
    assert not topic_pattern().fullmatch("a")


def telemetry(number: int, size: int = 1) -> Envelope:
    return Envelope(f"telemetry/{number}", b"t" * size)


def transition(number: int, size: int = 1) -> Envelope:
    return Envelope(f"event/{number}", b"e" * size, qos=1)


def make(
    messages: int = 3, size_bytes: int = 1000, payload_bytes: int = 100
) -> tuple[Inbox, LinkStatus]:
    status = LinkStatus()
    return Inbox(InboxLimits(messages, size_bytes, payload_bytes), status), status


def fill(inbox: Inbox, *envelopes: Envelope) -> None:
    for envelope in envelopes:
        inbox.put(envelope)


async def test_batch_keeps_the_order() -> None:
    """Waiting messages are read at once and in order."""
    inbox, status = make()
    fill(inbox, telemetry(0), transition(1), telemetry(2))
    assert await inbox.take() == [telemetry(0), transition(1), telemetry(2)]
    assert (status.received, status.dropped, status.queue_peak, len(inbox), inbox.size_bytes) == (
        3,
        0,
        3,
        0,
        0,
    )


STATE = Envelope("node/a", b"d", retain=True)


@pytest.mark.parametrize(
    ("messages", "put", "taken"),
    [
        pytest.param(
            3,
            [transition(0), telemetry(1), telemetry(2), transition(3), telemetry(4)],
            [transition(0), transition(3), telemetry(4)],
            id="the oldest telemetry, however old the transitions are",
        ),
        pytest.param(
            2,
            [transition(0), transition(1), telemetry(2)],
            [transition(0), transition(1)],
            id="the newest telemetry before any transition",
        ),
        pytest.param(1, [STATE, telemetry(1)], [STATE], id="retained state stays at QoS 0"),
        pytest.param(
            2,
            [transition(number) for number in range(5)],
            [transition(3), transition(4)],
            id="the oldest of transitions alone",
        ),
    ],
)
async def test_what_a_full_inbox_drops(
    messages: int, put: list[Envelope], taken: list[Envelope]
) -> None:
    """A full inbox drops messages and counts them."""
    inbox, status = make(messages)
    fill(inbox, *put)
    assert await inbox.take() == taken
    dropped = len(put) - len(taken)
    assert (status.received, status.dropped, status.queue_peak) == (len(put), dropped, messages)


async def test_bytes_are_bounded() -> None:
    """Large payloads fill the inbox before their number does."""
    inbox, status = make(messages=100, size_bytes=250, payload_bytes=100)
    fill(inbox, *(telemetry(number, 100) for number in range(4)))
    assert inbox.size_bytes == 200
    assert [each.topic for each in await inbox.take()] == ["telemetry/2", "telemetry/3"]
    assert status.dropped == 2


async def test_properties_count_as_bytes() -> None:
    """Many small user properties use more memory than their characters, and are bounded."""
    properties = MessageProperties(user=(("a", "b"),) * 5)
    large = [telemetry(number)._replace(properties=properties) for number in range(3)]
    inbox, status = make(messages=100, size_bytes=2_000)
    fill(inbox, *large)
    assert (len(inbox), status.dropped) == (2, 1)
    assert status.waiting_bytes == inbox.size_bytes == 2 * (1 + properties.memory_bytes)
    assert await inbox.take() == large[1:]
    assert inbox.size_bytes == 0


async def test_oversize_is_not_let_in() -> None:
    """A payload above the limit is counted as oversize and pushes nothing out.

    One at the limit is accepted.
    """
    inbox, status = make(payload_bytes=100)
    fill(inbox, telemetry(0, 101), transition(1, 101), telemetry(2, 100))
    assert await inbox.take() == [telemetry(2, 100)]
    assert (status.received, status.oversize, status.dropped) == (3, 2, 0)


async def test_take_waits_for_something() -> None:
    """Taking from an empty inbox waits, and wakes at the next message, every time."""
    inbox, _ = make()
    for number in range(3):
        taking = asyncio.create_task(inbox.take())
        done, _ = await asyncio.wait({taking}, timeout=0)
        assert not done
        inbox.put(telemetry(number))
        assert await taking == [telemetry(number)]


def test_limits_must_be_positive() -> None:
    """An inbox that could hold nothing is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        InboxLimits(messages=0)


@given(
    kinds=st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=60),
    messages=st.integers(1, 8),
    size_bytes=st.integers(1, 120),
)
def test_nothing_vanishes_uncounted(
    kinds: list[tuple[bool, int]], messages: int, size_bytes: int
) -> None:
    """Limits hold, order stays, all is counted, and telemetry is dropped first."""
    sent = [
        transition(n, size) if event else telemetry(n, size)
        for n, (event, size) in enumerate(kinds)
    ]

    async def play() -> None:
        inbox, status = make(messages, size_bytes, payload_bytes=30)
        dropped_transition = False
        for envelope in sent:
            inbox.put(envelope)
            assert len(inbox) <= messages
            assert inbox.size_bytes <= size_bytes
        kept = await inbox.take() if len(inbox) else []
        assert status.received == len(sent) == len(kept) + status.dropped + status.oversize
        fitting = [each for each in sent if len(each.payload) <= 30]
        assert kept == [each for each in fitting if each in kept]
        lost = [each for each in fitting if each not in kept]
        dropped_transition = any(each.qos for each in lost)
        if not dropped_transition and len(fitting) <= messages:
            total = sum(len(each.payload) for each in fitting)
            assert total > size_bytes or not lost

    asyncio.run(play())


def frame(topic: str, number: int, at_s: float, size: int = 1) -> Envelope:
    return Envelope(f"telemetry/{topic}", b"%d" % number + b"." * size, received_s=at_s)


def behind(**limits: int) -> tuple[Inbox, LinkStatus]:
    status = LinkStatus()
    return Inbox(InboxLimits(**limits, newest_of="telemetry/"), status), status


async def test_a_reader_that_keeps_up_gets_every_message() -> None:
    """Nothing is shed until the oldest message is a second old."""
    inbox, status = behind()
    sent = [frame("a", number, 10.0 + number / 10) for number in range(10)]
    fill(inbox, *sent)
    assert await inbox.take() == sent
    assert status.shed == 0


async def test_of_each_topic_the_newest_counts_for_a_reader_that_is_behind() -> None:
    """Events and state come whole and first, topics in their turn.

    A message has the number it stands for.
    """
    inbox, status = behind()
    event = Envelope("event/x", b"e", qos=1, received_s=10.4)
    fill(
        inbox,
        frame("a", 0, 10.0),
        frame("b", 0, 10.1),
        frame("a", 1, 10.3),
        event,
        frame("c", 0, 11.5),
    )
    fill(inbox, frame("b", 1, 11.1), frame("a", 2, 11.2))
    assert await inbox.take() == [
        event,
        frame("a", 2, 11.2)._replace(shed=2),
        frame("b", 1, 11.1)._replace(shed=1),
        frame("c", 0, 11.5),
    ]
    assert (status.received, status.shed, status.dropped, len(inbox), inbox.size_bytes) == (
        7,
        3,
        0,
        0,
        0,
    )
    fill(inbox, frame("a", 3, 12.0))
    assert await inbox.take() == [frame("a", 3, 12.0)]


async def test_every_topic_has_its_turn() -> None:
    """Waiting topics beyond one read are still replaced, and none is skipped."""
    inbox, _ = behind(messages=100_000)
    topics = [str(number) for number in range(3 * TAKEN_AT_ONCE)]
    fill(inbox, *(frame(topic, 0, 10.0) for topic in topics), frame("0", 1, 11.5))
    seen: list[Envelope] = []
    for second in range(3):
        seen += await inbox.take()
        fill(inbox, *(frame(topic, second + 2, 12.0 + second) for topic in topics))
    assert [each.topic for each in seen] == [f"telemetry/{topic}" for topic in topics]
    assert [each.payload for each in seen[TAKEN_AT_ONCE::TAKEN_AT_ONCE]] == [b"2.", b"3."]


async def test_a_part_is_taken_at_once_of_what_is_replaced() -> None:
    """4,096 messages are read at once, after all state.

    So 62,500 hosts have had their turn after 16 reads, and applied values are new.
    """
    inbox, _ = behind(messages=100_000, size_bytes=10_000_000)
    fill(inbox, frame("0", 0, 10.0), frame("0", 1, 11.5))
    inbox.put_all([frame(str(number), 0, 11.5) for number in range(1, 62_500)])
    inbox.put_all([transition(number, 10)._replace(received_s=11.5) for number in range(5_000)])
    sizes = [len(await inbox.take()) for _ in range(16)]
    assert sizes == [5_000 + 4_096, *[4_096] * 14, 62_500 - 15 * 4_096]
    assert len(inbox) == 0


async def test_what_has_no_room_is_owed_to_its_topic() -> None:
    """Telemetry dropped for lack of room is shed, too; its topic's next message counts it."""
    inbox, status = behind(messages=2)
    fill(inbox, frame("a", 0, 1.0), frame("b", 0, 1.0), frame("c", 0, 1.0), frame("a", 1, 1.0))
    assert await inbox.take() == [frame("c", 0, 1.0), frame("a", 1, 1.0)._replace(shed=1)]
    assert (status.shed, status.dropped) == (2, 0)


async def test_a_reader_that_is_behind_has_its_limit_whatever_comes_at_once() -> None:
    """Also where a topic comes twice in one batch."""
    inbox, status = behind(messages=8)
    fill(inbox, frame("a", 0, 10.0), frame("a", 1, 11.5))
    for number in range(40):
        inbox.put_all([frame(str(number), 0, 11.5), frame(str(number), 1, 11.5)])
        assert len(inbox) == status.waiting <= 8
    assert (status.shed, status.dropped) == (82 - 8, 0)


@given(
    sent=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=80),
    messages=st.integers(1, 6),
    at_once=st.integers(1, 4),
)
def test_what_is_shed_adds_up(
    sent: list[tuple[int, int, bool]], messages: int, at_once: int
) -> None:
    """Per topic, messages and their shed counts equal all messages sent so far."""

    async def play() -> None:
        inbox, status = behind(messages=messages)
        now_s = 10.0
        numbers = dict.fromkeys(range(4), 0)
        taken = list[Envelope]()
        batch = list[Envelope]()
        for topic, tenths, takes in sent:
            now_s += tenths / 10
            numbers[topic] += 1
            batch.append(frame(str(topic), numbers[topic], now_s))
            if len(batch) < at_once and not takes:
                continue
            inbox.put_all(batch)
            batch.clear()
            assert len(inbox) <= messages
            if takes and len(inbox):
                taken += await inbox.take()
        inbox.put_all(batch)
        while len(inbox):
            taken += await inbox.take()
        assert status.received == len(sent) == len(taken) + status.shed
        for topic in numbers:
            mine = [each for each in taken if each.topic == f"telemetry/{topic}"]
            told = 0
            for each in mine:
                told += each.shed + 1
                assert int(each.payload.rstrip(b".")) == told

    asyncio.run(play())


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 130), st.integers(0, 2)),
            max_size=6,
        ),
        max_size=12,
    ),
    st.booleans(),
    st.sampled_from([(8, 400), (8, 2_000), (100, 100_000)]),
)
def test_a_batch_is_what_its_messages_are_one_by_one(
    batches: list[list[tuple[int, bool, int, int]]], newest: bool, most: tuple[int, int]
) -> None:
    """The result does not depend on how many messages arrive at once.

    Nor on their properties. A reader that is behind and has no room may keep other messages of the
    same arrival, but as many of them.
    """
    limits = InboxLimits(*most, 100, "telemetry/" if newest else "")
    statuses = LinkStatus(), LinkStatus()
    at_once, one_by_one = (Inbox(limits, status) for status in statuses)
    for number, batch in enumerate(batches):
        envelopes = [
            (telemetry if is_telemetry else transition)(topic, size)._replace(
                received_s=0.3 * number,
                properties=MessageProperties(user=(("a", "b"),) * pairs) if pairs else None,
            )
            for topic, is_telemetry, size, pairs in batch
        ]
        at_once.put_all(envelopes)
        fill(one_by_one, *envelopes)
        for inbox, status in zip((at_once, one_by_one), statuses, strict=True):
            assert status.received == len(inbox) + status.shed + status.dropped + status.oversize
            assert len(inbox) == status.waiting <= limits.messages
            assert inbox.size_bytes == status.waiting_bytes <= limits.size_bytes
    if newest and most[0] == 8:
        return
    assert statuses[0] == statuses[1]
    assert at_once.is_full == one_by_one.is_full
    if len(at_once):
        taken = asyncio.run(at_once.take()), asyncio.run(one_by_one.take())
        assert taken[0] == taken[1]


async def test_an_inbox_is_full_before_anything_is_pushed_out() -> None:
    """It is full by messages and by bytes, with room for messages already read.

    Not while newer messages replace older ones.
    """
    inbox, _ = make(messages=8)
    found: list[bool] = []
    for number in range(7):
        found.append(inbox.is_full)
        fill(inbox, transition(number))
    found.append(inbox.is_full)
    await inbox.take()
    assert [*found, inbox.is_full] == [*[False] * 7, True, False]
    inbox, _ = make(messages=100, size_bytes=800)
    fill(inbox, *(transition(number, 100) for number in range(7)))
    assert inbox.is_full
    shedding = Inbox(InboxLimits(2, newest_of="telemetry/"), LinkStatus())
    fill(shedding, telemetry(0), telemetry(1)._replace(received_s=2.0))
    assert not shedding.is_full


async def test_a_reader_that_was_behind_leaves_nothing_with_the_broker_for_a_while() -> None:
    """From half of a limit on only the newest count, and all is read.

    This lasts until it has kept up for some seconds.
    """
    inbox, status = behind(messages=8)
    fill(inbox, frame("a", 0, 10.0), frame("a", 1, 11.5))
    await inbox.take()
    # Two topics many times over, in far less than the time from which a reader is behind.
    fill(
        inbox,
        *(frame("ab"[number % 2], 2 + number // 2, 12.0 + number / 100) for number in range(14)),
    )
    assert (status.shed, status.dropped, len(inbox), inbox.is_full, inbox.is_behind) == (
        13,
        0,
        2,
        False,
        True,
    )
    await inbox.take()
    later_s = 12.13 + BEHIND_FOR_S
    fill(inbox, *(frame(str(number), 9, later_s + number / 100) for number in range(7)))
    assert (status.shed, inbox.is_full, inbox.is_behind) == (13, True, False)


async def test_telemetry_that_is_replaced_does_not_count_as_kept() -> None:
    """Only events and state count, behind or not; without replacement everything does."""
    inbox, _ = behind()
    fill(inbox, *(frame(str(number), 0, 10.0) for number in range(20)))
    assert (inbox.keeps(0), inbox.keeps(1)) == (True, False)
    fill(inbox, *(transition(number, 10)._replace(received_s=10.5) for number in range(3)))
    assert (inbox.is_behind, inbox.keeps(3), inbox.keeps(4)) == (False, True, False)
    fill(inbox, frame("a", 1, 11.6), transition(4, 10)._replace(received_s=11.7))
    assert (inbox.is_behind, inbox.keeps(4), inbox.keeps(5), len(inbox)) == (True, True, False, 25)
    whole, _ = make(messages=8)
    fill(whole, telemetry(0), telemetry(1))
    assert (whole.keeps(2), whole.keeps(3)) == (True, False)


async def test_who_must_get_every_message_is_never_behind() -> None:
    """Without replaceable topics messages beyond the limits are dropped.

    A full inbox reports that it is full.
    """
    inbox, status = make(messages=8)
    fill(inbox, *(telemetry(number)._replace(received_s=5.0 * number) for number in range(10)))
    assert (status.shed, status.dropped, inbox.is_full, inbox.is_behind) == (0, 2, True, False)


@pytest.mark.parametrize(("messages", "size_bytes"), [(8, 1_000_000), (1_000, 80)])
async def test_events_and_state_wait_to_be_read_also_for_a_reader_that_is_behind(
    messages: int, size_bytes: int
) -> None:
    """An inbox full of events and state reports it before dropping any."""
    inbox, status = behind(messages=messages, size_bytes=size_bytes)
    fill(inbox, frame("a", 0, 10.0), frame("a", 1, 11.5))
    found: list[bool] = []
    for number in range(7):
        found.append(inbox.is_full)
        fill(inbox, transition(number, 10)._replace(received_s=11.6))
    assert [*found, inbox.is_full] == [*[False] * 7, True]
    assert status.dropped == 0
    await inbox.take()
    assert not inbox.is_full


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
    backlog.feed(
        packet(f"{PREFIX}b", b"3") + b"".join(state) + packet(f"{PREFIX}a", b"3"), SHED_FROM_S
    )
    assert shed == [f"{PREFIX}a", f"{PREFIX}b", f"{PREFIX}a"]
    assert everything(backlog) == [
        packet(f"{PREFIX}a", b"3"),
        *state,
        packet(f"{PREFIX}b", b"3"),
        packet(f"{PREFIX}c", b"1"),
        *state,
    ]


def test_pieces_of_a_large_packet_are_no_packets() -> None:
    """A message over `READ_BYTES` that looks like telemetry inside stays unchanged.

    So does everything after it.
    """
    inner = packet(f"{PREFIX}a", b"1")
    large = packet(f"{PREFIX}a", inner * (READ_BYTES // len(inner) + 1_000))
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
    assert MOST_BYTES <= backlog.size_bytes <= MOST_BYTES + READ_BYTES
    assert before - len(source.data) <= MOST_BYTES + 2 * READ_BYTES


def test_the_smallest_packets_are_bounded_by_the_memory_that_they_take() -> None:
    """A packet of two bytes takes more than a hundred times as much."""
    backlog, _ = made()
    source = Socket(b"\xd0\x00" * (MOST_BYTES // PACKET_BYTES + READ_BYTES))
    backlog.drain(source, 0.0)
    assert MOST_BYTES <= backlog.size_bytes <= MOST_BYTES + READ_BYTES // 2 * (PACKET_BYTES + 2)
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
    whole = packet(f"{PREFIX}a", b"x" * (READ_BYTES + 9))
    for part in (whole[:READ_BYTES], whole[READ_BYTES:]):
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


def deliveries(*filters: str, delivers: bool = True) -> tuple[Delivery, list[Envelope], LinkStatus]:
    """Return a delivery with subscriptions, its messages and its counters."""
    status = LinkStatus()
    delivered = list[Envelope]()
    reception = Reception(delivered.extend if delivers else None, topic_pattern(*filters), status)
    return Delivery(reception, ManualClock(monotonic_s=3.0)), delivered, status


def test_subscribed_topics_are_delivered_and_others_counted() -> None:
    """Subscribed messages are handed over; others are counted, however often they come."""
    delivery, delivered, status = deliveries("f/command/#", "f/reply/a/+")
    for topic in ("f/node/a", "f/command/b", "f/node/a", "f/reply/a/1", "f/reply/b/1", "f/command"):
        delivery.put(topic, b"x", 1, None, retain=True)
    assert [each.topic for each in delivered] == ["f/command/b", "f/reply/a/1", "f/command"]
    assert delivered[0] == Envelope("f/command/b", b"x", 1, retain=True, received_s=3.0)
    assert status.unsolicited == 3


def test_a_client_without_subscriptions_ignores_everything() -> None:
    """Messages to a client that only publishes are counted."""
    delivery, _, status = deliveries(delivers=False)
    for topic in ("f/node/a", "f/node/b", "f/node/a"):
        delivery.put(topic, b"x", 1, None, retain=False)
    assert status.unsolicited == 3


def test_topics_are_told_apart_after_the_cache_was_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribed topics stay subscribed with more topics than the cache can store."""
    monkeypatch.setattr(inbox_module, "MAX_CACHED_BYTES", 2 * getsizeof("a/1"))
    delivery, delivered, status = deliveries("a/+")
    for _ in range(2):
        for topic in ("a/1", "b/1", "a/2", "b/2", "a/3"):
            delivery.put(topic, b"x", 0, None, retain=False)
    assert [each.topic for each in delivered] == ["a/1", "a/2", "a/3"] * 2
    assert status.unsolicited == 4


async def test_topics_that_come_no_more_are_forgotten() -> None:
    """A new topic empties an old cache; known topics cost nothing."""
    clock = ManualClock()
    delivery = Delivery(Reception(None, topic_pattern("a/+"), LinkStatus()), clock)
    for second in range(int(3 * inbox_module.CACHED_FOR_S)):
        delivery.envelope(f"a/{second}", b"x", 0, None, retain=False)
        await clock.advance(1.0)
        assert len(delivery.by_bytes) <= inbox_module.CACHED_FOR_S
    assert len(delivery._topics) <= inbox_module.CACHED_FOR_S


def test_cached_topics_count_with_the_memory_of_their_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Millions of topics of a few characters do not fit: each takes ten times its characters."""
    monkeypatch.setattr(inbox_module, "MAX_CACHED_BYTES", 10_000)
    delivery, _, _ = deliveries("#")
    for number in range(1_000):
        delivery.put(f"{number}", b"x", 0, None, retain=False)
        assert len(delivery.by_bytes) < 200
