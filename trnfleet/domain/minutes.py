"""Figures of a minute: history's columns per chip, derived from the metrics.

A gauge has its mean, and its maximum where peaks matter; a counter its last value and its increase;
a bit mask the union of the minute's bits.
"""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import CHIP_METRICS, Aggregate, Kind, Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


FINER_STEPS = 5
"""Steps of a mean per step of a one-byte code. Half a percent is too coarse for a mean."""

_PEAKS = frozenset({"power_w"})
"""Gauges with a stored maximum, besides gauges that roll up to their maximum."""


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
    """Return means in the metric's unit from means of its wire codes.

    Rounded to the metric's step, to save space.
    """
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
    """Instance paths, indexed by `instance`."""
    instance: NDArray[np.int32]
    chip: NDArray[np.int16]
    """Number within the instance."""
    covered_s: NDArray[np.float32]
    """Seconds of the minute covered by samples."""
    jobs: tuple[str, ...]
    """Job names, indexed by `job`."""
    job: NDArray[np.int32]
    """Number of the job, -1 for none."""
    figures: dict[str, NDArray[Any]]
    """Values by the names of `MINUTE_COLUMNS`; NaN, or the highest whole number, if missing."""
    samples: int = 0
    """Number of chip samples in it."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        own: tuple[NDArray[Any], ...] = (self.instance, self.chip, self.covered_s, self.job)
        return sum(column.nbytes for column in (*own, *self.figures.values()))


def joined(parts: Sequence[MinuteRows]) -> MinuteRows:
    """Return the rows of several parts of one minute as one.

    Jobs are left out.
    """
    starts = itertools.accumulate((len(part.instances) for part in parts), initial=0)
    return MinuteRows(
        parts[0].minute,
        tuple(path for part in parts for path in part.instances),
        np.concatenate([part.instance + start for part, start in zip(parts, starts, strict=False)]),
        np.concatenate([part.chip for part in parts]),
        np.concatenate([part.covered_s for part in parts]),
        (),
        np.concatenate([np.full_like(part.job, -1) for part in parts]),
        {name: np.concatenate([part.figures[name] for part in parts]) for name in parts[0].figures},
        sum(part.samples for part in parts),
    )


class Wanted(NamedTuple):
    """A part of history: a node's figures, or its jobs', in equal steps."""

    address: str
    """The node's; empty for the fleet."""
    from_ns: int
    """The fleet's time."""
    to_ns: int
    step_ns: int
    jobs: tuple[str, ...] = ()
    """Read the figures of these jobs instead of the node's."""


class KeptColumn(NamedTuple):
    """A figure, one value per step; NaN if missing."""

    low: NDArray[np.float32]
    mean: NDArray[np.float32]
    high: NDArray[np.float32]


class KeptSeries(NamedTuple):
    """Series read from history."""

    wanted: Wanted
    columns: dict[str, KeptColumn]
    """By the metrics' names; of jobs by `NAME JOB`."""
    chips: NDArray[np.float32]
    """Number of chips covered; NaN in steps without history."""


class Reach(NamedTuple):
    """The times covered by history."""

    first_ns: int
    end_ns: int
