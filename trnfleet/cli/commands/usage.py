"""`trnfleet usage`: use of the reserved capacity over a period, as CSV."""

from __future__ import annotations

import asyncio
import csv
import sys
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import broker_options, fleet_option, log_options, setting
from trnfleet.cli.params import Duration
from trnfleet.clock import format_rfc3339
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.services.session import BrokerSession
    from trnfleet.services.usage import UsageRow

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


@click.command("usage")
@broker_options(required=True)
@fleet_option
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
    help="Length of an interval, in the fleet's own time.",
)
@setting(
    "--id",
    "ids",
    multiple=True,
    metavar="ID",
    help="Only this reservation; repeatable.",
)
@log_options
def command(
    session: BrokerSession, name: str | None, lasts_s: float, every_s: float, ids: tuple[str, ...]
) -> None:
    """Measure the use of reserved capacity, and print CSV: a line for each reservation and interval.

    The period starts now; the hours of a simulated fleet pass as fast as it runs. Capacity without telemetry, or during a jump in
    time, counts as reserved and paid for, but as neither used nor idle. Capacity that EC2 has not launched is idle. Press ctrl+c to
    end the period early.

    \b
    Examples:
      trnfleet usage --broker mqtt://127.0.0.1:1883 --for 8h --every 15m > night.csv
      trnfleet usage --broker mqtt://127.0.0.1:1883 --for 7d --every 1d --id cb-080db37c6e40edcfc
    """
    from trnfleet.services.usage import UsageReport, watch_usage

    report = UsageReport(every_s=min(every_s, lasts_s), lasts_s=lasts_s, ids=frozenset(ids))
    output = csv.writer(sys.stdout, lineterminator="\n")

    def write(rows: Sequence[UsageRow]) -> None:
        output.writerows(map(cells, rows))
        sys.stdout.flush()

    def begin() -> None:
        output.writerow(COLUMNS)
        sys.stdout.flush()

    asyncio.run(watch_usage(session, name, report, begin, write))
    click.echo(report.total(), err=True)


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
