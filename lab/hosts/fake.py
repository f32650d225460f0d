"""A host's interfaces with the values of a simulated instance.

A tree of the driver's sysfs, EFA counters, documents of neuron-monitor and pages of
neuron-monitor-prometheus. What a host cannot tell is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from support.sysfs import DEVICES, KINDS, STATUSES

from trnfleet.bridge.neuron.documents import DocumentWriter, Host, InstanceTick
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_ECC = tuple(
    f"{memory}_ecc_{kind}" for memory in ("mem", "sram") for kind in ("corrected", "uncorrected")
)
_MONITOR = """\
#!/bin/sh
# neuron-monitor: the two last documents, the first without rates, and those from now on.
echo $$ > {pid}
exec tail -n 2 -F {documents} 2> /dev/null
"""
_LIST = """\
#!/bin/sh
[ "$1" = -j ] || exit 2
exec cat {devices}
"""


class FakeHost:
    """A host below a folder."""

    def __init__(self, folder: Path, host: Host) -> None:
        """Write its programs.

        Args:
            folder: Folder for `root`, which is the host's `/`, and `bin`.
            host: The simulated instance.
        """
        self.host = host
        self.root = folder / "root"
        self.programs = folder / "bin"
        self.pid_file = folder / "neuron-monitor.pid"
        self.documents = folder / "documents"
        self._writer = DocumentWriter(host)
        self._written: dict[Path, str] = {}
        self._files: dict[str, Path] = {}
        self._sent = np.zeros(2)
        self._new = folder / "new"
        self._devices = folder / "devices.json"
        self._is_loaded = True
        self._lock = threading.Lock()
        """Ticks come in another thread."""
        self.page = b""
        """Its page of neuron-monitor-prometheus."""
        self._totals: dict[str, float] = {}
        self._errors = np.zeros(host.kind.chips, np.uint32)
        """Uncorrectable HBM errors by chip, besides the simulated ones."""
        self.programs.mkdir(parents=True)
        (self.root / "dev").mkdir(parents=True)
        (self.root / "dev/kmsg").touch()
        self.documents.touch()
        self._list_devices()
        self._install("neuron-monitor", _MONITOR, pid=self.pid_file, documents=self.documents)
        self._install("neuron-ls", _LIST, devices=self._devices)
        self._write("sys/module/neuron/version", "2.30.2.0")
        self._write("sys/devices/virtual/dmi/id/board_asset_tag", host.ec2_id or "")
        self._write("sys/devices/virtual/dmi/id/product_name", host.kind.name)
        self._write("sys/devices/virtual/dmi/id/sys_vendor", "Amazon EC2")

    def _list_devices(self) -> None:
        """Write what neuron-ls prints."""
        host = self.host
        devices = [
            {
                "neuron_device": number,
                "bdf": f"00:{number:02x}.0",
                "connected_to": [],
                "nc_count": host.kind.chip.neuroncores // host.lnc,
                "logical_neuroncore_config": host.lnc,
                "memory_size": round(host.kind.chip.hbm_bytes.value),
                "neuron_processes": [],
            }
            for number in range(host.kind.chips)
        ]
        self._devices.write_text(json.dumps(devices))

    def _install(self, name: str, text: str, **paths: Path) -> None:
        path = self.programs / name
        path.write_text(text.format(**{key: shlex.quote(str(each)) for key, each in paths.items()}))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def _write(self, name: str, content: object) -> None:
        """Write a file of the tree, unless it has this content."""
        path = self._files.setdefault(name, self.root / name)
        text = f"{content}\n"
        if self._written.get(path) != text:
            if path not in self._written:
                path.parent.mkdir(parents=True, exist_ok=True)
            # At once, as the driver's: who reads meanwhile must not see half of it.
            self._new.write_text(text)
            self._new.replace(path)
            self._written[path] = text

    def kill_monitor(self) -> None:
        """Kill neuron-monitor with -9."""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(int(self.pid_file.read_text()), signal.SIGKILL)

    def break_monitor(self) -> None:
        """Let neuron-monitor end, now and at every start."""
        self._install("neuron-monitor", "#!/bin/sh\necho 'no driver' >&2; exit 1\n")
        self.kill_monitor()

    def mend_monitor(self) -> None:
        """Let neuron-monitor start."""
        self._install("neuron-monitor", _MONITOR, pid=self.pid_file, documents=self.documents)

    def fail_memory(self, chip: int) -> None:
        """Count an uncorrectable HBM error: at once in sysfs, and with the next document."""
        name = f"{DEVICES}/neuron{chip}/stats/hardware/mem_ecc_uncorrected"
        with self._lock:
            self._errors[chip] += 1
            self._write(name, int(self._written[self.root / name]) + 1)

    def hang(self, chip: int) -> None:
        """Let a device not answer: one who opens this file waits."""
        path = self._health(chip)
        path.unlink()
        os.mkfifo(path)

    def unhang(self, chip: int) -> None:
        """Let a device answer, also who waits for it."""
        path = self._health(chip)
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        path.unlink()
        path.write_text(self._written[path])

    def _health(self, chip: int) -> Path:
        folder = self.root / f"{DEVICES}/neuron{chip}"
        return folder / "stats/hardware/health_status/unhealthy_components"

    def unload(self) -> None:
        """Unload the driver: its tree goes, and neuron-monitor ends."""
        with self._lock:
            self._is_loaded = False
            shutil.rmtree(self.root / DEVICES)
            self._written = {path: text for path, text in self._written.items() if path.exists()}
            self.documents.write_bytes(b"")
            self.break_monitor()

    def load(self, lnc: int) -> None:
        """Load the driver with a number of physical cores a logical one."""
        self.host = self.host._replace(lnc=lnc)
        self._writer = DocumentWriter(self.host)
        self._list_devices()
        self.mend_monitor()
        self._is_loaded = True

    def replace(self, ec2_id: str) -> None:
        """Be another instance of the same type."""
        self.host = self.host._replace(ec2_id=ec2_id)
        self._writer = DocumentWriter(self.host)
        self.documents.write_bytes(b"")
        self._write("sys/devices/virtual/dmi/id/board_asset_tag", ec2_id)

    def take(self, tick: InstanceTick) -> None:
        """Take the values of a tick."""
        with self._lock:
            if self._is_loaded:
                self._take(tick)

    def _take(self, tick: InstanceTick) -> None:
        counted = tick.columns["mem_ecc_uncorrected"]
        failed = (counted + self._errors).astype(counted.dtype)
        tick = tick._replace(columns=tick.columns | {"mem_ecc_uncorrected": failed})
        values = {name: BY_NAME[name].decode(codes) for name, codes in tick.columns.items()}
        for chip in range(self.host.kind.chips):
            self._device(chip, values, tick.columns)
        sent = np.array([values[f"efa_{way}_bytes_per_s"][0] for way in ("tx", "rx")])
        self._sent += np.nan_to_num(sent) * tick.period_s
        efa = "sys/class/infiniband/rdmap0s6/ports/1/hw_counters"
        for name, total in zip(("tx_bytes", "rx_bytes"), self._sent.tolist(), strict=True):
            self._write(f"{efa}/{name}", int(total))
        self._write(f"{efa}/retrans_pkts", int(np.nan_to_num(values["efa_retransmits"][0])))
        document = self._writer.write(tick.columns, tick.period_s)
        self.page = self._exposition(json.loads(document))
        if self.documents.stat().st_size > 2**24:
            self.documents.write_bytes(b"")
        with self.documents.open("ab") as file:
            file.write(document)

    def _device(
        self,
        chip: int,
        values: Mapping[str, NDArray[np.float64]],
        codes: Mapping[str, NDArray[Any]],
    ) -> None:
        folder = f"{DEVICES}/neuron{chip}"
        hardware = f"{folder}/stats/hardware"
        bits = int(codes["health"][chip])
        unhealthy = [name for bit, name in enumerate(HEALTH_BITS) if bits >> bit & 1]
        self._write(f"{hardware}/health_status/unhealthy_components", ",".join(unhealthy))
        self._write(f"{hardware}/health_status/healthcheck_heartbeat", 17)
        for name in _ECC:
            self._write(f"{hardware}/{name}", int(np.nan_to_num(values[name][chip])))
        self._write(f"{hardware}/mem_ecc_repairable_uncorrected", 0)
        mean = values["power_util_pct"][chip]
        known = f"POWER_STATUS_VALID,{int(time.time())},{mean:.2f},{mean:.2f},{mean:.2f}"
        power = known if np.isfinite(mean) else "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00"
        self._write(f"{folder}/stats/power/utilization", power)
        cores = self.host.kind.chip.neuroncores // self.host.lnc
        completed, failed, used = (
            int(np.nan_to_num(values[name][chip]))
            for name in ("exec_completed", "exec_errors", "hbm_used_bytes")
        )
        for core in range(cores):
            below = f"{folder}/neuron_core{core}/stats"
            for status in STATUSES:
                total = {"success": completed, "timeout": failed}.get(status, 0)
                self._write(f"{below}/status/{status}/total", _share(total, core, cores))
            for kind in KINDS:
                total = used if kind == KINDS[0] else 0
                path = f"{below}/memory_usage/device_mem/{kind}/total"
                self._write(path, _share(total, core, cores))

    def _exposition(self, document: dict[str, Any]) -> bytes:
        """Return a document as neuron-monitor-prometheus prints it."""
        info = document["instance_info"]
        identity = {
            "availability_zone": info["instance_availability_zone"],
            "instance_id": info["instance_id"],
            "instance_name": info["instance_name"],
            "instance_type": info["instance_type"],
            "region": info["instance_region"],
            "subnet_id": info["subnet_id"],
        }
        lines = []
        for name, own, number in self._series(document):
            texts = (f"{key}={json.dumps(str(each))}" for key, each in (own | identity).items())
            labels = ",".join(texts)
            lines.append(f"{name}{{{labels}}} {number!r}\n")
        return "".join(lines).encode()

    def _count(self, key: str, more: float) -> float:
        """Return a counter since the exporter's begin."""
        total = self._totals[key] = self._totals.get(key, 0.0) + more
        return total

    def _series(self, document: dict[str, Any]) -> Iterator[tuple[str, dict[str, object], float]]:
        for runtime in document["neuron_runtime_data"]:
            tag = {"runtime_tag": runtime["neuron_runtime_tag"]}
            report = runtime["report"]
            in_use = report["neuroncore_counters"]["neuroncores_in_use"]
            for core, counters in in_use.items():
                yield (
                    "neuroncore_utilization_ratio",
                    {"neuroncore": core, **tag},
                    counters["neuroncore_utilization"] / 100,
                )
            used = report["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]
            for core, parts in used["neuroncore_memory_usage"].items():
                for part, count in parts.items():
                    labels = {"memory_location": "None", "neuroncore": core, **tag}
                    yield f"neuroncore_memory_usage_{part}", labels, float(count)
            stats = report["execution_stats"]
            for kind, count in stats["execution_summary"].items():
                key = f"{tag}{kind}"
                yield (
                    "execution_status_total",
                    {"status_type": kind, **tag},
                    self._count(key, count),
                )
            latency = stats["latency_stats"]["total_latency"] or {}
            for percentile, seconds in latency.items():
                yield "execution_latency_seconds", {"percentile": percentile, **tag}, seconds
        system = document["system_data"]
        for device in system["neuron_hw_counters"]["neuron_devices"] or ():
            number = device["neuron_device_index"]
            for kind in _ECC:
                labels = {"event_type": kind, "neuron_device_index": number}
                count = self._count(f"{number}{kind}", device.get(kind, 0))
                yield "hardware_ecc_events_total", labels, count
        memory = system["memory_info"]
        for name in ("memory_total_bytes", "memory_used_bytes"):
            yield f"system_{name}", {}, float(memory[name])
        for kind, percent in system["vcpu_usage"]["average_usage"].items():
            yield "system_vcpu_usage_ratio", {"usage_type": kind}, percent / 100
        yield "instance_info", {}, 1.0
        hardware = document["neuron_hardware_info"]
        counts = ("neuron_device_count", "neuroncore_per_device_count")
        yield "neuron_hardware_info", {key: hardware[key] for key in counts}, 1.0


def _share(total: int, core: int, cores: int) -> int:
    """Return a core's part of a chip's total; the parts add up to it."""
    return total // cores + (core < total % cores)
