"""Frames and samples as received, and their rows in the store."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from support.monitor.feed import Feed, live_feed, ready, standalone, ultraservers
from support.monitor.state import stored_difference

from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest.telemetry import reporting_rows
from trnfleet.wire.messages import Descriptor, decode_message, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOOTING = "uc1/us-0001/trn2u-0001-2"
ROWS = slice(32, 48)
"""Its chips."""


def test_values_arrive() -> None:
    """Published values are in the store, row by row."""
    feed = live_feed()
    store = feed.monitor.store
    for name, column in feed.columns.items():
        assert np.array_equal(store.columns[name], column), name
    assert store.count(Freshness.LIVE) == 192
    assert feed.monitor.counts.messages == 12
    assert feed.monitor.counts.chips == 192


def test_json_and_cbor_give_the_same_store() -> None:
    """Both encodings of the same ticks decode to equal stores."""
    json = ready(json=True)
    cbor = ready()
    for feed in (json, cbor):
        for seed in range(3):
            feed.scatter(seed)
            feed.tick()
    assert stored_difference(json.monitor.store, cbor.monitor.store) == []
    assert json.monitor.counts.messages == 3 * 204
    assert np.array_equal(json.monitor.store.chip_ts_ns, cbor.monitor.store.chip_ts_ns)


@pytest.mark.parametrize("json", [False, True])
def test_shuffled_and_doubled_messages_end_in_the_same_state(json: bool) -> None:
    """Shuffled and duplicate messages end in the same state and are counted."""
    feed = ready(json=json)
    straight = ready(json=json)
    messages: list[Envelope] = []
    for seed in range(8):
        feed.scatter(seed)
        messages += feed.telemetry()
        straight.scatter(seed)
        straight.tick()
    # The first tick first: what comes before the first message of a topic is no loss.
    first = messages[: len(messages) // 8]
    rest = messages[len(messages) // 8 :]
    rest += rest[::3]
    random.Random(5).shuffle(rest)  # noqa: S311  an order, nothing secret
    feed.receive(first + rest)
    assert stored_difference(feed.monitor.store, straight.monitor.store) == []
    counts = feed.monitor.counts
    assert counts.lost == 0
    assert counts.late > 0
    assert counts.duplicates == len(messages[len(messages) // 8 :][::3])


def test_a_frame_of_instances_that_do_not_follow_each_other() -> None:
    """A block with foreign instances in between is written to its own rows."""
    whole = ultraservers(3)
    parts = {"uc1/block-1": Feed([*whole[:4], *whole[8:]]), "uc1/block-2": Feed(whole[4:8])}
    feed = Feed(whole)
    for number, (path, part) in enumerate(parts.items()):
        part.scatter(number + 1)
        descriptor = decode_message(part.announcements()[1].payload, Descriptor)
        specs = tuple(
            msgspec.structs.replace(descriptor.instances[0], path=each)
            for each in part.layout.instances
        )
        payload = encode_message(msgspec.structs.replace(descriptor, path=path, instances=specs))
        feed.monitor.apply(
            [Envelope(build_topic("demo", TopicClass.NODE, path), payload, 1, retain=True)]
        )
    feed.monitor.compute()
    layout = feed.monitor.store.layout
    columns = feed.monitor.store.columns
    for path, part in parts.items():
        count = len(part.layout.instances)
        feed.monitor.apply(
            [part._frame(path, slice(0, count), Head(part.boot, 0, feed.clock.wall_ns()))]
        )
        rows = np.array([layout.instance_index[each] for each in part.layout.instances])
        chips = layout.chip_rows(rows)
        for metric in SIMULATED:
            where = chips if metric.scope is Scope.CHIP else rows
            assert np.array_equal(columns[metric.name][where], part.columns[metric.name])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.LIVE) == 192


@pytest.mark.parametrize("json", [False, True])
def test_how_messages_are_batched_makes_no_difference(json: bool) -> None:
    """A value followed by silence in the same batch is known."""
    feed = ready(json=json)
    straight = ready(json=json)
    messages: list[Envelope] = []
    for each in (feed, straight):
        each.scatter(3)
        loud = each.telemetry()
        for path in each.layout.instances:
            each.silence(path)
        messages = [*loud, *each.telemetry()]
        if each is feed:
            each.monitor.apply(messages)
            continue
        for message in messages:
            each.monitor.apply([message])
    assert stored_difference(feed.monitor.store, straight.monitor.store) == []
    assert feed.monitor.counts == straight.monitor.counts
    assert feed.monitor.counts.chips == 192
    assert np.isfinite(feed.monitor.store.chip_seen_s).all()


@pytest.mark.parametrize("last", ["json", "cbor"])
def test_of_both_encodings_in_one_batch_the_last_counts(last: str) -> None:
    """In a batch with frames and samples of a host, the last message wins.

    The host publishes chips beside frames, or changes the encoding of its topic.
    """
    json = Feed(ultraservers(1), json=True)
    cbor = Feed(ultraservers(1))
    json.set("power_w", 100.0)
    cbor.set("power_w", 200.0)
    json.set("host_power_w", 1_000.0)
    cbor.set("host_power_w", 2_000.0)
    cbor.describe()
    store = cbor.monitor.store
    expected = (json if last == "json" else cbor).columns
    for seq in range(3):
        json.seq = cbor.seq = 2 * seq
        chips = json.telemetry([BOOTING])[1:]
        frame = cbor.telemetry([BOOTING])
        cbor.monitor.apply([*frame, *chips] if last == "json" else [*chips, *frame])
        assert np.array_equal(store.columns["power_w"][ROWS], expected["power_w"][ROWS])
        json.seq = 2 * seq + (last == "json")
        cbor.seq = 2 * seq + (last == "cbor")
        if seq:
            own = json.telemetry([BOOTING])[:1]
            frame = cbor.telemetry([BOOTING])
            cbor.monitor.apply([*frame, *own] if last == "json" else [*own, *frame])
            assert store.columns["host_power_w"][2] == expected["host_power_w"][2]


def test_identity_must_be_the_topics() -> None:
    """A payload that claims to be something else is dropped and counted, in both encodings."""
    for json in (False, True):
        feed = live_feed(json=json)
        messages = feed.telemetry()
        before = feed.monitor.store.columns["power_w"].copy()
        forged = [
            messages[0]._replace(payload=messages[-1].payload),
            messages[-1]._replace(payload=messages[0].payload),
        ]
        feed.scatter(9)
        feed.monitor.apply(forged)
        assert feed.monitor.counts.misplaced + feed.monitor.counts.undecodable == 2
        assert np.array_equal(feed.monitor.store.columns["power_w"], before)


async def test_staleness() -> None:
    """A source that stops is stale after three periods, and live with its next message."""
    feed = live_feed()
    await feed.advance(2.9)
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    await feed.advance(0.2)
    assert feed.monitor.store.count(Freshness.STALE) == 192
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert feed.monitor.store.count(Freshness.LIVE) == 16


async def test_staleness_ignores_the_wall_clock() -> None:
    """A step of the wall clock by an hour makes nothing stale."""
    feed = live_feed()
    feed.clock.step_wall(3_600)
    await feed.advance(0.5)
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_another_revision_is_undescribed_and_not_lost() -> None:
    """Frames of an unknown revision are undescribed and not lost."""
    feed = live_feed()
    feed.revision = 1
    feed.tick()
    assert (feed.monitor.counts.undescribed, feed.monitor.counts.lost) == (12, 0)
    feed.describe()
    feed.tick()
    assert (feed.monitor.counts.undescribed, feed.monitor.counts.lost) == (12, 0)
    assert feed.monitor.counts.messages == 24


def test_a_frame_from_before_a_column_is_undescribed() -> None:
    """A reader that joins may have it before the new descriptor: nothing was wrong with it."""
    feed = live_feed()
    health = feed.columns.pop("health")
    former = feed.telemetry()
    feed.columns["health"] = health
    feed.revision = 1
    feed.describe()
    feed.receive(former)
    feed.tick()
    counts = feed.monitor.counts
    assert (counts.undecodable, counts.undescribed, counts.lost) == (0, 12, 0)
    assert counts.messages == 24


def test_huge_jumps_cost_nothing() -> None:
    """A number of 2^62 uses no memory and is no loss; later messages are applied."""
    feed = live_feed()
    feed.seq = 2**62
    feed.tick()
    feed.seq = 2
    feed.tick()
    assert feed.monitor.counts.lost == 0
    assert feed.monitor.counts.messages == 36


@pytest.mark.parametrize(
    "stamp", ["9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]
)
def test_impossible_times(stamp: str) -> None:
    """A time outside the store's range is undecodable and stops nothing."""
    feed = ready(json=True)
    (message,) = [each for each in feed.telemetry() if each.topic.endswith("trn2u-0001-0/chip00")]
    feed.monitor.apply(
        [
            message._replace(
                payload=message.payload.replace(b"2026-01-05T00:00:00.000Z", stamp.encode())
            )
        ]
    )
    assert feed.monitor.counts.undecodable == 1
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == 192


