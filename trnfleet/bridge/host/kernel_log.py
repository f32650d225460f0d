"""Kernel messages about Neuron devices, as events.

Published: the lines of `NEURON_HW_ERR` (the Neuron SDK's troubleshooting guide) and of the driver
(its source, 2.24). A line's text leaves the host only in the parts named here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.bridge.neuron.telemetry import HostEvent
from trnfleet.domain.severity import Severity
from trnfleet.text import plain
from trnfleet.wire.ndjson import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

JOURNAL_OPTIONS = ("-k", "-o", "json", "-f")
_JOURNALS = ("var/log/journal", "run/log/journal")
_LONGEST_LINE = 65_536
_RECORD_BYTES = 8192
"""Longest record of /dev/kmsg: published (the kernel's CONSOLE_EXT_LOG_MAX)."""
_MOST_RECORDS = 10_000
"""Most records in one reading of /dev/kmsg."""

_HARDWARE = {
    "SRAM_UNCORRECTABLE_ERROR": ("sram_uncorrectable", 1202),
    "NC_UNCORRECTABLE_ERROR": ("nc_uncorrectable", 1202),
    "HBM_UNCORRECTABLE_ERROR": ("hbm_uncorrectable", 1201),
    "DMA_ERROR": ("dma_abort", 1203),
    "HANG_ON_COLLECTIVES": ("hang_collectives", 1200),
}
"""Name and NRT_STATUS of each kind of `NEURON_HW_ERR`."""
_ERROR = re.compile(r"NEURON_HW_ERR=(?P<kind>[A-Z_]{1,64})\b")
_FIELD = re.compile(r"\b(nd-id|nc-id|serial-num|action)=([\w.-]{1,64})")


class _Line(NamedTuple):
    """A kind of the driver's lines."""

    pattern: re.Pattern[str]
    """Part of the line for the event's text; its group is the device."""
    name: str
    severity: Severity


_DRIVER = tuple(
    _Line(re.compile(pattern), name, severity)
    for pattern, name, severity in (
        (
            r"nd(\d+): reset request \d+ (?:failed|was initiated, but failed to complete)",
            "device_reset_failed",
            Severity.CRITICAL,
        ),
        (r"nd(\d+): reset request \d+ (?:initiated|completed)", "device_reset", Severity.INFO),
        (
            r"mempool \[\d+:\d+\] total \d+ occupied \d+ needed \d+ available \d+",
            "hbm_full",
            Severity.WARNING,
        ),
        (r"seq: \d+, cmd: \d+ timed out", "firmware_timeout", Severity.WARNING),
        (
            r"nd(\d+): ultraserver election failed",
            "ultraserver_election_failed",
            Severity.WARNING,
        ),
        (
            r"nd(\d+): ultraserver election (?:starting|complete\b.{0,100})",
            "ultraserver_election",
            Severity.INFO,
        ),
        (
            r"nd(\d+): retrying election as 2 node UltraServer",
            "ultraserver_split",
            Severity.WARNING,
        ),
        (
            r"nd(\d+): \w+ ultraserver link is miss-wired to nd\d+ \([0-9a-f]+\)",
            "ultraserver_miswired",
            Severity.WARNING,
        ),
        (
            r"Only \d+ out of 15 secondary devices reported good links",
            "ultraserver_links",
            Severity.WARNING,
        ),
        (
            r"Serial numbers on \w+ link pair don't match",
            "ultraserver_links",
            Severity.WARNING,
        ),
    )
)
"""Lines of the driver that are told; the first that fits. All others are left out."""
KERNEL_EVENTS = frozenset(
    [*(name for name, _ in _HARDWARE.values()), *(line.name for line in _DRIVER)]
)
"""Names of events from kernel messages."""


def kernel_event(text: str) -> HostEvent | None:
    """Return a kernel message as an event; None for one that is not told."""
    error = _ERROR.search(text)
    if error is not None:
        fields = dict(_FIELD.findall(text))
        name, nrt = _HARDWARE.get(error["kind"], ("neuron_hw_err", None))
        device = fields.get("nd-id", "")
        words = (f"{key}={value}" for key, value in fields.items())
        return HostEvent(
            name,
            " ".join((error[0], *words)),
            Severity.CRITICAL,
            chip=int(device) if device.isdecimal() and len(device) < 4 else None,
            nrt=nrt,
        )
    if "neuron" not in text:
        return None
    for line in _DRIVER:
        match = line.pattern.search(text)
        if match is not None:
            device = next(filter(None, match.groups()), "")
            return HostEvent(
                line.name,
                f"neuron: {plain(match[0])}",
                line.severity,
                source="driver",
                chip=int(device) if device and len(device) < 4 else None,
            )
    return None


def kernel_events(texts: Iterable[str]) -> list[HostEvent]:
    """Return the events of messages, equal ones of a device once with their number."""
    counts: Counter[tuple[str, int | None]] = Counter()
    events: dict[tuple[str, int | None], HostEvent] = {}
    for text in texts:
        event = kernel_event(text)
        if event is not None:
            key = (event.name, event.chip)
            counts[key] += 1
            events.setdefault(key, event)
    return [
        event if counts[key] == 1 else event._replace(text=f"{event.text} ({counts[key]} times)")
        for key, event in events.items()
    ]


def journal_command(root: Path) -> list[str]:
    """Return the command that follows the journal; empty where it cannot be read."""
    program = shutil.which("journalctl")
    for name in _JOURNALS if program is not None else ():
        folder = root / name
        if any(os.access(path, os.R_OK) for path in folder.glob("*/system.journal")):
            place = () if root == root.parent else ("-D", str(folder))
            return [str(program), *place, *JOURNAL_OPTIONS]
    return []


class Journal:
    """The journal's kernel messages from a moment on, also those between two journalctl."""

    def __init__(self, command: list[str], begin_s: int) -> None:
        """Read nothing yet.

        Args:
            command: Follows the journal.
            begin_s: The moment, in seconds since 1970.
        """
        self._command = command
        self._from = ["--since", f"@{begin_s}"]

    def command(self) -> list[str]:
        """Return the command for the messages that were not read yet."""
        return [*self._command, *self._from]

    def texts(self, stream: BinaryIO) -> Iterator[str]:
        """Yield the messages in the output of journalctl; empty for one without a text."""
        for _, line in read_lines(stream, _LONGEST_LINE):
            try:
                record = json.loads(line or b"")
                message = record.get("MESSAGE")
                cursor = record.get("__CURSOR")
            except (ValueError, AttributeError, RecursionError):
                message = cursor = None
            if isinstance(cursor, str) and cursor:
                self._from = ["--after-cursor", cursor]
            # A message that is not UTF-8 is an array of bytes.
            yield message if isinstance(message, str) else ""


class KernelRing:
    """The kernel's own ring of messages, /dev/kmsg, from its end on."""

    def __init__(self, root: Path) -> None:
        """Open it.

        Args:
            root: The host's root directory.

        Raises:
            OSError: it may not be read, or is not there.
        """
        self._descriptor = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._sequence = -1
        self.lost = 0
        """Records that were overwritten before they were read."""
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def read(self) -> list[str]:
        """Return the messages since the last reading.

        Raises:
            OSError: it can no longer be read.
        """
        texts: list[str] = []
        for _ in range(_MOST_RECORDS):
            try:
                data = os.read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                # Overwritten: the next reading has the oldest that is left, and the gap is counted.
                continue
            if not data:
                break
            texts += self._texts(data)
        return texts

    def _texts(self, data: bytes) -> list[str]:
        texts = []
        for line in data.decode("utf-8", "replace").splitlines():
            head, mark, text = line.partition(";")
            fields = head.split(",")
            # Lines with a blank before them are a record's properties.
            if line.startswith(" ") or not mark or len(fields) < 3 or not fields[1].isdecimal():
                continue
            sequence = int(fields[1])
            if self._sequence >= 0:
                self.lost += max(0, sequence - self._sequence - 1)
            self._sequence = sequence
            texts.append(text)
        return texts
