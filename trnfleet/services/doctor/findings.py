"""Findings: a subject, its condition, and advice."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Health(enum.StrEnum):
    """How a thing is."""

    OK = "ok"
    UNKNOWN = "unknown"
    """Could not be found out."""
    WARNING = "warning"
    """Works, and something will be missing or slow."""
    PROBLEM = "problem"
    """Does not work."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    group: str
    """Section of the report, such as `terminal`."""
    name: str
    health: Health
    value: str
    """The value found."""
    advice: str = ""
    """Action to take. Empty if none is needed."""


def took(seconds: float) -> str:
    """Return a short time with two digits: `0.43 ms`, `12 ms`, `1.2 s`."""
    return (
        f"{seconds * 1_000:.2g} ms"
        if seconds < 0.0995
        else f"{seconds * 1_000:.0f} ms"
        if seconds < 1
        else f"{seconds:.1f} s"
    )
