from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.sim.fleets import shipped_fleet
from support.sim.job_run import JobRun, figure, fleet_of, mean, share, state

from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.sim.jobs.activity import QUANTITIES, Phase
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.jobs.window import JobTick
from trnfleet.sim.jobs.workloads import IDLE_HBM_SHARE
from trnfleet.wire.messages import JobMessage

TRAINING: dict[str, Any] = {
    "kind": "training",
    "name": "train",
    "on": ["c/standalone/trn2-0001"],
    "step_time_s": 3.0,
    "checkpoint_every_steps": 20,
    "checkpoint_s": 6.0,
    "data_stall_every_steps": 6,
}
INFERENCE: dict[str, Any] = {"kind": "inference", "name": "serve", "on": ["c/standalone/trn2-0002"]}
RESERVED: dict[str, Any] = {"kind": "reserved", "name": "held", "on": ["c/standalone/trn2-0003"]}


def run(*jobs: dict[str, Any], **rest: Any) -> JobRun:
    return JobRun(fleet_of(*(jobs or (TRAINING, INFERENCE, RESERVED)), instances=4, **rest))


def test_every_kind_fills_its_windows() -> None:
    """Phase times fill the window for every job and idle instance, halted or not."""
    jobs = run()
    for number in range(60):
        jobs.halt(Halt(number // 5 % 4), number % 2)
        assert jobs.advance(0.7 + number % 3).time.sum(axis=1) == pytest.approx(np.ones(4))


def test_figures_are_those_of_the_table_and_of_the_message() -> None:
    """A job's message has room for every figure; not applicable ones are NaN."""
    tick = run().advance()
    assert set(tick.figures) == set(JOB_FIGURES) <= set(JobMessage.__struct_fields__)
    there = {name: ~np.isnan(values) for name, values in tick.figures.items()}
    assert there["goodput"].tolist() == [True, False, False]
    assert there["availability"].tolist() == [False, True, False]
    assert there["batch"].tolist() == there["kv_cache_share"].tolist() == [False, True, False]
    assert there["steps_completed"].tolist() == there["mfu"].tolist() == [True, False, False]
    assert there["restarts"].tolist() == [True, True, False]


def test_reserved_is_idle_with_the_runtime_loaded() -> None:
    """A reserved instance executes nothing, uses a little HBM, and has a job.

    An idle one has no job.
    """
    tick = run().advance()
    assert state(tick, 2) == "idle"
    assert mean(tick, "nc", 2) == 0
    assert tick.hbm_used[2] == 0.03
    assert tick.hbm_used[3] == IDLE_HBM_SHARE
    assert mean(tick, "vcpu", 2) == mean(tick, "vcpu", 3) == 0.015


@pytest.mark.parametrize("job", [0, 1])
def test_a_hang_looks_busy_and_does_nothing(job: int) -> None:
    """A hang has cores 100 % busy and low power.

    Tensor engine and links are at 0. Progress stops, and continues after it.
    """
    jobs = run()
    before = jobs.advance()
    jobs.halt(Halt.HANG, job)
    tick = jobs.advance(100.0)
    assert (state(tick, job), share(tick, Phase.HANG, job)) == ("hung", 1.0)
    assert mean(tick, "nc", job) == 1.0
    assert [mean(tick, name, job) for name in ("tensor", "rows", "columns", "z", "efa")] == [0] * 5
    assert jobs.power_share(tick)[job] < 0.02
    assert jobs.power_share(before)[job] > 0.3
    assert tick.hbm_used[job] == pytest.approx(before.hbm_used[job], rel=0.05)
    assert tick.executions[job] == before.executions[job]
    assert figure(tick, "tokens_per_s", job) == 0
    assert np.isnan(tick.latency_s[job])
    jobs.halt(Halt.NONE, job)
    after = jobs.advance()
    assert ([change.name for change in after.changes], state(after, job)) == (
        ["job_resumed"],
        "running",
    )


@pytest.mark.parametrize("job", [0, 1])
def test_a_start_climbs_from_nothing(job: int) -> None:
    """A job that is down has idle chips and empty HBM.

    A start fills HBM and raises power gradually.
    """
    jobs = run()
    jobs.advance()
    jobs.halt(Halt.DOWN, job)
    down = jobs.advance()
    assert down.host_memory[job] == pytest.approx(0.02)
    assert (state(down, job), mean(down, "nc", job), down.hbm_used[job]) == (
        "failed",
        0,
        IDLE_HBM_SHARE,
    )
    jobs.halt(Halt.NONE, job)
    ticks = jobs.until(jobs.now_s + 50, 5.0)
    assert {state(tick, job) for tick in ticks} <= {"loading", "starting"}
    power = [jobs.power_share(tick)[job] for tick in ticks]
    used = [tick.hbm_used[job] for tick in ticks]
    assert (np.diff(power) > 0).all()
    assert (np.diff(used) >= 0).all()
    assert used[-1] > used[0]
    assert power[0] < 0.03
    assert state(jobs.advance(60.0), job) in ("running", "checkpointing", "stalled")


def test_a_start_waits_for_storage() -> None:
    """At half the bandwidth of the shared storage its weights take twice as long to load."""
    job = INFERENCE | {"startup_s": 20.0, "compile_s": 0.0, "starts_at_s": 0.0}

    def loads_s(storage: float) -> int:
        jobs = run(job)
        jobs.slowdowns.storage[:] = storage
        return [state(tick) for tick in jobs.until(60.0)].count("loading")

    assert loads_s(0.5) == pytest.approx(2 * loads_s(1.0), abs=1)


def test_a_first_start_compiles_loads_and_warms_up() -> None:
    """Hosts are busy and chips idle while graphs compile; then HBM fills, then engines work.

    The next start finds the graphs in the cache.
    """
    job = INFERENCE | {"startup_s": 20.0, "compile_s": 30.0, "starts_at_s": 0.0}
    jobs = run(job)
    ticks = jobs.until(90.0)
    states = [state(tick) for tick in ticks]
    names = [name for name, _ in itertools.groupby(states)]
    assert names == ["compiling", "loading", "starting", "running"]
    assert states.count("compiling") == 29
    first, loaded, warm = (ticks[states.index(name) + 1] for name in names[1:])
    compiling = ticks[10]
    assert mean(compiling, "vcpu") == pytest.approx(0.95)
    assert (mean(compiling, "nc"), compiling.hbm_used[0]) == (0.0, IDLE_HBM_SHARE)
    assert compiling.host_memory[0] > warm.host_memory[0]
    assert 0 < first.hbm_used[0] < loaded.hbm_used[0] == pytest.approx(warm.hbm_used[0])
    assert mean(first, "efa") > mean(warm, "efa")
    jobs.halt(Halt.DOWN)
    jobs.advance()
    jobs.halt(Halt.NONE)
    again = [state(tick) for tick in jobs.until(jobs.now_s + 60)]
    assert [name for name, _ in itertools.groupby(again)] == ["loading", "starting", "running"]
    jobs.halt(Halt.DOWN)
    jobs.slowdowns.is_cold[:] = True
    jobs.advance()
    jobs.halt(Halt.NONE)
    jobs.slowdowns.is_cold[:] = False
    assert state(jobs.advance()) == "compiling"


def test_jobs_begin_and_end_at_the_times_of_the_file() -> None:
    """Instances are idle before a job's begin and after its end.

    Both have events, and a window may include both.
    """
    job = TRAINING | {"starts_at_s": 10.0, "ends_at_s": 70.0, "startup_s": 5.0, "compile_s": 0.0}
    jobs = run(job)
    before = jobs.advance(8.0)
    start = jobs.advance(4.0)
    running = jobs.advance(8.0)
    assert [state(tick) for tick in (before, start, running)] == ["idle", "starting", "running"]
    assert [change.name for change in start.changes] == ["job_started"]
    assert share(start, Phase.IDLE) == pytest.approx(0.5)
    assert share(running, Phase.START) == pytest.approx(3 / 8)
    end = jobs.advance(60.0)
    assert [change.name for change in end.changes] == ["job_ended"]
    assert share(end, Phase.IDLE) == pytest.approx(10 / 60)
    assert state(jobs.advance()) == "idle"
    whole = run(job).advance(100.0)
    assert [change.name for change in whole.changes] == ["job_started", "job_ended"]
    assert share(whole, Phase.IDLE) == pytest.approx(0.4)


def test_joining_windows_weighs_rates_and_keeps_totals() -> None:
    """Two joined windows of different length equal one window over both."""
    jobs = run()
    whole = run()
    first = jobs.advance(2.0)
    second = jobs.advance(6.0)
    both = JobTick.join([(first, 2.0), (second, 6.0)])
    expected = whole.advance(8.0)
    assert JobTick.join([(first, 2.0)]) is first
    rows = [0, 2, 3]
    for name in ("average", "work", "time", "peak_flops_share", "hbm_used"):
        assert getattr(both, name)[rows] == pytest.approx(getattr(expected, name)[rows], rel=1e-9)
    for name in ("steps_per_s", "mfu", "steps_completed", "goodput", "restarts"):
        assert both.figures[name][0] == pytest.approx(expected.figures[name][0], rel=1e-9)
    assert both.executions.tolist()[0] == expected.executions.tolist()[0]
    assert both.states is second.states


@pytest.mark.usefixtures("even_steps")
def test_a_figure_that_is_missing_for_a_while_is_the_mean_of_the_rest() -> None:
    """Step time has no value while a job is down, rates are 0."""
    jobs = run()
    first = jobs.advance(3.0)
    jobs.halt(Halt.DOWN)
    second = jobs.advance(1.0)
    both = JobTick.join([(first, 3.0), (second, 1.0)])
    assert np.isnan(figure(second, "step_time_s"))
    assert figure(both, "step_time_s") == pytest.approx(3.0, rel=0.03)
    assert figure(both, "steps_per_s") == pytest.approx(0.75 * figure(first, "steps_per_s"))
    assert [change.name for change in both.changes] == ["job_failed"]


@pytest.mark.parametrize("fleet", ["demo", "training"])
def test_training_averages_are_the_same_for_any_window(fleet: str) -> None:
    """Windows of 1, 7 and 60 s have equal work, time, tokens and steps.

    To 1e-9 over the same 14 minutes.
    """
    file = shipped_fleet(fleet)
    rows = [number for number, job in enumerate(file.jobs) if job.kind == "training"]
    found = []
    for elapsed_s in (1.0, 7.0, 60.0):
        jobs = JobRun(file)
        jobs.slowdowns.compute[:], jobs.slowdowns.link[:], jobs.slowdowns.storage[:] = 0.9, 0.6, 0.8
        ticks = jobs.until(840.0, elapsed_s)
        values = [
            np.mean([getattr(tick, name)[rows] for tick in ticks], axis=0)
            for name in ("work", "time")
        ]
        values += [
            np.mean([tick.figures[name][rows] for tick in ticks], axis=0)[:, None]
            for name in ("tokens_per_s", "steps_per_s", "mfu")
        ]
        found.append(
            np.concatenate([*values, ticks[-1].figures["steps_completed"][rows][:, None]], axis=1)
        )
    assert found[1] == pytest.approx(found[0], rel=1e-9, abs=1e-12)
    assert found[2] == pytest.approx(found[0], rel=1e-9, abs=1e-12)


def test_traffic_of_links_is_the_jobs_own() -> None:
    """A job's demand on an axis follows its own table, by phase."""
    job = {
        "model": "llama-3.1-8b",
        "tensor_parallel": 4,
        "tokens_per_step": 524_288.0,
        "hbm_used": 0.9,
    }
    jobs = run({"kind": "training", "name": "t", "on": ["c/standalone/trn2-0001"]} | job)
    tick = jobs.advance(100.0)
    demand = tick.work[0] * tick.activity[tick.kind[0], :, QUANTITIES["rows"]]
    assert demand.sum() == pytest.approx(mean(tick, "rows"))
    assert demand[Phase.COLLECTIVE] == 0 < demand[Phase.COMPUTE] < tick.time[0, Phase.COMPUTE]
    assert tick.activity.shape[1:] == (len(Phase), len(QUANTITIES))
