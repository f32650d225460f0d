"""Output of `trnfleet status`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.top import Top

from trnfleet.cli.output import MOST_SHOWN, row_lines
from trnfleet.cli.status_report import KnownFleet
from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.domain.site import PUE
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.rollups import CellPaidTime
from trnfleet.wire.topics import TopicClass


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


def said(feed: Feed | Top) -> str:
    return "\n".join(row_lines(KnownFleet.from_monitor(feed.monitor).rows(healthy=False), 16))


def is_well(feed: Feed | Top) -> bool:
    return KnownFleet.from_monitor(feed.monitor).is_healthy


def asked(feed: Feed) -> dict[str, object]:
    found = KnownFleet.from_monitor(feed.monitor).facts(healthy=False)
    again: dict[str, object] = json.loads(json.dumps(found, allow_nan=False))
    return again


@pytest.fixture
def feed() -> Feed:
    return fed()


async def test_links_are_counted_by_state(feed: Feed) -> None:
    feed.columns["links_up"][feed.layout.chips_at("uc1/us-0001").start] = 0b111110
    feed.tick()
    assert asked(feed)["links"] == {"all": 224, "up": 223, "slow": 0, "down": 1, "unknown": 0}
    assert "links           223 of 224 up, 1 down\n" in said(feed)


async def test_each_chip_is_in_one_state(feed: Feed) -> None:
    """Text and JSON count silent and offline chips separately.

    The states add up to all chips.
    """
    summary = replace(feed.monitor.summary(), live_chips=40, stale_chips=16, offline_chips=16)
    summary = replace(summary, unknown_chips=4, unobserved_chips=4)
    state = replace(KnownFleet.from_monitor(feed.monitor), summary=summary)
    line = state.rows(healthy=False)[0][1]
    assert "40 of 80 chips live, 16 stale, 16 offline, 4 not heard yet, 4 not observed" in line
    await feed.advance(10.0)
    feed.tick([path for path in feed.layout.instances if "us-0001" in path])
    found: Any = asked(feed)
    assert found["v"] == 1
    assert (found["live_chips"], found["stale_chips"], found["offline_chips"]) == (64, 16, 0)


def test_chips_that_are_not_described() -> None:
    """Undescribed chips are counted, with advice.

    A partly unknown fleet is not healthy.
    """
    feed = Feed(ultraservers(2), json=True)
    feed.describe(list(feed.layout.instances[:4]))
    feed.tick()
    assert asked(feed)["undescribed_chips"] == 64
    assert "not described   64 chips: they publish, and no descriptor of them has come; " in said(
        feed
    )
    assert not is_well(feed)
    feed.describe()
    feed.tick()
    assert "not described" not in said(feed)
    assert is_well(feed)


async def test_two_publishers_of_the_same_hosts() -> None:
    """Both publishers are named in text and JSON, and the fleet is not healthy.

    Their telemetry is not undescribed.
    """
    first = Feed(ultraservers(1), json=True)
    second = Feed(ultraservers(1), json=True)
    second.publisher, second.boot, second.monitor = "host-b", "boot-2", first.monitor
    first.publisher = "host-a"
    for feed in (first, second):
        # A later reader gets the newest descriptors and both presences.
        first.monitor.apply(feed.announcements()[:1])
    second.describe()
    for tick in range(6):
        await first.clock.advance(1.0)
        for feed in (first, second):
            first.monitor.apply(feed.telemetry())
        if tick == 0:
            undescribed = first.monitor.counts.undescribed
            assert first.monitor.ingest.contests.is_open(first.clock.monotonic_s())
    first.monitor.compute()
    assert asked(first)["contested"] == {"host-a and host-b": 4}
    assert "host-a and host-b publish the same 4 paths: values change between them" in said(first)
    assert not is_well(first)
    assert first.monitor.counts.undescribed == undescribed > 0
    [problem] = [
        each for each in first.monitor.pipeline().problems if each.name == "two-publishers"
    ]
    assert problem.severity.value == "critical"


async def test_a_restart_is_no_contest() -> None:
    """A publisher that goes on with another boot, before its descriptor comes, is one publisher."""
    feed = Feed(ultraservers(1), json=True)
    feed.describe()
    feed.tick()
    feed.boot = "boot-2"
    feed.seq = 0
    for _ in range(6):
        await feed.clock.advance(1.0)
        feed.monitor.apply(feed.telemetry())
    feed.describe()
    for _ in range(6):
        await feed.clock.advance(1.0)
        feed.monitor.apply(feed.telemetry())
    feed.monitor.compute()
    assert asked(feed)["contested"] == {}
    assert is_well(feed)


async def test_two_processes_with_one_client_id() -> None:
    """A boot to which a client id returns has gone on beside the other one."""
    feed = Feed(ultraservers(1))
    for boot in ("boot-1", "boot-2", "boot-1"):
        assert asked(feed)["contested"] == {}
        feed.boot = boot
        feed.describe()
        feed.tick()
        await feed.clock.advance(1.0)
    assert asked(feed)["contested"] == {"feed and feed": 1}
    assert (
        "two processes take turns under the client id feed: each ends the other's connection"
        in said(feed)
    )
    assert not is_well(feed)
    await feed.clock.advance(90.0)
    assert asked(feed)["contested"] == {}


def test_a_broker_that_withholds_is_named(feed: Feed) -> None:
    """Where wildcards get no retained messages, silences are not none but unknown."""
    assert "broker" not in said(feed)
    feed.monitor.link.withheld = 3
    assert (
        "broker          alerts, silences and acknowledgements are not known: the broker sent no"
        in said(feed)
    )
    feed.monitor.link.retained = 1
    assert "broker" not in said(feed)


def test_power_down_to_racks(feed: Feed) -> None:
    """IT and facility power with the PUE, and the racks that draw most and least."""
    found = asked(feed)
    assert found["it_power_w"] == pytest.approx(14_400 + 5_000)
    assert found["facility_power_w"] == pytest.approx(PUE * 19_400)
    assert found["pue"] == PUE == 1.14
    assert found["racks"] == {
        "highest": {"rack": "uc1/us-0001/rack-a", "power_w": 11_600},
        "lowest": {"rack": "uc1/standalone/trn2-0001", "power_w": 2_600},
    }
    assert "facility        22.1 kW with PUE 1.14, of that IT 19.4 kW" in said(feed)


async def test_figures_are_means_and_say_over_what(feed: Feed) -> None:
    """Text has the header's means.

    JSON has present values at the top, and means with their seconds under `mean`.
    """
    for watts in (100.0, 200.0, 300.0):
        feed.set("power_w", watts)
        feed.set("temperature_c", watts / 4)
        feed.monitor.apply(feed.telemetry())
        await feed.advance(1.0)
    found = asked(feed)
    mean = found["mean"]
    assert isinstance(mean, dict)
    # The first sample is that of `fed`; what came last has not stood for its second.
    assert (found["power_w"], mean["power_w"], mean["seconds"]) == (
        80 * 300.0,
        80 * (180.0 + 300.0) / 3,
        3.0,
    )
    assert (found["temperature_c"], mean["temperature_max_c"]) == (75.0, 50.0)
    assert "figures         3 s mean" in said(feed)
    assert "power           12.8 kW, host power 5.00 kW" in said(feed)


def test_jobs_with_every_figure(feed: Feed) -> None:
    """Each job has its state and the table's figures, null without meaning.

    Text counts states.
    """
    jobs = asked(feed)["job_list"]
    assert isinstance(jobs, list)
    assert [(job["job"], job["state"], job["on"]) for job in jobs] == [
        ("llama", "hung", ["uc1/us-0001"]),
        ("serve", "running", ["uc1/standalone"]),
    ]
    assert set(JOB_FIGURES) <= set(jobs[0])
    assert (jobs[0]["mfu"], jobs[0]["steps_lost"]) == (0.4, None)
    assert "2: 1 hung, 1 running" in said(feed)
    assert "critical        llama: job hung" in said(feed)


async def test_jobs_without_a_live_chip_are_not_counted_as_running(feed: Feed) -> None:
    """Text counts them apart; JSON has a flag, the age, and no pace."""
    for _ in range(12):
        await feed.clock.advance(1.0)
        feed.tick(list(feed.layout.instances[1:]))
    assert feed.layout.instances[0].startswith("uc1/standalone")
    jobs = asked(feed)["job_list"]
    assert isinstance(jobs, list)
    assert [(job["job"], job["live"], job["age_s"], job["mfu"]) for job in jobs] == [
        ("llama", True, None, 0.4),
        ("serve", False, 12.0, None),
    ]
    assert "2: 1 hung, 1 last known (1 running)" in said(feed)
    assert asked(feed)["last_known_jobs"] == 1
    assert "hits serve last known" in said(feed)
    assert "now of 64 live\n" in said(feed) or "s mean of 64 live\n" in said(feed)


def test_the_last_events(feed: Feed) -> None:
    """The newest events come first, made plain for the terminal."""
    feed.monitor.apply(
        [
            feed.event("uc1/us-0001", f"event {number}\x1b[2J", severity="warning")
            for number in range(MOST_SHOWN + 4)
        ]
    )
    events = asked(feed)["last_events"]
    assert isinstance(events, list)
    assert len(events) == MOST_SHOWN
    assert (events[0]["text"], events[0]["severity"], events[0]["path"]) == (
        "event 13\x1b[2J",
        "warning",
        "uc1/us-0001",
    )
    line = next(line for line in said(feed).splitlines() if line.startswith("event"))
    assert (
        line == r"event           2026-01-05T00:00:00.000Z warning uc1/us-0001: event 13\u001b[2J"
    )


def test_the_fleets_time(feed: Feed) -> None:
    """A fleet's own time is shown.

    Wall clock time is only in the JSON.
    """
    assert not any(line.startswith("time") for line in said(feed).splitlines())
    assert asked(feed)["monitor_time"] == "2026-01-05T00:00:00.000Z"
    fast = Feed(ultraservers(1))
    fast.scatter()
    fast.epoch = "2025-03-01T12:00:00Z"
    fast.speed = 3_600.0
    fast.describe()
    fast.monitor.apply(fast.telemetry(ts_ns=1_740_830_400_000_000_000))
    fast.monitor.compute()
    assert "time            2025-03-01T12:00:00.000Z x3600" in said(fast)
    assert asked(fast)["speed"] == 3_600.0


def test_a_wrong_clock(feed: Feed) -> None:
    """A host clock more than 5 s ahead is reported."""
    feed.clock.step_wall(-12)
    ahead = feed.telemetry(ts_ns=feed.clock.wall_ns() + 12_000_000_000)
    feed.monitor.apply(ahead)
    assert "lag 0 ms, clock off by 12 s" in said(feed)
    assert asked(feed)["clock_skew_s"] == pytest.approx(12.0)


def test_problems_are_listed_with_place_and_impact(feed: Feed) -> None:
    """Text and JSON have the problems; without a watch they say that alerts are unknown."""
    assert "1 critical" in said(feed).splitlines()[0]
    assert "; stopped llama (hung)" in said(feed)
    assert "unknown: no watch is online" in said(feed)
    found: Any = asked(feed)
    (problem,) = found["problems"]
    assert problem["name"] == "llama"
    assert problem["address"] == "uc1/us-0001"
    assert problem["jobs"] == [{"job": "llama", "state": "hung", "slowdown_pct": None}]
    assert found["problem_counts"]["critical"] == 1
    assert found["watched"] is False


def test_a_cell_without_a_watch_is_named_and_not_healthy() -> None:
    """A cell without a watch is named and not healthy: its problems are unknown.

    It is healthy on the top broker once the cell's own watch is online.
    """
    top = Top()
    top.frame((4_000.0, 20_000.0, 10_000.0))
    top.look()
    assert "alerts          cell cell-a: no watch publishes its alerts" in said(top)
    assert "144 of 144 chips live, 1 cell without a watch" in said(top)
    assert not is_well(top)
    message = WatchMessage(
        client="w", state="online", boot="b", role="watch", leads=True, cell="cell-a"
    )
    top.take(TopicClass.PUBLISHER, "cell-a/w", message)
    top.look()
    assert "alerts   " not in said(top)
    assert "144 of 144 chips live)" in said(top)
    assert is_well(top)


def test_paid_time_of_cells_that_is_not_known_is_not_0() -> None:
    top = Top()
    top.describe_row("uc1/us-0003")
    top.frame((1.0, 2.0, 3.0))
    top.frame_of_row(1.0)
    top.monitor.compute()
    unknown = "n/a: not observed, or by an older relay"
    assert f"cells           cell-a: {unknown}\ncells           cell-b: {unknown}\n" in said(top)
    seconds = {"productive": 75.0, "idle": 25.0, "of_a_newer_relay": 100.0}
    top.paid = CellPaidTime(lasts_s=50.0, seconds=seconds, usd={}, unpriced_s=200.0)
    top.frame((1.0, 2.0, 3.0))
    for title in ("1 of 2", "cell-a"):
        words = f"{title}: 75.0 % over 50 s: idle 12.5 %, productive 37.5 %, unsplit 50.0 %\n"
        assert words in said(top)
    facts = KnownFleet.from_monitor(top.monitor).facts(healthy=False)["cell_goodput"]
    assert [(one["cell"], one["known"]) for one in facts] == [
        (None, True),
        ("cell-a", True),
        ("cell-b", False),
    ]
    assert (facts[1]["paid_s"], facts[1]["lost_s"], facts[1]["paid_usd"]) == (200.0, 25.0, None)


def test_what_receivers_of_the_watch_do_not_take(feed: Feed) -> None:
    """Text has a line with the first receiver errors, --json all of the heartbeat.

    A standby's errors do not count.
    """
    assert "receivers" not in said(feed)
    assert (asked(feed)["receiver_error_count"], asked(feed)["receiver_errors"]) == (0, [])
    error = {
        "receiver": "alertmanager",
        "kind": "silence",
        "id": "s-1",
        "reason": "HTTP 400 'no'\x1b[2J",
    }
    for client, leads, count in (("a", False, 7), ("w", True, 2)):
        message = msgspec.convert(
            {
                "client": client,
                "state": "online",
                "boot": "b",
                "role": "watch",
                "since": f"2026-01-0{count}T00:00:00Z",
                "leads": leads,
                "errors": count,
                "receiver_errors": (error,),
            },
            WatchMessage,
        )
        feed.monitor.apply(
            [Envelope(f"trnfleet/v1/demo/publisher/{client}", encode_message(message), 1)]
        )
    assert (asked(feed)["receiver_error_count"], asked(feed)["receiver_errors"]) == (2, [error])
    assert "receivers       2 errors: alertmanager: silence s-1: HTTP 400 'no'\\u001b[2J" in said(
        feed
    )
