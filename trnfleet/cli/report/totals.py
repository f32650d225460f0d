"""Several fleets as one: the sums of what `trnfleet status` says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.quantities import counted, with_unit

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
"""Figures whose sum over fleets means something; a fleet that does not know one adds nothing."""


def total_facts(fleets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals of fleets, each given as its object of `status --json`."""
    known = [each for each in fleets if "chips" in each]
    totals: dict[str, Any] = {
        "fleets": len(fleets),
        "healthy": sum(bool(each["healthy"]) for each in fleets),
    }
    for name in SUMMED:
        values = [each[name] for each in known if each[name] is not None]
        totals[name] = sum(values) if values else None
    kinds = dict.fromkeys(kind for each in known for kind in each["problem_counts"])
    totals["problem_counts"] = {
        kind: sum(each["problem_counts"][kind] for each in known) for kind in kinds
    }
    return totals


def total_text(fleets: Sequence[Mapping[str, Any]]) -> str:
    """Return the line of totals below the fleets."""
    totals = total_facts(fleets)
    # As means, which the lines above are, too.
    watts = [
        each["mean"]["power_w"]
        for each in fleets
        if "mean" in each and each["mean"]["power_w"] is not None
    ]
    unhealthy = totals["fleets"] - totals["healthy"]
    words = [
        counted(totals["fleets"], "fleet"),
        f"{unhealthy:,} UNHEALTHY" if unhealthy else "all healthy",
        f"{totals['live_chips'] or 0:,} of {counted(totals['chips'] or 0, 'chip')} live",
        f"power {with_unit(sum(watts) if watts else None, 'W')}",
    ]
    counts = totals["problem_counts"]
    words += [
        f"{counts[kind]:,} {kind}" for kind in ("critical", "warning", "info") if counts.get(kind)
    ]
    return f"{'total':<16}{', '.join(words)}"
