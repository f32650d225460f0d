"""The Neuron driver's sysfs tree, or a copy of it, as values of chips.

Nodes are found by name below `neuronN/` and `neuron_coreK/`, because driver 2.31 moved them. Files
are opened for reading only: a write clears a counter. Published: names of nodes and power's format
(the Neuron SDK's sysfs guide, the driver's source). Assumed, because no source has the format:
unhealthy components are names, and the heartbeat of a firmware that does not answer is empty, 0 or
0xdeadbeef.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.bridge.neuron.fields import Doubts
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS, MOST_PCT
from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MOST_BYTES = 4096
"""Longest file: published, a page of memory (sysfs)."""
MOST_NODES = 4096
"""Most folders and files of a device that are looked at; one with 8 cores has some 700."""
_FOLDERS = tuple(
    f"{prefix}{folder}"
    for folder in ("", "neuron_device", "devices/virtual/neuron_device", "class/neuron_device")
    for prefix in ("", "sys/")
)
"""Places of `neuronN/` in a tree."""
_DEVICE = re.compile(r"neuron(\d{1,3})")
_CORE = re.compile(r"neuron_core\d{1,3}")
_ECC = tuple(name for name in BY_NAME if "_ecc_" in name)
_UNHEALTHY = "unhealthy_components"
_HEARTBEAT = "healthcheck_heartbeat"
_POWER = "utilization"
_DEVICE_NODES = (_UNHEALTHY, _HEARTBEAT, _POWER, *_ECC)
_SUCCESS = "success"
_FAILED = (
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "timeout",
    "exec_bad_input",
    "execute_failed_to_queue",
)
"""Outcomes of executions that are no success. Causes, such as `hw_hbm_ue_error`, count the same
executions again."""
_MEMORY = "device_mem"
_NO_ANSWER = 0xDEADBEEF
"""Content of a register that cannot be read: published (the driver's source)."""

SYSFS = tuple(
    name
    for name in BY_NAME
    if name in {"health", "exec_completed", "exec_errors", "hbm_used_bytes", *_ECC}
    or name.startswith("power_util_")
)
"""Metrics that the tree can have."""


class SysfsValues(NamedTuple):
    """The values of a tree."""

    devices: dict[int, dict[str, float]]
    """Known values by metric and device, as the host numbers it."""
    missing: tuple[str, ...]
    """Nodes that no device has."""
    silent: tuple[int, ...]
    """Devices whose firmware does not answer. Their counters are unknown."""
    doubts: Doubts
    """Unreadable files and impossible values."""
    failures: Counter[str]
    """Failed executions of all cores by kind; kinds without any are left out."""
    driver: str = ""
    """The driver's version; empty where the tree has none."""
    ultraserver: str = ""
    """Id of the UltraServer; empty outside one, or before its election."""
    place: str = ""
    """Number of the host in its UltraServer."""
    mode: str = ""
    """Sizes of UltraServer that its links allow."""

    @property
    def metrics(self) -> frozenset[str]:
        """Metrics with a known value."""
        return frozenset(name for values in self.devices.values() for name in values)

    def column(self, name: str, chips: int) -> NDArray[np.float64]:
        """Return a metric's value by chip; NaN where it is not known.

        The host numbers its devices as chips, also for a container.
        """
        return np.array(
            [self.devices.get(chip, {}).get(name, math.nan) for chip in range(chips)], np.float64
        )

    def text(self) -> str:
        """Return a description: what the tree has, and what it has not."""
        parts = [
            f"{counted(len(self.devices), 'device')} of the Neuron driver {self.driver}".rstrip(),
            f"values: {', '.join(name for name in SYSFS if name in self.metrics) or 'none'}",
        ]
        if self.missing:
            parts.append(f"not found: {', '.join(self.missing)}")
        if self.silent:
            named = ", ".join(f"neuron{number}" for number in self.silent)
            parts.append(f"no heartbeat, so no counters: {named}")
        if self.failures:
            kinds = (f"{name} {count:,}" for name, count in sorted(self.failures.items()))
            parts.append(f"failed executions: {', '.join(kinds)}")
        if self.ultraserver:
            place = f", host {self.place}" if self.place else ""
            mode = f", mode {self.mode}" if self.mode else ""
            parts.append(f"UltraServer {self.ultraserver}{place}{mode}")
        return "; ".join(parts)

    def problem(self) -> str:
        """Return a clause about unreadable files and impossible values; empty without any."""
        count = self.doubts.count
        return f"{counted(count, 'value')} not read (first {self.doubts.first})" if count else ""


def read_tree(tree: Path) -> SysfsValues:
    """Read a tree: its devices' folder, or a root that contains it, such as /sys.

    Raises:
        ConfigError: it has no device.
    """
    folders = _find_devices(tree)
    if not folders:
        problem = "no neuronN/, as in /sys/devices/virtual/neuron_device"
        raise ConfigError(f"{tree}: {problem if tree.is_dir() else 'there is no such folder'}")
    files = _Files(Doubts())
    failures: Counter[str] = Counter()
    devices: dict[int, dict[str, float]] = {}
    seen: set[str] = set()
    silent = []
    for number, folder in sorted(folders.items()):
        device = _DeviceNodes(folder, files)
        seen |= device.names
        devices[number] = device.values()
        failures += device.failures
        if device.is_silent:
            silent.append(number)
    expected = (*_DEVICE_NODES, _SUCCESS, *_FAILED, _MEMORY)
    facts = {
        name: files.first(tree / folder / name for folder in _FOLDERS)
        for name in ("server_id_4", "node_id_4", "ultraserver_mode")
    }
    server = facts["server_id_4"]
    return SysfsValues(
        devices,
        tuple(name for name in expected if name not in seen),
        tuple(silent),
        files.doubts,
        failures,
        files.first(tree / f"{prefix}module/neuron/version" for prefix in ("", "sys/")),
        server if re.fullmatch(r"(?!0+$)[0-9a-f]{16}", server) else "",
        facts["node_id_4"] if facts["node_id_4"].isdecimal() else "",
        facts["ultraserver_mode"],
    )


def _find_devices(tree: Path) -> dict[int, Path]:
    """Return the folder of each device."""
    for name in _FOLDERS:
        try:
            entries = list(os.scandir(tree / name))
        except OSError:
            continue
        devices = {
            int(match[1]): tree / name / entry.name
            for entry in entries
            if (match := _DEVICE.fullmatch(entry.name)) and entry.is_dir()
        }
        if devices:
            return devices
    return {}


class _Files:
    """Reads small files; counts and names unreadable ones."""

    def __init__(self, doubts: Doubts) -> None:
        self.doubts = doubts

    def first(self, paths: Iterator[Path]) -> str:
        """Return the text of the first file that is there; empty without one."""
        return next((self.text(path) or "" for path in paths if path.exists()), "")

    def text(self, path: Path) -> str | None:
        """Return a file's text without blanks around it; None if it cannot be read."""
        try:
            # A pipe in a copy would stop the reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = os.read(descriptor, MOST_BYTES + 1) if is_file else b""
            finally:
                os.close(descriptor)
        except OSError as error:
            self._doubt(path, error.strerror or "cannot be read")
            return None
        if not is_file or len(data) > MOST_BYTES:
            reason = f"is longer than {MOST_BYTES:,} bytes" if is_file else "is no file"
            self._doubt(path, reason)
            return None
        return data.decode("utf-8", "replace").strip("\0 \t\r\n")

    def number(self, path: Path) -> float:
        """Return a file's count; NaN if it has none."""
        text = self.text(path)
        if text is None:
            return math.nan
        # A bad counter of 20 digits is that of a 64-bit one that fell below 0.
        if not (text.isascii() and text.isdecimal() and len(text) < 19) or int(text) == _NO_ANSWER:
            self._doubt(path, f"must be a count, not {plain(text, 20)!r}")
            return math.nan
        return float(text)

    def health(self, path: Path) -> float:
        """Return the bits of unhealthy components; NaN if not all are known."""
        text = self.text(path)
        if text is None:
            return math.nan
        names = set(re.split(r"[\s,;|]+", text.lower())) - {"", "none", "0"}
        if unknown := sorted(names.difference(HEALTH_BITS)):
            self._doubt(path, f"names an unknown component {plain(unknown[0], 40)!r}")
        bits = sum(1 << bit for bit, name in enumerate(HEALTH_BITS) if name in names)
        return float(bits) if bits or not unknown else math.nan

    def power(self, path: Path) -> dict[str, float]:
        """Return the last minute's mean and maximum of power; empty without data."""
        text = self.text(path)
        fields = (text or "").split(",")
        if text is None or fields[0] == "POWER_STATUS_NO_DATA":
            return {}
        try:
            low, high, mean = map(float, fields[2:5])
        except ValueError:
            low = high = mean = math.nan
        if fields[0] != "POWER_STATUS_VALID" or not 0 <= low <= mean <= high <= MOST_PCT:
            self._doubt(path, f"must be a minute's power, not {plain(text, 60)!r}")
            return {}
        return {"power_util_pct": mean, "power_util_max_pct": high}

    def _doubt(self, path: Path, reason: str) -> None:
        """Count a file that cannot be used."""
        self.doubts.add(f"{'/'.join(path.parts[-4:])}: {reason}")


class _DeviceNodes:
    """The nodes of a device by name."""

    def __init__(self, folder: Path, files: _Files) -> None:
        self._files = files
        self._nodes: dict[str, Path] = {}
        """File of each node of the device."""
        self._counters: dict[str, list[Path]] = {}
        """Files of each counter of its cores."""
        self.failures: Counter[str] = Counter()
        self.is_silent = False
        looked = 0
        for parent, folders, names in os.walk(folder):
            folders.sort()
            looked += len(folders) + len(names)
            if looked > MOST_NODES:
                files.doubts.add(f"{folder.name}: more than {MOST_NODES:,} nodes")
                break
            for name in names:
                self._place(Path(parent, name), folder)

    def _place(self, path: Path, folder: Path) -> None:
        """Store a file by its node's name."""
        above = path.relative_to(folder).parts[:-1]
        if not any(_CORE.fullmatch(part) for part in above):
            if path.name in _DEVICE_NODES:
                self._nodes.setdefault(path.name, path)
        elif path.name == "total":
            # Memory is a folder of kinds; each total is what is in use now.
            name = _MEMORY if _MEMORY in above[:-1] else above[-1]
            self._counters.setdefault(name, []).append(path)

    @property
    def names(self) -> set[str]:
        """Names of all nodes of the device."""
        return {*self._nodes, *self._counters}

    def values(self) -> dict[str, float]:
        """Return the known values by metric."""
        files = self._files
        values: dict[str, float] = {}
        if _UNHEALTHY in self._nodes:
            values["health"] = files.health(self._nodes[_UNHEALTHY])
        if _POWER in self._nodes:
            values |= files.power(self._nodes[_POWER])
        if _HEARTBEAT in self._nodes:
            heartbeat = files.text(self._nodes[_HEARTBEAT]) or ""
            self.is_silent = heartbeat.lower() in {"", "0", f"{_NO_ANSWER}", f"{_NO_ANSWER:#x}"}
        # The driver shows 0 for a counter that it failed to read.
        for name in _ECC if not self.is_silent else ():
            if name in self._nodes:
                values[name] = files.number(self._nodes[name])
        for name, nodes in (
            ("exec_completed", (_SUCCESS,)),
            ("exec_errors", _FAILED),
            ("hbm_used_bytes", (_MEMORY,)),
        ):
            counts = {node: self._sum(node) for node in nodes if node in self._counters}
            if counts:
                values[name] = sum(counts.values())
            if name == "exec_errors":
                self.failures.update({node: int(n) for node, n in counts.items() if n > 0})
        return {
            name: value for name, value in values.items() if name in SYSFS and not math.isnan(value)
        }

    def _sum(self, node: str) -> float:
        return sum(self._files.number(path) for path in self._counters[node])
