"""Estimators of telemetry's variation: between cycles, chips and replicas, and in time.

Input is arrays of a simulated job, output is figures. Docstrings and docs/fleets.md define them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Series = NDArray[np.float64]

LAG_SHARE = 0.05
"""Tolerance of two cycles' lag, as a share of a cycle. It is compared with the distance of their
starts."""


def checkpoint_begins(saves: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the ticks of checkpoint starts.

    `saves` is true while the job writes one.
    """
    return np.flatnonzero(np.diff(saves.astype(np.int8)) == 1) + 1


def cycle_lengths_s(saves: NDArray[np.bool_], period_s: float = 1.0) -> Series:
    """Return the times from each checkpoint's begin to the next one's."""
    return np.diff(checkpoint_begins(saves)) * period_s


def difference_share(lengths: Series) -> float:
    """Return the spread of successive lengths' differences, as a share of the mean.

    It is their standard deviation over the square root of 2. For independent lengths it equals
    their own standard deviation, and no slow drift adds to it.
    """
    return float(np.diff(lengths).std() / 2.0**0.5 / lengths.mean())


def cycle_correlations(power: Series, begins: NDArray[np.int64]) -> Series:
    """Return Pearson's correlation of each cycle's power with the next one's, at the best lag.

    Both begin at a checkpoint's begin; the lag moves them against each other by up to `LAG_SHARE`
    of the shorter one, and what overlaps is compared.
    """
    found = []
    for first, second, third in zip(begins, begins[1:], begins[2:], strict=False):
        one = power[first:second]
        other = power[second:third]
        most = round(LAG_SHARE * min(len(one), len(other)))
        found.append(max(_correlation(one, other, lag) for lag in range(-most, most + 1)))
    return np.array(found)


def _correlation(one: Series, other: Series, lag: int) -> float:
    one = one[max(lag, 0) :]
    other = other[max(-lag, 0) :]
    length = min(len(one), len(other))
    return float(np.corrcoef(one[:length], other[:length])[0, 1])


def spread(values: Series) -> float:
    """Return the spread over chips of means over time, as a share of their mean.

    It is the standard deviation. Shape (ticks, chips).
    """
    means = values.mean(axis=0)
    return float(means.std() / means.mean())


def residuals(values: Series) -> Series:
    """Return the chips' residuals of the least-squares line on the job's mean.

    Shape (ticks, chips), as the values.
    """
    job = values.mean(axis=1)
    job = job - job.mean()
    own = values - values.mean(axis=0)
    slope = (own * job[:, None]).sum(axis=0) / max(float((job * job).sum()), 1e-12)
    left: Series = own - slope * job[:, None]
    return left


def autocorrelation(left: Series, lag: int = 1) -> float:
    """Return the mean over chips of the autocorrelation of residuals at a lag, in ticks."""
    own = left - left.mean(axis=0)
    return float(((own[lag:] * own[:-lag]).sum(axis=0) / (own * own).sum(axis=0)).mean())


def kurtosis(left: Series) -> float:
    """Return the kurtosis of residuals, scaled to each chip's standard deviation.

    3 for a normal distribution.
    """
    scaled = left / left.std(axis=0)
    return float((scaled**4).mean())


def metric_correlation(one: Series, other: Series) -> float:
    """Return the correlation of two metrics' residuals, as a mean over chips.

    Each has shape (ticks, chips).
    """
    one = one - one.mean(axis=0)
    other = other - other.mean(axis=0)
    shared = (one * other).sum(axis=0)
    scale = np.sqrt((one * one).sum(axis=0) * (other * other).sum(axis=0))
    return float((shared / scale).mean())


def replica_correlation(values: Series) -> float:
    """Return the largest correlation of two replicas' values, shape (ticks, replicas)."""
    between = np.asarray(np.corrcoef(values.T))
    return float(between[np.triu_indices(len(between), 1)].max())
