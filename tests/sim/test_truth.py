"""Short twin of `make truth`: its report holds over ten minutes of smaller fleets."""

from __future__ import annotations

import pytest
from support.paths import ROOT

from lab.truth import corrected, published, tables
from lab.truth.flops import TOLERANCE
from lab.truth.report import Seen, look
from lab.truth.traces import signature

FLEETS = {"demo": 4.0, "training": 4.0, "cluster-10k": 30.0}


@pytest.fixture(scope="module")
def seen() -> Seen:
    """Return the figures of half an hour."""
    return look(FLEETS, 1_800.0)


def test_tokens_flops_and_mfu_agree(seen: Seen) -> None:
    """The three published figures of every training job agree."""
    assert len(seen.flops) == 19
    assert max(each.difference for each in seen.flops) < TOLERANCE


def test_links_and_efa_carry_what_collectives_send(seen: Seen) -> None:
    """Traffic of links and EFA follows from the model and its parallelism alone.

    Data waits add some to EFA. Jobs with only checkpoints there are not compared: these are few and
    large.
    """
    for each in seen.traffic:
        assert each.links == pytest.approx(each.links_due, rel=0.03), each.job
        if each.efa_due > 100e9:
            assert each.efa == pytest.approx(each.efa_due, rel=0.10), each.job
        assert 200 < each.flops_per_hbm_byte < 1_000, each.job
        assert each.hbm_share < 0.95


def test_replicas_go_their_own_ways(seen: Seen) -> None:
    assert seen.replicas < 0.9


def test_published_figures_are_met(seen: Seen) -> None:
    """Times of serving within 15 %, MFU and energy of training, and interruptions."""
    jobs = [each for each in seen.flops if "finetune" not in each.job]
    rows = [*published.serving(), *published.training(jobs, seen.costs)]
    assert len(rows) == 11
    assert [each.what for each in rows if not each.is_within] == []


def test_interruptions_add_up_to_those_of_llama_3() -> None:
    """419 in 54 days on 16,384 accelerators, by the table's rates."""
    assert sum(tables.interruptions()) == pytest.approx(419, rel=1e-3)
    assert tables.mtbf_h() == pytest.approx(3.1, abs=0.05)


def test_no_published_figure_of_the_page_is_missed() -> None:
    """Every row of the page's table is within its limits; `make truth` prints the present ones."""
    page = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    assert "| yes |" in page
    assert "**no**" not in page


def test_a_straggler_has_traces_of_its_own_beside_its_job_s() -> None:
    """Engines and power tell it from its peers; its job's steps are longer."""
    found = signature("straggler")
    own = {trace.metric.name: trace.after_s for trace in found.traces if trace.is_own}
    assert own.keys() == {"engine_util_pct", "power_util_pct", "power_w"}
    # The driver's power is the last minute's.
    assert own.pop("power_util_pct") <= 130
    assert max(own.values()) <= 20
    assert found.step_ratio > 1.2
    assert found.events == []


def test_a_straggler_and_a_hang_are_measured_as_a_host_would_see_them() -> None:
    """Figures that were once wrong: a straggler is busier, and a hang shows after a timeout."""
    rows = {row.number: row.now for row in (*corrected.straggler(), *corrected.hang())}
    assert rows[1].startswith("throttle_pct 0.0, engine_util_pct ")
    assert int(rows[1].split()[-2]) > 10
    before, under = (float(text) for text in rows[2].removesuffix(" %").split(", "))
    assert under == pytest.approx(before, abs=2.0)
    assert rows[4] == "after 30 s, after 31 s"
