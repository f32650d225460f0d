from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim.job_run import JobRun, figure, fleet_of, mean, share, state
from support.sim.job_site import LLAMA_405B, planned, site

from trnfleet.domain.fleet import Training
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import (
    AXIS_QUANTITIES,
    EFA_CEILING,
    LINK_CEILING,
    QUANTITIES,
    TRAINING,
    Phase,
)
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.jobs.training import EXECUTIONS_PER_STEP, TrainingJobs, TrainingWork
from trnfleet.sim.jobs.training_plan import SYNC_SHARE, plan
from trnfleet.sim.rng import Rng

ONE = np.ones(1)
LINKS = np.ones((1, 3))

JOB: dict[str, Any] = {"kind": "training", "name": "t", "on": ["c/standalone/trn2-0001"]}


class Jobs:
    """One training job, and windows of it."""

    def __init__(self, **rest: Any) -> None:
        settings: dict[str, Any] = {
            "step_time_s": 8.0,
            "checkpoint_every_steps": 5,
            "checkpoint_s": 12.0,
        }
        job = Training(kind="training", name="t", on=("c",), **(settings | rest))
        self.jobs = TrainingJobs([job], [plan(job, site())], np.array([0], np.intp), Rng(4))

    def advance(
        self, elapsed_s: float, compute: float = 1.0, link: float = 1.0, storage: float = 1.0
    ) -> TrainingWork:
        pace = self.jobs.pace(ONE * compute, LINKS * link, ONE, ONE * storage)
        return self.jobs.advance(elapsed_s, ONE * elapsed_s, pace)


def at(window: TrainingWork, phase: Phase) -> float:
    return float(window.time[0, TRAINING.index(phase)])


def run(**rest: Any) -> JobRun:
    return JobRun(fleet_of(JOB | rest))


def test_shares_of_a_window_add_up_to_one() -> None:
    """The phases fill a window of any length at any pace."""
    for elapsed_s in (0.01, 1.0, 7.9, 60.0, 1_000.0):
        steps = Jobs(data_stall_every_steps=2)
        for number in range(50):
            window = steps.advance(elapsed_s, 0.7, 0.4, 0.3 if number % 2 else 1.0)
            assert window.time.sum() == pytest.approx(1.0, abs=1e-9)
            assert (window.work >= 0).all()


def test_windows_of_any_length_average_the_same() -> None:
    """Any windows of the same time spend the same time in each phase.

    Seconds, odd parts, minutes and the whole.
    """
    means = []
    for elapsed_s, count in ((1.0, 2_100), (7.0, 300), (60.0, 35), (2_100.0, 1)):
        steps = Jobs(data_stall_every_steps=2, data_stall_s=1.3)
        windows = [steps.advance(elapsed_s, 0.8, 1.0, 0.6) for _ in range(count)]
        means.append(np.mean([window.time[0] for window in windows], axis=0))
    for other in means[1:]:
        assert other == pytest.approx(means[0], rel=1e-9, abs=1e-12)


def test_a_slow_chip_and_a_slow_link_stretch_their_phases() -> None:
    """A step lasts compute / slowest chip + collectives / slowest link + optimizer.

    Forward and backward passes have room on the link.
    """
    steps = Jobs(compute_share=0.7, collective_share=0.2, checkpoint_every_steps=0)
    expected_s = 8.0 * (0.7 / 0.5 + 0.2 / 0.6 + 0.1)
    assert steps.jobs.step_time_s(steps.jobs.pace(ONE * 0.5, LINKS * 0.6, ONE, ONE))[
        0
    ] == pytest.approx(expected_s)
    window = steps.advance(expected_s * 1_000, 0.5, 0.6)
    assert at(window, Phase.COMPUTE) == pytest.approx(5.6 / 0.5 / expected_s, abs=1e-3)
    assert at(window, Phase.COLLECTIVE) == pytest.approx(1.6 / 0.6 / expected_s, abs=1e-3)
    assert at(window, Phase.OPTIMIZER) == pytest.approx(0.8 / expected_s, abs=1e-3)


