"""The playback on a recording in memory: what is shown is what the live monitor knew then, however one came there."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.monitor.alert_run import AlertRun
from support.monitor.state import alerts_of, rollups_of, values_of
from support.record.memory_recording import KeyframedRecording

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.monitor import PASS_EVERY_S, Monitor
from trnfleet.monitor.replay.controls import Mode
from trnfleet.monitor.replay.past_monitor import PastMonitor
from trnfleet.monitor.replay.playback import RecordingPlayback
from trnfleet.monitor.replay.seeker import Survey
from trnfleet.services.files.rules import load_rules
from trnfleet.tasks import background
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any

    from trnfleet.clock import Clock
    from trnfleet.monitor.store.history import History
    from trnfleet.wire.ports import Source

SECONDS = 61
RULES = load_rules()


class Played(NamedTuple):
    """A run with what its monitor knew at every tick."""

    recording: KeyframedRecording
    fleet: str
    known: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]
    alerts: list[int]
    """Times at which an alert fired."""

    def at(self, second: int) -> int:
        """Return the recording's time of a second of the run."""
        return self.recording.start_ns + second * NS_PER_S


@functools.cache
def played() -> Played:
    """Play a scenario once for all tests."""
    recording = KeyframedRecording()
    run = AlertRun("game-day", tap=recording.put)
    known: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
    alerts: list[int] = []

    def note() -> None:
        now_ns = run.clock.wall_ns()
        known[now_ns] = picture(run.monitor)
        alerts.extend(
            now_ns
            for each in run.monitor.alerts.history
            if each.at_ns == run.monitor.alerts.instant.now_ns and each.kind == "firing"
        )

    run.on_tick = note
    asyncio.run(_play(run))
    return Played(recording, run.monitor.fleet_name, known, alerts)


@pytest.fixture(scope="module", autouse=True)
def _played_before() -> None:
    """Play it before any test has a loop."""
    played()


async def _play(run: AlertRun) -> None:
    await run.play(SECONDS)


def picture(monitor: Monitor) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return all that is compared of a monitor."""
    return values_of(monitor), rollups_of(monitor), alerts_of(monitor)


def maker(fleet: str) -> Callable[[Source, Clock, History | None], Monitor]:
    """Return what makes the playback's monitors."""

    def make(source: Source, clock: Clock, history: History | None) -> Monitor:
        return Monitor(source, fleet, clock=clock, rules=RULES, history=history)

    return make


def file_playback(clock: ManualClock, **options: Any) -> RecordingPlayback:
    """Return the playback of a finished recording."""
    return RecordingPlayback(
        played().recording, maker(played().fleet), clock=clock, name="a recording", **options
    )


def mode_of(playback: RecordingPlayback) -> Mode:
    """Return what is shown: a property changes while one waits, which type checkers don't expect."""
    return playback.mode


async def turn(clock: ManualClock, seconds: float = 0.2) -> None:
    """Let the playback have its turns."""
    await clock.advance(seconds)


async def surveyed(clock: ManualClock, playback: RecordingPlayback) -> None:
    """Let the playback look through all of its file, standing still."""
    playback.pause()
    for _ in range(200):
        await clock.advance(0.1)
        if playback.surveyed_ns >= playback.end_ns and playback.is_exact:
            return
    pytest.fail("the file was not looked through")


async def test_a_file_plays_from_its_begin_and_shows_every_moment_as_it_was() -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
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
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock, rate=4.0)
    async with background(playback=playback.run()):
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
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
        await surveyed(clock, playback)
        turn_before = playback.state.revision.source
        playback.seek(played().at(second))
        await turn(clock, 0.5)
        assert playback.state.revision.source > turn_before
        assert playback.position_ns == played().at(second)
        assert picture(playback.state.at) == played().known[played().at(second)]


async def test_a_place_that_was_not_looked_through_yet_shows_values_and_says_that_alerts_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Survey, "run", _no_survey)
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
        playback.pause()
        playback.seek(played().at(50))
        await turn(clock)
        assert picture(playback.state.at)[:2] == played().known[played().at(50)][:2]
        assert not playback.is_exact
        assert playback.alerts_since_ns == played().at(50)


async def _no_survey(_survey: Survey) -> None:
    return


async def test_marks_are_where_alerts_fired_and_can_be_jumped_to() -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
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
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
        await surveyed(clock, playback)
        playback.seek(played().at(60))
        await turn(clock, 0.5)
        alert = next(each for each in playback.state.alerts.active() if each.fired_ns is not None)
        assert alert.fired_ns is not None
        place = playback.moment_of(alert.fired_ns)
        assert place is not None
        assert abs(place - min(played().alerts, key=lambda each: abs(each - place))) <= NS_PER_S


