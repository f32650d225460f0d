"""Causes come before their effects, and each leaves its traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.fleets import shipped_fleet

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, Rates
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.scenario import Scenario
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.sharding import WHOLE, Shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Tick

MODEL = {"model": "llama-3.3-70b", "tensor_parallel": 16, "tokens_per_step": 786_432.0, "mfu": 0.3}
CHIP = "c/us-0001/trn2u-0001-2/chip05"


def values(engine: Engine, name: str) -> Any:
    """Return a metric of every chip, the mean of its lanes."""
    decoded = BY_NAME[name].decode(engine.columns[name])
    return decoded if decoded.ndim == 1 else np.nanmean(decoded, axis=1)


def state(tick: Tick) -> str:
    return JOB_STATES[int(tick.states[0])]


def training_fleet() -> Engine:
    """Return the shipped training fleet without faults of its own."""
    fleet = shipped_fleet("training").model_copy(update={"rates": Rates(acceleration=0.0)})
    return Engine(fleet, 777, 1.0, to_ns(fleet.start))


@pytest.mark.parametrize("capacity", [0.5, 0.05])
def test_a_slow_link_with_room_slows_nothing(capacity: float) -> None:
    """A Z link carries two parts in a hundred of its bandwidth in this job.

    A link on the rows, which tensor parallelism waits for, slows it.
    """
    chip = "uc1/us-0002/trn2u-0002-1/chip05"
    steps = {}
    for lane in ("", "z_next", "east"):
        engine = training_fleet()
        engine.step()
        if lane:
            engine.inject("link_degraded", f"{chip}:{lane}", magnitude=capacity)
        steps[lane] = float(engine.step().figures["step_time_s"][0])
    assert steps["z_next"] == pytest.approx(steps[""], rel=0.005)
    assert steps["east"] > 1.03 * steps[""]


def test_a_hang_is_known_only_by_missing_steps(
    make_engine: Callable[..., Engine], training: Callable[..., dict[str, Any]]
) -> None:
    """Cores stay busy without work; for 30 s nobody knows, and no chip differs from another."""
    engine = make_engine(
        training(on=["c/us-0001"], step_time_s=2.0, checkpoint_every_steps=0),
        ultraservers=1,
    )
    for _ in range(10):
        engine.step()
    engine.inject("hang_compute", CHIP)
    seen = []
    for _ in range(45):
        tick = engine.step()
        seen.append(state(tick))
        if len(seen) <= 29:
            assert not engine.columns["health"].any()
            assert tick.figures["steps_per_s"][0] == 0.0
            assert values(engine, "nc_util_pct")[32:].min() > 90.0
            assert values(engine, "tflops")[32:].max() == 0.0
    assert seen.index("hung") == 29
    assert seen.index("failed") == 40
    assert "hung" not in seen[40:]
    assert engine.columns["health"].astype(bool).sum() == 1


def test_a_long_step_is_no_hang(
    make_engine: Callable[..., Engine], training: Callable[..., dict[str, Any]]
) -> None:
    """A job of 20 s a step is known to hang after three of them."""
    engine = make_engine(training(on=["c/us-0001"], step_time_s=20.0), ultraservers=1)
    engine.step()
    engine.inject("hang_collectives", CHIP)
    states = {state(engine.step()) for _ in range(39)}
    assert states == {"running"}


def test_a_blocked_heat_sink_heats_first_and_throttles_then() -> None:
    """The chip's temperature rises with the cooling's lag, and its clock follows it.

    Once the heat sink is mended it cools down as slowly.
    """
    engine = training_fleet()
    node = engine.layout.find("uc1/us-0002/trn2u-0002-1/chip05")
    assert node is not None
    for _ in range(20):
        engine.step()
    before = values(engine, "temperature_c")[node.number]
    engine.inject("chip_throttle", "uc1/us-0002/trn2u-0002-1/chip05", lasts_s=120.0)
    hot = []
    throttle = []
    for _ in range(300):
        engine.step()
        hot.append(values(engine, "temperature_c")[node.number])
        throttle.append(values(engine, "throttle_pct")[node.number])
    assert throttle[0] == 0.0
    assert hot[0] < before + 5.0
    assert max(hot[:121]) > before + 15.0
    first = next(place for place, pct in enumerate(throttle) if pct > 0)
    assert first > 5
    assert max(throttle) > 5.0
    others = np.delete(values(engine, "temperature_c"), node.number)
    assert hot[-1] == pytest.approx(before, abs=6.0)
    assert others.max() < 85.0
    assert throttle[-1] == 0.0


def test_an_idle_ultraserver_takes_the_place_of_a_failed_one(
    make_engine: Callable[..., Engine], training: Callable[..., dict[str, Any]]
) -> None:
    """The job starts again at once on the spare, and the repaired UltraServer is idle."""
    job = training(on=["c/us-0001..us-0002"], **MODEL)
    engine = make_engine(job, ultraservers=3, instances=0)
    for _ in range(5):
        engine.step()
    engine.inject("hbm_uncorrectable", CHIP)
    names = [event.name for _ in range(120) for event in engine.step().events]
    assert names.count("spare_taken") == 1
    assert names.index("spare_taken") > names.index("instance_drained")
    assert "job_restarted" in names
    assert engine.jobs_on[0] == ("c/us-0002..us-0003",)
    for _ in range(400):
        tick = engine.step()
    assert state(tick) == "running"
    watts = values(engine, "power_w").reshape(3, 64).mean(axis=1)
    assert watts[0] < 100.0 < watts[1] < 1.05 * watts[2]
    assert (engine.job_of_instance == [-1] * 4 + [0] * 8).all()


MOVING: dict[str, Any] = {
    "name": "f",
    "clusters": [{"name": "c", "ultraservers": [{"count": 4}]}],
    "jobs": [{"kind": "training", "name": "train", "on": ["c/us-0001..us-0002"], **MODEL}],
    # Both begin after the job has left us-0001 for us-0003.
    "stragglers": [
        {"chip": CHIP, "slower_pct": 50.0, "from_s": 200.0},
        {"chip": "c/us-0003/trn2u-0003-1/chip04", "slower_pct": 20.0, "from_s": 300.0},
    ],
}


def moving(shard: Shard = WHOLE, period_s: float = 1.0) -> Engine:
    """Return a fleet whose job moves to a spare after 45 s."""
    fleet = validate(MOVING, FleetFile, "fleet.toml")
    failed = {"fault": "hbm_uncorrectable", "target": CHIP, "at": 10.0}
    scenario = validate({"faults": [failed]}, Scenario, "scenario.toml")
    return Engine(fleet, 7, period_s, to_ns(fleet.start), scenario=scenario, shard=shard)


def test_a_shard_and_longer_ticks_see_the_same_move() -> None:
    """Each half of the fleet has the columns of the whole, bit for bit."""
    whole = moving()
    halves = [moving(Shard(number, 2)) for number in (1, 2)]
    for _ in range(250):
        whole.step()
        for half in halves:
            half.step()
    for half in halves:
        rows = half.layout.chip_rows(np.array(half.own))
        for name in ("engine_util_pct", "power_w", "exec_errors", "health"):
            assert np.array_equal(half.columns[name][rows], whole.columns[name][rows]), name
    longer = moving(period_s=10.0)
    for _ in range(25):
        longer.step()
    assert longer.jobs_on == whole.jobs_on == [("c/us-0002..us-0003",)]


def test_a_fault_concerns_the_job_that_runs_there_when_it_begins() -> None:
    """One where the job was slows nothing, and one on its spare slows it."""
    engine = moving()
    steps_s = []
    for _ in range(400):
        tick = engine.step()
        if state(tick) == "running":
            steps_s.append((engine.now_s, float(tick.figures["step_time_s"][0])))
    usual, left, own = (
        np.median([step_s for at_s, step_s in steps_s if begin < at_s < end])
        for begin, end in ((150.0, 200.0), (210.0, 300.0), (310.0, 400.0))
    )
    assert left == pytest.approx(usual, rel=0.03)
    assert own > 1.1 * usual


def test_without_a_spare_the_job_waits_for_the_repair(
    make_engine: Callable[..., Engine], training: Callable[..., dict[str, Any]]
) -> None:
    """A broken UltraServer, one in a Capacity Block and a single instance are no spares."""
    blocks = [{"on": ["c/us-0003"], "days": 14, "ends_after_days": 5}]
    job = training(on=["c/us-0001"], **MODEL)
    engine = make_engine(job, ultraservers=3, instances=2, blocks=blocks)
    engine.step()
    engine.inject("instance_failure", "c/us-0002/trn2u-0002-1")
    engine.step()
    engine.inject("hbm_uncorrectable", CHIP)
    for _ in range(100):
        tick = engine.step()
    assert state(tick) == "waiting"
    assert engine.jobs_on[0] == ("c/us-0001",)


def test_steps_have_a_tail() -> None:
    """About one step in 500 takes 1.2 to 3 times as long, whatever the length of the ticks."""
    engine = training_fleet()
    seen: dict[int, float] = {}
    for _ in range(2_500):
        tick = engine.step()
        if state(tick) == "running":
            seen[int(tick.figures["steps_completed"][0])] = float(tick.figures["step_time_s"][0])
    times = np.array([*seen.values()])
    share = times / np.median(times)
    slow = share > 1.15
    assert 0 < slow.sum() < 6
    assert share[slow].max() < 3.2
    assert share[~slow].std() < 0.02
