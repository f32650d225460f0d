"""Use of reserved capacity over a period."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.goodput import COLUMNS, PaidRow, Sum, merge_rows
from trnfleet.domain.quantities import duration
from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.errors import ConfigError, nearest
from trnfleet.export.history.tables import PAID_PERIODS_SQL, PAID_SUMS, paid_time_sql
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.goodput import Goodput
from trnfleet.monitor.goodput_report import GoodputReport, goodput_text, paid_report
from trnfleet.monitor.reservations.usage import GAP_S
from trnfleet.services.discovery import find_fleet
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.tasks import POLL_S, Ending, background, run_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from trnfleet.export.history.query import HistoryReader
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.sources.clocks import Moment

TELEMETRY_S = 10.0
"""Longest wall time to wait for the first telemetry. It carries the time of a simulated fleet."""


class UsageRow(NamedTuple):
    """Use of one reservation over one interval."""

    from_ns: int
    to_ns: int
    reservation: Reservation
    """The reservation as it was last."""
    watched_s: float
    used_s: float
    """Instance-seconds that were used."""
    util_pct: float | None
    """Mean utilisation while an instance was live."""
    reserved_h: Decimal
    """Instance-hours that were reserved."""
    fee: Decimal | None
    idle_fee: Decimal | None
    """Fee of unused capacity, live or free."""


class CauseUsage(NamedTuple):
    """Paid time by cause over one interval."""

    from_ns: int
    to_ns: int
    report: GoodputReport

    @property
    def unknown_s(self) -> float:
        """Seconds of the interval that nobody has observed."""
        return max(0.0, (self.to_ns - self.from_ns) / NS_PER_S - self.report.lasts_s)


async def watch_usage(
    session: BrokerSession,
    name: str | None,
    report: UsageReport | CauseReport,
    begin: Callable[[], None],
    write: Callable[[Sequence[Any]], None],
    *,
    site: Site = DEFAULT_SITE,
) -> None:
    """Watch a fleet until the report is complete or a signal ends it.

    Args:
        session: The broker.
        name: The fleet's name; None for the broker's only one.
        report: The report to fill.
        begin: Called once the broker is connected.
        write: Receives the `UsageRow` or `CauseUsage` of each interval that has ended.
        site: Limits and prices of paid time.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: the broker has several fleets and none is named, or the fleet has no
            reservation that is named.
    """
    ending = Ending()
    fleet = await find_fleet(session, name)
    source, monitor = monitor_fleet(session, fleet, site=site)
    with ending.on_signals():
        async with background(source=source.run(), monitor=monitor.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            begin()
            await run_until(ending, _fill(session, monitor, report, write))
    write(report.finish())


async def _fill(
    session: BrokerSession,
    monitor: Monitor,
    report: UsageReport | CauseReport,
    write: Callable[[Sequence[Any]], None],
) -> None:
    clock = session.clock
    known_by_s = begins_s = clock.monotonic_s() + TELEMETRY_S
    while not report.is_over:
        await clock.sleep(POLL_S)
        is_live = monitor.rollups.ready and monitor.store.count(Freshness.LIVE) > 0
        if not is_live and clock.monotonic_s() < begins_s:
            continue
        table = monitor.reservations.table()
        if begins_s:
            missing = report.missing({reservation.message.id for reservation in table})
            if missing and clock.monotonic_s() < known_by_s:
                continue
            if missing:
                raise ConfigError(missing)
        begins_s = 0.0
        rows = report.follow(monitor)
        if rows:
            write(rows)


@dataclass(slots=True)
class _Sum:
    """Sums of one reservation over an interval."""

    last: Reservation
    reserved_s: float = 0.0
    """Instance-seconds that were reserved."""
    watched_s: float = 0.0
    used_s: float = 0.0
    """Instance-seconds that were used."""
    idle_s: float = 0.0
    """Instance-seconds that were live and not used, or free."""
    live_s: float = 0.0
    """Seconds with a live instance."""
    util_s: float = 0.0
    """Utilisation in percent, times these seconds."""


class UsageReport:
    """Use by reservation and interval; reads no clock and writes nothing."""

    def __init__(self, *, every_s: float, lasts_s: float, ids: Collection[str] = ()) -> None:
        """Prepare a report.

        Args:
            every_s: Length of an interval, in the fleet's time.
            lasts_s: Length of the whole report; nothing beyond it is counted.
            ids: Reservations to include; all if empty.
        """
        self._every_ns = max(1, round(every_s * NS_PER_S))
        self._left_ns = round(lasts_s * NS_PER_S)
        self._ids = ids
        self._from_ns: int | None = None
        """Begin of the current interval."""
        self._now_ns = 0
        self._sums: dict[str, _Sum] = {}
        self._reserved_s = self._used_s = self._idle_s = 0.0
        self._idle: dict[str, Decimal] = {}

    @property
    def is_over(self) -> bool:
        """Whether all of its time has passed."""
        return self._left_ns <= 0

    def missing(self, known: Collection[str]) -> str:
        """Return the error in the reservations to include.

        Empty if all are known.
        """
        unknown = sorted(set(self._ids) - set(known))
        return (
            f"--id {unknown[0]}: no such reservation: {nearest(unknown[0], known)}"
            if unknown
            else ""
        )

    def follow(self, monitor: Monitor) -> list[UsageRow]:
        """Add the present use of a monitor's reservations."""
        return self.add(monitor.moment(), monitor.reservations.table())

    def add(self, moment: Moment, table: list[Reservation]) -> list[UsageRow]:
        """Add the present use of reservations, and return the rows of intervals that have ended.

        Args:
            moment: The fleet's time; where it has gone back, another interval begins.
            table: Its reservations now. They stand for the time since the last call; where that is
                too long ago, or time has jumped, for the reserved capacity and not for its use.
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
            self._add_span(table, self._now_ns, edge_ns, is_watched=is_watched)
            self._left_ns -= edge_ns - self._now_ns
            self._now_ns = edge_ns
            if edge_ns == ends_ns:
                lines += self.finish()
                self._from_ns = edge_ns
        return lines

    def finish(self) -> list[UsageRow]:
        """Return the rows of the current interval, and begin another."""
        lines = [self._row(total) for total in self._sums.values()]
        self._sums = {}
        return lines

    def total(self) -> str:
        """Return the totals in one line; the share is of the capacity that was watched."""
        live_s = self._used_s + self._idle_s
        share = f"{self._used_s / live_s:.1%}" if live_s else "n/a"
        idle = (
            ", ".join(
                f"{amount:,.2f} {currency}" for currency, amount in sorted(self._idle.items())
            )
            or "n/a"
        )
        return (
            f"{self._reserved_s / 3_600:,.2f} instance-hours reserved, {self._used_s / 3_600:,.2f}"
            f" used ({share}); paid for idleness: {idle}"
        )

    def _add_span(
        self, table: list[Reservation], from_ns: int, to_ns: int, *, is_watched: bool
    ) -> None:
        for reservation in table:
            message = reservation.message
            if self._ids and message.id not in self._ids:
                continue
            begin_ns = max(from_ns, reservation.starts_ns)
            end_ns = to_ns if reservation.ends_ns is None else min(to_ns, reservation.ends_ns)
            if end_ns <= begin_ns or message.state.value not in {
                "active",
                "unavailable",
                "expired",
            }:
                continue
            seconds = (end_ns - begin_ns) / NS_PER_S
            total = self._sums.setdefault(message.id, _Sum(reservation))
            total.last = reservation
            total.reserved_s += message.instances * seconds
            if is_watched and reservation.used is not None:
                total.watched_s += seconds
                total.used_s += reservation.used * seconds
                total.idle_s += (
                    max(message.instances - reservation.unknown - reservation.used, 0) * seconds
                )
                if reservation.util_pct is not None:
                    total.live_s += seconds
                    total.util_s += reservation.util_pct * seconds

    def _row(self, total: _Sum) -> UsageRow:
        reservation = total.last
        message = total.last.message
        hours = Decimal(total.reserved_s) / 3_600
        fee = idle = None
        if reservation.fee_per_h is not None and message.instances:
            per_instance_h = reservation.fee_per_h / message.instances
            fee = per_instance_h * hours
            idle = per_instance_h * Decimal(total.idle_s) / 3_600
            self._idle[message.currency] = self._idle.get(message.currency, Decimal(0)) + idle
        self._reserved_s += total.reserved_s
        self._used_s += total.used_s
        self._idle_s += total.idle_s
        return UsageRow(
            self._from_ns or 0,
            self._now_ns,
            reservation,
            total.watched_s,
            total.used_s,
            total.util_s / total.live_s if total.live_s else None,
            hours,
            fee,
            idle,
        )


class CauseReport:
    """Paid time by cause and interval. Intervals begin and end with minutes of the fleet's time."""

    def __init__(self, *, every_s: float, lasts_s: float) -> None:
        """Prepare a report.

        Args:
            every_s: Length of an interval, whole minutes of the fleet's time.
            lasts_s: Length of the whole report.
        """
        self._every = max(1, round(every_s * NS_PER_S) // MINUTE_NS)
        self._left_ns = round(lasts_s * NS_PER_S)
        self._goodput = Goodput()
        self._site: Site | None = None
        """Limits and prices; None for a past period, whose writer had them."""
        self._from_ns = self._now_ns = 0
        self._end = 0
        """Minute after the current interval, since 1970."""
        self._rows: list[PaidRow] = []
        """Rows of the current interval."""
        self._lasts_s = 0.0
        self._total: list[PaidRow] = []
        self._total_s = self._unknown_s = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all of its time has passed."""
        return self._left_ns <= 0

    def missing(self, known: Collection[str]) -> str:
        """Return no error: all jobs are included."""
        del known
        return ""

    def follow(self, monitor: Monitor) -> list[CauseUsage]:
        """Add the time since the last call, and return the intervals that have ended.

        Time that goes back begins another interval.
        """
        now_ns = monitor.moment().time_ns
        goodput = self._goodput
        if monitor.goodput is not goodput or now_ns < self._now_ns:
            ended = self.finish()
            self._site = monitor.site
            self._goodput = monitor.goodput = Goodput(self._site)
            self._goodput.ledger = []
            self._from_ns = self._now_ns = now_ns
            self._end = now_ns // MINUTE_NS + self._every
            return ended
        self._left_ns -= now_ns - self._now_ns
        self._now_ns = now_ns
        ended = self._read_ledger()
        while goodput.minute >= self._end:
            ended += self._close(self._end * MINUTE_NS)
        return ended

    def finish(self) -> list[CauseUsage]:
        """Return the interval that has begun."""
        self._goodput.book()
        ended = self._read_ledger()
        return ended + self._close(self._now_ns) if self._now_ns > self._from_ns else ended

    def interval(
        self, from_ns: int, to_ns: int, rows: Sequence[PaidRow], lasts_s: float
    ) -> CauseUsage:
        """Return an interval, and add it to the total.

        Args:
            from_ns: Its begin.
            to_ns: Its end.
            rows: Its paid time, and steps lost in it.
            lasts_s: Observed part of it.
        """
        self._total = merge_rows([*self._total, *rows])
        self._total_s += lasts_s
        first = from_ns // MINUTE_NS
        made = paid_report(
            (row if row.minute >= first else _written_off(row) for row in rows), lasts_s
        )
        usage = CauseUsage(from_ns, to_ns, made._replace(site=self._site))
        self._unknown_s += usage.unknown_s
        return usage

    def total(self) -> str:
        """Return the totals in one line, as `trnfleet status` has them."""
        text = f"goodput {goodput_text(paid_report(self._total, self._total_s))}"
        return f"{text}; not known: {duration(self._unknown_s)}" if self._unknown_s >= 1 else text

    def _read_ledger(self) -> list[CauseUsage]:
        """Add the rows of the ledger, and return the intervals that ended before one of them."""
        ended: list[CauseUsage] = []
        for row in self._goodput.ledger or ():
            while row.booked >= self._end:
                ended += self._close(self._end * MINUTE_NS)
            self._rows.append(row)
        self._goodput.ledger = []
        return ended

    def _close(self, to_ns: int) -> list[CauseUsage]:
        rows = self._rows
        lasts_s = {row.minute: row.lasts_s for row in rows if row.minute == row.booked}
        usage = self.interval(self._from_ns, to_ns, rows, sum(lasts_s.values()))
        self._rows = []
        self._from_ns = to_ns
        self._end += self._every
        return [usage]


def _written_off(row: PaidRow) -> PaidRow:
    """Return steps lost after their interval as written off."""
    sums = np.zeros_like(row.sums)
    sums[:, Sum.WRITTEN_OFF] = row.sums[:, Sum.LOST]
    return row._replace(sums=sums)


class HistoryPeriod(NamedTuple):
    """A part of history."""

    fleet: str | None
    """None for the only one."""
    from_ns: int | None
    """None for the begin of history."""
    to_ns: int | None
    """None for its end."""
    every_s: float | None
    """Length of an interval; None for that of the period."""


def read_usage(
    reader: HistoryReader, period: HistoryPeriod, report: CauseReport
) -> Iterator[CauseUsage]:
    """Yield the paid time in history by interval, as it is known now.

    Consecutive intervals without any are one.

    Args:
        reader: The folder's reader.
        period: The fleet and time, in whole minutes.
        report: Receives the total.

    Raises:
        ConfigError: there is no such fleet, or not only one, or the period is empty.
        HistoryError: history cannot be read.
    """
    fleet, first, end = _minutes_of(reader, period)
    every = end - first if period.every_s is None else max(1, int(period.every_s) // 60)
    sql, lasts_sql = paid_time_sql(first, end - 1, every)
    sums = reader.query(sql, [fleet])
    if sums.is_cut:
        raise ConfigError("too many intervals: ask for longer ones with --every")
    by_number: dict[int, list[PaidRow]] = {}
    for number, *cells in sums.rows:
        by_number.setdefault(number, []).append(_paid_row(cells))
    lasts_s = dict(reader.query(lasts_sql, [fleet]).rows)
    begin = first
    for number, rows in sorted(by_number.items()):
        starts = first + number * every
        if starts > begin:
            yield report.interval(begin * MINUTE_NS, starts * MINUTE_NS, (), 0.0)
        begin = min(starts + every, end)
        yield report.interval(starts * MINUTE_NS, begin * MINUTE_NS, rows, lasts_s[number])
    if end > begin:
        yield report.interval(begin * MINUTE_NS, end * MINUTE_NS, (), 0.0)


def _minutes_of(reader: HistoryReader, period: HistoryPeriod) -> tuple[str, int, int]:
    """Return a period's fleet, first minute, and the minute after its last."""
    known = {fleet: minutes for fleet, *minutes in reader.query(PAID_PERIODS_SQL).rows}
    if not known:
        raise ConfigError("there is no history yet: trnfleet history write")
    fleet = period.fleet or (next(iter(known)) if len(known) == 1 else "")
    if fleet not in known:
        raise ConfigError(f"--name {fleet}: history has {', '.join(known)}")
    first, end = known[fleet]
    if period.from_ns is not None:
        first = period.from_ns // MINUTE_NS
    if period.to_ns is not None:
        end = period.to_ns // MINUTE_NS
    if first >= end:
        raise ConfigError("the period has no whole minute: move --from or --to")
    return fleet, first, end


def _paid_row(cells: Sequence[Any]) -> PaidRow:
    minute, job, is_other_jobs, ideal_s, measured_on, has_steps, *values = cells
    sums = np.zeros((2, COLUMNS))
    for place, value in zip(PAID_SUMS.values(), values, strict=True):
        sums[place] = value or 0.0
    return PaidRow(
        minute,
        minute,
        None if is_other_jobs else job or "",
        0.0,
        sums,
        np.nan if ideal_s is None else ideal_s,
        measured_on,
        has_steps,
    )
