"""An instance's values as `neuron-monitor` documents, one per tick, for its readers.

Every value is a number, as in the real documents. Unknown values are left out, or their group has
an error; readers skip such a group. Assumed, because the metric table does not have it:

- Chips with equal execution counts are one process (usually all chips of the host). It has the
  chip's memory as tensors, in equal parts by core, the host's vCPU time, and no memory on the host.
- Every vCPU is as busy as all are on average.
- The latency percentiles below the median equal the median, and the highest is the 99th.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic_core import to_json

from trnfleet.bridge.neuron.fields import CAUSES, FAILED, MEMORY_PARTS
from trnfleet.bridge.neuron.values import ECC
from trnfleet.domain.address import STANDALONE, Level, level_of, parse_chip
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, ChipType, InstanceType
from trnfleet.domain.metrics import BY_NAME, METRICS, Scope
from trnfleet.errors import ConfigError, WireError
from trnfleet.wire.eventbridge import region_of
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frames import Unit
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.telemetry import decode_sample, split_codes
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.wire.ports import Envelope


FIRST_PID = 1_000
"""PID of the process with chip 0 as its first chip."""
NOT_AVAILABLE = "not available"
"""Error of a group with unknown values."""
HOST_PARTS = ("application_memory", "constants", "dma_buffers", "tensors")
VCPU = ("user", "nice", "system", "idle", "io_wait", "irq", "soft_irq")
IDLE_HBM_SHARE = 0.01
"""Largest HBM share attributed to the driver on an idle chip (assumed). Above it, a process uses
the chip."""


class _Device(NamedTuple):
    """Names of a chip in the Neuron tools."""

    device: str
    version: str
    """Empty where no document of such a chip is known."""
    core: str
    """Version of its NeuronCores."""


_DEVICES = {
    "trainium1": _Device("trainium", "v2", "v2"),
    "inferentia2": _Device("inferentia2", "v3", "v2"),
    "trainium2": _Device("trainium2", "v4", "v3"),
    "trainium3": _Device("trainium3", "", "v4"),
}


class Host(NamedTuple):
    """The instance that the documents are of."""

    path: str
    kind: InstanceType
    lnc: int
    """Physical cores of a logical one."""
    ec2_id: str | None = None
    zone: str = ""
    """Availability Zone; empty where it is not known."""


class _Tick(NamedTuple):
    """Values of a tick, restricted to the contents of a document."""

    values: Mapping[str, NDArray[np.float64]]
    completed: NDArray[np.float64]
    """Executions in the period by chip, NaN where not known."""
    failed: NDArray[np.float64]
    cores: NDArray[np.float64]
    """Utilisation of each logical core, the mean of its known values; a row per chip."""
    has_gaps: bool
    """Whether something of a chip is not known."""
    period_s: float


class DocumentWriter:
    """Writer of one host's documents; counters become counts of each period."""

    def __init__(self, host: Host) -> None:
        """Start a series: the first document counts no executions.

        Raises:
            ConfigError: neuron-monitor has no name for the chips, or they cannot be paired so.
        """
        chip = host.kind.chip
        if chip.name not in _DEVICES:
            raise ConfigError(f"{host.path}: neuron-monitor has no name for {chip.name}")
        if chip.neuroncores % host.lnc:
            raise ConfigError(
                f"{host.path}: {host.lnc} does not divide the {chip.neuroncores} cores of a chip"
            )
        self._host = host
        self._device = _DEVICES[chip.name]
        self._facts = _hardware_info(host, self._device)
        self._info = _instance_info(host)
        self._idle_bytes = IDLE_HBM_SHARE * chip.hbm_bytes.value
        self._last: dict[str, NDArray[np.uint64]] = {}
        """Counters as they were last known."""
        self._grown = {
            name: np.zeros(host.kind.chips, np.uint64) for name in ("exec_completed", "exec_errors")
        }
        """Their growth since they were first known."""
        self._is_known = np.zeros(host.kind.chips, np.bool_)
        """Mask of the chips with known counters."""

    def write(self, columns: Mapping[str, NDArray[Any]], period_s: float) -> bytes:
        """Return the document of a tick, one line with its end.

        Args:
            columns: Wire codes of all metrics, a row a chip and one row of the instance's.
            period_s: Seconds since the tick before.
        """
        values = {name: BY_NAME[name].decode(codes) for name, codes in columns.items()}
        completed, failed = self._counts(columns)
        cores = _logical(
            values["nc_util_pct"][:, : self._host.kind.chip.neuroncores], self._host.lnc
        )
        unknown = (
            np.isnan(cores).any(axis=1) | np.isnan(values["hbm_used_bytes"]) | np.isnan(completed)
        )
        tick = _Tick(values, completed, failed, cores, bool(unknown.any()), period_s)
        document = {
            "neuron_runtime_data": self._runtimes(tick),
            "system_data": self._system(tick),
            "instance_info": self._info,
            "neuron_hardware_info": self._facts,
        }
        return to_json(document) + b"\n"

    def _counts(self, columns: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float64]]:
        """Return the growth of the chips' counters since last known; NaN if not available.

        A counter that fell has been reset.
        """
        known = np.all([columns[name] != BY_NAME[name].top for name in self._grown], axis=0)
        result = []
        for name, grown in self._grown.items():
            now = columns[name].astype(np.uint64)
            last = np.where(self._is_known, self._last.get(name, now), now)
            counts = np.where(now >= last, now - np.minimum(last, now), now)
            grown[known] += counts[known]
            self._last[name] = np.where(known, now, last)
            result.append(np.where(known, counts.astype(np.float64), np.nan))
        self._is_known |= known
        return result

    def _runtimes(self, tick: _Tick) -> list[dict[str, Any]]:
        """Return the processes on the host's chips; empty if all are idle.

        If a value is unknown, idle chips are listed, too, and one more process has an error.
        Otherwise unlisted chips would count as idle.
        """
        groups: dict[tuple[int, ...], list[int]] = {}
        for chip in np.flatnonzero(tick.has_gaps | ~self._is_idle(tick)).tolist():
            key = self._process_of(chip, tick)
            if key is not None:
                groups.setdefault(key, []).append(chip)
        share = 1 / max(1, len(groups))
        runtimes = [self._runtime(chips, tick, share) for chips in groups.values()]
        if tick.has_gaps:
            pid = FIRST_PID + self._host.kind.chips
            runtimes.append(
                {"pid": pid, "neuron_runtime_tag": str(pid), "error": NOT_AVAILABLE, "report": {}}
            )
        return runtimes

    def _is_idle(self, tick: _Tick) -> NDArray[np.bool_]:
        """Return a mask of the chips without a process."""
        mask: NDArray[np.bool_] = (
            (tick.cores == 0).all(axis=1)
            & ~(tick.values["tflops"] > 0)
            & (tick.values["hbm_used_bytes"] <= self._idle_bytes)
            & (tick.completed == 0)
            & (tick.failed == 0)
        )
        return mask

    def _process_of(self, chip: int, tick: _Tick) -> tuple[int, ...] | None:
        """Return the key shared by the chips of one process; None for an unknown chip.

        Executions are counted per process, and distributed among its cores with memory or work. So
        the number of such cores must be equal on each of its chips.
        """
        used, tflops = (tick.values[name][chip] for name in ("hbm_used_bytes", "tflops"))
        cores = tick.cores[chip]
        if np.isnan(tick.completed[chip]):
            return None if np.isnan(used) and np.isnan(cores).all() else (-1, chip)
        marked = np.isfinite(cores) if tflops > 0 else cores > 0
        marks = len(cores) if used > 0 else int(np.count_nonzero(marked))
        return *(int(grown[chip]) for grown in self._grown.values()), marks

    def _runtime(self, chips: list[int], tick: _Tick, share: float) -> dict[str, Any]:
        """Return a process.

        Args:
            chips: Its chips.
            tick: The values.
            share: Its share of the host's vCPU time.
        """
        pid = FIRST_PID + chips[0]
        period_s = tick.period_s
        per_chip = tick.cores.shape[1]
        in_use: dict[str, Any] = {}
        memory: dict[str, dict[str, int]] = {}
        for chip in chips:
            used = tick.values["hbm_used_bytes"][chip]
            for number in range(per_chip):
                core = chip * per_chip + number
                if not np.isnan(tick.cores[chip, number]):
                    in_use[str(core)] = self._core(chip, number, tick)
                if not np.isnan(used):
                    part = round(used) // per_chip + (number < round(used) % per_chip)
                    memory[str(core)] = {**dict.fromkeys(MEMORY_PARTS, 0), "tensors": part}
        return {
            "pid": pid,
            "neuron_runtime_tag": str(pid),
            "error": "",
            "report": {
                "execution_stats": _executions(tick, chips),
                "memory_used": _memory(period_s, memory),
                "neuron_runtime_vcpu_usage": _runtime_vcpu(period_s, tick, share),
                "neuroncore_counters": {
                    "period": period_s,
                    "neuroncores_in_use": in_use,
                    "error": "" if in_use else NOT_AVAILABLE,
                },
            },
        }

    def _core(self, chip: int, number: int, tick: _Tick) -> dict[str, Any]:
        """Return the counters of a logical core, `number` within its chip."""
        lnc = self._host.lnc
        kind = self._host.kind
        counters: dict[str, Any] = {"neuroncore_utilization": float(tick.cores[chip, number])}
        tflops = tick.values["tflops"][chip]
        if not np.isnan(tflops):
            counters["flops"] = round(
                tflops * 1e12 / np.count_nonzero(np.isfinite(tick.cores[chip]))
            )
        if lnc > 1:
            first = number * lnc
            halves = tick.values["nc_util_pct"][chip, first : first + lnc].tolist()
            version = self._device.core
            counters[f"{version}d"] = {
                f"nc_{version}.{chip * kind.chip.neuroncores + first + half}": {
                    "neuroncore_utilization": value
                }
                for half, value in enumerate(halves)
                if not np.isnan(value)
            }
        return counters

    def _system(self, tick: _Tick) -> dict[str, Any]:
        values = tick.values
        kind = self._host.kind
        period_s = tick.period_s
        ecc = np.array([values[name] for name in ECC])
        busy = values["vcpu_util_pct"][0]
        used = values["host_memory_used_bytes"][0]
        is_told = not np.isnan(busy)
        is_known = not np.isnan(used)
        usage = {**dict.fromkeys(VCPU, 0.0)}
        if is_told:
            usage |= {"user": float(busy), "idle": max(0.0, 100.0 - float(busy))}
        return {
            "neuron_hw_counters": {
                "period": period_s,
                "neuron_devices": [
                    {"neuron_device_index": chip}
                    | {
                        name: round(value)
                        for name, value in zip(ECC, ecc[:, chip].tolist(), strict=True)
                    }
                    for chip in np.flatnonzero(~np.isnan(ecc).any(axis=0)).tolist()
                ],
                "error": "",
            },
            "vcpu_usage": {
                "period": period_s,
                "average_usage": usage,
                "usage_data": {str(cpu): usage for cpu in range(kind.vcpus)} if is_told else {},
                "context_switch_count": 0,
                "error": "" if is_told else NOT_AVAILABLE,
            },
            "memory_info": {
                "period": period_s,
                "memory_total_bytes": kind.host_memory_bytes,
                "memory_used_bytes": round(used) if is_known else 0,
                "swap_total_bytes": 0,
                "swap_used_bytes": 0,
                "error": "" if is_known else NOT_AVAILABLE,
            },
        }


