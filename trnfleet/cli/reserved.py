"""Reservations for scripts and people: what `status --reservations` prints, and the lines of `usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.clock import format_rfc3339

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
    """Return a reservation as JSON values: EC2's names as they were told, and what follows from telemetry and time.

    Money is decimal text, times are RFC 3339, what is not known is null.
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
    """Return reservations as a table for people, with the time that its countdowns go by."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick
    from trnfleet.tui.format.reservations import (  # noqa: PLC0415  --help stays quick
        extension_text,
        fee_of,
        is_ended,
        is_waiting,
        money,
        state_text,
        termination_text,
        until_text,
        used_text,
        what_text,
    )

    if not table:
        return ["nothing is reserved"]
    rows: list[tuple[str, ...]] = [HEADS]
    for each in table:
        message = each.message
        quiet = is_ended(each) or is_waiting(each)
        util = "" if quiet else "n/a" if each.util_pct is None else f"{each.util_pct:.1f} %"
        rows.append(
            (
                state_text(each),
                plain(message.id, 64),
                what_text(each),
                used_text(each),
                util,
                until_text(each),
                termination_text(each),
                "" if each.idle_per_h is None else money(each.idle_per_h, message.currency),
                money(fee_of(each), message.currency if message.fee else ""),
                extension_text(each),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [f"reservations at {format_rfc3339(time_ns)}", *lines]
