"""Playback of a live monitor's past.

The monitor goes on meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.playback_bench import (
    Present,
    file_playback,
    live_playback,
    maker,
    mode_of,
    picture,
    played,
    turn,
    watched,
)
from support.record.memory_recording import KeyframedRecording

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.replay.controls import Mode
from trnfleet.monitor.replay.past_monitor import PastMonitor
from trnfleet.monitor.replay.playback import RecordingPlayback
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("_played_before")


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


async def test_a_snapshot_of_the_present_ends_with_a_message_of_the_recording_to_the_nanosecond() -> (  # noqa: E501
    None
):
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)

    def odd(monotonic_s: float) -> int:
        """Round unlike any other sum of the same numbers."""
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
    present.problem = "No space left on device"
    present.window_s = 20.0
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
        _Empty(),
        maker(played().fleet),
        clock=clock,
        name="the past",
        live=present.monitor,
        rolling=present,
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
