"""The lead-in of a simulation: minutes before its start, for the demo's charts and past.

The simulator runs through them in one step, so that its first tick does not wait. Then a second
engine makes them one by one beside its ticks, and they are written as a recording. Both are the
same publisher: one boot id, consecutive numbers. Telemetry is in CBOR frames even if the fleet
publishes JSON, because JSON takes much longer to write and to read.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock, format_rfc3339
from trnfleet.domain.fleet import FleetFile, Publishing, expand
from trnfleet.domain.hardware.catalogue import find_instance_type
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.sim.publish.service import Simulation
from trnfleet.tasks import POLL_S
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from trnfleet.services.simulator.run import Run
    from trnfleet.sim.engine import Engine

log = logs.get_logger(__name__)

LEAD_IN_S = 300.0
"""Wall seconds before the start, as charts count them, and most ticks: half a second of work."""
SETTLING_TICKS = 60
"""Ticks before the lead-in, run in one step. A fleet begins with the temperatures of its first
window's mean power."""
MOST_CHIPS = 1_024
"""Most chips of a fleet with a lead-in. A larger one would take too long to write and to read."""


def lead_in_ticks(fleet: FleetFile, period_s: float) -> int:
    """Return the number of lead-in ticks, without those to settle.

    0 for a fleet too large for a lead-in.

    Args:
        fleet: The fleet file.
        period_s: Wall seconds from tick to tick.
    """
    chips = sum(find_instance_type(kind).chips for _, kind in expand(fleet))
    return int(LEAD_IN_S / max(1.0, period_s)) if chips <= MOST_CHIPS else 0


class LeadIn:
    """The lead-in of a publishing simulation, on its way into a file."""

    def __init__(
        self,
        simulation: Simulation,
        make: Callable[[], Engine],
        run: Run,
        path: Path,
        *,
        clock: Clock,
        client_id: str,
        boot: str,
        root: str,
    ) -> None:
        """Prepare it.

        Args:
            simulation: The one that publishes.
            make: Makes an engine like its own, with ticks before tick 0.
            run: The run.
            path: The recording to make; it is there once it is whole.
            clock: The clock of the simulation.
            client_id: The publisher's name.
            boot: Boot id of the run.
            root: First part of the topics.
        """
        self._simulation = simulation
        self._make = make
        self._run = run
        self._path = path
        self._part = path.with_suffix(".part")
        self._clock = clock
        self._client_id = client_id
        self._boot = boot
        self._root = root
        self._messages: list[tuple[int, list[Envelope]]] = []
        """Messages of each tick, with the wall time at which they would have been received."""

    async def run(self) -> None:
        """Record it after the first published tick, beside all other work.

        Without it, charts begin at the start.
        """
        while not self._simulation.published:
            await self._clock.sleep(POLL_S)
        try:
            await self._live_through()
            await asyncio.to_thread(self._write)
        except (OSError, TrnfleetError) as error:
            log.warning("lead_in_not_recorded", error=str(error))
            with contextlib.suppress(OSError):
                self._part.unlink(missing_ok=True)
        self._messages = []

    async def _live_through(self) -> None:
        """Make the ticks up to the one before tick 0, and store their messages.

        Raises:
            ConfigError: they would lie before 1970, or a file of the run is wrong by now.
        """
        engine = self._make()
        clock = self._clock
        engine.restart_at(self._simulation.engine.start_ns)
        publishing = engine.fleet.publish
        if publishing.format == "json":
            publishing = Publishing(format="cbor", granularity="instance")
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
        if engine.moment_ns(engine.now_s) < 0:
            raise ConfigError(f"{-engine.ticks} ticks before the start would lie before 1970")
        start_ns = self._simulation.began_ns
        period_s = self._run.period_s
        begun_s = clock.monotonic_s()
        for number, messages in simulation.live_through(-engine.ticks):
            self._messages.append((start_ns + round(number * period_s * NS_PER_S), messages))
            # Half of a core at most.
            await clock.sleep(clock.monotonic_s() - begun_s)
            begun_s = clock.monotonic_s()

    def _write(self) -> None:
        # 0.06 s, which the first tick must not wait for.
        from trnfleet.record.format.metadata import About  # noqa: PLC0415
        from trnfleet.record.format.packing import QUICK_LEVEL  # noqa: PLC0415
        from trnfleet.record.write.writer import RecordingWriter  # noqa: PLC0415

        about = About(
            id=self._boot,
            fleets=(self._simulation.engine.fleet.name,),
            root=self._root,
            started=format_rfc3339(self._messages[0][0]),
            seed=self._run.seed,
            note="simulated: lead-in",
        )
        writer = RecordingWriter(self._part, about, level=QUICK_LEVEL)
        try:
            for time_ns, messages in self._messages:
                for envelope in messages:
                    writer.write(time_ns, envelope)
        finally:
            writer.close()
        self._part.replace(self._path)


class _Unheard:
    """A publisher without connection, for messages to a file."""

    def __init__(self) -> None:
        self.status = LinkStatus()

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Forget it."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send nothing."""
        return PublishResult(unsent=sum(1 for _ in batch), error="not connected")
