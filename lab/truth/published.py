"""Published figures beside the simulator's own, each with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lab.truth.tables import LLAMA_3_JOULES_A_TOKEN, mtbf_h
from trnfleet.domain.hardware.catalogue import TRAINIUM2
from trnfleet.domain.jobs import Inference
from trnfleet.sim.jobs.serving.times import serving_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.truth.economics import TokenCost
    from lab.truth.flops import Agreement

_TUTORIAL = "Neuron SDK, tutorials of NxD Inference, one trn2.48xlarge, batch 1"


class Comparison(NamedTuple):
    """One published figure."""

    what: str
    published: str
    ours: str
    source: str
    is_within: bool
    """Whether ours is within the source's tolerance, or within 15 %."""


def serving() -> list[Comparison]:
    """Return the published times of decoding and of the first token."""
    rows: Sequence[tuple[str, dict[str, Any], float, float]] = (
        ("Llama 3.1 405B, BF16", {"model": "llama-3.1-405b"}, 37.9e-3, 2.442),
        (
            "Llama 3.1 405B, FP8, speculation",
            {"model": "llama-3.1-405b", "dtype": "fp8", "speculative_tokens": 7},
            8.27e-3,
            2.255,
        ),
        ("Llama 3.3 70B, BF16", {"model": "llama-3.3-70b"}, 19.7e-3, 0.81),
        (
            "Llama 3.3 70B, BF16, speculation",
            {"model": "llama-3.3-70b", "speculative_tokens": 7},
            5.3e-3,
            0.87,
        ),
    )
    found = []
    for name, settings, tpot_s, ttft_s in rows:
        job = Inference.model_validate(
            {"kind": "inference", "name": "s", "on": ("c",), "max_batch": 1}
            | {"input_tokens": 10_000, "output_tokens": 1_500}
            | settings
        )
        times = serving_times(job, TRAINIUM2, 16)
        for what, published_s, ours_s in (
            ("a token", tpot_s, times.tpot_s(1)),
            ("first token", ttft_s, times.prefill_s),
        ):
            found.append(
                Comparison(
                    f"{name}: {what}",
                    _ms(published_s),
                    _ms(ours_s),
                    _TUTORIAL,
                    abs(ours_s / published_s - 1.0) <= 0.15,
                )
            )
    return found


def training(jobs: Sequence[Agreement], costs: Sequence[TokenCost]) -> list[Comparison]:
    """Return published figures of large training runs, beside the shipped jobs."""
    mfu = [each.mfu for each in jobs]
    energy = next(each.it_joules for each in costs if each.job == "pretrain-405b")
    return [
        Comparison(
            "MFU of training over whole checkpoint cycles",
            "0.30 to 0.45",
            f"{min(mfu):.2f} to {max(mfu):.2f}",
            "Llama 3 (arXiv 2407.21783): 38-43 % on 16,384 H100; Neuron SDK: 28-31 % on Trn1;"
            " fine-tuning with pauses is below",
            max(mfu) <= 0.45,
        ),
        Comparison(
            "energy of a token of Llama 3.1 405B, IT",
            f"{LLAMA_3_JOULES_A_TOKEN:.1f} J",
            f"{energy:.1f} J",
            "39.3 M H100 hours at 700 W for 15.6 T tokens (model card); H100 without hosts",
            0.5 < energy / LLAMA_3_JOULES_A_TOKEN < 1.5,
        ),
        Comparison(
            "time between interruptions of 16,384 accelerators",
            "3.1 h",
            f"{mtbf_h():.2f} h",
            "Llama 3 (arXiv 2407.21783), table 5: 419 in 54 days",
            abs(mtbf_h() / 3.1 - 1.0) < 0.02,
        ),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms" if seconds > 0.1 else f"{seconds * 1e3:.3g} ms"
