"""A host as `neuron-monitor` describes it, as wire codes of one instance and its chips.

Owns who the host is, and its columns. It knows neither topics nor files.

What neuron-monitor does not have (power, temperature, bandwidths, links, health, EFA) has no
column, unless the driver's sysfs tree has it.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.bridge.neuron.devices import DeviceList
from trnfleet.bridge.neuron.fields import Doubts, object_of, parse_document, period_of, text_of
from trnfleet.bridge.neuron.values import (
    ECC_READ,
    EFA,
    Chips,
    FailedExecutions,
    NeuronCounters,
    values_of,
)
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    TRAINIUM3,
    InstanceType,
    find_instance_type,
    present_name,
)
from trnfleet.domain.metrics import BY_NAME, METRICS, Kind, Scope
from trnfleet.errors import ConfigError, WireError
from trnfleet.wire.telemetry import reason_above

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from trnfleet.bridge.neuron.sysfs import SysfsValues


DEFAULT_PERIOD_S = 5.0
"""neuron-monitor's default period; used until a document has its own."""

NEURON_MONITOR = (
    "nc_util_pct",
    "tflops",
    "hbm_used_bytes",
    "mem_ecc_corrected",
    "mem_ecc_uncorrected",
    "sram_ecc_corrected",
    "sram_ecc_uncorrected",
    "exec_completed",
    "exec_errors",
    "vcpu_util_pct",
    "host_memory_used_bytes",
    "exec_latency_p50_s",
    "exec_latency_p99_s",
)
"""Metrics that a document of neuron-monitor can have."""
EXPORTER = tuple(name for name in NEURON_MONITOR if name != "tflops")
"""Metrics that the text of neuron-monitor-prometheus can have."""
OBSERVER = (
    *(name for name in NEURON_MONITOR if not name.startswith("exec_latency")),
    "power_util_pct",
    "power_util_max_pct",
    "mem_ecc_repairable_uncorrected",
    *EFA,
)
"""Metrics that the text of Neuron Observer can have."""
_GENERATION = re.compile(r"(?:trn|inf)\d+")
"""Begin of an instance type's name, of Trainium or Inferentia."""

Columns = dict[str, "NDArray[Any]"]


