"""Output of `trnfleet status --reservations`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from unit.tui.format.test_reservations import made

from trnfleet.cli.reservation_report import (
    fleet_facts,
    fleet_text,
    reservation_facts,
    reservation_row,
)
from trnfleet.cli.status_report import FleetReport, KnownFleet
from trnfleet.monitor.reservations.means import MeanUse
from trnfleet.monitor.store.averages import Averages

NO_MEANS = MeanUse(Averages(), 0)


def report(feed: Feed) -> FleetReport:
    return FleetReport("demo", (), "", KnownFleet.from_monitor(feed.monitor))


def facts_of(feed: Feed) -> dict[str, Any]:
    (facts,) = fleet_facts(report(feed))["reservations"]
    return dict(facts)


def test_facts_for_scripts() -> None:
    """JSON has exact money as text, EC2's state names, and null for unknown values."""
    reservation = made(used=None, idle_per_h=None, fee_per_h=Decimal("35.76"))
    facts = reservation_facts(reservation, NO_MEANS, (), ())
    assert (facts["fee"], facts["fee_per_h"], facts["idle_per_h"]) == ("7200.00", "35.7600", None)
    assert (facts["state"], facts["used"], facts["can_extend"]) == ("active", None, True)


def test_cells_for_people() -> None:
    """A row has state, use, countdowns and money."""
    cells = reservation_row(made(is_idle=True, idle_per_h=Decimal(100)), NO_MEANS, ())
    assert {"▲ idle", "100.00 USD", "ends 2d 00h"} <= set(cells)


def test_no_reservations() -> None:
    """A fleet without any says so."""
    assert fleet_text(report(Feed(standalone(1)))) == "no reservations"


async def test_the_utilisation_of_reservations_is_a_mean_and_says_so() -> None:
    """Text has the mean of the last seconds.

    JSON has both values under the fleet's names.
    """
    feed = Feed(ultraservers(1))
    feed.set("nc_util_pct", 80.0)
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", "uc1/us-0001", instances=4)])
    feed.tick()
    for util in (80.0, 60.0):
        feed.set("nc_util_pct", util)
        feed.tick()
        await feed.advance(1.0)
    shown = fleet_text(report(feed)).splitlines()
    seconds = feed.monitor.averages.seconds
    assert shown[0].endswith(f"util: {seconds:g} s mean")
    facts = facts_of(feed)
    assert facts["nc_util_pct"] == pytest.approx(60.0, abs=0.3)
    mean = feed.monitor.summary().mean.nc_util_pct
    assert mean is not None
    assert facts["mean"] == {"seconds": seconds, "nc_util_pct": pytest.approx(mean)}
    assert f"{mean:.1f} %" in shown[2]


def test_instances_without_telemetry_and_problems_are_named() -> None:
    """EC2 ids without a live host are named, and problems of hosts mark their block."""
    feed = Feed(standalone(2))
    one, two = feed.layout.instances
    feed.ec2_ids = {one: "i-1", two: "i-2"}
    feed.set("nc_util_pct", 80.0)
    feed.set("mem_ecc_uncorrected", 1, 3)
    feed.describe()
    feed.receive(
        [
            feed.reservation("cb-1", ec2_ids=["i-1", "i-gone"], instances=4, launched=3),
            feed.reservation("cb-2", ec2_ids=["i-2"]),
        ]
    )
    feed.tick()
    facts, other = fleet_facts(report(feed))["reservations"]
    assert (facts["on"], facts["used"], facts["not_launched"]) == ((one,), 1, 1)
    assert (facts["unknown"], facts["no_telemetry"]) == (2, ["i-gone"])
    assert (len(facts["problems"]), other["problems"]) == (1, [])
    shown = fleet_text(report(feed)).splitlines()
    assert shown[-1] == "cb-1: 1 not launched, no telemetry of 2: i-gone"
    assert "✖ 1" in shown[2]
