"""Published jobs and their rows."""

from __future__ import annotations

import msgspec
import numpy as np
from support.monitor.feed import DEMO, Feed, ready, standalone

from trnfleet.domain.layout import Layout
from trnfleet.monitor.store.jobs import Jobs
from trnfleet.monitor.store.store import Store
from trnfleet.wire.messages import JobMessage


def test_jobs_are_placed() -> None:
    """A job's places become rows, whether the job or the hardware is known first."""
    feed = Feed(DEMO)
    feed.jobs = {
        "pre": ("uc1/us-0001..us-0002",),
        "tune": ("uc1/standalone/trn2-0003",),
        "lost": ("uc9",),
    }
    feed.monitor.apply(list(reversed(feed.announcements())))
    feed.monitor.compute()
    names = list(feed.monitor.ingest.jobs)
    placed = [names[number] if number >= 0 else "" for number in feed.monitor.store.job_of]
    assert placed == ["", "", "tune", "", *["pre"] * 8]


def test_the_newest_job_has_the_instance() -> None:
    """An instance belongs to its newest job, even if an old run's job is retained."""
    feed = Feed(DEMO)
    feed.jobs = {"old": ("uc1/us-0001",), "new": ("uc1/us-0001",)}
    messages = feed.announcements()
    old = next(each for each in messages if each.topic.endswith("/job/old"))
    messages.remove(old)
    messages.append(old._replace(payload=old.payload.replace(b"2026-01-05", b"2025-01-05")))
    feed.monitor.apply(messages)
    feed.monitor.compute()
    names = list(feed.monitor.ingest.jobs)
    assert names[int(feed.monitor.store.job_of[4])] == "new"


def test_jobs_are_placed_again_only_when_one_has_moved_or_the_layout_is_new() -> None:
    """A message without a change of instances costs no placement."""
    store = Store()
    jobs = Jobs()
    message = JobMessage(
        job="a", kind="training", state="running", ts="2026-01-05T00:00:00Z", on=("uc1/us-0001",)
    )
    jobs.put(message)
    assert jobs.place(store)
    assert not jobs.place(store)
    jobs.put(msgspec.structs.replace(message, state="failed"))
    assert not jobs.place(store)
    store.replace_layout(Layout.of(DEMO))
    assert jobs.place(store)
    assert int((store.job_of == 0).sum()) == 4
    jobs.remove("a")
    assert jobs.place(store)
    assert (store.job_of == -1).all()


def test_what_follows_from_where_jobs_run_is_kept_until_one_moves() -> None:
    """The same placement is given out until a job moves or the layout is new."""
    feed = ready()
    store = feed.monitor.store
    before = store.placement
    assert store.placement is before
    store.job_of[1] = 3
    assert store.placement.members(4).rows.tolist() == [1]
    assert store.placement.members(3).rows.tolist() == []
    store.job_of[1] = -1
    store.replace_layout(Layout.of(DEMO[:-1]))
    assert store.placement is not before
    assert len(store.placement.members(9).rows) == 0


def test_sums_of_jobs_are_the_same_in_runs_and_scattered() -> None:
    """Sums per job do not depend on the order of its instances."""
    feed = Feed(standalone(64))
    feed.describe()
    store = feed.monitor.store
    values = np.arange(64.0)
    for owners in (np.arange(64) // 16, np.arange(64) % 4, np.where(np.arange(64) < 40, -1, 2)):
        store.job_of[:] = owners
        members = store.placement.members(4)
        wanted = [values[owners == job].sum() for job in range(4)]
        assert members.sums(values[members.rows], 4).tolist() == wanted
        few = store.placement.members(2)
        assert few.sums(values[few.rows], 2).tolist() == wanted[:2]
        some = members.chosen(members.rows % 2 == 0)
        halves = [values[(owners == job) & (np.arange(64) % 2 == 0)].sum() for job in range(4)]
        assert some.sums(values[some.rows], 4).tolist() == halves


def test_a_job_spans_domains_where_its_instances_are_of_several() -> None:
    """A job spans domains if its instances are in several.

    An UltraServer or standalone instance is one domain; a job without instances spans none.
    """
    feed = ready()
    store = feed.monitor.store
    paths = store.layout.instances
    first, second = (
        next(n for n, p in enumerate(paths) if us in p) for us in ("us-0001", "us-0002")
    )
    alone = [number for number, path in enumerate(paths) if "standalone" in path]
    store.job_of[:] = -1
    store.job_of[[first, first + 1]] = 0
    store.job_of[[first + 2, second]] = 1
    store.job_of[alone[:2]] = 2
    store.job_of[alone[2]] = 3
    assert store.placement.spans(6).tolist() == [False, True, True, False, False, False]
    assert store.placement.spans(2).tolist() == [False, True]
