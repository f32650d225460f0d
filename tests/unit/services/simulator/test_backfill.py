"""The minutes before the demo's start: charts and a past, beside the live fleet."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.queue_source import QueueSource
from support.monitor.rules import rule_of

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.controls import Mode
from trnfleet.monitor.replay.past_monitor import SLICE_S, PastMonitor
from trnfleet.monitor.replay.playback import RecordingPlayback
from trnfleet.monitor.slices import finish
from trnfleet.record.format.metadata import About
from trnfleet.record.write.live import LiveBuffer
from trnfleet.record.write.tapped_source import TappedSource
from trnfleet.services.simulator import backfill as backfill_module
from trnfleet.services.simulator.backfill import Backfill
from trnfleet.services.simulator.engine import make_engine
from trnfleet.services.simulator.lead_in import SETTLING_TICKS, LeadIn
from trnfleet.services.simulator.run import Run
from trnfleet.sim.publish.service import Simulation
from trnfleet.tasks import POLL_S, background
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult, Source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from trnfleet.sim.engine import Engine

WALL_NS = 1_767_600_000_250_000_000
START_NS = WALL_NS
BOOT = "00112233aabbccdd"
LEAD_IN = 30
RULES = (
    rule_of(
        scope="job",
        figure="step_time_s",
        share_of_median_of="past",
        past="30m",
        above=1.1,
        summary="slow",
    ),
)
FLEET = validate(
    {
        "name": "f",
        "clusters": [{"name": "c", "ultraservers": [{"count": 1}]}],
        "jobs": [{"kind": "training", "name": "train", "on": ["c/us-0001"]}],
    },
    FleetFile,
    "fleet.toml",
)


class ToSource:
    """A publisher with direct delivery to a monitor."""

    def __init__(self, source: QueueSource, clock: ManualClock) -> None:
        self.status = LinkStatus(connected=True)
        self._source = source
        self._clock = clock

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Stay connected."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        now_s = self._clock.monotonic_s()
        messages = [each._replace(received_s=now_s) for each in batch]
        if messages:
            self._source.batches.put_nowait(messages)
        return PublishResult(len(messages))


class Demo:
    """A simulator with lead-in, a live monitor with past buffer, and their backfill."""

    def __init__(
        self, folder: Path, clock: ManualClock, *, disk_bytes: int = 64 * 2**20, speed: float = 1.0
    ) -> None:
        self.clock = clock
        self.path = folder / "lead-in.mcap"
        source = QueueSource()
        run = Run(folder, FLEET, None, None, 7, 1.0, speed, None)

        def make() -> Engine:
            return make_engine(run, FLEET, lead_in=LEAD_IN + SETTLING_TICKS)

        self.simulation = Simulation(
            make(),
            ToSource(source, clock),
            clock=clock,
            client_id="sim-1",
            boot=BOOT,
            speed=speed,
            first_seq=LEAD_IN,
        )
        self.lead_in = LeadIn(
            self.simulation,
            make,
            run,
            self.path,
            clock=clock,
            client_id="sim-1",
            boot=BOOT,
            root="trnfleet",
        )
        self.buffer = LiveBuffer(folder / "past", About(), clock=clock, disk_bytes=disk_bytes)
        self.live = Monitor(TappedSource(source, self.buffer), "f", clock=clock, rules=RULES)
        self.playback = RecordingPlayback(
            self.buffer, self._past, clock=clock, name="past", live=self.live, rolling=self.buffer
        )

    def _past(self, source: Source, clock: Any, history: Any) -> Monitor:
        return Monitor(source, "f", clock=clock, history=history, rules=RULES)

    @contextlib.asynccontextmanager
    async def running(self, backfill: Backfill) -> AsyncIterator[None]:
        """Run all of it until the body ends, from before the simulator's first message on."""
        self.buffer.start()
        try:
            async with background(
                monitor=self.live.run(),
                playback=self.playback.run(),
                simulator=self.simulation.run(),
                backfill=backfill.run(self.path),
            ):
                recording = asyncio.create_task(self.lead_in.run())
                await self.clock.advance(0.0)
                await self.clock.advance(POLL_S)
                await recording
                yield
        finally:
            self.buffer.close()

    async def go(self, seconds: int) -> None:
        """Let time pass, and let the recorder's thread write."""
        for _ in range(4 * seconds):
            await self.clock.advance(0.25)
        await asyncio.to_thread(self.buffer._thread.flush, 5.0)

    def powers(self) -> list[float]:
        """Return the fleet's power, a value for each sample."""
        layout = self.live.store.layout
        node = layout.find("")
        assert node is not None
        return [float(watts) for watts in self.live.history.series(layout, node, "power_w")]


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path, ManualClock(WALL_NS, 100.0))


