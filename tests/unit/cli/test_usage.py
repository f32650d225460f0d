from __future__ import annotations

from decimal import Decimal
from typing import Any

from unit.tui.test_reservationwords import made

from trnfleet.cli.reserved import reservation_facts, reservation_lines
from trnfleet.cli.usage import COLUMNS, Report
from trnfleet.clock import NS_PER_S
from trnfleet.domain.reservations.states import ReservationState

BEGIN_NS = 86_400 * NS_PER_S
"""A day after the block's start, two before its end."""
LONG_S = 1e6


def lines(report: Report, at_s: float, *reservations: Any) -> list[dict[str, Any]]:
    found = report.look(BEGIN_NS + round(at_s * NS_PER_S), list(reservations), LONG_S)
    return [dict(zip(COLUMNS, line, strict=True)) for line in found]


def test_an_interval_adds_up() -> None:
    """An interval's line has what was held, used and paid: two instances for an hour, used half of it."""
    report = Report(every_s=3_600)
    assert lines(report, 0, made()) == []
    assert lines(report, 1_800, made()) == []
    idle = made(used=0, util_pct=0.0, idle_per_h=Decimal(100))
    (line,) = lines(report, 3_600, idle)
    assert (line["from"], line["to"]) == ("1970-01-02T00:00:00.000Z", "1970-01-02T01:00:00.000Z")
    assert (line["reservation"], line["state"], line["reserved"]) == ("cb-0123456789abcdef0", "active", 2)
    assert (line["watched_s"], line["used"], line["nc_util_pct"]) == ("3600", "1.000", "40.00")
    assert (line["reserved_instance_h"], line["used_instance_h"]) == ("2.0000", "1.0000")
    assert (line["fee"], line["idle_fee"], line["currency"]) == ("100.0000", "50.0000", "USD")
    assert report.total() == ("2.00 instance-hours reserved, 1.00 used (50.0%); paid for idleness: 50.00 USD")


def test_a_look_over_several_intervals_is_cut() -> None:
    """Where time runs fast one look fills several intervals, each with its own line, and the rest comes at the end."""
    report = Report(every_s=600)
    lines(report, 0, made())
    assert [line["to"][11:19] for line in lines(report, 1_500, made())] == ["00:10:00", "00:20:00"]
    (rest,) = report.finish()
    assert rest[COLUMNS.index("watched_s")] == "300"


def test_what_is_not_known_is_not_idle() -> None:
    """Time without telemetry is held and paid for, and neither used nor idle."""
    report = Report(every_s=3_600)
    lines(report, 0)
    (line,) = lines(report, 3_600, made(used=None, util_pct=None))
    assert (line["watched_s"], line["used"], line["nc_util_pct"]) == ("0", "", "")
    assert (line["reserved_instance_h"], line["fee"], line["idle_fee"]) == ("2.0000", "100.0000", "0.0000")


def test_only_what_is_held_counts() -> None:
    """A block counts from its start to its end, and neither before it begins nor when it was never delivered."""
    report = Report(every_s=7_200)
    lines(report, 0)
    half = made(ends_ns=BEGIN_NS + 3_600 * NS_PER_S)
    later = made(message={"id": "cb-2", "state": ReservationState.SCHEDULED})
    failed = made(message={"id": "cb-3", "state": ReservationState.PAYMENT_FAILED})
    (line,) = lines(report, 7_200, half, later, failed)
    assert (line["reservation"], line["reserved_instance_h"]) == ("cb-0123456789abcdef0", "2.0000")


def test_chosen_ids_and_unknown_fees() -> None:
    """Only the named reservations are told of, and what costs nobody knows has no fee."""
    report = Report(every_s=60, ids={"cb-2"})
    lines(report, 0)
    (line,) = lines(report, 60, made(), made(message={"id": "cb-2", "fee": None}, fee_per_h=None))
    assert (line["reservation"], line["fee"], line["idle_fee"]) == ("cb-2", "", "")
    assert "paid for idleness: n/a" in report.total()


def test_time_that_goes_back_begins_another_interval() -> None:
    """When a simulator begins anew, what was is told, and the report goes on from there."""
    report = Report(every_s=3_600)
    lines(report, 10_000, made())
    lines(report, 10_600, made())
    (line,) = lines(report, 0, made())
    assert line["watched_s"] == "600"
    assert lines(report, 600, made()) == []
    assert report.watched_s == 1_200


def test_it_ends_when_its_time_is_over() -> None:
    """Nothing beyond the period that was asked for is counted."""
    report = Report(every_s=600)
    report.look(BEGIN_NS, [made()], 900)
    assert len(report.look(BEGIN_NS + 5_000 * NS_PER_S, [made()], 900)) == 1
    assert report.watched_s == 900
    (rest,) = report.finish()
    assert rest[COLUMNS.index("watched_s")] == "300"


def test_facts_for_scripts() -> None:
    """JSON has exact money as text, states as EC2 names them, and null for what is not known."""
    facts = reservation_facts(made(used=None, idle_per_h=None, fee_per_h=Decimal("35.76")))
    assert (facts["fee"], facts["fee_per_h"], facts["idle_per_h"]) == ("7200.00", "35.7600", None)
    assert (facts["state"], facts["used"], facts["can_extend"]) == ("active", None, True)


def test_lines_for_people() -> None:
    """The table has a line a reservation with state, use, countdowns and money, and none without reservations."""
    shown = reservation_lines([made(is_idle=True, idle_per_h=Decimal(100))], BEGIN_NS)
    assert shown[0] == "reservations at 1970-01-02T00:00:00.000Z"
    assert "▲ idle" in shown[2]
    assert "100.00 USD" in shown[2]
    assert "ends 2d 00h" in shown[2]
    assert reservation_lines([], 0) == ["nothing is reserved"]
