from __future__ import annotations

import pytest
from support.monitor.alert_messages import BEGIN_NS
from support.monitor.watch_bench import Bench
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.domain.alerts.watches import MOST_ERRORS, NO_ERRORS, ReceiverError, ReceiverErrors
from trnfleet.errors import ConfigError
from trnfleet.export.election import LISTEN_S
from trnfleet.services.watch.receivers import make_receivers
from trnfleet.services.watch.service import Role
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.messages import PublisherMessage, WatchMessage, decode_message
from trnfleet.wire.topics import TopicClass


async def test_it_listens_before_it_leads() -> None:
    """No alert is published in the first seconds.

    Then firing and resolved ones are published, retained.
    """
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(LISTEN_S - 0.5, "a")
        assert bench.role() is Role.DISCONNECTED
        assert bench.states() == []
        await bench.pass_by(1, "a")
        assert bench.role() is Role.LEADER
        await bench.pass_by(1)
    assert bench.states() == ["firing", "resolved"]
    assert all(each.retain and each.qos == 1 for each in bench.sent(TopicClass.ALERT))
    assert bench.lines[-1] == "leader for demo"


async def test_a_standby_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is published while an older watch is online.

    At its last will all firing alerts are.
    """
    monkeypatch.setattr("trnfleet.services.watch.peers.FORGOTTEN_AFTER_S", 20.0)
    bench = Bench()
    await bench.say("watch-a", -10)
    async with running(bench.watch.run()):
        await bench.pass_by(5, "a")
        assert bench.role() is Role.STANDBY
        assert bench.states() == []
        await bench.say("watch-a", -10, "offline")
        await bench.pass_by(1, "a")
        assert bench.states() == ["firing"]
        await bench.say("watch-b", 10)
        assert bench.role() is Role.LEADER
        # What a dead watch has left is cleared after a while.
        await bench.pass_by(31, "a")
    cleared = [each for each in bench.sent(TopicClass.PUBLISHER) if not each.payload]
    assert {each.topic.rpartition("/")[2] for each in cleared} == {"watch-a"}


async def test_it_is_disconnected_while_a_connection_is_down() -> None:
    """Nothing is published without a broker.

    Back online, the watch first listens, then publishes every alert again.
    """
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(3, "a")
        assert bench.states() == ["firing"]
        bench.source.status.connected = False
        await bench.pass_by(1, "a", "b")
        assert bench.role() is Role.DISCONNECTED
        bench.source.status.connected = True
        bench.source.status.connects = 2
        await bench.pass_by(1, "a")
        assert bench.states() == ["firing"]
        await bench.pass_by(2, "a")
        assert bench.states() == ["firing", "firing"]


async def test_words_of_people_that_are_over_are_cleared() -> None:
    """An acknowledgement goes with its alert.

    Silences and acknowledgements go an hour after their end.
    """
    bench = Bench()
    begin = format_rfc3339(BEGIN_NS)
    end = format_rfc3339(BEGIN_NS + 60 * NS_PER_S)
    mine = fingerprint_of("demo", "down", "a")
    bench.write(AckMessage(fingerprint=mine, owner="ann", at=begin, until=end))
    bench.write(AckMessage(fingerprint="0" * 16, owner="ann", at=begin, until=end))
    bench.write(SilenceMessage(id="s-1", matchers=('a="b"',), starts=begin, until=end, who="ann"))
    async with running(bench.watch.run()):
        await bench.pass_by(3, "a")
        await bench.pass_by(1)
        assert [each.topic.rpartition("/")[2] for each in bench.sent(TopicClass.ACK)] == [mine]
        bench.clock.step_wall(3_600)
        await bench.pass_by(11)
        assert bench.sent(TopicClass.SILENCE) == []
        bench.clock.step_wall(60)
        await bench.pass_by(11)
        assert bench.sent(TopicClass.SILENCE)[0].payload == b""
        assert {each.topic.rpartition("/")[2] for each in bench.sent(TopicClass.ACK)} == {
            mine,
            "0" * 16,
        }


@pytest.mark.parametrize(
    ("exit_on", "ends"), [("critical", False), ("warning", True), ("info", True)]
)
async def test_the_severity_at_which_it_ends(exit_on: str, ends: bool) -> None:
    """An alert of at least that severity ends it.

    A silenced one does not.
    """
    bench = Bench(exit_on)
    begin = format_rfc3339(BEGIN_NS)
    end = format_rfc3339(BEGIN_NS + 60 * NS_PER_S)
    bench.alerts.silences.put_silence(
        SilenceMessage(
            id="s-1", matchers=('publisher="quiet"',), starts=begin, until=end, who="ann"
        )
    )
    async with running(bench.watch.run()):
        await bench.pass_by(3, "quiet")
        assert not bench.ending.asked
        await bench.pass_by(1, "quiet", "loud")
    assert (bench.ending.asked, bench.watch.found) == (ends, ends)


@pytest.mark.parametrize(
    ("exit_on", "connected", "after_s", "why"),
    [
        ("critical", True, 5.0, ""),
        ("critical", False, 5.0, "connection refused"),
        ("critical", True, 1.0, "a watch listens for 2 s before it sees any"),
        (None, False, 5.0, ""),
    ],
)
async def test_an_end_without_sight_is_told(
    exit_on: str | None, connected: bool, after_s: float, why: str
) -> None:
    """With `exit_on`, the end reports why no alert could be observed."""
    bench = Bench(exit_on)
    bench.source.status.connected = connected
    bench.source.status.last_error = "" if connected else "connection refused"
    async with running(bench.watch.run(after_s)):
        await bench.clock.advance(after_s + 0.5)
        assert bench.ending.asked
    assert bench.watch.blind == why


async def test_its_heartbeat_has_a_time() -> None:
    """Its presence has the wall time, at a change and every 10 s.

    Its last will has none.
    """
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(12)
    beats = [
        decode_message(each.payload, WatchMessage).ts for each in bench.sent(TopicClass.PUBLISHER)
    ]
    assert beats == [format_rfc3339(BEGIN_NS + at_ms * 1_000_000) for at_ms in (0, 2_100, 12_200)]
    assert decode_message(bench.identity.presence("offline").payload, WatchMessage).ts is None


async def test_the_leader_says_what_receivers_do_not_take() -> None:
    """Receiver errors are published with an immediate heartbeat, cut to the wire's limit.

    A standby publishes none.
    """
    errors = [ReceiverErrors.of(9, [ReceiverError("am", "silence", "s-1", "no\n" * 500)] * 9)]
    leader = Bench(receiver_errors=lambda: errors[0])
    standby = Bench(
        client="watch-z",
        beside=leader,
        since_ns=BEGIN_NS + NS_PER_S,
        receiver_errors=lambda: errors[0],
    )
    async with running(leader.watch.run()), running(standby.watch.run()):
        await leader.pass_by(4)
        told = decode_message(leader.sent(TopicClass.PUBLISHER)[-1].payload, WatchMessage)
        assert (told.leads, told.errors, len(told.receiver_errors)) == (True, 9, MOST_ERRORS)
        assert told.receiver_errors[0].reason.startswith("no\\u000ano")
        assert len(told.receiver_errors[0].reason) == 256
        assert (told.receiver_errors[0].kind, told.receiver_errors[0].id) == ("silence", "s-1")
        count = len(leader.sent(TopicClass.PUBLISHER))
        errors[0] = NO_ERRORS
        await leader.clock.advance(1.5)
        told = decode_message(leader.sent(TopicClass.PUBLISHER)[count].payload, WatchMessage)
        assert (told.errors, told.receiver_errors) == (0, ())
        assert len(leader.sent(TopicClass.PUBLISHER)) == count + 1
    for beat in standby.sent(TopicClass.PUBLISHER):
        assert decode_message(beat.payload, WatchMessage).errors is None


async def test_it_leaves_nothing_of_its_presence() -> None:
    """At the end it is neither online nor offline: its message is cleared."""
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(3)
    async with running(bench.watch.leave()):
        await bench.clock.advance(2)
    last, cleared = bench.sent(TopicClass.PUBLISHER)[-2:]
    assert decode_message(last.payload, PublisherMessage).state == "offline"
    assert cleared.payload == b""


def test_receivers_are_named_by_their_kind() -> None:
    """The first of a kind has its name, the next ones a number.

    More than 16 are refused.
    """
    clock = ManualClock()
    made = make_receivers(["http://a", "http://b"], ["http://c"], ["true"], clock, stdout=True)
    assert [each.name for each in made] == [
        "stdout",
        "alertmanager",
        "alertmanager-2",
        "webhook",
        "exec",
    ]
    with pytest.raises(ConfigError, match="17 receivers: at most 16"):
        make_receivers([], ["http://c"] * 17, [], clock, stdout=False)
