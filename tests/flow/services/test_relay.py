"""Two relays between two Mosquittos: the top shows the cell through kills.

Relays and brokers are killed with -9.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program, run

from trnfleet.domain.address import Level
from trnfleet.monitor.freshness import Freshness
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import BrokerSession
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trnfleet.monitor.monitor import Monitor

pytestmark = pytest.mark.broker

CHIPS = 192
RULES = """
[[rules]]
name = "drawing-power"
scope = "chip"
group = "cluster"
severity = "critical"
figure = "power_w"
above = 1
summary = "{count} chips draw power"
"""
LIMIT_S = 30.0


class Bench:
    """A cell with a simulator and a watch, two brokers, and a local monitor.

    The monitor is on the top broker.
    """

    def __init__(
        self, folder: Path, cell: MosquittoProcess, top: MosquittoProcess, programs: ExitStack
    ) -> None:
        self.folder = folder
        self.cell = cell
        self.top = top
        self.programs = programs
        self.live = monitor_fleet(BrokerSession(top.url), "demo")

    @property
    def monitor(self) -> Monitor:
        return self.live.monitor

    def start(self, *arguments: str) -> Program:
        return self.programs.enter_context(Program(self.folder, *arguments))

    def watch(self) -> Program:
        """Watch the cell with a rule firing for each of its UltraServers."""
        rules = self.folder / "rules.toml"
        rules.write_text(RULES)
        return self.start("watch", "--broker", str(self.cell.url), "--rules", str(rules))

    def relay(self) -> Program:
        to = ("--to", str(self.top.url), "--cell", "cell-a")
        return self.start("relay", "--broker", str(self.cell.url), *to)

    def count(self, state: Freshness) -> int:
        return (
            int(self.monitor.rollups.states(Level.FLEET)[0, state])
            if self.monitor.rollups.generation >= 0
            else 0
        )

    def active(self) -> str:
        """Return the client id of the cell's active relay; empty for none."""
        (found,) = self.monitor.ingest.cells.relays(self.monitor.clock.monotonic_s()) or (None,)
        return "" if found is None or found.active is None else found.active.client

    async def until(self, is_so: Callable[[], bool]) -> float:
        """Wait for a condition, and return the seconds."""
        begin_s = time.monotonic()
        while not is_so():
            assert time.monotonic() < begin_s + LIMIT_S, [self.count(each) for each in Freshness]
            await asyncio.sleep(0.02)
        return time.monotonic() - begin_s

    async def until_live(self) -> float:
        return await self.until(lambda: self.count(Freshness.LIVE) == CHIPS)

    async def status(self, *options: str) -> tuple[int, str]:
        arguments = ("--broker", str(self.top.url), "--name", "demo", "--wait", "1s", *options)
        result = await asyncio.to_thread(run, "status", *arguments)
        return result.returncode, result.stdout


@pytest.fixture
def bench(tmp_path: Path, mosquitto: MosquittoProcess) -> Iterator[Bench]:
    top = MosquittoProcess(tmp_path)
    top.start()
    with ExitStack() as programs:
        made = Bench(tmp_path, mosquitto, top, programs)
        made.start(
            "simulate", "--broker", str(mosquitto.url), "--fleet", "demo", "--format", "cbor"
        )
        yield made
    top.kill()


async def test_a_ring_of_relays_is_refused(bench: Bench) -> None:
    """A ring is refused with the reason, leaves nothing, and the first relay goes on.

    Of two brokers, and of one under two names.
    """
    bench.relay()
    async with background(source=bench.live.source.run(), monitor=bench.monitor.run()):
        await bench.until_live()
        by_name = f"mqtt://localhost:{bench.cell.port}"
        for broker, to in ((bench.top.url, bench.cell.url), (by_name, bench.cell.url)):
            arguments = ("--broker", str(broker), "--to", str(to), "--cell", "cell-b")
            result = await asyncio.to_thread(run, "relay", *arguments, "--name", "demo")
            assert result.returncode == 1
            assert "a ring of relays: what cell cell-b sends" in result.stderr.splitlines()[-1]
            assert "active: " not in result.stderr
        look = ("--broker", str(bench.cell.url), "--name", "demo", "--json")
        seen = json.loads((await asyncio.to_thread(run, "status", *look)).stdout)
        assert (seen["chips"], seen["live_chips"], seen["rolled_chips"]) == (CHIPS, CHIPS, 0)
        assert [each.cell for each in bench.monitor.ingest.cells.relays(time.monotonic())] == [
            "cell-a"
        ]
        assert bench.count(Freshness.LIVE) == CHIPS


async def test_a_cell_is_shown_through_kills_of_relays_and_brokers(bench: Bench) -> None:
    """A standby takes over from a relay, and brokers come back empty.

    Without any relay all is not observed, alerts included, and none is resolved.
    """
    bench.watch()
    first = bench.relay()
    alerts = bench.monitor.alerts
    async with background(source=bench.live.source.run(), monitor=bench.monitor.run()):
        await bench.until_live()
        await bench.until(lambda: bool(alerts.active()))
        second = bench.relay()
        await bench.until(lambda: "standby: " in second.output)
        name = bench.active()
        seen = json.loads((await bench.status("--json"))[1])
        assert (seen["rolled_chips"], seen["cells"], seen["live_chips"]) == (
            CHIPS,
            ["cell-a"],
            CHIPS,
        )
        assert (seen["undecodable"], seen["internal_errors"], seen["lost"]) == (0, 0, 0)
        (relays,) = seen["relays"]
        assert (relays["cell"], relays["active"]["client"], len(relays["standby"])) == (
            "cell-a",
            name,
            1,
        )

        first.end(signal.SIGKILL)
        await bench.until(lambda: bench.active() not in {"", name})
        await bench.until_live()
        assert f"takes over from {name}" in second.output
        assert [(each.cell, each.is_unobserved) for each in alerts.active()] == [("cell-a", False)]
        shown = await asyncio.to_thread(
            run, "alerts", "--broker", str(bench.top.url), "--name", "demo"
        )
        assert shown.returncode == 3, shown.stderr
        assert "drawing-power: cell-a: uc1: 192 chips draw power" in shown.stdout
        assert "cell cell-a: trnfleet-watch-" in shown.stderr

        bench.cell.kill()
        await bench.until(lambda: "does not hear its cell" in second.output)
        await bench.until(lambda: [each.is_unobserved for each in alerts.active()] == [True])
        bench.top.restart()
        bench.cell.start()
        count = bench.monitor.ingest.counts.messages
        await bench.until(lambda: bench.monitor.ingest.counts.messages > count)
        await bench.until_live()
        await bench.until(lambda: [each.is_unobserved for each in alerts.active()] == [False])

        second.end(signal.SIGKILL)
        await bench.until(lambda: bench.count(Freshness.UNOBSERVED) == CHIPS)
        await bench.until(lambda: [each.is_unobserved for each in alerts.active()] == [True])
        code, text = await bench.status()
        assert code == 3
        assert "cell-a: no relay is active; no standby" in text
        assert "[cell-a, not observed]" in text
        assert "stopped" not in text
