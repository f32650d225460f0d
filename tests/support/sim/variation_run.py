"""Runs of shipped fleets for the figures of `variation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from support.sim import variation
from support.sim.job_run import JobRun, figure, share
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.jobs.activity import Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile

CHIP_METRICS = ("power_w", "tflops", "hbm_read_bytes_per_s", "temperature_c")


class CycleFigures(NamedTuple):
    """One training job over several cycles."""

    job: str
    cycles: int
    length_s: float
    length_sd: float
    """Standard deviation of successive cycles' lengths, as a share: `variation.difference_share`.
    """
    correlation: float
    """Mean over pairs of successive cycles of `variation.cycle_correlations`."""
    most_correlation: float
    step_sd: float
    """Standard deviation of single steps' times, as a share."""


class ChipFigures(NamedTuple):
    """The chips of one job over some time."""

    job: str
    power_spread: float
    tflops_spread: float
    memory: float
    """Autocorrelation of the power's residual at 1 s."""
    kurtosis: float
    shared: float
    """Correlation of the residuals of power and FLOP/s."""
    front_to_rear_c: float
    """How much warmer the rear chips of trays are."""


def cycle_figures(file: FleetFile, seed: int, for_s: float) -> list[CycleFigures]:
    """Return the figures of a fleet's training jobs by seconds, without faults.

    Power is that of the mean chip.
    """
    run = JobRun(file, seed=seed)
    ticks = run.until(for_s)
    watts = np.array([run.chip_w(tick) for tick in ticks])
    found = []
    for number, job in enumerate(file.jobs):
        if job.kind != "training":
            continue
        saves = np.array([share(tick, Phase.CHECKPOINT, number) > 0.5 for tick in ticks])
        lengths = variation.cycle_lengths_s(saves)
        between = variation.cycle_correlations(watts[:, number], variation.checkpoint_begins(saves))
        steps_s = np.array([figure(tick, "step_time_s", number) for tick in ticks])
        single = steps_s[np.flatnonzero(np.diff(steps_s))]
        found.append(
            CycleFigures(
                job.name,
                len(lengths),
                float(lengths.mean()),
                variation.difference_share(lengths),
                float(between.mean()),
                float(between.max()),
                float(single.std() / single.mean()),
            )
        )
    return found


def chip_columns(
    engine: Engine, ticks: int, rows: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Return some ticks of some chips' metrics in their units, each of shape (ticks, rows)."""
    columns = {name: np.empty((ticks, len(rows))) for name in CHIP_METRICS}
    for tick in range(ticks):
        engine.step()
        for name, values in columns.items():
            values[tick] = BY_NAME[name].decode(engine.columns[name][rows])
    return columns


def chip_figures(file: FleetFile, seed: int, ticks: int) -> list[ChipFigures]:
    """Return figures of chips in training and serving jobs by seconds, with the file's faults."""
    engine = Engine(file, seed, 1.0, to_ns(file.start))
    columns = chip_columns(engine, ticks, np.arange(engine.layout.chips))
    owner = engine.job_of_instance[engine.layout.instance_of_chip]
    place = (
        np.arange(engine.layout.chips) - engine.layout.chip_start[engine.layout.instance_of_chip]
    )
    found = []
    for number, job in enumerate(file.jobs):
        mine = owner == number
        left = {name: variation.residuals(values[:, mine]) for name, values in columns.items()}
        degrees = columns["temperature_c"].mean(axis=0)
        found.append(
            ChipFigures(
                job.name,
                variation.spread(columns["power_w"][:, mine]),
                variation.spread(columns["tflops"][:, mine]),
                variation.autocorrelation(left["power_w"]),
                variation.kurtosis(left["power_w"]),
                variation.metric_correlation(left["power_w"], left["tflops"]),
                float(
                    degrees[mine & (place % 2 == 1)].mean()
                    - degrees[mine & (place % 2 == 0)].mean()
                ),
            )
        )
    return found
