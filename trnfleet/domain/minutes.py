"""Figures of a minute: what history keeps of each chip, derived from the table of metrics.

A gauge has its mean, and its largest value where peaks matter; a counter its last value and its increase; a bit mask the bits of
all of the minute's values together.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import CHIP_METRICS, Aggregate, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.metrics import Metric

MINUTE_NS = 60_000_000_000
FINER_STEPS = 5
"""Parts into which a mean divides the step of a one-byte wire code: half a percent is too coarse for a mean."""

_PEAKS = frozenset({"power_w"})
"""Gauges whose largest value is kept, besides those that roll up to their largest one."""


class Part(enum.StrEnum):
    """Figures of one metric over a minute."""

    MEAN = "mean"
    MAX = "max"
    LAST = "last"
    INCREASE = "increase"
    BITS = "bits"


class MinuteColumn(NamedTuple):
    """A figure of each chip and minute."""

    name: str
    metric: Metric
    part: Part

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number: of a counter or a bit mask."""
        return self.part in {Part.LAST, Part.INCREASE, Part.BITS}


def _columns() -> tuple[MinuteColumn, ...]:
    made: list[MinuteColumn] = []
    for metric in CHIP_METRICS:
        name = metric.name
        if metric.kind is Kind.COUNTER:
            made.append(MinuteColumn(name, metric, Part.LAST))
            made.append(MinuteColumn(f"{name}_increase", metric, Part.INCREASE))
        elif metric.kind is Kind.BITMASK:
            made.append(MinuteColumn(name, metric, Part.BITS))
        else:
            made.append(MinuteColumn(name, metric, Part.MEAN))
            if has_peak(metric):
                made.append(MinuteColumn(f"{name}_max", metric, Part.MAX))
    return tuple(made)


def has_peak(metric: Metric) -> bool:
    """Return whether the largest value of a minute is kept, too."""
    return metric.aggregate is Aggregate.MAX or metric.name in _PEAKS


def mean_values(metric: Metric, codes: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return means in the metric's unit from means of its wire codes, rounded to its step so that they take little room."""
    finer = FINER_STEPS if metric.wire == "u8" else 1
    steps = np.rint(codes * finer)
    values = (
        steps / (metric.steps_per_unit * finer)
        if metric.steps_per_unit
        else steps * metric.scale / finer
    )
    return values.astype(np.float32)


MINUTE_COLUMNS = _columns()


class MinuteRows(NamedTuple):
    """Figures of chips over one minute."""

    minute: int
    """Minutes since 1970."""
    instances: tuple[str, ...]
    """Paths of the instances that `instance` numbers."""
    instance: NDArray[np.int32]
    chip: NDArray[np.int16]
    """Number within the instance."""
    covered_s: NDArray[np.float32]
    """Seconds of the minute that samples stand for."""
    jobs: tuple[str, ...]
    """Names of the jobs that `job` numbers."""
    job: NDArray[np.int32]
    """Number of the job, -1 for none."""
    figures: dict[str, NDArray[Any]]
    """By the names of `MINUTE_COLUMNS`; NaN, or the highest whole number, where there is none."""
    samples: int = 0
    """Samples of chips that it is made of."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        own: tuple[NDArray[Any], ...] = (self.instance, self.chip, self.covered_s, self.job)
        return sum(each.nbytes for each in (*own, *self.figures.values()))


class Wanted(NamedTuple):
    """A part of history: a node's figures, or its jobs', in equal steps."""

    address: str
    """The node's; empty for the fleet."""
    from_ns: int
    """The fleet's time."""
    to_ns: int
    step_ns: int
    jobs: tuple[str, ...] = ()
    """Jobs whose figures are wanted instead of the node's."""


class KeptColumn(NamedTuple):
    """A figure, a value a step; NaN where there is none."""

    low: NDArray[np.float32]
    mean: NDArray[np.float32]
    high: NDArray[np.float32]


class KeptSeries(NamedTuple):
    """What history has of what was wanted."""

    wanted: Wanted
    columns: dict[str, KeptColumn]
    """By the metrics' names; of jobs by `NAME JOB`."""
    chips: NDArray[np.float32]
    """Chips that were covered; NaN in steps of which history has nothing."""


class Reach(NamedTuple):
    """The times that history has anything of."""

    first_ns: int
    end_ns: int
