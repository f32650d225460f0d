"""Acknowledgements and silences lost by a broker are restored, but not if withdrawn."""

from __future__ import annotations

import msgspec
import pytest
from support.monitor.alert_messages import BEGIN_NS
from support.monitor.watch_bench import Bench
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.messages import decode_message
from trnfleet.wire.topics import TopicClass

BEGIN, END = format_rfc3339(BEGIN_NS), format_rfc3339(BEGIN_NS + 3_600 * NS_PER_S)
A, B = fingerprint_of("demo", "down", "a"), fingerprint_of("demo", "down", "b")
SILENCE = SilenceMessage(
    id="s-1", matchers=('a="b"',), starts=BEGIN, until=END, who="ann", revision=1
)
SHORT = format_rfc3339(BEGIN_NS + NS_PER_S // 1_000)
TOMBSTONE = msgspec.structs.replace(SILENCE, until=SHORT, revision=2, withdrawn_until=END)
ACK = AckMessage(fingerprint=A, owner="ann", at=BEGIN, until=END, revision=1)


async def test_a_broker_that_forgets_has_them_again() -> None:
    """The leader restores silences, and acknowledgements of firing alerts.

    It first reads the existing ones.
    """
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(4, "a")
        bench.write(SILENCE)
        bench.write(ACK)
        bench.write(msgspec.structs.replace(ACK, fingerprint=B))
        await bench.pass_by(1, "a")
        bench.reconnect(forgets=True)
        await bench.pass_by(1, "a")
        assert bench.retained(TopicClass.SILENCE) == {}
        await bench.pass_by(3, "a")
        assert list(bench.retained(TopicClass.SILENCE)) == ["s-1"]
        assert list(bench.retained(TopicClass.ACK)) == [A]
        assert "restored 2 acknowledgements and silences that the broker had lost" in bench.lines
        before = len(bench.sent(TopicClass.SILENCE))
        bench.reconnect()
        await bench.pass_by(4, "a")
        assert len(bench.sent(TopicClass.SILENCE)) == before


async def test_a_standby_restores_nothing() -> None:
    """Only the leader writes."""
    bench = Bench()
    await bench.say("watch-a", -10)
    async with running(bench.watch.run()):
        await bench.pass_by(4)
        bench.write(SILENCE)
        bench.reconnect(forgets=True)
        await bench.say("watch-a", -10)
        await bench.pass_by(4)
        assert bench.retained(TopicClass.SILENCE) == {}


@pytest.mark.parametrize("forgets", [False, True])
async def test_what_was_withdrawn_while_it_was_away_stays_withdrawn(forgets: bool) -> None:
    """A reconnecting watch restores nothing over a withdrawal, and stores that instead.

    This holds for the only watch and for one of two.
    """
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(4)
        bench.write(SILENCE)
        await bench.pass_by(1)
        bench.source.status.connected = False
        bench.peers.disconnect()
        await bench.pass_by(1)
        if forgets:
            bench.bus.disconnect()
        bench.bus.deliver(bench.identity.envelope(TopicClass.SILENCE, "s-1", TOMBSTONE))
        bench.source.status.connected = True
        bench.reconnect()
        await bench.pass_by(5)
        assert (
            decode_message(bench.retained(TopicClass.SILENCE)["s-1"], SilenceMessage) == TOMBSTONE
        )
        # The broker forgets once more: now the watch knows of the withdrawal, and restores that.
        bench.reconnect(forgets=True)
        await bench.pass_by(5)
        assert (
            decode_message(bench.retained(TopicClass.SILENCE)["s-1"], SilenceMessage) == TOMBSTONE
        )


async def test_an_old_copy_is_overruled() -> None:
    """Any better informed watch withdraws a republished silence again."""
    bench = Bench()
    await bench.say("watch-a", -10)
    async with running(bench.watch.run()):
        await bench.pass_by(4)
        bench.write(SILENCE)
        bench.write(TOMBSTONE)
        bench.bus.deliver(bench.identity.envelope(TopicClass.SILENCE, "s-1", SILENCE))
        await bench.say("watch-a", -10)
        await bench.pass_by(10)
        assert (
            decode_message(bench.retained(TopicClass.SILENCE)["s-1"], SilenceMessage) == TOMBSTONE
        )


async def test_a_tombstone_stays_until_the_end_that_the_silence_would_have_had() -> None:
    """A withdrawal is cleared an hour after the silence's end, not after its own."""
    bench = Bench()
    async with running(bench.watch.run()):
        await bench.pass_by(4)
        bench.write(SILENCE)
        bench.write(TOMBSTONE)
        bench.clock.step_wall(7_100)
        await bench.pass_by(11)
        assert list(bench.retained(TopicClass.SILENCE)) == ["s-1"]
        bench.clock.step_wall(200)
        await bench.pass_by(11)
        assert bench.retained(TopicClass.SILENCE) == {}
