from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.faults.fault import FaultScope, Links, Reaction, Recovery
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.jobs import JOB_STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Engine

    Job = Callable[..., dict[str, Any]]

TRAINING = 0
SERVING = 1
STARTUP_S = 40.0
COMPILE_S = 20.0
SETTLED_S = 300.0
"""Seconds until a recovered replica receives its share of requests again."""
PERIOD_S = 20.0
PHYSICAL = [name for name, fault in FAULTS.items() if not fault.is_transport]
ON_ONE_INSTANCE = [
    name for name in PHYSICAL if FAULTS[name].scope in {FaultScope.CHIP, FaultScope.INSTANCE}
]
MEMBER = "c/us-0001/trn2u-0001-2"
SERVER = "c/standalone/trn2-0001"
IDLE = "c/standalone/trn2-0002"


@pytest.fixture
def make(
    make_engine: Callable[..., Engine], training: Job, inference: Job
) -> Callable[..., Engine]:
    """Return a maker of a fleet with training, serving and idle hardware.

    An UltraServer trains, an instance serves with four replicas, and one is idle.
    """
    return lambda period_s=PERIOD_S: make_engine(
        training(
            on=["c/us-0001"],
            startup_s=STARTUP_S,
            compile_s=COMPILE_S,
            checkpoint_every_steps=5,
        ),
        inference(on=[SERVER], chips_per_replica=4),
        ultraservers=1,
        period_s=period_s,
    )


@pytest.fixture
def engine(make: Callable[..., Engine]) -> Engine:
    return make()


def target_of(name: str, instance: str) -> str:
    fault = FAULTS[name]
    lane = "z_prev" if fault.links is Links.BETWEEN_INSTANCES else "north"
    return {
        FaultScope.CHIP: f"{instance}/chip05",
        FaultScope.LINK: f"{instance}/chip05:{lane}",
        FaultScope.INSTANCE: instance,
        FaultScope.RACK: instance,
        FaultScope.ULTRASERVER: instance.rpartition("/")[0],
        FaultScope.CLUSTER: "c",
    }[fault.scope]


def go(engine: Engine, seconds: float) -> tuple[list[list[str]], list[str]]:
    """Advance; return each tick's states of the two jobs, and all event names."""
    states = []
    names = []
    for _ in range(round(seconds / PERIOD_S)):
        tick = engine.step()
        states.append([JOB_STATES[number] for number in tick.states])
        names += [event.name for event in tick.events]
    return states, names


def over_s(name: str) -> float:
    """Return the duration of a fault with all its consequences."""
    fault = FAULTS[name]
    return (
        (fault.lasts_s if fault.ends_by_itself else fault.stages.total_s)
        + COMPILE_S * fault.is_cold
        + STARTUP_S
        + 4 * PERIOD_S
    )


@pytest.mark.parametrize("name", PHYSICAL)
def test_a_training_job_comes_back_from_every_fault(engine: Engine, name: str) -> None:
    """A job fails at most once, loses its steps once, restarts, and runs on.

    In the end nothing is slow, silent, marked or apart.
    """
    go(engine, 60.0)
    engine.inject(name, target_of(name, MEMBER))
    states, names = go(engine, over_s(name))
    seen = [train for train, _ in states]
    assert seen[-1] in {"running", "checkpointing"}
    fault = FAULTS[name]
    stops = fault.reaction in {Reaction.HANG, Reaction.CRASH} or fault.recovery is Recovery.REPLACE
    assert names.count("job_failed") == names.count("job_restarted") == stops
    assert names.count("job_hung") == (fault.reaction is Reaction.HANG)
    assert ("starting" in seen) == stops
    if stops:
        assert seen.index("starting") > max(
            seen.index(each) for each in seen if each in {"failed", "waiting", "hung"}
        )
    tick = engine.step()
    assert tick.figures["restarts"][TRAINING] == stops
    if not stops:
        assert tick.figures["steps_lost"][TRAINING] == 0
    incidents = engine.incidents
    assert not incidents.active()
    assert not engine.silent.any()
    assert not incidents.effects.instances.inlet_delta_c.any()
    assert (incidents.effects.instances.cap_share == 1.0).all()
    assert not engine.columns["health"].any()
    links = engine.layout.links_mask[engine.layout.instance_of_chip]
    assert np.array_equal(engine.columns["links_up"], links)
    for pace in ("compute", "link", "efa", "storage", "replica"):
        assert (getattr(incidents.effects.slowdowns, pace) == 1.0).all(), pace
    assert not incidents.effects.slowdowns.halt.any()
    assert not incidents.effects.slowdowns.replica_halt.any()


@pytest.fixture(scope="module")
def healthy() -> list[float]:
    """Return a list for the serving job's tokens a second without faults, by tick.

    The first test fills it.
    """
    return []


@pytest.mark.parametrize("name", ON_ONE_INSTANCE)
def test_a_serving_job_is_never_stopped(
    make: Callable[..., Engine], healthy: list[float], name: str
) -> None:
    """The job serves with the remaining replicas and regains its full throughput.

    It has no event.
    """
    engine = make()
    go(engine, 60.0)
    engine.inject(name, target_of(name, SERVER))
    states, names = go(engine, over_s(name))
    assert {serve for _, serve in states} == {"running"}
    assert not any(each.startswith("job_") for each in names)
    made = [
        engine.step().figures["tokens_per_s"][SERVING] for _ in range(round(SETTLED_S / PERIOD_S))
    ]
    if not healthy:
        other = make()
        longest_s = 60.0 + max(map(over_s, ON_ONE_INSTANCE)) + SETTLED_S
        ticks = [other.step() for _ in range(round(longest_s / PERIOD_S) + 1)]
        healthy += [float(each.figures["tokens_per_s"][SERVING]) for each in ticks]
    usual = healthy[engine.ticks - len(made) : engine.ticks]
    half = len(made) // 2
    assert np.mean(made[half:]) == pytest.approx(np.mean(usual[half:]), rel=0.05)


@pytest.mark.parametrize("name", [name for name in ON_ONE_INSTANCE if not FAULTS[name].needs_job])
def test_what_hits_an_idle_instance_concerns_no_job(engine: Engine, name: str) -> None:
    """The hardware shows it; no job changes, and no execution fails."""
    go(engine, 60.0)
    engine.inject(name, target_of(name, IDLE))
    states, names = go(engine, over_s(name))
    assert {each for pair in states for each in pair} <= {"running", "checkpointing"}
    assert not any(each.startswith("job_") for each in names)
    assert not engine.columns["exec_errors"].any()


def test_a_crash_loses_what_was_done_since_the_last_checkpoint(make: Callable[..., Engine]) -> None:
    """Once, and not again in the start; the job goes on from the checkpoint."""
    engine = make(period_s=10.0)
    for _ in range(12):
        engine.step()
    done = engine.step().figures["steps_completed"][TRAINING]
    engine.inject("runtime_crash", f"{MEMBER}/chip05")
    failed = engine.step()
    lost = failed.figures["steps_lost"][TRAINING]
    kept = failed.figures["steps_completed"][TRAINING]
    # All five where it fails while it saves.
    assert 0 <= lost <= 5
    assert kept + lost == done
    for _ in range(5):
        tick = engine.step()
        assert tick.figures["steps_lost"][TRAINING] == lost
        assert tick.figures["steps_completed"][TRAINING] == kept
    for _ in range(6):
        engine.step()
    assert engine.step().figures["steps_completed"][TRAINING] > kept
