from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, TRAINIUM2
from trnfleet.domain.jobs import Inference
from trnfleet.domain.models import PROFILES
from trnfleet.sim.jobs.serving.times import serving_times

PAGE = (Path(__file__).parents[3] / "docs" / "fleets.md").read_text()
TUTORIAL: dict[str, Any] = {"input_tokens": 10_000, "output_tokens": 1_500, "max_batch": 1}


def job(**rest: Any) -> Inference:
    return Inference.model_validate({"kind": "inference", "name": "s", "on": ("c",)} | rest)


@pytest.mark.parametrize(
    ("row", "settings"),
    [
        ("Llama 3.1 405B, BF16", {"model": "llama-3.1-405b"}),
        (
            "Llama 3.1 405B, FP8, 7 speculated tokens",
            {"model": "llama-3.1-405b", "dtype": "fp8", "speculative_tokens": 7},
        ),
        ("Llama 3.3 70B, BF16", {"model": "llama-3.3-70b"}),
        (
            "Llama 3.3 70B, BF16, 7 speculated tokens",
            {"model": "llama-3.3-70b", "speculative_tokens": 7},
        ),
    ],
)
def test_times_in_the_docs_are_the_models(row: str, settings: dict[str, Any]) -> None:
    """The table's last column has the model's current values."""
    times = serving_times(job(**TUTORIAL | settings), TRAINIUM2, 16)
    expected = f"{times.tpot_s(1) * 1e3:.1f} ms, {times.prefill_s * 1e3:,.0f} ms"
    found = re.search(rf"^\| {re.escape(row)} \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    assert found
    assert found[1] == expected


def test_the_stair_in_the_docs_is_the_model_s() -> None:
    """The row has the time per token of each bucket."""
    serving = job(model="llama-3.1-8b", chips_per_replica=4, max_batch=48, context_tokens=4_096)
    times = serving_times(serving, TRAINIUM2, 4)
    sizes = (1, 2, 4, 8, 16, 32, 48)
    cells = " | ".join(f"{times.tpot_s(size) * 1e3:.2f}" for size in sizes)
    assert f"| ms a token | {cells} |" in PAGE


@pytest.mark.parametrize("profile", PROFILES)
def test_costs_in_the_docs_follow_from_price_and_load(profile: str) -> None:
    """Cost is the chips' price for an hour over their tokens in it."""
    serving = job(profile=profile)
    chips = serving.replica_chips(16)
    times = serving_times(serving, TRAINIUM2, chips)
    price = INSTANCE_TYPES["trn2.48xlarge"].price_usd_per_h.value
    tokens = 3_600 * serving.load_mean * times.requests_per_s * times.answer_tokens
    expected = f"{price * chips / 16 / tokens * 1e6:.1f}"
    found = re.search(rf"^\| `{profile}` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    assert found
    assert found[1] == expected
