"""Topics, the starts of their publishers, and what describes them."""

from __future__ import annotations

import pytest
from support.monitor.feed import ready

from trnfleet.monitor.store.store import Freshness
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic


@pytest.mark.parametrize("json", [False, True])
def test_a_restarted_publisher(json: bool) -> None:
    """A new start is taken with its descriptors, counts from 0 without loss, and the old start's messages are late."""
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
    """A message of a start that no descriptor names is undescribed, and the true publisher goes on."""
    feed = ready()
    feed.tick()
    seq = feed.seq
    feed.restart("stray")
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
    feed.restart("boot-2")
    feed.publisher = "second"
    feed.describe()
    feed.tick()
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.boot, feed.seq, feed.publisher = "boot-1", 50, "feed"
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
    gone = [Envelope(build_topic("demo", TopicClass.NODE, path), b"") for path in feed.layout.instances]
    feed.monitor.apply(gone)
    feed.monitor.compute()
    assert feed.monitor.store.layout.chips == 0
    assert len(feed.monitor.ingest.topics.states) == 0
    assert len(feed.monitor.ingest.publishers) <= 1
