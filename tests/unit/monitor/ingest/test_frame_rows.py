"""Frames applied in bulk, compared with the same frames applied singly."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import cbor2
import numpy as np
import pytest
from support.monitor.feed import Feed, described_feed, standalone, ultraservers
from support.monitor.state import stored_difference

from trnfleet.clock import NS_PER_S
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.monitor.ingest.sequence import LARGEST_GAP
from trnfleet.monitor.ingest.topic_state import TopicState
from trnfleet.monitor.ingest.topics import FrameTables
from trnfleet.monitor.pipeline.traffic import _COLUMNS, _RINGS
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.wire.frame_head import seq_at
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClockSpec,
    Descriptor,
    ForwardedBy,
    WatchMessage,
    message_envelope,
)
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.rollups import RollupDescriptor, RollupRow
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import TopicClass, build_topic

INSTANCES = [*ultraservers(8), *standalone(8)]
INSTANCE_NAMES = [metric.name for metric in SIMULATED if metric.scope is Scope.INSTANCE]


def rolled_block(relay: str, ultraserver: str) -> list[Envelope]:
    """Return a relay's presence, and its descriptor of one UltraServer."""
    descriptor = RollupDescriptor(
        path="uc1/cell-a/0000",
        publisher=relay,
        boot=f"boot-{relay}",
        period_s=1.0,
        cell="cell-a",
        rows=(RollupRow(path=ultraserver, type="trn2u.48xlarge", instances=4),),
        clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
        origin="neuron",
    )
    presence = WatchMessage(
        client=relay, state="online", boot=descriptor.boot, role="relay", cell=descriptor.cell
    )
    return [
        message_envelope(
            build_topic("demo", TopicClass.PUBLISHER, f"cell-a/{relay}"), presence, retain=True
        ),
        message_envelope(
            build_topic("demo", TopicClass.NODE, descriptor.path), descriptor, retain=True
        ),
    ]


def entered(feed: Feed) -> int:
    """Return how many topics have their sequence in a table."""
    return sum(topic.frame_rows is not None for topic in feed.monitor.ingest.topics.states.values())


def sequences(feed: Feed) -> dict[str, Any]:
    """Return how far each topic has come."""
    unpacked = PackedSnapshot(feed.monitor).unpack().ingest.topics.states
    return {
        name: (
            each.tracker.last,
            each.tracker.seen,
            each.tracker.first,
            each.tracker.ts_ns,
            each.tracker.behind,
        )
        for name, each in unpacked.items()
    }


def differences(one: Feed, other: Feed) -> list[str]:
    """Return the differences between the states of two monitors."""
    found = stored_difference(one.monitor.store, other.monitor.store)
    for name in ("chip_seen_s", "chip_ts_ns", "instance_seen_s", "publisher_of"):
        if not np.array_equal(getattr(one.monitor.store, name), getattr(other.monitor.store, name)):
            found.append(name)
    for field in dataclasses.fields(one.monitor.counts):
        mine, theirs = (getattr(feed.monitor.counts, field.name) for feed in (one, other))
        if mine != theirs:
            found.append(f"{field.name}: {mine} {theirs}")
    if sequences(one) != sequences(other):
        found.append("sequences")
    traffic = one.monitor.ingest.publishers.traffic, other.monitor.ingest.publishers.traffic
    for name in (*_COLUMNS, *_RINGS):
        mine, theirs = (each.column(name) for each in traffic)
        if not np.allclose(mine, theirs, equal_nan=True):
            found.append(name)
    clocks = [
        {
            key: (each.heard_s, each.is_wall, each.skew_s, each.late_s)
            for key, each in feed.monitor.ingest.timebase._clocks.items()
        }
        for feed in (one, other)
    ]
    if clocks[0] != clocks[1]:
        found.append("clocks")
    return found


def jumped(message: Envelope, chance: random.Random) -> Envelope:
    """Return a frame, sometimes with a number or time far from the former one's."""
    payload = message.payload
    if chance.random() > 0.06:
        return message
    places = {b"seq": seq_at(payload) or 0, b"ts": payload.index(b"bts\x1b") + 4}
    at, by = chance.choice(
        [
            (places[b"seq"], by)
            for by in (
                -LARGEST_GAP - 1,
                -LARGEST_GAP,
                -64,
                -1,
                1,
                63,
                64,
                LARGEST_GAP,
                LARGEST_GAP + 1,
            )
        ]
        + [(places[b"ts"], by * NS_PER_S) for by in (-61, -1, 1, 61)]
    )
    number = max(0, int.from_bytes(payload[at : at + 8], "big") + by)
    return message._replace(payload=payload[:at] + number.to_bytes(8, "big") + payload[at + 8 :])


