from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from unit.tui.format.test_reservations import made

from trnfleet.cli.commands.usage import COLUMNS, cells, command
from trnfleet.clock import NS_PER_S
from trnfleet.domain.reservations.states import ReservationState
from trnfleet.monitor.sources.clocks import Moment
from trnfleet.services.usage import UsageReport, UsageRow

if TYPE_CHECKING:
    from collections.abc import Collection


BEGIN_NS = 86_400 * NS_PER_S
"""A day after the block's start, two before its end."""
LONG_S = 1e6
FAST = 3_600.0


def report_of(every_s: float, lasts_s: float = LONG_S, ids: Collection[str] = ()) -> UsageReport:
    return UsageReport(every_s=every_s, lasts_s=lasts_s, ids=ids)


def lines(
    report: UsageReport, at_s: float, *reservations: Any, speed: float = FAST
) -> list[dict[str, Any]]:
    moment = Moment(BEGIN_NS + round(at_s * NS_PER_S), speed, is_wall=False)
    return [as_dict(row) for row in report.add(moment, list(reservations))]


def as_dict(row: UsageRow) -> dict[str, Any]:
    return dict(zip(COLUMNS, cells(row), strict=True))


def test_an_interval_adds_up() -> None:
    """A line has capacity reserved, used and paid.

    Here it is two instances for an hour, half of it used.
    """
    report = report_of(3_600)
    assert lines(report, 0, made()) == []
    assert lines(report, 1_800, made()) == []
    idle = made(used=0, util_pct=0.0, idle_per_h=Decimal(100))
    (line,) = lines(report, 3_600, idle)
    assert (line["from"], line["to"]) == ("1970-01-02T00:00:00.000Z", "1970-01-02T01:00:00.000Z")
    assert (line["reservation"], line["state"], line["reserved"]) == (
        "cb-0123456789abcdef0",
        "active",
        2,
    )
    assert (line["watched_s"], line["used"], line["nc_util_pct"]) == ("3600", "1.000", "40.00")
    assert (line["reserved_instance_h"], line["used_instance_h"]) == ("2.0000", "1.0000")
    assert (line["fee"], line["idle_fee"], line["currency"]) == ("100.0000", "50.0000", "USD")
    assert report.total() == (
        "2.00 instance-hours reserved, 1.00 used (50.0%); paid for idleness: 50.00 USD"
    )


def test_capacity_without_an_instance_is_idle() -> None:
    """What is not launched costs money and has no utilisation; what is silent is neither."""
    report = report_of(3_600)
    free = made(used=0, util_pct=None, not_launched=1, unknown=1)
    lines(report, 0, free)
    lines(report, 1_800, free)
    (line,) = lines(report, 3_600, made())
    assert (line["nc_util_pct"], line["fee"], line["idle_fee"]) == ("80.00", "100.0000", "25.0000")


def test_a_look_over_several_intervals_is_cut() -> None:
    """With fast time one reading fills several intervals, each with its own line.

    The rest comes at the end.
    """
    report = report_of(600)
    lines(report, 0, made())
    assert [line["to"][11:19] for line in lines(report, 1_500, made())] == ["00:10:00", "00:20:00"]
    (rest,) = report.finish()
    assert as_dict(rest)["watched_s"] == "300"


def test_what_is_not_known_is_not_idle() -> None:
    """Time without telemetry is held and paid for, and neither used nor idle."""
    report = report_of(3_600)
    lines(report, 0)
    (line,) = lines(report, 3_600, made(used=None, util_pct=None))
    assert (line["watched_s"], line["used"], line["nc_util_pct"]) == ("0", "", "")
    assert (line["reserved_instance_h"], line["fee"], line["idle_fee"]) == (
        "2.0000",
        "100.0000",
        "0.0000",
    )
    assert report.total().startswith("2.00 instance-hours reserved, 0.00 used (n/a)")


def test_a_silent_part_is_not_idle() -> None:
    """In a block with a silent instance, only the live unused one is idle."""
    report = report_of(3_600)
    lines(report, 0)
    four = {"instances": 4}
    (line,) = lines(report, 3_600, made(message=four, used=2, unknown=1))
    assert (line["used"], line["fee"], line["idle_fee"]) == ("2.000", "100.0000", "25.0000")
    assert "2.00 used (66.7%)" in report.total()


