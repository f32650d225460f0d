from __future__ import annotations

import random

import numpy as np
import pytest
from support.feed import Feed, standalone, ultraservers

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.store import Freshness, stored_equal
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import STANDARD_COLUMNS
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


def restart(feed: Feed, boot: str) -> None:
    """Let the feed's publisher begin anew, without telling anybody."""
    feed.boot, feed.seq = boot, 0


@pytest.mark.parametrize("json", [False, True])
def test_a_restarted_publisher(json: bool) -> None:
    """A new start is taken with its descriptors, counts from 0 without loss, and the old start's messages are late."""
    feed = ready(json=json)
    for _ in range(5):
        feed.tick()
    old = feed.telemetry()
    restart(feed, "boot-2")
    feed.describe()
    feed.tick()
    feed.monitor.apply(old)
    feed.tick()
    counts = feed.monitor.counts
    assert counts.lost == 0
    assert counts.late == len(old)
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_a_stray_start_changes_nothing() -> None:
    """A message of a start that no descriptor names is undescribed, and the true publisher goes on."""
    feed = ready()
    feed.tick()
    seq = feed.seq
    restart(feed, "stray")
    feed.monitor.apply(feed.telemetry(["uc1/us-0001/trn2u-0001-0"]))
    feed.boot, feed.seq = "boot-1", seq
    feed.tick()
    counts = feed.monitor.counts
    assert (counts.undescribed, counts.lost, counts.late) == (1, 0, 0)
    assert counts.messages == 24


async def test_two_publishers_take_turns() -> None:
    """When the second publisher of the same fleet stops, the first has it again with its next announcement."""
    feed = ready()
    feed.tick()
    restart(feed, "boot-2")
    feed.publisher = "second"
    feed.describe()
    feed.tick()
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.boot, feed.seq, feed.publisher = "boot-1", 50, "feed"
    feed.describe()
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_the_will_of_a_former_start() -> None:
    """A last will that comes after the same client has begun anew takes nothing offline."""
    feed = ready()
    feed.tick()
    will = feed.publisher_envelope("offline")
    restart(feed, "boot-2")
    feed.describe()
    feed.tick()
    feed.monitor.apply([will])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    assert feed.monitor.summary().publishers_online == 1


def test_a_former_publishers_descriptor_does_not_take_rows_offline() -> None:
    """Where a dead and a living publisher describe the same instances, they are the living one's, in either order."""
    for first, second in (("dead", "alive"), ("alive", "dead")):
        feed = Feed(DEMO)
        feed.scatter()
        for name in (first, second):
            feed.publisher = name
            feed.boot = f"boot-{name}"
            messages = feed.announcements()
            if name == "dead":
                messages[0] = feed.publisher_envelope("offline")
                # The dead one spoke for whole UltraServers, so its descriptors were not replaced.
                messages = [each for each in messages if "us-000" not in each.topic]
            feed.monitor.apply(messages)
        feed.monitor.compute()
        feed.publisher, feed.boot = "alive", "boot-alive"
        feed.describe()
        feed.tick()
        assert feed.monitor.store.count(Freshness.LIVE) == 192, first


def test_a_descriptor_speaks_only_for_what_is_below_it() -> None:
    """A descriptor that lists another path's instances is refused."""
    feed = ready()
    feed.tick()
    forged = feed.announcements(["uc1/standalone/trn2-0001"])[1]
    payload = forged.payload.replace(
        b'{"path":"uc1/standalone/trn2-0001"', b'{"path":"uc1/us-0001/trn2u-0001-0"'
    )
    feed.monitor.apply([forged._replace(payload=payload)])
    assert feed.monitor.counts.undecodable == 1
    assert "not below its path" in feed.monitor.counts.last_problem


async def test_what_never_comes_is_not_healthy() -> None:
    """Described chips that are not heard of become stale after three periods, or offline by their publisher's word."""
    feed = ready()
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert feed.monitor.store.count(Freshness.UNKNOWN) == 176
    await feed.clock.advance(3.5)
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert feed.monitor.store.count(Freshness.UNKNOWN) == 0
    assert feed.monitor.store.count(Freshness.STALE) == 176
    silent = Feed(DEMO)
    messages = silent.announcements()
    messages[0] = silent.publisher_envelope("offline")
    silent.monitor.apply(messages)
    silent.monitor.compute()
    assert silent.monitor.store.count(Freshness.OFFLINE) == 192


def test_another_revision_is_undescribed_and_not_lost() -> None:
    """Frames of a revision whose descriptor has not come are undescribed; the count goes on without a gap."""
    feed = ready()
    feed.tick()
    feed.revision = 1
    feed.tick()
    assert (feed.monitor.counts.undescribed, feed.monitor.counts.lost) == (12, 0)
    feed.describe()
    feed.tick()
    assert (feed.monitor.counts.undescribed, feed.monitor.counts.lost) == (12, 0)
    assert feed.monitor.counts.messages == 24


def test_a_column_that_is_gone_is_not_available() -> None:
    """A metric that a new descriptor does not announce any more shows no former value."""
    feed = ready(json=True)
    feed.tick()
    feed.revision = 1
    feed.columns_described = tuple(column for column in STANDARD_COLUMNS if column.name != "power_w")
    feed.describe()
    assert np.isnan(feed.monitor.store.values(BY_NAME["power_w"], slice(None))).all()
    assert not np.isnan(feed.monitor.store.values(BY_NAME["tflops"], slice(None))).any()


