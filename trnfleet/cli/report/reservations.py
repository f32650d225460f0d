"""Reservations of a fleet as `trnfleet status --reservations` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.cli.tables import table_lines
from trnfleet.clock import format_rfc3339
from trnfleet.tui.format import reservations as words

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def reservation_facts(reservation: Reservation) -> dict[str, Any]:
    """Return a reservation as JSON values: EC2's fields as published, and figures of telemetry and time.

    Money is decimal text, times are RFC 3339, unknown values are null.
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


def reservation_lines(table: Sequence[Reservation], time_ns: int) -> list[str]:
    """Return the table of reservations, with the time of its countdowns above."""
    if not table:
        return ["no reservations"]
    rows: list[tuple[str, ...]] = [HEADS]
    for each in table:
        message = each.message
        quiet = words.is_ended(each) or words.is_waiting(each)
        util = "" if quiet else "n/a" if each.util_pct is None else f"{each.util_pct:.1f} %"
        rows.append(
            (
                words.state_text(each),
                message.id,
                words.what_text(each),
                words.used_text(each),
                util,
                words.until_text(each),
                words.termination_text(each),
                "" if each.idle_per_h is None else words.money(each.idle_per_h, message.currency),
                words.money(words.fee_of(each), message.currency if message.fee else ""),
                words.extension_text(each),
            )
        )
    return [f"reservations at {format_rfc3339(time_ns)}", *table_lines(rows)]
