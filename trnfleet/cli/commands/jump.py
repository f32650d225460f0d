"""`trnfleet jump`: let a running simulator's time jump ahead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.commands.inject import LONGEST_WAIT_S, ask_fleet, tell
from trnfleet.cli.options import (
    Duration,
    FleetName,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)

if TYPE_CHECKING:
    from trnfleet.transport.url import BrokerUrl

LONGEST_JUMP_S = 366 * 86_400.0


@click.command("jump")
@click.argument("by_s", metavar="DURATION", type=Duration(LONGEST_JUMP_S))
@broker_options(required=True)
@setting("--name", type=FleetName(), help="Which fleet, where the broker has several.")
@setting("--timeout", type=Duration(LONGEST_WAIT_S), default="5s", help="Longest wait for an answer.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    by_s: float,
    broker: BrokerUrl,
    password_file: str | None,
    root: str,
    name: str | None,
    timeout: float,
    as_json: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Let the time of a simulator that was started with --allow-commands jump ahead by DURATION.

    What lies between is lived through: jobs go on, faults come and are repaired, and only the last tick is published.
    Exit status: 0 done, 1 refused or not answered, 2 wrong use.

    \b
    Examples:
      trnfleet jump 8h --broker mqtt://127.0.0.1:1883
      trnfleet jump 14d --broker mqtt://127.0.0.1:1883 --name demo
    """
    from trnfleet.cli.requests import Request  # noqa: PLC0415  --help stays quick

    set_up_logs(log_format, log_level)
    password = find_password(password_file)
    request = Request("jump", args={"by_s": by_s})
    answers = asyncio.run(ask_fleet(broker, name, request, root=root, password=password, timeout_s=timeout))
    ctx.exit(tell(answers, as_json=as_json))
