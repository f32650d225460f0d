"""Fleets and engines for the simulator's tests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from trnfleet.config import find_file, load_model, validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.jobs import training as cycles

if TYPE_CHECKING:
    from collections.abc import Callable

TRAINING: dict[str, Any] = {"kind": "training", "name": "train", "on": ["c/standalone/trn2-0001"]}
INFERENCE: dict[str, Any] = {"kind": "inference", "name": "serve", "on": ["c/standalone/trn2-0001"]}


@pytest.fixture
def make_fleet() -> Callable[..., FleetFile]:
    """Return a maker of fleets `f` with a cluster `c`.

    It has instances of trn2.48xlarge, UltraServers, and the given parts.
    """

    def make(
        *jobs: dict[str, Any], instances: int = 2, ultraservers: int = 0, **rest: Any
    ) -> FleetFile:
        cluster: dict[str, Any] = {"name": "c"}
        if instances:
            cluster["instances"] = [{"type": "trn2.48xlarge", "count": instances}]
        if ultraservers:
            cluster["ultraservers"] = [{"count": ultraservers}]
        return validate(
            {"name": "f", "clusters": [cluster], "jobs": list(jobs)} | rest, FleetFile, "fleet.toml"
        )

    return make


@pytest.fixture
def make_engine(make_fleet: Callable[..., FleetFile]) -> Callable[..., Engine]:
    """Return a maker of engines of such fleets."""

    def make(*jobs: dict[str, Any], seed: int = 7, period_s: float = 1.0, **rest: Any) -> Engine:
        fleet = make_fleet(*jobs, **rest)
        return Engine(fleet, seed, period_s, to_ns(fleet.start))

    return make


@pytest.fixture
def training() -> Callable[..., dict[str, Any]]:
    """Return a maker of training jobs."""
    return lambda **rest: TRAINING | rest


@pytest.fixture
def inference() -> Callable[..., dict[str, Any]]:
    """Return a maker of inference jobs."""
    return lambda **rest: INFERENCE | rest


@pytest.fixture
def even_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the length of every step, checkpoint, evaluation and pause at its mean.

    Tests of training jobs rely on it.
    """
    for name in ("CYCLE_SD", "DRIFT_SD", "STEP_SD"):
        monkeypatch.setattr(cycles, name, 0.0)
    monkeypatch.setattr(cycles, "TAIL_SD", (0.0, 0.0, 0.0))
    monkeypatch.setattr(cycles, "SLOW_STEPS", math.inf)


def shipped_fleet(name: str) -> FleetFile:
    """Return a shipped fleet file."""
    return load_model(find_file("fleets", name), FleetFile)


@pytest.fixture
def shipped() -> Callable[[str], FleetFile]:
    """Return a loader of the shipped fleet files."""
    return shipped_fleet
