"""Scrapes of Neuron Observer as documents of neuron-monitor.

Its names are `neuron_SCOPE_NAME`, counters with `_total`. A series with a core or device is read;
what Observer has added up for the host, and what has no metric here, is counted by name.
"""

from __future__ import annotations

import enum
import re
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.bridge.neuron.fields import FAILED, HARDWARE_ERRORS, UTILISATION
from trnfleet.domain.metrics import MOST_PCT

if TYPE_CHECKING:
    from collections import Counter
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
    VCPU = enum.auto()
    HOST_MEMORY = enum.auto()


class DocumentPlace(NamedTuple):
    """Place of a value in a document."""

    group: DocumentPart
    key: str


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
_INSTANCE = {
    "instance_name": "instance_name",
    "instance_id": "instance_id",
    "instance_type": "instance_type",
    "ultraserver_id": "ultraserver_id",
}
"""Keys of `instance_info` by label of `neuron_system_info`."""
_HARDWARE = {
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


def growth(
    totals: dict[tuple[str, str, str], float], series: tuple[str, str, str], value: float
) -> float:
    """Return the growth of a counter, and continue with it.

    A counter that fell began again with its exporter. One without a valid value stays.
    """
    last = totals.get(series, 0.0)
    if not 0 <= value < 1e18:
        return value
    totals[series] = value
    return value - last if value >= last else value


def document_of(
    samples: list[SeriesSample],
    totals: dict[tuple[str, str, str], float],
    unit: UtilisationUnit,
    unread: Counter[str],
) -> dict[str, Any]:
    """Return a scrape as a document, in which each core of a process is one.

    Args:
        samples: All of one host and time.
        totals: The host's counters, continued.
        unit: Unit of utilisation.
        unread: Continued with the number of series by name without a place in a document.
    """
    instance, hardware = _infos(samples, unread)
    per_device = hardware.get("neuroncore_per_device_count")
    cores: dict[tuple[str, int], dict[DocumentPart, dict[str, float]]] = {}
    devices: dict[int, dict[str, Any]] = {}
    vcpus: defaultdict[str, list[float]] = defaultdict(list)
    memory: dict[str, float] = {}
    efa: defaultdict[str, float] = defaultdict(float)
    for sample in samples:
        name = sample.name
        value = sample.value
        if name in {SYSTEM_INFO, DEVICE_INFO}:
            continue
        place = PLACES.get(name.removeprefix("neuron_").removesuffix("_total"))
        core = _core(sample.labels, per_device)
        device = number_of(sample.labels, "neuron_device_index")
        group = None if place is None else place.group
        if (
            place is not None
            and group in {DocumentPart.CORE, DocumentPart.COUNT, DocumentPart.MEMORY}
            and core is not None
        ):
            tag = sample.labels.get("runtime_tag", "")
            if group is DocumentPart.COUNT:
                value = growth(totals, (tag, name, str(core)), value)
            elif name == UTILISATION_NAME and not unit.is_percent:
                value *= 100.0
            cores.setdefault((tag, core), {}).setdefault(place.group, {})[place.key] = value
        elif place is not None and group is DocumentPart.DEVICE and device is not None:
            devices.setdefault(device, {"neuron_device_index": device})[place.key] = value
        elif place is not None and group is DocumentPart.VCPU:
            vcpus[place.key].append(value)
        elif place is not None and group is DocumentPart.HOST_MEMORY:
            memory[place.key] = value
        elif place is not None and group is DocumentPart.EFA:
            adapter = "/".join(sample.labels.get(key, "") for key in ("efa_device", "efa_port"))
            efa[place.key] += growth(totals, (adapter, name, ""), value)
        else:
            _count(unread, name)
    for counters in devices.values():
        if UNREPAIRABLE in counters:
            counters["mem_ecc_uncorrected"] = counters.pop(UNREPAIRABLE)
    runtimes = [_runtime(tag, core, groups) for (tag, core), groups in cores.items()]
    # A core without series is unknown, not idle.
    runtimes.append({"error": "cores without series are not known", "report": {}})
    return {
        "neuron_runtime_data": runtimes,
        "system_data": {
            "neuron_hw_counters": {"neuron_devices": list(devices.values())},
            "vcpu_usage": {
                "average_usage": {key: statistics.fmean(values) for key, values in vcpus.items()}
            },
            "memory_info": memory,
            "efa": dict(efa),
        },
        "instance_info": instance,
        "neuron_hardware_info": hardware,
    }


def _count(unread: Counter[str], name: str) -> None:
    """Count a series or label; names of bounded number."""
    unread[name if name in unread or len(unread) < 256 else "other names"] += 1


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
            if is_system and label in _INSTANCE:
                instance[_INSTANCE[label]] = text
            elif not is_system and label in _HARDWARE:
                is_count = label.startswith("logical_")
                hardware[_HARDWARE[label]] = number_of(sample.labels, label) if is_count else text
            elif label not in _TARGET:
                _count(unread, f"{sample.name}{{{label}}}")
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
