"""Versions for `trnfleet --version --json`: program, platform and file formats."""

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
    """Return all versions.

    None for a missing dependency, such as an extra's.
    """
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
    """Return the names of the direct dependencies, with extras.

    Empty if not installed.
    """
    try:
        requirements = metadata.requires("trnfleet") or []
    except metadata.PackageNotFoundError:
        return set()
    return {
        match[0].lower()
        for requirement in requirements
        if (match := _REQUIREMENT.match(requirement))
    }


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
