"""`trnfleet bridge`: reservations of a real AWS account, from EC2 to a broker."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from trnfleet.cli.options import (
    Duration,
    FleetName,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.clock import SystemClock
from trnfleet.tasks import Ending, background, run_until
from trnfleet.wire.ports import LinkStatus
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from trnfleet.bridge.ec2.service import Bridge
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Envelope

CONNECT_LIMIT_S = 10.0
SHORTEST_INTERVAL_S = 1.0


@click.command("bridge")
@broker_options(required=False)
@setting(
    "--name", type=FleetName(), required=True, help="Name of the fleet that the account's hosts publish as."
)
@setting("--region", metavar="REGION", help="AWS region; else what AWS_DEFAULT_REGION or the profile says.")
@setting("--profile", metavar="NAME", help="AWS profile; else what AWS_PROFILE says.")
@setting("--interval", type=Duration(86_400), default="60s", help="Time between two readings.")
@click.option("--once", is_flag=True, help="Read once, publish, and end.")
@click.option("--stdout", is_flag=True, help="Write NDJSON to stdout instead of publishing.")
@click.option(
    "--blocks-only", is_flag=True, help="Leave out On-Demand Capacity Reservations that are no block."
)
@click.option(
    "--forget",
    is_flag=True,
    help="Clear what is gone from EC2; else it stays as it was told last.",
)
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    broker: BrokerUrl | None,
    password_file: str | None,
    root: str,
    name: str,
    region: str | None,
    profile: str | None,
    interval: float,
    once: bool,
    stdout: bool,
    blocks_only: bool,
    forget: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Publish Capacity Blocks and Capacity Reservations of an AWS account as EC2 describes them.

    It only describes: DescribeCapacityBlocks, DescribeCapacityBlockStatus, DescribeCapacityReservations,
    DescribeCapacityBlockExtensionHistory and DescribeInstances are the permissions it uses, and what one of them would tell
    is missing where it is not granted. Needs boto3: pip install 'trnfleet[aws]'.

    \b
    Examples:
      trnfleet bridge --name prod --region us-east-2 --stdout --once
      trnfleet bridge --name prod --region us-east-2 --broker mqtt://127.0.0.1:1883
    """
    if broker is None and not stdout:
        raise click.UsageError("say where to: either --broker URL or --stdout")
    if stdout and ctx.get_parameter_source("broker") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--stdout and --broker do not go together: say where to with one of them")
    if interval < SHORTEST_INTERVAL_S:
        raise click.UsageError(f"--interval: at least {SHORTEST_INTERVAL_S:g} s, not {interval:g} s")
    set_up_logs(log_format, log_level)
    from trnfleet.bridge.ec2.client import connect  # noqa: PLC0415  --help stays quick
    from trnfleet.bridge.ec2.service import Bridge  # noqa: PLC0415  --help stays quick

    identity = f"trnfleet-bridge-{secrets.token_hex(4)}"
    bridge = Bridge(
        name,
        client_id=identity,
        boot=secrets.token_hex(8),
        root=root,
        with_default=not blocks_only,
        forget=forget,
    )
    client = connect(region, profile)
    if stdout:
        asyncio.run(_write(bridge, client, root, interval, once=once))
    elif broker is not None:
        password = find_password(password_file)
        asyncio.run(_publish(bridge, client, broker, identity, password, interval, once=once))


class _Lines:
    """Writes reservations and events as NDJSON; the port `Publisher`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.status = LinkStatus(broker="stdout", connected=True)

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Do nothing: what is written stays written."""

    async def publish(self, batch: Iterable[Envelope]) -> None:
        """Write a batch, without what says whether a publisher is there and without cleared messages."""
        for envelope in batch:
            is_presence = parse_topic(envelope.topic, self._root).topic_class is TopicClass.PUBLISHER
            if envelope.payload and not is_presence:
                sys.stdout.buffer.write(envelope.payload + b"\n")
        sys.stdout.buffer.flush()


async def _publish(
    bridge: Bridge,
    client: Any,
    url: BrokerUrl,
    identity: str,
    password: Password | None,
    interval_s: float,
    *,
    once: bool,
) -> None:
    from trnfleet.bridge.ec2.client import read  # noqa: PLC0415  --help stays quick
    from trnfleet.bridge.ec2.service import serve  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttPublisher  # noqa: PLC0415  --help stays quick

    clock, ending = SystemClock(), Ending()
    publisher = MqttPublisher(
        url, client_id=identity, password=password, will=bridge.presence("offline"), clock=clock
    )
    publisher.on_connect(bridge.announce)
    with ending.on_signals():
        async with background(publisher=publisher.run()):
            await publisher.wait_connected(CONNECT_LIMIT_S)
            work = serve(
                bridge, publisher, lambda: read(client), clock=clock, interval_s=interval_s, once=once
            )
            await run_until(ending, work)


async def _write(bridge: Bridge, client: Any, root: str, interval_s: float, *, once: bool) -> None:
    from trnfleet.bridge.ec2.client import read  # noqa: PLC0415  --help stays quick
    from trnfleet.bridge.ec2.service import serve  # noqa: PLC0415  --help stays quick

    ending = Ending()
    work = serve(
        bridge,
        _Lines(root),
        lambda: read(client),
        clock=SystemClock(),
        interval_s=interval_s,
        once=once,
        repeats=False,
    )
    with ending.on_signals():
        try:
            await run_until(ending, work)
        except BrokenPipeError:
            # Whoever reads has enough; Python's own flush at the end must not complain either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
