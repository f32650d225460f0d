from __future__ import annotations

import random

import numpy as np
import pytest
from support.feed import Feed, standalone, ultraservers

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.store import Freshness, stored_equal
from trnfleet.wire.limits import Limits
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

DEMO = ultraservers(2) + standalone(4)


def ready(*, json: bool = False) -> Feed:
    feed = Feed(DEMO, json=json)
    feed.scatter()
    feed.describe()
    return feed


def test_values_arrive() -> None:
    """What was published is in the store, row by row."""
    feed = ready()
    feed.tick()
    store = feed.monitor.store
    for name, column in feed.columns.items():
        assert np.array_equal(store.columns[name], column), name
    assert store.count(Freshness.LIVE) == 192
    assert feed.monitor.counts.messages == 12
    assert feed.monitor.counts.chips == 192


def test_json_and_cbor_give_the_same_store() -> None:
    """Both encodings of the same ticks decode to equal stores."""
    json, cbor = ready(json=True), ready()
    for feed in (json, cbor):
        for seed in range(3):
            feed.scatter(seed)
            feed.tick()
    assert stored_equal(json.monitor.store, cbor.monitor.store) == []
    assert json.monitor.counts.messages == 3 * 204
    assert np.array_equal(json.monitor.store.chip_ts_ns, cbor.monitor.store.chip_ts_ns)


def test_hierarchy_stands_before_the_first_frame() -> None:
    """Descriptors alone draw the whole fleet, with values unknown and n/a."""
    feed = ready()
    store = feed.monitor.store
    assert store.layout.chips == 192
    assert store.count(Freshness.UNKNOWN) == 192
    assert np.isnan(store.values(BY_NAME["power_w"], slice(None))).all()


def test_undescribed_is_not_lost() -> None:
    """Telemetry without a descriptor counts as undescribed, and is taken once its descriptor has come."""
    feed = Feed(DEMO)
    feed.scatter()
    feed.monitor.apply(feed.telemetry())
    assert feed.monitor.counts.undescribed == 12
    assert feed.monitor.counts.lost == 0
    feed.describe()
    feed.tick()
    assert feed.monitor.counts.messages == 12
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_telemetry_waits_for_the_layout_of_its_descriptor() -> None:
    """Telemetry that follows its descriptor before the layout is rebuilt is held, not lost."""
    feed = Feed(DEMO)
    feed.scatter()
    feed.monitor.apply([*feed.announcements(), *feed.telemetry()])
    feed.monitor.compute()
    assert feed.monitor.counts.undescribed == 0
    assert feed.monitor.store.count(Freshness.LIVE) == 192


