"""Jobs without a live chip have last known state and figures, with an age."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.rules import rule_of
from support.monitor.top import Top

from trnfleet.domain.alerts.status import AlertState
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems.state import problems_of
from trnfleet.wire.messages import JobMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

SLOW = rule_of(
    name="job-slow",
    scope="job",
    figure="step_time_s",
    share_of_median_of="past",
    past="30m",
    above=1.1,
    also=[{"figure": "state", "equals": "running"}],
)
STALLED = rule_of(name="input-stall", scope="job", figure="state", above=None, equals="stalled")
FAILED = rule_of(name="job-failed", scope="job", figure="state", above=None, equals="failed")
NEAR = "uc1/us-0001"
FAR = "uc1/us-0002"


def publish(
    feed: Feed | Top, name: str, on: tuple[str, ...], state: str = "running", **rest: Any
) -> None:
    ts = rest.pop("ts", "2026-01-05T00:00:00Z")
    message = JobMessage(job=name, kind="training", state=state, ts=ts, on=on, **rest)
    topic = build_topic("demo", TopicClass.JOB, name)
    feed.monitor.apply([Envelope(topic, encode_message(message), qos=1, retain=True)])


async def half_dead(seconds: int = 30) -> Feed:
    """Return a fleet of two jobs with one job's hosts silent for some seconds."""
    feed = Feed([*ultraservers(2), *standalone(1)])
    feed.jobs = {"near": (NEAR,), "far": (FAR,)}
    feed.describe()
    feed.tick()
    rest = [path for path in feed.layout.instances if not path.startswith(FAR)]
    for _ in range(seconds):
        await feed.clock.advance(1.0)
        feed.tick(rest)
    return feed


def silent(feed: Feed | Top) -> list[str]:
    return sorted(feed.monitor.ingest.job_table.last_known)


async def test_a_job_lives_by_its_chips() -> None:
    """A job without a live chip is last known, with an age.

    One live chip is enough.

    It comes back, too.
    """
    feed = await half_dead(2)
    assert silent(feed) == []
    rest = [path for path in feed.layout.instances if not path.startswith(FAR)]
    for _ in range(8):
        await feed.clock.advance(1.0)
        feed.tick(rest)
    assert silent(feed) == ["far"]
    assert feed.monitor.job_age_s("near") is None
    assert feed.monitor.job_age_s("far") == pytest.approx(10.0)
    assert feed.monitor.summary().last_known_jobs == 1
    one_host = [path for path in feed.layout.instances if path.startswith(FAR)][:1]
    feed.tick([*rest, *one_host])
    assert silent(feed) == []
    feed.monitor.link.connected = False
    await feed.advance(12.0)
    assert silent(feed) == ["far", "near"]


async def test_a_job_that_was_never_heard_here_has_the_age_of_its_message() -> None:
    """A job never heard here has its message's age.

    A fleet at double speed has half the age.
    """
    feed = Feed(ultraservers(1))
    feed.jobs = {"near": (NEAR,)}
    feed.describe()
    await feed.advance(5.0)
    published_s = (feed.clock.wall_ns() - 1_767_571_200_000_000_000) / 1e9
    assert silent(feed) == ["near"]
    assert feed.monitor.job_age_s("near") == pytest.approx(published_s)


async def test_jobs_whose_chips_are_not_known() -> None:
    """A job without instances follows the fleet.

    One with undescribed instances is not live.
    """
    feed = await half_dead(5)
    publish(feed, "queued", (), "waiting")
    publish(feed, "elsewhere", ("uc9/us-0001",))
    feed.monitor.compute()
    assert silent(feed) == ["elsewhere", "far"]
    await feed.advance(12.0)
    assert silent(feed) == ["elsewhere", "far", "near", "queued"]


async def test_a_cell_that_no_relay_observes() -> None:
    """Jobs of an unobserved cell are last known.

    Jobs of other cells are live.
    """
    top = Top()
    top.describe_row("uc1/us-0003")
    publish(top, "a", (NEAR,))
    publish(top, "b", ("uc1/us-0003",))
    told = []
    for seq in range(8):
        if seq < 3:
            top.frame((1_000.0, 2_000.0, 3_000.0))
        top.frame_of_row(2_000.0, seq)
        top.monitor.compute()
        told.append(silent(top))
        await top.clock.advance(1.0)
    assert told[1:4] == [[]] * 3
    assert told[-1] == ["a"]


async def test_rules_and_problems_of_a_job_without_a_live_chip() -> None:
    """Alerts go on as last known.

    A failed job stays failed.

    None begins on old figures.
    """
    feed = Feed(ultraservers(2))
    feed.monitor.ingest.alerts = Alerts("demo", (SLOW, STALLED, FAILED))
    feed.describe()
    rest = list(feed.layout.instances)
    for second in range(40):
        if second == 30:
            rest = [path for path in rest if not path.startswith(FAR)]
        slow = 7.0 if second >= 25 else 5.0
        publish(feed, "near", (NEAR,), step_time_s=5.0)
        if second < 32:
            publish(feed, "slow", (FAR,), step_time_s=slow)
            publish(
                feed, "stalled", (FAR,), "stalled" if second == 31 else "running", step_time_s=5.0
            )
        await feed.clock.advance(1.0)
        feed.tick(rest)
        if second == 33:
            publish(feed, "late", (FAR,), "stalled")
            publish(feed, "down", (FAR,), "failed")
    active = {(each.name, each.target): each for each in feed.monitor.alerts.active()}
    assert active.keys() == {
        ("job-slow", "slow"),
        ("input-stall", "stalled"),
        ("job-failed", "down"),
    }
    assert all(each.state is AlertState.FIRING for each in active.values())
    assert active["job-slow", "slow"].is_silent
    assert not active["job-failed", "down"].is_silent
    held = feed.monitor.alerts
    problems = problems_of(
        feed.monitor, [AlertWithStatus(each, held.status(each)) for each in held.active()]
    )
    hurt = {
        each.job: each for each in itertools.chain.from_iterable(each.jobs for each in problems.all)
    }
    assert (hurt["slow"].state, hurt["slow"].slowdown_pct) == ("last known", None)
    assert hurt["down"].state == "failed"


async def test_history_has_no_steps_of_a_job_without_a_live_chip() -> None:
    """Charts end where the chips do."""
    feed = await half_dead(0)
    for second in range(12):
        publish(feed, "far", (FAR,), step_time_s=5.0)
        await feed.clock.advance(1.0)
        feed.tick([] if second >= 5 else None)
    steps = feed.monitor.history.job_track("far", "step_time_s", 12).mean
    assert steps[2] == 5.0
    assert steps[-1] != steps[-1]
