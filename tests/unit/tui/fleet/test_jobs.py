"""Contents of the list of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.jobs import ClaimedFigures
from trnfleet.tui import theme
from trnfleet.tui.fleet.jobs import JobPlan, head, row
from trnfleet.tui.format.jobs import look
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.messages import JobMessage

WIDE = JobPlan.arrange(90, 12)


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
    """Jobs in need of help have the critical colour; running ones have none."""
    for state in ("hung", "failed", "waiting"):
        assert row(job(state), WIDE)[0][1] == theme.SEVERITY_STYLE[Severity.CRITICAL]
    assert row(job(), WIDE)[0][1] == theme.BASE


@pytest.mark.parametrize("width", [40, 47, 60, 90])
def test_a_job_without_a_live_chip_has_an_age_and_no_pace(width: int) -> None:
    """It is quiet and never `running`; a state that needs help keeps its look.

    The line keeps its width.
    """
    plan = JobPlan.arrange(width, 12)
    figures: dict[str, Any] = {
        "tokens_per_s": 1_790.0,
        "mfu": 0.4,
        "step_time_s": 6.1,
        "restarts": 2.0,
    }
    told = row(job(**figures), plan, None, age_s=33.0)
    text = text_of(told)
    assert text.startswith(f" {theme.STATE_GLYPH[Freshness.STALE]} pretrain-70b"[: 3 + plan.name])
    assert "last known 33 s ago" in text
    assert not any(word in text for word in ("running", "tok/s", "40.0 %", "6.10 s"))
    assert width_of(told) == width_of(row(job(**figures), plan))
    failed = row(job("failed", **figures), plan, None, age_s=7_200.0)
    assert failed[0][1] == theme.SEVERITY_STYLE[Severity.CRITICAL]
    assert text_of(failed).split()[2] == "failed"
    assert "2 h ago" in text_of(failed)
    assert width_of(failed) == width_of(told)


def test_what_faults_cost() -> None:
    """Lost steps and restarts are shown if there is room, and marked if any.

    A job without steps has none.
    """
    told = row(job(steps_lost=37.0, restarts=2.0, mfu=0.35, steps_per_s=0.125), WIDE)
    head_text = text_of(head(3, WIDE))
    text = text_of(told)
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


def test_a_claimed_job_tells_how_busy_its_chips_are() -> None:
    """It has no pace, and columns that no job knows have no room."""
    claimed = ClaimedFigures(16, 91.4, 5e11)
    plan = JobPlan.arrange(90, 12, (False, False, False, False, True))
    assert plan.has_kind
    text = text_of(row(job(), plan, None, claimed))
    assert "NC 91.4 %" in text
    assert "n/a" not in text
    assert text_of(head(1, plan)).split() == ["Jobs", "1", "state", "pace", "kind"]


def test_a_state_is_whole_if_there_is_room() -> None:
    assert "checkpointing" in text_of(row(job("checkpointing"), JobPlan.arrange(43, 12)))


@pytest.mark.parametrize("width", [30, 40, 47, 60, 75, 96, 140])
@pytest.mark.parametrize("longest", [4, 12, 40])
def test_lines_fit(width: int, longest: int) -> None:
    """Head and lines fit from 40 cells on.

    MFU appears from 47 on, and lost steps before the kind.
    """
    plan = JobPlan.arrange(width, longest)
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
    plan = JobPlan.arrange(72, 12)
    assert plan.has_step
    told = row(job(step_time_s=6.1), plan, 21.4)
    titles = text_of(head(1, plan))
    text = text_of(told)
    for title, value in (("step", "6.10 s"), ("Δ base", "+21 %")):
        assert text[: titles.index(title) + len(title)].endswith(value)
    styles = {value.strip(): style for value, style in told}
    assert styles["+21 %"] == theme.SEVERITY_STYLE[Severity.WARNING]
    assert {value.strip(): style for value, style in row(job(), plan, 3.0)}["+3 %"] == theme.QUIET
    assert not JobPlan.arrange(60, 12).has_step
