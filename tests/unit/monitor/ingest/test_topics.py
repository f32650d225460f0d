"""Topics, the boots of their publishers, and their descriptors."""

from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, live_feed, ready
from support.monitor.hosts import Hosts

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest.topic_state import TopicState
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic


@pytest.mark.parametrize("json", [False, True])
def test_a_restarted_publisher(json: bool) -> None:
    """A new boot counts from 0 without loss; the old boot's messages are late."""
    feed = ready(json=json)
    for _ in range(5):
        feed.tick()
    old = feed.telemetry()
    feed.restart("boot-2")
    feed.describe()
    feed.tick()
    feed.monitor.apply(old)
    feed.tick()
    counts = feed.monitor.counts
    assert counts.lost == 0
    assert counts.late == len(old)
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_a_stray_start_changes_nothing() -> None:
    """A message of an unknown boot is undescribed and does not disturb the publisher."""
    feed = live_feed()
    seq = feed.seq
    feed.restart("stray")
    feed.monitor.apply(feed.telemetry(["uc1/us-0001/trn2u-0001-0"]))
    feed.boot = "boot-1"
    feed.seq = seq
    feed.tick()
    counts = feed.monitor.counts
    assert (counts.undescribed, counts.lost, counts.late) == (1, 0, 0)
    assert counts.messages == 24


@pytest.mark.parametrize("json", [False, True])
async def test_a_false_descriptor_holds_until_the_next_true_one(json: bool) -> None:
    """In a publisher's own name, it hides the telemetry of its boot, and leaves nothing behind."""
    feed = live_feed(json=json)
    false = Feed([("uc1/us-0001/trn2u-0001-0", "trn2u.48xlarge")], period_s=86_400.0)
    false.boot = "boot-2"
    false.epoch = "2100-01-01T00:00:00Z"
    feed.receive(false.announcements())
    await feed.advance(1.0)
    feed.tick()
    assert feed.monitor.counts.late == (17 if json else 1)
    feed.describe()
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    await feed.advance(3.5)
    assert feed.monitor.store.count(Freshness.STALE) == 192


async def test_two_publishers_take_turns() -> None:
    """When the second publisher stops, the first takes over with its next descriptor."""
    feed = live_feed()
    feed.restart("boot-2")
    feed.publisher = "second"
    feed.describe()
    feed.tick()
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.boot = "boot-1"
    feed.seq = 50
    feed.publisher = "feed"
    feed.describe()
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_what_is_not_used_is_forgotten() -> None:
    """Topics without a descriptor and publishers' former starts do not pile up."""
    feed = ready()
    for number in range(20):
        feed.restart(f"boot-{number}")
        feed.monitor.apply([feed.publisher_envelope("offline")])
        feed.describe()
        feed.tick()
    gone = [
        Envelope(build_topic("demo", TopicClass.NODE, path), b"") for path in feed.layout.instances
    ]
    feed.receive(gone)
    assert feed.monitor.store.layout.chips == 0
    assert len(feed.monitor.ingest.topics.states) == 0
    assert len(feed.monitor.ingest.publishers) <= 1


async def test_topics_of_hosts_follow_their_rows() -> None:
    """A removed or inserted host moves the rows, clocks and boots of later topics.

    This includes frames applied in bulk.
    """
    hosts = Hosts(20)
    feed, monitor = hosts.feed, hosts.feed.monitor
    topics, layout = monitor.ingest.topics, feed.layout
    feed.publisher = hosts.names[2]
    _, descriptor = feed.announcements([hosts.paths[2]])
    wanted = np.arange(layout.chips) + 100.0

    def told() -> dict[str, list[int]]:
        made: dict[str, list[int]] = {}
        for state in topics.states.values():
            assert state.frame_rows is not None
            columns = state.frame_rows._columns
            names = ("instance", "chip", "publisher", "row", "clock")
            made[state.path] = [int(columns[name][state.number]) for name in names]
        return made

    def found() -> dict[str, list[int]]:
        made: dict[str, list[int]] = {}
        for state in topics.states.values():
            twin = TopicState(state.path)
            topics._bind(twin, monitor.store.layout)
            assert twin.descriptor is not None
            assert isinstance(twin.instances, slice)
            assert isinstance(twin.chips, slice)
            made[state.path] = [
                twin.instances.start,
                twin.chips.start,
                twin.publisher,
                twin.row,
                twin.clock,
            ]
        return made

    async def check(number: int) -> None:
        nonlocal wanted
        wanted = wanted + 1.0
        feed.set("power_w", wanted)
        await hosts.tick()
        there = monitor.store.layout
        assert len(there.instances) == len(topics.states) == number
        assert told() == found()
        rows = [
            layout.chips_at(path).start + each for path in there.instances for each in range(16)
        ]
        np.testing.assert_allclose(
            monitor.store.values(BY_NAME["power_w"], slice(None)), wanted[rows], atol=0.5
        )
        boots = monitor.ingest.publishers.names()
        of_paths = dict(zip(hosts.paths, hosts.names, strict=True))
        of_rows = [boots[number] for number in monitor.store.publisher_of.tolist()]
        assert of_rows == [of_paths[path] for path in there.instances]
        assert (monitor.counts.lost, monitor.counts.late) == (0, 0)

    await hosts.tick()
    await check(20)
    feed.receive([descriptor._replace(payload=b"")])
    await check(19)
    feed.receive([descriptor])
    await check(20)
