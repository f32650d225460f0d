"""Scrapes of Neuron Observer as documents of neuron-monitor.

Its names are `neuron_SCOPE_NAME`, counters with `_total`. A series with a core or device is read;
what Observer has added up for the host, and what has no metric here, is counted by name.
"""

from __future__ import annotations

import enum
import functools
import re
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.bridge.neuron.fields import FAILED, HARDWARE_ERRORS, UTILISATION
from trnfleet.bridge.neuron.host_reader import OBSERVER
from trnfleet.domain.metrics import MOST_PCT

if TYPE_CHECKING:
    from collections.abc import Mapping

UTILISATION_NAME = "neuron_core_utilization"
SYSTEM_INFO = "neuron_system_info"
DEVICE_INFO = "neuron_device_info"
_NAME = re.compile(r"neuron_(?:core|device|process|vcpu|system|efa)_\w+")


class SeriesSample(NamedTuple):
    """One value of a series."""

    name: str
    labels: dict[str, str]
    value: float
    """NaN if missing or not finite; `problem` names the reason."""
    problem: str
    ts_ns: int | None
    """Time of the sample; None without a timestamp, as in an exporter's own text."""


class DocumentPart(enum.Enum):
    """Part of a document."""

    CORE = enum.auto()
    """Counters of a core."""
    COUNT = enum.auto()
    """Executions of a core, a counter."""
    MEMORY = enum.auto()
    """Device memory of a core."""
    DEVICE = enum.auto()
    EFA = enum.auto()
    """Counters of all adapters."""
    CAUSE = enum.auto()
    """Failed executions of a process by cause, a counter."""
    LATENCY = enum.auto()
    VCPU = enum.auto()
    HOST_MEMORY = enum.auto()


class DocumentPlace(NamedTuple):
    """Place of a metric's values in a document."""

    group: DocumentPart
    key: str


class SeriesPlace(NamedTuple):
    """Place of a series' values in a document."""

    part: DocumentPart
    key: str
    row: int = 0
    """Number of the device, or of the process in its layout."""
    series: tuple[str, str, str] | None = None
    """Key of a counter in the host's `Totals`."""
    core: str = ""


Totals = dict[tuple[str, str, str], float]
"""Counters of a host as they were last, by process, metric and kind."""
shared_place = functools.lru_cache(maxsize=2**16)(SeriesPlace)
"""A place without counter; one object for all hosts, which have thousands each."""


TOTAL = "total"
"""Key of a core's memory with all of its parts."""
_MEMORY = (
    "constants",
    "tensors",
    "model_code",
    "model_shared_scratchpad",
    "nonshared_scratchpad",
    "runtime_memory",
    "driver_memory",
    "collectives",
    "notifications",
    "dma_rings",
    "uncategorized",
)
_VCPU = {
    "user": "user",
    "nice": "nice",
    "system": "system",
    "idle": "idle",
    "iowait": "io_wait",
    "irq": "irq",
    "softirq": "soft_irq",
}
UNREPAIRABLE = "mem_ecc_unrepairable_uncorrected"
"""HBM errors without the repairable ones, as the driver counts `mem_ecc_uncorrected`."""
PLACES: Mapping[str, DocumentPlace] = {
    "core_utilization": DocumentPlace(DocumentPart.CORE, UTILISATION),
    "core_effective_flops": DocumentPlace(DocumentPart.CORE, "effective_flops"),
    **{
        f"core_infer_{key}": DocumentPlace(DocumentPart.COUNT, key)
        for key in ("completed", *FAILED)
    },
    **{f"core_{key}": DocumentPlace(DocumentPart.COUNT, key) for key in HARDWARE_ERRORS},
    **{f"core_device_mem_{part}": DocumentPlace(DocumentPart.MEMORY, part) for part in _MEMORY},
    "core_mem_usage_total_device": DocumentPlace(DocumentPart.MEMORY, TOTAL),
    "device_power_avg": DocumentPlace(DocumentPart.DEVICE, "power_utilization"),
    "device_power_max": DocumentPlace(DocumentPart.DEVICE, "power_utilization_max"),
    **{
        f"device_{key}": DocumentPlace(DocumentPart.DEVICE, key)
        for key in (
            "mem_ecc_corrected",
            "mem_ecc_uncorrected",
            UNREPAIRABLE,
            "mem_ecc_repairable_uncorrected",
            "sram_ecc_corrected",
            "sram_ecc_uncorrected",
        )
    },
    **{
        f"{scope}_{name}_percent": DocumentPlace(DocumentPart.VCPU, key)
        for name, key in _VCPU.items()
        for scope in ("vcpu", "vcpu_vcpu", "system_vcpu")
    },
    "efa_retrans_pkts": DocumentPlace(DocumentPart.EFA, "efa_retransmits"),
    **{
        f"efa_{key}": DocumentPlace(DocumentPart.EFA, f"efa_{key}")
        for key in ("impaired_remote_conn_events", "unresponsive_remote_events")
    },
    "system_memory_used_bytes": DocumentPlace(DocumentPart.HOST_MEMORY, "memory_used_bytes"),
}
"""Place of each metric, named without `neuron_` and `_total`. Published: names of the exports of
the Helm chart for Observer 0.2.0; the scope of vCPUs is assumed."""
SYSTEM_LABELS = {
    "instance_name": "instance_name",
    "instance_id": "instance_id",
    "instance_type": "instance_type",
    "ultraserver_id": "ultraserver_id",
}
"""Keys of `instance_info` by label of `neuron_system_info`."""
DEVICE_LABELS = {
    "device_name": "neuron_device_type",
    "core_arch_type": "neuroncore_version",
    "logical_neuroncore_per_device_count": "neuroncore_per_device_count",
    "logical_neuroncore_config": "logical_neuroncore_config",
    "driver_version": "neuron_driver_version",
}
"""Keys of `neuron_hardware_info` by label of `neuron_device_info`."""
_TARGET = frozenset({"instance", "job", "neuron_device_index"})


