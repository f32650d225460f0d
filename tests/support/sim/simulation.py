"""A simulation with a manual clock and a recording publisher."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trnfleet.clock import ManualClock
from trnfleet.sim.publish.service import Simulation
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.sim.engine import Engine

WALL_NS = 1_767_600_000_250_000_000
BOOT = "00112233aabbccdd"


class Recorder:
    """A publisher recording its messages with their times."""

    def __init__(self, clock: ManualClock) -> None:
        self.status = LinkStatus(connected=True)
        self.sent: list[tuple[float, Envelope]] = []
        self.announce: Callable[[], Iterable[Envelope]] = tuple
        self.stall_s = 0.0
        self._clock = clock

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        before = len(self.sent)
        self.sent.extend((self._clock.monotonic_s(), envelope) for envelope in batch)
        count = len(self.sent) - before
        stall_s = self.stall_s
        self.stall_s = 0.0
        if stall_s:
            await self._clock.sleep(stall_s)
        return PublishResult(count)

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        self.announce = announce

    def of(self, topic_class: TopicClass) -> list[tuple[float, Envelope]]:
        return [pair for pair in self.sent if parse_topic(pair[1].topic).topic_class is topic_class]


class SimulationRun:
    """An engine, its simulation, a clock and a recorder."""

    def __init__(self, engine: Engine, **options: Any) -> None:
        self.engine = engine
        self.clock = ManualClock(WALL_NS, 100.0)
        self.publisher = Recorder(self.clock)
        self.simulation = Simulation(
            engine, self.publisher, clock=self.clock, client_id="sim-1", boot=BOOT, **options
        )

    async def run(self, seconds: float, **limits: Any) -> None:
        """Run and advance the clock, for at most a number of seconds."""
        task = asyncio.create_task(self.simulation.run(**limits))
        await self.clock.advance(seconds)
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
