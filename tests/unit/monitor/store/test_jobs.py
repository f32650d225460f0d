"""Published jobs and their rows."""

from __future__ import annotations

import msgspec
import numpy as np
from support.monitor.feed import DEMO, Feed, live_feed, ready, standalone

from trnfleet.domain.layout import Layout
from trnfleet.monitor.store.jobs import Jobs
from trnfleet.monitor.store.store import Store
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import (
    ClaimMessage,
    ClaimSpec,
    JobMessage,
    encode_message,
    message_envelope,
)
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic


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


def claim(number: int, *jobs: str, boot: str = "boot-1") -> Envelope:
    """Return the claims of a node: two chips for the first job, one for the second."""
    path = f"uc1/us-0001/trn2u-0001-{number}"
    claims = tuple(
        ClaimSpec(job=job, chips=chips, source="job-mapping")
        for job, chips in zip(jobs, ((0, 1), (2,)), strict=False)
    )
    message = ClaimMessage(path=path, boot=boot, ts="2026-01-05T00:00:00Z", claims=claims)
    return message_envelope(build_topic("demo", TopicClass.CLAIM, path), message, retain=True)


def apply(feed: Feed, *messages: Envelope) -> dict[str, JobMessage]:
    feed.monitor.apply(list(messages))
    feed.monitor.compute()
    return feed.monitor.ingest.jobs


def test_claims_of_several_instances_are_one_job() -> None:
    """Its state follows its own chips; of two jobs on an instance the larger has it."""
    feed = ready()
    feed.set("nc_util_pct", 0.0)
    feed.tick()
    jobs = apply(feed, claim(0, "a", "b"), claim(1, "a"))
    nodes = [f"uc1/us-0001/trn2u-0001-{number}" for number in (0, 1)]
    assert {name: (job.kind, job.state, list(job.on)) for name, job in jobs.items()} == {
        "a": ("claimed", "idle", nodes),
        "b": ("claimed", "idle", nodes[:1]),
    }
    table = feed.monitor.ingest.job_table
    index = feed.monitor.store.layout.instance_index
    assert [table.placed[feed.monitor.store.job_of[index[node]]] for node in nodes] == ["a", "a"]
    chip = int(feed.monitor.store.layout.chip_start[index[nodes[0]]]) + 2
    feed.set("nc_util_pct", 50.0, chip)
    feed.tick()
    assert [jobs[name].state for name in "ab"] == ["idle", "running"]
    figures = table.claimed_figures("b", feed.monitor.store)
    assert figures is not None
    assert (figures.chips, round(figures.nc_util_pct)) == (1, 50)


def test_a_job_message_wins_over_claims() -> None:
    """Claims only place a job whose message has no places."""
    feed = ready()
    apply(feed, claim(0, "a"), claim(1, "b"))
    topic = build_topic("demo", TopicClass.JOB, "a")
    message = JobMessage(job="a", kind="training", state="hung", ts="2026-01-05T00:00:00Z", on=())
    jobs = apply(feed, message_envelope(topic, message, retain=True))
    assert (jobs["a"].kind, jobs["a"].state) == ("training", "hung")
    assert jobs["a"].on == ("uc1/us-0001/trn2u-0001-0",)
    placed = msgspec.structs.replace(message, on=("uc1/us-0001/trn2u-0001-1",))
    apply(feed, message_envelope(topic, placed, retain=True))
    names = feed.monitor.ingest.job_table.placed
    index = feed.monitor.store.layout.instance_index
    owners = feed.monitor.store.job_of[[index[f"uc1/us-0001/trn2u-0001-{at}"] for at in (0, 1)]]
    assert [names[owner] if owner >= 0 else "" for owner in owners] == ["", "a"]
    apply(feed, Envelope(topic, b"", retain=True))
    assert (jobs["a"].kind, jobs["a"].on) == ("claimed", ("uc1/us-0001/trn2u-0001-0",))


