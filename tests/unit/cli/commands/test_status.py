"""Output of `trnfleet status`."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from unit.tui.format.test_reservations import made

from trnfleet.cli.commands.status import (
    MOST_EVENTS,
    facts,
    is_healthy,
    reservation_facts,
    reservation_lines,
    text,
)
from trnfleet.clock import NS_PER_S
from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.domain.power import PUE


def fed() -> Feed:
    feed = Feed(ultraservers(1) + standalone(1))
    feed.set("power_w", 100.0)
    feed.set("power_w", 300.0, slice(16, 48))
    feed.set("host_power_w", 1_000.0)
    feed.jobs = {"llama": ("uc1/us-0001",), "serve": ("uc1/standalone",)}
    feed.states = {"llama": "hung"}
    feed.describe()
    feed.tick()
    return feed


def said(feed: Feed) -> str:
    return text(feed.monitor.summary(), feed.monitor, healthy=False)


def asked(feed: Feed) -> dict[str, object]:
    found = facts(feed.monitor, feed.monitor.summary(), healthy=False)
    again: dict[str, object] = json.loads(json.dumps(found, allow_nan=False))
    return again


def test_chips_that_are_not_described() -> None:
    """They are counted, with what to do; a fleet of which a part is unknown is not healthy."""
    feed = Feed(ultraservers(2), json=True)
    feed.describe(list(feed.layout.instances[:4]))
    feed.tick()
    assert asked(feed)["undescribed_chips"] == 64
    assert "not described   64 chips: they publish, and no descriptor of them has come; " in said(feed)
    assert not is_healthy(feed.monitor, feed.monitor.summary())
    feed.describe()
    feed.tick()
    assert "not described" not in said(feed)
    assert is_healthy(feed.monitor, feed.monitor.summary())


def test_power_down_to_racks() -> None:
    """IT and facility power with the PUE, and the racks that draw most and least."""
    feed = fed()
    found = asked(feed)
    assert found["it_power_w"] == pytest.approx(14_400 + 5_000)
    assert found["facility_power_w"] == pytest.approx(PUE * 19_400)
    assert found["pue"] == PUE == 1.14
    assert found["racks"] == {
        "highest": {"rack": "uc1/us-0001/rack-a", "power_w": 11_600},
        "lowest": {"rack": "uc1/standalone/trn2-0001", "power_w": 2_600},
    }
    assert "19.4 kW IT, 22.1 kW with PUE 1.14" in said(feed)


def test_jobs_with_every_figure() -> None:
    """Each job comes with its state and all figures of the table, null where they make no sense; text counts states."""
    feed = fed()
    jobs = asked(feed)["job_list"]
    assert isinstance(jobs, list)
    assert [(job["job"], job["state"], job["on"]) for job in jobs] == [
        ("llama", "hung", ["uc1/us-0001"]),
        ("serve", "running", ["uc1/standalone"]),
    ]
    assert set(JOB_FIGURES) <= set(jobs[0])
    assert (jobs[0]["mfu"], jobs[0]["steps_lost"]) == (0.4, None)
    assert "2: 1 hung, 1 running" in said(feed)
    assert "critical        uc1/us-0001: llama: job hung" in said(feed)


def test_the_last_events() -> None:
    """The newest events that were heard, newest first, made plain for the terminal."""
    feed = fed()
    feed.monitor.apply(
        [feed.event("uc1/us-0001", f"event {number}\x1b[2J", severity="warning") for number in range(9)]
    )
    events = asked(feed)["last_events"]
    assert isinstance(events, list)
    assert len(events) == MOST_EVENTS
    assert (events[0]["text"], events[0]["severity"], events[0]["path"]) == (
        "event 8\x1b[2J",
        "warning",
        "uc1/us-0001",
    )
    line = next(line for line in said(feed).splitlines() if line.startswith("event"))
    assert line == r"event           2026-01-05T00:00:00.000Z warning uc1/us-0001: event 8\u001b[2J"


def test_the_fleets_time() -> None:
    """A fleet with a time of its own says so; at the wall clock nothing is said but in the JSON."""
    feed = fed()
    assert not any(line.startswith("time") for line in said(feed).splitlines())
    assert asked(feed)["monitor_time"] == "2026-01-05T00:00:00.000Z"
    fast = Feed(ultraservers(1))
    fast.scatter()
    fast.epoch, fast.speed = "2025-03-01T12:00:00Z", 3_600.0
    fast.describe()
    fast.monitor.apply(fast.telemetry(ts_ns=1_740_830_400_000_000_000))
    fast.monitor.compute()
    assert "time            2025-03-01T12:00:00.000Z x3600" in said(fast)
    assert asked(fast)["speed"] == 3_600.0


def test_a_wrong_clock() -> None:
    """A host whose clock is ahead by more than 5 s is told."""
    feed = fed()
    feed.clock.step_wall(-12)
    ahead = feed.telemetry(ts_ns=feed.clock.wall_ns() + 12_000_000_000)
    feed.monitor.apply(ahead)
    assert "lag 0 ms, clock off by 12 s" in said(feed)
    assert asked(feed)["clock_skew_s"] == pytest.approx(12.0)


def test_facts_for_scripts() -> None:
    """JSON has exact money as text, states as EC2 names them, and null for what is not known."""
    facts = reservation_facts(made(used=None, idle_per_h=None, fee_per_h=Decimal("35.76")))
    assert (facts["fee"], facts["fee_per_h"], facts["idle_per_h"]) == ("7200.00", "35.7600", None)
    assert (facts["state"], facts["used"], facts["can_extend"]) == ("active", None, True)


def test_lines_for_people() -> None:
    """The table has a line a reservation with state, use, countdowns and money, and none without reservations."""
    shown = reservation_lines([made(is_idle=True, idle_per_h=Decimal(100))], 86_400 * NS_PER_S)
    assert shown[0] == "reservations at 1970-01-02T00:00:00.000Z"
    assert "▲ idle" in shown[2]
    assert "100.00 USD" in shown[2]
    assert "ends 2d 00h" in shown[2]
    assert reservation_lines([], 0) == ["no reservations"]
