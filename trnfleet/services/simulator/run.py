"""Parameters of a simulation: a run, from fleet file, scenario and options.

It loads neither the engine nor NumPy, because the demo's app needs no more of its simulator than
this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.config import find_file, load_model
from trnfleet.domain.fleet import FleetFile, Rates

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from pathlib import Path

    from trnfleet.domain.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Run:
    """Parameters of a simulation."""

    file: Path
    """The fleet's file."""
    fleet: FleetFile
    scenario_file: Path | None
    scenario: Scenario | None
    seed: int
    period_s: float
    """Wall seconds from tick to tick."""
    speed: float
    """Simulated seconds per wall second."""
    start: datetime | None
    """Simulated time of the start; None for the wall clock's."""


def load_run(
    given: Collection[str],
    *,
    fleet: str,
    scenario: str | None,
    seed: int,
    period_s: float,
    speed: float,
    start: datetime | None,
    random_faults: bool | None = None,
) -> Run:
    """Return a run, reading fleet file and scenario.

    Args:
        given: Names of the parameters that the caller set; a scenario decides about the others.
        fleet: Name or file; the scenario's own if not given.
        scenario: Name or file; None for none.
        seed: Seed of all randomness.
        period_s: Wall seconds from tick to tick.
        speed: Simulated seconds a second.
        start: Simulated time of the start.
        random_faults: Whether faults come at random; None for what fleet file and scenario say.

    Raises:
        ConfigError: a file is not there or invalid.
    """
    scenario_file = None
    play = None
    if scenario is not None:
        from trnfleet.domain.scenario import Scenario  # noqa: PLC0415  0.02 s that most runs need not

        scenario_file = find_file("scenarios", scenario)
        play = load_model(scenario_file, Scenario)
        if "fleet" not in given and play.fleet is not None:
            fleet = _beside(scenario_file, play.fleet)
        seed = play.seed if "seed" not in given and play.seed is not None else seed
        period_s = (
            play.period_s if "period" not in given and play.period_s is not None else period_s
        )
        speed = play.speed if "speed" not in given and play.speed is not None else speed
        start = play.start if "start" not in given and play.start is not None else start
    file = find_file("fleets", fleet)
    model = load_model(file, FleetFile)
    if play is not None and not play.keeps_faults:
        model = model.model_copy(update={"stragglers": (), "links": ()})
    if random_faults is not None and (play is None or "random_faults" in given):
        rates = _rates(model, play, is_on=random_faults)
        model = model.model_copy(update={"rates": rates})
        play = None if play is None else play.model_copy(update={"rates": rates})
    return Run(file, model, scenario_file, play, seed, period_s, speed, start)


def _rates(model: FleetFile, play: Scenario | None, *, is_on: bool) -> Rates:
    """Return the rates of a run with random faults turned on or off.

    On, they are a file's own rates if it has some.
    """
    if not is_on:
        return Rates(acceleration=0.0)
    given = (None if play is None else play.rates, model.rates)
    return next((rates for rates in given if rates is not None and rates.acceleration), Rates())


def _beside(scenario: Path, fleet: str) -> str:
    """Return a fleet's name, or its path seen from the scenario's folder."""
    return str(scenario.parent / fleet) if fleet.endswith(".toml") or "/" in fleet else fleet
