from __future__ import annotations

import msgspec
import pytest
from support.monitor.feed import START_NS, Feed, ultraservers

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event, Events
from trnfleet.wire.messages import EventMessage
from trnfleet.wire.topics import TopicClass, build_topic

CHIP = "uc1/us-0001/trn2u-0001-0/chip05"


def message(number: int, severity: str = "info") -> EventMessage:
    return EventMessage(
        id=f"boot-{number}",
        ts="2026-01-05T00:00:00Z",
        path=CHIP,
        source="kernel",
        name="x",
        severity=Severity(severity),
        text=f"event {number}",
    )


def newest(events: Events) -> list[str]:
    return [event.text for event in events.newest_first()]


def test_events_come_from_their_topics() -> None:
    """An event is stored with all its data, its time in ns, and its arrival."""
    feed = Feed(ultraservers(1))
    text = "nd5: uncorrectable HBM error"
    feed.monitor.apply(
        [feed.event(CHIP, text, severity="critical", job="llama", nrt=1201, name="hbm_ue")]
    )
    assert list(feed.monitor.events.newest_first()) == [
        Event(
            1, 1_000.0, START_NS, Severity.CRITICAL, "kernel", "hbm_ue", CHIP, "llama", 1201, text
        )
    ]
    feed.monitor.apply([feed.event("", "all of the fleet")])
    assert newest(feed.monitor.events) == ["all of the fleet", text]
    assert feed.monitor.summary().events == 2


def test_an_event_that_comes_twice_is_there_once() -> None:
    """QoS 1 may deliver again: the same id counts once."""
    feed = Feed(ultraservers(1))
    twice = feed.event(CHIP)
    feed.monitor.apply([twice, twice])
    assert len(feed.monitor.events) == feed.monitor.events.received == 1
    assert feed.monitor.events.duplicates == 1


def test_the_ring_keeps_the_newest() -> None:
    """Older events make room and are counted; their ids are forgotten with them."""
    events = Events(kept=3)
    for number in range(5):
        events.add(message(number), float(number))
    assert newest(events) == ["event 4", "event 3", "event 2"]
    assert (events.received, events.dropped, len(events)) == (5, 2, 3)
    events.add(message(4), 5.0)
    assert events.duplicates == 1
    events.add(message(0), 6.0)
    assert newest(events)[0] == "event 0"
    assert len(events._ids) == 3


def test_an_instance_that_reports_without_end_replaces_its_own() -> None:
    """A flood from one instance leaves others' events.

    Numbers and order are unchanged.
    """
    events = Events(kept=64)
    number = 0

    def report(path: str, count: int) -> None:
        nonlocal number
        for _ in range(count):
            number += 1
            events.add(msgspec.structs.replace(message(number), path=path), float(number))

    report("uc1/us-0001/trn2u-0001-1", 4)
    report("", 3)
    report(CHIP, 500)
    report("uc1/us-0001/trn2u-0001-0/chip06", 500)
    assert len(events) == 64
    paths = [event.path for event in events.newest_first()]
    assert (paths.count("uc1/us-0001/trn2u-0001-1"), paths.count("")) == (4, 3)
    assert [event.number for event in events.newest_first()] == [
        *range(1_007, 950, -1),
        *range(7, 0, -1),
    ]
    assert [event.number for event in events.since(1_005)] == [1_006, 1_007]
    # Another one that does the same takes half of the first one's room, and none of the others'.
    report("uc1/us-0002/trn2u-0002-0", 500)
    paths = [event.path for event in events.newest_first()]
    assert (paths.count("uc1/us-0001/trn2u-0001-1"), paths.count("")) == (4, 3)
    assert paths.count("uc1/us-0002/trn2u-0002-0") in {28, 29}
    # Where none has more than its share the oldest goes.
    for place in range(70):
        report(f"uc1/standalone/trn2-{place:04}", 1)
    assert min(event.number for event in events.newest_first()) > 7
    assert sum(map(len, events._numbers_of.values())) == len(events._ids) == len(events) == 64


def test_what_is_no_event_is_counted() -> None:
    """Events with another path than the topic's, a bad time, or retained are refused."""
    feed = Feed(ultraservers(1))
    good = feed.event(CHIP)
    elsewhere = good._replace(topic=build_topic("demo", TopicClass.EVENT, "uc1/us-0001"))
    timeless = feed.event(CHIP)
    timeless = timeless._replace(payload=timeless.payload.replace(b'"ts":"2026', b'"ts":"soon'))
    feed.monitor.apply([elsewhere, timeless, feed.event(CHIP)._replace(retain=True), good])
    counts = feed.monitor.counts
    assert (counts.misplaced, counts.undecodable, counts.rejected) == (1, 1, 1)
    assert feed.monitor.events.received == 1


@pytest.mark.parametrize(
    ("severities", "found"),
    [
        (["info"], None),
        (["warning", "info"], 0),
        (["warning", "warning"], 1),
        (["critical", "warning", "info"], 0),
        (["critical", "warning", "critical"], 2),
    ],
)
def test_what_is_notable(severities: list[str], found: int | None) -> None:
    """The newest of the most severe recent events is notable; information alone is not."""
    events = Events()
    for number, severity in enumerate(severities):
        events.add(message(number, severity), 100.0 + number)
    event = events.notable(105.0, 20.0)
    assert (None if event is None else event.text) == (None if found is None else f"event {found}")
    assert events.notable(130.0, 20.0) is None
