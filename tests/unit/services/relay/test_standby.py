"""Relays of one cell: one is active, the others are on standby.

A standby takes over when the active one is gone, and yields to a better one.
"""

from __future__ import annotations

import msgspec
import pytest
from support.monitor.alert_messages import alert_message, fingerprint
from support.monitor.queue_source import QueueSource
from support.monitor.relays import Relay, Top

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.relays import GONE_S
from trnfleet.errors import BrokerError
from trnfleet.export.election import LISTEN_S, UNHEARD_S
from trnfleet.monitor.reachability.times import OVERLOAD_GAP_S
from trnfleet.services.relay.passed import SETTLED_S
from trnfleet.services.relay.role import PERIOD_S, Role, TopLinks
from trnfleet.services.relay.run import OVERLOADED_FROM_S
from trnfleet.tasks import POLL_S
from trnfleet.wire.alerts import AckMessage, CellAlertMessage
from trnfleet.wire.messages import REPEAT_S, WatchMessage, decode_message, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic, parse_topic


async def two() -> tuple[Top, Relay, Relay]:
    """Return an active relay and one on standby."""
    top = Top()
    first = await top.join("relay-b")
    await top.run(LISTEN_S + 0.5)
    second = await top.join("relay-a", began_s=-3_600.0)
    await top.run(LISTEN_S + 0.5)
    return top, first, second


async def test_of_two_relays_the_first_publishes_and_the_other_waits() -> None:
    """The first relay publishes, even if the later one's clock is an hour behind.

    The standby publishes only its presence.
    """
    top, first, second = await two()
    assert (first.role, second.role) == (Role.ACTIVE, Role.STANDBY)
    assert top.publishing() == {"relay-b"}
    assert {
        parse_topic(each.topic).topic_class for name, each in top.sent if name == "relay-a"
    } == {TopicClass.PUBLISHER}
    assert second.said == ["standby: relay-b is active"]
    assert second.service.role.text == "standby of relay-b"


async def test_a_relay_takes_no_part_before_it_has_read_all_that_has_come() -> None:
    """The heartbeat of an active relay may be among the waiting messages."""
    top = Top()
    relay = await top.join("relay-a")
    roles = []
    for waiting, seconds in ((1, LISTEN_S + PERIOD_S), (0, POLL_S)):
        relay.status.waiting = waiting
        await top.run(seconds)
        roles.append(relay.role)
    assert roles == [Role.LISTENING, Role.ACTIVE]


async def overload(relay: Relay, seconds: float) -> None:
    """Let time pass while a relay drops telemetry of its cell."""
    for _ in range(round(seconds / POLL_S)):
        relay.feed.monitor.link.shed += 1
        relay.feed.monitor.compute()
        await relay.top.run(POLL_S)


async def test_a_relay_that_cannot_keep_up_leaves_the_cell_to_one_that_can() -> None:
    """Telemetry dropped by an overloaded relay is not a state of the hosts."""
    _, first, second = await two()
    await overload(first, OVERLOADED_FROM_S + 2 * PERIOD_S)
    assert (first.role, second.role) == (Role.STANDBY, Role.ACTIVE)
    assert first.said[-1] == "standby: relay-a is active, which hears the cell; this relay does not"


async def test_a_relay_that_cannot_keep_up_publishes_no_rollups() -> None:
    """The cell of an overloaded relay is not observed, except for its alerts.

    A moment of overload does not count. Afterwards it publishes again.
    """
    top = Top()
    relay = await top.join("relay-a")
    await top.run(LISTEN_S + 0.5)
    since = len(top.sent)
    await overload(relay, OVERLOADED_FROM_S - PERIOD_S)
    assert top.publishing(since) == {"relay-a"}
    await overload(relay, 2 * PERIOD_S)
    since = len(top.sent)
    alert(relay, 1)
    await overload(relay, 10.0)
    assert (top.publishing(since), list(passed(top))) == (set(), [f"cell-a/{fingerprint(1)}"])
    assert not relay.service.sees_cell
    await top.run(OVERLOAD_GAP_S + PERIOD_S)
    assert top.publishing(since) == {"relay-a"}


