"""What hosts do beside their chips: CPUs, memory, EFA, power, and the latency of executions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.metrics import BY_NAME, INSTANCE_METRICS
from trnfleet.sim.noise import Stream
from trnfleet.sim.phases import EFA_CEILING, QUANTITIES
from trnfleet.sim.quantise import noisy, to_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.sim.noise import Noise
    from trnfleet.sim.placement import Cohorts
    from trnfleet.sim.workloads import JobTick

MEMORY_IDLE, MEMORY_BUSY = 0.02, 0.22
"""Share of host memory in use without and with a job (buffers, data loading, checkpoints' staging): assumed."""
TAIL = 1.08
"""The 99th percentile of an execution's latency over its median: assumed."""
_BYTES_PER_UNIT = 32
_LANE = {metric.name: number for number, metric in enumerate(INSTANCE_METRICS)}


class HostPhysics:
    """Writes the instance columns of every tick."""

    def __init__(
        self, layout: Layout, cohorts: Cohorts, columns: dict[str, NDArray[Any]], noise: Noise
    ) -> None:
        self._cohorts = cohorts
        self._columns = columns
        self._noise = noise
        types = [layout.types[index] for index in cohorts.type_index]
        self._memory_bytes = np.array([float(kind.host_memory_bytes) for kind in types])
        self._efa_peak = np.array([kind.efa_bytes_per_s.value for kind in types])
        idle_w = np.array([kind.host_power_idle_w.value for kind in types])
        self._idle_w = idle_w.astype(np.float32)
        most_w = np.array([kind.host_power_max_w.value for kind in types])
        self._per_code_w = ((most_w - idle_w) / 200.0).astype(np.float32)

    def fill(self, tick: int, jobs: JobTick, pace: NDArray[np.float64]) -> None:
        """Write a tick's instance columns.

        Args:
            tick: Its number, which the noise goes by.
            jobs: What the jobs do.
            pace: For each cohort, the pace of its replica.
        """
        job, cohort = self._cohorts.job, self._cohorts.of_instance
        noise = self._noise.lanes(Stream.HOST, tick, _BYTES_PER_UNIT).take(len(cohort), np.uint16)
        activity = jobs.average[job]
        vcpu = activity[:, QUANTITIES["vcpu"]]
        efa = np.minimum(activity[:, QUANTITIES["efa"]] * pace, EFA_CEILING) * self._efa_peak
        latency_s = jobs.latency_s[job] / pace
        memory = np.where(np.isnan(latency_s), MEMORY_IDLE, MEMORY_BUSY) * self._memory_bytes
        values: dict[str, tuple[NDArray[np.float64], NDArray[np.float64] | float]] = {
            "vcpu_util_pct": (vcpu * 100.0, 100.0),
            "host_memory_used_bytes": (memory, self._memory_bytes),
            "efa_tx_bytes_per_s": (efa, self._efa_peak),
            "efa_rx_bytes_per_s": (efa, self._efa_peak),
            "exec_latency_p50_s": (latency_s, np.inf),
            "exec_latency_p99_s": (latency_s * TAIL, np.inf),
        }
        for name, (value, limit) in values.items():
            self._write(name, value, limit, noise[:, _LANE[name]], cohort)
        watts = self._columns["vcpu_util_pct"] * self._per_code_w[cohort] + self._idle_w[cohort]
        np.copyto(self._columns["host_power_w"], watts + np.float32(0.5), casting="unsafe")

    def _write(
        self,
        name: str,
        values: NDArray[np.float64],
        limit: NDArray[np.float64] | float,
        noise: NDArray[np.uint16],
        cohort: NDArray[np.intp],
    ) -> None:
        metric = BY_NAME[name]
        missing = np.isnan(values)
        highest = np.minimum(np.asarray(limit), (metric.top - 1) * metric.scale)
        codes = to_codes(metric, np.where(missing, 0.0, np.minimum(values, highest)))
        base, mask = noisy(codes, to_codes(metric, highest))
        base[missing], mask[missing] = metric.top, 0
        bits = noise & np.minimum(mask, 0xFFFF).astype(np.uint16)[cohort]
        np.add(base.astype(metric.dtype)[cohort], bits, out=self._columns[name], casting="unsafe")
