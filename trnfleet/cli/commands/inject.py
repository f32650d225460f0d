"""`trnfleet inject`: cause a fault in a running simulator, list what there is to cause, or what is there now."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.cli.requests import Answer, Request
    from trnfleet.transport.url import BrokerUrl, Password

LONGEST_WAIT_S = 3_600.0
"""Simulators refuse commands that are good for longer."""
FAILED = 1
MOST_LINES = 50
"""Active faults that are told of one simulator."""


def _complete_fault(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the faults whose names begin like what is typed."""
    from trnfleet.domain.faults import FAULTS  # noqa: PLC0415  --help stays quick

    return [name for name in FAULTS if name.startswith(incomplete)]


@click.command("inject")
@click.argument("fault", required=False, shell_complete=_complete_fault)
@click.argument("target", required=False)
@setting("--for", "lasts_s", type=Duration(), help="Simulated time until it ends; by default as --list says.")
@setting("--magnitude", type=float, help="How bad it is, in the fault's own unit; by default as --list says.")
@click.option("--list", "listing", is_flag=True, help="List every fault that may be caused; needs no broker.")
@click.option("--active", is_flag=True, help="Ask the simulator which faults are there now.")
@broker_options(required=False)
@setting("--name", type=FleetName(), help="Which fleet, where the broker has several.")
@setting("--timeout", type=Duration(LONGEST_WAIT_S), default="5s", help="Longest wait for an answer.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    fault: str | None,
    target: str | None,
    lasts_s: float | None,
    magnitude: float | None,
    listing: bool,
    active: bool,
    broker: BrokerUrl | None,
    password_file: str | None,
    root: str,
    name: str | None,
    timeout: float,
    as_json: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Cause FAULT at TARGET in a simulator that was started with --allow-commands.

    TARGET is an address, a pattern, or a random choice of what a pattern matches; a link is a chip and its direction.
    Exit status: 0 done, 1 refused or not answered, 2 wrong use.

    \b
    Examples:
      trnfleet inject --list
      trnfleet inject straggler uc1/us-0001/trn2u-0001-2/chip05 --for 5m --broker mqtt://127.0.0.1:1883
      trnfleet inject link_down uc1/us-0001/trn2u-0001-0/chip02:east --broker mqtt://127.0.0.1:1883
      trnfleet inject ecc_corrected_storm 'random(2) of uc1/us-0001/*/*' --broker mqtt://127.0.0.1:1883
      trnfleet inject transport_drop '*' --magnitude 0.2 --broker mqtt://127.0.0.1:1883
      trnfleet inject --list --json | jq -r '.faults[].name'
    """
    set_up_logs(log_format, log_level)
    if listing + active + (fault is not None) != 1:
        raise click.UsageError(
            "name a fault and a target, as in `trnfleet inject straggler uc1/us-0001/*/chip05`; or --list; or --active"
        )
    if listing:
        from trnfleet.cli.catalogue import as_table, facts  # noqa: PLC0415  --help stays quick

        click.echo(json.dumps({"faults": facts()}, indent=2) if as_json else as_table())
        return
    request = _request(fault, target, lasts_s, magnitude)
    if broker is None:
        raise click.UsageError("say which broker the simulator publishes to: --broker URL")
    password = find_password(password_file)
    answers = asyncio.run(ask_fleet(broker, name, request, root=root, password=password, timeout_s=timeout))
    ctx.exit(tell(answers, as_json=as_json))


def _request(
    fault: str | None, target: str | None, lasts_s: float | None, magnitude: float | None
) -> Request:
    """Return what is asked for.

    Raises:
        ConfigError: there is no such fault, or a value is out of its range; the message names the nearest, or the limit.
    """
    from trnfleet.cli.requests import Request  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.faults import check_use, find_fault  # noqa: PLC0415  --help stays quick

    if fault is None:
        return Request("faults")
    check_use(find_fault(fault), lasts_s, magnitude)
    if target is None:
        raise click.UsageError("name a target, too: an address such as uc1/us-0001/trn2u-0001-2/chip05")
    args: dict[str, str | float | bool | None] = {"fault": fault}
    if lasts_s is not None:
        args["for_s"] = lasts_s
    if magnitude is not None:
        args["magnitude"] = magnitude
    return Request("inject", target, args)


async def ask_fleet(
    url: BrokerUrl,
    name: str | None,
    request: Request,
    *,
    root: str,
    password: Password | None,
    timeout_s: float,
) -> list[Answer]:
    """Ask the simulators of a fleet, the broker's only one unless it is named, and return their answers."""
    from trnfleet.cli.discovery import find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.requests import ask  # noqa: PLC0415  --help stays quick

    clock = SystemClock()
    fleet = await find_fleet(url, name=name, root=root, password=password, clock=clock)
    return await ask(url, fleet, request, root=root, password=password, timeout_s=timeout_s, clock=clock)


def tell(answers: Sequence[Answer], *, as_json: bool) -> int:
    """Print what the simulators said, refusals to stderr, and return the exit status."""
    if as_json:
        click.echo(json.dumps([answer._asdict() for answer in answers], indent=2))
    else:
        for answer in answers:
            if answer.ok:
                click.echo(f"{answer.simulator}: {answer.reason}")
                for line in active_lines(answer.result):
                    click.echo(line)
            else:
                click.echo(f"trnfleet: {answer.simulator} refuses: {answer.reason}", err=True)
    return 0 if any(answer.ok for answer in answers) else FAILED


def active_lines(result: dict[str, Any]) -> list[str]:
    """Return a line for each active fault that a simulator's answer tells of; what is no such thing is passed over."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    active = result.get("active")
    faults = [each for each in active if isinstance(each, dict)] if isinstance(active, list) else []
    lines = []
    for each in faults[:MOST_LINES]:
        left = each.get("left_s")
        end = f"for another {left:,.0f} s" if isinstance(left, (int, float)) else "until it is repaired"
        lines.append(f"  {plain(str(each.get('fault'))):<24}{plain(str(each.get('target')))}  {end}")
    if len(faults) > MOST_LINES:
        lines.append(f"  and {len(faults) - MOST_LINES:,} more")
    return lines
