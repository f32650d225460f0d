"""Playbacks of one run: from its recording as a file, and from a monitor's past."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.monitor.alert_run import AlertRun
from support.monitor.state import alerts_of, rollups_of, values_of
from support.record.memory_recording import KeyframedRecording
from trnfleet.clock import NS_PER_S, Clock, ManualClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.playback import RecordingPlayback
from trnfleet.monitor.slices import PASS_EVERY_S
from trnfleet.services.files.rules import load_rules
from trnfleet.tasks import background
from trnfleet.wire.ports import LinkStatus, Source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from trnfleet.monitor.replay.controls import Mode
    from trnfleet.monitor.store.history import History

SECONDS = 61
RULES = load_rules()


class Played(NamedTuple):
    """A run with its monitor's state at every tick."""

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


@contextlib.asynccontextmanager
async def playing(**options: Any) -> AsyncIterator[tuple[ManualClock, RecordingPlayback]]:
    """Run the playback of a finished recording on a manual clock."""
    clock = ManualClock(0, 50.0)
    playback = file_playback(clock, **options)
    async with background(playback=playback.run()):
        yield clock, playback


def mode_of(playback: RecordingPlayback) -> Mode:
    """Return the playback's mode.

    Type checkers do not expect it to change during a wait.
    """
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


class Present:
    """A live monitor fed from a recording over time, and its past."""

    def __init__(self, clock: ManualClock) -> None:
        self.recording = KeyframedRecording()
        self.clock = clock
        self.monitor = Monitor(_Silent(), played().fleet, clock=clock, rules=RULES)
        self.window_s = 0.0
        self.problem = ""
        self._lead_s = clock.monotonic_s()
        self._seen_ns = played().recording.start_ns - 1

    def one_in(self, _time_ns: int) -> int:
        """Return that all is kept."""
        return 1

    def to_ns(self, monotonic_s: float) -> int:
        """Return the recording's time."""
        return played().recording.start_ns + round((monotonic_s - self._lead_s) * NS_PER_S)

    def save(self, path: Path) -> int:
        """Refuse as a full disk does."""
        raise OSError(28, f"No space left on device: {path}")

    async def run(self) -> None:
        """Apply due messages ten times a second, and evaluate the fleet as live."""
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

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""


def live_playback(clock: ManualClock, present: Present) -> RecordingPlayback:
    """Return the playback going back from the present."""
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
    """Run a fleet and the playback going back from it, on a manual clock."""
    clock = ManualClock(played().recording.start_ns, 50.0)
    present = Present(clock)
    async with background(present=present.run()):
        await clock.advance(0.05)
        playback = live_playback(clock, present)
        async with background(playback=playback.run()):
            yield clock, present, playback
