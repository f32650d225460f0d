"""The Neuron driver's sysfs tree, or a copy of it, as values of chips.

Nodes are found by name below `neuronN/` and `neuron_coreK/`, because driver 2.31 moved them. Files
are opened for reading only: a write clears a counter. Published: names of nodes and power's format
(the Neuron SDK's sysfs guide, the driver's source). Assumed, because no source has the format:
unhealthy components are names, and the heartbeat of a firmware that does not answer is empty, 0 or
0xdeadbeef.
"""

from __future__ import annotations

import errno
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
    from collections.abc import Iterator, Mapping

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
_EXPECTED = (*_DEVICE_NODES, _SUCCESS, *_FAILED, _MEMORY)
_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})
"""Errors of a file whose device or driver is another now."""

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


class DeviceReading(NamedTuple):
    """One reading of a device."""

    values: dict[str, float]
    """Known values by metric."""
    failures: Counter[str]
    """Failed executions of its cores by kind."""
    is_silent: bool
    """Whether its firmware does not answer."""
    doubts: Doubts


class TreeFacts(NamedTuple):
    """What a tree has besides its devices."""

    driver: str = ""
    ultraserver: str = ""
    place: str = ""
    mode: str = ""


class DriverTree:
    """A tree to read again and again.

    Nodes are looked for once a device: when it appears, when its folder or the driver is another,
    and after a node has gone.
    """

    def __init__(self, tree: Path, *, waits: bool = True) -> None:
        """Look for nothing yet.

        Args:
            tree: Its devices' folder, or a root that contains it, such as /sys.
            waits: Whether to wait for a file that does not answer, as in a thread with a limit;
                otherwise it counts as unreadable.
        """
        self._tree = tree
        self._waits = waits
        self._folders: dict[int, tuple[Path, int]] = {}
        self.facts = TreeFacts()
        self.devices: dict[int, DeviceNodes] = {}
        """Devices of the last look, in order."""

    def look(self) -> None:
        """Find the devices, and read the driver's version and the UltraServer."""
        files = _Files(Doubts(), waits=self._waits)
        tree = self._tree
        names = {
            name: files.first(tree / folder / name for folder in _FOLDERS)
            for name in ("server_id_4", "node_id_4", "ultraserver_mode")
        }
        server = names["server_id_4"]
        facts = TreeFacts(
            files.first(tree / f"{prefix}module/neuron/version" for prefix in ("", "sys/")),
            server if re.fullmatch(r"(?!0+$)[0-9a-f]{16}", server) else "",
            names["node_id_4"] if names["node_id_4"].isdecimal() else "",
            names["ultraserver_mode"],
        )
        folders = _find_devices(tree)
        same = self._folders if facts.driver == self.facts.driver else {}
        self.devices = {
            number: self.devices[number]
            if same.get(number) == place
            else DeviceNodes(place[0], waits=self._waits)
            for number, place in sorted(folders.items())
        }
        self._folders = folders
        self.facts = facts

    def values(self, readings: Mapping[int, DeviceReading]) -> SysfsValues:
        """Return the values of all devices that were read."""
        seen = {name for device in self.devices.values() for name in device.names}
        doubts = Doubts()
        for reading in readings.values():
            doubts.count += reading.doubts.count
            doubts.first = doubts.first or reading.doubts.first
        return SysfsValues(
            {number: reading.values for number, reading in readings.items()},
            tuple(name for name in _EXPECTED if name not in seen),
            tuple(number for number, reading in readings.items() if reading.is_silent),
            doubts,
            sum((reading.failures for reading in readings.values()), Counter()),
            *self.facts,
        )


def read_tree(tree: Path) -> SysfsValues:
    """Read a tree once: its devices' folder, or a root that contains it, such as /sys.

    Raises:
        ConfigError: it has no device.
    """
    nodes = DriverTree(tree, waits=False)
    nodes.look()
    if not nodes.devices:
        problem = "no neuronN/, as in /sys/devices/virtual/neuron_device"
        raise ConfigError(f"{tree}: {problem if tree.is_dir() else 'there is no such folder'}")
    return nodes.values({number: device.read() for number, device in nodes.devices.items()})


def _find_devices(tree: Path) -> dict[int, tuple[Path, int]]:
    """Return the folder of each device, with its inode, which is new after a reload."""
    for name in _FOLDERS:
        try:
            entries = list(os.scandir(tree / name))
        except OSError:
            continue
        devices = {
            int(match[1]): (tree / name / entry.name, entry.inode())
            for entry in entries
            if (match := _DEVICE.fullmatch(entry.name)) and entry.is_dir()
        }
        if devices:
            return devices
    return {}


