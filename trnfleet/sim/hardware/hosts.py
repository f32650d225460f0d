"""Host columns: CPUs, memory, EFA, power, and the latency of executions.

Each varies around the cohort's value by a part fixed per host, a part that changes over half a
minute, and a part per tick. All are sums of even distributions, so that none has a hard limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.sim.jobs.activity import EFA_CEILING, QUANTITIES
from trnfleet.sim.jobs.window import TAIL, JobTick
from trnfleet.sim.rng import Rng, Stream, knot_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.sim.placement import Cohorts


class SilentHosts:
    """Hides the rows of silent instances between two steps."""

    def __init__(self, layout: Layout, columns: dict[str, NDArray[Any]]) -> None:
        self._layout = layout
        self._columns = columns
        self._hidden: dict[str, tuple[NDArray[np.int64], NDArray[Any]]] = {}

    def restore(self) -> None:
        """Restore the values of hidden rows, because a step reads them and adds to them."""
        for name, (rows, held) in self._hidden.items():
            self._columns[name][rows] = held
        self._hidden.clear()

    def hide(self, silent: NDArray[np.bool_], own: range) -> None:
        """Hide the rows of the silent ones among the instances `own`."""
        instances = np.flatnonzero(silent[own.start : own.stop]) + own.start
        if not len(instances):
            return
        rows = {Scope.INSTANCE: instances, Scope.CHIP: self._layout.chip_rows(instances)}
        for name, column in self._columns.items():
            metric = BY_NAME[name]
            chosen = rows[metric.scope]
            self._hidden[name] = (chosen, column[chosen])
            column[chosen] = metric.top


KNOT_S = 30.0
"""Seconds between knots of the slow variation: assumed."""


class HostSpread(NamedTuple):
    """Relative standard deviations: between hosts, over half a minute, and per tick."""

    host: float
    slow: float
    tick: float


SPREAD = {
    "vcpu_util_pct": HostSpread(0.03, 0.05, 0.04),
    "host_memory_used_bytes": HostSpread(0.02, 0.002, 0.0),
    "efa_tx_bytes_per_s": HostSpread(0.0, 0.006, 0.006),
    "efa_rx_bytes_per_s": HostSpread(0.0, 0.006, 0.006),
    "exec_latency_p50_s": HostSpread(0.0, 0.002, 0.002),
    "exec_latency_p99_s": HostSpread(0.25, 0.30, 0.25),
}
"""Variation of each metric; for `exec_latency_p99_s`, of its excess over the median. All assumed.
Memory is constant per host."""
IDLE_VCPU_PCT = 5.0
"""Utilisation varied besides the host's own: assumed. It makes an idle host's reading vary."""
POWER_SPREAD_W = 4.0
"""Standard deviation of a host's power besides its CPUs (fans, supplies): assumed. As slow as
`KNOT_S`."""
EFA_PACKET_BYTES = 8_900.0
"""Bytes of a full EFA packet: published, an MTU of 9,001."""
RETRANSMITTED = (1e-7, 1e-3)
"""Share of EFA packets that are sent again, on a healthy host and with all of its bandwidth lost:
assumed."""
_LEAST_TAIL = 0.15
"""Smallest share of `TAIL` in a tick: assumed."""
_BYTES_PER_UNIT = 32
"""Random bytes per instance, each tick and each knot. 16 words, one per metric with noise."""
_LANE = {
    "vcpu_util_pct": 1,
    "host_memory_used_bytes": 2,
    "efa_tx_bytes_per_s": 3,
    "efa_rx_bytes_per_s": 4,
    "exec_latency_p50_s": 5,
    "exec_latency_p99_s": 6,
    "host_power_w": 7,
    "efa_retransmits": 8,
}
"""Noise word of each metric. Part of a seed's meaning: a new metric needs an unused one."""


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
        self._own = slice(own.start, own.stop)
        self._columns = {
            metric.name: columns[metric.name][self._own]
            for metric in SIMULATED
            if metric.scope is Scope.INSTANCE
        }
        self._rng = rng
        self._fixed = self._lanes(self._words(Stream.CHIP_POWER, 1))
        self._knot = -(2**62)
        self._before = self._after = self._fixed
        self._cohorts = cohorts
        kind = cohorts.hosts.type_index
        self._memory_bytes = np.array(
            [float(host_type.host_memory_bytes) for host_type in layout.types]
        )[kind]
        self._efa_peak = np.array([host_type.efa_bytes_per_s.value for host_type in layout.types])[
            kind
        ]
        has_none = ~np.array([host_type.has_efa for host_type in layout.types], np.bool_)[kind]
        self._without_efa = (
            has_none[cohorts.hosts.of_instance[self._own]] if has_none.any() else None
        )
        self._idle_w = np.array([host_type.host_power_idle_w.value for host_type in layout.types])[
            kind
        ]
        self._most_w = np.array([host_type.host_power_max_w.value for host_type in layout.types])[
            kind
        ]
        peaks = (self._memory_bytes, self._efa_peak, self._idle_w, self._most_w)
        self._own_peaks = [self._of_own(peak) for peak in peaks]
        """The same of each own host."""

    def instance_power_w(self, jobs: JobTick) -> NDArray[np.float64]:
        """Return the power of each host of the fleet without its chips, W, without noise."""
        vcpu = self._mean(jobs.average[:, QUANTITIES["vcpu"]])
        watts: NDArray[np.float64] = self._idle_w + vcpu * (self._most_w - self._idle_w)
        return watts[self._cohorts.hosts.of_instance]

    def _mean(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of the rows of work of each set of hosts."""
        return self._cohorts.hosts.mean(rows[self._cohorts.row])

    def _of_own(self, of_sets: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the values of sets of hosts for each own host."""
        return of_sets.astype(np.float32)[self._cohorts.hosts.of_instance[self._own]]

    def fill(
        self,
        tick: int,
        elapsed_s: float,
        jobs: JobTick,
        at_s: float,
        efa_share: NDArray[np.float32],
    ) -> None:
        """Write a tick's instance columns.

        Args:
            tick: Its number, the key of the noise.
            elapsed_s: Length of its window.
            jobs: Work of the jobs.
            at_s: The tick's time, simulated seconds since the start, for the slow variation.
            efa_share: For each instance, the share of its EFA bandwidth that is left.
        """
        if self._own.start == self._own.stop:
            return
        vcpu = self._mean(jobs.average[:, QUANTITIES["vcpu"]])
        efa = (
            np.minimum(self._mean(jobs.average[:, QUANTITIES["efa"]]), EFA_CEILING) * self._efa_peak
        )
        # Of several replicas on an instance only executing ones count.
        executes = self._mean(np.where(np.isnan(jobs.latency_s), 0.0, 1.0))
        total_s = self._mean(np.where(np.isnan(jobs.latency_s), 0.0, jobs.latency_s))
        latency_s = np.where(executes > 0, total_s / np.where(executes > 0, executes, 1.0), np.nan)
        is_idle = np.isnan(latency_s)
        latency_s = np.where(is_idle, 0.0, latency_s)
        memory = self._mean(jobs.host_memory) * self._memory_bytes
        noise = self._words(Stream.HOST, tick)
        self._move_to(at_s)

        def varied(name: str, mean: NDArray[np.float64]) -> NDArray[np.float32]:
            values = self._of_own(mean)
            values *= self._factor(name, noise)
            return values

        memory_bytes, efa_peak, idle_w, most_w = self._own_peaks
        vcpu_pct = varied("vcpu_util_pct", vcpu * 100.0 + IDLE_VCPU_PCT)
        vcpu_pct -= np.float32(IDLE_VCPU_PCT)
        np.clip(vcpu_pct, np.float32(0.0), np.float32(100.0), out=vcpu_pct)
        self._write("vcpu_util_pct", vcpu_pct)
        watts = vcpu_pct
        watts *= (most_w - idle_w) * np.float32(0.01)
        watts += idle_w
        watts += self._slow("host_power_w") * np.float32(POWER_SPREAD_W)
        self._write("host_power_w", np.clip(watts, idle_w, most_w, out=watts))
        used = varied("host_memory_used_bytes", memory)
        self._write("host_memory_used_bytes", np.minimum(used, memory_bytes, out=used))
        for name in ("efa_tx_bytes_per_s", "efa_rx_bytes_per_s"):
            self._write(name, np.minimum(varied(name, efa), efa_peak), self._without_efa)
        if tick >= 0:
            # As of chips' counters, none before the start.
            self._count_retransmits(elapsed_s, self._of_own(efa), efa_share[self._own], noise)
        median_s = varied("exec_latency_p50_s", latency_s)
        tail = np.maximum(self._factor("exec_latency_p99_s", noise), np.float32(_LEAST_TAIL))
        own = TAIL if jobs.latency_tail is None else self._mean(jobs.latency_tail)
        tail *= self._of_own(np.where(is_idle, TAIL, own))
        tail += np.float32(1.0)
        tail *= median_s
        missing = is_idle[self._cohorts.hosts.of_instance[self._own]]
        self._write("exec_latency_p50_s", median_s, missing)
        self._write("exec_latency_p99_s", tail, missing)

    def _count_retransmits(
        self,
        elapsed_s: float,
        sent_bytes_per_s: NDArray[np.float32],
        efa_share: NDArray[np.float32],
        noise: NDArray[np.uint16],
    ) -> None:
        """Add a tick's packets that were sent again."""
        healthy, worst = RETRANSMITTED
        share = healthy + (worst - healthy) * (1.0 - efa_share)
        packets = sent_bytes_per_s * share * (elapsed_s / EFA_PACKET_BYTES)
        # A part of a packet is one at times.
        packets += noise[:, _LANE["efa_retransmits"]] * np.float32(2.0**-16)
        column = self._columns["efa_retransmits"]
        column += packets.astype(column.dtype)
        if self._without_efa is not None:
            column[self._without_efa] = BY_NAME["efa_retransmits"].top

    def _move_to(self, at_s: float) -> None:
        """Set the knots around a time, and the fraction of the way between them."""
        knot, blend = knot_of(at_s, KNOT_S)
        if knot != self._knot:
            self._knot = knot
            self._before, self._after = (
                self._lanes(self._words(Stream.HOST_KNOT, number)) for number in (knot, knot + 1)
            )
        # The squares add up to 1, so that the deviation is the same between knots as at them.
        self._weights = np.float32(math.sqrt(1.0 - blend)), np.float32(math.sqrt(blend))

    def _slow(self, name: str) -> NDArray[np.float32]:
        """Return a metric's slow variation for each host: mean 0, standard deviation 1."""
        before, after = self._weights
        values = self._before[name] * before
        values += self._after[name] * after
        return values

    def _factor(self, name: str, noise: NDArray[np.uint16]) -> NDArray[np.float32]:
        """Return each host's factor of a metric's mean."""
        spread = SPREAD[name]
        factor = self._slow(name)
        factor *= np.float32(spread.slow)
        factor += np.float32(1.0)
        if spread.host:
            factor += self._fixed[name] * np.float32(spread.host)
        if spread.tick:
            factor += _triangle(noise, name) * np.float32(spread.tick)
        return factor

    def _words(self, stream: Stream, index: int) -> NDArray[np.uint16]:
        """Return 16 random words for each host."""
        count = self._own.stop - self._own.start
        reader = self._rng.lanes(stream, index, _BYTES_PER_UNIT, self._own.start)
        words: NDArray[np.uint16] = (
            reader.read(count, np.uint16)
            if count
            else np.zeros((0, _BYTES_PER_UNIT // 2), np.uint16)
        )
        return words

    def _lanes(self, words: NDArray[np.uint16]) -> dict[str, NDArray[np.float32]]:
        return {name: _triangle(words, name) for name in _LANE}

    def _write(
        self, name: str, values: NDArray[np.float32], missing: NDArray[np.bool_] | None = None
    ) -> None:
        """Write values, possibly fractions of a code; "not available" if missing.

        Overwrites the values.
        """
        metric = BY_NAME[name]
        column = self._columns[name]
        codes = values * np.float32(metric.steps_per_unit or 1.0 / metric.scale)
        codes += np.float32(0.5)
        np.copyto(column, codes, casting="unsafe")
        if missing is not None:
            column[missing] = metric.top


def _triangle(words: NDArray[np.uint16], name: str) -> NDArray[np.float32]:
    """Return the sum of the two bytes of a metric's words.

    Mean 0, standard deviation 1, within 2.45.
    """
    lane = words[:, _LANE[name]]
    total = (lane & np.uint16(0xFF)) + (lane >> np.uint16(8))
    values = total * np.float32((6.0 / (256.0**2 - 1.0)) ** 0.5)
    values -= np.float32(255.0 * (6.0 / (256.0**2 - 1.0)) ** 0.5)
    return values
