from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import DEMO, Feed, live_feed, ready, standalone

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest.missing import MissingState
from trnfleet.monitor.ingest.rejects import PendingTelemetry
from trnfleet.monitor.ingest.topics import Undescribed
from trnfleet.monitor.summary import undescribed_text
from trnfleet.wire.limits import Limits
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic


def test_undescribed_is_not_lost() -> None:
    """Telemetry without a descriptor counts as undescribed until its descriptor arrives."""
    feed = Feed(DEMO)
    feed.scatter()
    feed.monitor.apply(feed.telemetry())
    assert feed.monitor.counts.undescribed == 12
    assert feed.monitor.counts.lost == 0
    feed.describe()
    feed.tick()
    assert feed.monitor.counts.messages == 12
    assert feed.monitor.store.count(Freshness.LIVE) == 192


@pytest.mark.parametrize(("as_json", "counts"), [(True, (144, 0)), (False, (0, 9))])
def test_what_is_not_described_is_in_the_summary(as_json: bool, counts: tuple[int, int]) -> None:
    """Undescribed chips or publishing paths are in the summary until described or silent."""
    feed = Feed(DEMO, json=as_json)
    feed.scatter()
    described = list(feed.layout.instances[:3])
    feed.describe(described)
    feed.tick()

    def undescribed(after_s: float = 0.0) -> tuple[int, int]:
        return feed.monitor.ingest.topics.undescribed.counts(feed.clock.monotonic_s() + after_s)

    assert undescribed() == counts
    summary = feed.monitor.summary()
    assert (summary.undescribed_chips, summary.undescribed_paths) == counts
    assert undescribed_text(summary) == ("144 chips" if as_json else "9 paths")
    assert undescribed(Undescribed.HEARD_WITHIN_S + 1.0) == (0, 0)
    feed.describe()
    feed.tick()
    assert undescribed() == (0, 0)
    assert undescribed_text(feed.monitor.summary()) == ""


def test_telemetry_waits_for_the_layout_of_its_descriptor() -> None:
    """Telemetry between its descriptor and the layout is buffered, not lost."""
    feed = Feed(DEMO)
    feed.scatter()
    feed.receive([*feed.announcements(), *feed.telemetry()])
    assert feed.monitor.counts.undescribed == 0
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_garbage_is_counted_and_nothing_stops() -> None:
    """Garbage payloads and topics are counted, and later messages applied."""
    feed = ready()
    good = feed.telemetry()
    topic = good[0].topic
    bad = [
        Envelope(topic, payload)
        for payload in (
            b"",
            b"\x00",
            b"{",
            b"[" * 60_000,
            b"\xff" * 50,
            b"\xa1" * 70_000,
            b"x" * 300_000,
        )
    ]
    bad += [
        Envelope(name, b"{}")
        for name in ("", "nope", "trnfleet/v1/demo/telemetry/\x1b[2J", "trnfleet/v1/demo/what/x")
    ]
    bad += [
        Envelope(build_topic("demo", kind, "x"), b"{}")
        for kind in TopicClass
        if kind
        not in {TopicClass.TELEMETRY, TopicClass.COMMAND, TopicClass.REPLY, TopicClass.BACKLOG}
    ]
    feed.monitor.apply(bad + good)
    assert feed.monitor.counts.undecodable == len(bad)
    assert feed.monitor.counts.messages == 12


def test_commands_and_replies_are_passed_over() -> None:
    """Commands and replies in a recording cause no alert."""
    feed = ready()
    for kind in (TopicClass.COMMAND, TopicClass.REPLY, TopicClass.BACKLOG):
        feed.monitor.apply([Envelope(build_topic("demo", kind, "x"), b"{}")])
    assert feed.monitor.counts.undecodable == 0
    assert feed.monitor.counts.last_problem == ""


def test_another_fleets_messages_are_not_ours() -> None:
    """A second fleet on the broker changes nothing."""
    feed = ready()
    other = Feed(DEMO, fleet="other")
    other.scatter()
    feed.receive([*other.announcements(), *other.telemetry()])
    assert feed.monitor.counts.messages == 0
    assert feed.monitor.counts.undecodable == 0


def test_last_will() -> None:
    """A last will takes everything of its publisher offline until `online`; values stay."""
    feed = live_feed()
    feed.receive([feed.publisher_envelope("offline")])
    assert feed.monitor.store.count(Freshness.OFFLINE) == 192
    assert not np.isnan(feed.monitor.store.values(BY_NAME["power_w"], slice(None))).any()
    feed.receive([feed.publisher_envelope("online")])
    assert feed.monitor.store.count(Freshness.LIVE) == 192


def test_limits_hold() -> None:
    """More instances, jobs, publishers or topics than allowed are refused and counted."""
    feed = Feed(DEMO, limits=Limits(fleet_instances=3, jobs=2, topics=2))
    feed.jobs = {f"job-{number}": ("uc1",) for number in range(5)}
    feed.receive([*feed.announcements(), *feed.telemetry()])
    assert len(feed.monitor.store.layout.instances) == 3
    assert len(feed.monitor.ingest.jobs) == 2
    assert feed.monitor.counts.rejected == 9 + 3 + 1
    # Of what nothing describes nothing is kept.
    assert feed.monitor.counts.undescribed == 9
    assert len(feed.monitor.ingest.topics.states) == 2


def test_the_will_of_a_former_start() -> None:
    """A last will of a former boot takes nothing offline."""
    feed = live_feed()
    will = feed.publisher_envelope("offline")
    feed.restart("boot-2")
    feed.describe()
    feed.tick()
    feed.receive([will])
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    assert feed.monitor.summary().publishers_online == 1


