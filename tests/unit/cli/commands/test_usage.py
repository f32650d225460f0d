from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.history import FIRST, write_minutes
from support.monitor.feed import live_feed
from unit.monitor.test_goodput import seconds, train
from unit.tui.format.test_reservations import made

from trnfleet.cli.commands.usage import COLUMNS, cells, command
from trnfleet.clock import NS_PER_S
from trnfleet.domain.goodput import TimeCause
from trnfleet.domain.reservations.states import ReservationState
from trnfleet.monitor.sources.clocks import Moment
from trnfleet.services.usage import CauseReport, UsageReport, UsageRow

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


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


def test_files_without_paid_time_are_not_known(tmp_path: Path) -> None:
    """An older version has written them. Not known is never 0."""
    write_minutes(tmp_path, range(FIRST, FIRST + 10), windows=[FIRST])
    result = CliRunner().invoke(command, ["--history", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == [
        "2026-01-05T00:00:00.000Z,2026-01-05T00:10:00.000Z,0,,not known,,,"
    ]
    assert result.stderr.endswith("; not known: 10 min 00 s\n")
    result = CliRunner().invoke(command, ["--history", str(tmp_path), "--json"])
    facts = json.loads(result.stdout)
    assert (facts["not_known_s"], facts["goodput"], facts["usd"]) == (600.0, None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--broker' (or '--history')"),
        (["--history", "x", "--by", "reservation"], "--history goes without --broker, --for"),
        (["--history", "x", "--id", "cb-1"], "--id goes with --by reservation"),
        (["--broker", "mqtt://127.0.0.1:1", "--from", "2026-01-05"], "go with --history"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert message in result.stderr


async def test_steps_lost_after_their_interval_are_written_off() -> None:
    """The total has them as lost."""
    feed = live_feed()
    report = CauseReport(every_s=60.0, lasts_s=125.0)
    await seconds(feed, 1)
    assert report.follow(feed.monitor) == []
    train(feed, 0.0)
    ended = []
    for steps in (10, 20, 30):
        await seconds(feed, 20)
        train(feed, float(steps))
    await seconds(feed, 5)
    ended += report.follow(feed.monitor)
    train(feed, 5.0, 25.0, state="failed")
    await seconds(feed, 61)
    ended += report.follow(feed.monitor)
    assert report.is_over
    ended += report.finish()
    lost = [
        (job.paid.seconds[TimeCause.LOST_WORK], job.written_off_s)
        for usage in ended
        for job in usage.report.jobs
        if job.job == "train"
    ]
    assert lost[0] == (0.0, 0.0)
    assert lost[1][1] == pytest.approx(15 * 4 * 2.0), "ten of the steps are the second's own"
    assert sum(usage.report.lasts_s for usage in ended) == pytest.approx(125, abs=2)
    assert "lost work 13." in report.total(), "all 25, of 12 instances' 126 s"
