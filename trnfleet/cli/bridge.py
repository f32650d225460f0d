"""`trnfleet bridge`: reservations of a real AWS account, from EC2 to a broker."""

from __future__ import annotations

import asyncio
import secrets
import sys
from typing import TYPE_CHECKING

import click

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

if TYPE_CHECKING:
    from typing import Any

    from trnfleet.bridge.service import Bridge
    from trnfleet.transport.url import BrokerUrl, Password

CONNECT_LIMIT_S = 10.0


@click.command("bridge")
@broker_options(required=False)
@setting(
    "--name", type=FleetName(), required=True, help="Name of the fleet that the account's hosts publish as."
)
@setting("--region", metavar="REGION", help="AWS region; else what AWS_REGION or the profile says.")
@setting("--profile", metavar="NAME", help="AWS profile; else what AWS_PROFILE says.")
@setting("--interval", type=Duration(), default="60s", help="Time between two readings.")
@click.option("--once", is_flag=True, help="Read once, publish, and end.")
@click.option("--stdout", is_flag=True, help="Write NDJSON to stdout instead of publishing.")
@click.option(
    "--blocks-only", is_flag=True, help="Leave out On-Demand Capacity Reservations that are no block."
)
@log_options
def command(
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
    if (broker is None) is not stdout:
        raise click.UsageError("say where to: either --broker URL or --stdout")
    set_up_logs(log_format, log_level)
    from trnfleet.bridge.service import Bridge  # noqa: PLC0415  boto3 is an extra, and --help stays quick

    identity = f"trnfleet-bridge-{secrets.token_hex(4)}"
    bridge = Bridge(
        name, client_id=identity, boot=secrets.token_hex(8), root=root, with_default=not blocks_only
    )
    from trnfleet.bridge.ec2 import connect  # noqa: PLC0415  as above

    client = connect(region, profile)
    if broker is None:
        asyncio.run(_write(bridge, client, interval, once=once))
    else:
        password = find_password(password_file)
        asyncio.run(_publish(bridge, client, broker, identity, password, interval, once=once))


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
    from trnfleet.bridge.ec2 import read  # noqa: PLC0415  as above
    from trnfleet.bridge.service import serve  # noqa: PLC0415  as above
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


async def _write(bridge: Bridge, client: Any, interval_s: float, *, once: bool) -> None:
    from trnfleet.bridge.ec2 import read  # noqa: PLC0415  as above
    from trnfleet.bridge.service import lines_of  # noqa: PLC0415  as above

    clock, ending = SystemClock(), Ending()

    async def work() -> None:
        while True:
            reading = await asyncio.to_thread(read, client)
            for problem in reading.problems:
                click.echo(f"trnfleet: {problem}", err=True)
            sys.stdout.buffer.writelines(lines_of(bridge, reading, clock.wall_ns()))
            sys.stdout.buffer.flush()
            if once:
                return
            await clock.sleep(interval_s)

    with ending.on_signals():
        await run_until(ending, work())
