"""Markdown tables of the report, a function each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain.faults.table import FAULTS, LLAMA_3, LLAMA_3_CHIPS, LLAMA_3_DAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.truth.economics import TokenCost
    from lab.truth.flops import Agreement
    from lab.truth.traffic import StepBytes

LLAMA_3_JOULES_A_TOKEN = 39.3e6 * 3_600.0 * 700.0 / 15.6e12
"""Energy of a token, published (Llama 3.1 model card). 39.3 million H100 hours at 700 W for 15.6 T
tokens, without the facility."""


def rendered(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; columns of figures are to the right."""
    body = [list(row) for row in rows]
    aligned = ["---" if number == 0 else "---:" for number in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in ([*head], aligned, *body))


def short(value: float, unit: str = "") -> str:
    """Return a figure with three significant digits and an SI prefix."""
    if not math.isfinite(value):
        return "n/a"
    for factor, prefix in (
        (1e18, "E"),
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
    ):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}".rstrip()
    return f"{value:.3g} {unit}".rstrip()


def flops(rows: Iterable[Agreement]) -> str:
    """Return the three figures of each training job."""
    return rendered(
        (
            "fleet, job",
            "model",
            "chips",
            "tokens/s",
            "by tokens",
            "by chips",
            "by MFU",
            "MFU",
            "apart",
        ),
        (
            (
                f"{each.fleet} {each.job}",
                each.model,
                f"{each.chips:,}",
                short(each.tokens_per_s),
                short(each.of_tokens * 1e15, "FLOP/s"),
                short(each.of_chips * 1e15, "FLOP/s"),
                short(each.of_mfu * 1e15, "FLOP/s"),
                f"{each.mfu:.3f}",
                f"{each.difference:.2%}",
            )
            for each in rows
        ),
    )


def traffic(rows: Iterable[StepBytes]) -> str:
    """Return the traffic of each training job's step."""
    return rendered(
        ("fleet, job", "NeuronLink", "due", "EFA", "due", "FLOP a byte of HBM", "HBM bandwidth"),
        (
            (
                f"{each.fleet} {each.job}",
                short(each.links, "B"),
                short(each.links_due, "B"),
                short(each.efa, "B"),
                short(each.efa_due, "B"),
                f"{each.flops_per_hbm_byte:.0f}",
                f"{each.hbm_share:.0%}",
            )
            for each in rows
        ),
    )


def costs(rows: Iterable[TokenCost]) -> str:
    """Return energy and money of each job's tokens."""
    return rendered(
        ("fleet, job", "tokens/s", "J a token, IT", "facility", "USD a million"),
        (
            (
                f"{each.fleet} {each.job}",
                short(each.tokens_per_s),
                f"{each.it_joules:.3g}",
                f"{each.facility_joules:.3g}",
                "n/a" if each.usd_per_million is None else f"{each.usd_per_million:.3g}",
            )
            for each in rows
        ),
    )


def rates() -> str:
    """Return the causes of Llama 3's interruptions, and our corresponding faults."""
    rows = []
    for cause, count in LLAMA_3.items():
        faults = [
            (fault.name, each.number)
            for fault in FAULTS.values()
            for each in fault.interruptions
            if each.cause == cause
        ]
        days = LLAMA_3_CHIPS * LLAMA_3_DAYS
        simulated = sum(number for _, number in faults)
        rows.append(
            (
                cause,
                str(count),
                f"{simulated:g}",
                f"{count / days * 1e6:.1f}",
                ", ".join(name for name, _ in faults),
            )
        )
    total = sum(LLAMA_3.values())
    rows.append(
        (
            "all",
            str(total),
            f"{sum(interruptions()):g}",
            f"{total / (LLAMA_3_CHIPS * LLAMA_3_DAYS) * 1e6:.0f}",
            f"one in {mtbf_h():.2f} h on 16,384 chips",
        )
    )
    return rendered(("cause", "published", "simulated", "a million device-days", "faults"), rows)


def interruptions() -> list[float]:
    """Return interruptions per fault of the table in Llama 3's 54 days, by its rate."""
    return [
        (fault.rate_per_device_day or 0.0) * LLAMA_3_CHIPS * LLAMA_3_DAYS
        for fault in FAULTS.values()
        if fault.is_interruption and fault.interruptions
    ]


def mtbf_h() -> float:
    """Return the mean time between interruptions on 16,384 chips by the table's rates, hours."""
    return LLAMA_3_DAYS * 24.0 / sum(interruptions())