@pytest.mark.parametrize("json", [False, True])
def test_shuffled_and_doubled_messages_end_in_the_same_state(json: bool) -> None:
    """Out of order and there twice, messages lead to the state that order gives, and are counted."""
    feed, straight = ready(json=json), ready(json=json)
    messages: list[Envelope] = []
    for seed in range(8):
        feed.scatter(seed)
        messages += feed.telemetry()
        straight.scatter(seed)
        straight.tick()
    # The first tick first: what comes before the first message of a topic is no loss.
    first, rest = messages[: len(messages) // 8], messages[len(messages) // 8 :]
    rest += rest[::3]
    random.Random(5).shuffle(rest)  # noqa: S311  an order, nothing secret
    feed.monitor.apply(first + rest)
    feed.monitor.compute()
    assert stored_equal(feed.monitor.store, straight.monitor.store) == []
    counts = feed.monitor.counts
    assert counts.lost == 0
    assert counts.late > 0
    assert counts.duplicates == len(messages[len(messages) // 8 :][::3])


def test_loss_is_counted_exactly() -> None:
    """Every tick of a topic that does not come is one lost."""
    feed = ready()
    feed.tick()
    feed.telemetry()
    feed.telemetry()
    feed.tick()
    assert feed.monitor.counts.lost == 24


def test_identity_must_be_the_topics() -> None:
    """A payload that claims to be something else is dropped and counted, in both encodings."""
    for json in (False, True):
        feed = ready(json=json)
        feed.tick()
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


def test_garbage_is_counted_and_nothing_stops() -> None:
    """Bytes and topics of any kind are counted; what follows is applied."""
    feed = ready()
    good = feed.telemetry()
    topic = good[0].topic
    bad = [
        Envelope(topic, payload)
        for payload in (b"", b"\x00", b"{", b"[" * 60_000, b"\xff" * 50, b"\xa1" * 70_000, b"x" * 300_000)
    ]
    bad += [
        Envelope(name, b"{}")
        for name in ("", "nope", "trnfleet/v1/demo/telemetry/\x1b[2J", "trnfleet/v1/demo/what/x")
    ]
    bad += [
        Envelope(build_topic("demo", kind, "x"), b"{}")
        for kind in TopicClass
        if kind is not TopicClass.TELEMETRY
    ]
    feed.monitor.apply(bad + good)
    assert feed.monitor.counts.undecodable == len(bad)
    assert feed.monitor.counts.messages == 12


def test_another_fleets_messages_are_not_ours() -> None:
    """A second fleet on the broker changes nothing."""
    feed, other = ready(), Feed(DEMO, fleet="other")
    other.scatter()
    feed.monitor.apply([*other.announcements(), *other.telemetry()])
    feed.monitor.compute()
    assert feed.monitor.counts.messages == 0
    assert feed.monitor.counts.undecodable == 0


async def test_staleness() -> None:
    """A source that stops is stale after three periods, and live with its next message."""
    feed = ready()
    feed.tick()
    await feed.advance(2.9)
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    await feed.advance(0.2)
    assert feed.monitor.store.count(Freshness.STALE) == 192
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert feed.monitor.store.count(Freshness.LIVE) == 16


async def test_staleness_ignores_the_wall_clock() -> None:
    """A step of the wall clock by an hour makes nothing stale."""
    feed = ready()
    feed.tick()
    feed.clock.step_wall(3_600)
    await feed.advance(0.5)
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_last_will() -> None:
    """A publisher's will takes all that it describes offline; its values stay; `online` brings it back."""
    feed = ready()
    feed.tick()
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.OFFLINE) == 192
    assert not np.isnan(feed.monitor.store.values(BY_NAME["power_w"], slice(None))).any()
    feed.monitor.apply([feed.publisher_envelope("online")])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_a_grown_fleet_keeps_its_values() -> None:
    """New instances get a new layout; the ones that stay keep values and freshness at their new rows."""
    feed = Feed(DEMO)
    feed.scatter()
    some = [path for path in feed.layout.instances if "us-0001" not in path]
    feed.describe(some)
    feed.tick(some)
    generation = feed.monitor.store.generation
    feed.describe()
    store = feed.monitor.store
    assert store.generation == generation + 1
    assert store.count(Freshness.LIVE) == 128
    rows = store.layout.find_instances("uc1/us-0002")
    assert rows is not None
    chips = slice(int(store.layout.chip_start[rows.start]), int(store.layout.chip_start[rows.stop]))
    assert np.array_equal(store.columns["power_w"][chips], feed.columns["power_w"][chips])
    feed.tick()
    assert store.count(Freshness.LIVE) == 192
    assert feed.monitor.counts.lost == 0


def test_a_removed_descriptor_removes_its_instances() -> None:
    """An empty retained descriptor takes its instances away."""
    feed = ready()
    feed.tick()
    topic = build_topic("demo", TopicClass.NODE, "uc1/us-0001/trn2u-0001-0")
    feed.monitor.apply([Envelope(topic, b"", qos=1, retain=True)])
    feed.monitor.compute()
    assert feed.monitor.store.layout.chips == 176
    assert feed.monitor.store.count(Freshness.LIVE) == 176


def test_repeated_descriptors_change_nothing() -> None:
    """The minute's repetition of descriptors gives no new layout."""
    feed = ready()
    generation = feed.monitor.store.generation
    feed.describe()
    assert feed.monitor.store.generation == generation


def test_jobs_are_placed() -> None:
    """A job's places become rows, whether the job or the hardware is known first."""
    feed = Feed(DEMO)
    feed.jobs = {"pre": ("uc1/us-0001..us-0002",), "tune": ("uc1/standalone/trn2-0003",), "lost": ("uc9",)}
    feed.monitor.apply(list(reversed(feed.announcements())))
    feed.monitor.compute()
    names = list(feed.monitor.ingest.jobs)
    placed = [names[number] if number >= 0 else "" for number in feed.monitor.store.job_of]
    assert placed == ["", "", "tune", "", *["pre"] * 8]


def test_limits_hold() -> None:
    """More instances, jobs, publishers or topics than allowed are refused and counted."""
    feed = Feed(DEMO)
    feed.jobs = {f"job-{number}": ("uc1",) for number in range(5)}
    feed.monitor.ingest._limits = Limits(fleet_instances=3, jobs=2, topics=4)
    feed.monitor.apply([*feed.announcements(), *feed.telemetry()])
    feed.monitor.compute()
    assert len(feed.monitor.store.layout.instances) == 3
    assert len(feed.monitor.ingest.jobs) == 2
    assert feed.monitor.counts.rejected == 9 + 3 + 8


def test_lag_is_wall_clock_less_source_time() -> None:
    """The lag is the age of the oldest message of a batch."""
    feed = ready()
    messages = feed.telemetry()
    feed.clock.step_wall(0.25)
    feed.monitor.apply(messages)
    assert feed.monitor.ingest.lag_s == pytest.approx(0.25)
