"""The table of metrics: name, shape, wire form, unit, scale, title and meaning of each.

Codec, store, rules, views and documentation are derived from it: a new metric is a row, at any
place in the table, the next set of columns (`wire.messages`) and the code that writes its column. A
column nobody writes is not available.
Screen ranks and thresholds are in `tui.metric_display`, for metrics that need more than its
defaults. A value in messages and in the store is an unsigned integer `code`: value = code x scale,
and the type's top code means not available.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from trnfleet.domain.hardware.catalogue import MOST_NEURONCORES, ChipType, links_bytes_per_s
from trnfleet.domain.hardware.topology import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Scope(enum.StrEnum):
    """Owners of a metric."""

    CHIP = "chip"
    INSTANCE = "instance"


class Kind(enum.StrEnum):
    """Behaviour of a metric in time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    BITMASK = "bitmask"


class Aggregate(enum.StrEnum):
    """Functions that roll values up to higher levels."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    OR = "or"
    AND = "and"


class Origin(enum.StrEnum):
    """Origin of a real host's value; a simulator's values are all simulated."""

    MEASURED = "measured"
    MODELLED = "modelled"
    UNAVAILABLE = "unavailable"


class Provider(enum.StrEnum):
    """Provider of a figure besides simulators; the value marks what a Neuron host alone lacks."""

    HOST = ""
    OTHERS = "simulated or third-party only"
    JOB = "needs a training callback or scheduler to publish"


_SUFFIXES = {
    "%": "_pct",
    "bytes": "_bytes",
    "bytes/s": "_bytes_per_s",
    "W": "_w",
    "degC": "_c",
    "s": "_s",
}
"""Suffix of a metric's name by unit; other units are their own suffix."""


def without_unit(name: str, unit: str) -> str:
    """Return a metric's name without the unit at its end, with blanks: `link tx`."""
    return name.removesuffix(_SUFFIXES.get(unit, f"_{unit.lower()}")).replace("_", " ")


WireType = Literal["u8", "u16", "u32", "u64"]
MOST_PCT = 101.0
"""Largest valid share. The edges of a period may add up to a little more than 100 %."""
WIRE_TYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


