"""Reasons why samples say nothing, by the numbers of the samples."""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

MOST_GAPS = 512
"""Gaps that are kept; the oldest go first."""


class Reason(enum.Enum):
    """A reason why a time has no values."""

    LINK_DOWN = "link down"
    """Nothing could be heard."""
    NOT_OBSERVED = "not observed"
    """No sample was taken: the monitor was stopped, or late."""
    BEFORE_START = "before start"
    """Nothing was kept yet, or it is not kept any more."""
    NOT_KEPT = "not kept"
    """The fleet is too large to keep all of its nodes, and nobody had looked at this one yet."""
    SILENT = "no telemetry"
    """Sampled, and nothing live was there."""
    NO_STEPS = "no steps"
    """No job took a step: they failed, wait or are none of those that train."""
    NOT_IN_HISTORY = "not in history"
    """The files of months have nothing of it: no writer ran, nothing came, or it is not written yet."""
    BEFORE_HISTORY = "before history"
    """They begin later."""
    READING = "reading history"
    UNREADABLE = "history not readable"


class Gap(NamedTuple):
    """Samples without values."""

    first: int
    """Number of its first sample."""
    after: int
    """Number of the first sample after it."""
    reason: Reason


class Gaps:
    """The gaps of one history, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Gap] = deque(maxlen=MOST_GAPS)

    def add(self, first: int, after: int, reason: Reason) -> None:
        """Add samples without values; those that follow on a gap for the same reason are one with it."""
        last = self._kept[-1] if self._kept else None
        if last is not None and last.after == first and last.reason is reason:
            self._kept[-1] = last._replace(after=after)
        elif after > first:
            self._kept.append(Gap(first, after, reason))

    def backfill(self, before: Gaps, count: int) -> None:
        """Put the gaps of samples before all others, which come `count` samples later."""
        own = [Gap(each.first + count, each.after + count, each.reason) for each in self._kept]
        self._kept.clear()
        for each in (*before._kept, *own):
            self.add(*each)

    def since(self, first: int) -> list[Gap]:
        """Return the gaps that do not end before a sample."""
        return [each for each in self._kept if each.after > first]
