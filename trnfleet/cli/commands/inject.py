"""`trnfleet inject`: inject a fault in a running simulator, or list all or active faults."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import (
    broker_options,
    fleet_option,
    json_option,
    log_options,
    setting,
    timeout_option,
)
from trnfleet.cli.output import print_json
from trnfleet.cli.params import Duration, Target
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.faults.fault import Fault, check_use
from trnfleet.domain.faults.table import (
    FAULTS,
    LLAMA_3_CHIPS,
    find_fault,
    interruptions_per_device_day,
)
from trnfleet.errors import ExitStatus
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.services.session import BrokerSession
    from trnfleet.services.simulator.client import Arguments, Reply

TARGETS = {
    "chip": "uc1/us-0001/trn2u-0001-2/chip05",
    "link": "uc1/us-0001/trn2u-0001-2/chip05:east",
    "instance": "uc1/us-0001/trn2u-0001-2",
    "rack": "uc1/us-0001/trn2u-0001-2",
    "ultraserver": "uc1/us-0001",
    "cluster": "uc1",
    "publisher": "*",
}
"""Example of a target of each scope."""
_NAME_WIDTH = max(map(len, FAULTS))


def _complete_fault(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the faults whose names begin with `incomplete`."""
    return [name for name in FAULTS if name.startswith(incomplete)]


@click.command("inject")
@click.argument("fault", required=False, shell_complete=_complete_fault)
@click.argument("target", type=Target(), required=False)
@setting(
    "--for",
    "lasts_s",
    type=Duration(),
    help="Simulated time until it ends; --list has the defaults.",
)
@setting(
    "--magnitude", type=float, help="Magnitude in the fault's own unit; --list has the defaults."
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List all faults; needs no broker.",
)
@setting(
    "--chips",
    type=click.IntRange(1, 4_000_000),
    default=LLAMA_3_CHIPS,
    help="With --list: show the times between faults for this number of chips.",
)
@click.option("--active", is_flag=True, help="List the active faults of the simulator.")
@broker_options(required=False)
@fleet_option
@timeout_option
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession | None,
    fault: str | None,
    target: str | None,
    lasts_s: float | None,
    magnitude: float | None,
    listing: bool,
    chips: int,
    active: bool,
    name: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Inject FAULT at TARGET in a simulator that you started with --allow-commands.

    TARGET is an address, a pattern, or a random choice of a pattern's matches; a link is a chip and its direction.
    Exit status: 0 done, 1 refused or no answer, 2 wrong use.

    \b
    Examples:
      trnfleet inject --list
      trnfleet inject --list --chips 1000000
      trnfleet inject straggler uc1/us-0001/trn2u-0001-2/chip05 --for 5m --broker mqtt://127.0.0.1:1883
      trnfleet inject link_down uc1/us-0001/trn2u-0001-0/chip02:east --broker mqtt://127.0.0.1:1883
      trnfleet inject ecc_corrected_storm 'random(2) of uc1/us-0001/*/*' --broker mqtt://127.0.0.1:1883
      trnfleet inject transport_drop '*' --magnitude 0.2 --broker mqtt://127.0.0.1:1883
      trnfleet inject --list --json | jq -r '.faults[].name'
    """
    if listing + active + (fault is not None) != 1:
        raise click.UsageError(
            "name a fault and a target, as in `trnfleet inject straggler uc1/us-0001/*/chip05`; or"
            " --list; or --active"
        )
    if listing:
        if as_json:
            print_json(fault_facts(chips))
        else:
            click.echo(fault_table(chips))
        return
    action, target, args = _command(fault, target, lasts_s, magnitude)
    if session is None:
        raise click.UsageError(
            "--broker URL is missing: the broker that the simulator publishes to"
        )
    from trnfleet.services.simulator.client import Command, send_command

    replies = asyncio.run(
        send_command(session, name, Command(action, target, args), timeout_s=timeout)
    )
    ctx.exit(print_replies(replies, as_json=as_json))


def _command(
    fault: str | None, target: str | None, lasts_s: float | None, magnitude: float | None
) -> tuple[str, str, Arguments]:
    """Return action, target and arguments of the command.

    Raises:
        ConfigError: there is no such fault, or a value is out of its range; the message names the
            nearest, or the limit.
    """
    if fault is None:
        return "faults", "", {}
    check_use(find_fault(fault), lasts_s, magnitude)
    if target is None:
        raise click.UsageError(
            "name a target, too: an address such as uc1/us-0001/trn2u-0001-2/chip05"
        )
    args: Arguments = {"fault": fault}
    if lasts_s is not None:
        args["for_s"] = lasts_s
    if magnitude is not None:
        args["magnitude"] = magnitude
    return "inject", target, args


def print_replies(replies: Sequence[Reply], *, as_json: bool) -> int:
    """Print the replies of simulators, refusals to stderr, and return the exit status."""
    if as_json:
        print_json([reply._asdict() for reply in replies])
    else:
        for reply in replies:
            if reply.ok:
                click.echo(f"{reply.simulator}: {reply.reason}")
                for line in active_lines(reply.result):
                    click.echo(line)
            else:
                click.echo(f"trnfleet: {reply.simulator} refuses: {reply.reason}", err=True)
    return 0 if any(reply.ok for reply in replies) else ExitStatus.FAILED


def active_lines(result: dict[str, Any]) -> list[str]:
    """Return a line for each active fault in a simulator's reply; invalid entries are skipped."""
    active = result.get("active")
    faults = (
        [fault for fault in active if isinstance(fault, dict)] if isinstance(active, list) else []
    )
    lines = []
    for fault in faults:
        left = fault.get("left_s")
        end = (
            f"for another {left:,.0f} s"
            if isinstance(left, (int, float))
            else "until it is repaired"
        )
        lines.append(
            f"  {plain(str(fault.get('fault'))):<24}{plain(str(fault.get('target')))}  {end}"
        )
    return lines


