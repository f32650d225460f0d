from __future__ import annotations

import operator

import numpy as np
from support.monitor.feed import Feed, SilentSource, one_instance, standalone, ultraservers
from support.monitor.rules import HOT, rules_of

from trnfleet.domain.address import Level
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.packed_snapshot import COMPRESSED_BYTES, PackedSnapshot
from trnfleet.services.files.rules import load_rules


async def busy() -> Feed:
    """Return a feed whose monitor knows data of every kind, and has rules that fire."""
    feed = Feed([*standalone(2), *ultraservers(1)])
    feed.jobs = {"train": ("uc1/us-0001",)}
    rules = rules_of(HOT, {**HOT, "name": "warm", "above": 60})
    feed.monitor.ingest.alerts = Alerts("demo", rules)
    feed.describe()
    for hot in (True, False, True):
        feed.set("temperature_c", 95.0 if hot else 30.0, [3])
        await feed.clock.advance(1.0)
        feed.tick()
    feed.monitor.apply(
        [feed.event(), feed.reservation("cr-1", "uc1/us-0001"), feed.publisher_envelope("online")]
    )
    await feed.clock.advance(1.0)
    feed.tick()
    return feed


async def test_a_restored_monitor_changes_nothing_of_the_running_one() -> None:
    """Neither does packing."""
    feed = await busy()
    running = feed.monitor
    packed = PackedSnapshot(running)
    assert PackedSnapshot(running)._data == packed._data
    feed.monitor = Monitor(SilentSource(), feed.fleet, clock=feed.clock)
    feed.monitor.restore(packed.unpack())
    feed.set("temperature_c", 95.0)
    feed.restart("boot-2")
    feed.describe()
    feed.monitor.apply([feed.event()])
    for _ in range(5):
        await feed.clock.advance(1.0)
        feed.tick()
    assert feed.monitor.alerts.happened > running.alerts.happened
    assert PackedSnapshot(running)._data == packed._data


def test_a_packed_snapshot_is_bytes_that_later_messages_do_not_change() -> None:
    feed = one_instance()
    packed = PackedSnapshot(feed.monitor)
    before = feed.monitor.store.columns["power_w"].copy()
    feed.set("power_w", 400.0)
    feed.tick()
    snapshot = packed.unpack()
    assert (snapshot.ingest.store.columns["power_w"] == before).all()
    assert snapshot.ingest.counts.messages < feed.monitor.counts.messages
    assert packed.unpack().ingest is not snapshot.ingest


async def test_alerts_are_packed_without_their_listener() -> None:
    """Later evaluations change no snapshot, and it contains no listener to alerts."""
    feed = one_instance()
    heard = list[object]()
    monitor = feed.monitor
    monitor.ingest.alerts = Alerts(feed.fleet, load_rules(()))
    monitor.alerts.listener = heard.append
    await feed.advance(1)
    packed = PackedSnapshot(monitor)
    evaluations = monitor.alerts.evaluations
    alerts = len(monitor.alerts.active())
    await feed.advance(30)
    assert monitor.alerts.evaluations > evaluations
    assert len(monitor.alerts.active()) > alerts
    assert heard
    kept = packed.unpack().ingest.alerts
    assert (kept.evaluations, len(kept.active()), kept.listener) == (evaluations, alerts, None)


async def test_derived_data_is_not_packed() -> None:
    """It would be most of a snapshot."""
    ingest = PackedSnapshot((await busy()).monitor).unpack().ingest
    assert {topic.frame_rows for topic in ingest.topics.states.values()} == {None}
    assert (ingest.topics._decoders, len(ingest.missing)) == ({}, 0)
    assert ingest.store._placement is None
    publishers = ingest.publishers
    assert (publishers._presence, publishers._clients, publishers._rows) == (None, None, None)
    assert publishers.traffic._read == {}


def test_layout_and_rules_are_the_monitors_own() -> None:
    """A snapshot shares the layout: rows are compared by its identity.

    Dozens of copies of a large layout would be too much.
    """
    monitor = one_instance().monitor
    snapshot = PackedSnapshot(monitor).unpack()
    assert snapshot.ingest.store.layout is monitor.store.layout
    assert all(map(operator.is_, snapshot.ingest.alerts.rules, monitor.alerts.rules))


def test_descriptors_and_events_are_the_monitors_own() -> None:
    """Snapshots share descriptors and events.

    Standard columns are known by identity, and each of dozens of snapshots has all events.
    """
    feed = one_instance()
    feed.monitor.apply([feed.event()])
    feed.monitor.compute()
    ingest = PackedSnapshot(feed.monitor).unpack().ingest
    (kept,) = ingest.events.newest_first()
    assert kept is next(iter(feed.monitor.events.newest_first()))
    feed.restart("boot-2")
    ingest.apply(feed.announcements(), 10.0, 0)
    assert ingest.counts.undecodable == 0


def test_its_roll_ups_are_bytes_too() -> None:
    """Roll-ups are packed as bytes.

    No other snapshot shares them: hundreds of small arrays would be most of its memory.
    """
    monitor = one_instance().monitor
    kept = PackedSnapshot(monitor).unpack().sampling.averages.rollups
    assert kept is not monitor.averages.rollups
    assert kept.layout is monitor.store.layout
    assert kept.value("power_w", Level.FLEET) == monitor.averages.rollups.value(
        "power_w", Level.FLEET
    )


def test_a_large_one_is_not_compressed() -> None:
    monitor = one_instance().monitor
    small = PackedSnapshot(monitor)
    monitor.store.columns["power_w"] = np.zeros(COMPRESSED_BYTES, np.uint16)
    large = PackedSnapshot(monitor)
    assert small.nbytes < COMPRESSED_BYTES / 2
    assert large.nbytes > COMPRESSED_BYTES
    assert len(large.unpack().ingest.store.columns["power_w"]) == COMPRESSED_BYTES
