"""Sequence numbers of one telemetry topic: loss, reordering and duplicates."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.monitor.pipeline.counts import PipelineCounts

WINDOW = 64
"""Ticks back within which a late message is distinguished from a duplicate."""
LARGEST_GAP = 1_000_000
"""A jump beyond this (11 days of ticks a second) is no loss: counting starts again."""
BEHIND = 3
"""Messages in a row that are behind in number and ahead in time, after which counting starts again: a publisher whose counter
has gone back, or a message of somebody else's that was numbered too high, hides the telemetry for no longer than that."""
_MASK = (1 << WINDOW) - 1


class Verdict(enum.Enum):
    """The place of a message in its sequence."""

    NEWEST = "newest"
    """Newer than all before it: apply it."""
    LATE = "late"
    """Not seen before, but something newer has been: count it, keep the newer values."""
    DUPLICATE = "duplicate"
    """Seen before: count it."""


class SequenceTracker:
    """Follows the seq of one topic through one boot of its publisher."""

    __slots__ = ("behind", "first", "last", "seen", "ts_ns")

    def __init__(self) -> None:
        self.last: int | None = None
        """Highest seq that has come."""
        self.seen = 0
        """Bit k is set if seq `last - k` has come."""
        self.first = 0
        """First number that counts: an earlier one is late when it comes, and was never lost."""
        self.ts_ns = 0
        """Source time of the newest message."""
        self.behind = 0
        """Messages since then that are behind in number and ahead in time."""

    def copy(self) -> SequenceTracker:
        """Return one that goes on from here on its own."""
        twin = SequenceTracker()
        twin.last, twin.seen, twin.first = self.last, self.seen, self.first
        twin.ts_ns, twin.behind = self.ts_ns, self.behind
        return twin

    def accept(self, seq: int, counts: PipelineCounts, shed: int = 0, *, ts_ns: int = 0) -> Verdict:
        """Add a message and return its verdict; count what was lost, late or double.

        The first message sets where counting begins: what was published before is not lost.

        Args:
            seq: Its sequence number.
            counts: The counters.
            shed: Messages of the topic before it that were left out here, which are counted as such and not as lost.
            ts_ns: Its source time; 0 where that is not known.
        """
        if self.last is not None and seq <= self.last and ts_ns > self.ts_ns:
            self.behind += 1
            if self.behind >= BEHIND:
                self.last = None
        verdict = self._accept(seq, counts, shed)
        if verdict is Verdict.NEWEST:
            counts.accepted += 1
            self.ts_ns, self.behind = ts_ns, 0
        return verdict

    def _accept(self, seq: int, counts: PipelineCounts, shed: int) -> Verdict:
        if self.last is None:
            self._begin(seq, counts)
            return Verdict.NEWEST
        ahead = seq - self.last
        if ahead > LARGEST_GAP:
            self._begin(seq, counts)
            return Verdict.NEWEST
        if ahead > 0:
            lost = max(0, ahead - 1 - shed)
            counts.sent += ahead
            counts.lost += lost
            counts.passed_over += ahead - 1 - lost
            counts.gaps += lost > 0
            self.seen = ((self.seen << ahead) | 1) & _MASK if ahead < WINDOW else 1
            self.last = seq
            return Verdict.NEWEST
        if -ahead >= LARGEST_GAP:
            self._begin(seq, counts)
            return Verdict.NEWEST
        if -ahead < WINDOW and not self.seen >> -ahead & 1:
            self.seen |= 1 << -ahead
            is_mended = seq > self.first
            counts.lost -= is_mended
            counts.mended += is_mended
            counts.late += 1
            return Verdict.LATE
        counts.duplicates += 1
        return Verdict.DUPLICATE

    def _begin(self, seq: int, counts: PipelineCounts) -> None:
        counts.sent += 1
        self.first = self.last = seq
        self.seen = 1