async def test_at_its_end_a_file_stands_or_restarts() -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
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
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
        playback.pause()
        for second in (55, 5, 50, 33):
            playback.seek(played().at(second))
        await turn(clock)
        assert playback.position_ns == played().at(33)
        assert values_of(playback.state.at) == played().known[played().at(33)][0]


class Present:
    """A live monitor that is fed from a recording as time goes by, and the keeper of what it was fed."""

    def __init__(self, clock: ManualClock) -> None:
        self.recording = KeyframedRecording()
        self.clock = clock
        self.monitor = Monitor(_Silent(), played().fleet, clock=clock, rules=RULES)
        self.window_s = 0.0
        self.problem = ""
        self._lead_s = clock.monotonic_s()
        self._seen_ns = played().recording.start_ns - 1

    def to_ns(self, monotonic_s: float) -> int:
        """Return the recording's time."""
        return played().recording.start_ns + round((monotonic_s - self._lead_s) * NS_PER_S)

    def save(self, path: Path) -> int:
        """Refuse as a full disk does."""
        raise OSError(28, f"No space left on device: {path}")

    async def run(self) -> None:
        """Apply what is due, ten times a second; look at the fleet as the live one does."""
        looked_s = -PASS_EVERY_S[1]
        while True:
            now_s = self.clock.monotonic_s()
            now_ns = self.to_ns(now_s)
            news = list(played().recording.read(self._seen_ns, now_ns))
            for stored in news:
                envelope = stored.envelope._replace(received_s=self.clock.monotonic_s())
                self.recording.put(now_ns, [envelope])
                self.monitor.apply([envelope])
            self._seen_ns = now_ns
            if news or now_s - looked_s >= PASS_EVERY_S[1]:
                self.monitor.compute()
                looked_s = now_s
            await self.clock.sleep(0.1)


class _Silent:
    def __init__(self) -> None:
        self.status = LinkStatus(connected=True)

    async def take(self) -> list[Any]:
        return []


def live_playback(clock: ManualClock, present: Present) -> RecordingPlayback:
    """Return the playback that goes back from the present."""
    return RecordingPlayback(
        present.recording,
        maker(played().fleet),
        clock=clock,
        name="the past",
        live=present.monitor,
        rolling=present,
    )


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[tuple[ManualClock, Present, RecordingPlayback]]:
    """Run a fleet and the playback that goes back from it, by a clock that the test moves."""
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)
    async with background(present=present.run()):
        await clock.advance(0.05)
        playback = live_playback(clock, present)
        async with background(playback=playback.run()):
            yield clock, present, playback


async def test_the_present_goes_on_while_the_past_is_looked_at() -> None:
    async with watched() as (clock, present, playback):
        await turn(clock, 40.0)
        assert mode_of(playback) is Mode.LIVE
        assert playback.state.at is present.monitor
        playback.step(-30.0)
        await turn(clock, 0.5)
        assert mode_of(playback) is Mode.PLAYING
        assert playback.state.at is not present.monitor
        playback.pause()
        playback.seek(played().at(25))
        await turn(clock, 1.0)
        shown = picture(playback.state.at)
        assert shown[0]["columns"] == played().known[played().at(25)][0]["columns"]
        assert shown[2]["active"] == played().known[played().at(25)][2]["active"]
        messages = present.monitor.counts.messages
        await turn(clock, 6.0)
        assert playback.position_ns == played().at(25)
        assert present.monitor.counts.messages > messages
        playback.go_live_or_end()
        assert playback.state.at is present.monitor
        assert present.monitor.counts.lost == 0


async def test_playing_faster_than_time_comes_back_to_the_present() -> None:
    async with watched() as (clock, _, playback):
        await turn(clock, 30.0)
        playback.step(-20.0)
        playback.set_rate(8.0)
        await turn(clock, 5.0)
        assert mode_of(playback) is Mode.LIVE
        playback.step(5.0)
        assert mode_of(playback) is Mode.LIVE
        playback.step(-500.0)
        assert "nothing earlier" in playback.note


async def test_a_buffer_that_cannot_be_saved_says_why(tmp_path: Path) -> None:
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)
    present.recording.put(played().recording.start_ns, [played().recording.stored[0].envelope])
    playback = live_playback(clock, present)
    with pytest.raises(OSError, match="No space left"):
        await playback.save(tmp_path / "x.mcap")
    with pytest.raises(TrnfleetError, match="recording already"):
        await file_playback(clock).save(tmp_path / "x.mcap")


