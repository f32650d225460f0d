"""Copies of a monitor's state are independent and cheap at any size."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.rules import HOT, rules_of

from trnfleet.domain.alerts.alert import Alert
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.layout import Layout
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.copies import copied
from trnfleet.monitor.ingest.topic_state import TopicState
from trnfleet.monitor.reservations.table import Reservation
from trnfleet.monitor.sources.descriptors import CompactDescriptor
from trnfleet.monitor.store.events import Event
from trnfleet.monitor.store.rings.ring import Ring
from trnfleet.wire.frames import FrameDecoder
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

CONSTANT = (
    Rule,
    Layout,
    CompactDescriptor,
    Reservation,
    Decimal,
    FrameDecoder,
    Event,
    Limits,
    Message,
    msgspec.Struct,
    enum.Enum,
    type,
    str,
    bytes,
    int,
    float,
    bool,
    range,
    slice,
    frozenset,
    np.dtype,
    np.generic,
)
"""Immutable objects, and objects common to all readers."""


def parts_of(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the references of an object, with names."""
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, list | tuple | set | deque):
        yield from ((f"[{number}]", value) for number, value in enumerate(thing))
    names = [
        *getattr(thing, "__dict__", {}),
        *(n for c in type(thing).__mro__ for n in getattr(c, "__slots__", ())),
    ]
    for name in names:
        if hasattr(thing, name) and not name.startswith("__"):
            yield f".{name}", getattr(thing, name)


def mutables(thing: object) -> dict[int, tuple[str, object]]:
    """Return everything mutable in reach, with its path, by identity."""
    found: dict[int, tuple[str, object]] = {}
    todo: list[tuple[str, object]] = [("", thing)]
    seen: set[int] = set()
    while todo:
        way, each = todo.pop()
        if id(each) in seen or each is None or callable(each) or isinstance(each, CONSTANT):
            continue
        seen.add(id(each))
        if isinstance(each, Alert) and not each.is_active:
            # What is over never changes.
            continue
        if not isinstance(each, tuple):
            found[id(each)] = way, each
        todo.extend((way + name, part) for name, part in parts_of(each))
    return found


async def busy() -> Feed:
    """Return a feed with data of every kind in its monitor."""
    feed = Feed([*standalone(2), *ultraservers(1)])
    feed.jobs = {"train": ("uc1/us-0001",)}
    feed.monitor.ingest.alerts = Alerts("demo", rules_of(HOT, {**HOT, "name": "warm", "above": 60}))
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


async def test_a_snapshot_shares_nothing_that_changes() -> None:
    """Neither the running nor a restored monitor can change a snapshot."""
    monitor = (await busy()).monitor
    snapshot = monitor.snapshot()
    original = mutables(monitor.ingest)
    twin = mutables(snapshot.ingest)
    shared = sorted(original[each][0] for each in original.keys() & twin.keys())
    # The first two follow from the rules alone; runs are replaced whole with each placement.
    assert shared == [".alerts._inhibitors", ".alerts.cells._rules", ".job_table.runs"]
    assert len(original) > 150
    assert vars(snapshot.ingest).keys() == vars(monitor.ingest).keys()


def test_a_copy_names_only_attributes_that_there_are() -> None:
    with pytest.raises(AttributeError):
        copied(Alerts("demo"), _nothing=1)


def fed() -> Feed:
    """Return a feed whose monitor has heard of an instance, of events and of jobs."""
    feed = Feed(standalone(1))
    feed.describe()
    for _ in range(3):
        feed.tick()
    return feed


def test_a_copied_topic_has_all_that_the_topic_has_and_counts_on_its_own() -> None:
    (topic,) = fed().monitor.ingest.topics.states.values()
    twin = topic.copy()
    for field in fields(TopicState):
        if field.name != "tracker":
            assert getattr(twin, field.name) is getattr(topic, field.name), field.name
    seen = topic.tracker.last, topic.tracker.seen, topic.tracker.first
    assert (twin.tracker.last, twin.tracker.seen, twin.tracker.first) == seen
    assert seen[0] is not None
    twin.tracker.accept(seen[0] + 1, fed().monitor.ingest.counts)
    assert topic.tracker.last == seen[0]


def test_topics_of_a_copy_share_their_clock_as_before() -> None:
    feed = Feed(standalone(2))
    feed.describe()
    feed.tick()
    twin = feed.monitor.ingest.copy()
    (clock,) = twin.timebase._clocks.values()
    assert {topic.clock for topic in twin.topics.states.values()} == {clock.row}
    heard_s = clock.heard_s
    for own in feed.monitor.ingest.timebase._clocks.values():
        own.restart()
    assert clock.heard_s == heard_s > 0
    covered = {id(topic) for topics in twin.topics._covered_by.values() for topic in topics}
    assert covered == {id(topic) for topic in twin.topics.states.values()}


def test_copied_events_go_on_on_their_own() -> None:
    feed = fed()
    feed.monitor.apply([feed.event()])
    twin = feed.monitor.events.copy()
    feed.monitor.apply([feed.event()])
    assert (len(twin), twin.received) == (1, 1)
    assert (len(feed.monitor.events), feed.monitor.events.received) == (2, 2)
    assert next(twin.newest_first()).number == 1


def test_a_copy_of_alerts_has_every_attribute() -> None:
    alerts = Alerts("demo")
    assert vars(alerts.copy()).keys() == vars(alerts).keys()


def test_samples_that_are_left_out_are_as_if_nothing_had_been_pushed_one_by_one() -> None:
    for skipped in (0, 1, 3, 5, 9):
        one = Ring(5, 8, 2)
        other = Ring(5, 8, 2)
        for ring in (one, other):
            for value in (1.0, 2.0, 3.0):
                ring.push([np.full(2, value)] * one.values.shape[1])
        one.skip(skipped)
        for _ in range(min(skipped, 5)):
            other.push([np.array([np.nan])] * one.values.shape[1])
        assert one.filled == other.filled
        np.testing.assert_array_equal(one.series(0, 1), other.series(0, 1))
