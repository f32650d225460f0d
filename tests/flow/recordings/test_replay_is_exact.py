"""The theorem: a replayed recording gives the live store, alerts and reservations.

Every scenario, half of them in each encoding and by `make long` all in both: played from the
start, sought by keyframe, and resumed from a snapshot, it is compared with the live monitor at a
number of instants, field by field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.alert_run import BOOT, AlertRun
from support.monitor.state import alerts_of, rollups_of, values_of
from support.paths import SCENARIOS as SCENARIO_FILES

from trnfleet.clock import SystemClock
from trnfleet.domain.fleet import Publishing
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trnfleet.wire.ports import Envelope

SCENARIOS = sorted(path.stem for path in SCENARIO_FILES.glob("*.toml"))
TICKS = 25
PERIOD_S = 5.0
COMPARED_EVERY = 7
"""Ticks; a prime, so that it does not go along with anything of the scenarios."""
SNAPSHOT_EVERY = 10
RULES = load_rules()

Known = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


class Live:
    """A run being recorded, with its monitor's state."""

    def __init__(self, scenario: str, publishing: Publishing, path: Path) -> None:
        about = About(id=BOOT, seed=7)
        self._writer = RecordingWriter(path, about)
        self.run = AlertRun(scenario, period_s=PERIOD_S, publishing=publishing, tap=self._record)
        self.run.evaluates_every_s = 1.0
        self.run.on_tick = self._note
        self.known: dict[int, Known] = {}
        self.snapshots: list[tuple[int, PackedSnapshot]] = []
        self._ticks = 0

    async def play(self) -> None:
        """Play it to its end."""
        await self.run.play(TICKS * self.run.period_s)
        self._writer.close()

    def _record(self, time_ns: int, envelopes: list[Envelope]) -> None:
        for envelope in envelopes:
            self._writer.write(time_ns, envelope)

    def _note(self) -> None:
        now_ns = self.run.clock.wall_ns()
        if self._ticks % COMPARED_EVERY == 0 or self._ticks == TICKS - 1:
            self.known[now_ns] = known(self.run.monitor)
        if self._ticks % SNAPSHOT_EVERY == 0:
            self.snapshots.append((now_ns, PackedSnapshot(self.run.monitor)))
        self._ticks += 1


def known(monitor: Monitor) -> Known:
    """Return all that is compared."""
    return values_of(monitor), rollups_of(monitor), alerts_of(monitor)


def differences(one: Iterable[dict[str, Any]], other: Iterable[dict[str, Any]]) -> list[str]:
    """Return what differs, in short."""
    return [
        f"{name}: {str(mine[name])[:200]} is not {str(yours[name])[:200]}"
        for mine, yours in zip(one, other, strict=True)
        for name in mine
        if mine[name] != yours[name]
    ]


@pytest.mark.parametrize("is_swapped", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_replay_gives_what_the_live_monitor_had(
    scenario: str, tmp_path: Path, *, is_swapped: bool
) -> None:
    publishing = (
        Publishing(format="json")
        if SCENARIOS.index(scenario) % 2 != is_swapped
        else Publishing(format="cbor", granularity="instance")
    )
    path = tmp_path / "live.mcap"
    live = Live(scenario, publishing, path)
    await live.play()
    clock = live.run.clock
    recording = Recording.open([path])

    def past() -> PastMonitor:
        recording_clock = RecordingClock(
            SystemClock(), clock.wall_ns(), clock.monotonic_s(), recording.start_ns
        )
        name = live.run.monitor.fleet_name
        return PastMonitor(
            recording,
            Monitor(PastSource("test"), name, clock=recording_clock, rules=RULES),
            recording_clock,
        )

    assert len(live.known) >= 4
    played = past()
    for _ in played.begin():
        pass
    for at_ns, was in live.known.items():
        for _ in played.advance(at_ns):
            pass
        assert differences(known(played.monitor), was) == []
    for at_ns, was in list(live.known.items())[2::2]:
        sought = past()
        for _ in sought.rebuild(at_ns):
            pass
        assert differences(known(sought.monitor)[:2], was[:2]) == []
        from_ns, snapshot = next(each for each in reversed(live.snapshots) if each[0] < at_ns)
        resumed = past()
        resumed.resume(snapshot.unpack(), from_ns)
        for _ in resumed.advance(at_ns):
            pass
        assert differences(known(resumed.monitor), was) == []
    recording.close()
