"""Leader election with special watches.

One mutes the others, one claims to be old, two begin together, and one was away.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from support.monitor.alert_messages import BEGIN_NS
from support.monitor.watch_bench import Bench
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.export.alertmanager import AlertmanagerReceiver
from trnfleet.export.http import HttpTarget
from trnfleet.export.receiver import Receiver
from trnfleet.services.watch.service import Role
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.messages import WatchMessage, decode_message
from trnfleet.wire.ports import RefusedMessage
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.export.notification import Notification


class AlertmanagerInMemory:
    """An Alertmanager with what it does to alerts."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.receivers: list[AlertmanagerReceiver] = []
        self._ends: dict[str, tuple[dict[str, str], int]] = {}

    def receiver(self) -> AlertmanagerReceiver:
        """Return a new receiver that sends to it."""
        transport = httpx.MockTransport(self._handle)
        self.receivers.append(
            AlertmanagerReceiver(
                "alertmanager", HttpTarget("http://am:9093"), self.clock, transport=transport
            )
        )
        return self.receivers[-1]

    def firing(self) -> set[str]:
        return {each["target"] for each in self._active()}

    def _active(self) -> list[dict[str, str]]:
        return [labels for labels, ends_ns in self._ends.values() if ends_ns > self.clock.wall_ns()]

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            for each in json.loads(request.content):
                self._ends[str(each["labels"])] = each["labels"], parse_rfc3339(each["endsAt"])
            return httpx.Response(200)
        if request.url.path.endswith("/alerts"):
            return httpx.Response(200, json=[{"labels": each} for each in self._active()])
        return httpx.Response(200, json={"uptime": format_rfc3339(BEGIN_NS - NS_PER_S)})


