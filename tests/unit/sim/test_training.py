from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.fleet import Training
from trnfleet.errors import ConfigError
from trnfleet.sim.noise import Noise
from trnfleet.sim.training import EXECUTIONS_PER_STEP, TrainingJobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Engine

ONE = np.ones(1)


def jobs(**rest: Any) -> TrainingJobs:
    settings: dict[str, Any] = {"step_time_s": 8.0, "checkpoint_every_steps": 5, "checkpoint_s": 12.0}
    job = Training(kind="training", name="t", on=("c",), **(settings | rest))
    return TrainingJobs([job], np.array([0], np.intp), Noise(4))


def test_shares_of_a_window_add_up_to_one() -> None:
    """Whatever the window's length, the phases fill it."""
    for elapsed_s in (0.01, 1.0, 7.9, 60.0, 1_000.0):
        steps = jobs()
        for _ in range(50):
            window = steps.advance(elapsed_s, ONE * 0.7, ONE * 0.4)
            assert window.time.sum() == pytest.approx(1.0, abs=1e-9)
            assert (window.work >= 0).all()


def test_windows_of_any_length_average_the_same() -> None:
    """The same hour in seconds, in minutes and at once spends the same time in each phase."""
    means = []
    for elapsed_s, count in ((1.0, 3_600), (60.0, 60), (3_600.0, 1)):
        steps = jobs()
        windows = [steps.advance(elapsed_s, ONE * 0.8, ONE) for _ in range(count)]
        means.append(np.mean([window.time[0] for window in windows], axis=0))
    assert means[0] == pytest.approx(means[1], abs=1e-9)
    assert means[0] == pytest.approx(means[2], abs=1e-9)


def test_a_slow_chip_and_a_slow_link_stretch_their_phases() -> None:
    """A step takes compute / slowest chip + collectives / slowest link + optimizer, and the time shows it."""
    steps = jobs(compute_share=0.7, collective_share=0.2, checkpoint_every_steps=0)
    expected_s = 8.0 * (0.7 / 0.5 + 0.2 / 0.25 + 0.1)
    assert steps.effective_step_s(ONE * 0.5, ONE * 0.25)[0] == pytest.approx(expected_s)
    window = steps.advance(expected_s * 1_000, ONE * 0.5, ONE * 0.25)
    assert window.time[0] == pytest.approx(np.array([5.6 / 0.5, 1.6 / 0.25, 0.8, 0.0]) / expected_s, abs=1e-3)
    assert window.work[0, :2].sum() == pytest.approx(7.2 / expected_s, abs=1e-3)


def test_checkpoints_take_their_share_of_a_cycle() -> None:
    """Five steps of 8 s and a checkpoint of 12 s: 12 of 52 seconds."""
    window = jobs().advance(5_200.0, ONE, ONE)
    assert window.time[0, 3] == pytest.approx(12 / 52, abs=1e-6)


def test_executions_count_steps_and_never_fall() -> None:
    """Executions grow by a fixed number a step, whatever the pace does in between."""
    steps = jobs(checkpoint_every_steps=0)
    counts = [int(steps.executions()[0])]
    for number in range(2_000):
        steps.advance(0.5, ONE * (0.5 + 0.5 * (number % 3 > 0)), ONE)
        counts.append(int(steps.executions()[0]))
    assert (np.diff(counts) >= 0).all()
    steps = jobs(checkpoint_every_steps=0)
    before = int(steps.executions()[0])
    steps.advance(800.0, ONE, ONE)
    assert int(steps.executions()[0]) - before == pytest.approx(100 * EXECUTIONS_PER_STEP, abs=1)


def test_an_impossible_mfu_is_refused() -> None:
    """A job cannot achieve more than a tensor engine that is busy in its compute phase."""
    with pytest.raises(ConfigError, match=r"jobs\.t\.mfu = 0\.9: .* 0\.7"):
        jobs(mfu=0.9)


@pytest.mark.parametrize(("mfu", "seconds"), [(0.40, 7.3), (0.31, 5.1)])
def test_a_whole_step_has_the_mfu_of_the_file(
    make_engine: Callable[..., Engine],
    training: Callable[..., dict[str, Any]],
    mfu: float,
    seconds: float,
) -> None:
    """TFLOP/s over many steps are the job's MFU of peak, within noise; so is the figure of the job."""
    job = training(mfu=mfu, step_time_s=seconds, checkpoint_every_steps=0)
    engine = make_engine(job, period_s=seconds / 8)
    ticks = [(engine.step(), engine.columns["tflops"][:16].mean() * 0.05) for _ in range(160)]
    assert np.mean([tflops for _, tflops in ticks]) / 667 == pytest.approx(mfu, rel=0.01)
    assert ticks[-1][0].figures["mfu"][0] == pytest.approx(mfu)
    peaks = [tflops for _, tflops in ticks]
    assert max(peaks) > 1.2 * np.mean(peaks)
    assert min(peaks) < 0.8 * np.mean(peaks)


def test_mfu_falls_as_steps_get_longer(
    make_engine: Callable[..., Engine], training: Callable[..., dict[str, Any]]
) -> None:
    """With a straggler the figure and the chips' TFLOP/s fall by step time over effective step time."""
    job = training(step_time_s=4.0, checkpoint_every_steps=0)
    engine = make_engine(
        job, stragglers=[{"chip": "c/standalone/trn2-0001/chip03", "throttle_pct": 40.0}], period_s=1_000.0
    )
    tick = engine.step()
    expected = 0.40 / (0.72 / 0.6 + 0.28)
    assert tick.figures["mfu"][0] == pytest.approx(expected)
    assert engine.columns["tflops"][:16].mean() * 0.05 / 667 == pytest.approx(expected, rel=0.01)


def test_a_checkpoint_is_said_and_slows_the_figures(
    make_engine: Callable[..., Engine], training: Callable[..., dict[str, Any]]
) -> None:
    """While a checkpoint is written no step is made."""
    job = training(step_time_s=2.0, checkpoint_every_steps=1, checkpoint_s=50.0)
    engine = make_engine(job)
    ticks = [engine.step() for _ in range(10)]
    assert not ticks[0].checkpointing[0]
    assert ticks[-1].checkpointing[0]
    assert ticks[-1].figures["steps_per_s"][0] == pytest.approx(0, abs=1e-9)
    assert ticks[-1].figures["step_time_s"][0] == pytest.approx(2.0)
