"""What a relay keeps and clears of its cell: within limits, and nothing that may go on where the relay cannot know it."""

from __future__ import annotations

import pytest
from support.monitor.alert_messages import fingerprint
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.queue_source import QueueSource
from support.monitor.relays import Top

from trnfleet.domain.layout import Layout
from trnfleet.export.election import LISTEN_S
from trnfleet.services.relay.alerts import SETTLED_S, PassedAlerts
from trnfleet.services.relay.ended import ended_of
from trnfleet.services.relay.passed import (
    CLEARED_KEPT_S,
    ENTRY_BYTES,
    EVENTS_KEPT_S,
    MOST_EVENTS,
    PassedMessages,
)
from trnfleet.services.relay.role import RelayIdentity
from trnfleet.services.relay.run import PERIOD_S
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import JobMessage, WatchMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

IDENTITY = RelayIdentity("demo", DEFAULT_ROOT, "cell-a", "relay-a", "b")


def job(name: str, payload: bytes = b"{}") -> Envelope:
    """Return a job's message."""
    return Envelope(build_topic("demo", TopicClass.JOB, name), payload, qos=1, retain=True)


def watch(name: str, cell: str | None = None) -> Envelope:
    """Return the presence of a watch of the cell, with its name as the top broker has it."""
    message = WatchMessage(
        client=name, state="online", boot="b", role="watch", leads=True, cell=cell
    )
    topic = build_topic("demo", TopicClass.PUBLISHER, name)
    return Envelope(topic, encode_message(message), qos=1, retain=True)


async def test_a_watch_that_ended_while_no_relay_ran_is_cleared_on_the_top() -> None:
    """Else each command that asks the top for alerts would take the cell for watched; one that goes on stays."""
    top = Top()
    topics = {
        name: IDENTITY.topic(TopicClass.PUBLISHER, f"cell-a/{name}") for name in ("gone", "there")
    }
    top.retained |= {topic: watch(name, "cell-a").payload for name, topic in topics.items()}
    relay = await top.join("relay-a")
    await relay.service.pass_on(QueueSource([watch("there")], []))
    await top.run(SETTLED_S - 1.0)
    assert set(topics.values()) <= set(top.retained)
    await top.run(LISTEN_S + PERIOD_S)
    assert set(topics.values()) & set(top.retained) == {topics["there"]}


@pytest.mark.parametrize("withheld", [False, True])
async def test_what_a_broker_may_withhold_is_not_cleared_on_the_top(*, withheld: bool) -> None:
    """An alert that only the top has is over once the cell was heard, unless the cell's broker retains for no wildcard."""
    feed = Feed(ultraservers(1))
    feed.monitor.link.retained_exactly = int(withheld)
    passed = PassedAlerts(IDENTITY)
    passed.note_top(fingerprint(1), b"{}")
    passed.hear(feed.clock.monotonic_s(), sees_cell=True)
    await feed.clock.advance(SETTLED_S)
    cleared = [each.topic.rpartition("/")[2] for each in passed.changes(feed.monitor)]
    assert cleared == ([] if withheld else [fingerprint(1)])


def test_names_count_as_much_as_what_is_kept_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million jobs of two bytes do not fit because their messages are short; what is cleared gives its room back."""
    room = 2 * (ENTRY_BYTES + len(job("a").topic) + 2)
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_KEPT_BYTES", room)
    passed = PassedMessages(IDENTITY)
    assert len(passed.take([job("a"), job("b"), job("c")], 0.0)) == 3
    passed.begin(0.0)
    assert passed.next_owed() == [job("a"), job("b")]
    passed.take([job("a", b""), job("d")], 0.0)
    passed.begin(0.0)
    assert passed.next_owed() == [job("a", b""), job("b"), job("d")]


def test_what_is_cleared_between_two_relays_is_cleared_by_the_next() -> None:
    """Else a job that ended then would stay on the top; what is there again is not cleared, nor what another relay has cleared long ago."""
    passed = PassedMessages(IDENTITY)
    passed.take([job("a"), job("b"), job("c")], 0.0)
    passed.take([job("a", b""), job("b", b""), job("b")], 1.0)
    passed.begin(2.0)
    assert passed.next_owed() == [job("a", b""), job("c"), job("b")]
    passed.note_other(1.0 + CLEARED_KEPT_S)
    passed.begin(2.0)
    assert job("a", b"") in passed.next_owed()
    passed.note_other(1.0 + CLEARED_KEPT_S + 1.0)
    passed.begin(2.0)
    assert passed.next_owed() == [job("c"), job("b")]


def test_only_the_last_events_are_passed_on_by_the_next_relay() -> None:
    """However many of them come, nothing that was cleared is forgotten for them."""
    passed = PassedMessages(IDENTITY)
    event = Envelope(build_topic("demo", TopicClass.EVENT, "fleet"), b"{}", qos=1)
    passed.take([job("a", b"")], 0.0)
    passed.take([event] * 2 * MOST_EVENTS, 1.0)
    assert passed.begin(1.0) == [event] * MOST_EVENTS
    assert passed.next_owed() == [job("a", b"")]
    assert passed.begin(1.0 + EVENTS_KEPT_S + 1.0) == []


def test_of_what_was_cleared_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one that was cleared long ago is cleared again."""
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_CLEARED", 2)
    passed = PassedMessages(IDENTITY)
    passed.take([job(name, b"") for name in ("a", "b", "a", "c")], 0.0)
    passed.begin(0.0)
    assert passed.next_owed() == [job("a", b""), job("c", b"")]


