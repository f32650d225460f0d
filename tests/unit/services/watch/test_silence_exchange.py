"""Silences exchanged with an Alertmanager in memory, ended on either side, never twice."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.monitor.alert_messages import BEGIN_NS
from support.monitor.silence_bench import FINGERPRINT, Bench
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.monitor.alerting.operator import withdrawn_silence
from trnfleet.services.watch.silence_exchange import POLLED_EVERY_S, SilenceMode
from trnfleet.wire.alerts import AckMessage


async def test_ours_is_there_and_ends_there() -> None:
    """A silence is passed on at once with its fleet and owner.

    Its new end follows, and it ends with the original.
    """
    bench = Bench()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        bench.silence()
        await bench.clock.advance(2)
        ((silence_id, there),) = bench.there.alive().items()
        assert there["matchers"] == [
            {"name": "fleet", "value": "demo", "isRegex": False, "isEqual": True},
            {"name": "publisher", "value": "a|b", "isRegex": True, "isEqual": True},
        ]
        assert (there["createdBy"], there["comment"]) == (
            "ann",
            "swap [trnfleet demo silence s-1 1]",
        )
        bench.silence(7_200, revision=2)
        await bench.clock.advance(2)
        assert list(bench.there.alive()) == [silence_id]
        assert bench.there.alive()[silence_id]["endsAt"] == format_rfc3339(
            BEGIN_NS + 7_203 * NS_PER_S
        )
        bench.silences.put_silence(withdrawn_silence(bench.silences.silence("s-1"), "ann"))
        await bench.clock.advance(2)
        assert bench.there.alive() == {}
        assert [each.id for each in bench.silences.known] == []


async def test_the_end_is_the_fleets_time_on_the_wall_clock() -> None:
    """At 60 times the speed, a fleet hour is a minute there.

    An hour there is 60 hours here.
    """
    bench = Bench(speed=60.0)
    bench.silence()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
        (own,) = [each for name, each in bench.there.alive().items() if name != theirs]
        assert abs(parse_rfc3339(own["endsAt"]) - BEGIN_NS - 60 * NS_PER_S) < NS_PER_S
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        assert abs(taken.ends_ns - BEGIN_NS // 2 - 60 * 3_600 * NS_PER_S) < 60 * NS_PER_S
        before = len(bench.published)
        await bench.clock.advance(3 * POLLED_EVERY_S)
        assert len(bench.published) == before
        assert bench.there.requests.count("POST") == 1


@pytest.mark.parametrize("skew_s", [3_600.0, -3_600.0])
async def test_silences_go_by_alertmanagers_own_clock(skew_s: float) -> None:
    """Clocks an hour apart neither shorten nor end a silence on either side.

    Nothing is written again.
    """
    bench = Bench()
    bench.there.ahead_s = skew_s
    async with running(bench.exchange.run()):
        bench.silence(600)
        theirs = bench.there.add(value="other", lasts_s=600)
        await bench.clock.advance(2 * POLLED_EVERY_S + 1)
        ours = next(each for name, each in bench.there.silences.items() if name != theirs)
        assert (
            abs(parse_rfc3339(ours["endsAt"]) - BEGIN_NS - (600 + skew_s) * NS_PER_S)
            <= 2 * NS_PER_S
        )
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        assert abs(taken.ends_ns - BEGIN_NS - 600 * NS_PER_S) <= 2 * NS_PER_S
        # Our clock is set wrong, and right again: the fleet's time goes on.
        for step_s in (skew_s, -skew_s):
            bench.clock.step_wall(step_s)
            bench.wall_ahead_s += step_s
            await bench.clock.advance(2 * POLLED_EVERY_S)
            assert bench.silences.silence("s-1") is not None
            assert bench.silences.silence(f"alertmanager-{theirs}") is not None
        assert bench.there.requests.count("POST") == 1
        bench.there.expire(theirs)
        await bench.clock.advance(POLLED_EVERY_S + 1)
        assert bench.silences.silence(f"alertmanager-{theirs}") is None
        bench.there.expire(next(iter(bench.there.alive())))
        await bench.clock.advance(POLLED_EVERY_S + 1)
        assert bench.status() is AlertStatus.FIRING


async def test_an_acknowledgement_is_a_silence_of_its_alert() -> None:
    """It is there while the alert fires, and ends with it."""
    bench = Bench()
    until = format_rfc3339(BEGIN_NS + 3_600 * NS_PER_S)
    ack = AckMessage(
        fingerprint=FINGERPRINT, owner="ann", at=format_rfc3339(BEGIN_NS), until=until, revision=1
    )
    bench.silences.put_ack(ack)
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        (there,) = bench.there.alive().values()
        assert {each["name"]: each["value"] for each in there["matchers"]} == {
            "fleet": "demo",
            "alertname": "down",
            "target": "a",
        }
        bench.alert.state = AlertState.RESOLVED
        await bench.clock.advance(2 * POLLED_EVERY_S)
        assert bench.there.alive() == {}


async def test_neither_a_restart_nor_another_watch_writes_it_twice() -> None:
    """A silence is found again by its comment.

    Of two watches' copies one is left.
    """
    bench = Bench(count=2)
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
    ((silence_id, there),) = bench.there.alive().items()
    bench.there._put({key: each for key, each in there.items() if key != "id"})
    assert len(bench.there.alive()) == 2
    async with running(bench.made().run()):
        await bench.clock.advance(20)
    assert list(bench.there.alive()) == [silence_id]
    assert bench.silences.count() == (0, 1)


async def test_ours_that_is_ended_there_ends_here() -> None:
    """An expired copy ends the silence here.

    A copy that only ran out is written again.
    """
    bench = Bench()
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        (silence_id,) = bench.there.alive()
        lapsed = bench.there.silences[silence_id]
        lapsed["endsAt"] = format_rfc3339(bench.clock.wall_ns() + NS_PER_S)
        await bench.clock.advance(POLLED_EVERY_S)
        (silence_id,) = bench.there.alive()
        assert bench.silences.count() == (0, 1)
        bench.there.expire(silence_id)
        await bench.clock.advance(POLLED_EVERY_S + 1)
    assert bench.silences.is_withdrawn("s-1")
    assert bench.there.alive() == {}
    assert bench.published[-1][1].who == "alertmanager"


async def test_theirs_counts_here_until_it_ends_there() -> None:
    """A foreign silence hides alerts here with its owner and origin.

    It stays while nothing answers, and goes when it is expired.
    """
    bench = Bench()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        assert (taken.whose, taken.why, taken.not_applied) == ("bob at alertmanager", "known", "")
        assert bench.status() is AlertStatus.SILENCED
        bench.there.answer = httpx.ConnectError("no")
        await bench.clock.advance(3 * POLLED_EVERY_S)
        assert bench.status() is AlertStatus.SILENCED
        bench.there.answer = None
        bench.there.expire(theirs)
        await bench.clock.advance(POLLED_EVERY_S + 1)
        assert bench.status() is AlertStatus.FIRING
        assert list(bench.silences.known) == []


async def test_theirs_that_is_ended_here_ends_there() -> None:
    """An operator's `silence expire` ends it on both sides."""
    bench = Bench()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        bench.silences.put_silence(withdrawn_silence(taken, "ann"))
        await bench.clock.advance(3)
    assert bench.there.alive() == {}
    assert bench.silences.is_withdrawn(taken.id)


