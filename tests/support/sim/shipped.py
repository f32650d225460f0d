"""Shipped fleets of several hardware generations at work in memory, and the monitor that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import SilentSource
from support.sim.fleets import shipped_fleet
from support.sim.simulation import WALL_NS, SimulationRun
from trnfleet.monitor.monitor import Monitor
from trnfleet.sim.engine import Engine

if TYPE_CHECKING:
    from trnfleet.domain.fleet import Publishing
    from trnfleet.wire.ports import Envelope

FLEETS = ("trn3", "mixed")


async def shipped_run(name: str, publishing: Publishing, seconds: float = 4.5) -> SimulationRun:
    """Return a shipped fleet that has run for a while, with all that it sent."""
    fleet = shipped_fleet(name)
    run = SimulationRun(Engine(fleet, 3, 1.0, WALL_NS), publishing=publishing)
    await run.run(seconds)
    return run


def sent(run: SimulationRun) -> list[Envelope]:
    """Return what it sent, without the goodbye at its end."""
    return [envelope for _, envelope in run.publisher.sent if b'"offline"' not in envelope.payload]


def reader_of(run: SimulationRun) -> Monitor:
    """Return a monitor that has read all of it."""
    monitor = Monitor(SilentSource(), run.engine.fleet.name, clock=run.clock)
    monitor.apply(sent(run))
    monitor.compute()
    return monitor