class Outlet(Receiver):
    """A receiver that delivers at once."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        super().__init__(name, clock)
        self.targets: list[str] = []

    def notify(self, notifications: Sequence[Notification]) -> int:
        for notification in notifications:
            self.targets.append(notification.message.labels["target"])
            self.confirm(notification)
        return len(notifications)

    async def run(self) -> None:
        """Do nothing: all is delivered."""


YEARS_S = 35 * 365 * 86_400.0


async def mute(bench: Bench, seconds: int, *firing: str) -> None:
    """Let time pass with an older watch that publishes no alerts.

    It claims an age of 35 years, and sends a heartbeat every 5 s.
    """
    for _ in range(seconds // 5):
        await bench.say("evil", -YEARS_S, leads=True)
        await bench.pass_by(4.6, *firing)


async def test_a_leader_that_publishes_nothing_mutes_for_half_a_minute() -> None:
    """An alert unpublished for 30 s makes a standby the leader.

    It reports this and stays the leader.
    """
    bench = Bench()
    await bench.say("evil", -YEARS_S)
    async with running(bench.watch.run()):
        await mute(bench, 25, "a")
        assert (bench.role(), bench.states()) == (Role.STANDBY, [])
        await mute(bench, 15, "a")
        assert (bench.role(), bench.states()) == (Role.LEADER, ["firing"])
        assert (
            "leader for demo: evil led and did not publish down a for 30 s; it is replaced until it"
            " starts again" in bench.lines
        )
        await mute(bench, 120, "a", "b")
        assert bench.role() is Role.LEADER
        assert bench.states() == ["firing", "firing"]


async def test_what_a_leader_need_not_publish_is_not_held_against_it() -> None:
    """Silenced and published alerts do not change the leader."""
    bench = Bench()
    begin = format_rfc3339(BEGIN_NS)
    end = format_rfc3339(BEGIN_NS + 3_600 * NS_PER_S)
    bench.write(
        SilenceMessage(id="s-1", matchers=('publisher="a"',), starts=begin, until=end, who="ann")
    )
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    async with running(bench.watch.run(), other.watch.run()):
        for _ in range(12):
            await other.pass_by(2, "b")
            await bench.pass_by(2, "a", "b")
        assert (bench.role(), other.role()) == (Role.STANDBY, Role.LEADER)


async def turn(
    other: Bench, bench: Bench, rounds: int, seen_there: str = "", seen_here: str = "a"
) -> None:
    """Let both watches evaluate in turns, each with alerts of its own."""
    for _ in range(rounds):
        await other.pass_by(2, *seen_there)
        await bench.pass_by(2, *seen_here)


async def test_a_replaced_leader_stays_back() -> None:
    """It steps back at once, because its successor publishes all that fires there.

    It stays on standby when it publishes again, and nothing is resolved meanwhile.
    """
    bench = Bench()
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    async with running(bench.watch.run(), other.watch.run()):
        await turn(other, bench, 6)
        assert (bench.role(), other.role()) == (Role.STANDBY, Role.LEADER)
        await turn(other, bench, 6)
        assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)
        assert other.lines[-2:] == [
            "watch-m also claims to lead demo; it started later or was replaced",
            "standby: watch-m leads",
        ]
        for _ in range(40):
            await turn(other, bench, 1, "a")
            assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)
    assert other.states() == []
    assert set(bench.states()) == {"firing"}


async def test_a_replaced_leader_goes_on_until_all_is_published() -> None:
    """What only one of two watches sees is published and ended by it.

    The replaced one steps back once the other publishes that, too.
    """
    bench = Bench()
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    only_there = fingerprint_of("demo", "down", "b")
    async with running(bench.watch.run(), other.watch.run()):
        await turn(other, bench, 12, "bx", "ax")
        for _ in range(20):
            await turn(other, bench, 1, "bx", "ax")
            assert (bench.role(), other.role()) == (Role.LEADER, Role.LEADER)
            assert {message.state for message in bench.told.values()} == {"firing"}
            assert bench.told[only_there].watch == "watch-a"
        await turn(other, bench, 2, "bx", "abx")
        assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)
        await turn(other, bench, 8, "bx", "abx")
        assert {message.state for message in bench.told.values()} == {"firing"}
        assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)


async def test_a_leader_does_not_repeat_the_word_of_its_successor() -> None:
    """Alerts known only from another leader are left to it: neither published nor ended."""
    bench = Bench()
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    name = fingerprint_of("demo", "down", "a")
    async with running(bench.watch.run(), other.watch.run()):
        await turn(other, bench, 12, "b")
        for number in range(60):
            # It adopts the alert, does not see it for some seconds, and ends it.
            if number % 4 == 0:
                other.alerts.remember(other.told[name])
            await turn(other, bench, 1, "ab" if number % 4 < 2 else "b")
            assert (bench.role(), other.role()) == (Role.LEADER, Role.LEADER)
            assert other.told[name].watch == "watch-m"
    assert set(other.states()) == set(bench.states()) == {"firing"}


async def test_what_a_replaced_leader_leaves_is_ended_by_its_successor() -> None:
    """A silenced alert that fires only for the former leader does not stay published."""
    bench = Bench()
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    begin = format_rfc3339(BEGIN_NS)
    end = format_rfc3339(BEGIN_NS + 3_600 * NS_PER_S)
    other.write(
        SilenceMessage(id="s-1", matchers=('publisher="b"',), starts=begin, until=end, who="ann")
    )
    async with running(bench.watch.run(), other.watch.run()):
        await turn(other, bench, 6, "b")
        assert {message.state for message in bench.told.values()} == {"firing"}
        await turn(other, bench, 7, "b")
        assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)
        states = {message.labels["target"]: message.state for message in bench.told.values()}
        assert states == {"a": "firing", "b": "resolved"}


async def test_a_successor_that_fails_is_replaced_in_turn() -> None:
    """The former leader leads again once its successor does not publish what fires."""
    bench = Bench()
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    async with running(bench.watch.run(), other.watch.run()):
        for _ in range(3):
            await turn(other, bench, 12, "", "a")
            assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)
            await turn(bench, other, 12, "", "a")
            assert (bench.role(), other.role()) == (Role.STANDBY, Role.LEADER)


async def test_one_of_two_on_standby_replaces_a_leader() -> None:
    """The next in rank leads, and has half a minute of its own to publish what fires."""
    bench = Bench()
    leader = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    later = Bench(client="watch-z", beside=bench, since_ns=BEGIN_NS + NS_PER_S)
    async with running(bench.watch.run(), leader.watch.run(), later.watch.run()):
        for _ in range(20):
            for watch, seen in ((leader, ""), (later, "a"), (bench, "a")):
                await watch.pass_by(1, *seen)
                assert later.role() is not Role.LEADER
    assert (bench.role(), leader.role(), later.role()) == (Role.LEADER, Role.STANDBY, Role.STANDBY)
    assert (set(bench.states()), leader.states(), later.states()) == ({"firing"}, [], [])


async def test_two_sound_leaders_do_not_both_notify() -> None:
    """A leader that was muted for a while leaves all notifications to its successor."""
    clock = ManualClock(BEGIN_NS, 100.0)
    outlets = [Outlet("stdout", clock), Outlet("stdout", clock)]
    bench = Bench(clock=clock, receivers=outlets[:1])
    other = Bench(
        client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S, receivers=outlets[1:]
    )
    async with running(bench.watch.run(), other.watch.run()):
        await turn(other, bench, 6, "x", "x")
        other.publisher.is_heard = False
        while bench.role() is Role.STANDBY:
            await turn(other, bench, 1, "ax", "ax")
        other.publisher.is_heard = True
        await turn(other, bench, 2, "ax", "ax")
        assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)
        await turn(other, bench, 4, "axyz", "axyz")
    assert [outlet.targets for outlet in outlets] == [["a", "y", "z"], ["x", "a"]]


async def test_nobody_gets_old_in_a_moment() -> None:
    """A new watch that claims to be older than the leader does not replace it."""
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(40, "a")
        for _ in range(12):
            await mute(bench, 5, "a", "b")
            assert bench.role() is Role.LEADER
        assert set(bench.states()) == {"firing"}
        assert "evil also claims to lead demo; it started later or was replaced" in bench.lines
        for _ in range(12):
            await mute(bench, 5)
            assert bench.role() is Role.LEADER


async def test_a_retained_message_is_no_heartbeat() -> None:
    """A dead watch's message leaves it in doubt for 12 s.

    A live watch answers a newcomer within the first second.
    """
    bench = Bench()
    await bench.say("watch-a", -10)
    bench.reconnect()
    async with running(bench.watch.run()):
        await bench.pass_by(8, "a")
        assert bench.role() is Role.STANDBY
        await bench.pass_by(5, "a")
        assert bench.role() is Role.LEADER
        beats = len(bench.sent(TopicClass.PUBLISHER))
        await bench.say("watch-z", 12)
        await bench.clock.advance(1.0)
        assert len(bench.sent(TopicClass.PUBLISHER)) == beats + 1
        beat = decode_message(bench.sent(TopicClass.PUBLISHER)[-1].payload, WatchMessage)
        assert (beat.leads, beat.firing) == (True, 1)


async def test_two_that_begin_together_agree() -> None:
    """With the same beginning, to the millisecond, the client id decides for both alike."""
    for shift_ns in (0, 400_000):
        bench = Bench(since_ns=BEGIN_NS + shift_ns)
        other = Bench(client="watch-z", beside=bench, since_ns=BEGIN_NS + 500_000 - shift_ns)
        async with running(bench.watch.run(), other.watch.run()):
            await bench.pass_by(4)
            assert (bench.role(), other.role()) == (Role.LEADER, Role.STANDBY)


async def test_after_a_restart_of_the_broker_they_agree_as_before() -> None:
    """After all watches were away, the former leader leads."""
    bench = Bench()
    other = Bench(client="watch-a", beside=bench, since_ns=BEGIN_NS - NS_PER_S)
    async with running(bench.watch.run(), other.watch.run()):
        await bench.pass_by(4)
        assert (bench.role(), other.role()) == (Role.STANDBY, Role.LEADER)
        for each in (bench, other):
            each.reconnect(forgets=True)
        bench.peers.connect()
        await bench.pass_by(4)
        assert (bench.role(), other.role()) == (Role.STANDBY, Role.LEADER)


@pytest.mark.parametrize("age_s", [20, 600])
async def test_who_was_away_ranks_behind_who_leads_now(age_s: int) -> None:
    """An older watch that returns finds a leader and goes to standby, for both alike."""
    old = Bench(client="watch-a", since_ns=BEGIN_NS - age_s * NS_PER_S)
    bench = Bench(beside=old)
    async with running(bench.watch.run()):
        await bench.pass_by(4, "a")
        assert bench.role() is Role.LEADER
        old.peers.disconnect()
        old.peers.connect()
        async with running(old.watch.run()):
            await old.pass_by(4, "a")
            assert (bench.role(), old.role()) == (Role.LEADER, Role.STANDBY)
            await bench.pass_by(15, "a")
            assert (bench.role(), old.role()) == (Role.LEADER, Role.STANDBY)
            assert old.states() == []


@pytest.mark.parametrize("answers", [True, False])
async def test_who_was_away_hears_the_leader_also_where_it_missed_an_answer(answers: bool) -> None:
    """A watch that announces itself before reading others is answered again.

    Without any answer it yields at the next heartbeat.
    """
    old = Bench(client="watch-a", since_ns=BEGIN_NS - 20 * NS_PER_S)
    bench = Bench(beside=old)
    async with running(bench.watch.run()):
        await bench.pass_by(4, "a")
        assert bench.role() is Role.LEADER
        old.peers.disconnect()
        await old.publisher.publish([old.identity.presence("online", old.clock.wall_ns())])
        await bench.pass_by(1, "a")
        old.peers.connect()
        await bench.clock.advance(1)
        bench.publisher.is_heard = answers
        async with running(old.watch.run()):
            await old.pass_by(4, "a")
            bench.publisher.is_heard = True
            assert old.role() is (Role.STANDBY if answers else Role.LEADER)
            await bench.pass_by(10, "a")
            await old.pass_by(1, "a")
            assert (bench.role(), old.role()) == (Role.LEADER, Role.STANDBY)


async def test_what_ends_while_its_leader_is_away_stays_ended() -> None:
    """A leader cut off over an alert's end leaves nothing firing.

    This holds at Alertmanager, in its published alerts, and after its return.
    """
    there = AlertmanagerInMemory(ManualClock(BEGIN_NS, 100.0))
    old = Bench(since_ns=BEGIN_NS - NS_PER_S, clock=there.clock, receivers=[there.receiver()])
    bench = Bench(client="watch-z", beside=old, receivers=[there.receiver()])
    async with running(
        *(each.run() for each in there.receivers), old.watch.run(), bench.watch.run()
    ):
        for _ in range(3):
            await old.pass_by(1, "a", "b")
            await bench.pass_by(1, "a", "b")
        assert (old.role(), bench.role()) == (Role.LEADER, Role.STANDBY)
        assert there.firing() == {"a", "b"}
        old.publisher.is_heard = old.source.status.connected = False
        old.peers.disconnect()
        await bench.say("watch-m", -1, "offline")
        for second in range(200):
            await bench.pass_by(1, *("ab" if second < 20 else "b"))
            assert bench.role() is Role.LEADER
            assert there.firing() == ({"a", "b"} if second < 20 else {"b"}), second
        old.publisher.is_heard = old.source.status.connected = True
        old.reconnect()
        for _ in range(20):
            await old.pass_by(1, "b")
            await bench.pass_by(1, "b")
            assert there.firing() == {"b"}
        assert (old.role(), bench.role()) == (Role.STANDBY, Role.LEADER)
        assert {each.labels["target"] for each in old.told.values() if each.state == "firing"} == {
            "b"
        }


async def test_alerts_that_somebody_clears_are_published_again() -> None:
    """A leader republishes an alert cleared or resolved by another within some seconds."""
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(4, "a")
        assert bench.states() == ["firing"]
        bench.told.pop(fingerprint_of("demo", "down", "a"))
        for _ in range(6):
            await bench.pass_by(2, "a")
        assert bench.states() == ["firing", "firing"]


async def test_a_watch_that_may_not_write_ends() -> None:
    """A refusal of the broker ends it with the reason."""
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(1)
        assert bench.watch.refusal == ""
        bench.publisher.status.last_refusal = RefusedMessage(
            "trnfleet/v1/demo/alert/x", "not authorised"
        )
        await bench.pass_by(1)
        assert bench.ending.asked
    assert bench.watch.refusal == "the broker refuses trnfleet/v1/demo/alert/x: not authorised"


async def test_a_watch_that_does_not_hear_itself_never_leads() -> None:
    """A watch without its own heartbeat would receive no other watch.

    It ends and names the topics it has to read.
    """
    bench = Bench()
    bench.publisher.is_heard = False
    async with running(bench.watch.run()):
        await bench.pass_by(14, "a")
        assert (bench.role(), bench.watch.refusal) == (Role.DISCONNECTED, "")
        await bench.pass_by(2, "a")
        assert bench.ending.asked
    assert (
        bench.watch.refusal
        == "its own heartbeat does not come back within 15 s; a watch has to read"
        " trnfleet/v1/demo/publisher/#"
    )
    assert bench.states() == []


async def test_a_watch_that_no_longer_hears_itself_waits() -> None:
    """After a reconnect it reports this once, and takes part again once it receives itself."""
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(4, "a")
        bench.publisher.is_heard = False
        bench.reconnect()
        await bench.pass_by(20, "a")
        assert (bench.role(), bench.ending.asked) == (Role.DISCONNECTED, False)
        assert (
            sum(line.startswith("no notifications: its own heartbeat") for line in bench.lines) == 1
        )
        bench.publisher.is_heard = True
        await bench.pass_by(11, "a")
    assert bench.lines[-1] == "leader for demo"