@pytest.mark.parametrize(
    ("matcher", "why"),
    [
        ({"name": "pod", "value": "x"}, "no alert here has the label pod"),
        ({"name": "publisher", "value": "a{1001}", "isRegex": True}, "invalid repetition size"),
        ({"name": "publisher", "value": "[a", "isRegex": True}, "not a valid regular expression"),
        ({"name": "publisher", "value": "a\x1b[31m"}, "characters that do not show"),
        ({"name": "publisher", "value": "a" * 4_000}, "at most 4,000"),
        ({"name": "fleet", "value": " " * 500_000, "isEqual": False}, "at most 4,000"),
    ],
)
async def test_what_has_no_equivalent_is_shown_and_hides_nothing(
    matcher: dict[str, Any], why: str
) -> None:
    """It is published with the reason, and with matchers unknown to older readers."""
    bench = Bench()
    alike = {"name": "alertname", "value": "down", "isRegex": False, "isEqual": True}
    matchers = [alike, {"isRegex": False, "isEqual": True, **matcher}]
    theirs = bench.there.add(matchers=matchers, createdBy="b\x1bb")
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
    taken = bench.silences.silence(f"alertmanager-{theirs}")
    assert why in taken.not_applied
    assert taken.who == "b\\u001bb"
    assert bench.status() is AlertStatus.FIRING
    assert not any(
        each.matches(bench.alert.labels) and each.label != "alertname" for each in taken.matchers
    )


async def test_what_is_about_another_fleet_is_left_out() -> None:
    """Its own copies and those of other fleets are not shown."""
    bench = Bench()
    bench.there.add("fleet", "other")
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
    assert bench.published == []


@pytest.mark.parametrize(
    "answer",
    [b"{}", b"[", b"[" * 100_000, b"[1, {}, null]", b'"' + b"x" * 5_000_000 + b'"', b"\xff"],
)
async def test_nonsense_ends_nothing(answer: bytes) -> None:
    """An invalid or too long answer keeps the earlier silences.

    The next good one counts.
    """
    bench = Bench()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        if answer != b"[1, {}, null]":
            bench.there.answer = answer
            await bench.clock.advance(POLLED_EVERY_S + 1)
            assert bench.status() is AlertStatus.SILENCED
        else:
            bench.there.silences["bad"] = {
                "endsAt": format_rfc3339(BEGIN_NS),
                "startsAt": format_rfc3339(BEGIN_NS),
            }
            await bench.clock.advance(POLLED_EVERY_S + 1)
            assert bench.status() is AlertStatus.SILENCED
        bench.there.answer = None
        bench.there.silences.pop("bad", None)
        bench.there.expire(theirs)
        await bench.clock.advance(POLLED_EVERY_S + 1)
        assert bench.status() is AlertStatus.FIRING


@pytest.mark.parametrize(
    ("mode", "requests"), [(SilenceMode.READ, {"GET"}), (SilenceMode.OFF, set())]
)
async def test_modes(mode: SilenceMode, requests: set[str]) -> None:
    """Read writes nothing there, off does not even ask."""
    bench = Bench(mode=mode)
    bench.silence(matchers=('publisher="z"',))
    bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
    assert set(bench.there.requests) == requests
    assert (bench.status() is AlertStatus.SILENCED) is (mode is SilenceMode.READ)


async def test_a_standby_asks_for_nothing() -> None:
    """Only the leader exchanges silences."""
    bench = Bench()
    bench.leads = False
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(20)
    assert bench.there.requests == []
