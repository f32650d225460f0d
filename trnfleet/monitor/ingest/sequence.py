"""Sequence numbers of one telemetry topic: loss, reordering and duplicates."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.monitor.pipeline.counts import PipelineCounts

WINDOW = 64
"""Ticks back within which late and duplicate differ."""
LARGEST_GAP = 1_000_000
"""Largest gap counted as loss (11 days of ticks a second). Beyond it, counting restarts."""
BEHIND = 3
"""Messages in a row with a lower number but later time after which counting restarts. The
publisher's counter went back, or a foreign message had too high a number. This limits how long
telemetry is hidden."""


class Verdict(enum.Enum):
    """The place of a message in its sequence."""

    NEWEST = "newest"
    """Newer than all before it: apply it."""
    LATE = "late"
    """New, but a newer message was seen before: count it, but preserve the newer values."""
    DUPLICATE = "duplicate"
    """Seen before: count it."""


class SequenceTracker:
    """Follows the seq of one topic through one boot of its publisher."""

    __slots__ = ("behind", "filled", "first", "last", "seen", "ts_ns")

    def __init__(self) -> None:
        self.last: int | None = None
        """Highest seq that has come."""
        self.seen = 0
        """Bit k is set if seq `last - k` has come."""
        self.first = 0
        """First number counted. Earlier ones are late on arrival and were never lost."""
        self.filled = 0
        """Highest number that came as backlog."""
        self.ts_ns = 0
        """Source time of the newest message."""
        self.behind = 0
        """Messages since then with a lower number but later time."""

    def accept(self, seq: int, counts: PipelineCounts, shed: int = 0, *, ts_ns: int = 0) -> Verdict:
        """Add a message and return its verdict.

        Count lost, late and duplicate messages.

        Counting starts at the first message: earlier ones are not lost.

        Args:
            seq: Its sequence number.
            counts: The counters.
            shed: Messages of the topic before it that were left out here, which are counted as such
                and not as lost.
            ts_ns: Its source time; 0 where that is not known.
        """
        if self.last is not None and seq <= self.last and ts_ns > self.ts_ns:
            self.behind += 1
            if self.behind >= BEHIND:
                self.last = None
        verdict = self._accept(seq, counts, shed)
        if verdict is Verdict.NEWEST:
            counts.accepted += 1
            self.ts_ns = ts_ns
            self.behind = 0
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
            self.seen = ((self.seen << ahead) | 1) % (1 << WINDOW) if ahead < WINDOW else 1
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

    def has(self, seq: int) -> bool:
        """Return whether a number has come, of the last `WINDOW`; False for earlier ones."""
        behind = -1 if self.last is None else self.last - seq
        return 0 <= behind < WINDOW and bool(self.seen >> behind & 1)

    def mend(self, seq: int, counts: PipelineCounts) -> bool:
        """Count a message that came as backlog, and return whether it was missing before.

        Backlog comes in order, so one with a lower number than before came twice.
        """
        if self.last is None or not max(self.first, self.filled) < seq < self.last or self.has(seq):
            return False
        self.filled = seq
        if self.last - seq < WINDOW:
            self.seen |= 1 << self.last - seq
        if counts.backlog:
            counts.backlog -= 1
        else:
            counts.lost -= 1
        counts.mended += 1
        return True

    def _begin(self, seq: int, counts: PipelineCounts) -> None:
        counts.sent += 1
        self.first = self.last = seq
        self.filled = 0
        self.seen = 1
