"""Shipped fleets of several hardware generations in memory, and their monitor."""

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
    """Return a shipped fleet after some run time, with all its messages."""
    fleet = shipped_fleet(name)
    run = SimulationRun(Engine(fleet, 3, 1.0, WALL_NS), publishing=publishing)
    await run.run(seconds)
    return run


def sent(run: SimulationRun) -> list[Envelope]:
    """Return its messages, without the goodbye at its end."""
    return [envelope for _, envelope in run.publisher.sent if b'"offline"' not in envelope.payload]


def reader_of(run: SimulationRun) -> Monitor:
    """Return a monitor after reading all its messages."""
    monitor = Monitor(SilentSource(), run.engine.fleet.name, clock=run.clock)
    monitor.apply(sent(run))
    monitor.compute()
    return monitor