class UtilisationUnit:
    """Unit of utilisation, one for all hosts of a source, because it is not documented.

    Without a given unit it is a ratio until a value shows that it is percent.
    """

    def __init__(self, given: str | None = None) -> None:
        """Expect `ratio` or `percent`, or find out."""
        self.is_percent = given == "percent"
        self.reason = "as given" if given else "no value above 1.5"
        self._is_given = given is not None

    def note(self, value: float, line: int) -> None:
        """Look at a value. One beyond 101 is impossible in either unit, and shows nothing."""
        if not self.is_percent and not self._is_given and 1.5 < value <= MOST_PCT:
            self.is_percent = True
            self.reason = f"{value:g} on line {line}"

    def text(self) -> str:
        """Return the unit with its reason."""
        return f"utilization is {'percent' if self.is_percent else 'a ratio'}: {self.reason}"


def is_name(name: str) -> bool:
    """Return whether a metric is Observer's."""
    return _NAME.fullmatch(name) is not None


def growth(totals: Totals, series: tuple[str, str, str], value: float) -> float:
    """Return the growth of a counter, and continue with it.

    A counter that fell began again with its exporter. One without a valid value stays.
    """
    last = totals.get(series, 0.0)
    if not 0 <= value < 1e18:
        return value
    totals[series] = value
    return value - last if value >= last else value


class ObserverLayout:
    """The series of a scrape by their names, and the document that their values make.

    Each core of a process is a process.
    """

    metrics = OBSERVER

    def __init__(self, samples: list[SeriesSample]) -> None:
        """Find the place of each series.

        Args:
            samples: All of one host and time; their values do not matter.
        """
        self.unread: Counter[str] = Counter()
        """Series by name without a place in a document, and labels."""
        self.utilisation = [
            number for number, sample in enumerate(samples) if sample.name == UTILISATION_NAME
        ]
        """Numbers of the series whose unit is not documented."""
        self._instance, self._hardware = _infos(samples, self.unread)
        self._cores: dict[tuple[str, int], int] = {}
        per_device = self._hardware.get("neuroncore_per_device_count")
        self.places = [self._place(sample, per_device) for sample in samples]

    def _place(self, sample: SeriesSample, per_device: object) -> SeriesPlace | None:
        """Return the place of a series; None, and counted, without one."""
        name = sample.name
        labels = sample.labels
        if name in {SYSTEM_INFO, DEVICE_INFO}:
            return None
        group, key = PLACES.get(name.removeprefix("neuron_").removesuffix("_total"), (None, ""))
        if group in {DocumentPart.CORE, DocumentPart.COUNT, DocumentPart.MEMORY}:
            core = _core(labels, per_device)
            if core is not None:
                tag = labels.get("runtime_tag", "")
                row = self._cores.setdefault((tag, core), len(self._cores))
                if group is DocumentPart.COUNT:
                    return SeriesPlace(group, key, row, (tag, name, str(core)))
                return shared_place(group, key, row)
        elif group is DocumentPart.DEVICE:
            device = number_of(labels, "neuron_device_index")
            if device is not None:
                return shared_place(group, key, device)
        elif group is DocumentPart.EFA:
            adapter = "/".join(labels.get(key, "") for key in ("efa_device", "efa_port"))
            return SeriesPlace(group, key, series=(adapter, name, ""))
        elif group is not None:
            return shared_place(group, key)
        count_name(self.unread, name)
        return None

    def document(
        self, values: list[float], totals: Totals, unit: UtilisationUnit
    ) -> dict[str, Any]:
        """Return a scrape as a document.

        Args:
            values: The value of each series.
            totals: The host's counters, continued.
            unit: Unit of utilisation.
        """
        cores: list[dict[DocumentPart, dict[str, float]]] = [{} for _ in self._cores]
        devices: dict[int, dict[str, Any]] = {}
        vcpus: defaultdict[str, list[float]] = defaultdict(list)
        memory: dict[str, float] = {}
        efa: defaultdict[str, float] = defaultdict(float)
        scale = 1.0 if unit.is_percent else 100.0
        for place, value in zip(self.places, values, strict=True):
            if place is None:
                continue
            part, key, row, series, _ = place
            if part is DocumentPart.CORE:
                of_core = cores[row].setdefault(part, {})
                of_core[key] = value * scale if key == UTILISATION else value
            elif part is DocumentPart.MEMORY:
                cores[row].setdefault(part, {})[key] = value
            elif part is DocumentPart.COUNT and series is not None:
                cores[row].setdefault(part, {})[key] = growth(totals, series, value)
            elif part is DocumentPart.DEVICE:
                devices.setdefault(row, {"neuron_device_index": row})[key] = value
            elif part is DocumentPart.VCPU:
                vcpus[key].append(value)
            elif part is DocumentPart.HOST_MEMORY:
                memory[key] = value
            elif series is not None:
                efa[key] += growth(totals, series, value)
        for counters in devices.values():
            if UNREPAIRABLE in counters:
                counters["mem_ecc_uncorrected"] = counters.pop(UNREPAIRABLE)
        runtimes = [_runtime(tag, core, cores[row]) for (tag, core), row in self._cores.items()]
        # A core without series is unknown, not idle.
        runtimes.append({"error": "cores without series are not known", "report": {}})
        return {
            "neuron_runtime_data": runtimes,
            "system_data": {
                "neuron_hw_counters": {"neuron_devices": list(devices.values())},
                "vcpu_usage": {
                    "average_usage": {
                        key: statistics.fmean(values) for key, values in vcpus.items()
                    }
                },
                "memory_info": memory,
                "efa": dict(efa),
            },
            "instance_info": self._instance,
            "neuron_hardware_info": self._hardware,
        }