class HostReader:
    """Reads the documents of one host, one after another.

    A runtime lists its cores, or all of the host's. Its own are those with memory or work, else all
    listed. A chip without a runtime is idle: 0 % is measured, not missing, if all runtimes list
    their cores.

    Two runtimes on one core are summed. Executions are counted by runtime and distributed evenly
    among its cores, so that the chips' counters add up to the host's. ECC counts are read as
    cumulative, or per period if they fall (it is disputed which they are). Each becomes a counter
    that never falls.
    """

    def __init__(
        self,
        device_list: DeviceList | None = None,
        metrics: Collection[str] = NEURON_MONITOR,
        sysfs: SysfsValues | None = None,
    ) -> None:
        """Wait for the first document.

        Args:
            device_list: What neuron-ls says of the host or container; without it device 0 is chip
                0.
            metrics: Metrics that the host's documents can have.
            sysfs: Values of the driver's tree, for what the documents do not know.
        """
        self._metrics = {*metrics, *(sysfs.metrics if sysfs else ())}
        self._sysfs = sysfs
        self._is_live = False
        """Whether the tree is read again and again."""
        self._instance: Mapping[str, float] = {}
        """Values of the instance from elsewhere."""
        self._is_of_tree: dict[str, NDArray[np.bool_]] = {}
        """Mask of the chips whose counter is a live tree's, by counter."""
        self._is_counted: dict[str, NDArray[np.bool_]] = {}
        """Mask of the chips that documents have counted for, by counter."""
        self.filled: set[str] = set()
        """Metrics that the driver's tree has filled on any chip."""
        self.columns: Columns = {}
        """Wire codes of the metrics that the documents can have, rewritten in place with each
        document. A row per chip, one row for the instance."""
        self.period_s = DEFAULT_PERIOD_S
        """Seconds that the last document covers."""
        self.ec2_id: str | None = None
        self.host = ""
        """The instance's name tag; empty without one."""
        self.ultraserver = sysfs.ultraserver if sysfs else ""
        """Id of the instance's UltraServer; empty if unknown."""
        self.lnc: int | None = None
        """Physical cores of a logical one."""
        self.versions = {"driver": sysfs.driver} if sysfs and sysfs.driver else {}
        """Versions of the host's hardware, by name."""
        self.doubts = Doubts()
        """Impossible values of the last document, treated as not available."""
        self.revision = 0
        """Goes up when EC2 id, LNC, name or versions change."""
        self.chips: Chips | None = None
        """Where cores and devices of the last document are; None before the first."""
        self._kind: InstanceType | None = None
        self._device_list = device_list
        self._placed: dict[int, int] | None = None
        """Chip of each device that neuron-ls lists."""
        self._counters = NeuronCounters(0)

    @property
    def kind(self) -> InstanceType:
        """The instance's type; only after a document was read."""
        if self._kind is None:
            raise LookupError("no document has been read")
        return self._kind

    @property
    def tagged(self) -> dict[str, set[int]]:
        """Chips of each process tag (`NEURON_PROCESS_TAG`), in the last document."""
        return self._counters.tagged

    def update(self, sysfs: SysfsValues | None, instance: Mapping[str, float]) -> None:
        """Use new values of the driver's tree and of the instance from the next document on.

        Columns are added for metrics that become known; none is removed.
        """
        self._is_live = True
        self._instance = instance
        self._sysfs = sysfs
        driver = sysfs.driver if sysfs is not None else ""
        if driver and driver != self.versions.get("driver"):
            self.versions = {**self.versions, "driver": driver}
            self.revision += 1
        self.add_metrics({*instance, *(sysfs.metrics if sysfs is not None else ())})

    def add_metrics(self, names: Collection[str]) -> None:
        """Add columns for metrics that the host can have."""
        if self._metrics.issuperset(names):
            return
        self._metrics.update(names)
        if self.columns:
            self._make_columns()
            self.revision += 1

    def _make_columns(self) -> None:
        self.columns = {
            metric.name: metric.blank(self.kind.chips if metric.scope is Scope.CHIP else 1)
            for metric in METRICS
            if metric.name in self._metrics
        }

    def read(self, document: bytes) -> Columns:
        """Take a document and return the columns, which it has rewritten.

        Raises:
            WireError: it is not JSON, not a document, or of another host than those before it.
            ConfigError: the first one's instance type is not in the hardware catalogue; the message
                names the nearest.
        """
        return self.read_parsed(parse_document(document))

    def read_parsed(self, data: dict[str, Any], *, keeps_tags: bool = False) -> Columns:
        """Return the columns of a parsed document.

        Args:
            data: The document.
            keeps_tags: Whether it stands for one that is late, so that its processes are those of
                the last one.
        """
        tagged = self._counters.tagged
        kind = self._identify(data)
        if not self.columns:
            self._make_columns()
            self._counters = NeuronCounters(kind.chips)
        self.period_s = period_of(data) or self.period_s
        self.doubts = Doubts()
        chips = self.chips = self._chips(object_of(data, "neuron_hardware_info"), kind)
        values = values_of(data, chips, self._counters, self.doubts)
        if keeps_tags:
            self._counters.tagged = tagged
        if self._sysfs is not None:
            self._fill(values, self._sysfs)
        for name, value in self._instance.items():
            values[name] = np.array([value])
        self._write(values)
        return self.columns

    @property
    def failures(self) -> tuple[FailedExecutions, ...]:
        """Failed executions of the last document."""
        return self._counters.failures

    def _fill(self, values: dict[str, NDArray[np.float64]], sysfs: SysfsValues) -> None:
        """Fill unknown values from the driver's tree.

        A counter of the tree began when the driver was loaded, and one of documents with the first.
        So a chip's is the tree's only until a document has counted. Of a live tree it is the first
        source's for good, because the sources begin at different values. Documents come first for
        executions, which they count each period.
        """
        chips = self.kind.chips
        for name in sysfs.metrics | self._is_of_tree.keys():
            told = values.get(name, np.full(chips, math.nan))
            column = sysfs.column(name, chips)
            is_open = np.isnan(told)
            if BY_NAME[name].kind is Kind.COUNTER:
                counted = self._is_counted.setdefault(name, np.zeros(chips, np.bool_))
                if self._is_live:
                    of_tree = self._is_of_tree.setdefault(name, np.zeros(chips, np.bool_))
                    if name in ECC_READ:
                        of_tree |= ~np.isnan(column) & ~counted
                    counted |= ~is_open & ~of_tree
                    of_tree |= ~np.isnan(column) & ~counted
                    is_open = of_tree
                else:
                    counted |= ~is_open
                    is_open &= ~counted
            elif name == "hbm_used_bytes":
                # Without a process a chip has the driver's memory, which documents leave out.
                is_open |= told == 0
            values[name] = np.where(is_open, column, told)
            if not np.isnan(column[is_open]).all():
                self.filled.add(name)

    def _chips(self, hardware: dict[str, Any], kind: InstanceType) -> Chips:
        """Return where the host's cores and devices are."""
        if self._device_list is not None and self._placed is not None:
            chips = Chips.of_devices(kind, self.lnc or 1, self._placed, self._device_list.cores)
            return chips._replace(is_numbered=False)
        seen = range(_visible(hardware, kind))
        return Chips.of_devices(kind, self.lnc or 1, dict(zip(seen, seen, strict=True)))

    def _write(self, values: Mapping[str, NDArray[np.float64]]) -> None:
        for name, column in self.columns.items():
            metric = BY_NAME[name]
            if name not in values:
                column[...] = metric.top
                continue
            column[...] = metric.encode(values[name])
            beyond = ~np.isnan(values[name]) & (column == metric.top)
            if beyond.any():
                self.doubts.add(f"{name} {reason_above(metric, float(values[name][beyond].max()))}")

    def _identify(self, data: dict[str, Any]) -> InstanceType:
        """Return the host's type, and store its identity."""
        instance = object_of(data, "instance_info")
        hardware = object_of(data, "neuron_hardware_info")
        listed = self._device_list or DeviceList(())
        type_name = text_of(instance.get("instance_type")) or listed.instance_type
        ec2_id = text_of(instance.get("instance_id")) or listed.instance_id or None
        if ec2_id and listed.instance_id not in {"", ec2_id}:
            raise ConfigError(
                f"it is of the instance {ec2_id}, and neuron-ls lists the devices of"
                f" {listed.instance_id}"
            )
        kind = self._kind
        if kind is None:
            kind = (
                _by_name(type_name, text_of(hardware.get("neuron_device_type")))
                if type_name
                else _by_hardware(hardware)
            )
            if self._device_list is not None:
                self._placed = self._device_list.place(kind)
        elif type_name and present_name(type_name) != kind.name:
            raise WireError(
                f"it is of another instance type than the first, which is a {kind.name}"
            )
        elif ec2_id and self.ec2_id and ec2_id != self.ec2_id:
            raise WireError(f"it is of another instance than the first, which is {self.ec2_id}")
        self._kind = kind
        host = text_of(instance.get("instance_name")) or self.host
        # Without an id a new name is another host's; with one it is a new name tag.
        is_same = host == self.host or not self.host or bool(ec2_id or self.ec2_id)
        self.ultraserver = (
            text_of(instance.get("ultraserver_id"))
            or (self._sysfs.ultraserver if self._sysfs is not None else "")
            or (self.ultraserver if is_same else "")
        )
        known = (self.lnc, self.ec2_id, self.host, self.versions)
        self.host = host
        self.ec2_id = ec2_id or self.ec2_id
        self.lnc = _lnc(hardware, kind) or self.lnc or kind.chip.logical_neuroncore_config
        self.versions = {
            **self.versions,
            **{
                name: text
                for name, key in (
                    ("device", "neuron_device_type"),
                    ("device_version", "neuron_device_version"),
                    ("neuroncore_version", "neuroncore_version"),
                    ("driver", "neuron_driver_version"),
                )
                if (text := text_of(hardware.get(key)))
                and not (name == "driver" and self._is_live and "driver" in self.versions)
            },
        }
        if known != (self.lnc, self.ec2_id, self.host, self.versions) and known[0] is not None:
            self.revision += 1
        return kind


