"""Sequence numbers of one telemetry topic: what was lost, late or there twice."""

from __future__ import annotations

import enum
from dataclasses import dataclass

WINDOW = 64
"""How many ticks back a message can still be told to be late (first time) or a duplicate."""
_MASK = (1 << WINDOW) - 1


class Verdict(enum.Enum):
    """What to do with a message."""

    NEWEST = "newest"
    """Newer than all before it: apply it."""
    LATE = "late"
    """Not seen before, but something newer has been: count it, keep the newer values."""
    DUPLICATE = "duplicate"
    """Seen before: count it."""


@dataclass(slots=True)
class Pipeline:
    """Counts of what went wrong between publishers and the store; all only grow, but `lost`, which late ones mend."""

    messages: int = 0
    """Telemetry messages that were applied."""
    chips: int = 0
    """Chip updates in them."""
    lost: int = 0
    """Ticks of a topic that never came."""
    late: int = 0
    """Messages that came after a newer one of their topic."""
    duplicates: int = 0
    undescribed: int = 0
    """Telemetry for which no descriptor was known."""
    undecodable: int = 0
    """Payloads or topics that are not what the protocol says."""
    misplaced: int = 0
    """Payloads whose identity is not their topic's."""
    rejected: int = 0
    """What was refused because a limit was reached."""
    dropped: int = 0
    """Messages that the transport dropped before they were read: queue full, or too large."""
    last_problem: str = ""
    """The last undecodable, misplaced or rejected message, in one line of plain text."""


class SequenceTracker:
    """Follows (boot, seq) of one topic."""

    __slots__ = ("boot", "last", "previous_boot", "seen")

    def __init__(self) -> None:
        self.boot = ""
        self.previous_boot = ""
        self.last = -1
        """Highest seq of this boot."""
        self.seen = 0
        """Bit k says that seq `last - k` has come."""

    def accept(self, boot: str, seq: int, counts: Pipeline) -> Verdict:
        """Take note of a message and say what it is; `counts` gets what was lost, late or double.

        The first message of a boot sets where counting begins: what a publisher sent before somebody listened is not
        lost. Messages of the boot before the present one are late.
        """
        if boot != self.boot:
            if boot == self.previous_boot:
                counts.late += 1
                return Verdict.LATE
            self.previous_boot, self.boot = self.boot, boot
            self.last, self.seen = seq, _MASK
            return Verdict.NEWEST
        ahead = seq - self.last
        if ahead > 0:
            counts.lost += ahead - 1
            self.seen = ((self.seen << ahead) | 1) & _MASK if ahead < WINDOW else 1
            self.last = seq
            return Verdict.NEWEST
        bit = 1 << -ahead
        if -ahead < WINDOW and not self.seen & bit:
            self.seen |= bit
            counts.lost -= 1
            counts.late += 1
            return Verdict.LATE
        counts.duplicates += 1
        return Verdict.DUPLICATE
