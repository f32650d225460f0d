"""Makes fixtures/recordings: each shipped scenario as a recording, the same bytes each time.

A tick is 10 s of the clock, telemetry is CBOR, a frame an instance, so instances boot and fall
silent alone. The scenarios of the fleet `training` have four UltraServers, and play on
fixtures/fleets/training.toml with two. Faults of the fourth are moved to the second half of the
second, with the same job.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import NamedTuple

from support.paths import FIXTURES
from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.fleet import Publishing
from trnfleet.domain.scenario import Scenario
from trnfleet.services.simulator.engine import make_engine
from trnfleet.services.simulator.recording import CLIENT, SimulationRequest, record_simulation
from trnfleet.services.simulator.run import Run, load_run
from trnfleet.wire.topics import DEFAULT_ROOT

RECORDINGS = FIXTURES / "recordings"
SMALL_FLEETS = FIXTURES / "fleets"
SEED = 7
PERIOD_S = 10.0
ELSEWHERE = {
    "uc1/us-0004/trn2u-0004-1/chip03": "uc1/us-0002/trn2u-0002-3/chip03",
    "random(1) of uc1/us-000[123]/*/*": "random(1) of uc1/us-0001/*/*",
    "random(1) of uc1/us-0004/*/*": "random(1) of uc1/us-0002/trn2u-0002-[23]/*",
}
"""Targets of scenarios, and where they are in the smaller fleet."""


class Fixture(NamedTuple):
    """A scenario as a recording."""

    scenario: str
    ticks: int
    speed: float = 1.0


FIXTURES_OF = {
    each.scenario: each
    for each in (
        Fixture("accelerated-wear", 61),
        Fixture("checkpoint-stall", 73),
        Fixture("ecc-storm", 63),
        Fixture("efa-cliff", 34),
        Fixture("game-day", 65),
        # The scenario's day in ticks of 15 minutes.
        Fixture("inference-day", 97, speed=90.0),
        Fixture("job-crash", 43),
        Fixture("neuronlink-split", 28),
        Fixture("rack-overheat", 47),
        Fixture("steady-training", 61),
        Fixture("straggler-hunt", 121),
    )
}
"""Lengths by scenario: as long as its expected alerts (tests/flow/expected/alerts), or the
scenario's own day."""


def make(name: str, folder: Path) -> Path:
    """Make a scenario's recording in a folder and return its file.

    An existing one is replaced.
    """
    fixture = FIXTURES_OF[name]
    return _record(_run(fixture), fixture.ticks, folder / f"{name}.mcap")


def make_fleet(name: str, ticks: int, folder: Path) -> Path:
    """Record a shipped fleet without a scenario in a folder, and return the file."""
    run = load_run(
        {"fleet", "seed", "period"},
        fleet=name,
        scenario=None,
        seed=SEED,
        period_s=PERIOD_S,
        speed=1.0,
        start=None,
    )
    return _record(run, ticks, folder / f"{name}.mcap")


def _record(run: Run, ticks: int, path: Path) -> Path:
    path.unlink(missing_ok=True)
    model = run.fleet.model_copy(
        update={"publish": Publishing(format="cbor", granularity="instance")}
    )
    record_simulation(
        make_engine(run, model), SimulationRequest(path, run, ticks, 0.0, CLIENT, DEFAULT_ROOT)
    )
    return path


def _run(fixture: Fixture) -> Run:
    asked = load_model(find_file("scenarios", fixture.scenario), Scenario).fleet or "demo"
    small = SMALL_FLEETS / f"{asked}.toml"
    run = load_run(
        {"fleet", "seed", "period", "speed"},
        fleet=str(small) if small.exists() else asked,
        scenario=fixture.scenario,
        seed=SEED,
        period_s=PERIOD_S,
        speed=fixture.speed,
        start=None,
    )
    if not small.exists() or run.scenario is None:
        return run
    faults = tuple(
        fault.model_copy(update={"target": ELSEWHERE.get(fault.target, fault.target)})
        for fault in run.scenario.faults
    )
    return dataclasses.replace(run, scenario=run.scenario.model_copy(update={"faults": faults}))


def main() -> None:
    """Make the recordings of all scenarios, in fixtures/recordings or a named folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDINGS
    folder.mkdir(parents=True, exist_ok=True)
    for name in shipped_names("scenarios"):
        make(name, folder)


if __name__ == "__main__":
    main()