def test_a_descriptor_speaks_only_for_what_is_below_it() -> None:
    """A descriptor with another path's instances is refused."""
    feed = live_feed()
    forged = feed.announcements(["uc1/standalone/trn2-0001"])[1]
    payload = forged.payload.replace(
        b'{"path":"uc1/standalone/trn2-0001"', b'{"path":"uc1/us-0001/trn2u-0001-0"'
    )
    feed.monitor.apply([forged._replace(payload=payload)])
    assert feed.monitor.counts.undecodable == 1
    assert "not below its path" in feed.monitor.counts.last_problem


def test_lag_falls_again() -> None:
    """The lag is the last batch's, even if it has none."""
    feed = ready()
    messages = feed.telemetry()
    feed.clock.step_wall(5)
    feed.monitor.apply(messages)
    assert feed.monitor.ingest.lag_s == pytest.approx(5)
    late = feed.telemetry()
    feed.clock.step_wall(-1)
    feed.monitor.apply(late)
    assert feed.monitor.ingest.lag_s == 0


def test_state_is_bounded_in_bytes() -> None:
    """Padding of descriptors is not stored, and the places of all jobs are limited."""
    feed = ready()
    plain = feed.monitor.ingest.descriptors.size_bytes
    messages = [
        (
            each._replace(payload=each.payload[:-1] + b',"padding":"' + b"x" * 100_000 + b'"}')
            if "/node/" in each.topic
            else each
        )
        for each in feed.announcements()
    ]
    feed.receive(messages)
    assert feed.monitor.ingest.descriptors.size_bytes == plain < 12 * 2_500
    feed.monitor.ingest.limits = Limits(places=5)
    feed.jobs = {"a": ("uc1/us-0001",) * 3, "b": ("uc1/us-0001",) * 3}
    feed.describe()
    assert list(feed.monitor.ingest.jobs) == ["a"]


@pytest.mark.parametrize("later", [2, 100])
def test_what_is_described_and_waits_for_the_layout_is_not_asked_for(later: int) -> None:
    """Without buffer space, telemetry is counted; only missing descriptors are requested."""
    feed = Feed(standalone(7 + later))
    ingest = feed.monitor.ingest
    ingest._pending = PendingTelemetry(most_messages=0)
    names = list(feed.layout.instances)
    feed.monitor.apply(feed.announcements(names[:3]))
    feed.monitor.lay_out()
    ingest.apply(feed.announcements(names[3 : 3 + later]), feed.clock.monotonic_s(), 0)
    feed.monitor.apply(feed.telemetry())
    feed.monitor.apply(feed.telemetry())
    assert feed.monitor.counts.undescribed == 2 * (4 + later)
    assert (ingest.missing.descriptors, feed.monitor.summary().undescribed_paths) == (4, 4)
    feed.monitor.lay_out()
    feed.monitor.apply(feed.telemetry())
    assert (feed.monitor.counts.undescribed, ingest.missing.descriptors) == (2 * (4 + later) + 4, 4)
    assert feed.monitor.counts.messages == 3 * 3 + later


async def test_hosts_that_are_missing_count_on_over_a_new_layout() -> None:
    """Undescribed paths count across a layout until heard again or timed out.

    Described ones wait for the layout by number.
    """
    feed = Feed(standalone(9))
    ingest = feed.monitor.ingest
    names = list(feed.layout.instances)
    feed.monitor.apply(feed.announcements(names[:3]))
    feed.monitor.lay_out()
    feed.monitor.apply(feed.telemetry())
    ingest.apply(feed.announcements(names[3:5]), feed.clock.monotonic_s(), 0)
    summary = feed.monitor.summary()
    assert (summary.joining_instances, summary.undescribed_paths) == (2, 6)
    feed.monitor.lay_out()
    await feed.clock.advance(1.5)
    summary = feed.monitor.summary()
    assert (summary.joining_instances, summary.undescribed_paths) == (0, 4)
    feed.monitor.apply(feed.telemetry(names[:6]))
    await feed.clock.advance(Undescribed.HEARD_WITHIN_S)
    assert feed.monitor.summary().undescribed_paths == 1


async def test_what_nothing_describes_is_noted_once_in_a_while_and_counted_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Undescribed topics are requested again at intervals and counted each time.

    Most messages are undescribed while tens of thousands of hosts join.
    """
    heard: list[str] = []
    feed = Feed(standalone(3))
    feed.scatter()
    ingest = feed.monitor.ingest
    hear = MissingState.hear

    def noted(self: MissingState, topic_class: TopicClass, path: str) -> None:
        heard.append(path)
        hear(self, topic_class, path)

    monkeypatch.setattr(MissingState, "hear", noted)
    asked: dict[float, int] = {}
    for number in range(1, 33):
        feed.monitor.apply(feed.telemetry())
        assert (ingest.counts.undescribed, ingest.counts.lost) == (3 * number, 0)
        if due := ingest.missing.due(feed.clock.monotonic_s() + 0.001):
            asked[number / 2] = len(due)
        await feed.clock.advance(0.5)

    assert len(heard) < 3 * 8
    assert asked == {1.0: 3, 6.0: 3, 16.0: 3}
    # One whose descriptor comes is no longer only counted.
    ingest.apply(
        [*feed.announcements(list(feed.layout.instances[:1])), *feed.telemetry()],
        feed.clock.monotonic_s(),
        0,
    )
    assert (ingest.counts.undescribed, ingest.pending) == (96 + 2, 1)
    feed.monitor.lay_out()
    assert feed.monitor.counts.messages == 1