def _by_hardware(hardware: dict[str, Any]) -> InstanceType:
    """Return the type of a host without instance metadata, by its chips.

    Raises:
        WireError: it names neither type nor chips.
        ConfigError: no type of the catalogue has such chips.
    """
    device = text_of(hardware.get("neuron_device_type"))
    count = hardware.get("neuron_device_count")
    problem = text_of(hardware.get("error"))
    if not device and (count == 0 or problem):
        said = f" (neuron_hardware_info.error: {problem[:80]})" if problem else ""
        raise WireError(
            f"the host sees no Neuron device{said}, and instance_info.instance_type is empty"
        )
    if not device or type(count) is not int:
        raise WireError(
            "it has neither instance_type nor neuron_device_type and neuron_device_count"
        )
    for kind in INSTANCE_TYPES.values():
        if device in kind.chip.device_types and kind.chips == count:
            return kind
    known = sorted({name for kind in INSTANCE_TYPES.values() for name in kind.chip.device_types})
    if device not in known:
        raise ConfigError(
            f"its devices are of the type {device[:64]!r}, a generation that trnfleet does not"
            f" know: it knows {', '.join(known)}"
        )
    raise ConfigError(
        f"no instance type has {count} chips of the type {device[:64]!r}: choose from"
        f" {', '.join(INSTANCE_TYPES)}"
    )


