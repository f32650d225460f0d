"""Descriptors from the wire, and the resulting layout and rows."""

from __future__ import annotations

import numpy as np
from support.monitor.feed import DEMO, Feed, ready, standalone, ultraservers

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.slices import DONE
from trnfleet.monitor.store.store import Freshness
from trnfleet.wire.messages import STANDARD_COLUMNS
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic


def test_hierarchy_stands_before_the_first_frame() -> None:
    """Descriptors alone draw the whole fleet, with values unknown and n/a."""
    feed = ready()
    store = feed.monitor.store
    assert store.layout.chips == 192
    assert store.count(Freshness.UNKNOWN) == 192
    assert np.isnan(store.values(BY_NAME["power_w"], slice(None))).all()


def test_a_grown_fleet_keeps_its_values() -> None:
    """In a grown fleet, old instances have their values and freshness at new rows."""
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
    """An empty retained descriptor removes its instances."""
    feed = ready()
    feed.tick()
    topic = build_topic("demo", TopicClass.NODE, "uc1/us-0001/trn2u-0001-0")
    feed.monitor.apply([Envelope(topic, b"", qos=1, retain=True)])
    feed.monitor.compute()
    assert feed.monitor.store.layout.chips == 176
    assert feed.monitor.store.count(Freshness.LIVE) == 176


def test_repeated_descriptors_change_nothing() -> None:
    """Descriptors repeated every minute cause no new layout."""
    feed = ready()
    generation = feed.monitor.store.generation
    feed.describe()
    assert feed.monitor.store.generation == generation


def test_a_former_publishers_descriptor_does_not_take_rows_offline() -> None:
    """Instances described twice belong to the live publisher, in either order."""
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
        feed.publisher = "alive"
        feed.boot = "boot-alive"
        feed.describe()
        feed.tick()
        assert feed.monitor.store.count(Freshness.LIVE) == 192, first


async def test_what_never_comes_is_not_healthy() -> None:
    """Silent described chips become stale after three periods.

    If their publisher is offline, they become offline.
    """
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


def test_a_column_that_is_gone_is_not_available() -> None:
    """A metric that a new descriptor does not announce any more shows no former value."""
    feed = ready(json=True)
    feed.tick()
    feed.revision = 1
    feed.columns_described = tuple(
        column for column in STANDARD_COLUMNS if column.name != "power_w"
    )
    feed.describe()
    assert np.isnan(feed.monitor.store.values(BY_NAME["power_w"], slice(None))).all()
    assert not np.isnan(feed.monitor.store.values(BY_NAME["tflops"], slice(None))).any()


def test_the_narrower_descriptor_knows_better() -> None:
    """A block's other instance type does not override the instance's own descriptor."""
    feed = ready()
    feed.tick()
    wide = feed.announcements(["uc1/us-0001/trn2u-0001-0"])[1]
    payload = wide.payload.replace(
        b'"path":"uc1/us-0001/trn2u-0001-0"', b'"path":"uc1/block-0001"', 1
    )
    payload = payload.replace(b"trn2u.48xlarge", b"trn1.2xlarge").replace(
        b'"period_s":1.0', b'"period_s":86400.0'
    )
    feed.monitor.apply(
        [
            Envelope(
                build_topic("demo", TopicClass.NODE, "uc1/block-0001"), payload, qos=1, retain=True
            )
        ]
    )
    feed.monitor.compute()
    feed.tick()
    assert feed.monitor.store.layout.chips == 192
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    assert set(feed.monitor.store.period_s) == {1.0}


