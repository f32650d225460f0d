"""Reservations of a fleet as `trnfleet status --reservations` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.cli.tables import table_lines
from trnfleet.clock import format_rfc3339
from trnfleet.domain.quantities import mean_label
from trnfleet.monitor.reservations.means import MeanUse
from trnfleet.tui.format import reservations as words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.reservations.table import Reservation

HEADS = (
    "state",
    "reservation",
    "what",
    "used",
    "util",
    "next",
    "terminates",
    "idle per hour",
    "fee",
    "extension",
)


def facts_of(monitor: Monitor) -> list[dict[str, Any]]:
    """Return a fleet's reservations as JSON values."""
    use = _use(monitor)
    return [reservation_facts(reservation, use) for reservation in monitor.reservations.table()]


def lines_of(monitor: Monitor) -> list[str]:
    """Return a fleet's reservations as text."""
    return reservation_lines(monitor.reservations.table(), _use(monitor), monitor.moment().time_ns)


def _use(monitor: Monitor) -> MeanUse:
    return MeanUse(monitor.averages, monitor.store.generation)


def reservation_facts(reservation: Reservation, use: MeanUse) -> dict[str, Any]:
    """Return a reservation as JSON values.

    They are EC2's fields as published, and figures from telemetry and time. Money is decimal text,
    times are RFC 3339, unknown values are null. `nc_util_pct` is the present value, `mean` the mean
    of the last seconds, as in the fleet's own figures.

    Args:
        reservation: The reservation.
        use: Its mean utilisation.
    """
    message = reservation.message
    return {
        "id": message.id,
        "type": message.type,
        "state": message.state.value,
        "is_current": reservation.is_current,
        "reservation_ids": message.reservation_ids,
        "instance_type": message.instance_type,
        "ultraserver_type": message.ultraserver_type,
        "zone": message.zone,
        "on": message.on,
        "instances": message.instances,
        "launched": message.launched,
        "unavailable": message.unavailable,
        "used": reservation.used,
        "unknown": reservation.unknown,
        "nc_util_pct": reservation.util_pct,
        "mean": {"seconds": use.seconds, "nc_util_pct": use.util_pct(reservation)},
        "start": message.start,
        "end": message.end,
        "terminates": message.terminates,
        "end_s": reservation.to_end_s,
        "termination_s": reservation.to_termination_s,
        "fee": message.fee,
        "currency": message.currency,
        "fee_per_h": None if reservation.fee_per_h is None else f"{reservation.fee_per_h:.4f}",
        "idle_per_h": None if reservation.idle_per_h is None else f"{reservation.idle_per_h:.4f}",
        "interconnect": None if message.interconnect is None else message.interconnect.value,
        "can_extend": reservation.can_extend,
        "why_not": reservation.why_not,
        "is_near_end": reservation.is_near_end,
        "is_idle": reservation.is_idle,
    }


def reservation_lines(table: Sequence[Reservation], use: MeanUse, time_ns: int) -> list[str]:
    """Return the table of reservations, with the time of its countdowns above.

    It also states the period of the mean utilisation.
    """
    if not table:
        return ["no reservations"]
    rows: list[tuple[str, ...]] = [HEADS]
    for reservation in table:
        message = reservation.message
        rows.append(
            (
                words.state_text(reservation, use.util_pct(reservation)),
                message.id,
                words.what_text(reservation),
                words.used_text(reservation),
                words.util_text(reservation, use.util_pct(reservation)),
                words.until_text(reservation),
                words.termination_text(reservation),
                ""
                if reservation.idle_per_h is None
                else words.money(reservation.idle_per_h, message.currency),
                words.money(words.fee_of(reservation), message.currency if message.fee else ""),
                words.extension_text(reservation),
            )
        )
    return [
        f"reservations at {format_rfc3339(time_ns)}, util: {mean_label(use.seconds)}",
        *table_lines(rows),
    ]