def fault_facts(chips: int) -> dict[str, Any]:
    """Return every fault as a JSON object, and a fleet's interruptions at that size.

    The faults are in the table's order.
    """
    a_day = interruptions_per_device_day()
    return {
        "chips": chips,
        "interruptions_per_device_day": a_day,
        "mean_between_interruptions_s": DAY_S / (a_day * chips),
        "faults": [_facts(fault, chips) for fault in FAULTS.values()],
    }


def fault_table(chips: int) -> str:
    """Return every fault with its effects, end and rate, by scope.

    Lines have at most 120 characters.
    """
    lines: list[str] = []
    for scope, target in TARGETS.items():
        rows = [fault for fault in FAULTS.values() if fault.scope == scope]
        if rows:
            lines.append(f"{scope} (a target is {target})")
            for fault in rows:
                lines.append(f"  {fault.name:<{_NAME_WIDTH}}  {_effects(fault)}")
                lines += [f"  {'':<{_NAME_WIDTH}}  {line}" for line in _details(fault, chips)]
            lines.append("")
    between_s = DAY_S / (interruptions_per_device_day() * chips)
    lines.append(
        f"Interruptions of jobs at random, together: one in {_time(between_s)} on {chips:,} chips."
    )
    lines.append("Effects on a job hold for one replica where the job serves.")
    lines.append("Begin one:  trnfleet inject FAULT TARGET [--for 5m] [--magnitude X] --broker URL")
    return "\n".join(lines)


def _facts(fault: Fault, chips: int) -> dict[str, Any]:
    has_magnitude = fault.most > fault.least
    return {
        "name": fault.name,
        "scope": fault.scope.value,
        "what": fault.title,
        "cause": fault.cause,
        "job": fault.reaction.value,
        "magnitude": fault.magnitude if has_magnitude else None,
        "magnitude_least": fault.least if has_magnitude else None,
        "magnitude_most": fault.most if has_magnitude else None,
        "magnitude_means": fault.effect.value if has_magnitude else None,
        "lasts_s": fault.lasts_s if fault.ends_by_itself else None,
        "recovery": fault.recovery.value,
        "recovery_s": None if fault.ends_by_itself else fault.stages.total_s,
        "health": list(fault.health),
        "counters": [count.metric for count in fault.counts],
        "hw_error": fault.hw_error or None,
        "nrt": fault.nrt,
        "rate_per_device_day": fault.rate_per_device_day,
        "rate_source": fault.rate_source or None,
        "mean_between_s": fault.mean_between_s(chips),
    }


def _effects(fault: Fault) -> str:
    job = "" if fault.reaction.value == "none" else f"; the job {fault.reaction.value}"
    code = "" if fault.nrt is None else f"; NRT {fault.nrt}"
    return f"{fault.title}{job}{code}"


def _details(fault: Fault, chips: int) -> list[str]:
    if fault.ends_by_itself:
        lines = [f"ends after {fault.lasts_s:g} s, or as --for says"]
    else:
        lines = [f"{fault.recovery.value}, and all is well after about {fault.stages.total_s:g} s"]
    if fault.most > fault.least:
        lines.append(
            f"magnitude {fault.magnitude:g}, from {fault.least:g} to {fault.most:g}:"
            f" {fault.effect.value}"
        )
    rate = fault.rate_per_device_day
    between_s = fault.mean_between_s(chips)
    if rate is not None and between_s is not None:
        lines.append(
            f"at random {rate * 1e6:.3g} in a million device-days: one in {_time(between_s)} on"
            f" {chips:,} chips"
        )
    return lines


def _time(seconds: float) -> str:
    """Return a mean time with three digits."""
    limits = (
        (2 * DAY_S, DAY_S, "d"),
        (2 * 3_600.0, 3_600.0, "h"),
        (120.0, 60.0, "min"),
    )
    size, unit = next(
        ((size, unit) for least, size, unit in limits if seconds >= least), (1.0, "s")
    )
    return (
        f"{seconds / size:,.0f} {unit}"
        if seconds >= 1_000 * size
        else f"{seconds / size:.3g} {unit}"
    )
