"""`trnfleet usage`: what was used of what is reserved over a period, as CSV."""

from __future__ import annotations

import asyncio
import csv
import sys
from dataclasses import dataclass
from decimal import Decimal
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
from trnfleet.clock import NS_PER_S, SystemClock, format_rfc3339
from trnfleet.monitor.reservations.usage import GAP_S
from trnfleet.tasks import Ending, background, run_until

if TYPE_CHECKING:
    from collections.abc import Collection

    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.transport.url import BrokerUrl, Password

LOOK_S = 0.25
"""Wall seconds between two looks at what is in use; a monitor's figures are no newer."""
TELEMETRY_S = 10.0
"""Wall seconds for which the first telemetry is waited for: it tells what time it is for a simulated fleet."""
SHORTEST_S = 1.0
"""Least length of an interval, in the fleet's time."""
COLUMNS = (
    "from", "to", "reservation", "state", "what", "zone", "reserved", "watched_s", "used", "nc_util_pct",
    "reserved_instance_h", "used_instance_h", "fee", "idle_fee", "currency",
)  # fmt: skip  # a list of names


@click.command("usage")
@broker_options(required=True)
@setting("--name", type=FleetName(), help="Which fleet, where the broker has several.")
@setting(
    "--for", "lasts_s", type=Duration(), default="1h", help="How long to watch, in the fleet's own time."
)
@setting(
    "--every",
    "every_s",
    type=Duration(),
    default="5m",
    help="Length of an interval, in the fleet's own time.",
)
@setting(
    "--id", "ids", multiple=True, metavar="ID", help="Only this reservation; may be given several times."
)
@log_options
def command(
    broker: BrokerUrl,
    password_file: str | None,
    root: str,
    name: str | None,
    lasts_s: float,
    every_s: float,
    ids: tuple[str, ...],
    log_format: str,
    log_level: str,
) -> None:
    """Watch what is used of what is reserved, and write it to stdout as CSV: a line a reservation and interval.

    The period begins now, since nobody keeps the past; a simulated fleet's hours pass as fast as it runs. What was not
    watched, because telemetry was silent or time jumped, is held and paid for, and neither used nor idle. Ctrl+c ends it
    with what there is.

    \b
    Examples:
      trnfleet usage --broker mqtt://127.0.0.1:1883 --for 8h --every 15m > night.csv
      trnfleet usage --broker mqtt://127.0.0.1:1883 --for 7d --every 1d --id cb-080db37c6e40edcfc
    """
    set_up_logs(log_format, log_level)
    if every_s < SHORTEST_S:
        raise click.BadParameter(f"{every_s:g} s is shorter than {SHORTEST_S:g} s", param_hint="'--every'")
    password = find_password(password_file)
    report = Report(every_s=min(every_s, lasts_s), lasts_s=lasts_s, ids=frozenset(ids))
    asyncio.run(_watch(broker, name, root, password, report))


async def _watch(
    url: BrokerUrl, name: str | None, root: str, password: Password | None, report: Report
) -> None:
    from trnfleet.cli.discovery import find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.watching import watch_fleet  # noqa: PLC0415  --help stays quick

    clock, ending = SystemClock(), Ending()
    fleet = await find_fleet(url, name=name, root=root, password=password, clock=clock)
    source, monitor = watch_fleet(url, fleet, root=root, password=password, clock=clock)
    output = csv.writer(sys.stdout, lineterminator="\n")
    output.writerow(COLUMNS)
    sys.stdout.flush()
    with ending.on_signals():
        async with background(source=source.run(), monitor=monitor.run()):
            await run_until(ending, _follow(source, monitor, report, output, clock))
    output.writerows(report.finish())
    sys.stdout.flush()
    click.echo(report.total(), err=True)


async def _follow(source: MqttSource, monitor: Monitor, report: Report, output: object, clock: Clock) -> None:
    """Feed a report until so much of the fleet's time has passed."""
    from trnfleet.cli.discovery import CONNECT_LIMIT_S  # noqa: PLC0415  --help stays quick
    from trnfleet.monitor.store.store import Freshness  # noqa: PLC0415  --help stays quick

    await source.wait_connected(CONNECT_LIMIT_S)
    begins_s = clock.monotonic_s() + TELEMETRY_S
    while not report.is_over:
        await clock.sleep(LOOK_S)
        is_live = monitor.rollups.ready and monitor.store.count(Freshness.LIVE) > 0
        if not is_live and clock.monotonic_s() < begins_s:
            continue
        begins_s = 0.0
        lines = report.look(monitor.moment(), monitor.reservations.table())
        output.writerows(lines)  # type: ignore[attr-defined]  # the csv module has no name for its writers
        if lines:
            sys.stdout.flush()


@dataclass(slots=True)
class _Sum:
    """What has come together for one reservation in an interval."""

    last: Reservation
    reserved_s: float = 0.0
    """Instance-seconds that were held."""
    watched_s: float = 0.0
    used_s: float = 0.0
    """Instance-seconds that were used."""
    idle_s: float = 0.0
    """Instance-seconds that were live and not used."""
    util_s: float = 0.0


