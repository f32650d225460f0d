"""`trnfleet broker`: the embedded broker alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import log_options, setting
from trnfleet.clock import SystemClock
from trnfleet.errors import BrokerError
from trnfleet.tasks import Ending, run_until

if TYPE_CHECKING:
    from trnfleet.transport.embedded import EmbeddedBroker


@click.command("broker")
@setting("--port", type=click.IntRange(1, 65_535), default=1883, help="Port to listen on; loopback only.")
@setting(
    "--kind",
    type=click.Choice(["mosquitto", "amqtt"]),
    help="Broker program; by default Mosquitto if it is installed.",
)
@log_options
def command(port: int, kind: str | None) -> None:
    """Run the demo's broker on loopback until ctrl+c.

    \b
    Example:
      trnfleet broker --port 1883 &
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet demo
    """
    asyncio.run(_run(port, kind))


async def _run(port: int, kind: str | None) -> None:
    from trnfleet.transport.embedded import embedded_broker

    prefer = kind if kind in {"mosquitto", "amqtt"} else None
    ending = Ending()
    with ending.on_signals():
        async with embedded_broker(clock=SystemClock(), port=port, prefer=prefer) as broker:  # type: ignore[arg-type]
            click.echo(f"{broker.kind} at {broker.url} (loopback only); ctrl+c ends it", err=True)
            await run_until(ending, _until_gone(broker))


async def _until_gone(broker: EmbeddedBroker) -> None:
    """Wait for an end that nobody asked for.

    Raises:
        BrokerError: the broker has ended.
    """
    status = await broker.process.wait()
    raise BrokerError(f"{broker.kind} ended by itself with status {status}")