def hostile(
    messages: list[Envelope], former: list[Envelope], chance: random.Random
) -> list[Envelope]:
    """Return a tick's messages with some lost, duplicate, late, damaged or retained.

    Some are also misplaced.
    """
    came: list[Envelope] = []
    for place, message in enumerate(messages):
        dice = chance.random()
        if dice < 0.05:
            continue
        if dice < 0.10:
            at = chance.randrange(len(message.payload))
            payload = bytearray(message.payload)
            payload[at] ^= 1 << chance.randrange(8)
            came.append(message._replace(payload=bytes(payload)))
        elif dice < 0.13:
            came.append(message._replace(payload=messages[place - 1].payload))
        elif dice < 0.16:
            came.append(message._replace(retain=True))
        elif dice < 0.19:
            came.append(message._replace(payload=message.payload[:-1]))
        elif dice < 0.22:
            came.append(message._replace(content_type=CONTENT_TYPE_JSON))
        elif dice < 0.32:
            came.append(message._replace(shed=chance.randrange(1, 70)))
        else:
            came.append(message)
        if dice > 0.9 and former:
            came.append(chance.choice(former))
        if dice > 0.95:
            came.append(message)
    if chance.random() < 0.3:
        chance.shuffle(came)
    return came


def begin(feed: Feed) -> None:
    """Describe the fleet and publish three frames."""
    feed.describe()
    for _ in range(3):
        feed.tick()


@pytest.mark.parametrize("seed", range(3))
async def test_many_at_once_end_as_one_by_one_whatever_comes(seed: int) -> None:
    """Bulk application ends in the same state for any damaged sequence of messages.

    Store, counts, sequences and clocks are compared after lost, late, duplicate, damaged, misplaced
    and silent messages, restarts and new descriptors.
    """
    chance = random.Random(seed)  # noqa: S311  messages, nothing secret
    together = Feed(INSTANCES)
    alone = Feed(INSTANCES)
    for feed in (together, alone):
        feed.describe()
    former: list[Envelope] = []
    most = 0
    chance_of_links: list[tuple[float, ...]] = [(), (together.clock.monotonic_s() + 9.0,)]
    for tick in range(30):
        together.scatter(1_000 * seed + tick)
        if tick % 9 == 5:
            together.silence(chance.choice(together.layout.instances))
        elif tick % 9 == 7:
            for name in INSTANCE_NAMES:
                together.columns[name][:3] = BY_NAME[name].top
        messages = together.telemetry()
        if tick % 11 == 7:
            messages += together.telemetry()
        came = hostile([jumped(each, chance) for each in messages], former, chance)
        if tick % 13 == 12:
            if chance.random() < 0.5:
                together.restart(f"boot-{tick}")
            again = chance.sample(together.announcements(), 20)
            at = chance.randrange(len(came))
            came = [*came[:at], *again, *came[at:]]
        now_s = together.clock.monotonic_s()
        wall_ns = together.clock.wall_ns()
        if tick % 5 == 4:
            for feed in (together, alone):
                feed.monitor.ingest.heard_since_s = now_s - 0.5
                feed.monitor.ingest.links_since_s = chance_of_links[tick % len(chance_of_links)]
        together.monitor.ingest.apply(came, now_s, wall_ns)
        for message in came:
            alone.monitor.ingest.apply([message], now_s, wall_ns)
        assert differences(together, alone) == []
        former = messages
        most = max(most, entered(together))
        seconds = chance.choice([0.0, 0.4, 1.0])
        for feed in (together, alone):
            await feed.clock.advance(seconds)
    assert entered(alone) == 0
    assert most > 20
    assert together.monitor.counts.unheard > 0
    assert together.monitor.counts.unaccounted(together.monitor.ingest.pending) == 0


def first_frames(messages: list[Envelope], chance: random.Random) -> list[Envelope]:
    """Return a tick's frames, many damaged, duplicate, misplaced or in another form."""
    came: list[Envelope] = []
    for place, message in enumerate(messages):
        payload = bytearray(message.payload)
        dice = chance.random()
        if dice < 0.3:
            payload[chance.randrange(150)] ^= 1 << chance.randrange(8)
        elif dice < 0.4:
            payload = bytearray(messages[place - 1].payload)
        elif dice < 0.5:
            later = cbor2.loads(message.payload)
            later["seq"] += chance.randrange(3)
            came.append(message._replace(payload=cbor2.dumps(later)))
        came.append(message._replace(payload=bytes(payload), shed=chance.choice([0, 0, 3])))
        if chance.random() < 0.2:
            came.append(message)
    return came