def test_forward_and_backward_passes_wait_for_a_slow_link() -> None:
    """At a quarter of a link's bandwidth all-reduces and gradients last four times as long.

    Gradients go over EFA in the rest of their time.
    """
    each = planned()
    jobs = TrainingJobs(
        [Training(kind="training", name="t", on=("c",))], [each], np.array([0], np.intp), Rng(4)
    )
    slow_s = float(jobs.step_time_s(jobs.pace(ONE, LINKS * 0.25, ONE, ONE))[0])
    passes_s = (each.compute_s + each.bubble_s) * (1 + 3 * each.link_wait)
    assert 0.1 < each.link_wait < 0.2
    part = each.activity[Phase.COLLECTIVE, AXIS_QUANTITIES].sum() / LINK_CEILING
    assert part < 1.0
    slowed_s = (1.0 + 3.0 * part) * each.collective_s
    assert slow_s == pytest.approx(passes_s + slowed_s + each.optimizer_s)


def test_checkpoints_take_their_share_of_a_cycle_and_wait_for_storage() -> None:
    """A 12 s checkpoint after five 8 s steps is 12 of 52 seconds.

    At a third of the bandwidth it is 36 of 76.
    """
    assert at(Jobs().advance(5_200.0), Phase.CHECKPOINT) == pytest.approx(12 / 52, rel=0.02)
    slow = Jobs().advance(7_600.0, storage=1 / 3)
    assert at(slow, Phase.CHECKPOINT) == pytest.approx(36 / 76, rel=0.02)


def test_waits_for_data_differ_and_have_their_mean() -> None:
    """Waits are 0.5 to 1.5 times the file's length, after a fixed number of steps.

    Longer on slow storage.
    """
    steps = Jobs(
        step_time_s=1.0, checkpoint_every_steps=0, data_stall_every_steps=4, data_stall_s=2.0
    )
    lengths: list[float] = []
    stalled_s = 0.0
    for _ in range(2_000):
        wait = at(steps.advance(0.1), Phase.STALL) * 0.1
        stalled_s += wait
        if wait == 0 and stalled_s > 0:
            lengths.append(stalled_s)
            stalled_s = 0.0
    assert 1.0 <= min(lengths[1:]) <= max(lengths[1:]) <= 3.0
    assert len({round(length, 2) for length in lengths}) > 20
    varied = Jobs(
        step_time_s=1.0, checkpoint_every_steps=64, data_stall_every_steps=4, data_stall_s=2.0
    )
    total = 64 + 12 + 16 * 2.0
    assert at(varied.advance(100 * total), Phase.STALL) == pytest.approx(32 / total, rel=0.03)
    slow = Jobs(
        step_time_s=1.0, checkpoint_every_steps=0, data_stall_every_steps=4, data_stall_s=2.0
    )
    slow_share = at(slow.advance(10_000.0, storage=0.25), Phase.STALL)
    quick_share = at(steps.advance(10_000.0), Phase.STALL)
    assert slow_share / (1 - slow_share) == pytest.approx(
        4 * quick_share / (1 - quick_share), rel=0.01
    )


def test_executions_count_steps_and_never_fall() -> None:
    """Executions grow by a fixed number a step, at any pace, including lost steps."""
    steps = Jobs(checkpoint_every_steps=7, data_stall_every_steps=3)
    counts = [int(steps.jobs.executions()[0])]
    for number in range(1_000):
        steps.advance(0.5, 0.5 + 0.5 * (number % 3 > 0))
        if number % 200 == 199:
            steps.jobs.lose(np.array([True]))
        counts.append(int(steps.jobs.executions()[0]))
    assert (np.diff(counts) >= 0).all()
    steps = Jobs(checkpoint_every_steps=0)
    before = int(steps.jobs.executions()[0])
    steps.advance(800.0)
    assert int(steps.jobs.executions()[0]) - before == pytest.approx(
        100 * EXECUTIONS_PER_STEP, abs=16
    )


