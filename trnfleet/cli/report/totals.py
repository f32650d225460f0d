"""Several fleets as one: sums for `trnfleet status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.quantities import counted, part_label, with_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUMMED = (
    "chips",
    "instances",
    "ultraservers",
    "live_chips",
    "stale_chips",
    "offline_chips",
    "unknown_chips",
    "unobserved_chips",
    "rolled_chips",
    "forwarded_chips",
    "undescribed_chips",
    "jobs",
    "power_w",
    "it_power_w",
    "facility_power_w",
    "tflops",
)
"""Figures with a meaningful sum over fleets. An unknown one adds nothing."""


def total_facts(fleets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals of fleets, each given as its object of `status --json`."""
    known = [fleet for fleet in fleets if "chips" in fleet]
    totals: dict[str, Any] = {
        "fleets": len(fleets),
        "healthy": sum(bool(fleet["healthy"]) for fleet in fleets),
    }
    for name in SUMMED:
        values = [fleet[name] for fleet in known if fleet[name] is not None]
        totals[name] = sum(values) if values else None
    kinds = dict.fromkeys(kind for fleet in known for kind in fleet["problem_counts"])
    totals["problem_counts"] = {
        kind: sum(fleet["problem_counts"][kind] for fleet in known) for kind in kinds
    }
    return totals


def total_text(fleets: Sequence[Mapping[str, Any]]) -> str:
    """Return the line of totals below the fleets."""
    totals = total_facts(fleets)
    # As means, which the lines above are, too.
    watts = [
        fleet["mean"]["power_w"]
        for fleet in fleets
        if "mean" in fleet and fleet["mean"]["power_w"] is not None
    ]
    unhealthy = totals["fleets"] - totals["healthy"]
    part = part_label(totals["live_chips"] or 0, totals["chips"] or 0)
    words = [
        counted(totals["fleets"], "fleet"),
        f"{unhealthy:,} UNHEALTHY" if unhealthy else "all healthy",
        f"{totals['live_chips'] or 0:,} of {counted(totals['chips'] or 0, 'chip')} live",
        " ".join(filter(None, (f"power {with_unit(sum(watts) if watts else None, 'W')}", part))),
    ]
    counts = totals["problem_counts"]
    words += [
        f"{counts[kind]:,} {kind}" for kind in ("critical", "warning", "info") if counts.get(kind)
    ]
    return f"{'total':<16}{', '.join(words)}"