@pytest.mark.parametrize("json", [False, True])
def test_retained_telemetry_is_no_news(json: bool) -> None:
    """Retained telemetry is refused and counted: its age is unknown."""
    feed = ready(json=json)
    feed.receive([each._replace(retain=True) for each in feed.telemetry()])
    assert feed.monitor.store.count(Freshness.LIVE) == 0
    assert feed.monitor.counts.rejected == (204 if json else 12)


def fed(*, json: bool = False) -> Feed:
    return live_feed(ultraservers(2), grouped=not json, json=json)


async def quiet(feed: Feed, seconds: int) -> None:
    """Let the instance boot, and publish on for seconds."""
    feed.silence(BOOTING)
    for _ in range(seconds):
        await feed.clock.advance(1)
        feed.tick()


@pytest.mark.parametrize("json", [False, True])
async def test_an_instance_without_a_value_turns_stale(json: bool) -> None:
    """Rows without any value in a live frame become stale with their last values."""
    feed = fed(json=json)
    store = feed.monitor.store
    before = store.columns["power_w"][ROWS].copy()
    seen_s = store.chip_seen_s[ROWS].copy()
    ts_ns = store.chip_ts_ns[ROWS].copy()
    await quiet(feed, 2)
    assert store.count(Freshness.LIVE) == 128
    await quiet(feed, 2)
    assert (store.chip_state[ROWS] == Freshness.STALE).all()
    assert store.count(Freshness.LIVE) == 112
    assert np.array_equal(store.columns["power_w"][ROWS], before)
    assert np.array_equal(store.chip_seen_s[ROWS], seen_s)
    assert np.array_equal(store.chip_ts_ns[ROWS], ts_ns)
    assert not store.instance_fresh[2]
    assert [(finding.path, finding.what) for finding in feed.monitor.findings.shown] == [
        (BOOTING, "stale")
    ]
    feed.scatter()
    feed.tick()
    assert store.count(Freshness.LIVE) == 128