def test_an_impossible_mfu_is_refused() -> None:
    """An MFU beyond a busy tensor engine's in the compute phase is refused."""
    with pytest.raises(ConfigError, match=r"jobs\.t\.mfu = 0\.9: .* 0\.7"):
        Jobs(mfu=0.9)


@pytest.mark.parametrize(("mfu", "seconds"), [(0.40, 7.3), (0.31, 5.1)])
def test_a_whole_step_has_the_mfu_of_the_file(mfu: float, seconds: float) -> None:
    """FLOP/s over many steps are the job's MFU of peak; moments vary widely."""
    jobs = run(mfu=mfu, step_time_s=seconds, checkpoint_every_steps=0)
    ticks = jobs.until(seconds * 20, seconds / 8)
    shares = [tick.peak_flops_share[0] for tick in ticks]
    assert np.mean(shares) == pytest.approx(mfu, rel=0.02)
    assert np.mean([figure(tick, "mfu") for tick in ticks]) == pytest.approx(
        np.mean(shares), rel=0.01
    )
    assert max(shares) > 1.2 * mfu
    assert min(shares) < 0.8 * mfu


def test_mfu_falls_as_steps_get_longer() -> None:
    """With a straggler MFU, step rate and FLOP/s fall by the same factor.

    It is step time over effective step time.
    """
    jobs = run(step_time_s=4.0, checkpoint_every_steps=0)
    jobs.slowdowns.compute[0] = 0.6
    tick = jobs.advance(1_000.0)
    assert figure(tick, "mfu") == pytest.approx(0.40 / (0.72 / 0.6 + 0.28), rel=0.01)
    assert tick.peak_flops_share[0] == pytest.approx(figure(tick, "mfu"), rel=0.01)
    assert figure(tick, "step_time_s") == pytest.approx(4.0 * (0.72 / 0.6 + 0.28), rel=0.05)


def test_a_checkpoint_is_said_and_slows_the_figures() -> None:
    """While a checkpoint is written no step is made."""
    jobs = run(step_time_s=2.0, checkpoint_every_steps=1, checkpoint_s=50.0)
    ticks = jobs.until(10.0)
    assert state(ticks[0]) == "running"
    assert state(ticks[-1]) == "checkpointing"
    assert figure(ticks[-1], "steps_per_s") == pytest.approx(0, abs=1e-9)
    assert figure(ticks[-1], "step_time_s") == pytest.approx(2.0, rel=0.05)


@pytest.mark.usefixtures("even_steps")
def test_steps_since_the_checkpoint_are_lost_once() -> None:
    """A crash resets the job to its checkpoint; after a hang it counts once.

    Each change has its event.
    """
    jobs = run(
        step_time_s=2.0,
        checkpoint_every_steps=100,
        checkpoint_s=4.0,
        startup_s=30.0,
        compile_s=0.0,
        starts_at_s=0.0,
    )
    jobs.until(30 + 3 * 204 + 12)
    assert figure(jobs.advance(), "steps_completed") == 306
    jobs.halt(Halt.HANG)
    tick = jobs.advance()
    assert (tick.changes, state(tick), figure(tick, "steps_per_s")) == ((), "running", 0.0)
    tick = jobs.advance(30.0)
    assert [change.name for change in tick.changes] == ["job_hung"]
    assert (state(tick), figure(tick, "steps_lost"), figure(tick, "steps_completed")) == (
        "hung",
        0,
        306,
    )
    jobs.halt(Halt.DOWN)
    tick = jobs.advance()
    assert [change.name for change in tick.changes] == ["job_failed"]
    assert "at step 306: 6 steps since its last checkpoint are lost" in tick.changes[0].text
    assert (state(tick), figure(tick, "steps_lost"), figure(tick, "steps_completed")) == (
        "failed",
        6,
        300,
    )
    jobs.halt(Halt.WAITING)
    tick = jobs.advance()
    assert (tick.changes, state(tick), figure(tick, "steps_lost")) == ((), "waiting", 6)
    jobs.halt(Halt.NONE)
    tick = jobs.advance()
    assert tick.changes[0][1:] == ("job_restarted", Severity.INFO, "t starts again from step 300")
    assert (state(tick), figure(tick, "restarts")) == ("starting", 1)
    assert state(jobs.until(jobs.now_s + 30)[-1]) == "running"
    assert figure(jobs.advance(4.0), "steps_completed") == 302


