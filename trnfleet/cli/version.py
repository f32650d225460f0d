"""Versions for `trnfleet --version --json`: the program's, those of what it runs on, and those of what it reads and writes."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from typing import Any

from trnfleet import __version__
from trnfleet.record.format.schema import SCHEMA
from trnfleet.wire.topics import VERSION

_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
"""Name at the beginning of a requirement, such as `numpy<3,>=2.1`."""


def versions() -> dict[str, Any]:
    """Return all versions; a dependency that is not installed, such as an extra's, is None."""
    return {
        "version": __version__,
        "wire": VERSION,
        "recording": SCHEMA,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "dependencies": {name: _installed(name) for name in sorted(_required())},
    }


def _required() -> set[str]:
    """Return the names of the direct dependencies, extras included; none where the program runs without being installed."""
    try:
        requirements = metadata.requires("trnfleet") or []
    except metadata.PackageNotFoundError:
        return set()
    return {found[0].lower() for each in requirements if (found := _REQUIREMENT.match(each))}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
