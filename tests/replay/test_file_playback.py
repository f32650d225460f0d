"""Playback of a recording in memory: it shows the live monitor's state of then.

Whatever the way there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.playback_bench import (
    file_playback,
    mode_of,
    picture,
    played,
    playing,
    surveyed,
    turn,
)
from support.monitor.state import values_of

from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.monitor.replay.controls import Mode
from trnfleet.monitor.replay.past_monitor import PastMonitor
from trnfleet.monitor.replay.seeker import Survey
from trnfleet.monitor.store.gaps import Reason
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("_played_before")


async def test_a_file_plays_from_its_begin_and_shows_every_moment_as_it_was() -> None:
    async with playing() as (clock, playback):
        await turn(clock, 0.1)
        for second in (10, 25, 40):
            while playback.position_ns < played().at(second) - NS_PER_S // 2:
                await clock.advance(0.1)
            playback.pause()
            playback.seek(played().at(second))
            await turn(clock)
            assert playback.is_exact
            assert picture(playback.state.at) == played().known[played().at(second)]
            playback.play()
        assert mode_of(playback) is Mode.PLAYING


async def test_playing_takes_as_long_as_the_rate_says() -> None:
    async with playing(rate=4.0) as (clock, playback):
        await turn(clock, 1.0)
        before = playback.position_ns
        await turn(clock, 5.0)
        assert (playback.position_ns - before) / NS_PER_S == pytest.approx(20.0, abs=0.5)
        playback.slower()
        playback.slower()
        before = playback.position_ns
        await turn(clock, 5.0)
        assert (playback.position_ns - before) / NS_PER_S == pytest.approx(5.0, abs=0.2)
        assert playback.reached_rate == playback.rate == 1.0


@pytest.mark.parametrize("second", [3, 37, 60])
async def test_a_sought_place_is_what_it_was_alerts_and_all(second: int) -> None:
    async with playing() as (clock, playback):
        await surveyed(clock, playback)
        turn_before = playback.state.revision.source
        playback.seek(played().at(second))
        await turn(clock, 0.5)
        assert playback.state.revision.source > turn_before
        assert playback.position_ns == played().at(second)
        assert picture(playback.state.at) == played().known[played().at(second)]


async def test_a_place_that_was_not_looked_through_yet_shows_values_and_says_that_alerts_are_not_known(  # noqa: E501
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Survey, "run", _no_survey)
    async with playing() as (clock, playback):
        playback.pause()
        playback.seek(played().at(50))
        await turn(clock)
        assert picture(playback.state.at)[:2] == played().known[played().at(50)][:2]
        assert not playback.is_exact
        assert playback.state.incomplete == "loading"
        reasons = {gap.reason for gap in playback.state.history.gaps_since(0)}
        assert Reason.LOADING in reasons
        # Looked through to its end, without a snapshot to begin from: there is no more to come.
        playback.index.surveyed_ns = playback.end_ns
        assert playback.alerts_since_ns == played().at(50)
        assert playback.state.incomplete == f"since {format_rfc3339(played().at(50))[11:16]}"


async def test_events_and_alerts_are_loading_until_they_are_complete() -> None:
    """Loading from the request on, while the place or its past is on its way."""
    async with playing() as (clock, playback):
        playback.pause()
        assert playback.state.incomplete == "loading"
        await turn(clock)
        playback.seek(played().at(50))
        assert playback.state.incomplete == "loading"
        for _ in range(200):
            await clock.advance(0.02)
            if not playback.state.incomplete:
                break
        assert picture(playback.state.at) == played().known[played().at(50)]
        playback.seek(played().at(37))
        assert playback.state.incomplete == "loading"


async def _no_survey(_survey: Survey) -> None:
    return


async def test_marks_are_where_alerts_fired_and_can_be_jumped_to() -> None:
    async with playing() as (clock, playback):
        await surveyed(clock, playback)
        fired = [mark.time_ns for mark in playback.marks if mark.kind == "alert"]
        assert fired == played().alerts
        assert fired
        playback.go_start()
        await turn(clock)
        later = next(time_ns for time_ns in fired if time_ns > playback.start_ns)
        assert playback.next_mark(("alert",), 1)
        await turn(clock, 0.5)
        assert playback.position_ns == later
        firing = sum(alert.fired_ns is not None for alert in playback.state.alerts.active())
        playback.step(-1.0)
        await turn(clock, 0.5)
        assert sum(alert.fired_ns is not None for alert in playback.state.alerts.active()) < firing
        playback.go_start()
        await turn(clock)
        assert not playback.next_mark(("alert",), -1)
        assert "before" in playback.note


async def test_the_moment_of_an_alert_is_found_by_the_fleets_own_time() -> None:
    async with playing() as (clock, playback):
        await surveyed(clock, playback)
        playback.seek(played().at(60))
        await turn(clock, 0.5)
        alert = next(each for each in playback.state.alerts.active() if each.fired_ns is not None)
        assert alert.fired_ns is not None
        place = playback.moment_of(alert.fired_ns)
        assert place is not None
        assert abs(place - min(played().alerts, key=lambda each: abs(each - place))) <= NS_PER_S


async def test_at_its_end_a_file_stands_or_restarts() -> None:
    async with playing() as (clock, playback):
        await turn(clock, 0.1)
        playback.seek(playback.end_ns - NS_PER_S)
        await turn(clock, 3.0)
        assert mode_of(playback) is Mode.PAUSED
        assert playback.position_ns == playback.end_ns
        playback.play()
        await turn(clock, 1.0)
        assert mode_of(playback) is Mode.PLAYING
        assert playback.position_ns < played().at(2)
        playback.toggle_loop()
        playback.seek(playback.end_ns - NS_PER_S)
        await turn(clock, 3.0)
        assert mode_of(playback) is Mode.PLAYING
        assert playback.position_ns < played().at(4)


async def test_a_wish_overtakes_the_one_before() -> None:
    async with playing() as (clock, playback):
        playback.pause()
        for second in (55, 5, 50, 33):
            playback.seek(played().at(second))
        await turn(clock)
        assert playback.position_ns == played().at(33)
        assert values_of(playback.state.at) == played().known[played().at(33)][0]


async def test_a_file_that_is_shown_in_part_is_played_again_from_where_that_begins() -> None:
    async with playing(begin_ns=played().at(30), until_ns=played().at(35)) as (clock, playback):
        await turn(clock, 8.0)
        assert mode_of(playback) is Mode.PAUSED
        assert playback.position_ns == played().at(35)
        playback.play()
        await turn(clock, 1.0)
        assert played().at(30) <= playback.position_ns <= played().at(32)


async def test_going_back_from_mark_to_mark_gets_past_the_one_that_is_played_from() -> None:
    async with playing() as (clock, playback):
        await surveyed(clock, playback)
        places = sorted({mark.time_ns for mark in playback.marks})
        assert len(places) > 1
        playback.seek(places[-1] + NS_PER_S)
        await turn(clock)
        playback.play()
        for place in (places[-1], *reversed(places[:-1])):
            reached = playback.position_ns
            assert playback.next_mark(("alert", "resolved", "event"), -1)
            assert playback.position_ns <= place < reached
            if playback.position_ns == places[0]:
                break
            await turn(clock, 0.5)
            assert playback.position_ns > place - 3 * NS_PER_S
        assert mode_of(playback) is Mode.PLAYING


async def test_who_stands_still_in_the_midst_of_a_turn_stays_where_that_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock, loops=True)
    settle = PastMonitor.settle
    async with background(playback=playback.run()):
        await turn(clock, 0.2)
        playback.seek(playback.end_ns - NS_PER_S)
        await turn(clock, 0.2)

        def settle_late(past: PastMonitor) -> Iterator[None]:
            if past.position_ns >= playback.end_ns:
                playback.pause()
            yield from settle(past)

        monkeypatch.setattr(PastMonitor, "settle", settle_late)
        await turn(clock, 2.0)
        assert mode_of(playback) is Mode.PAUSED
        assert playback.position_ns == playback.end_ns
        assert values_of(playback.state.at) == played().known[playback.end_ns][0]


async def test_where_the_snapshot_is_gone_alerts_are_followed_from_there_on() -> None:
    async with playing() as (clock, playback):
        await surveyed(clock, playback)
        there = next(
            at_ns for at_ns, _ in reversed(playback.index.snapshots) if at_ns < played().at(50)
        )
        playback.index.snapshots = [each for each in playback.index.snapshots if each[0] == there]
        asked: list[int] = []
        snapshot = playback.index.snapshot

        def once(at_ns: int) -> Any:
            asked.append(at_ns)
            return snapshot(at_ns) if len(asked) == 1 else None

        playback.index.snapshot = once  # type: ignore[method-assign]
        playback.seek(there + 5 * NS_PER_S)
        await turn(clock, 0.5)
        assert len(asked) >= 2
        assert not playback.is_exact
        assert playback.state.at.evaluates_alerts