@pytest.mark.usefixtures("even_steps")
def test_a_checkpoint_that_is_not_complete_saves_nothing() -> None:
    """A crash during a checkpoint loses its whole interval, just after it nothing."""

    def lost(after_s: float) -> float:
        jobs = run(
            step_time_s=2.0,
            checkpoint_every_steps=10,
            checkpoint_s=4.0,
            startup_s=10.0,
            compile_s=0.0,
            starts_at_s=0.0,
        )
        jobs.until(10 + after_s)
        jobs.halt(Halt.DOWN)
        return figure(jobs.advance(), "steps_lost")

    assert [lost(after_s) for after_s in (0.0, 19.0, 23.0, 24.0, 27.0)] == [0, 9, 10, 0, 1]


@pytest.mark.usefixtures("even_steps")
def test_without_checkpoints_all_is_lost() -> None:
    """A job without checkpoints restarts from step 0."""
    jobs = run(
        step_time_s=2.0,
        checkpoint_every_steps=0,
        startup_s=10.0,
        compile_s=0.0,
        starts_at_s=0.0,
    )
    jobs.until(50.0)
    jobs.halt(Halt.DOWN)
    tick = jobs.advance()
    assert (figure(tick, "steps_lost"), figure(tick, "steps_completed")) == (20, 0)


@pytest.mark.usefixtures("even_steps")
def test_goodput_is_the_productive_share_of_wall_time() -> None:
    """Start, checkpoints, down time and lost steps are not productive."""
    jobs = run(
        step_time_s=2.0,
        checkpoint_every_steps=10,
        checkpoint_s=4.0,
        startup_s=20.0,
        compile_s=0.0,
        starts_at_s=0.0,
    )
    assert figure(jobs.until(68.0)[-1], "goodput") == pytest.approx(40 / 68)
    jobs.until(74.0)
    jobs.halt(Halt.DOWN)
    tick = jobs.until(80.0)[-1]
    assert figure(tick, "goodput") == pytest.approx(40 / 80)
    assert mean(tick, "tensor") == 0


def test_traffic_follows_from_the_parallelism() -> None:
    """Traffic of 405B on three UltraServers matches bytes counted by hand.

    Tensor 16, pipeline 4, data 3: bytes over times and bandwidths.
    """
    each = planned()
    step_s = 6 * 405e9 * 196_608 / (192 * 667e12 * 0.38)
    assert sum(each[:4]) == pytest.approx(step_s)
    # 16 sequences a replica are 16 microbatches.
    bubble_s = each.bubble_s - SYNC_SHARE * step_s
    assert bubble_s / (bubble_s + each.compute_s) == pytest.approx(3 / 19)
    gradient_bytes = 2 * 405e9 / 64
    ring_s = 2 * 2 / 3 * gradient_bytes / (25e9 * EFA_CEILING) + 4 * 15e-6 * 16
    assert each.collective_s == pytest.approx(0.3 * ring_s)
    collective = each.activity[Phase.COLLECTIVE]
    assert collective[QUANTITIES["efa"]] == pytest.approx(EFA_CEILING)
    assert collective[QUANTITIES["z"]] == collective[QUANTITIES["rows"]] == 0
    compute = each.activity[Phase.COMPUTE]
    layer_bytes = 2 * 196_608 / 3 * 16_384
    tensor_bytes = 4 * 126 / 4 * layer_bytes * 2 * 15 / 16
    torus_share = tensor_bytes / (4 * 128e9 * each.compute_s)
    # What the backward pass hides and what it does not is all that the ring sends.
    hidden_s = compute[QUANTITIES["efa"]] * each.compute_s
    assert hidden_s + collective[QUANTITIES["efa"]] * each.collective_s == pytest.approx(
        ring_s * EFA_CEILING
    )
    assert compute[QUANTITIES["rows"]] == pytest.approx(torus_share)
    assert compute[QUANTITIES["columns"]] == pytest.approx(torus_share)
    assert compute[QUANTITIES["z"]] == pytest.approx(layer_bytes / 16 / (64e9 * each.compute_s))


