"""A broker with the simulated demo, and helpers for its readers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Self

from support.processes.programs import Program, run

from trnfleet.services.live_monitor import LiveMonitor, monitor_fleet
from trnfleet.services.session import BrokerSession
from trnfleet.tasks import background

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from lab.brokers.process import BrokerProcess
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.transport.url import BrokerUrl

FLEET = "demo"
CHIPS = 192
"""Of the demo."""


class Stage:
    """A running broker with a simulator of the demo."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        """Begin by `with`."""
        self.broker = broker
        self.folder = folder
        self._simulator: Program | None = None
        self.variables: dict[str, Any] = {}
        if broker.password is not None:
            self.variables = {"TRNFLEET_MQTT_PASSWORD": broker.password.reveal()}

    def __enter__(self) -> Self:
        self.broker.start()
        try:
            self._simulator = self.program(
                "simulate", "--fleet", FLEET, "--allow-commands", "--no-random-faults"
            )
            until = time.monotonic() + 30
            while "publishing" not in self._simulator.output:
                assert time.monotonic() < until, self._simulator.output
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._simulator is not None:
            self._simulator.__exit__()
        self.broker.kill()

    @property
    def session(self) -> BrokerSession:
        """A session for everybody."""
        return BrokerSession(self.broker.url, password=self.broker.password)

    def program(self, *arguments: str) -> Program:
        """Start a long-running command with the broker's address."""
        return Program(self.folder, *arguments, "--broker", str(self.broker.url), **self.variables)

    async def run(
        self, *arguments: str, url: BrokerUrl | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with the broker's address."""
        address = ("--broker", str(url or self.broker.url))
        return await asyncio.to_thread(run, *arguments, *address, **self.variables)

    async def done(self, *arguments: str, at_broker: bool = True) -> str:
        """Run a command, require success, and return its output."""
        ended = await (self.run(*arguments) if at_broker else asyncio.to_thread(run, *arguments))
        assert ended.returncode == 0, (
            f"{arguments[0]}: {ended.returncode} {ended.stdout}{ended.stderr}"[:600]
        )
        return ended.stdout

    @contextlib.asynccontextmanager
    async def monitor(
        self, fleet: str = FLEET, rules: Sequence[Rule] = ()
    ) -> AsyncIterator[LiveMonitor]:
        """Yield a monitor that runs."""
        live = monitor_fleet(self.session, fleet, rules=rules)
        async with background(source=live.source.run(), monitor=live.monitor.run()):
            await live.source.wait_connected(15)
            yield live
