"""An instance's values as documents of `neuron-monitor`, one a tick: for tools that read those.

Only values of the metric table are real; the rest is made up: one runtime a chip that is not idle (with nulls for what is not known), a
chip's bytes all as tensors, its FLOP/s in equal parts. What neuron-monitor cannot say is left out; a `HostReader` has the
rest back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic_core import to_json

from trnfleet.bridge.neuron.fields import FAILED
from trnfleet.bridge.neuron.values import ECC
from trnfleet.domain.metrics import BY_NAME
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import ChipType, InstanceType

FIRST_PID = 1_000
"""Process of the runtime on chip 0."""
NOT_AVAILABLE = "not available"
"""Error of a group whose values are not known."""
PARTS = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
CAUSES = ("generic", "numerical", "transient", "model", "runtime", "hardware")
PERCENTILES = ("p0", "p1", "p25", "p50", "p75", "p99", "p100")
VCPU = ("user", "nice", "system", "idle", "io_wait", "irq", "soft_irq")


class _Device(NamedTuple):
    """Names of a chip in the Neuron tools."""

    device: str
    version: str
    core: str


_DEVICES = {"trainium1": _Device("trainium", "v2", "v2"), "trainium2": _Device("trainium2", "v4", "v3")}


class Host(NamedTuple):
    """The instance that the documents are of."""

    path: str
    kind: InstanceType
    lnc: int
    """Physical cores of a logical one."""
    ec2_id: str | None = None


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
        self._facts = _hardware_info(host)
        self._info = _instance_info(host)
        self._last: dict[str, NDArray[np.uint64]] = {}
        """Counters as they were last known."""
        self._is_known = np.zeros(host.kind.chips, np.bool_)
        """Chips whose counters are known."""

    def write(self, columns: Mapping[str, NDArray[Any]], period_s: float) -> bytes:
        """Return the document of a tick, one line with its end.

        Args:
            columns: Wire codes of all metrics, a row a chip and one row of the instance's.
            period_s: Seconds since the tick before.
        """
        values = {name: BY_NAME[name].decode(codes) for name, codes in columns.items()}
        completed, failed = self._counts(columns)
        latency = [_known(values[f"exec_latency_{each}_s"][0]) for each in ("p50", "p99")]
        cores = self._host.kind.chip.neuroncores
        is_idle: NDArray[np.bool_] = (
            (values["nc_util_pct"][:, :cores] == 0).all(axis=1)
            & (values["tflops"] == 0)
            & (values["hbm_used_bytes"] == 0)
            & (completed == 0)
            & (failed == 0)
        )
        # Only runtimes have latencies, so one is needed where they are known.
        needed = 0 if latency != [None, None] and is_idle.all() else None
        runtimes = [
            self._runtime(chip, values, period_s, completed[chip], failed[chip], latency)
            for chip in range(self._host.kind.chips)
            if not is_idle[chip] or chip == needed
        ]
        document = {
            "neuron_runtime_data": runtimes,
            "system_data": self._system(values, period_s),
            "instance_info": self._info,
            "neuron_hardware_info": self._facts,
        }
        return to_json(document) + b"\n"

    def _counts(self, columns: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float64]]:
        """Return the growth of the chips' counters since they were last known; NaN where they are not available.

        A counter that fell has been reset.
        """
        names = ("exec_completed", "exec_errors")
        known = np.all([columns[name] != BY_NAME[name].top for name in names], axis=0)
        result = []
        for name in names:
            now = columns[name].astype(np.uint64)
            last = np.where(self._is_known, self._last.get(name, now), now)
            counts = np.where(now >= last, now - np.minimum(last, now), now).astype(np.float64)
            counts[~known] = np.nan
            self._last[name] = np.where(known, now, last)
            result.append(counts)
        self._is_known |= known
        return result

    def _runtime(
        self,
        chip: int,
        values: Mapping[str, NDArray[np.float64]],
        period_s: float,
        completed: float,
        failed: float,
        latency: list[float | None],
    ) -> dict[str, Any]:
        per_chip = self._host.kind.chip.neuroncores // self._host.lnc
        tflops, used = (_known(values[name][chip]) for name in ("tflops", "hbm_used_bytes"))
        in_use = {}
        for number in range(per_chip):
            core = chip * per_chip + number
            in_use[str(core)] = self._core(core, values["nc_util_pct"][chip], number, tflops)
        memory: dict[str, Any] = {"period": period_s, "error": NOT_AVAILABLE}
        if used is not None:
            memory = _memory(period_s, str(chip * per_chip), round(used))
        return {
            "pid": FIRST_PID + chip,
            "neuron_runtime_tag": str(FIRST_PID + chip),
            "error": "",
            "report": {
                "execution_stats": _executions(period_s, completed, failed, latency),
                "memory_used": memory,
                "neuroncore_counters": {"period": period_s, "neuroncores_in_use": in_use, "error": ""},
            },
        }

    def _core(
        self, core: int, lanes: NDArray[np.float64], number: int, tflops: float | None
    ) -> dict[str, Any]:
        """Return the counters of a logical core, which is `number` in its chip."""
        lnc = self._host.lnc
        halves = [_known(value) for value in lanes[number * lnc : (number + 1) * lnc]]
        known = [half for half in halves if half is not None]
        counters: dict[str, Any] = {"neuroncore_utilization": sum(known) / lnc if len(known) == lnc else None}
        if tflops is not None:
            counters["flops"] = tflops * 1e12 * lnc / self._host.kind.chip.neuroncores
        if lnc > 1:
            counters["v3d"] = {
                f"nc_v3.{core * lnc + half}": {"neuroncore_utilization": value}
                for half, value in enumerate(halves)
            }
        return counters

    def _system(self, values: Mapping[str, NDArray[np.float64]], period_s: float) -> dict[str, Any]:
        counters = [
            {"neuron_device_index": chip, **{name: _whole(values[name][chip]) for name in ECC}}
            for chip in range(self._host.kind.chips)
        ]
        busy, used = (_known(values[name][0]) for name in ("vcpu_util_pct", "host_memory_used_bytes"))
        usage = None if busy is None else {**dict.fromkeys(VCPU, 0), "user": busy, "idle": max(0, 100 - busy)}
        return {
            "neuron_hw_counters": {"period": period_s, "neuron_devices": counters, "error": ""},
            "vcpu_usage": {
                "period": period_s,
                "average_usage": usage,
                "usage_data": {},
                "error": NOT_AVAILABLE if usage is None else "",
            },
            "memory_info": {
                "period": period_s,
                "memory_total_bytes": self._host.kind.host_memory_bytes,
                "memory_used_bytes": None if used is None else round(used),
                "swap_total_bytes": None,
                "swap_used_bytes": None,
                "error": "",
            },
        }


def _executions(
    period_s: float, completed: float, failed: float, latency: list[float | None]
) -> dict[str, Any]:
    p50, p99 = latency
    is_known = not (np.isnan(completed) or np.isnan(failed))
    return {
        "period": period_s,
        "error_summary": {**dict.fromkeys(CAUSES, 0), "generic": _whole(failed)} if is_known else {},
        "execution_summary": (
            {"completed": _whole(completed), **dict.fromkeys(FAILED, 0), "completed_with_err": _whole(failed)}
            if is_known
            else {}
        ),
        "latency_stats": {
            "total_latency": {**dict.fromkeys(PERCENTILES), "p50": p50, "p99": p99},
            "device_latency": dict.fromkeys(PERCENTILES),
        },
        "error": "",
    }


def _memory(period_s: float, core: str, used: int) -> dict[str, Any]:
    return {
        "period": period_s,
        "neuron_runtime_used_bytes": {
            "host": 0,
            "neuron_device": used,
            "usage_breakdown": {
                "host": dict.fromkeys(("application_memory", "constants", "dma_buffers", "tensors"), 0),
                "neuroncore_memory_usage": {core: {**dict.fromkeys(PARTS, 0), "tensors": used}},
            },
        },
        "loaded_models": [],
        "error": "",
    }


def _instance_info(host: Host) -> dict[str, Any]:
    info = dict.fromkeys(
        (
            "instance_availability_zone",
            "instance_availability_zone_id",
            "instance_region",
            "ami_id",
            "subnet_id",
        ),
        "",
    )
    name = host.path.rpartition("/")[2]
    return {
        "instance_name": name,
        "instance_id": host.ec2_id or "",
        "instance_type": host.kind.name,
        **info,
        "error": "",
    }


def _hardware_info(host: Host) -> dict[str, Any]:
    chip: ChipType = host.kind.chip
    device = _DEVICES[chip.name]
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


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _whole(value: float) -> int | None:
    return None if np.isnan(value) else round(value)
