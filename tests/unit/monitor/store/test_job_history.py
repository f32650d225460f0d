from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.monitor.replay.past_monitor import PastHistory
from trnfleet.monitor.store.gaps import Gap, Reason
from trnfleet.monitor.store.job_history import JOB_KEYS, MOST_JOBS, STATE, STATES
from trnfleet.monitor.store.rings.record import HIGH, rolled_up
from trnfleet.wire.messages import JobMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.monitor.store.history import History


def running(
    feed: Feed, name: str, on: tuple[str, ...], step_s: float, state: str = "running"
) -> None:
    """Have a job published with a step time."""
    job = JobMessage(
        job=name, kind="training", state=state, ts="2026-01-05T00:00:00Z", on=on, step_time_s=step_s
    )
    topic = build_topic(feed.fleet, TopicClass.JOB, name)
    feed.monitor.apply([Envelope(topic, encode_message(job), qos=1, retain=True)])


async def seconds(feed: Feed, count: int) -> None:
    for _ in range(count):
        await feed.clock.advance(1)
        feed.tick()


def past(feed: Feed, job: str, key: str, span_s: int = 60) -> list[float]:
    return [
        round(each, 3) for each in feed.monitor.history.job_track(job, key, span_s).mean.tolist()
    ]


def attend(feed: Feed, history: History, *, is_cut_off: bool = False) -> None:
    """Have a history sample the feed's jobs."""
    history.attend(feed.monitor.ingest.job_table, is_cut_off=is_cut_off)


async def two_jobs() -> Feed:
    feed = Feed([*ultraservers(1), *standalone(2)])
    feed.set("power_w", 100.0)
    feed.describe()
    running(feed, "pretrain", ("uc1/us-0001",), 5.0)
    running(feed, "finetune", ("uc1/standalone/trn2-0001",), 2.0)
    await seconds(feed, 3)
    return feed


async def test_each_job_has_its_own_power_and_step_time() -> None:
    feed = await two_jobs()
    running(feed, "pretrain", ("uc1/us-0001",), 6.5)
    feed.set("power_w", 200.0, slice(-64, None))
    await seconds(feed, 2)
    assert feed.monitor.history.job_names() == ["finetune", "pretrain"]
    assert past(feed, "pretrain", "power_w") == [6_400] * 3 + [12_800] * 2
    assert past(feed, "finetune", "power_w") == [1_600] * 5
    assert past(feed, "pretrain", "step_time_s") == [5.0] * 3 + [6.5] * 2
    assert past(feed, "nobody", "power_w") == []


async def test_a_job_that_takes_no_steps_or_is_silent_has_a_gap() -> None:
    """A job without steps or live instances has a gap.

    Its last step time is outdated, and the power of silent instances is unknown.
    """
    feed = await two_jobs()
    running(feed, "pretrain", ("uc1/us-0001",), 5.0, state="checkpointing")
    await seconds(feed, 2)
    assert np.isnan(past(feed, "pretrain", "step_time_s")[-2:]).all()
    assert past(feed, "pretrain", "power_w")[-1] == 6_400
    for _ in range(8):
        await feed.advance(1)
    assert np.isnan(past(feed, "finetune", "power_w")[-1])
    assert np.isnan(past(feed, "finetune", "step_time_s")[-1])


async def test_a_roll_up_has_the_most_serious_state() -> None:
    feed = await two_jobs()
    for state, count in (("checkpointing", 4), ("failed", 1), ("a_new_one", 2)):
        running(feed, "pretrain", ("uc1/us-0001",), 5.0, state=state)
        await seconds(feed, count)
    states = feed.monitor.history.job_track("pretrain", STATE, 60)
    assert [STATES[int(number)] for number in states.mean] == [
        *["running"] * 3,
        *["checkpointing"] * 4,
        "failed",
        *[""] * 2,
    ]
    assert STATES[int(rolled_up(states.mean)[HIGH])] == "failed"
    for _ in range(8):
        await feed.advance(1)
    assert np.isnan(past(feed, "pretrain", STATE)[-1]), "a silent job's state is not known"


async def test_a_job_that_ends_keeps_its_past_and_one_that_begins_has_none_before() -> None:
    feed = await two_jobs()
    feed.monitor.apply(
        [Envelope(build_topic(feed.fleet, TopicClass.JOB, "pretrain"), b"", qos=1, retain=True)]
    )
    running(feed, "serve", ("uc1/us-0001",), 1.0)
    await seconds(feed, 2)
    assert past(feed, "pretrain", "power_w")[:3] == [6_400] * 3
    assert np.isnan(past(feed, "pretrain", "power_w")[-1])
    serve = feed.monitor.history.job_track("serve", "power_w", 60)
    assert serve.end == feed.monitor.history.end
    assert serve.mean[-1] == 6_400


async def test_the_largest_jobs_are_kept_and_those_that_have_ended_make_room() -> None:
    feed = Feed(standalone(MOST_JOBS + 4))
    feed.set("power_w", 100.0)
    feed.describe()
    paths = [path for path, _ in standalone(MOST_JOBS + 4)]
    for number in range(MOST_JOBS + 1):
        running(feed, f"job-{number:02d}", (paths[number],), 1.0)
    await seconds(feed, 2)
    history = feed.monitor.history
    assert history.job_names() == [f"job-{number:02d}" for number in range(MOST_JOBS)]
    running(feed, "large", tuple(paths[-3:]), 1.0)
    await seconds(feed, 2)
    assert "large" in history.job_names()
    assert len(history.job_names()) == MOST_JOBS
    assert history.jobs.nbytes < MOST_JOBS * len(JOB_KEYS) * 40_000


async def test_a_cut_link_and_a_pause_are_named_gaps() -> None:
    """A gap has a reason.

    Its numbers are sample numbers.
    """
    feed = await two_jobs()
    feed.monitor.reachability.half_open.begins(0.0)
    attend(feed, feed.monitor.history, is_cut_off=True)
    feed.monitor.history.push(feed.monitor.store, feed.monitor.rollups)
    feed.monitor.history.skip(4)
    assert feed.monitor.history.gaps_since(0) == [
        Gap(3, 4, Reason.LINK_DOWN),
        Gap(4, 8, Reason.NOT_OBSERVED),
    ]


@pytest.mark.parametrize("ago", [0, 2])
async def test_the_past_shows_jobs_as_they_were(ago: int) -> None:
    feed = await two_jobs()
    feed.set("power_w", 300.0)
    await seconds(feed, 2)
    whole = past(feed, "pretrain", "power_w")
    history = PastHistory(feed.monitor, lambda: feed.monitor.history_s - ago)
    then = history.job_track("pretrain", "power_w", 60)
    assert then.mean.tolist() == whole[: len(whole) - ago]
    assert history.end == then.end == feed.monitor.history.samples - ago
    assert history.job_names() == ["finetune", "pretrain"]
    layout = feed.monitor.store.layout
    node = layout.find("")
    assert node is not None
    track = history.track(layout, node, "power_w", 60)
    assert track.mean.tolist() == history.series(layout, node, "power_w").tolist()


async def test_a_past_ahead_of_the_others_samples_goes_on_with_its_own() -> None:
    feed = await two_jobs()
    history = PastHistory(feed.monitor, lambda: feed.monitor.history_s + 2)
    attend(feed, history)
    for _ in range(2):
        history.push(feed.monitor.store, feed.monitor.rollups)
    track = history.job_track("pretrain", "power_w", 60)
    assert (track.mean.tolist(), track.end) == ([6_400.0] * 5, 5)
