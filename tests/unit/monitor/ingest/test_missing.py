from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from support.memory_bus import MemoryBus, MemorySource
from support.monitor.feed import Feed, ultraservers
from support.processes.waiting import running

from trnfleet.clock import ManualClock
from trnfleet.monitor.ingest.missing import AGAIN_S, AT_ONCE, GRACE_S, HELD_S, MissingState
from trnfleet.monitor.monitor import Monitor
from trnfleet.wire.topics import SUBSCRIPTIONS, TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from trnfleet.wire.ports import Envelope

NODE, PUBLISHER = TopicClass.NODE, TopicClass.PUBLISHER


def test_what_comes_by_itself_is_not_asked_for() -> None:
    """A message is requested once, after a moment to arrive by itself."""
    missing = MissingState(10)
    missing.hear(NODE, "a")
    missing.hear(NODE, "b")
    assert missing.due(100.0) == []
    missing.note_arrival(NODE, "a")
    assert missing.due(100.0 + GRACE_S) == [(NODE, "b")]
    assert missing.due(101.0 + GRACE_S) == []


def test_it_is_asked_for_again_while_it_is_missing() -> None:
    """The waits double; a message not missed again during one is forgotten."""
    missing = MissingState(10)
    now_s = 100.0
    asked = []
    while now_s < 100.0 + GRACE_S + 7 * AGAIN_S[0] + 1.0:
        missing.hear(NODE, "a")
        asked += [now_s - 100.0] * len(missing.due(now_s))
        now_s += 0.25
    assert asked == [
        GRACE_S,
        GRACE_S + AGAIN_S[0],
        GRACE_S + 3 * AGAIN_S[0],
        GRACE_S + 7 * AGAIN_S[0],
    ]
    while len(missing):
        assert missing.due(now_s) in ([], [(NODE, "a")])
        now_s += AGAIN_S[1]


def test_what_was_refused_is_not_asked_for() -> None:
    """A refused message is not requested until it is replaced or removed."""
    missing = MissingState(10)
    missing.hear(NODE, "a")
    missing.refused(NODE, "a")
    missing.hear(NODE, "a")
    assert [*missing.due(0.0), *missing.due(GRACE_S)] == []
    missing.note_arrival(NODE, "a")
    missing.hear(NODE, "a")
    assert [*missing.due(1.0), *missing.due(1.0 + GRACE_S)] == [(NODE, "a")]


def test_presences_are_asked_for_after_descriptors() -> None:
    """Presences are requested after the last descriptor, or after a while."""
    missing = MissingState(10)
    missing.hear(NODE, "a")
    for client in ("p", "q"):
        missing.hear(PUBLISHER, client)
    missing.hear(NODE, "b")
    missing.due(100.0)
    assert missing.due(101.0) == [(NODE, "a"), (NODE, "b")]
    missing.note_arrival(NODE, "a")
    missing.note_arrival(PUBLISHER, "q")
    assert missing.due(102.0) == []
    missing.note_arrival(NODE, "b")
    assert missing.due(102.0) == [(PUBLISHER, "p")]
    missing.hear(PUBLISHER, "r")
    asked: dict[str, float] = {}
    for tenths in range(200):
        missing.hear(NODE, "never")
        asked |= {
            name: tenths / 10
            for kind, name in missing.due(110.0 + tenths / 10)
            if kind is PUBLISHER
        }
    assert asked == {"r": HELD_S}


def test_what_one_call_asks_for_is_bounded() -> None:
    """Tens of thousands of requests go out in order, some thousand per call."""
    missing = MissingState(100_000)
    names = [str(number) for number in range(3 * AT_ONCE)]
    for name in names:
        missing.hear(NODE, name)
    for _ in range(3):
        assert missing.due(100.0) == []
    calls = [missing.due(101.0) for _ in range(3)]
    assert [len(each) for each in calls] == [AT_ONCE] * 3
    assert [name for each in calls for _, name in each] == names


def test_made_up_names_take_a_bounded_room() -> None:
    """No names beyond the limit are stored, even if each is found at once."""
    missing = MissingState(100)
    for number in range(1_000):
        missing.hear(NODE, str(number))
        missing.note_arrival(NODE, str(number - 500))
    assert len(missing) <= 100
    assert len(missing.due(1.0) + missing.due(2.0)) <= 100


@contextlib.asynccontextmanager
async def monitored(
    feed: Feed, clock: ManualClock, bus: MemoryBus, announced: Iterable[Envelope]
) -> AsyncIterator[tuple[MemorySource, Monitor]]:
    """Begin a monitor after announcements, and publish telemetry for four seconds."""
    publisher = bus.publisher()
    source = bus.source([(build_filter("demo", each), qos) for each, qos in SUBSCRIPTIONS])
    publisher.connect()
    await publisher.publish(announced)
    source.connect()
    monitor = Monitor(source, "demo", clock=clock)
    async with running(monitor.run()):
        for _ in range(8):
            await publisher.publish(feed.telemetry())
            await clock.advance(0.5)
        yield source, monitor


async def test_a_refused_descriptor_is_counted_once() -> None:
    """An unreadable retained descriptor is refused once and not requested again."""
    feed = Feed(ultraservers(1))
    clock = ManualClock(monotonic_s=50.0)
    online, descriptor, *_ = feed.announcements()
    announced = [online, descriptor._replace(payload=b"{}")]
    async with monitored(feed, clock, MemoryBus(clock), announced) as (source, monitor):
        assert monitor.ingest.counts.refused == {"node": 1}
        assert descriptor.topic not in source.requested
        assert monitor.summary().undescribed_paths > 0


async def test_a_monitor_fills_up_on_a_broker_that_withholds() -> None:
    """If wildcards return no retained messages, each missing one is requested once."""
    feed = Feed(ultraservers(1))
    clock = ManualClock(monotonic_s=50.0)
    feed.scatter()
    bus = MemoryBus(clock)
    bus.withholds_retained = True
    async with monitored(feed, clock, bus, feed.announcements()) as (source, monitor):
        summary = monitor.summary()
    assert (
        summary.chips,
        summary.live_chips,
        summary.undescribed_chips,
        summary.undescribed_paths,
    ) == (
        64,
        64,
        0,
        0,
    )
    assert summary.publishers_online == 1
    nodes = [each for each in source.requested if "/node/" in each]
    assert sorted(nodes) == sorted(
        {each.topic for each in feed.announcements() if "/node/" in each.topic}
    )
    assert source.status.withholds_retained
