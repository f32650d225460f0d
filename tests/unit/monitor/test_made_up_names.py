"""Endless made-up names use bounded memory, are counted, and do not affect a real fleet."""

from __future__ import annotations

import pytest
from support.monitor.feed import DEMO, Feed, standalone

from trnfleet.monitor.freshness import Freshness
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import PublisherMessage, WatchMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

COUNT = 3_000
LIMITS = Limits(watches=50, undescribed=100)
KNOWN = "uc1/us-0001/trn2u-0001-0"


def made_up(topic_class: TopicClass, number: int, name: str) -> Envelope:
    """Return a message with a name of its own."""
    message: PublisherMessage | WatchMessage
    if topic_class is TopicClass.TELEMETRY:
        return Envelope(build_topic("demo", topic_class, name.format(number)), b"{}")
    if name == "watch":
        message = WatchMessage(client=f"w{number}", state="online", boot="b", role="watch")
    else:
        message = PublisherMessage(client=f"p{number}", state="online", boot="b")
    return Envelope(
        build_topic("demo", topic_class, message.client), encode_message(message), 1, retain=True
    )


@pytest.mark.parametrize(
    ("topic_class", "name", "refused"),
    [
        (TopicClass.TELEMETRY, "uc9/us-{:04}/i/chip00", ""),
        (TopicClass.TELEMETRY, "uc9/us-{:04}", ""),
        (TopicClass.TELEMETRY, KNOWN + "/chip1{:04}", ""),
        (TopicClass.PUBLISHER, "telemetry", "more than 100 publishers that describe nothing"),
        (TopicClass.PUBLISHER, "watch", "more than 50 watches"),
    ],
)
def test_they_are_counted_and_leave_little(
    topic_class: TopicClass, name: str, refused: str
) -> None:
    """Data above a limit is dropped and counted by reason.

    The fleet is shown as before.
    """
    feed = Feed(DEMO, limits=LIMITS)
    feed.scatter()
    feed.describe()
    feed.tick()
    feed.monitor.apply([made_up(topic_class, number, name) for number in range(COUNT)])
    feed.tick()
    ingest = feed.monitor.ingest
    counts = feed.monitor.counts
    assert len(ingest.topics.states) == 12
    assert len(ingest.topics.undescribed.chips) + len(ingest.topics.undescribed.others) <= 100
    assert len(ingest.publishers) <= 101
    assert len(ingest.watches.present(feed.clock.monotonic_s())) <= 50
    assert counts.rejected + counts.undescribed >= COUNT - 100
    assert counts.last_problem.endswith(refused)
    assert counts.refused.get(topic_class.value, 0) == counts.rejected
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_a_fleet_that_comes_after_them_is_shown() -> None:
    """A descriptor makes room for its telemetry, presence and last will, refused before."""
    feed = Feed(standalone(150), limits=LIMITS)
    feed.scatter()
    feed.monitor.apply([made_up(TopicClass.PUBLISHER, number, "") for number in range(COUNT)])
    feed.monitor.apply(
        [made_up(TopicClass.TELEMETRY, number, "uc9/us-{:04}") for number in range(COUNT)]
    )
    feed.describe()
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == feed.layout.chips
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.OFFLINE) == feed.layout.chips


async def test_a_watch_finds_room_once_made_up_ones_are_silent() -> None:
    """A watch never heard again makes room for one with heartbeats."""
    feed = Feed(DEMO, limits=LIMITS)
    feed.monitor.apply([made_up(TopicClass.PUBLISHER, number, "watch") for number in range(50)])
    late = made_up(TopicClass.PUBLISHER, 999, "watch")
    feed.monitor.apply([late])
    assert feed.monitor.counts.rejected == 1
    await feed.clock.advance(60.0)
    feed.monitor.apply([late])
    present = feed.monitor.ingest.watches.present(feed.clock.monotonic_s())
    assert [each.client for each in present] == ["w999"]