def _logical(lanes: NDArray[np.float64], lnc: int) -> NDArray[np.float64]:
    """Return the mean of each logical core's known physical cores.

    NaN if none is known; a row per chip.
    """
    halves = lanes.reshape(len(lanes), -1, lnc)
    known = ~np.isnan(halves)
    sums = np.where(known, halves, 0.0).sum(axis=2)
    counts = known.sum(axis=2)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _executions(tick: _Tick, chips: list[int]) -> dict[str, Any]:
    completed = tick.completed[chips].sum()
    failed = tick.failed[chips].sum()
    is_known = not np.isnan(completed)
    p50, p99 = (
        float(tick.values[f"exec_latency_{percentile}_s"][0]) for percentile in ("p50", "p99")
    )
    latency = None
    if not np.isnan(p50 + p99):
        latency = {
            "p0": p50,
            "p1": p50,
            "p25": p50,
            "p50": p50,
            "p75": p50,
            "p99": p99,
            "p100": p99,
        }
    return {
        "period": tick.period_s,
        # A real `generic` is a running total that counts no failures.
        "error_summary": dict.fromkeys(("generic", *CAUSES), 0),
        "execution_summary": {
            "completed": round(completed) if is_known else 0,
            **dict.fromkeys(FAILED, 0),
            "completed_with_err": round(failed) if is_known else 0,
        },
        "latency_stats": {"total_latency": latency, "device_latency": None},
        "error": "" if is_known else NOT_AVAILABLE,
    }