def test_gradients_stay_on_neuronlink_within_an_ultraserver() -> None:
    """On one UltraServer, data parallelism goes over columns and Z, and nothing over EFA."""
    settings = {
        "model": "llama-3.3-70b",
        "tensor_parallel": 8,
        "pipeline_parallel": 1,
        "sequence_length": 8_192,
    }
    each = planned(64, **settings, tokens_per_step=262_144.0)
    collective = each.activity[Phase.COLLECTIVE]
    gradient_bytes = 2 * 70.6e9 / 8
    columns_s = gradient_bytes / (2 * 128e9 * LINK_CEILING)
    z_s = 1.5 * gradient_bytes / 2 / (2 * 64e9 * LINK_CEILING)
    assert each.collective_s == pytest.approx(0.3 * (columns_s + z_s), rel=0.01)
    assert collective[QUANTITIES["efa"]] == 0
    assert collective[QUANTITIES["z"]] == pytest.approx(
        LINK_CEILING * z_s / (columns_s + z_s), rel=0.01
    )
    assert each.bubble_s == pytest.approx(SYNC_SHARE * sum(each[:4]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"collective_share": 0.01}, r"jobs\.t\.collective_share = 0\.01: .* is the least"),
        ({"pipeline_parallel": 5}, r"jobs\.t\.pipeline_parallel = 5: .* not a whole number"),
        ({"step_time_s": 5.0}, r"jobs\.t\.step_time_s = 5: .* mfu of 0\.7"),
        (
            {"hbm_used": 0.4},
            (
                r"jobs\.t\.hbm_used = 0\.4: .* take 47 GiB and activations 17 GiB, .* of a chip's"
                r" 96 GiB"
            ),
        ),
        ({"mfu": 0.85}, r"jobs\.t\.mfu = 0\.85"),
    ],
)
def test_what_the_hardware_cannot_do_is_refused(settings: dict[str, Any], message: str) -> None:
    """Key, value and limit are named."""
    with pytest.raises(ConfigError, match=message):
        JobRun(
            fleet_of(
                JOB | LLAMA_405B | settings | {"on": ["c/us-0001..us-0003"]},
                instances=0,
                ultraservers=3,
            )
        )


def test_a_longer_collective_phase_carries_the_same_bytes() -> None:
    """More time for collectives than needed spreads the same traffic."""
    derived = planned()
    claimed = planned(collective_share=0.10)
    efa = [
        each.activity[Phase.COLLECTIVE, QUANTITIES["efa"]] * each.collective_s
        for each in (derived, claimed)
    ]
    assert claimed.collective_s > 2 * derived.collective_s
    assert efa[0] == pytest.approx(efa[1])


def test_tensor_parallelism_in_a_row_uses_rows_only() -> None:
    """Stages of four chips use one torus row each; activations pass along columns."""
    settings = {
        "model": "llama-3.1-8b",
        "tensor_parallel": 4,
        "pipeline_parallel": 4,
        "sequence_length": 4_096,
    }
    each = planned(16, **settings, overlap=0.0)
    compute = each.activity[Phase.COMPUTE]
    assert compute[QUANTITIES["rows"]] > compute[QUANTITIES["columns"]] > 0
    assert compute[QUANTITIES["z"]] == compute[QUANTITIES["efa"]] == 0


