"""Use of reserved capacity over a period."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.errors import ConfigError, nearest
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.reservations.usage import GAP_S
from trnfleet.services.discovery import find_fleet
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.tasks import POLL_S, Ending, background, run_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

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


async def watch_usage(
    session: BrokerSession,
    name: str | None,
    report: UsageReport,
    begin: Callable[[], None],
    write: Callable[[Sequence[UsageRow]], None],
) -> None:
    """Watch a fleet until the report is complete or a signal ends it.

    Args:
        session: The broker.
        name: The fleet's name; None for the broker's only one.
        report: The report to fill.
        begin: Called once the broker is connected.
        write: Receives the rows of each interval that has ended.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: the broker has several fleets and none is named, or the fleet has no
            reservation that is named.
    """
    ending = Ending()
    fleet = await find_fleet(session, name)
    source, monitor = monitor_fleet(session, fleet)
    with ending.on_signals():
        async with background(source=source.run(), monitor=monitor.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            begin()
            await run_until(ending, _fill(session, monitor, report, write))
    write(report.finish())


async def _fill(
    session: BrokerSession,
    monitor: Monitor,
    report: UsageReport,
    write: Callable[[Sequence[UsageRow]], None],
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
        rows = report.add(monitor.moment(), table)
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
