"""A simulation over time in a monitor on the same bus, without unreported losses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest
from support.monitor.feed import SilentSource
from support.sim.simulation import WALL_NS, SimulationRun

from trnfleet.config import find_file, load_model, validate
from trnfleet.domain.fleet import FleetFile, Publishing
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.scenario import Scenario
from trnfleet.monitor.monitor import Monitor
from trnfleet.sim.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON = Publishing()
FRAMES = [
    Publishing(format="cbor", granularity="instance"),
    Publishing(format="cbor", granularity="ultraserver"),
    Publishing(format="cbor", granularity="block", block_ultraservers=2),
]
VICTIM = "uc1/us-0001/trn2u-0001-0"


class Seen(SimulationRun):
    """A simulation of the demo fleet with a monitor beside it."""

    def __init__(
        self,
        faults: Sequence[dict[str, Any]],
        publishing: Publishing,
        speed: float = 10.0,
        **options: Any,
    ) -> None:
        fleet = load_model(find_file("fleets", "demo"), FleetFile)
        scenario = validate({"faults": list(faults)}, Scenario, "scenario.toml")
        engine = Engine(fleet, 3, speed, WALL_NS, scenario=scenario)
        super().__init__(engine, publishing=publishing, speed=speed, **options)
        self.monitor = Monitor(SilentSource(), fleet.name, clock=self.clock)
        self._taken = 0

    async def __aenter__(self) -> Self:
        """Begin to publish."""
        self._task = asyncio.create_task(self.simulation.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def see(self, ticks: int) -> None:
        """Let ticks pass, a second each, and the monitor take them in."""
        for _ in range(ticks):
            await self.clock.advance(1.0)
            self.take()

    def take(self) -> None:
        batch = [envelope for _, envelope in self.publisher.sent[self._taken :]]
        self._taken = len(self.publisher.sent)
        self.monitor.apply(batch)
        self.monitor.compute()


@pytest.mark.parametrize("publishing", [JSON, *FRAMES], ids=lambda each: each.granularity or "chip")
async def test_a_replaced_instance_comes_back_without_loss(publishing: Publishing) -> None:
    """A crash, ten minutes down and a replacement cause no lost or undescribed messages."""
    async with Seen(
        [{"fault": "hbm_uncorrectable", "target": f"{VICTIM}/chip05", "at": 30}], publishing
    ) as seen:
        await seen.see(55)
        counts = seen.monitor.counts
        assert counts.messages > 1_000 / (1 if publishing is JSON else 20)
        assert (
            counts.lost,
            counts.undescribed,
            counts.undecodable,
            counts.misplaced,
            counts.rejected,
        ) == (
            0,
            0,
            0,
            0,
            0,
        )
        summary = seen.monitor.summary()
        assert summary.live_chips == 192
        assert summary.events >= 7
        names = {event.name for event in seen.monitor.events.newest_first()}
        assert {
            "hbm_uncorrectable",
            "instance_replaced",
            "instance_returned",
            "job_restarted",
        } <= names


@pytest.mark.parametrize("publishing", [JSON, *FRAMES], ids=lambda each: each.granularity or "chip")
async def test_an_instance_that_is_down_is_not_live(publishing: Publishing) -> None:
    """Chips of a rebooting instance are not drawn as live, whatever else its frames have."""
    async with Seen([{"fault": "instance_reboot", "target": VICTIM, "at": 30}], publishing) as seen:
        await seen.see(16)
        assert seen.monitor.summary().live_chips == 192 - 16
        await seen.see(30)
        assert seen.monitor.summary().live_chips == 192


async def test_a_silent_agent_is_stale_and_loses_nothing() -> None:
    """A hanging agent's chips are stale without loss, and live again later."""
    async with Seen(
        [{"fault": "agent_silent", "target": VICTIM, "at": 95, "for": 100}], JSON
    ) as seen:
        await seen.see(30)
        assert seen.monitor.counts.lost == 0
        assert seen.monitor.summary().live_chips == 192


@pytest.mark.parametrize(
    "publishing", [JSON, FRAMES[1]], ids=lambda each: each.granularity or "chip"
)
async def test_a_jump_loses_nothing(publishing: Publishing) -> None:
    """When simulated time jumps by hours, the monitor's jumps along without lag or loss."""
    async with Seen([], publishing, speed=1.0) as seen:
        await seen.see(5)
        before = seen.monitor.moment()
        assert seen.simulation.jump(8 * 3_600.0)
        await seen.see(6)
        after = seen.monitor.moment()
        assert (after.time_ns - before.time_ns) / 1e9 == pytest.approx(8 * 3_600.0 + 6, abs=2.5)
        summary = seen.monitor.summary()
        assert seen.monitor.counts.lost == 0
        assert summary.lag_s is not None
        assert summary.lag_s < 1.0
        assert summary.live_chips == 192


async def test_power_of_a_failed_job_falls_on_the_screen() -> None:
    """In the store, chips of a failed job fall to idle power next tick."""
    async with Seen(
        [{"fault": "runtime_crash", "target": f"{VICTIM}/chip03", "at": 100}], FRAMES[1], speed=5.0
    ) as seen:
        await seen.see(20)
        store = seen.monitor.store
        node = store.layout.find("uc1/us-0001")
        assert node is not None
        covered = store.layout.chip_range(node)
        rows = slice(covered.start, covered.stop)
        busy = float(np.mean(store.values(BY_NAME["power_w"], rows)))
        await seen.see(4)
        assert float(np.mean(store.values(BY_NAME["power_w"], rows))) < 0.5 * busy