def _memory(period_s: float, by_core: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {
        "period": period_s,
        "neuron_runtime_used_bytes": {
            "host": 0,
            "neuron_device": sum(parts["tensors"] for parts in by_core.values()),
            "usage_breakdown": {
                "host": dict.fromkeys(HOST_PARTS, 0),
                "neuroncore_memory_usage": by_core,
            },
        },
        "loaded_models": [],
        "error": "" if by_core else NOT_AVAILABLE,
    }


def _runtime_vcpu(period_s: float, tick: _Tick, share: float) -> dict[str, Any]:
    busy = float(tick.values["vcpu_util_pct"][0])
    is_known = not np.isnan(busy)
    return {
        "period": period_s,
        "vcpu_usage": {"user": busy * share if is_known else 0.0, "system": 0.0},
        "error": "" if is_known else NOT_AVAILABLE,
    }


def _instance_info(host: Host) -> dict[str, Any]:
    cluster_path, _, name = host.path.rpartition("/")
    ultraserver = cluster_path.rpartition("/")[2]
    info = {
        "instance_name": name,
        "instance_id": host.ec2_id or "",
        "instance_type": host.kind.name,
        "instance_availability_zone": host.zone,
        "instance_availability_zone_id": "",
        "instance_region": region_of(host.zone),
        "ami_id": "",
        "subnet_id": "",
        "error": "",
    }
    return info if ultraserver == STANDALONE else info | {"ultraserver_id": ultraserver}


def _hardware_info(host: Host, device: _Device) -> dict[str, Any]:
    chip: ChipType = host.kind.chip
    return {
        "neuron_device_type": device.device,
        "neuron_device_version": device.version,
        # The physical core's name gets a `d` where two make a logical one.
        "neuroncore_version": device.core + ("d" if host.lnc > 1 else ""),
        "neuron_device_count": host.kind.chips,
        "neuron_device_memory_size": round(chip.hbm_bytes.value),
        "neuroncore_per_device_count": chip.neuroncores // host.lnc,
        "logical_neuroncore_config": host.lnc,
        "error": "",
    }


class InstanceTick(NamedTuple):
    """Values of an instance and its chips at one tick."""

    ts_ns: int
    """Source time."""
    period_s: float
    """Seconds since the tick before, in source time."""
    columns: dict[str, NDArray[Any]]
    """Wire codes by metric: a row a chip, one row of the instance's."""


class _ChipPlace(NamedTuple):
    """The instance's rows in the frames of a descriptor."""

    unit: Unit
    period_s: float
    """Seconds from tick to tick, in source time."""
    chips: slice
    instance: slice


def described_instances(
    envelope: Envelope, root: str = DEFAULT_ROOT
) -> tuple[str, tuple[str, ...]]:
    """Return the fleet and the instances described by a message.

    No instances if it is not a descriptor.
    """
    if "/node/" not in envelope.topic or not envelope.payload:
        return "", ()
    try:
        topic = parse_topic(envelope.topic, root)
        if topic.topic_class is not TopicClass.NODE:
            return "", ()
        descriptor = decode_message(envelope.payload, Descriptor)
    except WireError:
        return "", ()
    return topic.fleet, tuple(instance.path for instance in descriptor.instances)


class InstanceTicks:
    """Reader of one instance's ticks from the messages of its fleet."""

    def __init__(self, fleet: str, path: str, root: str = DEFAULT_ROOT) -> None:
        """Name the instance by its fleet and address."""
        self.host: Host | None = None
        """The instance as it was first described; None until then."""
        self._path = path
        self._name = path.rpartition("/")[2].encode()
        self._nodes = build_topic(fleet, TopicClass.NODE, "", root)
        self._telemetry = build_topic(fleet, TopicClass.TELEMETRY, "", root)
        self._place: _ChipPlace | None = None
        self._described = b""
        """The descriptor that it is from."""
        self._ts_ns = -1
        self._last_ns = -1
        self._columns: dict[str, NDArray[Any]] = {}

    def add(self, envelope: Envelope) -> InstanceTick | None:
        """Take a message; return the tick before it, once all of that has come.

        Raises:
            WireError: it is about the instance and makes no sense, or comes too late.
        """
        topic = envelope.topic
        if topic.startswith(self._nodes):
            if self._concerns(topic[len(self._nodes) :], envelope.payload):
                self._describe(envelope.payload)
        elif topic.startswith(self._telemetry):
            path = topic[len(self._telemetry) :]
            if path == self._path or path.startswith(self._path + "/"):
                return (
                    self._frame(envelope.payload) if is_cbor(envelope) else self._sample(envelope)
                )
            if self._place is not None and path == self._place.unit.path:
                return self._frame(envelope.payload)
        return None

    def finish(self) -> InstanceTick | None:
        """Return the last tick, after the last message."""
        return self._turn(-1)

    def _concerns(self, path: str, payload: bytes) -> bool:
        """Return whether a descriptor may be about the instance.

        A block's path names only its cluster.
        """
        return path == self._path or (
            path.partition("/")[0] == self._path.partition("/")[0] and self._name in payload
        )

    def _describe(self, payload: bytes) -> None:
        if not payload or payload == self._described:
            # Descriptors are repeated every minute; one that has not changed is not parsed again.
            return
        descriptor = decode_message(payload, Descriptor)
        paths = [instance.path for instance in descriptor.instances]
        if self._path not in paths:
            return
        number = paths.index(self._path)
        instance = descriptor.instances[number]
        unit = Unit.of(descriptor)
        kind = INSTANCE_TYPES[instance.type]
        if self.host is None:
            lnc = instance.lnc or kind.chip.logical_neuroncore_config
            self.host = Host(self._path, kind, lnc, instance.ec2_id)
        elif self.host.kind is not kind:
            raise WireError(f"the instance is a {kind.name} now, and was a {self.host.kind.name}")
        self._described = payload
        self._place = _ChipPlace(
            unit,
            descriptor.period_s * descriptor.clock.speed,
            slice(unit.chips[number], unit.chips[number + 1]),
            slice(number, number + 1),
        )

    def _frame(self, payload: bytes) -> InstanceTick | None:
        place = self._place
        if place is None:
            raise WireError("a frame before its descriptor")
        frame = place.unit.decode(payload)
        done = self._turn(frame.head.ts_ns)
        for name, codes in place.unit.codes(frame).items():
            rows = place.chips if BY_NAME[name].scope is Scope.CHIP else place.instance
            self._columns[name][...] = codes[rows]
        return done

    def _sample(self, envelope: Envelope) -> InstanceTick | None:
        if self.host is None:
            raise WireError("telemetry before its descriptor")
        sample = decode_sample(envelope.payload)
        if sample.path != envelope.topic[len(self._telemetry) :]:
            raise WireError("identity in the payload is not the topic's")
        row = 0
        if sample.is_chip:
            row = parse_chip(sample.path.rpartition("/")[2]) or 0
            if row >= self.host.kind.chips or level_of(sample.path) != Level.CHIP:
                raise WireError(f"a {self.host.kind.name} has no such chip")
        done = self._turn(sample.head.ts_ns)
        for metric, codes in split_codes([sample]):
            self._columns[metric.name][row] = codes[0]
        return done

    def _turn(self, ts_ns: int) -> InstanceTick | None:
        """Begin the tick of `ts_ns` if it is another; return the ended one."""
        if ts_ns == self._ts_ns:
            return None
        if -1 < ts_ns < self._ts_ns:
            raise WireError("it is older than what came before it")
        done = None
        if self._ts_ns >= 0 and self._place is not None:
            period_s = self._place.period_s
            if self._last_ns >= 0:
                period_s = (self._ts_ns - self._last_ns) / 1e9
            done = InstanceTick(self._ts_ns, period_s, self._columns)
        self._last_ns = self._ts_ns
        self._ts_ns = ts_ns
        if self.host is not None:
            chips = self.host.kind.chips
            self._columns = {
                metric.name: metric.blank(chips if metric.scope is Scope.CHIP else 1)
                for metric in METRICS
            }
        return done