@dataclass(frozen=True)
class Metric:
    """One row of the table."""

    name: str
    """Field's standard term with its unit as suffix."""
    scope: Scope
    wire: WireType
    """u8, u16, u32 or u64."""
    scale: float
    """Value of one step of the wire code, in `unit`."""
    unit: str
    aggregate: Aggregate
    kind: Kind
    help: str
    real_host: Origin
    real_source: str
    """Origin of a real host's value, in words."""
    lanes: tuple[str, ...] = ()
    """Names of a vector's lanes; empty for a single value. Of link lanes these are schema version
    1's: the layout has the names of each instance type."""
    lane_aggregate: Aggregate = Aggregate.MEAN
    """Function that reduces a vector to one value per chip."""
    peak: float | None = None
    """Upper end of the scale in charts and heat maps. The hardware catalogue's has precedence."""
    chip_peak: Callable[[ChipType], float] | None = None
    """Upper end of that scale for one chip, from the hardware catalogue."""
    title: str = ""
    """Column or line head, at most ten characters for a chip metric. Empty to derive it from the
    name."""
    has_history: bool = False
    """Whether the monitor keeps the last minutes of every node; costs memory per node."""
    is_simulated: bool = True
    """Whether simulators publish it."""

    @property
    def short_title(self) -> str:
        """`title`, or as much of the name without its unit as a column's head holds."""
        return self.title or without_unit(self.name, self.unit)[:10].rstrip()

    @property
    def source(self) -> Provider:
        """Provider of its values besides simulators."""
        return Provider.OTHERS if self.real_host is Origin.UNAVAILABLE else Provider.HOST

    @property
    def width(self) -> int:
        """Lanes of the vector; 1 for a single value."""
        return len(self.lanes) or 1

    @property
    def is_vector(self) -> bool:
        """Whether JSON carries an array."""
        return bool(self.lanes)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Little-endian NumPy type of the wire code and the store's column."""
        return np.dtype(WIRE_TYPES[self.wire]).newbyteorder("<")

    @cached_property
    def top(self) -> int:
        """The code that means not available."""
        return int(np.iinfo(self.dtype).max)

    @cached_property
    def limit(self) -> float:
        """Largest valid value.

        A little over 100 % for a share, else the maximum of the wire type.
        """
        most = (self.top - 1) * self.scale
        return min(most, MOST_PCT) if self.unit == "%" else most

    @cached_property
    def limit_code(self) -> int:
        """The wire code of `limit`."""
        return min(self.top - 1, round(self.limit * self.steps_per_unit or self.limit / self.scale))

    @cached_property
    def steps_per_unit(self) -> int:
        """Codes per unit for scales below 1, else 0.

        Dividing by it gives short decimals.
        """
        return round(1 / self.scale) if self.scale < 1 else 0

    @property
    def bytes_per_row(self) -> int:
        """Bytes per chip or instance in a frame and in the store."""
        return self.width * self.dtype.itemsize

    def blank(self, rows: int) -> NDArray[Any]:
        """Return wire codes of rows without any value: rows x width, or rows."""
        return np.full((rows, self.width) if self.is_vector else rows, self.top, self.dtype)

    def decode(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return values in `unit`, NaN where not available; same shape as `codes`."""
        values = codes.astype(np.float64)
        if self.steps_per_unit:
            values /= self.steps_per_unit
        elif self.scale != 1:
            values *= self.scale
        missing = codes == self.top
        if missing.any():
            values[missing] = np.nan
        return values

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the wire codes of `values` in `unit`.

        NaN, negative values and values above `limit` become the top code.
        """
        codes = np.asarray(values, dtype=np.float64)
        codes = np.rint(codes * self.steps_per_unit if self.steps_per_unit else codes / self.scale)
        # Beyond 2^63 a float64 cannot be cast to u64; counters do not get there.
        fits = (codes >= 0) & (codes <= min(self.limit_code, 2**63))
        encoded = np.where(fits, codes, 0).astype(self.dtype)
        return np.where(fits, encoded, self.dtype.type(self.top))

    def json_values(self, codes: NDArray[Any]) -> list[Any]:
        """Return the JSON values of codes (rows x width, or rows).

        Numbers and None, nested per row. Counters, bitmasks and whole scales stay integers, so that
        the code can be restored exactly.
        """
        plain = codes.astype(object)
        if self.steps_per_unit:
            plain = plain / self.steps_per_unit
        elif self.scale != 1:
            plain = plain * int(self.scale)
        plain[codes == self.top] = None
        return plain.tolist()  # type: ignore[no-any-return]  # NumPy types tolist as Any

    def code_of(self, value: float) -> int:
        """Return the wire code nearest to one value.

        Raises:
            ValueError: the value is negative or above the wire type's maximum.
        """
        code = (
            round(value * self.steps_per_unit) if self.steps_per_unit else round(value / self.scale)
        )
        if not 0 <= code < self.top:
            limit = (self.top - 1) * self.scale
            raise ValueError(f"{self.name} {value!r} is outside 0 to {limit:g} {self.unit}")
        return code


def lane_peak(metric: Metric) -> float:
    """Return the upper end of a metric's own scale for charts.

    Its `peak`, or the maximum of the wire type.
    """
    return metric.peak if metric.peak is not None else (metric.top - 1) * metric.scale


def chip_peak(metric: Metric, chip: ChipType) -> float:
    """Return the upper end of a metric's scale for one chip.

    The catalogue's, or the metric's own.
    """
    return lane_peak(metric) if metric.chip_peak is None else metric.chip_peak(chip)


def chip_step(metric: Metric) -> float:
    """Return the step of a chip's value while all lanes are known.

    A step of the wire code, or its share in a mean of lanes.
    """
    return metric.scale / (metric.width if metric.lane_aggregate is Aggregate.MEAN else 1)


CORES = tuple(f"nc{core}" for core in range(MOST_NEURONCORES))
"""NeuronCores of the chip with the most. A chip with fewer leaves the others not available."""
ENGINES = ("tensor", "vector", "scalar", "gpsimd")

HEALTH_BITS = (
    "hbm",
    "sram",
    "firmware_service_api",
    "firmware_service_processor",
    "link_intraserver",
    "link_host",
    "link_efa",
    "link_interserver",
    "link_switch",
    "axi_fabric",
)
"""Names of the bits of `health`, bit 0 first: the driver's `unhealthy_components`, in its order."""

_MEASURED, _MODELLED, _UNAVAILABLE = Origin.MEASURED, Origin.MODELLED, Origin.UNAVAILABLE
_PROFILER = "not available outside the profiler"


def _gauge(
    name: str,
    scope: Scope,
    wire: WireType,
    scale: float,
    unit: str,
    aggregate: Aggregate,
    **rest: Any,
) -> Metric:
    return Metric(name, scope, wire, scale, unit, aggregate, Kind.GAUGE, **rest)


def _counter(
    name: str,
    title: str,
    wire: WireType,
    text: str,
    source: str,
    scope: Scope = Scope.CHIP,
    *,
    is_simulated: bool = True,
) -> Metric:
    return Metric(
        name,
        scope,
        wire,
        1,
        "events",
        Aggregate.SUM,
        Kind.COUNTER,
        text,
        _MEASURED,
        source,
        title=title,
        is_simulated=is_simulated,
    )


METRICS: tuple[Metric, ...] = (
    _gauge(
        "nc_util_pct",
        Scope.CHIP,
        "u8",
        0.5,
        "%",
        Aggregate.MEAN,
        lanes=CORES,
        peak=100.0,
        title="NC util",
        has_history=True,
        help="Share of time in which a NeuronCore executes; busy time, not efficiency",
        real_host=_MEASURED,
        real_source="neuron-monitor neuroncore_utilization",
    ),
    _gauge(
        "engine_util_pct",
        Scope.CHIP,
        "u8",
        0.5,
        "%",
        Aggregate.MEAN,
        lanes=ENGINES,
        peak=100.0,
        title="engines",
        help="Share of time in which an engine is active, mean over the chip's cores",
        real_host=_UNAVAILABLE,
        real_source=_PROFILER,
    ),
    _gauge(
        "tflops",
        Scope.CHIP,
        "u16",
        0.05,
        "TFLOP/s",
        Aggregate.SUM,
        title="compute",
        chip_peak=lambda chip: chip.bf16_dense_flops.value / 1e12,
        has_history=True,
        help="Floating-point rate achieved",
        real_host=_MEASURED,
        real_source="neuron-monitor flops or effective_flops",
    ),
    _gauge(
        "hbm_used_bytes",
        Scope.CHIP,
        "u16",
        2**22,
        "bytes",
        Aggregate.SUM,
        title="HBM used",
        chip_peak=lambda chip: chip.hbm_bytes.value,
        has_history=True,
        help="High-bandwidth memory in use",
        real_host=_MEASURED,
        real_source="neuron-monitor neuroncore_memory_usage",
    ),
    _gauge(
        "hbm_read_bytes_per_s",
        Scope.CHIP,
        "u16",
        1e8,
        "bytes/s",
        Aggregate.SUM,
        title="HBM read",
        chip_peak=lambda chip: chip.hbm_bytes_per_s.value,
        help="High-bandwidth memory read rate",
        real_host=_UNAVAILABLE,
        real_source=_PROFILER,
    ),
    _gauge(
        "hbm_write_bytes_per_s",
        Scope.CHIP,
        "u16",
        1e8,
        "bytes/s",
        Aggregate.SUM,
        title="HBM write",
        chip_peak=lambda chip: chip.hbm_bytes_per_s.value,
        help="High-bandwidth memory write rate",
        real_host=_UNAVAILABLE,
        real_source=_PROFILER,
    ),
    _gauge(
        "link_tx_bytes_per_s",
        Scope.CHIP,
        "u16",
        1e7,
        "bytes/s",
        Aggregate.SUM,
        lanes=DIRECTIONS,
        title="link tx",
        chip_peak=links_bytes_per_s,
        has_history=True,
        lane_aggregate=Aggregate.SUM,
        help="NeuronLink send rate for each direction of the torus",
        real_host=_UNAVAILABLE,
        real_source=_PROFILER,
    ),
    _gauge(
        "link_rx_bytes_per_s",
        Scope.CHIP,
        "u16",
        1e7,
        "bytes/s",
        Aggregate.SUM,
        lanes=DIRECTIONS,
        title="link rx",
        chip_peak=links_bytes_per_s,
        lane_aggregate=Aggregate.SUM,
        help="NeuronLink receive rate for each direction of the torus",
        real_host=_UNAVAILABLE,
        real_source=_PROFILER,
    ),
    Metric(
        "links_up",
        Scope.CHIP,
        "u8",
        1,
        "bitmask",
        Aggregate.AND,
        Kind.BITMASK,
        "NeuronLinks that are up, bit 0 north, then south, west, east, z_prev, z_next",
        _UNAVAILABLE,
        "not available",
    ),
    _gauge(
        "power_w",
        Scope.CHIP,
        "u16",
        0.1,
        "W",
        Aggregate.SUM,
        title="power",
        chip_peak=lambda chip: chip.power_max_w.value,
        has_history=True,
        help="Electrical power of the chip, between background and maximum",
        real_host=_MODELLED,
        real_source="modelled from power_util_pct; AWS publishes no wattage",
    ),
    _gauge(
        "power_util_pct",
        Scope.CHIP,
        "u16",
        0.01,
        "%",
        Aggregate.MEAN,
        peak=100.0,
        title="power util",
        help="Share of the chip's maximum power above its background, mean of the last minute",
        real_host=_MEASURED,
        real_source="sysfs stats/power/utilization, average of the last wall-clock minute",
    ),
    _gauge(
        "power_util_max_pct",
        Scope.CHIP,
        "u16",
        0.01,
        "%",
        Aggregate.MAX,
        peak=100.0,
        title="power max",
        help="Share of the chip's maximum power above its background, largest of the last minute",
        real_host=_MEASURED,
        real_source="sysfs stats/power/utilization, maximum of the last wall-clock minute",
        is_simulated=False,
    ),
    _gauge(
        "temperature_c",
        Scope.CHIP,
        "u16",
        0.1,
        "degC",
        Aggregate.MAX,
        peak=110.0,
        title="temp",
        has_history=True,
        help="Junction temperature",
        real_host=_UNAVAILABLE,
        real_source="no Neuron interface has a temperature",
    ),
    _gauge(
        "throttle_pct",
        Scope.CHIP,
        "u8",
        0.5,
        "%",
        Aggregate.MAX,
        peak=100.0,
        title="throttle",
        has_history=True,
        help="Share of peak that the chip withholds because of heat or a limit of power",
        real_host=_UNAVAILABLE,
        real_source=_PROFILER,
    ),
    _counter(
        "mem_ecc_corrected",
        "HBM CE",
        "u32",
        "HBM errors corrected by ECC",
        "neuron-monitor neuron_hw_counters",
    ),
    _counter(
        "mem_ecc_uncorrected",
        "HBM UE",
        "u32",
        "HBM errors that ECC could not correct",
        "neuron-monitor, sysfs",
    ),
    _counter(
        "mem_ecc_repairable_uncorrected",
        "HBM repair",
        "u32",
        "HBM errors that ECC could not correct and that a reload of the driver repairs",
        "sysfs, which counts them apart from mem_ecc_uncorrected",
        is_simulated=False,
    ),
    _counter(
        "sram_ecc_corrected",
        "SRAM CE",
        "u32",
        "SRAM errors corrected by ECC",
        "neuron-monitor neuron_hw_counters",
    ),
    _counter(
        "sram_ecc_uncorrected",
        "SRAM UE",
        "u32",
        "SRAM errors that ECC could not correct",
        "neuron-monitor, sysfs",
    ),
    _counter(
        "exec_completed",
        "execs",
        "u64",
        "Executions completed",
        "sysfs per core, neuron-monitor per runtime",
    ),
    _counter(
        "exec_errors",
        "exec err",
        "u32",
        "Executions that ended in an error",
        "sysfs per core, neuron-monitor per runtime",
    ),
    Metric(
        "health",
        Scope.CHIP,
        "u16",
        1,
        "bitmask",
        Aggregate.OR,
        Kind.BITMASK,
        "Unhealthy components, bit 0 first: " + ", ".join(HEALTH_BITS),
        _MEASURED,
        "sysfs health_status/unhealthy_components",
    ),
    _gauge(
        "host_power_w",
        Scope.INSTANCE,
        "u16",
        1,
        "W",
        Aggregate.SUM,
        title="host power",
        help="Power of the host without its chips",
        real_host=_UNAVAILABLE,
        real_source="not available to a guest",
    ),
    _gauge(
        "vcpu_util_pct",
        Scope.INSTANCE,
        "u8",
        0.5,
        "%",
        Aggregate.MEAN,
        peak=100.0,
        title="vCPU",
        help="Share of vCPU time in use",
        real_host=_MEASURED,
        real_source="neuron-monitor vcpu_usage",
    ),
    _gauge(
        "host_memory_used_bytes",
        Scope.INSTANCE,
        "u32",
        2**20,
        "bytes",
        Aggregate.SUM,
        title="host memory",
        help="Host memory in use",
        real_host=_MEASURED,
        real_source="neuron-monitor memory_info",
    ),
    _gauge(
        "efa_tx_bytes_per_s",
        Scope.INSTANCE,
        "u16",
        1e7,
        "bytes/s",
        Aggregate.SUM,
        title="EFA tx",
        help="EFA send rate, all adapters",
        real_host=_MEASURED,
        real_source="sysfs infiniband hw_counters",
    ),
    _gauge(
        "efa_rx_bytes_per_s",
        Scope.INSTANCE,
        "u16",
        1e7,
        "bytes/s",
        Aggregate.SUM,
        title="EFA rx",
        help="EFA receive rate, all adapters",
        real_host=_MEASURED,
        real_source="sysfs infiniband hw_counters",
    ),
    _counter(
        "efa_retransmits",
        "EFA resent",
        "u32",
        "EFA packets sent again, all adapters",
        "sysfs infiniband hw_counters retrans_pkts",
        Scope.INSTANCE,
    ),
    _counter(
        "efa_impaired_remote_conn_events",
        "EFA impair.",
        "u32",
        "EFA connections that became impaired, all adapters",
        "sysfs infiniband hw_counters impaired_remote_conn_events",
        Scope.INSTANCE,
        is_simulated=False,
    ),
    _counter(
        "efa_unresponsive_remote_events",
        "EFA unresp.",
        "u32",
        "EFA peers that became unresponsive, all adapters",
        "sysfs infiniband hw_counters unresponsive_remote_events",
        Scope.INSTANCE,
        is_simulated=False,
    ),
    _gauge(
        "exec_latency_p50_s",
        Scope.INSTANCE,
        "u32",
        1e-6,
        "s",
        Aggregate.MAX,
        title="exec p50",
        help="Median latency of an execution",
        real_host=_MEASURED,
        real_source="neuron-monitor latency_stats",
    ),
    _gauge(
        "exec_latency_p99_s",
        Scope.INSTANCE,
        "u32",
        1e-6,
        "s",
        Aggregate.MAX,
        title="exec p99",
        help="Latency that 99 % of executions stay under",
        real_host=_MEASURED,
        real_source="neuron-monitor latency_stats",
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}
CHIP_METRICS = tuple(metric for metric in METRICS if metric.scope is Scope.CHIP)
INSTANCE_METRICS = tuple(metric for metric in METRICS if metric.scope is Scope.INSTANCE)
SIMULATED = tuple(metric for metric in METRICS if metric.is_simulated)
"""Metrics that simulators publish."""

JOB_FIGURES: dict[str, str] = {
    "steps_per_s": "Optimizer steps a second",
    "tokens_per_s": "Tokens trained on or generated a second",
    "ttft_s": "Time to the first token",
    "tpot_s": "Time for each further token",
    "step_time_s": "Time of one step",
    "ideal_step_s": "Time of one step when nothing is slow, by the job's plan",
    "mfu": "Model FLOP/s utilisation: useful FLOP/s over the peak of the job's chips, 0 to 1",
    "steps_completed": (
        "Number of the optimizer step that the job has come to, lost steps not counted"
    ),
    "steps_lost": "Steps made and lost so far, because no checkpoint held them",
    "restarts": "Times that the job has started again so far",
    "goodput": "Productive share of the job's wall time so far, 0 to 1",
    "availability": "Mean share of its replicas that served so far, 0 to 1",
    "kv_cache_share": "Share of the KV cache's blocks in use, 0 to 1",
    "batch": "Mean number of sequences in the batch (continuous batching)",
}
"""Figures of a job's message and their meanings; null if meaningless for the job's kind."""
LASTING_JOB_FIGURES = frozenset(
    {"steps_completed", "steps_lost", "restarts", "goodput", "availability"}
)
"""Job figures counted from the start of the simulation. Over a time the last value counts, where
others are averaged."""
