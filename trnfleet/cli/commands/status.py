"""`trnfleet status`: one look at a fleet, for people and for scripts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from trnfleet.cli.options import (
    all_fleets_option,
    broker_options,
    fleets_option,
    given_on_command_line,
    json_option,
    log_options,
    rules_option,
    setting,
    site_options,
)
from trnfleet.cli.output import print_json
from trnfleet.cli.params import Duration, FileName, Moment
from trnfleet.errors import ExitStatus

if TYPE_CHECKING:
    from trnfleet.domain.site import Site
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.session import BrokerSession


@click.command("status")
@broker_options(required=False, several=True)
@click.option(
    "--recording",
    "files",
    type=FileName(),
    metavar="FILE",
    multiple=True,
    help="Read a recording instead of a broker; repeat it for its parts.",
)
@click.option(
    "--at",
    type=Moment(),
    help=(
        "With --recording: the time to show: an instant, 14:03, +90s after the start, or -90s"
        " before the end. By default the end."
    ),
)
@fleets_option
@all_fleets_option
@setting(
    "--wait",
    type=Duration(),
    default="5s",
    help="Longest wait for a report of every described chip.",
)
@click.option(
    "--for",
    "watch_s",
    type=Duration(),
    help="With --broker: watch at least this long, for goodput and cost.",
)
@site_options
@rules_option
@click.option(
    "--reservations",
    is_flag=True,
    help="Print Capacity Blocks and their use instead of the summary.",
)
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[BrokerSession, ...],
    files: tuple[str, ...],
    at: str | None,
    names: tuple[str, ...],
    all_fleets: bool,
    wait: float,
    watch_s: float | None,
    site: Site,
    rules: tuple[str, ...],
    reservations: bool,
    as_json: bool,
) -> None:
    """Print a fleet's summary, and exit with 0 if it is healthy, else with 3.

    A fleet is unhealthy with chips that are not live or not described, disconnected brokers, critical problems, or, on a top broker,
    cells without a running watch. Warnings do not matter.

    With --all-fleets or several --name the fleets follow one another, with their totals; in --json they are in the list `fleets`
    beside `totals`. One unhealthy fleet is enough for status 3.

    \b
    Examples:
      trnfleet status --broker mqtt://127.0.0.1:1883
      trnfleet status --broker mqtt://ops@broker.example:1883 --name prod --json | jq .power_w
      trnfleet status --broker mqtt://b1.example:1883 --broker mqtt://b2.example:1883 --all-fleets
      trnfleet status --broker mqtt://127.0.0.1:1883 --reservations
      trnfleet status --broker mqtt://127.0.0.1:1883 --for 5m --json | jq .goodput
      trnfleet status --recording night.mcap --at 03:10 --json
    """
    from trnfleet.cli.reservation_report import fleet_facts, fleet_text
    from trnfleet.cli.status_report import VERSION, FleetReport, total_facts, total_text
    from trnfleet.services.live_monitor import Observation, observe_fleets

    is_of_several = all_fleets or len(set(names)) > 1
    if files:
        refused = {
            "--broker and --recording do not go together: choose one of them": "broker"
            in given_on_command_line(ctx),
            "--recording shows one fleet: name it with one --name": is_of_several,
            "--for goes with --broker; a recording is read from its start": watch_s is not None,
        }
        for reason in [reason for reason, holds in refused.items() if holds]:
            raise click.UsageError(reason)
        # A fleet that the settings name is one of the broker's.
        is_of_broker = not names or ctx.get_parameter_source("names") is ParameterSource.DEFAULT_MAP
        monitor = _recorded(files, None if is_of_broker else names[0], at, site, rules)
        seen = [Observation(monitor.fleet_name, (), monitor)]
        source: dict[str, Any] = {"recording": list(files)}
    else:
        if at is not None:
            raise click.UsageError("--at goes with --recording")
        if not sessions:
            raise click.UsageError("Missing option '--broker' (or '--recording').")
        seen = asyncio.run(
            observe_fleets(
                sessions,
                names,
                takes_all=all_fleets,
                wait_s=wait,
                watch_s=watch_s or 0.0,
                site=site,
                needs_chips=not reservations,
            )
        )
        source = {}
    reports = [FleetReport.from_observation(observation) for observation in seen]
    is_healthy = all(report.is_healthy for report in reports)
    if as_json:
        made = [
            fleet_facts(report) if reservations else {**report.facts(), **source}
            for report in reports
        ]
        if is_of_several:
            totals = {} if reservations else {"totals": total_facts(made)}
            print_json({"v": VERSION, "fleets": made, **totals, "healthy": is_healthy})
        else:
            print_json(made[0]["reservations"] if reservations else made[0])
    else:
        texts = [fleet_text(report) if reservations else report.text() for report in reports]
        if is_of_several and reservations:
            texts = [
                f"fleet {report.fleet}\n{text}" for report, text in zip(reports, texts, strict=True)
            ]
        elif is_of_several:
            texts.append(total_text([report.facts() for report in reports]))
        click.echo("\n\n".join(texts))
    ctx.exit(0 if is_healthy else ExitStatus.UNHEALTHY)


def _recorded(
    files: tuple[str, ...],
    name: str | None,
    at: str | None,
    site: Site,
    rules: tuple[str, ...],
) -> Monitor:
    """Return a monitor at an instant of a recording.

    By default the last with the fleet.
    """
    from trnfleet.cli.files import open_recording
    from trnfleet.clock import SystemClock
    from trnfleet.services.files.recordings import fleet_of, shown_part_of
    from trnfleet.services.files.rules import load_rules
    from trnfleet.services.viewing import monitors_at

    with open_recording(files, name=name) as recording:
        fleet = fleet_of(recording, name, files[0])
        _, at_ns = shown_part_of(recording, fleet, None, at)
        return next(
            monitors_at(
                recording, fleet, [at_ns], rules=load_rules(rules), site=site, clock=SystemClock()
            )
        )