def test_only_what_is_held_counts() -> None:
    """A block counts from its start to its end, if it was delivered."""
    report = report_of(7_200)
    lines(report, 0)
    half = made(ends_ns=BEGIN_NS + 3_600 * NS_PER_S)
    later = made(message={"id": "cb-2", "state": ReservationState.SCHEDULED})
    failed = made(message={"id": "cb-3", "state": ReservationState.PAYMENT_FAILED})
    (line,) = lines(report, 7_200, half, later, failed)
    assert (line["reservation"], line["reserved_instance_h"]) == ("cb-0123456789abcdef0", "2.0000")


def test_chosen_ids_and_unknown_fees() -> None:
    """Only the named reservations are told of, and what costs nobody knows has no fee."""
    report = report_of(60, ids={"cb-2"})
    lines(report, 0)
    (line,) = lines(report, 60, made(), made(message={"id": "cb-2", "fee": None}, fee_per_h=None))
    assert (line["reservation"], line["fee"], line["idle_fee"]) == ("cb-2", "", "")
    assert "paid for idleness: n/a" in report.total()


def test_time_that_goes_back_begins_another_interval() -> None:
    """A restarted simulator ends an interval, and the report goes on from there."""
    report = report_of(3_600, lasts_s=1_200)
    lines(report, 10_000, made())
    lines(report, 10_600, made())
    (line,) = lines(report, 0, made())
    assert line["watched_s"] == "600"
    assert lines(report, 599, made()) == []
    assert not report.is_over
    lines(report, 600, made())
    assert report.is_over


def test_a_jump_is_held_and_not_watched() -> None:
    """Skipped or unobserved time is paid for, and its use is not invented."""
    report = report_of(36_000)
    lines(report, 0, made(), speed=1)
    lines(report, 5, made(), speed=1)
    lines(report, 3_600, made(), speed=1)
    lines(report, 3_604, made(), speed=1)
    (rest,) = report.finish()
    line = as_dict(rest)
    assert (line["watched_s"], line["used"]) == ("9", "2.000")
    assert line["reserved_instance_h"] == "2.0022"
    assert line["idle_fee"] == "0.0000"


def test_it_ends_when_its_time_is_over() -> None:
    """Nothing beyond the requested period is counted."""
    report = report_of(600, lasts_s=900)
    lines(report, 0, made())
    assert len(lines(report, 5_000, made())) == 1
    assert report.is_over
    (rest,) = report.finish()
    assert as_dict(rest)["watched_s"] == "300"


def test_it_ends_whatever_its_parts_add_up_to() -> None:
    """Parts without an exact binary fraction still add up to the whole."""
    report = report_of(0.7, lasts_s=2.1)
    for tenths in range(22):
        assert not report.is_over
        lines(report, tenths / 10, made(), speed=1)
    assert report.is_over


def test_no_text_of_the_wire_acts_on_its_reader() -> None:
    """Neither a terminal's controls nor a spreadsheet's formulas get into a line."""
    report = report_of(60)
    lines(report, 0)
    nasty = [
        made(message={"id": f"cb-{at}", "zone": zone})
        for at, zone in enumerate(["=1+1", "us\x1b[2J"])
    ]
    assert [line["zone"] for line in lines(report, 60, *nasty)] == ["'=1+1", "us\\u001b[2J"]


@pytest.mark.parametrize("every", ["0.5s", "0.0000000001s"])
def test_an_interval_is_a_second_at_least(every: str) -> None:
    """Too short intervals are refused before any connection."""
    result = CliRunner().invoke(command, ["--broker", "mqtt://127.0.0.1:1", "--every", every])
    assert result.exit_code == 2
    assert "is not at least 1 s" in result.stderr


def test_a_reservation_that_is_not_there_is_named_with_the_nearest() -> None:
    """Only a requested and missing reservation is an error."""
    report = report_of(600, ids={"cb-1", "cb-0abc12"})
    assert (
        report.missing({"cb-1", "cb-0abc13"})
        == "--id cb-0abc12: no such reservation: did you mean 'cb-0abc13'?"
    )
    assert report.missing({"cb-1", "cb-0abc12", "cb-2"}) == ""
    assert report_of(600).missing(()) == ""
