"""Flap detection: alerts that come and go notify once as flapping, and go on until they have been quiet for a while."""

from __future__ import annotations

from collections import OrderedDict, deque

from trnfleet.clock import NS_PER_S

FLAPS_FROM = 4
"""Beginnings within the window from which an alert flaps: assumed; Nagios takes a fifth of 21 checks."""
WINDOW_NS = 30 * 60 * NS_PER_S
QUIET_NS = 10 * 60 * NS_PER_S
"""Time without the condition after which a flapping alert resolves."""
MOST = 20_000
"""Alerts whose beginnings are remembered; the one that fired longest ago is forgotten first."""


class Flaps:
    """The instants at which alerts began to fire."""

    def __init__(self) -> None:
        self._begun: OrderedDict[str, deque[int]] = OrderedDict()

    def begin(self, fingerprint: str, now_ns: int) -> int:
        """Record that an alert begins to fire; return how often it has within the window, this time counted."""
        begun = self._begun.pop(fingerprint, None)
        if begun is None:
            begun = deque(maxlen=64)
            while len(self._begun) >= MOST:
                self._begun.popitem(last=False)
        self._begun[fingerprint] = begun
        begun.append(now_ns)
        return self.count(fingerprint, now_ns)

    def retract(self, fingerprint: str) -> None:
        """Forget the last beginning of an alert."""
        begun = self._begun.get(fingerprint)
        if begun:
            begun.pop()

    def count(self, fingerprint: str, now_ns: int) -> int:
        """Return how often an alert began to fire within the window `(now - WINDOW, now]`."""
        begun = self._begun.get(fingerprint)
        if begun is None:
            return 0
        while begun and not now_ns - WINDOW_NS < begun[0] <= now_ns:
            begun.popleft()
        return len(begun)


def is_flapping(times: int, *, was: bool) -> bool:
    """Return whether an alert flaps, by its beginnings within the window; it does until it has been quiet."""
    return was or times >= FLAPS_FROM