@pytest.mark.parametrize("seed", range(2))
async def test_first_frames_many_at_once_end_as_one_by_one(seed: int) -> None:
    """Damaged, duplicate or silent first frames of new boots end in the same state."""
    chance = random.Random(seed)  # noqa: S311  messages, nothing secret
    together = Feed(INSTANCES)
    alone = Feed(INSTANCES)
    most = 0
    for boot in range(7):
        together.restart(f"boot-{boot}")
        together.scatter(seed + boot)
        for name in chance.sample(together.layout.instances, 3):
            together.silence(name)
        # Now and then frames are of another revision than what describes them.
        together.revision = int(boot % 3 == 2)
        described = together.announcements()
        together.revision = 0
        ticks = [described, first_frames(together.telemetry(), chance), together.telemetry()]
        now_s = together.clock.monotonic_s()
        wall_ns = together.clock.wall_ns()
        for feed in (together, alone):
            feed.receive(ticks[0])
        for came in ticks[1:]:
            before = entered(together)
            together.monitor.ingest.apply(came, now_s, wall_ns)
            for message in came:
                alone.monitor.ingest.apply([message], now_s, wall_ns)
            assert differences(together, alone) == []
            most = max(most, entered(together) - before)
        for feed in (together, alone):
            await feed.clock.advance(1.0)
    assert most > 10


def test_a_topic_whose_first_frame_is_not_applied_is_as_it_was() -> None:
    """A silent first frame leaves no number until another frame starts the topic."""
    feed = described_feed(INSTANCES)
    feed.tick()
    feed.restart("boot-2")
    feed.receive(feed.announcements())
    name, topic = next(
        (name, each)
        for name, each in feed.monitor.ingest.topics.states.items()
        if each.tracker.last is None
    )
    feed.telemetry()
    [frame] = [each for each in feed.telemetry() if each.topic == name]
    feed.monitor.ingest.topics.begin_frame_rows([topic], [frame.payload])
    assert topic.frame_rows is not None
    topic.leave_frame_rows()
    assert (topic.tracker.last, topic.tracker.first) == (None, 0)


def test_what_comes_before_a_restart_teaches_nothing_about_the_time_after_it() -> None:
    """Frames with a wrong time are dated before the next boot's presence in one batch.

    The result equals two batches.
    """
    together = Feed(INSTANCES)
    alone = Feed(INSTANCES)
    for feed in (together, alone):
        feed.describe()
        feed.tick()
    came = together.telemetry(ts_ns=together.clock.wall_ns() + 3_600 * NS_PER_S)
    together.restart("boot-2")
    came.append(together.publisher_envelope("online"))
    together.monitor.apply(came)
    for message in came:
        alone.monitor.apply([message])
    assert differences(together, alone) == []
    assert together.monitor.ingest.timebase.worst_skew_s(together.clock.monotonic_s()) == 0.0


def test_a_topic_that_another_describes_too_goes_by_itself() -> None:
    """If two paths share instances, the last message wins in order of arrival."""
    whole = ultraservers(8)
    single = Feed(whole)
    grouped = Feed(whole, grouped=True)
    single.describe()
    single.receive(grouped.announcements())
    for _ in range(3):
        single.tick()
    assert entered(single) == 0


def test_topics_of_one_descriptor_go_by_themselves() -> None:
    """A host with chip topics beside its frames leaves the table for good.

    The last message sets the chip.
    """
    feed = Feed(INSTANCES)
    by_chip = Feed(INSTANCES, json=True)
    begin(feed)
    assert entered(feed) == len(INSTANCES)
    feed.set("power_w", 200.0)
    by_chip.set("power_w", 100.0)
    power = feed.monitor.store.columns["power_w"]
    for _ in range(3):
        feed.monitor.apply(by_chip.telemetry([feed.layout.instances[3]])[1:])
        assert power[3 * 16] == by_chip.columns["power_w"][0]
        feed.monitor.apply(feed.telemetry())
        assert power[3 * 16] == feed.columns["power_w"][0]
        assert entered(feed) == len(INSTANCES) - 1
    assert feed.monitor.counts.lost == 0


def test_instances_that_another_describes_later_leave_together() -> None:
    """Hosts under a later block leave the table, the others stay."""
    feed = Feed(INSTANCES)
    block = Feed(ultraservers(1), grouped=True)
    begin(feed)
    assert entered(feed) == len(INSTANCES)
    block.publisher = "other"
    block.boot = "boot-other"
    feed.receive(block.announcements())
    for seed in (1, 2):
        feed.scatter(seed)
        block.scatter(seed + 10)
        feed.monitor.apply([*block.telemetry(), *feed.telemetry()])
    assert entered(feed) == len(INSTANCES) - 4
    assert np.array_equal(feed.monitor.store.columns["power_w"], feed.columns["power_w"])
    assert feed.monitor.counts.lost == 0


