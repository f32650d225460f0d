"""Variation of telemetry, by the estimators of `support.sim.variation`.

`make truth` has longer runs and more seeds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.sim import variation
from support.sim.fleets import shipped_fleet
from support.sim.variation_run import CHIP_METRICS, chip_columns, cycle_figures

from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.jobs import training

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile

    Columns = dict[str, NDArray[np.float64]]

TICKS = 240


@pytest.fixture(scope="module")
def telemetry() -> Columns:
    """Return some minutes of the shipped training fleet's first job, 192 chips.

    Shape (ticks, chips) per metric.
    """
    fleet = shipped_fleet("training")
    engine = Engine(fleet, 1, 1.0, to_ns(fleet.start))
    return chip_columns(engine, TICKS, np.arange(192))


@pytest.fixture
def no_slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the one step in 500 that takes far longer."""
    monkeypatch.setattr(training, "SLOW_STEPS", math.inf)


@pytest.mark.usefixtures("no_slow_steps")
def test_cycles_differ_in_length_and_in_shape(shipped: Callable[[str], FleetFile]) -> None:
    """Successive cycles differ by 0.5 to 3 % in length.

    The overlapping parts of a job's power in them correlate below 0.97.
    """
    for each in cycle_figures(shipped("training"), 0, 2_900.0):
        assert each.cycles >= 8
        assert 0.005 < each.length_sd < 0.03
        assert each.correlation < 0.97
        assert 0.007 < each.step_sd < 0.02


def test_chips_of_a_job_differ_by_some_per_cent(telemetry: Columns) -> None:
    """Chips of a job differ in power, not in their common work.

    The rear of a tray is 5 to 15 degC warmer than its front.
    """
    assert 0.01 < variation.spread(telemetry["power_w"]) < 0.05
    assert variation.spread(telemetry["tflops"]) < 0.003
    degrees = telemetry["temperature_c"].mean(axis=0)
    assert 5 < degrees[1::2].mean() - degrees[::2].mean() < 15


def test_noise_has_memory_and_no_walls(telemetry: Columns) -> None:
    """Residuals are nearly normal and correlated from second to second.

    Residuals of a chip's metrics correlate, too.
    """
    left = {name: variation.residuals(telemetry[name]) for name in CHIP_METRICS}
    assert variation.autocorrelation(left["power_w"]) > 0.3
    assert variation.autocorrelation(left["power_w"], 20) < 0.2
    assert variation.kurtosis(left["power_w"]) > 2.5
    assert variation.metric_correlation(left["power_w"], left["tflops"]) > 0.4
    assert variation.metric_correlation(left["hbm_read_bytes_per_s"], left["tflops"]) > 0.4


def test_estimators_of_what_is_known() -> None:
    """White noise, a random walk of lengths, and equal cycles give the known results."""
    source = np.random.default_rng(3)
    white = source.normal(size=(4_000, 6))
    assert abs(variation.autocorrelation(white)) < 0.05
    assert variation.kurtosis(white) == pytest.approx(3.0, abs=0.15)
    assert variation.kurtosis(source.uniform(size=(4_000, 6)) - 0.5) == pytest.approx(1.8, abs=0.05)
    job = source.normal(size=4_000)[:, None] * np.array([1.0, 1.2, 0.8])
    assert np.abs(variation.residuals(job)).max() < 1e-9
    saves = np.tile(np.arange(50) < 5, 10)
    assert variation.cycle_lengths_s(saves).tolist() == [50.0] * 8
    assert variation.difference_share(variation.cycle_lengths_s(saves)) == 0
    assert variation.cycle_correlations(
        saves.astype(float), variation.checkpoint_begins(saves)
    ) == pytest.approx(1.0)
    assert variation.replica_correlation(
        np.stack([job[:, 0], 2 * job[:, 0]], axis=1)
    ) == pytest.approx(1.0)


@pytest.mark.usefixtures("no_slow_steps")
@pytest.mark.parametrize("fleet", ["training", "demo"])
def test_runs_begin_at_the_temperature_of_their_cycles(
    shipped: Callable[[str], FleetFile], fleet: str
) -> None:
    """The first 20 s of every job are within 2 degC of the next minute.

    No job cools or warms steadily from the start.
    """
    file = shipped(fleet).model_copy(update={"stragglers": (), "links": ()})
    engine = Engine(file, 2, 1.0, to_ns(file.start))
    degrees = []
    for _ in range(80):
        engine.step()
        degrees.append(engine.columns["temperature_c"] / 10.0)
    job = np.repeat(engine.job_of_instance, 16)
    for number in range(len(file.jobs)):
        means = np.array(degrees)[:, job == number].mean(axis=1)
        assert abs(means[:20].mean() - means[20:].mean()) < 2.0, file.jobs[number].name
