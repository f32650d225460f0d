"""Severity of findings, events and alerts, and its order; no signs or colours."""

from __future__ import annotations

import enum


class Severity(enum.Enum):
    """Three steps, worst first; the value is the word in messages and rule files.

    The worse one is the smaller one, so that sorting puts it first and `min` finds it.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    rank: int
    """0 is the worst: for arrays, and as a key where many are sorted."""

    def __init__(self, _word: str) -> None:
        self.rank = len(type(self).__members__)

    def __lt__(self, other: Severity) -> bool:
        """Return whether it is worse."""
        return self.rank < other.rank

    def __le__(self, other: Severity) -> bool:
        """Return whether it is as bad or worse."""
        return self.rank <= other.rank


BY_RANK = tuple(Severity)
"""Severities by rank."""
