"""Sequence numbers of one telemetry topic: what was lost, late or there twice."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

WINDOW = 64
"""How many ticks back a message can still be told to be late (first time) or a duplicate."""
LARGEST_GAP = 1_000_000
"""A jump beyond this (11 days of ticks a second) is no loss that anybody could count: counting starts anew."""
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
    """Messages that came after a newer one of their topic, or from a publisher's former start."""
    duplicates: int = 0
    undescribed: int = 0
    """Telemetry for which no descriptor, or none of its start and revision, was known; it is not lost."""
    undecodable: int = 0
    """Payloads or topics that are not what the protocol says."""
    misplaced: int = 0
    """Payloads whose identity is not their topic's."""
    rejected: int = 0
    """What was refused because a limit was reached."""
    dropped: int = 0
    """Messages that the transport dropped before they were read: queue full, or too large."""
    internal_errors: int = 0
    """Failures of the monitor's own work."""
    last_problem: str = ""
    """The last undecodable, misplaced or rejected message, or failure, in one line of plain text."""
    failed_kinds: dict[str, int] = field(default_factory=dict, init=False)
    """How often each kind of failure has been counted."""


class SequenceTracker:
    """Follows the seq of one topic through one start of its publisher."""

    __slots__ = ("first", "last", "seen")

    def __init__(self) -> None:
        self.last: int | None = None
        """Highest seq that has come."""
        self.seen = 0
        """Bit k says that seq `last - k` has come."""
        self.first = 0
        """Where counting began: what was sent before is late when it comes, and was never lost."""

    def __copy__(self) -> SequenceTracker:
        """Return one that goes on from here on its own."""
        twin = SequenceTracker()
        twin.last, twin.seen, twin.first = self.last, self.seen, self.first
        return twin

    def accept(self, seq: int, counts: Pipeline) -> Verdict:
        """Take note of a message and say what it is; `counts` gets what was lost, late or double.

        The first message sets where counting begins: what a publisher sent before somebody listened is not lost.
        """
        if self.last is None:
            self._begin(seq)
            return Verdict.NEWEST
        ahead = seq - self.last
        if ahead > LARGEST_GAP:
            self._begin(seq)
            return Verdict.NEWEST
        if ahead > 0:
            counts.lost += ahead - 1
            self.seen = ((self.seen << ahead) | 1) & _MASK if ahead < WINDOW else 1
            self.last = seq
            return Verdict.NEWEST
        if -ahead >= LARGEST_GAP:
            self._begin(seq)
            return Verdict.NEWEST
        if -ahead < WINDOW and not self.seen >> -ahead & 1:
            self.seen |= 1 << -ahead
            counts.lost -= seq > self.first
            counts.late += 1
            return Verdict.LATE
        counts.duplicates += 1
        return Verdict.DUPLICATE

    def _begin(self, seq: int) -> None:
        self.first = self.last = seq
        self.seen = 1
