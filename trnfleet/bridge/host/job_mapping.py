"""Job-mapping directory, as dcgm-exporter reads it: a file for each device, a job id on each line.

A scheduler's prolog writes it. A file with no line is an idle device.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from trnfleet.bridge.neuron.sysfs import MOST_BYTES
from trnfleet.bridge.neuron.telemetry import Holder
from trnfleet.clock import format_rfc3339
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.bridge.neuron.fields import Doubts

FOLDER = Path("/run/trnfleet/jobs")
"""Directory that the shipped scripts for Slurm write; it is empty after a reboot."""
_DEVICE = re.compile(r"(\d{1,6})(\.\d+)?", re.ASCII)
"""Name of a file: a device, or a part of one."""


def read_job_mapping(folder: Path, chips: Mapping[int, int], doubts: Doubts) -> tuple[Holder, ...]:
    """Return the jobs in a directory; none if it does not exist yet.

    Args:
        folder: The directory.
        chips: Chip of each device of the host.
        doubts: Receives unreadable files and unknown devices.
    """
    held: dict[str, set[int]] = {}
    begins: dict[str, int] = {}
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        doubts.add(f"{folder}: {error.strerror or error}; the agent must be able to read it")
        return ()
    for file in files:
        device = _DEVICE.fullmatch(file.name)
        if device is None:
            continue
        try:
            if not file.is_file():
                continue
            with file.open("rb") as stream:
                text = stream.read(MOST_BYTES).decode(errors="replace")
            written_ns = file.stat().st_mtime_ns
        except FileNotFoundError:
            continue
        except OSError as error:
            doubts.add(f"{file}: {error.strerror or error}; the agent must be able to read it")
            continue
        names = {line.strip() for line in text.splitlines()} - {""}
        chip = chips.get(int(device[1]))
        if chip is None:
            if names:
                doubts.add(f"{file}: this host has no device {device[1]}")
            continue
        for name in names:
            held.setdefault(name, set()).add(chip)
            begins[name] = min(written_ns, begins.get(name, written_ns))
    return tuple(
        Holder(
            name,
            frozenset(of_job),
            "job-mapping",
            format_rfc3339(begins[name]) if 0 < begins[name] <= LATEST_NS else None,
        )
        for name, of_job in held.items()
    )
