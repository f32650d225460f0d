"""Agreement of a training job's published figures: tokens a second, FLOP/s, and MFU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.jobs import FineTuning, Training

if TYPE_CHECKING:
    from lab.truth.observe import JobSeries, Observation
    from trnfleet.domain.hardware.catalogue import ChipType

TOLERANCE = 0.02
"""Largest difference between any two of the three figures."""


class Agreement(NamedTuple):
    """Three figures of one job, PFLOP/s, means over time."""

    fleet: str
    job: str
    model: str
    chips: int
    tokens_per_s: float
    of_tokens: float
    """FLOPs of a token times tokens a second."""
    of_chips: float
    """Sum of the chips' `tflops`."""
    of_mfu: float
    """MFU times the dense peak of the job's type of operands."""
    mfu: float

    @property
    def difference(self) -> float:
        """Largest difference of the three, relative to the chips'."""
        figures = (self.of_tokens, self.of_chips, self.of_mfu)
        return (max(figures) - min(figures)) / self.of_chips


def agreements(seen: Observation) -> list[Agreement]:
    """Return the figures of every training and fine-tuning job with a model."""
    found = []
    for series in seen.jobs:
        job = seen.fleet.jobs[series.number]
        if isinstance(job, Training | FineTuning) and job.model_flops:
            tokens_per_s = series.mean("tokens_per_s")
            mfu = series.mean("mfu")
            peak = dense_peak_flops(chip_of(seen, series), job.dtype)
            found.append(
                Agreement(
                    seen.fleet.name,
                    series.name,
                    job.model or job.profile or "-",
                    series.chips,
                    tokens_per_s,
                    job.model_flops * tokens_per_s / 1e15,
                    series.mean("tflops") / 1e3,
                    mfu * series.chips * peak / 1e15,
                    mfu,
                )
            )
    return found


def chip_of(seen: Observation, series: JobSeries) -> ChipType:
    """Return the chip that a job runs on."""
    return seen.engine.placement.chip_types[series.number]


def dense_peak_flops(chip: ChipType, dtype: str) -> float:
    """Return a chip's dense peak for a type of operands, FLOP/s."""
    return chip.fp8_dense_flops.value if dtype == "fp8" else chip.bf16_dense_flops.value