async def test_the_standby_takes_over_at_the_last_will() -> None:
    """The standby takes over within two tenths of a second after the last will.

    It publishes the retained messages and last events, and clears the dead relay's messages.
    """
    top, first, second = await two()
    event = Envelope(build_topic("demo", TopicClass.EVENT, "fleet"), b"{}", qos=1)
    job = Envelope(build_topic("demo", TopicClass.JOB, "pretrain"), b"{}", qos=1, retain=True)
    since = len(top.sent)
    await second.service.pass_on(QueueSource([job, event], []))
    assert len(top.sent) == since
    await top.kill(first)
    assert top.presence() == {"relay-a", "relay-b"}
    await top.run(2 * POLL_S)
    assert second.role is Role.ACTIVE
    assert second.said[-1] == "active: relay-a publishes cell cell-a, takes over from relay-b"
    topics = [each.topic for name, each in top.sent[since:] if name == "relay-a"]
    assert {job.topic, event.topic} <= set(topics)
    await top.run(PERIOD_S)
    assert top.publishing(since) == {"relay-a"}
    assert top.presence() == {"relay-a"}


async def test_the_standby_takes_over_where_nothing_is_heard() -> None:
    """After four missed heartbeats a host is gone, even if the broker has not noticed.

    Its message is cleared a minute later.
    """
    top, first, second = await two()
    await top.kill(first, will=False)
    await top.run(GONE_S - 1.0)
    assert not second.service.role.is_active
    await top.run(1.5)
    assert second.service.role.text == "active"
    assert top.presence() == {"relay-a", "relay-b"}
    third = await top.join("relay-c")
    await top.run(REPEAT_S)
    assert (second.role, third.role) == (Role.ACTIVE, Role.STANDBY)
    await top.kill(second)
    await top.run(2.0)
    assert (third.role, top.presence()) == (Role.ACTIVE, {"relay-c"})


async def test_a_stopped_relay_that_comes_back_steps_down() -> None:
    """It publishes nothing before it has listened, and stays on standby although it began first."""
    top, first, second = await two()
    first.is_stopped = True
    await top.run(GONE_S + 1.0)
    assert second.role is Role.ACTIVE
    since = len(top.sent)
    first.is_stopped = False
    await top.run(10.0)
    assert (first.role, second.role) == (Role.STANDBY, Role.ACTIVE)
    assert top.publishing(since) == {"relay-a"}
    assert first.said[-2].startswith("did not run for 5 s: publishes nothing")
    assert first.said[-1] == "standby: relay-a is active"


async def test_a_relay_that_does_not_hear_its_cell_leaves_it_to_one_that_does() -> None:
    """A relay without its cell yields, and does not take it back later.

    If none has a connection to the cell, nothing changes.
    """
    top, first, second = await two()
    for relay in (second, first):
        relay.feed.monitor.link.connected = False
        await top.run(3.0)
    assert (first.role, second.role) == (Role.ACTIVE, Role.STANDBY)
    second.feed.monitor.link.connected = True
    await top.run(3.0)
    assert (first.role, second.role) == (Role.STANDBY, Role.ACTIVE)
    first.feed.monitor.link.connected = True
    await top.run(3.0)
    assert (first.role, second.role) == (Role.STANDBY, Role.ACTIVE)


async def test_an_ordered_end_leaves_one_message_at_most() -> None:
    """A standby leaves nothing; an active relay leaves an offline message.

    A monitor that begins later sees it, until another relay takes over.
    """
    top, first, second = await two()
    await top.publish("relay-a", second.service.farewell())
    top.relays.remove(second)
    assert top.presence() == {"relay-b"}
    await top.publish("relay-b", first.service.farewell())
    top.relays.remove(first)
    (left,) = (payload for topic, payload in top.retained.items() if "/publisher/" in topic)
    message = decode_message(left, WatchMessage)
    assert (message.state, message.role, message.cell) == ("offline", "relay", "cell-a")
    third = await top.join("relay-c")
    await top.run(LISTEN_S + PERIOD_S + 0.5)
    assert (third.role, top.presence()) == (Role.ACTIVE, {"relay-c"})


