"""Sampling once a second: history for charts, means for headlines, and message rate.

A tick's messages arrive within some milliseconds at any place of a second, and a pass may fall
between them. So a second is represented by the pass that was current for most of it: each tick is
in the means once and whole, wherever the seconds begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.monitor.pipeline.traffic import MessageRate
from trnfleet.monitor.store.averages import LEAST_COVERED, Averages, chips_covered

if TYPE_CHECKING:
    from trnfleet.monitor.store.history import History
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store


MOST_AT_ONCE = 2
"""Most seconds sampled from one pass. Passes are up to a second apart, and a little late on a busy
machine."""
MOST_WAIT_S = 10.0
"""Longest wait for a fleet's first messages before history begins. Independent of its period."""


class _Stood(NamedTuple):
    """A pass, and for how long nothing newer has been there."""

    rollups: Rollups
    since_s: float
    """Monotonic seconds of its pass, or of the second's beginning if later."""


class _Longest(NamedTuple):
    """The pass current for the longest time in the second so far."""

    rollups: Rollups
    stood_s: float


class Sampling:
    """Samples of one monitor, except history.

    History may belong to another monitor.
    """

    def __init__(self) -> None:
        self.history_s = -1.0
        """Monotonic seconds of the last sample; negative before the first."""
        self.averages = Averages()
        """Means over the last seconds, as of the last pass."""
        self.rate = MessageRate()
        self._heard_since_s = -1.0
        """Monotonic seconds of the first pass after a message; negative before it."""
        self._newest: _Stood | None = None
        self._longest: _Longest | None = None

    def follow(
        self,
        history: History,
        store: Store,
        rollups: Rollups,
        *,
        now_s: float,
        messages: int,
        speed: float,
        may_sample: bool,
    ) -> bool:
        """Apply the results of a pass.

        Return whether a sample was recorded.

        Args:
            history: Records the sample, too.
            store: The newest values.
            rollups: Those of the pass.
            now_s: Monotonic seconds.
            messages: Telemetry messages so far; nothing is sampled before the first.
            speed: Seconds of fleet time per wall second.
            may_sample: Whether a due sample may be recorded; the first one is in any case. It waits
                for most of the fleet, at most for a period and a second: partial sums would be a
                false low in every chart.
        """
        # A pass on the very second must not miss it by what a difference of large numbers is wrong
        # by.
        passed_s = now_s - self.history_s + 1e-6
        is_first = self.history_s < 0
        is_due = passed_s >= 1.0 and messages > 0
        is_current = rollups.ready and rollups.generation == store.generation
        if is_due and is_first:
            is_due = self._is_complete(store, rollups, now_s)
        elif not may_sample or (rollups.ready and not is_current):
            # The layout has just changed: the next pass stands for this second, too.
            is_due = False
        ends_s: list[float] = []
        if is_due:
            # On the second, so that a late pass does not stretch the charts' time. One that comes
            # just after the next second has begun stands for both; a long pause leaves a gap.
            seconds = 1 if is_first else int(passed_s)
            missed = seconds - 1 if seconds > MOST_AT_ONCE else 0
            if missed:
                history.skip(missed)
            self.history_s = now_s if is_first else self.history_s + seconds
            ends_s = [self.history_s - ago for ago in reversed(range(seconds - missed))]
            for _ in ends_s:
                history.push(store, rollups)
            self.rate.read(now_s, messages, store.usual_period_s)
        if is_current:
            frozen = rollups.frozen()
            is_new = frozen.layout is not self.averages.layout
            self.averages = self.averages.followed(frozen, speed)
            if is_new or is_first:
                # Nothing older has values, or the nodes of this layout.
                at_s = now_s if self.history_s < 0 else self.history_s
                self.averages = self.averages.sampled(frozen, at_s, is_first=is_first)
                self._newest = _Stood(frozen, now_s)
                self._longest = None
            elif may_sample:
                self._average(frozen, now_s, ends_s)
        return is_due

    def _is_complete(self, store: Store, rollups: Rollups, now_s: float) -> bool:
        """Return whether the first messages of all have come, or should have."""
        if self._heard_since_s < 0:
            self._heard_since_s = now_s
        if now_s - self._heard_since_s >= min(store.usual_period_s, MOST_WAIT_S) + 1.0:
            return True
        if not rollups.ready or rollups.generation != store.generation:
            return False
        return chips_covered(rollups) >= LEAST_COVERED * rollups.layout.chips

    def _average(self, rollups: Rollups, now_s: float, ends_s: list[float]) -> None:
        """Apply a pass, and sample the completed seconds.

        Args:
            rollups: Those of the pass. One at the target of a seek does not count: it would show
                the way there.
            now_s: Monotonic seconds of the pass.
            ends_s: The ends of the completed seconds.
        """
        for end_s in ends_s:
            self._stand_until(end_s)
            sampled = rollups if self._longest is None else self._longest.rollups
            self.averages = self.averages.sampled(sampled, end_s)
            self._longest = None
        self._stand_until(now_s)
        self._newest = _Stood(rollups, now_s)

    def _stand_until(self, until_s: float) -> None:
        """Extend the current pass to a time."""
        if self._newest is None:
            return
        rollups, since_s = self._newest
        if self._longest is None or until_s - since_s > self._longest.stood_s:
            self._longest = _Longest(rollups, until_s - since_s)
        self._newest = _Stood(rollups, until_s)
