"""`trnfleet jump`: make a running simulator's time jump ahead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.commands.inject import print_replies
from trnfleet.cli.options import (
    broker_options,
    fleet_option,
    json_option,
    log_options,
    timeout_option,
)
from trnfleet.cli.params import Duration
from trnfleet.domain.durations import LONGEST_JUMP_S

if TYPE_CHECKING:
    from trnfleet.services.session import BrokerSession


@click.command("jump")
@click.argument("by_s", metavar="DURATION", type=Duration(LONGEST_JUMP_S))
@broker_options(required=True)
@fleet_option
@timeout_option
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession,
    by_s: float,
    name: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Move the time of a simulator ahead by DURATION. You must have started it with --allow-commands.

    It simulates the time between, with jobs, faults and repairs, and publishes only the last tick.
    Exit status: 0 done, 1 refused or no answer, 2 wrong use.

    \b
    Examples:
      trnfleet jump 8h --broker mqtt://127.0.0.1:1883
      trnfleet jump 14d --broker mqtt://127.0.0.1:1883 --name demo
    """
    from trnfleet.services.simulator.client import Command, send_command

    command = Command("jump", args={"by_s": by_s})
    replies = asyncio.run(send_command(session, name, command, timeout_s=timeout))
    ctx.exit(print_replies(replies, as_json=as_json))