async def test_a_relay_that_may_not_hear_others_ends() -> None:
    """It would publish beside another without knowing; the error names what it has to read."""
    top = Top()
    await top.join("relay-a")
    top.unheard = "relay-a"
    with pytest.raises(BrokerError, match="has to read trnfleet/v1/demo/publisher/cell-a/#"):
        await top.run(UNHEARD_S + LISTEN_S)
    assert top.publishing() == set()


@pytest.mark.parametrize("boot", [b"boot-relay-x", b"boot-relay-b"])
async def test_descriptors_are_those_of_the_active_relay(boot: bytes) -> None:
    """Another relay's brief descriptors are replaced.

    Blocks missing in the cell are cleared, of any publisher.
    """
    top, first, _ = await two()
    (topic,) = (each for each in top.retained if "/node/" in each)
    other = topic.replace("0000", "0001")
    strange = top.retained[topic].replace(b"boot-relay-b", boot)
    await top.publish(
        "relay-x", [Envelope(each, strange, 1, retain=True) for each in (topic, other)]
    )
    await top.run(PERIOD_S + 0.5)
    assert (first.role, b"boot-relay-b" in top.retained[topic], other in top.retained) == (
        Role.ACTIVE,
        True,
        False,
    )


async def test_a_watch_of_the_cell_is_passed_on_with_its_cell() -> None:
    """A watch is passed on with its cell.

    A watch on the top is so not its standby.

    Telemetry publishers keep their names.
    """
    top, first, _ = await two()
    publisher = build_topic("demo", TopicClass.PUBLISHER, "")
    watch = WatchMessage(client="watch-1", state="online", boot="b", role="watch", leads=True)
    host = msgspec.structs.replace(watch, client="host-1", role="telemetry")
    batch = [
        Envelope(publisher + each.client, encode_message(each), 1, retain=True)
        for each in (watch, host)
    ]
    await first.service.pass_on(QueueSource(batch, []))
    passed = decode_message(top.retained[publisher + "cell-a/watch-1"], WatchMessage)
    assert (passed.client, passed.cell, passed.leads) == ("watch-1", "cell-a", True)
    assert publisher + "host-1" in top.retained
    gone = [each._replace(payload=b"") for each in batch]
    await first.service.pass_on(QueueSource(gone, []))
    assert top.presence() == {"relay-a", "relay-b"}


def alert(relay: Relay, number: int, *, clears: bool = False) -> None:
    """Let the monitor of a relay's cell take an alert of the cell's watch."""
    message = alert_message(number)
    payload = b"" if clears else encode_message(message)
    topic = build_topic("demo", TopicClass.ALERT, message.fingerprint)
    relay.feed.monitor.apply([Envelope(topic, payload, 1, retain=True)])


def passed(top: Top) -> dict[str, CellAlertMessage]:
    """Return the cell's alerts on the top broker, by the end of their topic."""
    return {
        topic.partition("/alert/")[2]: decode_message(payload, CellAlertMessage)
        for topic, payload in top.retained.items()
        if "/alert/" in topic
    }


async def test_alerts_of_the_cell_are_passed_on_below_its_name() -> None:
    """Each change once, with who acknowledged it in the cell; a cleared one is cleared."""
    top, first, _ = await two()
    alert(first, 1)
    alert(first, 2)
    await top.run(PERIOD_S + 0.1)
    assert [(path, each.cell, each.ack) for path, each in sorted(passed(top).items())] == [
        (f"cell-a/{fingerprint(number)}", "cell-a", None) for number in (1, 2)
    ]
    since = len(top.sent)
    now_ns = first.feed.monitor.moment().time_ns
    ack = AckMessage(
        fingerprint=fingerprint(1),
        owner="ana",
        note="on it",
        at=format_rfc3339(now_ns),
        until=format_rfc3339(now_ns + 5 * NS_PER_S),
    )
    topic = build_topic("demo", TopicClass.ACK, ack.fingerprint)
    first.feed.monitor.apply([Envelope(topic, encode_message(ack), 1, retain=True)])
    alert(first, 2, clears=True)
    await top.run(2 * PERIOD_S)
    (left,) = passed(top).values()
    assert left.ack is not None
    assert (left.fingerprint, left.ack.who, left.ack.why) == (fingerprint(1), "ana", "on it")
    await top.run(6.0)
    assert passed(top)[f"cell-a/{fingerprint(1)}"].ack is None
    assert sum("/alert/" in each.topic for _, each in top.sent[since:]) == 3