def _by_name(name: str, device: str) -> InstanceType:
    """Return the instance type of a name that EC2 has, or had.

    Args:
        name: The name.
        device: Type of the host's devices; empty where it is not known.

    Raises:
        ConfigError: the catalogue has none of its generation, or of its name.
    """
    if present_name(name) in INSTANCE_TYPES:
        return find_instance_type(present_name(name))
    if device in TRAINIUM3.device_types:
        of_chip = [
            name
            for kind in INSTANCE_TYPES.values()
            if device in kind.chip.device_types
            for name in (kind.name, *kind.aliases)
        ]
        raise ConfigError(
            f"unknown instance type {name[:64]!r} with devices of the type {device!r}: EC2 lists no"
            f" Trn3 instance types yet, and known are the Neuron driver's: {', '.join(of_chip)}"
        )
    known = sorted(
        {match[0] for type_name in INSTANCE_TYPES if (match := _GENERATION.match(type_name))}
    )
    generation = _GENERATION.match(name)
    if generation is None or generation[0] not in known:
        what = (
            f"is of a generation that trnfleet does not know, {generation[0]}"
            if generation
            else "is none with Neuron chips"
        )
        raise ConfigError(f"instance type {name[:64]!r} {what}: it knows {', '.join(known)}")
    return find_instance_type(name)


def _lnc(hardware: dict[str, Any], kind: InstanceType) -> int | None:
    """Return the physical cores per logical core; None if no source fits.

    Derived from the cores per device, or as configured.
    """
    cores = kind.chip.neuroncores
    per_device = hardware.get("neuroncore_per_device_count")
    configured = hardware.get("logical_neuroncore_config")
    if type(per_device) is int and 0 < per_device <= cores and cores % per_device == 0:
        return cores // per_device
    return (
        configured
        if type(configured) is int and 0 < configured <= cores and cores % configured == 0
        else None
    )


def _visible(hardware: dict[str, Any], kind: InstanceType) -> int:
    """Return the number of chips visible to the host.

    A container with only some chips sees them numbered from 0.
    """
    count = hardware.get("neuron_device_count")
    if type(count) is int and count >= 0:
        return min(count, kind.chips)
    return 0 if hardware.get("error") else kind.chips