def test_of_several_publishers_the_last_that_is_there_has_an_instance() -> None:
    """An instance belongs to its last online publisher, in any descriptor order.

    Offline publishers have it only if none is online.
    """
    for states, wanted in (
        (("online", "offline", "online", "offline"), 2),
        (("offline", "offline"), 0),
        (("offline", "online"), 1),
    ):
        feed = Feed(standalone(1))
        path = feed.layout.instances[0]
        cluster, _, _ = path.partition("/")
        for number, state in enumerate(states):
            feed.publisher, feed.boot = f"p{number}", f"b{number}"
            _, descriptor = feed.announcements()
            block = f"{cluster}/block-{number}"
            payload = descriptor.payload.replace(
                f'"path":"{path}"'.encode(), f'"path":"{block}"'.encode(), 1
            )
            feed.monitor.apply(
                [
                    feed.publisher_envelope(state),
                    Envelope(build_topic("demo", TopicClass.NODE, block), payload, 1, retain=True),
                ]
            )
        feed.monitor.compute()
        publisher = feed.monitor.ingest.publishers.names()[int(feed.monitor.store.publisher_of[0])]
        assert publisher == f"p{wanted}", states


def test_a_layout_in_slices_is_seen_as_a_whole() -> None:
    """Between slices the former layout is visible; a message completes the new one."""
    slices = 1
    while True:
        feed = Feed(ultraservers(2))
        later = Feed(standalone(3, cluster="uc0"))
        feed.scatter()
        feed.describe()
        feed.tick()
        ingest = feed.monitor.ingest
        store = feed.monitor.store
        before = store.columns["power_w"].tolist()
        ingest.apply(later.announcements(), 1.0, 0)
        work = ingest.rebuilding(1.0, 0)
        done = 0
        while done < slices and next(work, DONE) is not DONE:
            done += 1
            chips = store.layout.chips
            assert len(store.columns["power_w"]) == len(store.chip_state) == chips
            assert len(store.publisher_of) == len(store.layout.instances)
            assert store.columns["power_w"].tolist()[-128:] == before
            assert feed.monitor.ingest.publishers.online()[store.publisher_of].all()
        feed.scatter(2)
        ingest.apply(feed.telemetry(), 2.0, 0)
        assert not ingest.layout_work.is_going_on
        assert list(work) == []
        assert len(store.layout.instances) == 11
        assert store.columns["power_w"].tolist()[-128:] == feed.columns["power_w"].tolist()
        assert (ingest.counts.lost, ingest.counts.undescribed) == (0, 0)
        if done < slices:
            break
        slices += 3
    assert slices > 30


def test_telemetry_that_waits_for_a_layout_is_applied_before_what_comes_after_it() -> None:
    """A message during a rebuild completes it first, with pending telemetry in order."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    ingest = feed.monitor.ingest
    ingest.apply(feed.announcements(), 1.0, 0)
    ingest.apply(feed.telemetry(), 1.0, 0)
    assert ingest.pending == 8
    work = ingest.rebuilding(1.0, 0)
    next(work)
    feed.scatter(2)
    ingest.apply(feed.telemetry(), 2.0, 0)
    assert (ingest.counts.messages, ingest.counts.late, ingest.pending) == (16, 0, 0)
    assert feed.monitor.store.columns["power_w"].tolist() == feed.columns["power_w"].tolist()


def test_who_was_overtaken_ends_no_work_of_others() -> None:
    """An overtaken rebuild does not end a later one."""
    feed = Feed(ultraservers(2))
    later = Feed(standalone(3, cluster="uc0"))
    ingest = feed.monitor.ingest
    ingest.apply(feed.announcements(), 1.0, 0)
    overtaken = ingest.rebuilding(1.0, 0)
    next(overtaken)
    ingest.apply(later.announcements(), 2.0, 0)
    work = ingest.rebuilding(2.0, 0)
    next(work)
    assert list(overtaken) == []
    assert ingest.layout_work.is_going_on
    assert list(work)
    assert len(feed.monitor.store.layout.instances) == 11


def test_a_copy_amid_the_slices_is_of_the_new_layout() -> None:
    """A copy during a rebuild has the new layout and is independent."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.monitor.ingest.apply(feed.announcements(), 1.0, 0)
    work = feed.monitor.ingest.rebuilding(1.0, 0)
    next(work)
    twin = PackedSnapshot(feed.monitor).unpack().ingest
    twin.apply(feed.telemetry(), 2.0, 0)
    assert len(twin.store.layout.instances) == 8
    assert twin.counts.messages == 8
    assert feed.monitor.counts.messages == 0