async def test_both_encodings_go_silent_alike() -> None:
    """Frames and JSON of the same ticks lead to the same store."""
    frames = fed()
    json = fed(json=True)
    for feed in (frames, json):
        await quiet(feed, 4)
    assert stored_difference(frames.monitor.store, json.monitor.store) == []
    assert np.array_equal(frames.monitor.store.chip_state, json.monitor.store.chip_state)


async def test_a_whole_frame_of_nothing() -> None:
    """A frame without a value is no loss, and nothing of it is live."""
    feed = fed()
    for path in feed.layout.instances:
        feed.silence(path)
    for _ in range(4):
        await feed.clock.advance(1)
        feed.tick()
    assert feed.monitor.store.count(Freshness.STALE) == 128
    assert (feed.monitor.counts.lost, feed.monitor.counts.undecodable) == (0, 0)


def test_one_value_is_enough() -> None:
    """A source with one metric is live, and the others are n/a."""
    feed = fed()
    feed.silence(BOOTING)
    feed.set("power_w", 123.0, ROWS)
    feed.tick()
    store = feed.monitor.store
    assert store.count(Freshness.LIVE) == 128
    assert (store.values(BY_NAME["power_w"], ROWS) == 123.0).all()
    assert np.isnan(store.values(BY_NAME["tflops"], ROWS)).all()


def test_rows_are_found_in_slices_and_lists() -> None:
    """Rows are found in the store, consecutive or not."""
    numbers = np.array([255, 1, 255], np.uint8)
    lanes = np.array([[65535] * 2, [65535] * 2, [65535, 7]], np.uint16)
    codes: dict[str, NDArray[Any]] = {"a": numbers, "b": lanes}
    reporting = reporting_rows(codes, slice(10, 13))
    assert np.asarray(reporting.rows).tolist() == [11, 12]
    assert reporting.of(numbers).tolist() == [1, 255]
    assert np.asarray(reporting_rows(codes, np.array([4, 9, 2])).rows).tolist() == [9, 2]
    assert reporting_rows({"a": np.zeros(3, np.uint8)}, slice(0, 3)).mask is None
    assert reporting_rows({}, slice(0, 3)).mask is None


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize("hosts", [1, 40])
def test_what_comes_as_backlog_is_not_lost(json: bool, hosts: int) -> None:
    """Ticks of a gap that the presence names are sent late; the others are lost."""
    feed = Feed(standalone(hosts), json=json)
    feed.scatter()
    feed.receive(feed.announcements())
    for _ in range(3):
        feed.receive(feed.telemetry())
    feed.seq = 243
    presence = msgspec.json.decode(feed.publisher_envelope("online").payload)
    payload = msgspec.json.encode(presence | {"backlog": [5, 242]})
    feed.receive([feed.publisher_envelope("online")._replace(payload=payload)])
    feed.receive(feed.telemetry())
    topics = hosts * 17 if json else hosts
    counts = feed.monitor.counts
    # Ticks 3 and 4 had no place in the queue.
    assert (counts.lost, counts.backlog) == (2 * topics, 238 * topics)
    assert counts.unaccounted_ticks == 0
    assert feed.monitor.ingest.publishers.traffic.column("lost").sum() == 2 * topics
    assert feed.monitor.summary().lost == 2 * topics
    # A later outage is another one.
    feed.receive([feed.publisher_envelope("online")])
    feed.seq += 3
    feed.receive(feed.telemetry())
    assert (counts.lost, counts.backlog) == (5 * topics, 238 * topics)