class Report:
    """Adds up use by reservation and interval; reads no clock and writes nothing."""

    def __init__(self, *, every_s: float, lasts_s: float, ids: Collection[str] = ()) -> None:
        """Prepare a report.

        Args:
            every_s: Length of an interval, in the fleet's time.
            lasts_s: How long the whole report is; nothing beyond it is counted.
            ids: Reservations to tell of; all if empty.
        """
        self._every_ns = max(1, round(every_s * NS_PER_S))
        self._left_ns = round(lasts_s * NS_PER_S)
        self._ids = ids
        self._from_ns: int | None = None
        """When the interval that is under way began."""
        self._now_ns = 0
        self._sums: dict[str, _Sum] = {}
        self._reserved_s = self._used_s = self._idle_s = 0.0
        self._idle: dict[str, Decimal] = {}

    @property
    def is_over(self) -> bool:
        """Whether all of its time has passed."""
        return self._left_ns <= 0

    def look(self, moment: Moment, table: list[Reservation]) -> list[tuple[object, ...]]:
        """Take note of how reservations fare, and return the lines of intervals that have ended.

        Args:
            moment: The fleet's time; where it has gone back, another interval begins.
            table: Its reservations now. They stand for the time since the last look; where that is too long ago, or time has
                jumped, for what was held and not for what was used.
        """
        now_ns = moment.time_ns
        if self._from_ns is None or now_ns < self._now_ns:
            lines = self.finish()
            self._from_ns = self._now_ns = now_ns
            return lines
        lines = []
        is_watched = now_ns - self._now_ns <= GAP_S * moment.speed * NS_PER_S
        until_ns = min(now_ns, self._now_ns + self._left_ns)
        while self._now_ns < until_ns:
            ends_ns = self._from_ns + self._every_ns
            edge_ns = min(ends_ns, until_ns)
            self._add(table, self._now_ns, edge_ns, is_watched=is_watched)
            self._left_ns -= edge_ns - self._now_ns
            self._now_ns = edge_ns
            if edge_ns == ends_ns:
                lines += self.finish()
                self._from_ns = edge_ns
        return lines

    def finish(self) -> list[tuple[object, ...]]:
        """Return the lines of the interval that is under way, and begin another."""
        lines = [self._line(name, each) for name, each in self._sums.items()]
        self._sums = {}
        return lines

    def total(self) -> str:
        """Return what it all comes to, in one line; the share is that of what was watched."""
        live_s = self._used_s + self._idle_s
        share = f"{self._used_s / live_s:.1%}" if live_s else "n/a"
        idle = (
            ", ".join(f"{amount:,.2f} {currency}" for currency, amount in sorted(self._idle.items())) or "n/a"
        )
        return (
            f"{self._reserved_s / 3_600:,.2f} instance-hours reserved, {self._used_s / 3_600:,.2f} used ({share}); "
            f"paid for idleness: {idle}"
        )

    def _add(self, table: list[Reservation], from_ns: int, to_ns: int, *, is_watched: bool) -> None:
        for each in table:
            message = each.message
            if self._ids and message.id not in self._ids:
                continue
            begin_ns = max(from_ns, each.starts_ns)
            end_ns = to_ns if each.ends_ns is None else min(to_ns, each.ends_ns)
            if end_ns <= begin_ns or message.state.value not in {"active", "unavailable", "expired"}:
                continue
            seconds = (end_ns - begin_ns) / NS_PER_S
            found = self._sums.setdefault(message.id, _Sum(each))
            found.last = each
            found.reserved_s += message.instances * seconds
            if is_watched and each.used is not None and each.util_pct is not None:
                found.watched_s += seconds
                found.used_s += each.used * seconds
                found.idle_s += max(message.instances - each.unknown - each.used, 0) * seconds
                found.util_s += each.util_pct * seconds

    def _line(self, name: str, found: _Sum) -> tuple[object, ...]:
        from trnfleet.tui.format.reservations import what_text  # noqa: PLC0415  --help stays quick

        each, message = found.last, found.last.message
        hours = Decimal(found.reserved_s) / 3_600
        fee = idle = None
        if each.fee_per_h is not None and message.instances:
            per_instance_h = each.fee_per_h / message.instances
            fee = per_instance_h * hours
            idle = per_instance_h * Decimal(found.idle_s) / 3_600
            self._idle[message.currency] = self._idle.get(message.currency, Decimal(0)) + idle
        self._reserved_s += found.reserved_s
        self._used_s += found.used_s
        self._idle_s += found.idle_s
        watched = found.watched_s or None
        return (
            format_rfc3339(self._from_ns or 0),
            format_rfc3339(self._now_ns),
            name,
            message.state.value,
            what_text(each),
            _cell(message.zone),
            message.instances,
            f"{found.watched_s:.0f}",
            "" if watched is None else f"{found.used_s / watched:.3f}",
            "" if watched is None else f"{found.util_s / watched:.2f}",
            f"{hours:.4f}",
            f"{found.used_s / 3_600:.4f}",
            "" if fee is None else f"{fee:.4f}",
            "" if idle is None else f"{idle:.4f}",
            message.currency,
        )


def _cell(text: str) -> str:
    """Return a text that came from the wire such that neither a terminal nor a spreadsheet acts upon it."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    shown = plain(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
