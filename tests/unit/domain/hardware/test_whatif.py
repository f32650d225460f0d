"""Hardware side by side, and the cost of training a model on it."""

from __future__ import annotations

import re

import pytest

from trnfleet.domain.hardware.catalogue import CHIP_TYPES
from trnfleet.domain.hardware.claims import (
    PUBLISHED_CLAIMS,
    STATEMENTS,
    claims_about,
    statements_about,
)
from trnfleet.domain.hardware.whatif import (
    Training,
    disagreements,
    estimate,
    hardware_called,
    hardware_names,
    of_fleet,
    parse_training,
)
from trnfleet.errors import ConfigError


def test_every_name_is_known() -> None:
    """Types, aliases and families are known; a family is its largest standalone instance."""
    assert all(hardware_called(name) for name in hardware_names())
    largest = {
        "trn1": "trn1.32xlarge",
        "trn2": "trn2.48xlarge",
        "inf2": "inf2.48xlarge",
        "p5en": "p5en.48xlarge",
    }
    for family, name in largest.items():
        found = hardware_called(family)
        assert found is not None
        assert found.name == name
    trn3 = hardware_called("trn3-gen2-ultraserver")
    assert trn3 is not None
    assert (trn3.name, trn3.chips) == ("u-trn3x144", 144)
    assert hardware_called("trn4") is None


def test_training_takes_6nd_over_the_peak_at_an_mfu() -> None:
    """300B parameters on 6T tokens are 1.08e25 FLOP.

    4.7 days of 100,000 Trainium2 at an MFU of 0.4.
    """
    hardware = hardware_called("trn2-ultraserver")
    assert hardware is not None
    training = parse_training("300B:6e12", 0.4, "bf16")
    assert training == Training(300e9, 6e12, 0.4, "bf16")
    many = hardware.scaled(100_000)
    took = estimate(training, many)
    assert took.elapsed_s == pytest.approx(6 * 300e9 * 6e12 / (100_000 * 667e12 * 0.4))
    assert took.cost_usd == pytest.approx(took.elapsed_s / 3600 * 100_000 / 16 * 35.76)
    assert took.fits
    assert estimate(training._replace(dtype="fp8"), many).elapsed_s == pytest.approx(
        took.elapsed_s * 667 / 1_299
    )
    one = hardware_called("trn2.3xlarge")
    assert one is not None
    assert not estimate(training, one).fits


@pytest.mark.parametrize("text", ["300e9", "300B:", "x:6T", "0:1", "1:-2", "nan:1", "1e19:1"])
def test_a_training_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write PARAMETERS:TOKENS"):
        parse_training(text, 0.4, "bf16")


def test_what_is_assumed_is_marked_with_its_source() -> None:
    """Power is assumed for all of AWS's own chips.

    A price only if none is published.
    """
    trn2, trn3, p5 = (
        hardware_called(name) for name in ("trn2.48xlarge", "u-trn3x64", "p5.48xlarge")
    )
    assert trn2 is not None
    assert trn3 is not None
    assert p5 is not None
    assert set(trn2.assumed) == {"power_max_w"}
    assert set(trn3.assumed) == {"power_max_w", "price_usd_per_h"}
    assert set(p5.assumed) == {"power_max_w"}


def test_claims_are_those_about_the_hardware_that_is_compared() -> None:
    trn1 = hardware_called("trn1")
    trn2 = hardware_called("trn2")
    assert trn1 is not None
    assert trn2 is not None
    assert not claims_about([trn1])
    assert {claim.subject for claim in claims_about([trn1, trn2])} >= {
        "trn2.48xlarge over trn1.32xlarge"
    }
    assert not any("Trn3" in claim.subject for claim in claims_about([trn1, trn2]))
    assert len(disagreements([trn2, trn2])) == len(trn2.claims)


def test_every_claim_and_statement_has_a_source() -> None:
    """Sources have a year; statements are about chips that there are, and shown with these."""
    sources = [claim.source for claim in PUBLISHED_CLAIMS]
    sources += [statement.source for statement in STATEMENTS]
    assert all(re.search(r"20\d\d", source) for source in sources)
    titles = {chip.title for chip in CHIP_TYPES.values()}
    assert all(titles >= set(said.chips) for said in STATEMENTS)
    said = " ".join(statement.text for statement in statements_about(["Trainium2"]))
    for part in ("405B", "Lustre", "5 nm", "Apple", "EFA v3", "Haiku", "500,000", "1 million"):
        assert part in said
    assert [statement.text for statement in statements_about(["Trainium3"])] == ["made in 3 nm"]
    assert len(statements_about(["Trainium1", "Inferentia2"])) == 1


def test_a_fleet_that_is_one_ultraserver_has_its_published_totals() -> None:
    """A job on one UltraServer has the UltraServer's figures."""
    ultraserver = hardware_called("u-trn2x64")
    assert ultraserver is not None
    part = of_fleet("demo:pretrain-70b", "", {"trn2u.48xlarge": 4}, {"u-trn2x64": 1})
    assert dict(part.published) == dict(ultraserver.published)
    assert of_fleet("one", "", {"trn2.48xlarge": 1}).published["fp8_dense_flops"] == 20.8e15
    assert not of_fleet("two", "", {"trn2.48xlarge": 2}).published
    assert not of_fleet(
        "more", "", {"trn2u.48xlarge": 4, "trn2.48xlarge": 1}, {"u-trn2x64": 1}
    ).published
    assert not of_fleet("none", "", {"trn2u.48xlarge": 4}).published
