"""`trnfleet simulate --record`: a simulation into a recording as fast as it goes, without a broker.

Time is turned by hand, so that the same seed gives the same bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, NamedTuple

import click

from trnfleet.cli.recording import size_text
from trnfleet.cli.running import unreliable
from trnfleet.clock import ManualClock, format_rfc3339
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.record.format.metadata import About
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.sim.ids import boot_of_seed
from trnfleet.sim.publish.service import Simulation
from trnfleet.sim.publish.state import will_envelope
from trnfleet.tasks import Ending, background, run_until
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from trnfleet.cli.running import Run
    from trnfleet.clock import Clock
    from trnfleet.sim.engine import Engine
    from trnfleet.wire.ports import Envelope

CLIENT = "simulator"
"""Name of the publisher, unless it is given one: the same each time."""


class Recorded(NamedTuple):
    """What is recorded, beside the engine."""

    path: Path
    run: Run
    ticks: int
    jump_s: float
    client_id: str
    root: str


class RecordingPublisher:
    """A publisher whose broker is a recording: what is published is received at once."""

    def __init__(self, writer: RecordingWriter, clock: Clock, will: Envelope) -> None:
        self.status = LinkStatus(connected=True, connects=1)
        self._writer = writer
        self._clock = clock
        self._will = will
        self._announcements: list[Callable[[], Iterable[Envelope]]] = []
        self._away_until_s: float | None = None

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Name what is sent after an interruption; nothing is before the simulation begins."""
        self._announcements.append(announce)

    def interrupt(self, seconds: float) -> None:
        """Lose the connection for so long: the last will speaks."""
        now_s = self._clock.monotonic_s()
        if self._away_until_s is None:
            self._write([self._will])
        self._away_until_s = max(self._away_until_s or 0.0, now_s + seconds)

    async def publish(self, batch: Iterable[Envelope]) -> None:
        """Write a batch; while the connection is gone it is lost, as at a broker."""
        if self._away_until_s is not None:
            if self._clock.monotonic_s() < self._away_until_s:
                self.status.dropped += sum(1 for envelope in batch if not envelope.retain)
                return
            self._away_until_s = None
            self.status.connects += 1
            for announce in self._announcements:
                self._write(announce())
        self._write(batch)

    def _write(self, batch: Iterable[Envelope]) -> None:
        time_ns = self._clock.wall_ns()
        for envelope in batch:
            self._writer.write(time_ns, envelope)
            self.status.sent += 1


def record(engine: Engine, what: Recorded) -> None:
    """Simulate so many ticks into a recording, or fewer where a signal ends it.

    Raises:
        ConfigError: the file is there, or cannot be made.
    """
    writer = RecordingWriter(what.path, _about(engine, what))
    try:
        ticks = asyncio.run(_simulate(engine, what, writer))
    finally:
        writer.close()
    length = duration_text(ticks * what.run.period_s)
    click.echo(
        f"recorded {engine.fleet.name} into {what.path}: {ticks:,} ticks, {length}, "
        f"{writer.messages:,} messages, {size_text(writer.bytes_written)}",
        err=True,
    )


def _about(engine: Engine, what: Recorded) -> About:
    run = what.run
    scenario = run.scenario_file.stem if run.scenario_file is not None else ""
    start = format_rfc3339(engine.moment_ns(0.0))
    identity = repr(
        (engine.fleet.model_dump_json(), scenario, run.seed, start, run.period_s, run.speed, what.ticks)
    )
    return About(
        id=hashlib.sha256(identity.encode()).hexdigest()[:16],
        fleets=(engine.fleet.name,),
        root=what.root,
        started=start,
        seed=run.seed,
        note=f"simulated: scenario {scenario}" if scenario else "simulated",
    )


async def _simulate(engine: Engine, what: Recorded, writer: RecordingWriter) -> int:
    """Simulate, and return how many ticks that became."""
    run, ending = what.run, Ending()
    clock = ManualClock(engine.moment_ns(0.0))
    boot = boot_of_seed(engine.rng)
    will = will_envelope(engine.fleet.name, what.client_id, boot, root=what.root)
    publisher = unreliable(RecordingPublisher(writer, clock, will), run, engine, clock)
    simulation = Simulation(
        engine,
        publisher,
        clock=clock,
        client_id=what.client_id,
        boot=boot,
        root=what.root,
        speed=run.speed,
        is_dated=True,
        jump_s=what.jump_s,
    )

    async def play() -> None:
        async with background(late=publisher.run()):
            playing = asyncio.create_task(simulation.run(ticks=what.ticks), name="simulation")
            try:
                await clock.advance(0.0)
                while not playing.done():
                    await clock.advance(run.period_s)
                await playing
            finally:
                playing.cancel()

    with ending.on_signals():
        await run_until(ending, play())
    return simulation.published
