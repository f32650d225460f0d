"""A simulation into a recording, at full speed, without a broker.

A manual clock drives it, so that the same seed produces the same bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import Clock, ManualClock, SystemClock, format_rfc3339
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.domain.quantities import size_text
from trnfleet.record.format.metadata import About
from trnfleet.record.write.recorder import SYNC_EVERY_S
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.simulator.engine import unreliable
from trnfleet.sim.publish.service import Simulation
from trnfleet.sim.publish.state import will_envelope
from trnfleet.tasks import Ending, background, run_until
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.services.simulator.run import Run
    from trnfleet.sim.engine import Engine

CLIENT = "simulator"
"""Default name of the publisher: the same for each recording."""


class SimulationRequest(NamedTuple):
    """A simulation to record."""

    path: Path
    run: Run
    ticks: int
    jump_s: float
    client_id: str
    root: str
    durable: bool = False
    """Whether to sync the file to disk every second."""


class RecordingPublisher:
    """A publisher into a recording: a message is received when it is published."""

    def __init__(self, writer: RecordingWriter, clock: Clock, will: Envelope) -> None:
        self.status = LinkStatus(connected=True, connects=1)
        self._writer = writer
        self._clock = clock
        self._will = will
        self._announcements: list[Callable[[], Iterable[Envelope]]] = []
        self._away_until_s: float | None = None

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Register state to be published again after an interruption."""
        self._announcements.append(announce)

    def interrupt(self, seconds: float) -> None:
        """Lose the connection for `seconds`.

        The broker would publish the last will.
        """
        now_s = self._clock.monotonic_s()
        if self._away_until_s is None:
            self._write([self._will])
        self._away_until_s = max(self._away_until_s or 0.0, now_s + seconds)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Write a batch; without a connection it is lost, as at a broker."""
        if self._away_until_s is not None:
            if self._clock.monotonic_s() < self._away_until_s:
                lost = list(batch)
                self.status.dropped += sum(1 for envelope in lost if not envelope.retain)
                return PublishResult(unsent=len(lost), error="connection lost")
            self._away_until_s = None
            self.status.connects += 1
            for announce in self._announcements:
                self._write(announce())
        return PublishResult(self._write(batch))

    def _write(self, batch: Iterable[Envelope]) -> int:
        """Write messages and return how many."""
        time_ns = self._clock.wall_ns()
        before = self.status.sent
        for envelope in batch:
            self._writer.write(time_ns, envelope)
            self.status.sent += 1
        return self.status.sent - before


def record_simulation(engine: Engine, request: SimulationRequest) -> str:
    """Simulate into a recording until its last tick or a signal.

    Return a summary line.

    Raises:
        ConfigError: the file is there, or cannot be made.
    """
    writer = RecordingWriter(request.path, _about(engine, request), durable=request.durable)
    try:
        ticks = asyncio.run(_simulate(engine, request, writer))
    finally:
        writer.close()
    length = duration_text(ticks * request.run.period_s)
    return (
        f"recorded {engine.fleet.name} into {request.path}: {ticks:,} ticks, {length}, "
        f"{writer.messages:,} messages, {size_text(writer.bytes_written)}"
    )


def _sized(engine: Engine) -> FleetFile:
    """Return the engine's fleet file with explicit sizes of jobs.

    A recording's id depends on the simulated values, whether the file states them or leaves them to
    the default.
    """
    jobs = []
    for job, chips in zip(engine.fleet.jobs, engine.placement.instance_chips.tolist(), strict=True):
        left_out = {
            name: chips
            for name in ("tensor_parallel", "chips_per_replica")
            if getattr(job, name, chips) is None
        }
        jobs.append(job.model_copy(update=left_out))
    return engine.fleet.model_copy(update={"jobs": tuple(jobs)})


def _about(engine: Engine, request: SimulationRequest) -> About:
    run = request.run
    scenario = run.scenario_file.stem if run.scenario_file is not None else ""
    start = format_rfc3339(engine.moment_ns(0.0))
    fleet = _sized(engine).model_dump(mode="json", exclude_defaults=True)
    # Sorted, so that an id depends neither on the order of fields in classes nor on fields that a
    # file leaves out.
    identity = repr(
        (
            json.dumps(fleet, sort_keys=True),
            scenario,
            run.seed,
            start,
            run.period_s,
            run.speed,
            request.ticks,
        )
    )
    return About(
        id=hashlib.sha256(identity.encode()).hexdigest()[:16],
        fleets=(engine.fleet.name,),
        root=request.root,
        started=start,
        seed=run.seed,
        note=f"simulated: scenario {scenario}" if scenario else "simulated",
    )


async def _simulate(engine: Engine, request: SimulationRequest, writer: RecordingWriter) -> int:
    """Simulate, and return the number of ticks published."""
    run = request.run
    ending = Ending()
    wall = SystemClock()
    clock = ManualClock(engine.moment_ns(0.0))
    boot = engine.rng.boot()
    will = will_envelope(engine.fleet.name, request.client_id, boot, root=request.root)
    publisher = unreliable(RecordingPublisher(writer, clock, will), run, engine, clock)
    simulation = Simulation(
        engine,
        publisher,
        clock=clock,
        client_id=request.client_id,
        boot=boot,
        root=request.root,
        speed=run.speed,
        is_dated=True,
        jump_s=request.jump_s,
    )

    async def play() -> None:
        async with background(late=publisher.run()):
            playing = asyncio.create_task(simulation.run(ticks=request.ticks), name="simulation")
            try:
                await clock.advance(0.0)
                synced_s = wall.monotonic_s()
                while not playing.done():
                    await clock.advance(run.period_s)
                    if request.durable and wall.monotonic_s() - synced_s >= SYNC_EVERY_S:
                        await asyncio.to_thread(writer.sync)
                        synced_s = wall.monotonic_s()
                await playing
            finally:
                playing.cancel()

    with ending.on_signals():
        await run_until(ending, play())
    return simulation.published