async def test_a_file_that_is_shown_in_part_is_played_again_from_where_that_begins() -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock, begin_ns=played().at(30), until_ns=played().at(35))
    async with background(playback=playback.run()):
        await turn(clock, 8.0)
        assert mode_of(playback) is Mode.PAUSED
        assert playback.position_ns == played().at(35)
        playback.play()
        await turn(clock, 1.0)
        assert played().at(30) <= playback.position_ns <= played().at(32)


async def test_going_back_from_mark_to_mark_gets_past_the_one_that_is_played_from() -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
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


async def test_a_wish_in_the_midst_of_a_turn_is_heeded_even_where_the_present_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = PastMonitor.settle
    async with watched() as (clock, _, playback):
        await turn(clock, 30.0)
        playback.step(-3.0)
        playback.set_rate(8.0)
        wished = played().at(10)

        def settle_late(past: PastMonitor) -> Iterator[None]:
            if playback.end_ns - past.position_ns < NS_PER_S:
                monkeypatch.undo()
                playback.set_rate(1.0)
                playback.seek(wished)
                playback.rate = 8.0
                yield
            yield from settle(past)

        monkeypatch.setattr(PastMonitor, "settle", settle_late)
        await turn(clock, 0.7)
        assert PastMonitor.settle is settle, "nobody came near the present"
        assert mode_of(playback) is Mode.PLAYING
        assert wished <= playback.position_ns < wished + 8 * NS_PER_S


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


async def test_a_snapshot_of_the_present_ends_with_a_message_of_the_recording_to_the_nanosecond() -> None:
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)

    def odd(monotonic_s: float) -> int:
        """Round in a way of its own, as no other sum of the same numbers does."""
        return 3 + played().recording.start_ns + int((monotonic_s - 50.0) * NS_PER_S) // 7 * 7

    present.to_ns = odd  # type: ignore[method-assign]  # the recording's own rounding
    async with background(present=present.run()):
        await clock.advance(0.05)
        playback = live_playback(clock, present)
        async with background(playback=playback.run()):
            await turn(clock, 15.0)
            applied_s = present.monitor.applied_s
            times = [time_ns for time_ns, _ in playback.index.snapshots]
            assert len(times) == 2
            assert set(times) <= {stored.time_ns for stored in present.recording.stored}
            assert odd(applied_s) == present.recording.end_ns


async def test_where_the_present_is_kept_no_more_playing_stands_at_the_end_and_says_so() -> None:
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)
    playback = live_playback(clock, present)
    async with background(present=present.run()):
        await turn(clock, 20.0)
    present.problem, present.window_s = "No space left on device", 20.0
    async with background(playback=playback.run()):
        assert playback.window_s == 20.0
        assert not playback.is_recording
        await turn(clock, 30.0)
        playback.seek(present.recording.end_ns - 2 * NS_PER_S)
        await turn(clock, 5.0)
        assert mode_of(playback) is Mode.PAUSED
        assert playback.position_ns == present.recording.end_ns
        assert "no history after this" in playback.note
        assert playback.window_s == 20.0


async def test_nothing_is_sought_where_nothing_is_kept_yet() -> None:
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)
    playback = RecordingPlayback(
        _Empty(), maker(played().fleet), clock=clock, name="the past", live=present.monitor, rolling=present
    )
    async with background(playback=playback.run()):
        for wish in (
            playback.pause,
            playback.go_start,
            lambda: playback.step(-10.0),
            lambda: playback.seek(0),
        ):
            wish()
            await turn(clock, 0.1)
            assert mode_of(playback) is Mode.LIVE
            assert playback.note == "no history yet"
        assert playback.window_s == 0.0
        assert playback.position_ns == playback.end_ns


class _Empty(KeyframedRecording):
    """A live recording on which nothing is yet."""

    @property
    def start_ns(self) -> int:
        return 0

    @property
    def end_ns(self) -> int:
        return 0


async def test_a_past_whose_recording_is_gone_is_not_played_on_over_the_gap() -> None:
    async with watched() as (clock, present, playback):
        await turn(clock, 40.0)
        playback.pause()
        playback.seek(played().at(12))
        await turn(clock, 1.0)
        was_exact = playback.is_exact
        assert was_exact
        present.recording.cut(played().at(13))
        await turn(clock, 0.2)
        assert playback.position_ns == played().at(12)
        playback.step(1.5)
        await turn(clock, 0.5)
        assert playback.position_ns >= played().at(13)
        assert not playback.is_exact
        assert min(time_ns for time_ns, _ in playback.index.snapshots) >= playback.start_ns


async def test_where_the_snapshot_is_gone_alerts_are_followed_from_there_on() -> None:
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock)
    async with background(playback=playback.run()):
        await surveyed(clock, playback)
        there = next(at_ns for at_ns, _ in reversed(playback.index.snapshots) if at_ns < played().at(50))
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
