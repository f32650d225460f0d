"""What the list of jobs says."""

from __future__ import annotations

from typing import Any

import pytest
from support.monitor.feed import Feed, ultraservers
from support.monitor.top import Top

from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui import theme
from trnfleet.tui.bars.last_known import last_known
from trnfleet.tui.fleet.jobs import JobPlan, head, look, row
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.messages import JobMessage
from trnfleet.wire.ports import LinkStatus

WIDE = JobPlan.of(90, 12)


def job(state: str = "running", **figures: Any) -> JobMessage:
    name = figures.pop("name", "pretrain-70b")
    return JobMessage(
        job=name, kind="pretrain", state=state, ts="2026-01-05T00:00:00Z", on=("uc1",), **figures
    )


@pytest.mark.parametrize("state", JOB_STATES)
def test_every_state_has_a_sign_and_a_word(state: str) -> None:
    """A state never shows by colour alone, and no two states share a sign."""
    text = text_of(row(job(state), WIDE))
    assert text.startswith(f" {look(state).glyph} pretrain-70b {state} ")
    assert look(state).glyph != look("something new").glyph
    assert len({look(each).glyph for each in JOB_STATES}) == len(JOB_STATES)


def test_what_stands_still_is_coloured() -> None:
    """States in which a job needs help have the colour of what is critical, running has none."""
    for state in ("hung", "failed", "waiting"):
        assert row(job(state), WIDE)[0][1] == theme.SEVERITY_STYLE[Severity.CRITICAL]
    assert row(job(), WIDE)[0][1] == theme.BASE


def test_what_is_last_known_is_neither_running_nor_failed() -> None:
    """It has the sign and the colour of stale values, but for what needed help already; the head says so at any width."""
    told = row(job(tokens_per_s=1_790.0), WIDE, 20.0, is_last_known=True)
    assert text_of(told).startswith(f" {theme.STATE_GLYPH[Freshness.STALE]} pretrain-70b running ")
    assert {style for text, style in told if text.strip()} <= {
        theme.STATE_STYLE[Freshness.STALE],
        theme.QUIET,
    }
    assert look("failed", is_last_known=True) == look("failed")
    for width in (40, 47, 60, 90):
        for jobs in (3, 20_000):
            plan = JobPlan.of(width, 12)
            said = text_of(head(jobs, plan, are_last_known=True))
            assert "last known" in said
            assert "state" not in said
            assert said.endswith(text_of(head(jobs, plan)).split("state")[1].lstrip())
            assert width_of(head(jobs, plan, are_last_known=True)) == width_of(head(jobs, plan))


async def test_jobs_of_a_lost_connection_are_as_last_known() -> None:
    """All of them while nothing comes; of several brokers the jobs of the one that is away, and none whose hosts are dead behind another."""
    feed = Feed(ultraservers(2))
    feed.jobs = {"near": ("uc1/us-0001",), "far": ("uc1/us-0002",)}
    feed.describe()
    feed.tick()
    await feed.advance(1.0)

    def names() -> list[str]:
        return [
            name
            for name, each in feed.monitor.ingest.jobs.items()
            if last_known(feed.monitor)(each)
        ]

    assert names() == []
    link = feed.monitor.link
    link.connected = False
    assert names() == ["near", "far"]
    link.connected = True
    assert names() == []
    link.parts = LinkStatus("mqtt://b1", connected=True), LinkStatus("mqtt://b2")
    # Those of `far` are published at both.
    feed.monitor.store.links_of[:] = [
        0b10 if path.startswith("uc1/us-0001") else 0b11 for path in feed.layout.instances
    ]
    assert names() == []
    heard = [path for path in feed.layout.instances if path.startswith("uc1/us-0001")]
    for _ in range(5):
        await feed.clock.advance(1.0)
        feed.tick(heard)
        feed.monitor.compute()
    assert names() == []
    feed.monitor.store.links_of[
        [path.startswith("uc1/us-0002") for path in feed.layout.instances]
    ] = 0b10
    assert names() == ["far"]


async def test_jobs_of_a_cell_that_no_relay_observes_are_as_last_known() -> None:
    """Nothing comes of them on the top broker, whatever their last messages say; of jobs of other cells it does."""
    top = Top()
    top.monitor.link.connected = True
    top.describe_row("uc1/us-0003")
    jobs = {
        name: job().model_copy(update={"on": (place,)})
        for name, place in (("a", "uc1/us-0001"), ("b", "uc1/us-0003"))
    }

    def names() -> list[str]:
        return [name for name, each in jobs.items() if last_known(top.monitor)(each)]

    told = []
    for seq in range(8):
        if seq < 3:
            top.frame((1_000.0, 2_000.0, 3_000.0))
        top.frame_of_row(2_000.0, seq)
        top.monitor.compute()
        told.append(names())
        await top.clock.advance(1.0)
    assert told[:4] == [[]] * 4
    assert told[-1] == ["a"]


def test_what_faults_cost() -> None:
    """Lost steps and restarts stand where there is room, marked once there are any; a job without steps has none."""
    told = row(job(steps_lost=37.0, restarts=2.0, mfu=0.35, steps_per_s=0.125), WIDE)
    head_text, text = text_of(head(3, WIDE)), text_of(told)
    for title, value in (
        ("MFU", "35.0 %"),
        ("lost", "37"),
        ("restarts", "2"),
        ("pace", "0.125 step/s"),
    ):
        end = head_text.index(title) + len(title)
        assert text[:end].endswith(value)
    styles = {value.strip(): style for value, style in told}
    assert styles["37"] == styles["2"] == theme.SEVERITY_STYLE[Severity.WARNING]
    serving = text_of(row(job(tokens_per_s=1_790.0, restarts=0.0), WIDE))
    assert "1.79k tok/s" in serving
    assert serving.split()[-2:] == ["n/a", "0"]


@pytest.mark.parametrize("width", [30, 40, 47, 60, 75, 96, 140])
@pytest.mark.parametrize("longest", [4, 12, 40])
def test_lines_fit(width: int, longest: int) -> None:
    """From 40 cells on, head and lines fit; MFU is there from 47 on, and lost steps come before the kind."""
    plan = JobPlan.of(width, longest)
    line = row(
        job("checkpointing", name="x" * longest, steps_lost=123_456.0, tokens_per_s=999_400.0), plan
    )
    if width >= 40:
        assert width_of(line) <= width
        assert width_of(head(20_000, plan)) <= width
    assert plan.has_mfu or width < 47 or longest == 40
    assert plan.has_restarts or not plan.has_kind
    assert "checkpo" in text_of(line)


def test_steps_and_their_distance_from_what_is_usual() -> None:
    """Where there is room; coloured where steps take clearly longer."""
    plan = JobPlan.of(72, 12)
    assert plan.has_step
    told = row(job(step_time_s=6.1), plan, 21.4)
    titles, text = text_of(head(1, plan)), text_of(told)
    for title, value in (("step", "6.10 s"), ("Δ base", "+21 %")):
        assert text[: titles.index(title) + len(title)].endswith(value)
    styles = {value.strip(): style for value, style in told}
    assert styles["+21 %"] == theme.SEVERITY_STYLE[Severity.WARNING]
    assert {value.strip(): style for value, style in row(job(), plan, 3.0)}["+3 %"] == theme.QUIET
    assert not JobPlan.of(60, 12).has_step
