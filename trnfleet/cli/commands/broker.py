"""`trnfleet broker`: the embedded broker alone.

Beyond loopback it needs TLS and a password.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet import folders
from trnfleet.cli.options import log_options, setting
from trnfleet.clock import SystemClock
from trnfleet.errors import BrokerError
from trnfleet.tasks import Ending, run_until
from trnfleet.transport.url import is_loopback

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.transport.embedded import EmbeddedBroker

LOOPBACK = "127.0.0.1"


@click.command("broker")
@setting(
    "--port",
    type=click.IntRange(1, 65_535),
    help="Port to listen on; by default 1883, with TLS 8883.",
)
@setting(
    "--host",
    default=LOOPBACK,
    metavar="ADDRESS",
    help=(
        "Address to listen on, such as 0.0.0.0 for all. Beyond loopback the broker uses TLS and a"
        " password, which it creates."
    ),
)
@setting(
    "--kind",
    type=click.Choice(["mosquitto", "nats"]),
    help="Broker program; by default Mosquitto if it is installed.",
)
@log_options
def command(port: int | None, host: str, kind: str | None) -> None:
    """Run the demo's broker until ctrl+c: open on loopback, or with TLS and a password on other addresses.

    Beyond loopback you need Mosquitto, openssl and mosquitto_passwd. Certificates and password are in the folder `broker` of the state
    folder, and stay the same at the next start.

    \b
    Examples:
      trnfleet broker --port 1883
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet demo
      trnfleet broker --host 0.0.0.0
    """
    asyncio.run(_run(port, host, kind))


async def _run(port: int | None, host: str, kind: str | None) -> None:
    from trnfleet.transport.embedded import embedded_broker

    prefer = kind if kind in {"mosquitto", "nats"} else None
    folder = None if is_loopback(host) else _access_folder()
    ending = Ending()
    with ending.on_signals():
        async with embedded_broker(
            clock=SystemClock(),
            port=port or (1883 if folder is None else 8883),
            host=host,
            prefer=prefer,  # type: ignore[arg-type]  # one of the two names
            folder=folder,
        ) as broker:
            if broker.access is None:
                click.echo(
                    f"{broker.kind} at {broker.url} (loopback only); ctrl+c ends it", err=True
                )
            else:
                click.echo(
                    f"{broker.kind} at {broker.url}, listening on {host}; ctrl+c ends it", err=True
                )
                click.echo(
                    f"on this machine: trnfleet monitor --broker {broker.url} --ca"
                    f" {broker.access.ca} --password-file {broker.access.password}\nelsewhere the"
                    " same with copies of both files, the password's of mode 0600",
                    err=True,
                )
            await run_until(ending, _until_gone(broker))


async def _until_gone(broker: EmbeddedBroker) -> None:
    """Wait for an unrequested end.

    Raises:
        BrokerError: the broker has ended.
    """
    status = await broker.process.wait()
    raise BrokerError(f"{broker.kind} ended by itself with status {status}")


def _access_folder() -> Path:
    state = folders.state_folder()
    if state.problem:
        raise BrokerError(
            f"{state.problem}: certificates and password of a broker beyond loopback must be kept;"
            " set XDG_STATE_HOME to a folder"
        )
    return state.path / "broker"
