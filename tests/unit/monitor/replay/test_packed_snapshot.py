from __future__ import annotations

import operator

import numpy as np
from support.monitor.feed import Feed

from trnfleet.domain.address import Level
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.replay.packed_snapshot import COMPRESSED_BYTES, PackedSnapshot
from trnfleet.services.files.rules import load_rules


def make_feed() -> Feed:
    """Return a feed whose monitor knows one instance."""
    feed = Feed([("uc1/us-0001/trn2u-0001-0", "trn2u.48xlarge")])
    feed.describe()
    feed.tick()
    return feed


def test_a_packed_snapshot_is_bytes_that_later_messages_do_not_change() -> None:
    feed = make_feed()
    packed = PackedSnapshot(feed.monitor.snapshot())
    before = feed.monitor.store.columns["power_w"].copy()
    feed.set("power_w", 400.0)
    feed.tick()
    snapshot = packed.unpack()
    assert (snapshot.ingest.store.columns["power_w"] == before).all()
    assert snapshot.ingest.counts.messages < feed.monitor.counts.messages
    assert packed.unpack().ingest is not snapshot.ingest


async def test_alerts_are_packed_without_a_copy_and_without_their_listener() -> None:
    """Later evaluations change no snapshot, and it contains no listener to alerts."""
    feed = make_feed()
    heard = list[object]()
    monitor = feed.monitor
    monitor.ingest.alerts = Alerts(feed.fleet, load_rules(()))
    monitor.alerts.listener = heard.append
    await feed.advance(1)
    packed = PackedSnapshot.of(monitor)
    copied = PackedSnapshot(monitor.snapshot())
    evaluations = monitor.alerts.evaluations
    alerts = len(monitor.alerts.active())
    await feed.advance(30)
    assert monitor.alerts.evaluations > evaluations
    assert len(monitor.alerts.active()) > alerts
    assert heard
    for each in (packed, copied):
        kept = each.unpack().ingest.alerts
        assert (kept.evaluations, len(kept.active()), kept.listener) == (evaluations, alerts, None)


def test_layout_and_rules_are_the_monitors_own() -> None:
    """A snapshot shares the layout: rows are compared by its identity.

    Dozens of copies of a large layout would be too much.
    """
    monitor = make_feed().monitor
    snapshot = PackedSnapshot(monitor.snapshot()).unpack()
    assert snapshot.ingest.store.layout is monitor.store.layout
    assert all(map(operator.is_, snapshot.ingest.alerts.rules, monitor.alerts.rules))


def test_descriptors_and_events_are_the_monitors_own() -> None:
    """Snapshots share descriptors and events.

    Standard columns are known by identity, and each of dozens of snapshots has all events.
    """
    feed = make_feed()
    feed.monitor.apply([feed.event()])
    feed.monitor.compute()
    ingest = PackedSnapshot(feed.monitor.snapshot()).unpack().ingest
    (kept,) = ingest.events.newest_first()
    assert kept is next(iter(feed.monitor.events.newest_first()))
    feed.restart("boot-2")
    ingest.apply(feed.announcements(), 10.0, 0)
    assert ingest.counts.undecodable == 0


def test_its_roll_ups_are_bytes_too() -> None:
    """Roll-ups are packed as bytes.

    No other snapshot shares them: hundreds of small arrays would be most of its memory.
    """
    monitor = make_feed().monitor
    kept = PackedSnapshot(monitor.snapshot()).unpack().sampling.averages.rollups
    assert kept is not monitor.averages.rollups
    assert kept.layout is monitor.store.layout
    assert kept.value("power_w", Level.FLEET) == monitor.averages.rollups.value(
        "power_w", Level.FLEET
    )


def test_a_large_one_is_not_compressed() -> None:
    monitor = make_feed().monitor
    small = PackedSnapshot(monitor.snapshot())
    snapshot = monitor.snapshot()
    snapshot.ingest.store.columns["power_w"] = np.zeros(COMPRESSED_BYTES, np.uint16)
    large = PackedSnapshot(snapshot)
    assert small.nbytes < COMPRESSED_BYTES / 2
    assert large.nbytes > COMPRESSED_BYTES
    assert len(large.unpack().ingest.store.columns["power_w"]) == COMPRESSED_BYTES
