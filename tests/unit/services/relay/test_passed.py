"""A relay's stored and cleared messages, within limits.

It clears nothing that may still be active.
"""

from __future__ import annotations

from sys import getsizeof

import pytest
from support.monitor.alert_messages import fingerprint
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.queue_source import QueueSource
from support.monitor.relays import Top

from trnfleet.domain.layout import Layout
from trnfleet.export.election import LISTEN_S
from trnfleet.services.relay.clearings import ended_of
from trnfleet.services.relay.passed import (
    EVENTS_KEPT_S,
    MOST_AT_ONCE,
    SETTLED_S,
    PassedAlerts,
    PassedMessages,
)
from trnfleet.services.relay.role import PERIOD_S, RelayIdentity
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import REPEAT_S, JobMessage, WatchMessage, encode_message, with_cell
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

IDENTITY = RelayIdentity("demo", DEFAULT_ROOT, "cell-a", "relay-a", "b")


def job(name: str, payload: bytes = b"{}") -> Envelope:
    """Return a job's message."""
    return Envelope(build_topic("demo", TopicClass.JOB, name), payload, qos=1, retain=True)


def named(name: str) -> Envelope:
    """Return a job's message as the top broker gets it."""
    return job(name, with_cell(job(name).payload, "cell-a"))


def watch(name: str, cell: str | None = None) -> Envelope:
    """Return a cell watch's presence, under its name on the top broker."""
    message = WatchMessage(
        client=name, state="online", boot="b", role="watch", leads=True, cell=cell
    )
    topic = build_topic("demo", TopicClass.PUBLISHER, name)
    return Envelope(topic, encode_message(message), qos=1, retain=True)


async def test_a_watch_that_ended_while_no_relay_ran_is_cleared_on_the_top() -> None:
    """A former watch is cleared on the top; its cell does not count as watched.

    An active watch stays.
    """
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
    """An alert only on the top ends after some time connected to the cell.

    It stays if the cell's broker returns nothing retained to wildcards.
    """
    feed = Feed(ultraservers(1))
    feed.monitor.link.withheld = int(withheld)
    passed = PassedAlerts(IDENTITY)
    passed.note_top(fingerprint(1), b"{}")
    passed.hear(feed.clock.monotonic_s(), sees_cell=True)
    await feed.clock.advance(SETTLED_S)
    cleared = [each.topic.rpartition("/")[2] for each in passed.changes(feed.monitor)]
    assert cleared == ([] if withheld else [fingerprint(1)])


def test_names_count_as_much_as_what_is_kept_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million jobs of two bytes exceed the limit by their names.

    Clearing frees memory.
    """
    room = 2 * sum(map(getsizeof, (named("a"), named("a").topic, named("a").payload)))
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_KEPT_BYTES", room)
    passed = PassedMessages(IDENTITY)
    assert len(passed.take([job("a"), job("b"), job("c")], 0.0)) == 3
    passed.begin(0.0)
    assert passed.next_owed() == [named("a"), named("b")]
    passed.take([job("a", b""), job("d")], 0.0)
    passed.begin(0.0)
    assert passed.next_owed() == [job("a", b""), named("b"), named("d")]


def test_what_is_cleared_between_two_relays_is_cleared_by_the_next() -> None:
    """A job that ended between two relays does not stay on the top.

    A new one, or one cleared long ago by another relay, is not cleared.
    """
    passed = PassedMessages(IDENTITY)
    passed.take([job("a"), job("b"), job("c")], 0.0)
    passed.take([job("a", b""), job("b", b""), job("b")], 1.0)
    passed.begin(2.0)
    assert passed.next_owed() == [job("a", b""), named("c"), named("b")]
    passed.note_other(1.0 + REPEAT_S)
    passed.begin(2.0)
    assert job("a", b"") in passed.next_owed()
    passed.note_other(1.0 + REPEAT_S + 1.0)
    passed.begin(2.0)
    assert passed.next_owed() == [named("c"), named("b")]


def test_only_the_last_events_are_passed_on_by_the_next_relay() -> None:
    """However many events arrive, no clearing is forgotten."""
    passed = PassedMessages(IDENTITY)
    event = Envelope(build_topic("demo", TopicClass.EVENT, "fleet"), b"{}", qos=1)
    passed.take([job("a", b"")], 0.0)
    passed.take([event] * 2 * MOST_AT_ONCE, 1.0)
    sent = event._replace(payload=with_cell(event.payload, "cell-a"))
    assert passed.begin(1.0) == [sent] * MOST_AT_ONCE
    assert passed.next_owed() == [job("a", b"")]
    assert passed.begin(1.0 + EVENTS_KEPT_S + 1.0) == []


def test_of_what_was_cleared_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest clearings stay, even if an old one is cleared again."""
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_TOPICS", 2)
    passed = PassedMessages(IDENTITY)
    passed.take([job(name, b"") for name in ("a", "b", "a", "c")], 0.0)
    passed.begin(0.0)
    assert passed.next_owed() == [job("a", b""), job("c", b"")]


