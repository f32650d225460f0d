"""Rate of telemetry messages over a window with enough of them.

A fleet with a message every ten seconds is not silent between two messages. The rate is measured
from arrival to arrival: the age of the last messages, which publishers may send together, does not
change it.
"""

from __future__ import annotations

import math
from collections import deque

WINDOW_S = 10.0
"""Seconds of the window, if it has enough messages."""
LEAST_MESSAGES = 3
"""Messages within the window. It is longer if they are rarer."""
MOST_S = 300.0
"""Longest window, except for publishers with a longer period. Five minutes is the longest usual
period."""
MISSED = 3
"""Periods of the usual publisher without a message before a feed is dead. At least `WINDOW_S`."""


class MessageRate:
    """Messages a second of one feed; counts are read about once a second."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        """Monotonic seconds and count of the readings at which it had grown, the newest last."""
        self._read_s = -math.inf
        """Monotonic seconds of the last reading."""
        self._dead_after_s = WINDOW_S

    def read(self, now_s: float, messages: int, period_s: float = 1.0) -> None:
        """Record a reading of the count.

        A lower count restarts the rate, and so does the first message after a dead feed.

        Args:
            now_s: Monotonic seconds.
            messages: The count.
            period_s: Seconds after which the usual publisher sends again.
        """
        marks = self._marks
        self._read_s, self._dead_after_s = now_s, max(WINDOW_S, MISSED * period_s)
        if marks and messages == marks[-1][1]:
            return
        if marks and (messages < marks[-1][1] or self._is_dead):
            marks.clear()
        marks.append((now_s, messages))
        while len(marks) > 2 and self._is_enough(now_s - marks[1][0], messages - marks[1][1]):
            marks.popleft()

    @property
    def per_s(self) -> float:
        """Messages per second.

        NaN before messages have arrived twice, 0 for a dead feed.
        """
        if self._is_dead:
            return 0.0
        if len(self._marks) < 2:
            return math.nan
        (begin_s, first), (end_s, last) = self._marks[0], self._marks[-1]
        usual_gap_s = (end_s - begin_s) / (len(self._marks) - 1)
        overdue_s = max(0.0, self.quiet_s - usual_gap_s)
        return (last - first) / max(1e-3, end_s - begin_s + overdue_s)

    @property
    def quiet_s(self) -> float:
        """Seconds between the last message and the last reading; infinite where none has come."""
        return self._read_s - self._marks[-1][0] if self._marks else math.inf

    @property
    def _is_dead(self) -> bool:
        return bool(self._marks) and self.quiet_s > self._dead_after_s

    @staticmethod
    def _is_enough(seconds: float, messages: int) -> bool:
        return seconds >= MOST_S or (seconds >= WINDOW_S and messages >= LEAST_MESSAGES)