@pytest.mark.usefixtures("even_steps")
def test_runs_of_fine_tuning_have_evaluations_and_pauses() -> None:
    """A run has steps, a checkpoint, an evaluation and a pause with empty HBM.

    Then the next run begins.
    """
    job = JOB | {
        "kind": "finetuning",
        "step_time_s": 1.0,
        "checkpoint_every_steps": 20,
        "checkpoint_s": 5.0,
        "evaluation_s": 10.0,
        "pause_s": 15.0,
        "startup_s": 5.0,
        "compile_s": 0.0,
        "starts_at_s": 0.0,
    }
    jobs = JobRun(fleet_of(job))
    ticks = jobs.until(5 + 50)
    seen = [state(tick) for tick in ticks]
    assert seen.index("checkpointing") == 24
    assert seen[5 + 26] == "evaluating"
    assert seen[5 + 36 : 5 + 49] == ["idle"] * 13
    assert share(ticks[5 + 30], Phase.EVALUATION) == pytest.approx(1.0)
    assert ticks[5 + 40].hbm_used[0] < 0.01 < ticks[5 + 30].hbm_used[0]
    assert mean(ticks[5 + 40], "nc") == 0
    assert figure(jobs.until(75.0)[-1], "steps_completed") == 40


@pytest.mark.usefixtures("even_steps")
def test_a_run_that_is_saved_is_not_lost() -> None:
    """A failure in the evaluation or pause after a checkpoint continues with the next run."""
    job = JOB | {
        "kind": "finetuning",
        "step_time_s": 1.0,
        "checkpoint_every_steps": 20,
        "checkpoint_s": 5.0,
        "startup_s": 5.0,
        "compile_s": 0.0,
        "starts_at_s": 0.0,
    }
    jobs = JobRun(fleet_of(job))
    jobs.until(5 + 20 + 8)
    jobs.halt(Halt.DOWN)
    tick = jobs.advance()
    assert (figure(tick, "steps_lost"), figure(tick, "steps_completed")) == (0, 20)
    jobs.halt(Halt.NONE)
    assert figure(jobs.until(jobs.now_s + 15)[-1], "steps_completed") == 30
    assert figure(jobs.advance(), "steps_lost") == 0


def test_a_window_of_many_cycles_is_like_many_windows() -> None:
    """Cycles beyond 64 in a window have their mean length.

    Phases and steps agree within half a per cent.
    """
    together = Jobs(data_stall_every_steps=2)
    apart = Jobs(data_stall_every_steps=2)
    before = int(together.jobs.steps_completed()[0])
    once = together.advance(26_000.0)
    windows = [apart.advance(260.0) for _ in range(100)]
    assert once.time[0] == pytest.approx(
        np.mean([each.time[0] for each in windows], axis=0), rel=0.02, abs=1e-9
    )
    made = [int(each.jobs.steps_completed()[0]) - before for each in (together, apart)]
    assert made[0] == pytest.approx(made[1], rel=0.005)
    assert once.steps_per_s[0] * 26_000.0 == pytest.approx(made[0], abs=1.0)


def test_a_cycle_that_is_made_again_is_another() -> None:
    """A job that fails at its begin has another cycle before it than it had."""

    def five_steps_s(jobs: Jobs) -> float:
        begin = int(jobs.jobs.steps_completed()[0])
        tenths = 360
        jobs.advance(36.0)
        while int(jobs.jobs.steps_completed()[0]) < begin + 5:
            jobs.advance(0.1)
            tenths += 1
        jobs.advance(20.0)
        return tenths / 10.0

    first, again = Jobs(starts_at_s=0.0), Jobs(starts_at_s=0.0)
    again.jobs.lose(np.array([True]))
    lengths = [five_steps_s(first), five_steps_s(again)]
    assert lengths[0] != lengths[1]
    assert lengths == pytest.approx([40.0, 40.0], rel=0.05)