def count_name(unread: Counter[str], name: str, times: int = 1) -> None:
    """Count series or labels; names of bounded number."""
    unread[name if name in unread or len(unread) < 256 else "other names"] += times


def _infos(
    samples: list[SeriesSample], unread: Counter[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return `instance_info` and `neuron_hardware_info`; count labels without a place there."""
    instance: dict[str, str] = {}
    hardware: dict[str, Any] = {}
    indexes: set[str] = set()
    for sample in samples:
        if sample.name not in {SYSTEM_INFO, DEVICE_INFO}:
            continue
        is_system = sample.name == SYSTEM_INFO
        for label, text in sample.labels.items():
            if is_system and label in SYSTEM_LABELS:
                instance[SYSTEM_LABELS[label]] = text
            elif not is_system and label in DEVICE_LABELS:
                is_count = label.startswith("logical_")
                hardware[DEVICE_LABELS[label]] = (
                    number_of(sample.labels, label) if is_count else text
                )
            elif label not in _TARGET:
                count_name(unread, f"{sample.name}{{{label}}}")
        if not is_system:
            indexes.add(sample.labels.get("neuron_device_index", ""))
    if indexes:
        hardware["neuron_device_count"] = len(indexes)
    if "neuron_device_type" in hardware:
        hardware["neuron_device_type"] = str(hardware["neuron_device_type"]).lower()
    return instance, hardware


def _runtime(tag: str, core: int, groups: dict[DocumentPart, dict[str, float]]) -> dict[str, Any]:
    """Return a core's values as a process."""
    report: dict[str, Any] = {
        "neuroncore_counters": {
            "neuroncores_in_use": {str(core): groups.get(DocumentPart.CORE, {})}
        }
    }
    if parts := groups.get(DocumentPart.MEMORY):
        parts = {TOTAL: parts[TOTAL]} if TOTAL in parts else parts
        used = {"usage_breakdown": {"neuroncore_memory_usage": {str(core): parts}}}
        report["memory_used"] = {"neuron_runtime_used_bytes": used}
    if counts := groups.get(DocumentPart.COUNT):
        report["execution_stats"] = {"execution_summary": counts}
    return {"neuron_runtime_tag": tag, "report": report}


def _core(labels: dict[str, str], per_device: object) -> int | None:
    """Return a logical core as the host numbers it; None if it cannot be told.

    Cores are numbered by device or by host.
    """
    core = number_of(labels, "neuroncore")
    device = number_of(labels, "neuron_device_index")
    if core is None or device is None:
        return core
    if not isinstance(per_device, int) or per_device <= 0:
        return None if device else core
    first = device * per_device
    if core < per_device:
        return first + core
    return core if first <= core < first + per_device else None


def number_of(labels: dict[str, str], key: str) -> int | None:
    """Return a label's whole number."""
    text = labels.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