async def test_what_is_cleared_while_the_top_broker_is_away_is_cleared_when_it_is_back() -> None:
    """A clearing is sent once the top broker is back, however long that takes.

    Only this relay knows of it. Messages confirmed by the top broker are not repeated.
    """
    top = Top()
    relay = await top.join("relay-a")
    await top.run(LISTEN_S + PERIOD_S)
    await relay.service.pass_on(QueueSource([job("a"), job("b")], []))
    await relay.service.pass_on(QueueSource([job("a", b"")], []))
    relay.status.connected = False
    await top.run(PERIOD_S)
    await relay.service.pass_on(QueueSource([job("b", b"")], []))
    await top.run(2 * REPEAT_S)
    assert job("b").topic in top.retained
    since = len(top.sent)
    relay.status.connected = True
    relay.status.connects = 2
    await top.run(LISTEN_S + PERIOD_S)
    assert job("b").topic not in top.retained
    assert job("a").topic not in {each.topic for _, each in top.sent[since:]}


async def test_what_the_top_broker_does_not_take_is_cleared_when_it_is_back() -> None:
    """A half-open connection counts as up until acknowledgements are overdue."""
    top = Top()
    relay = await top.join("relay-a")
    await top.run(LISTEN_S + PERIOD_S)
    await relay.service.pass_on(QueueSource([job("a")], []))
    relay.is_half_open, published = True, (relay.service.frames, relay.service.passed_on)
    await relay.service.pass_on(QueueSource([job("a", b"")], []))
    await top.run(2 * EVENTS_KEPT_S)
    assert published == (relay.service.frames, relay.service.passed_on) != (0, 0)
    assert job("a").topic in top.retained
    relay.is_half_open = False
    relay.status.connects = 2
    await top.run(LISTEN_S + PERIOD_S)
    assert job("a").topic not in top.retained


def test_no_more_watches_are_passed_on_than_a_monitor_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Watches beyond the limit are left out.

    A known one continues, a former one makes room.
    """
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_WATCHES", 2)
    passed = PassedMessages(IDENTITY)
    assert len(passed.take([watch("a"), watch("b"), watch("c"), watch("a")], 0.0)) == 3
    assert len(passed.take([watch("b")._replace(payload=b""), watch("c")], 0.0)) == 2


async def test_names_that_somebody_makes_up_on_the_top_take_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of stored descriptors and alerts below the cell's name is limited."""
    monkeypatch.setattr("trnfleet.services.relay.run.MOST_TOPICS", 2)
    monkeypatch.setattr("trnfleet.services.relay.passed.DEFAULT_LIMITS", Limits(alerts=2))
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
    """A job on a whole cluster, or its standalone instances, may be another cell's.

    Cells share clusters.
    """
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
    cleared = ended_of(found, [job("range").topic], layout, "cell-a", DEFAULT_ROOT)
    assert cleared == [job("ultraserver", b""), job("instance", b"")]
    for cell, count in (("cell-a", len(found) - 1), ("cell-b", 0)):
        origin = [each._replace(payload=with_cell(each.payload, cell)) for each in found]
        cleared = ended_of(origin, [job("range").topic], layout, "cell-a", DEFAULT_ROOT)
        assert len(cleared) == count
