"""Report of `trnfleet status --reservations`: JSON values, and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.cli.output import table_lines
from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.quantities import mean_label
from trnfleet.monitor.reservations.means import MeanUse
from trnfleet.text import LONGEST, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.cli.status_report import FleetReport, KnownFleet
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.monitor.reservations.table import Reservation

HEADS = (
    "state",
    "reservation",
    "what",
    "used",
    "not launched",
    "no telemetry",
    "problems",
    "util",
    "next",
    "terminates",
    "idle per hour",
    "fee",
    "extension",
)


def fleet_facts(report: FleetReport) -> dict[str, Any]:
    """Return a fleet's reservations as JSON values."""
    if report.state is None:
        return {"fleet": report.fleet, "reservations": [], "error": report.error}
    monitor = report.state.monitor
    use = MeanUse(monitor.averages, monitor.store.generation)
    problems = _placed_problems(report.state)
    facts = [
        reservation_facts(
            reservation,
            use,
            monitor.reservations.without_telemetry(reservation),
            _problems_in(reservation, problems),
        )
        for reservation in monitor.reservations.table()
    ]
    return {"fleet": report.fleet, "reservations": facts}


def fleet_text(report: FleetReport) -> str:
    """Return a fleet's reservations as text, with the time of the countdowns above.

    The period of the mean utilisation stands there, too.
    """
    from trnfleet.tui.format import reservations as words  # noqa: PLC0415  it loads Textual

    if report.state is None:
        return plain(report.error, LONGEST)
    monitor = report.state.monitor
    table = monitor.reservations.table()
    if not table:
        return "no reservations"
    use = MeanUse(monitor.averages, monitor.store.generation)
    problems = _placed_problems(report.state)
    rows: list[tuple[str, ...]] = [HEADS]
    notes = []
    for reservation in table:
        rows.append(reservation_row(reservation, use, _problems_in(reservation, problems)))
        silent = monitor.reservations.without_telemetry(reservation)
        if unused := words.unused_texts(reservation, silent):
            notes.append(f"{plain(reservation.message.id)}: {', '.join(unused)}")
    heading = f"reservations at {format_rfc3339(monitor.moment().time_ns)}"
    return "\n".join([f"{heading}, util: {mean_label(use.seconds)}", *table_lines(rows), *notes])


def reservation_facts(
    reservation: Reservation, use: MeanUse, silent: Sequence[str], problems: Sequence[Problem]
) -> dict[str, Any]:
    """Return a reservation as JSON values.

    They are EC2's fields as published, and figures from telemetry and time. Money is decimal text,
    times are RFC 3339, unknown values are null. `nc_util_pct` is the present value, `mean` the mean
    of the last seconds, as in the fleet's own figures.

    Args:
        reservation: The reservation.
        use: Its mean utilisation.
        silent: Its instances without telemetry.
        problems: Problems of its instances.
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
        "on": reservation.on,
        "ec2_ids": message.ec2_ids,
        "instances": message.instances,
        "launched": message.launched,
        "unavailable": message.unavailable,
        "used": reservation.used,
        "not_launched": reservation.not_launched,
        "unknown": reservation.unknown,
        "no_telemetry": list(silent),
        "problems": [problem.key for problem in problems],
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


def reservation_row(
    reservation: Reservation, use: MeanUse, problems: Sequence[Problem]
) -> tuple[str, ...]:
    """Return a reservation's cells of the table."""
    from trnfleet.tui.format import reservations as words  # noqa: PLC0415  it loads Textual
    from trnfleet.tui.format.alerts import severities_text  # noqa: PLC0415  it loads Textual

    message = reservation.message
    util_pct = use.util_pct(reservation)
    idle_per_h = reservation.idle_per_h
    return (
        words.state_text(reservation, util_pct),
        message.id,
        words.what_text(reservation),
        words.used_text(reservation),
        str(reservation.not_launched or ""),
        str(reservation.unknown or ""),
        severities_text([problem.severity for problem in problems]),
        words.util_text(reservation, util_pct),
        words.until_text(reservation),
        words.termination_text(reservation),
        "" if idle_per_h is None else words.money(idle_per_h, message.currency),
        words.money(words.fee_of(reservation), message.currency if message.fee else ""),
        words.extension_text(reservation),
    )


def _placed_problems(state: KnownFleet) -> list[tuple[Problem, set[int]]]:
    """Return the unhandled problems with the rows of their instances."""
    layout = state.monitor.store.layout
    return [
        (problem, _rows_of(problem, layout))
        for problem in state.published.problems.all
        if problem.is_loud
    ]


def _rows_of(problem: Problem, layout: Layout) -> set[int]:
    addresses = {problem.place.address, problem.place.other_end.partition(":")[0]}
    addresses.update(address_of(held.alert) for held in problem.alerts)
    nodes = [layout.find(address) for address in addresses - {""}]
    return {
        layout.instance_range(node).start
        for node in nodes
        if node is not None and node.level >= Level.INSTANCE
    }


def _problems_in(
    reservation: Reservation, problems: Sequence[tuple[Problem, set[int]]]
) -> list[Problem]:
    return [
        problem
        for problem, rows in problems
        if any(row in run for row in rows for run in reservation.rows)
    ]
