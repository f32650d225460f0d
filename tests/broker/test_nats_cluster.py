"""Three nodes of NATS Server on loopback over MQTT 3.1.1.

A dying node, and a top broker of cells.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program, run
from support.processes.waiting import eventually

from lab.brokers.nats import NatsCluster, NatsNode, node_start
from lab.brokers.process import PASSWORD
from trnfleet.config import find_file, load_model
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.layout import Layout
from trnfleet.monitor.freshness import Freshness
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import BrokerSession
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CHIPS = 192
"""Of the demo."""
LET_IN: dict[str, Any] = {"TRNFLEET_MQTT_PASSWORD": PASSWORD}

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsNode]]:
    """Yield three nodes: no leader, leader of all MQTT streams, and the meta leader.

    The meta leader decides where streams are stored.
    """
    with NatsCluster(tmp_path_factory.mktemp("nats")) as cluster:
        deciding = cluster.deciding()
        first, second = (node for node in cluster.nodes if node is not deciding)
        cluster.lead_from(second)
        yield [first, second, deciding]


@pytest.fixture(scope="module")
def cells(nodes: list[NatsNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run two cells with half of a fleet each, and their relays.

    Each cell has a Mosquitto. The relays publish at two of the nodes.
    """
    folder = tmp_path_factory.mktemp("cells")
    with ExitStack() as stack:
        for number, node in enumerate(nodes[1:]):
            broker = MosquittoProcess(folder)
            broker.start()
            stack.callback(broker.kill)
            shard = (
                "simulate",
                "--fleet",
                "mixed",
                "--format",
                "cbor",
                "--shard",
                f"{number + 1}/2",
            )
            stack.enter_context(Program(folder, *shard, "--broker", str(broker.url)))
            relay = (
                "relay",
                "--broker",
                str(broker.url),
                "--to",
                str(node.url),
                "--cell",
                f"cell-{number}",
            )
            stack.enter_context(Program(folder, *relay, "--name", "mixed", **LET_IN))
        yield


@pytest.mark.usefixtures("cells")
async def test_a_node_that_dies_takes_its_own_clients_along_and_nobody_else(
    nodes: list[NatsNode], tmp_path: Path
) -> None:
    """A dead node's simulator is stale at another node, and live once it is back.

    It is not offline. Cells stay live in `status` at a third.
    """
    simulate = ("simulate", "--fleet", "demo", "--format", "cbor", "--granularity", "block")
    with Program(tmp_path, *simulate, "--period", "200ms", "--broker", str(nodes[0].url), **LET_IN):
        session = BrokerSession(nodes[1].url, password=nodes[1].password)
        demo, mixed = (monitor_fleet(session, name) for name in ("demo", "mixed"))

        def count(state: Freshness) -> int:
            return demo.monitor.store.count(state)

        def cells_are_live() -> bool:
            summary = mixed.monitor.summary()
            return summary.cells == ("cell-0", "cell-1") and summary.live_chips == summary.chips

        async with background(
            demo=demo.source.run(),
            of_demo=demo.monitor.run(),
            mixed=mixed.source.run(),
            of_mixed=mixed.monitor.run(),
        ):
            await eventually(lambda: count(Freshness.LIVE) == CHIPS and cells_are_live(), 20)
            nodes[0].kill()
            line = ("status", "--broker", str(nodes[2].url), "--name", "mixed", "--json")
            status = asyncio.create_task(asyncio.to_thread(run, *line, **LET_IN))
            await eventually(lambda: count(Freshness.STALE) == CHIPS)
            # While it is dead. It publishes no last will, and what is retained is known to the
            # others.
            await eventually(cells_are_live)
            assert count(Freshness.OFFLINE) == 0
            node_start(nodes[0])
            await eventually(lambda: count(Freshness.LIVE) == CHIPS, 20)
            assert demo.monitor.counts.lost > 0
            assert (demo.source.status.protocol, demo.source.status.connects) == ("3.1.1", 1)
            top = json.loads((await status).stdout)
    whole = Layout.of(expand(load_model(find_file("fleets", "mixed"), FleetFile)))
    assert (top["chips"], top["live_chips"], top["rolled_chips"]) == (whole.chips,) * 3
    assert (top["instances"], top["cells"]) == (len(whole.instances), ["cell-0", "cell-1"])
    assert (top["lost"], top["undecodable"], top["internal_errors"]) == (0, 0, 0)