class _Files:
    """Reads small files; counts and names unreadable ones."""

    def __init__(self, doubts: Doubts, *, waits: bool) -> None:
        self.doubts = doubts
        self.has_lost = False
        """Whether a node has gone."""
        self.count = 0
        self._waits = waits
        self._flags = os.O_RDONLY | os.O_CLOEXEC | (0 if waits else os.O_NONBLOCK)

    def first(self, paths: Iterator[Path]) -> str:
        """Return the text of the first file that is there; empty without one."""
        return next((self.text(path) or "" for path in paths if path.exists()), "")

    def text(self, path: Path) -> str | None:
        """Return a file's text without blanks around it; None if it cannot be read."""
        self.count += 1
        try:
            descriptor = os.open(path, self._flags)
            try:
                # A pipe in a copy would stop a reader that does not wait.
                is_file = self._waits or stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = os.read(descriptor, MOST_BYTES + 1) if is_file else b""
            finally:
                os.close(descriptor)
        except OSError as error:
            self.has_lost |= error.errno in _GONE
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


class DeviceNodes:
    """The nodes of a device by name."""

    def __init__(self, folder: Path, *, waits: bool) -> None:
        self._folder = folder
        self._waits = waits
        self._nodes: dict[str, Path] = {}
        """File of each node of the device."""
        self._counters: dict[str, list[Path]] = {}
        """Files of each counter of its cores."""
        self._core_values: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self._files: _Files | None = None

    @property
    def reads(self) -> int:
        """Files that the last reading has come to; one that hangs stays at a file."""
        return 0 if self._files is None else self._files.count

    @property
    def name(self) -> str:
        """Name of the device, as in `neuron3`."""
        return self._folder.name

    @property
    def names(self) -> set[str]:
        """Names of all nodes of the device."""
        return {*self._nodes, *self._counters}

    def read(self, *, with_cores: bool = True) -> DeviceReading:
        """Read the device.

        Args:
            with_cores: Whether to read the files of its cores, too: there are hundreds. Otherwise
                their values are those of the last reading.
        """
        files = self._files = _Files(Doubts(), waits=self._waits)
        if not self.names:
            with_cores = True
            self._look(files)
        values, is_silent = self._device_values(files)
        if with_cores:
            self._read_cores(files)
        if files.has_lost:
            self._nodes.clear()
            self._counters.clear()
        return DeviceReading(
            {
                name: value
                for name, value in (values | self._core_values).items()
                if name in SYSFS and not math.isnan(value)
            },
            self._failures,
            is_silent,
            files.doubts,
        )

    def _look(self, files: _Files) -> None:
        looked = 0
        for parent, folders, names in os.walk(self._folder):
            folders.sort()
            looked += len(folders) + len(names)
            if looked > MOST_NODES:
                files.doubts.add(f"{self._folder.name}: more than {MOST_NODES:,} nodes")
                break
            for name in names:
                self._place(Path(parent, name))

    def _place(self, path: Path) -> None:
        """Store a file by its node's name."""
        above = path.relative_to(self._folder).parts[:-1]
        if not any(_CORE.fullmatch(part) for part in above):
            if path.name in _DEVICE_NODES:
                self._nodes.setdefault(path.name, path)
        elif path.name == "total":
            # Memory is a folder of kinds; each total is what is in use now.
            name = _MEMORY if _MEMORY in above[:-1] else above[-1]
            self._counters.setdefault(name, []).append(path)

    def _device_values(self, files: _Files) -> tuple[dict[str, float], bool]:
        """Return the device's own values, and whether its firmware does not answer."""
        values: dict[str, float] = {}
        if _UNHEALTHY in self._nodes:
            values["health"] = files.health(self._nodes[_UNHEALTHY])
        if _POWER in self._nodes:
            values |= files.power(self._nodes[_POWER])
        is_silent = False
        if _HEARTBEAT in self._nodes:
            heartbeat = files.text(self._nodes[_HEARTBEAT]) or ""
            is_silent = heartbeat.lower() in {"", "0", f"{_NO_ANSWER}", f"{_NO_ANSWER:#x}"}
        # The driver shows 0 for a counter that it failed to read.
        for name in _ECC if not is_silent else ():
            if name in self._nodes:
                values[name] = files.number(self._nodes[name])
        return values, is_silent

    def _read_cores(self, files: _Files) -> None:
        self._core_values = {}
        self._failures = Counter()
        for name, nodes in (
            ("exec_completed", (_SUCCESS,)),
            ("exec_errors", _FAILED),
            ("hbm_used_bytes", (_MEMORY,)),
        ):
            counts = {
                node: sum(files.number(path) for path in self._counters[node])
                for node in nodes
                if node in self._counters
            }
            if counts:
                self._core_values[name] = sum(counts.values())
            if name == "exec_errors":
                self._failures.update({node: int(n) for node, n in counts.items() if n > 0})
