"""`trnfleet bridge`: reservations of a real AWS account, from EC2 to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import Destination, destination_options, log_options, setting
from trnfleet.cli.output import report
from trnfleet.cli.params import Duration, FileName, Price
from trnfleet.clock import SystemClock
from trnfleet.domain.durations import DAY_S

if TYPE_CHECKING:
    from decimal import Decimal


@click.command("bridge")
@destination_options
@setting(
    "--region",
    metavar="REGION",
    help="AWS region; by default AWS_DEFAULT_REGION or the profile's.",
)
@setting("--aws-profile", metavar="NAME", help="AWS profile; by default AWS_PROFILE.")
@setting(
    "--interval",
    type=Duration(DAY_S, least_s=1.0),
    default="60s",
    help="Time between two readings.",
)
@click.option(
    "--blocks-only",
    is_flag=True,
    help="Leave out On-Demand Capacity Reservations, which are not blocks.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Clear reservations that EC2 no longer returns. By default their last state remains.",
)
@setting(
    "--price",
    "prices",
    multiple=True,
    type=Price(),
    metavar="TYPE=USD",
    help=(
        "Price of an instance for an hour, for the fee of reservations of its type. By default fees"
        " are unknown. Repeatable."
    ),
)
@setting(
    "--events",
    type=FileName(),
    metavar="FILE",
    help=("Also publish EC2's events from FILE: EventBridge events, one a line; - reads stdin."),
)
@log_options
def command(
    destination: Destination,
    region: str | None,
    aws_profile: str | None,
    interval: float,
    blocks_only: bool,
    forget: bool,
    prices: tuple[tuple[str, Decimal], ...],
    events: str | None,
) -> None:
    """Publish Capacity Blocks and Capacity Reservations of an AWS account as EC2 describes them.

    It changes nothing in AWS. It uses the permissions DescribeCapacityBlocks, DescribeCapacityBlockStatus,
    DescribeCapacityReservations, DescribeCapacityBlockExtensionHistory and DescribeInstances; without one of them, its figures are
    missing. Needs boto3: pip install boto3, or pipx inject trnfleet boto3.

    \b
    Examples:
      trnfleet bridge --name prod --region us-east-2 --stdout --once
      trnfleet bridge --name prod --region us-east-2 --broker mqtt://127.0.0.1:1883
      trnfleet bridge --name prod --price trn2.48xlarge=35.76 --broker mqtt://127.0.0.1:1883
      trnfleet bridge --name prod --events - --broker mqtt://127.0.0.1:1883 < eventbridge.ndjson
    """
    from trnfleet.services.bridge import BridgeRequest, Ec2Bridge

    bridge = Ec2Bridge(
        BridgeRequest(
            destination.name,
            destination.root,
            interval,
            region,
            aws_profile,
            destination.once,
            blocks_only,
            forget,
            events,
            dict(prices),
        )
    )
    destination.run(
        lambda session: bridge.publish(session, report),
        lambda output: bridge.write(output, SystemClock()),
    )
