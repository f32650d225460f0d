"""Host columns: CPUs, memory, EFA, power, and the latency of executions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.metrics import BY_NAME, INSTANCE_METRICS
from trnfleet.sim.hardware.columns import noisy, to_codes
from trnfleet.sim.jobs.activity import EFA_CEILING, QUANTITIES
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.sim.jobs.window import JobTick
    from trnfleet.sim.placement import Cohorts
    from trnfleet.sim.rng import Rng

MEMORY_IDLE, MEMORY_BUSY = 0.02, 0.22
"""Share of host memory in use without and with a job (buffers, data loading, checkpoints' staging): assumed."""
TAIL = 1.08
"""The 99th percentile of an execution's latency over its median: assumed."""
_BYTES_PER_UNIT = 32
"""Random bytes of an instance each tick: 16 words, one for each metric with noise."""
_LANE = {
    "vcpu_util_pct": 1,
    "host_memory_used_bytes": 2,
    "efa_tx_bytes_per_s": 3,
    "efa_rx_bytes_per_s": 4,
    "exec_latency_p50_s": 5,
    "exec_latency_p99_s": 6,
}
"""Word of each metric's noise: a part of the meaning of a seed, so that a new metric takes another one."""


class HostPhysics:
    """Writes the instance columns of every tick."""

    def __init__(
        self,
        layout: Layout,
        cohorts: Cohorts,
        columns: dict[str, NDArray[Any]],
        rng: Rng,
        own: range | None = None,
    ) -> None:
        """Bind to the columns.

        Args:
            layout: The whole fleet.
            cohorts: Its instances, grouped.
            columns: Of the whole fleet.
            rng: The run's randomness.
            own: Instances whose rows are written; all by default.
        """
        own = range(len(layout.instances)) if own is None else own
        self._types = layout.types
        self._own = slice(own.start, own.stop)
        self._columns = {metric.name: columns[metric.name][self._own] for metric in INSTANCE_METRICS}
        self._rng = rng
        self._cohorts = cohorts
        kind = cohorts.hosts.type_index
        self._memory_bytes = np.array([float(each.host_memory_bytes) for each in self._types])[kind]
        self._efa_peak = np.array([each.efa_bytes_per_s.value for each in self._types])[kind]
        idle_w = np.array([each.host_power_idle_w.value for each in self._types])[kind]
        self._idle_w = idle_w.astype(np.float32)
        most_w = np.array([each.host_power_max_w.value for each in self._types])[kind]
        self._per_code_w = ((most_w - idle_w) / 200.0).astype(np.float32)

    def instance_power_w(self, jobs: JobTick) -> NDArray[np.float64]:
        """Return the power of each host of the fleet without its chips, W, without noise."""
        vcpu = self._mean(jobs.average[:, QUANTITIES["vcpu"]])
        watts: NDArray[np.float64] = self._idle_w + vcpu * (200.0 * self._per_code_w)
        return watts[self._cohorts.hosts.of_instance]

    def _mean(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of the rows of work of each set of hosts."""
        return self._cohorts.hosts.mean(rows[self._cohorts.row])

    def fill(self, tick: int, jobs: JobTick) -> None:
        """Write a tick's instance columns.

        Args:
            tick: Its number, which keys the noise.
            jobs: Work of the jobs.
        """
        cohort = self._cohorts.hosts.of_instance[self._own]
        if not len(cohort):
            return
        reader = self._rng.lanes(Stream.HOST, tick, _BYTES_PER_UNIT, self._own.start)
        noise = reader.take(len(cohort), np.uint16)
        vcpu = self._mean(jobs.average[:, QUANTITIES["vcpu"]])
        efa = np.minimum(self._mean(jobs.average[:, QUANTITIES["efa"]]), EFA_CEILING) * self._efa_peak
        # Of several replicas on an instance those count that execute anything.
        executes = self._mean(np.where(np.isnan(jobs.latency_s), 0.0, 1.0))
        total_s = self._mean(np.where(np.isnan(jobs.latency_s), 0.0, jobs.latency_s))
        latency_s = np.where(executes > 0, total_s / np.where(executes > 0, executes, 1.0), np.nan)
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
