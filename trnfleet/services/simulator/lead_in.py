"""The lead-in of a simulation: minutes before its start, of which the demo's app makes charts and a past to go back to.

The engine lives through them before tick 0, and the simulator writes them as a recording beside its first ticks. They are the
same publisher's: the same boot id, numbers that go on. Telemetry is in frames of CBOR even of a fleet that publishes JSON, which
would take much longer to write and to read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.fleet import Publishing, expand
from trnfleet.domain.hardware.catalogue import find_instance_type
from trnfleet.errors import TrnfleetError
from trnfleet.record.format.metadata import About
from trnfleet.record.format.packing import QUICK_LEVEL
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.sim.publish.service import Simulation
from trnfleet.wire.ports import LinkStatus, PublishResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.domain.fleet import FleetFile
    from trnfleet.services.simulator.run import Run
    from trnfleet.sim.engine import Engine
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

LEAD_IN_S = 300.0
"""Wall seconds before the start, as charts count them."""
MOST_TICKS = 300
"""Ticks of a lead-in: half a second of work. At shorter periods than a second it is shorter."""
SETTLING_TICKS = 60
"""Ticks before the lead-in, lived through in one step: a fleet begins with the temperatures of its first window's mean power."""
MOST_CHIPS = 1_024
"""Chips of a fleet that has a lead-in: those of a larger one would take too long to write and to read."""
START_IN_S = 1.0
"""Time from the announcement to tick 0. An app that was started with the simulator hears no earlier tick anyway."""


def lead_in_ticks(fleet: FleetFile, period_s: float) -> int:
    """Return how many ticks the lead-in of a fleet has; 0 for a fleet that is too large for one.

    Args:
        fleet: The fleet file.
        period_s: Wall seconds from tick to tick.
    """
    chips = sum(find_instance_type(kind).chips for _, kind in expand(fleet))
    return min(MOST_TICKS, int(LEAD_IN_S / period_s)) if chips <= MOST_CHIPS else 0


class LeadIn:
    """The lead-in of one engine, on its way into a file."""

    def __init__(
        self, engine: Engine, run: Run, path: Path, *, clock: Clock, client_id: str, boot: str, root: str
    ) -> None:
        """Prepare it.

        Args:
            engine: Made with these ticks and `SETTLING_TICKS` before tick 0, and without a step.
            run: The run.
            path: The recording to make; it is there once it is whole.
            clock: The wall clock that the messages are dated by.
            client_id: The publisher's name.
            boot: Boot id of the run.
            root: First part of the topics.
        """
        self.ticks = engine.lead_in - SETTLING_TICKS
        """Ticks that are recorded, and numbered before tick 0's."""
        self._engine = engine
        self._run = run
        self._path = path
        self._clock = clock
        self._client_id = client_id
        self._boot = boot
        self._root = root
        self._messages: list[tuple[int, list[Envelope]]] = []
        """Messages of each tick, with the wall time at which they would have been received."""
        self._is_over = asyncio.Event()

    async def live_through(self) -> None:
        """Make the engine's steps up to the one before tick 0, and keep what they would publish."""
        engine, clock, period_s = self._engine, self._clock, self._run.period_s
        publishing = engine.fleet.publish
        if publishing.format == "json":
            publishing = Publishing(format="cbor", granularity="instance")
        start_ns = clock.wall_ns() + round(START_IN_S * NS_PER_S)
        simulation = Simulation(
            engine,
            _Unheard(),
            clock=clock,
            client_id=self._client_id,
            boot=self._boot,
            root=self._root,
            publishing=publishing,
            speed=self._run.speed,
        )
        engine.step(SETTLING_TICKS)
        for number, messages in simulation.live_through(self.ticks):
            self._messages.append((start_ns + round(number * period_s * NS_PER_S), messages))
            await clock.sleep(0)
        self._is_over.set()

    async def write(self) -> None:
        """Write the recording once it is lived through, beside all else; without one, charts begin at the start."""
        await self._is_over.wait()
        try:
            await asyncio.to_thread(self._write)
        except (OSError, TrnfleetError) as error:
            log.warning("lead_in_not_recorded", error=str(error))
        self._messages = []

    def _write(self) -> None:
        engine = self._engine
        about = About(
            id=self._boot,
            fleets=(engine.fleet.name,),
            root=self._root,
            started=format_rfc3339(self._messages[0][0]),
            seed=self._run.seed,
            note="simulated: lead-in",
        )
        part = self._path.with_suffix(".part")
        writer = RecordingWriter(part, about, level=QUICK_LEVEL)
        try:
            for time_ns, messages in self._messages:
                for envelope in messages:
                    writer.write(time_ns, envelope)
        finally:
            writer.close()
        part.replace(self._path)


class _Unheard:
    """A publisher without a way to anyone: who prepares messages for a file has no use for one."""

    def __init__(self) -> None:
        self.status = LinkStatus()

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Forget it."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send nothing."""
        return PublishResult(unsent=sum(1 for _ in batch), error="not connected")
