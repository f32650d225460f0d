"""Short twin of `make truth`: what its report says must hold, over ten minutes of the smaller fleets."""

from __future__ import annotations

import pytest
from support.truth import published, tables
from support.truth.__main__ import MARK, PAGE
from support.truth.flops import TOLERANCE
from support.truth.report import Seen, look

FLEETS = {"demo": 4.0, "training": 4.0, "cluster-10k": 30.0}


@pytest.fixture(scope="module")
def seen() -> Seen:
    """Return the figures of half an hour."""
    return look(FLEETS, 1_800.0)


def test_tokens_flops_and_mfu_agree(seen: Seen) -> None:
    """Three figures that are published apart, of every training job."""
    assert len(seen.flops) == 19
    assert max(each.difference for each in seen.flops) < TOLERANCE


def test_links_and_efa_carry_what_collectives_send(seen: Seen) -> None:
    """By the model and its parallelism alone; waits for data add some, and where there are only checkpoints they come in whole."""
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


def test_the_page_has_the_report() -> None:
    """Rates are those of today; the other tables take minutes, and are written by `make truth ARGS=--write`."""
    report = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    assert tables.rates() in report
    assert "**no**" not in report
