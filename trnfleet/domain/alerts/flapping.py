"""Flap detection: alerts that come and go are told once as flapping, and held until they have been quiet for a while."""

from __future__ import annotations

from collections import OrderedDict, deque

from trnfleet.clock import NS_PER_S

FLAPS_FROM = 4
"""An alert that begins to fire so often within the window flaps: assumed, Nagios speaks of a fifth of 21 checks."""
WINDOW_NS = 30 * 60 * NS_PER_S
QUIET_NS = 10 * 60 * NS_PER_S
"""A flapping alert resolves when its condition has not held for so long."""
CHRONIC_FROM = 3
"""What begins so often within the window is no one-off."""
MOST = 20_000
"""Alerts whose beginnings are remembered; the one that fired longest ago is forgotten first."""


class Flaps:
    """When alerts began to fire."""

    def __init__(self) -> None:
        self._begun: OrderedDict[str, deque[int]] = OrderedDict()

    def begin(self, fingerprint: str, now_ns: int) -> int:
        """Take note that an alert begins to fire; return how often it has within the window, this time counted."""
        begun = self._begun.pop(fingerprint, None)
        if begun is None:
            begun = deque(maxlen=64)
            while len(self._begun) >= MOST:
                self._begun.popitem(last=False)
        self._begun[fingerprint] = begun
        begun.append(now_ns)
        return self.count(fingerprint, now_ns)

    def count(self, fingerprint: str, now_ns: int) -> int:
        """Return how often an alert began to fire within the window `(now - WINDOW, now]`."""
        begun = self._begun.get(fingerprint)
        if begun is None:
            return 0
        while begun and not now_ns - WINDOW_NS < begun[0] <= now_ns:
            begun.popleft()
        return len(begun)


def is_flapping(times: int, *, was: bool) -> bool:
    """Say whether an alert flaps, from how often it began within the window; what flaps does so until it is quiet."""
    return was or times >= FLAPS_FROM