async def test_charts_and_the_past_begin_before_the_start(demo: Demo, tmp_path: Path) -> None:
    """Every second has a value, and nothing is lost where live telemetry begins."""
    backfill = Backfill(demo.live, demo.clock, buffer=demo.buffer, playback=demo.playback)
    async with demo.running(backfill):
        await demo.go(8)
        live = demo.live
        buffer = demo.buffer
        playback = demo.playback
        history = live.history
        assert LEAD_IN + 6 <= history.samples <= LEAD_IN + 8
        assert len(demo.powers()) == history.samples
        assert np.isfinite(demo.powers()).all()
        assert history.gaps_since(0) == []
        assert history.job_track("train", "power_w", 900).mean.size == history.samples
        steps = history.job_track("train", "step_time_s", 900).mean
        assert live.alerts.usual("step_time_s", "train") == pytest.approx(
            np.nanmedian(steps), rel=0.02
        )
        assert (live.counts.lost, live.counts.internal_errors, live.alerts.happened) == (0, 0, 0)
        assert not demo.path.exists()
        # Time travel.
        assert buffer.start_ns == START_NS - LEAD_IN * NS_PER_S
        assert playback.window_s == pytest.approx(LEAD_IN + 7, abs=2.0)
        place = START_NS - 10 * NS_PER_S
        assert playback.moment_of(place) == pytest.approx(place, abs=NS_PER_S)
        playback.seek(place)
        playback.pause()
        await demo.go(1)
        shown = playback.state
        assert (playback.mode, playback.position_ns, playback.is_exact) == (
            Mode.PAUSED,
            place,
            True,
        )
        assert shown.store.count(Freshness.LIVE) == 64
        assert shown.history.end == pytest.approx(LEAD_IN - 10, abs=1)
        assert shown.alerts.usual("step_time_s", "train")
        # From the very beginning through the start up to the present.
        past = playback.monitors.make()
        finish(past.reach_from_start(buffer.end_ns))
        counts = past.monitor.counts
        assert (counts.lost, counts.duplicates, counts.undecodable, counts.internal_errors) == (
            0,
            0,
            0,
            0,
        )
        assert counts.contested == counts.late == 0
        assert past.monitor.ingest.publishers.clients().keys() == {"sim-1"}
        assert past.monitor.store.count(Freshness.LIVE) == 64
        assert await playback.save(tmp_path / "saved.mcap") > LEAD_IN


async def test_what_is_usual_for_jobs_is_known_at_any_speed(tmp_path: Path) -> None:
    """At 20 times the wall clock's speed, the first seconds are minutes of steps.

    Jobs may be slow from the start.
    """
    demo = Demo(tmp_path, ManualClock(WALL_NS, 100.0), speed=20.0)
    async with demo.running(Backfill(demo.live, demo.clock)):
        await demo.go(3)
        steps = demo.live.history.job_track("train", "step_time_s", 900).mean
        assert len(steps) >= LEAD_IN
        usual_s = demo.live.alerts.usual("step_time_s", "train")
        assert usual_s == pytest.approx(np.nanmedian(steps), rel=0.02)


async def test_it_leaves_nothing_behind_that_waits_for_the_collector(tmp_path: Path) -> None:
    """Monitors that read the recording are freed with it.

    The first one is freed before the second is made.
    """

    def count() -> int:
        return sum(isinstance(each, PastMonitor) for each in gc.get_objects())

    class Counting(Demo):
        most = 0

        def _past(self, source: Source, clock: Any, history: Any) -> Monitor:
            self.most = max(self.most, count())
            return super()._past(source, clock, history)

    demo = Counting(tmp_path, ManualClock(WALL_NS, 100.0))
    gc.collect()
    before = count()
    gc.disable()
    try:
        async with demo.running(
            Backfill(demo.live, demo.clock, buffer=demo.buffer, playback=demo.playback)
        ):
            await demo.go(4)
            assert demo.live.history.samples >= LEAD_IN + 2
            assert (demo.most, count()) == (before, before)
    finally:
        gc.enable()


async def test_without_a_past_charts_are_filled_all_the_same(demo: Demo) -> None:
    async with demo.running(Backfill(demo.live, demo.clock)):
        await demo.go(4)
        assert demo.live.history.samples >= LEAD_IN + 2
        assert demo.buffer.start_ns >= START_NS - NS_PER_S


async def test_a_past_without_room_for_it_begins_at_the_start(tmp_path: Path) -> None:
    """The disk limits the past.

    Charts need no disk.
    """
    demo = Demo(tmp_path, ManualClock(WALL_NS, 100.0), disk_bytes=100_000)
    async with demo.running(
        Backfill(demo.live, demo.clock, buffer=demo.buffer, playback=demo.playback)
    ):
        await demo.go(4)
        assert demo.live.history.samples >= LEAD_IN + 2
        assert demo.buffer.start_ns >= START_NS - NS_PER_S


async def test_it_works_in_slices(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are at least as long as the slices before, and keys are served."""
    waits: list[float] = []

    class Working(ManualClock):
        """A clock with a millisecond of work per reading."""

        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            await super().sleep(0)

        def monotonic_s(self) -> float:
            self._monotonic_s += 0.001
            return super().monotonic_s()

    monkeypatch.setattr(backfill_module, "POLL_S", 0.0)
    backfill = Backfill(demo.live, Working(WALL_NS, 100.0))
    async with demo.running(backfill):
        await demo.go(4)
        assert demo.live.history.samples >= LEAD_IN + 2
    slices = [each for each in waits if each]
    assert len(slices) > LEAD_IN
    assert min(slices) >= SLICE_S


@pytest.mark.parametrize("content", [None, b"no recording at all"])
async def test_without_a_recording_charts_begin_at_the_start(
    demo: Demo, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a recording, or with a torn one, nothing else is missing."""
    monkeypatch.setattr(backfill_module, "WAIT_S", 4.0)
    async with demo.running(Backfill(demo.live, demo.clock)):
        demo.path.unlink()
        if content is not None:
            demo.path.write_bytes(content)
        await demo.go(5)
        assert 4 <= demo.live.history.samples <= 5
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "backfill"]
        assert demo.live.counts.internal_errors == 0
