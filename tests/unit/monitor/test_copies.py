"""Copies of what a monitor knows: they go on on their own, and cost little however much is known."""

from __future__ import annotations

import copy
from dataclasses import fields

import numpy as np
from support.monitor.feed import Feed, standalone

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.ingest.topics import TopicState
from trnfleet.monitor.store.history import _Ring


def fed() -> Feed:
    """Return a feed whose monitor has heard of an instance, of events and of jobs."""
    feed = Feed(standalone(1))
    feed.describe()
    for _ in range(3):
        feed.tick()
    return feed


def test_a_copied_topic_has_all_that_the_topic_has_and_counts_on_its_own() -> None:
    (topic,) = fed().monitor.ingest.topics.states.values()
    twin = copy.deepcopy(topic)
    for field in fields(TopicState):
        if field.name not in {"tracker", "clock"}:
            assert getattr(twin, field.name) is getattr(topic, field.name), field.name
    assert twin.clock is not None
    assert twin.clock is not topic.clock
    seen = topic.tracker.last, topic.tracker.seen, topic.tracker.first
    assert (twin.tracker.last, twin.tracker.seen, twin.tracker.first) == seen
    assert seen[0] is not None
    twin.tracker.accept(seen[0] + 1, fed().monitor.ingest.counts)
    assert topic.tracker.last == seen[0]


def test_topics_of_a_copy_share_their_clock_as_before() -> None:
    feed = Feed(standalone(2))
    feed.describe()
    feed.tick()
    twin = copy.deepcopy(feed.monitor.ingest)
    clocks = {id(topic.clock) for topic in twin.topics.states.values()}
    assert clocks <= {id(clock) for clock in twin.timebase._clocks.values()}
    covered = {id(topic) for topics in twin.topics._covered_by.values() for topic in topics}
    assert covered == {id(topic) for topic in twin.topics.states.values()}


def test_copied_events_go_on_on_their_own() -> None:
    feed = fed()
    feed.monitor.apply([feed.event()])
    twin = copy.deepcopy(feed.monitor.events)
    feed.monitor.apply([feed.event()])
    assert (len(twin), twin.received) == (1, 1)
    assert (len(feed.monitor.events), feed.monitor.events.received) == (2, 2)
    assert next(twin.newest_first()).number == 1


def test_a_copy_of_alerts_has_every_attribute() -> None:
    alerts = Alerts("demo")
    assert vars(copy.deepcopy(alerts)).keys() == vars(alerts).keys()


def test_samples_that_are_left_out_are_as_if_nothing_had_been_pushed_one_by_one() -> None:
    for skipped in (0, 1, 3, 5, 9):
        one, other = _Ring(5, 2), _Ring(5, 2)
        for ring in (one, other):
            for value in (1.0, 2.0, 3.0):
                ring.push([np.full(2, value)] * one.values.shape[1])
        one.skip(skipped)
        for _ in range(min(skipped, 5)):
            other.push([np.array([np.nan])] * one.values.shape[1])
        assert one.filled == other.filled
        np.testing.assert_array_equal(one.series(0, 1), other.series(0, 1))
