"""A broker's own figures, from a real Mosquitto with and without permission."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import run

from lab.brokers.nats import Nats
from trnfleet.clock import SystemClock
from trnfleet.monitor.pipeline.brokers import BrokerHealth
from trnfleet.services.session import BrokerSession
from trnfleet.tasks import background

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

WAIT_S = 5.0


def said_by(broker: MosquittoProcess, wanted: float = WAIT_S) -> BrokerHealth:
    """Return a broker's health as seen by a source, once its version is known.

    Or after some time.
    """

    async def look() -> BrokerHealth:
        session = BrokerSession(broker.url)
        source = session.source([("trnfleet/#", 0)], reads_figures=True)
        async with background(source=source.run()):
            await source.wait_connected(WAIT_S)
            for _ in range(round(wanted / 0.05)):
                await asyncio.sleep(0.05)
                if "subscriptions/count" in source.status.broker_says:
                    break
            return BrokerHealth.of(source.status, SystemClock().monotonic_s())

    broker.start()
    try:
        return asyncio.run(look())
    finally:
        broker.kill()


def test_mosquitto_says_its_version_clients_and_drops(tmp_path: Path) -> None:
    """Mosquitto's figures are beside the connection's own, and do not change them."""
    seen = said_by(MosquittoProcess(tmp_path, "sys_interval 1"))
    assert seen.kind.startswith("mosquitto version")
    assert seen.figures is not None
    assert seen.figures.clients is not None
    assert seen.figures.dropped == 0
    assert seen.connected
    assert (seen.received, seen.reconnects, seen.last_error) == (0, 0, "")


def test_where_the_access_list_denies_them_nothing_is_wrong(tmp_path: Path) -> None:
    """Without them the connection stands, and says nothing of a refusal."""
    access = tmp_path / "access"
    access.write_text("topic read trnfleet/#\n", encoding="utf-8")
    seen = said_by(MosquittoProcess(tmp_path, "sys_interval 1", f"acl_file {access}"), 1.5)
    assert seen.figures is None
    assert seen.connected
    assert (seen.reconnects, seen.last_error) == (0, "")


@pytest.mark.skipif(Nats.version() is None, reason="NATS MISSING")
def test_a_broker_without_figures_leaves_the_log_alone(tmp_path: Path) -> None:
    """NATS Server refuses topics with spaces: a debug line and no warning."""
    with Nats(tmp_path) as broker:
        look = (
            "status",
            "--broker",
            str(broker.url),
            "--name",
            "lab",
            "--wait",
            "1s",
            "--log-level",
        )
        quiet = run(*look, "warning")
        all_lines = run(*look, "debug")
    assert "subscription_refused" in all_lines.stderr
    assert quiet.stderr.splitlines() == [
        f"trnfleet: {broker.url}: nothing describes a fleet 'lab' within 1 s; --wait waits longer"
    ]
