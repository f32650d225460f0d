"""Several fleets in `trnfleet status`: the report of each, and their totals."""

from __future__ import annotations

from typing import Any

import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.cli.status_report import FleetReport, total_facts, total_text
from trnfleet.errors import BrokerError
from trnfleet.services.live_monitor import BrokerState, Observation

HERE, AWAY = (
    BrokerState("mqtt://b1:1883", connected=True, error=""),
    BrokerState("mqtt://b2:1883", connected=False, error="connection refused"),
)


def fed(name: str, servers: int, watts: float) -> Feed:
    feed = Feed(ultraservers(servers), fleet=name)
    feed.set("power_w", watts)
    feed.describe()
    feed.tick()
    return feed


def report(name: str, servers: int, watts: float, *brokers: BrokerState) -> FleetReport:
    return FleetReport.from_observation(
        Observation(name, brokers, fed(name, servers, watts).monitor)
    )


def test_totals_are_sums_and_count_the_healthy() -> None:
    """Chips and watts add up.

    An unknown fleet adds none, and is not healthy.
    """
    gone = FleetReport.from_observation(
        Observation("gone", (AWAY,), None, BrokerError("mqtt://b2:1883: connection refused"))
    )
    fleets: list[dict[str, Any]] = [
        each.facts() for each in (report("one", 1, 100.0, HERE), report("two", 2, 50.0, HERE), gone)
    ]
    totals = total_facts(fleets)
    assert (totals["fleets"], totals["healthy"]) == (3, 2)
    assert (totals["chips"], totals["live_chips"], totals["instances"]) == (192, 192, 12)
    assert totals["power_w"] == pytest.approx(64 * 100.0 + 128 * 50.0)
    assert totals["problem_counts"]["critical"] == 0
    assert total_text(fleets) == (
        "total           3 fleets, 1 UNHEALTHY, 192 of 192 chips live, power 12.8 kW"
    )
    assert fleets[2] == {
        "v": 1,
        "fleet": "gone",
        "error": "mqtt://b2:1883: connection refused",
        "healthy": False,
        "broker": "mqtt://b2:1883",
        "brokers": [
            {"broker": "mqtt://b2:1883", "connected": False, "error": "connection refused"}
        ],
    }


def test_a_fleet_with_a_broker_that_is_away_is_not_healthy() -> None:
    """The unreachable broker's part is unknown.

    The brokers are named if there are several.
    """
    whole = report("one", 1, 100.0, HERE)
    part = report("one", 1, 100.0, HERE, AWAY)
    assert whole.is_healthy
    assert "brokers" not in whole.text()
    assert not part.is_healthy
    lines = part.text().splitlines()
    assert lines[0] == "fleet           one (UNHEALTHY: 64 of 64 chips live)"
    assert lines[1] == (
        "brokers         mqtt://b1:1883 connected, mqtt://b2:1883 AWAY: connection refused"
    )
