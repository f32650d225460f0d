"""`trnfleet usage`: use of the reserved capacity over a period, as CSV or JSON."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from trnfleet.cli.options import (
    broker_options,
    fleet_option,
    given_on_command_line,
    json_option,
    log_options,
    setting,
    site_options,
)
from trnfleet.cli.output import exit_on_broken_pipe, report_left_out
from trnfleet.cli.params import Duration, FileName, Instant
from trnfleet.clock import datetime_ns, format_rfc3339
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from trnfleet.domain.site import Site
    from trnfleet.services.session import BrokerSession
    from trnfleet.services.usage import CauseUsage, UsageRow


COLUMNS = (
    "from",
    "to",
    "reservation",
    "state",
    "what",
    "zone",
    "reserved",
    "watched_s",
    "used",
    "nc_util_pct",
    "reserved_instance_h",
    "used_instance_h",
    "fee",
    "idle_fee",
    "currency",
)
CAUSE_COLUMNS = ("from", "to", "watched_s", "job", "cause", "instance_h", "pct", "usd")
NOT_KNOWN = "not known"
_WORDS = ("from", "to", "reservation", "state", "what", "zone", "currency")
"""Columns that are no numbers."""


@click.command("usage")
@broker_options(required=False)
@click.option(
    "--history",
    "folder",
    type=FileName(),
    metavar="FOLDER",
    help="Read the history in FOLDER instead of a broker; by cause.",
)
@fleet_option
@click.option(
    "--by",
    type=click.Choice(["reservation", "cause"]),
    help="Sums by reservation (default), or paid time by cause and job.",
)
@click.option(
    "--from",
    "begin",
    type=Instant(),
    help="With --history: begin of the period, such as 2026-01-31T14:00:00Z.",
)
@click.option("--to", "end", type=Instant(), help="With --history: end of the period.")
@setting(
    "--for",
    "lasts_s",
    type=Duration(),
    default="1h",
    help="Length of the period, in the fleet's own time.",
)
@setting(
    "--every",
    "every_s",
    type=Duration(least_s=1.0),
    default="5m",
    help=(
        "Length of an interval, in the fleet's own time; by cause whole minutes, and with --history"
        " by default the whole period."
    ),
)
@setting(
    "--id",
    "ids",
    multiple=True,
    metavar="ID",
    help="Only this reservation; repeatable.",
)
@site_options
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession | None,
    folder: str | None,
    name: str | None,
    by: str | None,
    begin: datetime | None,
    end: datetime | None,
    lasts_s: float,
    every_s: float,
    ids: tuple[str, ...],
    site: Site,
    as_json: bool,
) -> None:
    """Measure the use of reserved capacity, and print CSV: a line for each reservation and interval.

    The period starts now; the hours of a simulated fleet pass as fast as it runs. Capacity without telemetry, or during a jump in
    time, counts as reserved and paid for, but as neither used nor idle. Capacity that EC2 has not launched is idle. Press ctrl+c to
    end the period early.

    With --by cause a line has the paid time of a job and cause, as in `trnfleet status`: instance-hours, percent of the job's, and
    USD. Lines of an interval add up to what was paid. With --history they are those of a past period, with steps that were lost
    later. With --json each interval is an object in a line.

    \b
    Examples:
      trnfleet usage --broker mqtt://127.0.0.1:1883 --for 8h --every 15m > night.csv
      trnfleet usage --broker mqtt://127.0.0.1:1883 --for 7d --every 1d --id cb-080db37c6e40edcfc
      trnfleet usage --history history --every 1d --json
    """
    given = given_on_command_line(ctx)
    refused = {
        "--history goes without --broker, --for and --by reservation": folder is not None
        and ({"broker", "lasts_s"} & given or by == "reservation"),
        "--from and --to go with --history": folder is None and (begin or end),
        "--id goes with --by reservation": ids and (folder is not None or by == "cause"),
        "--price, --ttft-limit, --tpot-limit and --pue go with --by cause; history has its writer's": (
            by != "cause" and given & {*site._fields}
        ),
    }
    for reason in [reason for reason, holds in refused.items() if holds]:
        raise click.UsageError(reason)
    from trnfleet.export.history.query import open_history
    from trnfleet.services.usage import (
        CauseReport,
        HistoryPeriod,
        UsageReport,
        read_usage,
        watch_usage,
    )

    output = csv.writer(sys.stdout, lineterminator="\n")

    def start(columns: Sequence[str]) -> None:
        if not as_json:
            output.writerow(columns)
            sys.stdout.flush()

    def write(rows: Sequence[UsageRow]) -> None:
        for row in rows:
            if as_json:
                click.echo(json.dumps(facts(row)))
            else:
                output.writerow(cells(row))
        sys.stdout.flush()

    def write_causes(rows: Iterable[CauseUsage]) -> None:
        for row in rows:
            if as_json:
                click.echo(json.dumps(cause_facts(row)))
            else:
                output.writerows(cause_cells(row))
        sys.stdout.flush()

    shorter_s = min(every_s, lasts_s)
    if folder is not None:
        is_whole = ctx.get_parameter_source("every_s") is ParameterSource.DEFAULT
        period = HistoryPeriod(name, _ns(begin), _ns(end), None if is_whole else every_s)
        causes = CauseReport(every_s=every_s, lasts_s=lasts_s)
        with open_history(Path(folder)) as reader:
            past = list(read_usage(reader, period, causes))
            report_left_out(reader.left_out)
        with exit_on_broken_pipe():
            start(CAUSE_COLUMNS)
            write_causes(past)
        total = causes.total()
    elif session is None:
        raise click.UsageError("Missing option '--broker' (or '--history').")
    elif by == "cause":
        causes = CauseReport(every_s=shorter_s, lasts_s=lasts_s)
        begins = partial(start, CAUSE_COLUMNS)
        asyncio.run(watch_usage(session, name, causes, begins, write_causes, site=site))
        total = causes.total()
    else:
        report = UsageReport(every_s=shorter_s, lasts_s=lasts_s, ids=frozenset(ids))
        asyncio.run(watch_usage(session, name, report, lambda: start(COLUMNS), write))
        total = report.total()
    click.echo(total, err=True)


def _ns(moment: datetime | None) -> int | None:
    return None if moment is None else datetime_ns(moment)


def cause_facts(usage: CauseUsage) -> dict[str, Any]:
    """Return paid time as JSON values: those of `status --json`, and the interval."""
    from trnfleet.monitor.goodput_report import goodput_facts

    return {
        "from": format_rfc3339(usage.from_ns),
        "to": format_rfc3339(usage.to_ns),
        "not_known_s": usage.unknown_s,
        **goodput_facts(usage.report),
    }


def cause_cells(usage: CauseUsage) -> Iterator[tuple[object, ...]]:
    """Yield the cells of an interval: a row for each job and cause."""
    from trnfleet.domain.goodput import TimeCause

    report = usage.report
    interval = (
        format_rfc3339(usage.from_ns),
        format_rfc3339(usage.to_ns),
        f"{report.lasts_s:.0f}",
    )
    if not report.jobs:
        yield (*interval, "", NOT_KNOWN, "", "", "")
    for job in report.jobs:
        seconds = job.paid.seconds
        total_s = float(seconds.sum())
        name = _cell(job.job or "(no job)") if job.job is not None else "(other jobs)"
        for cause in TimeCause:
            if seconds[cause]:
                yield (
                    *interval,
                    name,
                    cause.label,
                    f"{seconds[cause] / 3_600:.4f}",
                    f"{100 * seconds[cause] / total_s:.2f}",
                    f"{job.paid.usd[cause]:.4f}" if job.paid.is_priced else "",
                )


def facts(row: UsageRow) -> dict[str, Any]:
    """Return the cells of a row as JSON values."""
    named = dict(zip(COLUMNS, cells(row), strict=True))
    return {
        key: value if key in _WORDS else None if value == "" else float(str(value))
        for key, value in named.items()
    }


def cells(row: UsageRow) -> tuple[object, ...]:
    """Return the cells of a row."""
    from trnfleet.tui.format.reservations import what_text

    message = row.reservation.message
    watched_s = row.watched_s
    return (
        format_rfc3339(row.from_ns),
        format_rfc3339(row.to_ns),
        message.id,
        message.state.value,
        what_text(row.reservation),
        _cell(message.zone),
        message.instances,
        f"{watched_s:.0f}",
        f"{row.used_s / watched_s:.3f}" if watched_s else "",
        "" if row.util_pct is None else f"{row.util_pct:.2f}",
        f"{row.reserved_h:.4f}",
        f"{row.used_s / 3_600:.4f}",
        "" if row.fee is None else f"{row.fee:.4f}",
        "" if row.idle_fee is None else f"{row.idle_fee:.4f}",
        message.currency,
    )


def _cell(text: str) -> str:
    """Return text from the wire, made safe for terminals and spreadsheets."""
    shown = plain(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