async def test_one_that_takes_over_publishes_the_alerts_and_clears_what_is_over() -> None:
    """Alerts that ended while no relay ran are cleared only after enough time.

    The relay must have received its cell by then.
    """
    top, first, second = await two()
    alert(first, 1)
    alert(first, 2)
    alert(second, 1)
    await top.run(PERIOD_S + 0.1)
    for relay in (first, second):
        relay.feed.monitor.link.connected = False
    await top.run(PERIOD_S)
    await top.kill(first)
    second.feed.monitor.link.connected = True
    since = len(top.sent)
    await top.run(SETTLED_S - 2.0)
    assert set(passed(top)) == {f"cell-a/{fingerprint(number)}" for number in (1, 2)}
    assert {name for name, each in top.sent[since:] if "/alert/" in each.topic} == {"relay-a"}
    await top.run(4.0)
    assert set(passed(top)) == {f"cell-a/{fingerprint(1)}"}


async def test_a_top_broker_that_has_lost_all_gets_it_again() -> None:
    """Descriptors, alerts and passed messages are sent again after the relay has listened."""
    top, first, _ = await two()
    alert(first, 1)
    await top.run(PERIOD_S + 0.1)
    before = set(top.retained)
    top.relays = [first]
    first.status.connected = False
    await top.run(1.0)
    top.retained.clear()
    first.status.connected = True
    first.status.connects = 2
    await top.run(LISTEN_S - 0.5)
    assert not passed(top)
    await top.run(PERIOD_S + 1.0)
    assert set(top.retained) == {each for each in before if not each.endswith("/relay-a")}


async def test_what_many_publishers_retain_goes_out_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retained messages go out between heartbeats, each in its present state."""
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_AT_ONCE", 2)
    top, first, second = await two()
    job = Envelope(build_topic("demo", TopicClass.JOB, ""), b"old", qos=1, retain=True)
    jobs = [job._replace(topic=f"{job.topic}{number}") for number in range(5)]
    await second.service.pass_on(QueueSource(jobs, []))
    await top.kill(first)

    def seen() -> dict[str, bytes]:
        return {topic[-1]: payload for topic, payload in top.retained.items() if "/job/" in topic}

    await top.run(POLL_S)
    assert sorted(seen()) == ["0", "1"]
    changes = [
        jobs[4]._replace(payload=b"new"),
        jobs[3]._replace(payload=b""),
        jobs[0]._replace(payload=b"new"),
    ]
    await second.service.pass_on(QueueSource(changes, []))
    await top.run(3 * POLL_S)
    assert seen() == {"0": b"new", "1": b"old", "2": b"old", "4": b"new"}


async def test_a_storm_of_alerts_goes_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alert storm does not delay heartbeats and roll-ups."""
    monkeypatch.setattr("trnfleet.services.relay.passed.MOST_AT_ONCE", 2)
    top, first, _ = await two()
    for number in range(5):
        alert(first, number)
    counts = []
    for _ in range(3):
        await top.run(PERIOD_S)
        counts.append(len(passed(top)))
    assert counts == [2, 4, 5]
    first.feed.monitor.ingest.alert_messages.clear()
    await top.run(PERIOD_S)
    assert len(passed(top)) == 3


async def test_one_connection_that_is_back_brings_the_others() -> None:
    """Each has its own wait for the next attempt.

    They try once for each connection made, not repeatedly.
    """
    top, first, second = await two()
    links = TopLinks(first, second)
    before = second.hurries
    links.look()
    first.status.connected = False
    assert not links.look().is_up
    first.status.connected, first.status.connects = True, first.status.connects + 1
    for _ in range(3):
        assert links.look().is_up
    assert second.hurries == before + 2
    await top.run(PERIOD_S)
