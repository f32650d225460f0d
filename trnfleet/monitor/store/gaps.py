"""Reasons why samples say nothing, by the numbers of the samples."""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

MOST_GAPS = 512
"""Most stored gaps. The oldest are dropped first."""


class Reason(enum.Enum):
    """A reason why a time has no values."""

    LINK_DOWN = "link down"
    """Nothing could be heard."""
    NOT_OBSERVED = "not observed"
    """No sample was taken: the monitor was stopped, or late."""
    BEFORE_START = "before start"
    """Nothing was kept yet, or it is not kept any more."""
    NOT_KEPT = "not kept"
    """The fleet is too large to store all nodes. Nobody had viewed this one yet."""
    SILENT = "no telemetry"
    """Sampled, and nothing live was there."""
    LOADING = "loading"
    """Of a recording: it has not been read so far yet."""
    NO_STEPS = "no steps"
    """No job made a step: jobs failed, wait or do not train."""
    NOT_IN_HISTORY = "not in history"
    """The monthly files have no data. No writer ran, nothing arrived, or it is not written yet."""
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
        """Add samples without values.

        Adjacent gaps with the same reason are merged.
        """
        last = self._kept[-1] if self._kept else None
        if last is not None and last.after == first and last.reason is reason:
            self._kept[-1] = last._replace(after=after)
        elif after > first:
            self._kept.append(Gap(first, after, reason))

    def backfill(self, before: Gaps, count: int) -> None:
        """Prepend earlier gaps and shift all others by `count` samples."""
        own = [Gap(gap.first + count, gap.after + count, gap.reason) for gap in self._kept]
        self._kept.clear()
        for gap in (*before._kept, *own):
            self.add(*gap)

    def since(self, first: int) -> list[Gap]:
        """Return the gaps not over before a sample."""
        return [gap for gap in self._kept if gap.after > first]
