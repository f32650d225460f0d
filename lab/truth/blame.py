"""`make blame`: how well the shipped rules notice drawn faults and name their culprit.

Each run is a fleet with one fault of drawn kind, strength and place, beside the same run without
it. An alert counts if only the run with the fault has it. The runs are made twice: with all columns
of the simulator, and with those of a real host.
"""

# ruff: noqa: T201  a report goes to the terminal

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
from typing import NamedTuple

from support.monitor.alert_run import AlertRun, PlayedTransition

from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.scenario import FaultEntry

RUNS = 40
BEGINS_S = 90.0
PLAYED_S = 240.0
ULTRASERVERS = ("us-0001", "us-0002", "us-0003", "us-0004")
KINDS = (
    "straggler",
    "link_degraded",
    "chip_throttle",
    "efa_affinity_lost",
    "ecc_corrected_storm",
    "hang_compute",
    "hang_collectives",
)
"""Faults that slow or stop a job, or announce themselves; others have a log line."""


class Drawn(NamedTuple):
    """A run's fault."""

    kind: str
    target: str
    instance: str
    magnitude: float | None


class Outcome(NamedTuple):
    """What the rules made of it."""

    fault: Drawn
    noticed_s: float | None
    """From its begin to the first alert."""
    named_s: float | None
    """To the first alert about its instance."""
    blames_others: bool
    """Whether an alert names another instance, or an UltraServer without it."""


def drawn(seed: int) -> Drawn:
    """Return the fault of a run."""
    draw = random.Random(seed)  # noqa: S311  a test's choice, not a secret
    kind = KINDS[seed % len(KINDS)]
    group = draw.choice(ULTRASERVERS)
    instance = f"uc1/{group}/trn2u{group.removeprefix('us')}-{draw.randrange(4)}"
    chip = f"{instance}/chip{draw.randrange(16):02}"
    lane = draw.choice(("north", "south", "west", "east", "z_next"))
    target = {"link": f"{chip}:{lane}", "chip": chip}.get(FAULTS[kind].scope.value, instance)
    fault = FAULTS[kind]
    magnitude = None
    if fault.drawn is not None:
        median, sd = fault.drawn
        magnitude = min(max(draw.lognormvariate(0.0, sd) * median, fault.least), fault.most)
    return Drawn(kind, target, instance, magnitude)


async def outcome(seed: int, *, as_host: bool) -> Outcome:
    """Play a run with and without its fault."""
    fault = drawn(seed)
    entry = FaultEntry.model_validate(
        {
            "fault": fault.kind,
            "target": fault.target,
            "at": BEGINS_S,
            "for": 600.0,
            **({} if fault.magnitude is None else {"magnitude": fault.magnitude}),
        }
    )
    usual = {(each.rule, each.target) for each in await _play(seed, [], as_host=as_host)}
    news = [
        each
        for each in await _play(seed, [entry], as_host=as_host)
        if each.kind == "firing" and (each.rule, each.target) not in usual
    ]
    about = [each for each in news if each.target.startswith("uc1/")]
    named = [each.at_s for each in about if each.target.startswith(fault.instance)]
    others = [
        each
        for each in about
        if not each.is_quieted
        and not each.target.startswith(fault.instance)
        and not fault.instance.startswith(each.target)
    ]
    return Outcome(
        fault,
        min((each.at_s - BEGINS_S for each in news), default=None),
        min((at_s - BEGINS_S for at_s in named), default=None),
        blames_others=bool(others),
    )


async def _play(seed: int, faults: list[FaultEntry], *, as_host: bool) -> list[PlayedTransition]:
    run = AlertRun(seed=seed, faults=faults, fleet="training", as_host=as_host)
    return await run.play(PLAYED_S)


def report(outcomes: list[Outcome]) -> str:
    """Return a row for each kind of fault, and one for all."""
    lines = [
        "| fault | runs | noticed | named | wrong blame | first alert, median (worst) |",
        "|---|---|---|---|---|---|",
    ]
    for kind in (*KINDS, ""):
        some = [each for each in outcomes if kind in {"", each.fault.kind}]
        times = [each.noticed_s for each in some if each.noticed_s is not None]
        named = sum(each.named_s is not None for each in some)
        wrong = sum(each.blames_others for each in some)
        spread = f"{statistics.median(times):.0f} s ({max(times):.0f})" if times else "none"
        lines.append(
            f"| {kind or 'all'} | {len(some)} | {len(times)} | {named} | {wrong} | {spread} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print a table for each set of columns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="seeds 0 and up")
    given = parser.parse_args()
    for as_host in (False, True):
        outcomes = [asyncio.run(outcome(seed, as_host=as_host)) for seed in range(given.runs)]
        columns = "a real host's columns" if as_host else "all columns"
        print(f"\nSeeds 0 to {given.runs - 1}, {columns}:\n\n{report(outcomes)}", flush=True)


if __name__ == "__main__":
    main()
