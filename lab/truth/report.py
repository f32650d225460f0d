"""The report: every table with its heading, as Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from support.sim import variation
from support.sim.fleets import shipped_fleet
from support.sim.variation_run import CycleFigures, chip_figures, cycle_figures

from lab.truth import corrected, published, tables
from lab.truth.economics import TokenCost, token_costs
from lab.truth.flops import TOLERANCE, Agreement, agreements
from lab.truth.observe import Observation, observe
from lab.truth.traffic import StepBytes, step_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


Row = TypeVar("Row", Agreement, StepBytes, TokenCost)

HOUR_S = 3_600.0
PERIODS_S = {
    "demo": 2.0,
    "training": 2.0,
    "inference": 2.0,
    "cluster-10k": 10.0,
    "rainier-1m": 20.0,
}
"""Shipped fleets of Trainium2, and the ticks for a simulated hour. Longer ticks average."""
SEEDS = range(5)
CYCLES_S = {"training": HOUR_S, "demo": 3.4 * HOUR_S}
"""Time for more than eight checkpoint cycles of each training job."""
SHOWN = 8
"""Most jobs of a fleet shown. Of larger fleets, the most different jobs are chosen."""


class Seen(NamedTuple):
    """Observations from an hour of every fleet."""

    flops: list[Agreement]
    traffic: list[StepBytes]
    costs: list[TokenCost]
    replicas: float
    """Largest FLOP/s correlation of two replicas of the demo's serve-70b."""


def look(periods_s: dict[str, float] = PERIODS_S, for_s: float = HOUR_S) -> Seen:
    """Simulate fleets without faults and take their figures."""
    seen = Seen([], [], [], math.nan)
    for name, period_s in periods_s.items():
        is_small = name == "demo"
        found = observe(shipped_fleet(name), for_s, period_s=period_s, keep_chips=is_small)
        seen.flops.extend(agreements(found))
        seen.traffic.extend(step_bytes(found))
        seen.costs.extend(token_costs(found))
        if is_small:
            seen = seen._replace(replicas=replica_correlation(found, "serve-70b"))
    return seen


def replica_correlation(found: Observation, job: str) -> float:
    """Return the largest FLOP/s correlation of two one-instance replicas of a job."""
    number = found.engine.job_names.index(job)
    instances = np.flatnonzero(found.engine.job_of_instance == number)
    starts = found.engine.layout.chip_start
    of_replica = [
        found.chip_tflops[:, int(starts[each]) : int(starts[each + 1])].sum(axis=1)
        for each in instances
    ]
    return variation.replica_correlation(np.stack(of_replica, axis=1).astype(np.float64))


def sections(seen: Seen) -> Iterator[tuple[str, str]]:
    """Yield the heading and the table of each part of the report."""
    worst = max(each.difference for each in seen.flops)
    yield (
        "Three figures of a training job",
        f"Apart at most {worst:.2%} in {len(seen.flops)} jobs (tolerance {TOLERANCE:.0%}). Of large"
        f" fleets the {SHOWN} that differ most are shown.\n\n"
        + tables.flops(_most([*seen.flops], lambda each: each.difference)),
    )
    yield (
        "Traffic and intensity of a step",
        "Bytes of a step over all chips as published, beside what the collectives of its"
        " parallelism send (and the checkpoints' part, over EFA).\n\n"
        + tables.traffic(
            _most([*seen.traffic], lambda each: abs(each.links / each.links_due - 1.0))
        ),
    )
    yield (
        "Energy and money of a token",
        "Power and prices are modelled or assumed; AWS publishes no wattage.\n\n"
        + tables.costs(_most([*seen.costs], lambda each: each.it_joules)),
    )
    yield "Published figures", _published(seen)
    yield "Variation", _variation(seen)
    yield "Interruptions", tables.rates()
    yield (
        "What the simulation once got wrong",
        f"Before: figures of an earlier version. Now: seed {corrected.SEED}, in memory. Rows 11 and"
        " 12 stand as they were.\n\n" + corrected.table(corrected.corrections()),
    )


def _most(rows: Sequence[Row], difference: Callable[[Row], float]) -> list[Row]:
    """Return the rows of small fleets, and of large ones those with the largest difference."""
    chosen: list[Row] = []
    for fleet in dict.fromkeys(each.fleet for each in rows):
        mine = [each for each in rows if each.fleet == fleet]
        if len(mine) > SHOWN:
            mine = sorted(mine, key=difference, reverse=True)[:SHOWN]
        chosen += mine
    return chosen


def _published(seen: Seen) -> str:
    pretraining = [each for each in seen.flops if "finetune" not in each.job]
    rows = [*published.serving(), *published.training(pretraining, seen.costs)]
    return tables.rendered(
        ("figure", "published", "here", "within", "source"),
        (
            (
                each.what,
                each.published,
                each.ours,
                "yes" if each.is_within else "**no**",
                each.source,
            )
            for each in rows
        ),
    )


def _variation(seen: Seen) -> str:
    cycles = [
        (fleet, each)
        for fleet, for_s in CYCLES_S.items()
        for seed in SEEDS
        for each in cycle_figures(shipped_fleet(fleet), seed, for_s)
    ]
    chips = chip_figures(shipped_fleet("training"), 1, round(HOUR_S))
    rows = [
        (
            f"{fleet} {job}: cycle length, deviation",
            "0.5 to 3 %",
            _range((each.length_sd for each in of), "%"),
        )
        for fleet, job, of in _by_job(cycles)
    ]
    rows += [
        (
            f"{fleet} {job}: correlation of successive cycles, mean of a run",
            "< 0.97",
            _range(each.correlation for each in of),
        )
        for fleet, job, of in _by_job(cycles)
    ]
    rows += [
        (
            "training: power of a job's chips, deviation of hour means",
            "1 to 5 %",
            _range((each.power_spread for each in chips), "%"),
        ),
        (
            "training: autocorrelation of residual power at 1 s",
            "> 0.3",
            _range(each.memory for each in chips),
        ),
        ("training: kurtosis of residual power", "> 2.5", _range(each.kurtosis for each in chips)),
        ("demo serve-70b: correlation of two replicas' FLOP/s", "< 0.9", f"{seen.replicas:.2f}"),
    ]
    return tables.rendered(("figure (seeds 0 to 4, or 1)", "limit", "here"), rows)


def _by_job(
    cycles: Iterable[tuple[str, CycleFigures]],
) -> list[tuple[str, str, list[CycleFigures]]]:
    found: dict[tuple[str, str], list[CycleFigures]] = {}
    for fleet, each in cycles:
        found.setdefault((fleet, each.job), []).append(each)
    return [(fleet, job, of) for (fleet, job), of in found.items()]


def _range(values: Iterable[float], unit: str = "") -> str:
    found = [100 * each if unit else each for each in values]
    return f"{min(found):.2f} to {max(found):.2f}{f' {unit}' if unit else ''}"
