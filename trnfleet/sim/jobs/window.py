"""Work of all jobs in a window, as input of chips, hosts and messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.metrics import LASTING_JOB_FIGURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.severity import Severity

TAIL = 0.025
SPECULATIVE_TAIL = 0.35
"""Mean excess of an execution's latency p99 over its median, as a share. Published for Trainium2:
0.018 (Llama 3.1 405B), 0.035 (Llama 3.3 70B), and 0.35 with speculation (Neuron SDK, tutorials of
NxD Inference)."""


class JobChange(NamedTuple):
    """A change of a job's state with an event."""

    job: int
    """Its number in the fleet file's order."""
    name: str
    """`job_started`, `job_failed`, `job_restarted`, `job_hung`, `job_resumed` or `job_ended`."""
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class JobTick:
    """Work of the jobs in a window.

    Arrays have a row per job (for a serving job the mean of its replicas) and an idle one. Arrays
    by row, the source of the chips' cohorts, continue with one row for each replica of the serving
    jobs, job after job.
    """

    average: NDArray[np.float64]
    """Mean activity by row, columns as in `activity.QUANTITIES`."""
    work: NDArray[np.float64]
    """Nominal seconds of work done a second, by phase."""
    time: NDArray[np.float64]
    """Share of the window spent, by phase; a row adds up to 1."""
    activity: NDArray[np.float64]
    """Tables of activity as `activity.ACTIVITY`, one a kind of job: shape (kinds, phases,
    quantities)."""
    kind: NDArray[np.intp]
    """Index into these of each job."""
    peak_flops_share: NDArray[np.float64]
    """FLOP/s achieved as a share of the chip's dense BF16 peak, by row."""
    flops: NDArray[np.float64]
    """FLOP/s of a chip in addition, by row."""
    hbm_read_bytes_per_s: NDArray[np.float64]
    """HBM reads of a chip on top of `average`, by row."""
    hbm_used: NDArray[np.float64]
    """Share of HBM, by row."""
    host_memory: NDArray[np.float64]
    """Share of host memory in use, by row."""
    executions: NDArray[np.uint64]
    """Executions completed in the life of the job or replica, by row."""
    latency_s: NDArray[np.float64]
    """Median latency of an execution, by row; NaN where nothing executes."""
    figures: dict[str, NDArray[np.float64]]
    """Job figures by name, shape (jobs,), NaN if not applicable."""
    states: NDArray[np.int8]
    """Index into `jobs.JOB_STATES` at the end of the window, shape (jobs,)."""
    changes: tuple[JobChange, ...] = ()
    """Changes of jobs in the window."""
    latency_tail: NDArray[np.float64] | None = None
    """Mean excess of an execution's latency p99 over its median; `TAIL` if None."""

    @staticmethod
    def join(parts: Sequence[tuple[JobTick, float]]) -> JobTick:
        """Return the work of consecutive windows together.

        Rates and shares are means over time, over the time that has them; counts, states and totals
        are the last's.

        Args:
            parts: Each window's answer and its length, seconds; at least one.
        """
        last = parts[-1][0]
        if len(parts) == 1:
            return last
        ticks, lengths = [tick for tick, _ in parts], [length for _, length in parts]

        def mean(name: str) -> NDArray[np.float64]:
            return _mean([getattr(tick, name) for tick in ticks], lengths)

        return replace(
            last,
            average=mean("average"),
            work=mean("work"),
            time=mean("time"),
            peak_flops_share=mean("peak_flops_share"),
            flops=mean("flops"),
            hbm_read_bytes_per_s=mean("hbm_read_bytes_per_s"),
            hbm_used=mean("hbm_used"),
            host_memory=mean("host_memory"),
            latency_s=mean("latency_s"),
            figures={
                name: values
                if name in LASTING_JOB_FIGURES
                else _mean([tick.figures[name] for tick in ticks], lengths)
                for name, values in last.figures.items()
            },
            changes=tuple(change for tick in ticks for change in tick.changes),
        )


def _mean(values: Sequence[NDArray[np.float64]], lengths: Sequence[float]) -> NDArray[np.float64]:
    """Return the mean weighted by length, NaN only where every value is NaN."""
    total = np.zeros_like(values[0])
    weight = np.zeros_like(values[0])
    for value, length in zip(values, lengths, strict=True):
        is_there = ~np.isnan(value)
        total += np.where(is_there, value, 0.0) * length
        weight += is_there * length
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), np.nan)
