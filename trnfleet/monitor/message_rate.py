"""The rate of telemetry messages, over enough of them: a fleet that speaks once a second is not silent between two messages."""

from __future__ import annotations

import math
from collections import deque

WINDOW_S = 10.0
"""Seconds over which the rate is taken where that many messages come within them."""
LEAST_MESSAGES = 3
"""Messages within the window, which is longer where they are rarer."""
MOST_S = 300.0
"""Longest window: five minutes, the longest period that is usual for publishers."""
MISSED = 3
"""A feed is dead after this number of its usual gaps without a message, and after `WINDOW_S`."""


class MessageRate:
    """Messages a second of one feed; counts are read about once a second."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        """Monotonic seconds and count, the newest last."""
        self._came_s = -math.inf
        """Monotonic seconds of the reading at which the count last grew."""

    def copy(self) -> MessageRate:
        """Return a copy."""
        made = MessageRate()
        made._marks, made._came_s = self._marks.copy(), self._came_s
        return made

    def read(self, now_s: float, messages: int) -> None:
        """Take a reading of the count; a lower one than before starts over."""
        marks = self._marks
        if marks and messages < marks[-1][1]:
            marks.clear()
        if not marks or messages > marks[-1][1]:
            self._came_s = now_s
        marks.append((now_s, messages))
        while len(marks) > 2 and self._is_enough(now_s - marks[1][0], messages - marks[1][1]):
            marks.popleft()

    @property
    def per_s(self) -> float:
        """Messages a second; NaN before the second reading, 0 for a feed that is dead."""
        if len(self._marks) < 2:
            return math.nan
        (begin_s, first), (end_s, last) = self._marks[0], self._marks[-1]
        if last > first and self.quiet_s > max(WINDOW_S, MISSED * (self._came_s - begin_s) / (last - first)):
            return 0.0
        return (last - first) / max(1e-3, end_s - begin_s)

    @property
    def quiet_s(self) -> float:
        """Seconds between the last message and the last reading; infinite where none has come."""
        return self._marks[-1][0] - self._came_s if self._marks else math.inf

    @staticmethod
    def _is_enough(seconds: float, messages: int) -> bool:
        return seconds >= MOST_S or (seconds >= WINDOW_S and messages >= LEAST_MESSAGES)