async def test_what_is_cleared_while_the_top_broker_is_away_is_cleared_when_it_is_back() -> None:
    """However long it was away: the relay has heard of it, and nobody else says so. What the top broker has got is not sent again."""
    top = Top()
    relay = await top.join("relay-a")
    await top.run(LISTEN_S + PERIOD_S)
    await relay.service.pass_on(QueueSource([job("a"), job("b")], []))
    await relay.service.pass_on(QueueSource([job("a", b"")], []))
    relay.status.connected = False
    await top.run(PERIOD_S)
    await relay.service.pass_on(QueueSource([job("b", b"")], []))
    await top.run(2 * CLEARED_KEPT_S)
    assert job("b").topic in top.retained
    since = len(top.sent)
    relay.status.connected, relay.status.connects = True, 2
    await top.run(LISTEN_S + PERIOD_S)
    assert job("b").topic not in top.retained
    assert job("a").topic not in {each.topic for _, each in top.sent[since:]}


async def test_what_the_top_broker_does_not_take_is_cleared_when_it_is_back() -> None:
    """A connection may be half open: it counts as standing until the broker has acknowledged nothing for a while."""
    top = Top()
    relay = await top.join("relay-a")
    await top.run(LISTEN_S + PERIOD_S)
    await relay.service.pass_on(QueueSource([job("a")], []))
    relay.is_half_open, published = True, (relay.service.frames, relay.service.passed_on)
    await relay.service.pass_on(QueueSource([job("a", b"")], []))
    await top.run(2 * EVENTS_KEPT_S)
    assert published == (relay.service.frames, relay.service.passed_on) != (0, 0)
    assert job("a").topic in top.retained
    relay.is_half_open, relay.status.connects = False, 2
    await top.run(LISTEN_S + PERIOD_S)
    assert job("a").topic not in top.retained


def test_no_more_watches_are_passed_on_than_a_monitor_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those beyond the limit are left out; one that is known goes on, and one that is gone makes room."""
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_WATCHES", 2)
    passed = PassedMessages(IDENTITY)
    assert len(passed.take([watch("a"), watch("b"), watch("c"), watch("a")], 0.0)) == 3
    assert len(passed.take([watch("b")._replace(payload=b""), watch("c")], 0.0)) == 2


async def test_names_that_somebody_makes_up_on_the_top_take_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Descriptors and alerts below the cell's name: of more than there may be no further ones are kept."""
    monkeypatch.setattr("trnfleet.services.relay.run.MOST_LEFT", 2)
    monkeypatch.setattr("trnfleet.services.relay.alerts.DEFAULT_LIMITS", Limits(alerts=2))
    top = Top()
    await top.join("relay-a")
    await top.run(LISTEN_S + PERIOD_S)
    (topic, payload) = next(each for each in top.retained.items() if "/node/" in each[0])
    strange = payload.replace(b"boot-relay-a", b"boot-relay-x")
    made_up = [
        Envelope(topic.replace("0000", f"{number:04}"), strange, 1, retain=True)
        for number in range(1, 5)
    ]
    alerts = [
        Envelope(
            IDENTITY.topic(TopicClass.ALERT, f"cell-a/{fingerprint(number)}"), b"{}", 1, retain=True
        )
        for number in range(4)
    ]
    await top.publish("relay-x", [*made_up, *alerts])
    since = len(top.sent)
    await top.run(SETTLED_S + LISTEN_S)
    cleared = [each.topic for _, each in top.sent[since:] if each.retain and not each.payload]
    assert sorted(cleared) == sorted(each.topic for each in (*made_up[:2], *alerts[:2]))


def test_what_other_cells_may_have_a_part_of_is_not_cleared_on_the_top() -> None:
    """Cells share clusters: what runs on all of one, or on its standalone instances, may be another cell's."""
    places = {
        "cluster": "uc1",
        "segment": "uc1/standalone",
        "ultraserver": "uc1/us-0001",
        "range": "uc1/us-0001..us-0002",
        "instance": "uc1/standalone/trn2-0001",
        "elsewhere": "uc1/us-0003",
    }
    found = [
        job(
            name,
            encode_message(
                JobMessage(
                    job=name, kind="training", state="running", ts="2026-01-05T09:00:00Z", on=(on,)
                )
            ),
        )
        for name, on in places.items()
    ]
    layout = Layout.of([*ultraservers(2), *standalone(1)])
    cleared = ended_of(found, [job("range").topic], layout, DEFAULT_ROOT)
    assert cleared == [job("ultraserver", b""), job("instance", b"")]
