"""Leases between two Mosquittos: chips reach the top while somebody views them.

Whichever relay publishes. No alert comes with them.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from support.monitor.rules import rule_of
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program
from support.processes.waiting import eventually, running

from trnfleet.monitor.sources.leases import Leases, LeaseState
from trnfleet.services.files.rules import load_rules
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.operator import hold_leases
from trnfleet.services.session import BrokerSession
from trnfleet.services.simulator.client import Command, send_command
from trnfleet.tasks import background

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

ROW = "uc1/us-0001"
OTHER = "uc1/us-0002"
RULES = (
    rule_of(above=1),
    *(
        rule
        for rule in load_rules()
        if rule.name in {"ultraserver-silent", "instance-silent", "chips-silent"}
    ),
)
"""A rule firing for each of its chips, and the rules about silence."""


class Viewer:
    """A monitor on the top broker, and its app's leases."""

    def __init__(self, top: MosquittoProcess) -> None:
        self.session = BrokerSession(top.url)
        self.live = monitor_fleet(self.session, "demo", rules=RULES)
        self.leases = Leases("demo")

    async def hold(self, *rows: str) -> None:
        """Open rows, and look at them until cancelled."""
        clock = self.live.monitor.clock
        for row in rows:
            self.leases.open(row, "cell-a", clock.monotonic_s())
        async with background(holds=hold_leases(self.session, self.live.monitor, self.leases)):
            while True:
                for row in rows:
                    self.leases.look(row, clock.monotonic_s())
                await clock.sleep(0.2)

    def chips(self) -> tuple[int, int]:
        """Return the number of forwarded chips, and of live chips.

        None is ever silent, and no alert fires.
        """
        seen = self.live.monitor.summary()
        assert (seen.stale_chips, seen.offline_chips, seen.undecodable, seen.internal_errors) == (
            0,
            0,
            0,
            0,
        )
        assert self.live.monitor.alerts.active() == []
        return seen.forwarded_chips, seen.live_chips

    async def sees(self, forwarded: int) -> None:
        """Wait until a number of chips is forwarded, and all of the fleet's are live."""
        await eventually(lambda: self.chips() == (forwarded, 192))


async def test_chips_are_there_for_as_long_as_somebody_looks_at_them(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Two viewers share a lease: returned by an ended one, expired for a dead one.

    It comes back after kill -9 of the relay.
    """
    top = MosquittoProcess(tmp_path)
    top.start()
    relay = (
        "relay",
        "--broker",
        str(mosquitto.url),
        "--to",
        str(top.url),
        "--cell",
        "cell-a",
        "--forward-hosts",
        "4",
    )
    simulate = ("simulate", "--broker", str(mosquitto.url), "--fleet", "demo", "--period", "500ms")
    coarse = ("--format", "cbor", "--granularity", "instance")
    try:
        with ExitStack() as programs:
            programs.enter_context(Program(tmp_path, *simulate, *coarse))
            active = programs.enter_context(Program(tmp_path, *relay))
            viewer = Viewer(top)
            monitor = viewer.live.monitor
            async with running(viewer.live.source.run(), monitor.run()):
                await viewer.sees(0)
                programs.enter_context(Program(tmp_path, *relay))
                async with running(viewer.hold(ROW)):
                    await viewer.sees(64)
                    refused = Command("forward", OTHER, {})
                    (reply,) = await send_command(viewer.session, "demo", refused, timeout_s=5)
                    limit = (
                        "8 hosts of cell cell-a would be forwarded, over the limit of 4"
                        " (--forward-hosts)"
                    )
                    assert (reply.ok, reply.reason) == (False, limit)
                    # One that asks once, and never again, is as one that has died.
                    dead = Command("forward", ROW, {"lease_s": 3.0})
                    (reply,) = await send_command(viewer.session, "demo", dead, timeout_s=5)
                    assert reply.ok
                viewer.chips()
                await asyncio.sleep(0.3)
                assert viewer.chips() == (64, 192)
                await viewer.sees(0)
                async with running(viewer.hold(ROW)):
                    await viewer.sees(64)
                    active.end(signal.SIGKILL)
                    await eventually(lambda: viewer.chips() == (0, 192))
                    await viewer.sees(64)
                    lease = viewer.leases.of(ROW)
                    assert lease is not None
                    assert lease.state is LeaseState.GRANTED
                await viewer.sees(0)
    finally:
        top.kill()