def test_huge_jumps_cost_nothing() -> None:
    """A seq of 2^62 neither fills the memory nor counts as loss, and what follows is taken."""
    feed = ready()
    feed.tick()
    feed.seq = 2**62
    feed.tick()
    feed.seq = 2
    feed.tick()
    assert feed.monitor.counts.lost == 0
    assert feed.monitor.counts.messages == 36


@pytest.mark.parametrize("stamp", ["9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"])
def test_impossible_times(stamp: str) -> None:
    """A time that the store cannot hold is undecodable and stops nothing."""
    feed = ready(json=True)
    (message,) = [each for each in feed.telemetry() if each.topic.endswith("trn2u-0001-0/chip00")]
    feed.monitor.apply(
        [message._replace(payload=message.payload.replace(b"2026-01-05T00:00:00.000Z", stamp.encode()))]
    )
    assert feed.monitor.counts.undecodable == 1
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_lag_falls_again() -> None:
    """The lag is the last batch's, also when that is none."""
    feed = ready()
    messages = feed.telemetry()
    feed.clock.step_wall(5)
    feed.monitor.apply(messages)
    assert feed.monitor.ingest.lag_s == pytest.approx(5)
    late = feed.telemetry()
    feed.clock.step_wall(-1)
    feed.monitor.apply(late)
    assert feed.monitor.ingest.lag_s == 0


def test_what_is_not_used_is_forgotten() -> None:
    """Topics without a descriptor and publishers' former starts do not pile up."""
    feed = ready()
    for number in range(20):
        restart(feed, f"boot-{number}")
        feed.monitor.apply([feed.publisher_envelope("offline")])
        feed.describe()
        feed.tick()
    gone = [Envelope(build_topic("demo", TopicClass.NODE, path), b"") for path in feed.layout.instances]
    feed.monitor.apply(gone)
    feed.monitor.compute()
    assert feed.monitor.store.layout.chips == 0
    assert len(feed.monitor.ingest._topics) == 0
    assert len(feed.monitor.ingest.publishers) <= 1


def test_the_newest_job_has_the_instance() -> None:
    """Where a former run's job is still retained, the job that was told of last has the instances."""
    feed = Feed(DEMO)
    feed.jobs = {"old": ("uc1/us-0001",), "new": ("uc1/us-0001",)}
    messages = feed.announcements()
    old = next(each for each in messages if each.topic.endswith("/job/old"))
    messages.remove(old)
    messages.append(old._replace(payload=old.payload.replace(b"2026-01-05", b"2025-01-05")))
    feed.monitor.apply(messages)
    feed.monitor.compute()
    names = list(feed.monitor.ingest.jobs)
    assert names[int(feed.monitor.store.job_of[4])] == "new"


@pytest.mark.parametrize("json", [False, True])
def test_retained_telemetry_is_no_news(json: bool) -> None:
    """Telemetry that a broker kept is refused and counted: nobody knows for how long it lay there."""
    feed = ready(json=json)
    feed.monitor.apply([each._replace(retain=True) for each in feed.telemetry()])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.LIVE) == 0
    assert feed.monitor.counts.rejected == (204 if json else 12)


def test_state_is_bounded_in_bytes() -> None:
    """Padding of descriptors is not kept, and neither are more places than jobs may name together."""
    feed = ready()
    plain = feed.monitor.ingest.descriptors.size_bytes
    messages = [
        each._replace(payload=each.payload[:-1] + b',"padding":"' + b"x" * 100_000 + b'"}')
        if "/node/" in each.topic
        else each
        for each in feed.announcements()
    ]
    feed.monitor.apply(messages)
    feed.monitor.compute()
    assert feed.monitor.ingest.descriptors.size_bytes == plain < 12 * 1_000
    feed.monitor.ingest._limits = Limits(job_places=5)
    feed.jobs = {"a": ("uc1/us-0001",) * 3, "b": ("uc1/us-0001",) * 3}
    feed.describe()
    assert list(feed.monitor.ingest.jobs) == ["a"]


def test_the_narrower_descriptor_knows_better() -> None:
    """A block that claims an instance to be of another type does not change what the instance's own descriptor says."""
    feed = ready()
    feed.tick()
    wide = feed.announcements(["uc1/us-0001/trn2u-0001-0"])[1]
    payload = wide.payload.replace(b'"path":"uc1/us-0001/trn2u-0001-0"', b'"path":"uc1/block-0001"', 1)
    payload = payload.replace(b"trn2u.48xlarge", b"trn1.2xlarge").replace(
        b'"period_s":1.0', b'"period_s":86400.0'
    )
    feed.monitor.apply(
        [Envelope(build_topic("demo", TopicClass.NODE, "uc1/block-0001"), payload, qos=1, retain=True)]
    )
    feed.monitor.compute()
    feed.tick()
    assert feed.monitor.store.layout.chips == 192
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    assert set(feed.monitor.store.period_s) == {1.0}


async def test_jobs_are_placed_at_most_once_a_second() -> None:
    """A job that moves at every message does not take all the time."""
    feed = ready()
    await feed.clock.advance(1.1)
    for place in ("uc1/us-0001", "uc1/us-0002", "uc1/standalone"):
        feed.jobs = {"a": (place,)}
        feed.monitor.apply(feed.announcements([]))
    assert int((feed.monitor.store.job_of == 0).sum()) == 4
    assert feed.monitor.store.job_of[4] == 0
    await feed.clock.advance(1.1)
    feed.monitor.apply([])
    assert feed.monitor.store.job_of[0] == 0