def test_instances_whose_rows_are_a_relay_s_now_leave() -> None:
    """Frames of an UltraServer now shown by a relay are undescribed.

    None is written into other rows.
    """
    feed = Feed(INSTANCES)
    feed.forwarded = ForwardedBy(cell="cell-a", relay="relay", boot="boot-relay")
    begin(feed)
    gone = [path for path in feed.layout.instances if path.startswith("uc1/us-0001/")]
    feed.monitor.apply(rolled_block("relay", gone[0].rpartition("/")[0]))
    topics = [build_topic("demo", TopicClass.NODE, path) for path in gone[1:]]
    feed.receive([Envelope(topic, b"", qos=1, retain=True) for topic in topics])
    assert entered(feed) == len(INSTANCES) - 4
    tables = feed.monitor.ingest.topics._tables._by_form.values()
    assert sum(len(table) for _, table in tables) == len(INSTANCES) - 4
    before = feed.monitor.store.columns["power_w"].copy()
    feed.monitor.apply(feed.telemetry(gone))
    assert feed.monitor.counts.undescribed == 4
    assert np.array_equal(feed.monitor.store.columns["power_w"], before)


def test_with_a_new_layout_frames_go_to_their_new_rows() -> None:
    """New instances before entered ones move their rows."""
    feed = Feed(INSTANCES)
    begin(feed)
    assert entered(feed) == len(INSTANCES)
    before = Feed(standalone(1, cluster="uc0"))
    feed.receive(before.announcements())
    feed.scatter(5)
    feed.tick()
    store = feed.monitor.store
    assert entered(feed) == len(INSTANCES)
    for name, column in feed.columns.items():
        assert np.array_equal(store.columns[name][-len(column) :], column), name


def test_instances_that_come_to_lie_apart_leave() -> None:
    """A block with a foreign instance in between is written row by row."""
    every = [(f"uc1/standalone/trn2-{number:04d}", "trn2.48xlarge") for number in range(60)]
    alone = Feed([every[1]])
    feed = Feed([each for number, each in enumerate(every) if number != 1])
    blocks = [slice(first, first + 2) for first in range(0, 58, 2)]
    names = [f"uc1/block-{number:04d}" for number in range(len(blocks))]
    described = []
    for name, rows in zip(names, blocks, strict=True):
        instances = tuple(map(feed._spec, feed.layout.instances[rows]))
        descriptor = Descriptor(
            path=name,
            publisher="feed",
            boot=feed.boot,
            period_s=1.0,
            clock=ClockSpec(epoch=feed.epoch),
            origin="simulated",
            instances=instances,
            columns=STANDARD_COLUMNS,
        )
        described.append(
            message_envelope(build_topic("demo", TopicClass.NODE, name), descriptor, retain=True)
        )
    feed.receive([feed.publisher_envelope("online"), *described])
    for seq in range(4):
        feed.scatter(seq)
        head = Head(feed.boot, seq, feed.clock.wall_ns())
        feed.monitor.apply(
            [feed._frame(name, rows, head) for name, rows in zip(names, blocks, strict=True)]
        )
        if seq == 2:
            assert entered(feed) == len(blocks)
            feed.receive(alone.announcements())
    assert entered(feed) == len(blocks) - 1
    store = feed.monitor.store
    expected = feed.columns["power_w"]
    assert feed.monitor.counts.messages == 4 * len(blocks)
    assert np.array_equal(store.columns["power_w"][:16], expected[:16])
    assert (store.columns["power_w"][16:32] == BY_NAME["power_w"].top).all()
    assert np.array_equal(store.columns["power_w"][32 : 16 * 59], expected[16 : 16 * 58])


def test_what_is_lost_takes_no_topic_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost tick all frames stay in bulk, and losses count for their publisher."""
    feed = Feed(INSTANCES)
    feed.scatter()
    begin(feed)
    feed.telemetry()
    frames = feed.telemetry()
    monkeypatch.setattr(TopicState, "leave_frame_rows", lambda _topic: 1 / 0)
    feed.monitor.ingest.apply(frames, 9.0, 0)
    counts = feed.monitor.counts
    assert entered(feed) == len(INSTANCES)
    assert (counts.lost, counts.gaps, counts.messages) == (40, 40, 4 * 40)
    assert feed.monitor.ingest.publishers.traffic.column("lost").sum() == 40


def test_few_messages_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small fleet's messages go one by one."""
    monkeypatch.setattr(FrameTables, "enter", lambda *_: 1 / 0)
    feed = described_feed(ultraservers(3))
    feed.tick()
    assert feed.monitor.counts.messages == 12