def test_a_chip_has_the_lnc_of_its_own_job() -> None:
    """Not of another job of its instance, nor of a message without one."""
    feed = ready()
    apply(feed, claim(0, "a", "b"))
    layout = feed.monitor.store.layout
    first = int(layout.chip_start[layout.instance_index["uc1/us-0001/trn2u-0001-0"]])

    def lncs() -> list[int | None]:
        table = feed.monitor.ingest.job_table
        return [table.lnc_of(first + chip, feed.monitor.store) for chip in (0, 2, 15)]

    assert lncs() == [None] * 3
    topic = build_topic("demo", TopicClass.JOB, "b")
    message = JobMessage(
        job="b", kind="training", state="running", ts="2026-01-05T00:00:00Z", on=(), lnc=1
    )
    assert b"lnc" not in encode_message(msgspec.structs.replace(message, lnc=None))
    apply(feed, message_envelope(topic, message, retain=True))
    assert lncs() == [None, 1, None]
    larger = msgspec.structs.replace(message, job="a")
    apply(feed, message_envelope(build_topic("demo", TopicClass.JOB, "a"), larger, retain=True))
    assert lncs() == [1, 1, None]
    placed = msgspec.structs.replace(message, on=("uc1/us-0001",))
    apply(feed, claim(0)._replace(payload=b""), message_envelope(topic, placed, retain=True))
    assert lncs() == [1, 1, 1]


def test_claims_end() -> None:
    """A cleared claim, one of a former boot and one of a host without descriptor make no job."""
    feed = ready()
    jobs = apply(feed, claim(0, "a"), claim(1, "b"))
    assert set(jobs) == {"a", "b"}
    assert set(apply(feed, claim(0, "a")._replace(payload=b""))) == {"b"}
    feed.restart("boot-2")
    feed.describe()
    assert not jobs
    apply(feed, claim(1, "b"))
    assert (len(jobs), feed.monitor.counts.rejected) == (0, 1)
    assert set(apply(feed, claim(1, "b", boot="boot-2"))) == {"b"}
    node = build_topic("demo", TopicClass.NODE, "uc1/us-0001/trn2u-0001-1")
    assert not apply(feed, Envelope(node, b"", retain=True))


def test_claims_are_bounded() -> None:
    """A claim beyond the limit is refused, counted and named."""
    feed = ready(limits=Limits(places=1))
    jobs = apply(feed, claim(0, "a"), claim(1, "b"))
    assert (list(jobs), feed.monitor.counts.rejected) == (["a"], 1)
    assert "claims" in (feed.monitor.counts.last_problem or "")


async def test_a_silent_hosts_claims_are_last_known() -> None:
    """A job made from claims is last known while its hosts are offline."""
    feed = live_feed()
    apply(feed, claim(0, "a"))
    assert not feed.monitor.ingest.job_table.last_known
    await feed.advance(60.0)
    assert feed.monitor.ingest.job_table.last_known == {"a"}


async def states(feed: Feed, seconds: int, **values: list[float]) -> str:
    """Return the initials of job a's states, one a second; values repeat."""
    initials = ""
    for second in range(seconds):
        for name, series in values.items():
            feed.set(name, series[second % len(series)])
        await feed.clock.advance(1.0)
        feed.tick()
        initials += feed.monitor.ingest.jobs["a"].state[0]
    return initials


async def test_a_long_step_does_not_make_a_claimed_job_idle() -> None:
    """A job is running while executions complete or cores are busy, and idle 10 s after."""
    feed = live_feed()
    apply(feed, claim(0, "a"))
    steps = [float(step) for step in range(1, 4) for _ in range(20)]
    assert await states(feed, 60, nc_util_pct=[50.0], exec_completed=steps) == "r" * 60
    assert await states(feed, 15, nc_util_pct=[0.0], exec_completed=[3.0]) == "r" * 9 + "i" * 6
    seldom = [float(second // 7) for second in range(7, 70)]
    assert "i" not in (await states(feed, 63, exec_completed=seldom))[7:]
    nan = float("nan")
    unknown = await states(feed, 15, nc_util_pct=[nan], exec_completed=[9.0, nan])
    assert "r" not in unknown[9:]


async def test_utilisation_decides_where_executions_are_unknown() -> None:
    """A chip without both is unknown; a total from before is no execution."""
    nan = float("nan")
    for utilisation, executions, expected in (
        (nan, nan, "u"),
        (nan, 900.0, "i"),
        (0.0, nan, "i"),
        (50.0, nan, "r"),
    ):
        feed = ready()
        assert apply(feed, claim(0, "a"))["a"].state == "unknown"
        known = {"nc_util_pct": [utilisation], "exec_completed": [executions]}
        assert await states(feed, 2, **known) == expected * 2


async def test_another_layout_does_not_end_the_executions_of_a_claimed_job() -> None:
    """Its chips have other rows then."""
    feed = live_feed()
    apply(feed, claim(0, "a"))
    await states(feed, 2, nc_util_pct=[0.0], exec_completed=[1.0, 2.0])
    first = feed.monitor.store.layout
    apply(feed, Envelope(build_topic("demo", TopicClass.NODE, DEMO[-1][0]), b"", retain=True))
    assert feed.monitor.store.layout is not first
    assert await states(feed, 3) == "rrr"
