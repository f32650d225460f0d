"""Flap detection: alerts that come and go notify once.

They last until they have been quiet for a while.
"""

from __future__ import annotations

from collections import OrderedDict

from trnfleet.clock import NS_PER_S

FLAPS_FROM = 4
"""Starts within the window from which an alert flaps. Assumed; Nagios uses a fifth of 21 checks."""
WINDOW_NS = 30 * 60 * NS_PER_S
QUIET_NS = 10 * 60 * NS_PER_S
"""Time without the condition until a flapping alert resolves."""
MOST = 20_000
"""Most alerts with remembered starts; the oldest are forgotten first."""


class Flaps:
    """Start instants of alerts."""

    def __init__(self) -> None:
        self._begun: OrderedDict[str, list[int]] = OrderedDict()

    def begin(self, fingerprint: str, now_ns: int) -> int:
        """Record the start of an alert; return its starts within the window, this one included."""
        begun = [*self._begun.pop(fingerprint, ()), now_ns][-64:]
        self._begun[fingerprint] = begun
        while len(self._begun) > MOST or self._is_oldest_over(now_ns):
            self._begun.popitem(last=False)
        return self.count(fingerprint, now_ns)

    def _is_oldest_over(self, now_ns: int) -> bool:
        oldest = next(iter(self._begun.values()))
        return not oldest or oldest[-1] <= now_ns - WINDOW_NS

    def retract(self, fingerprint: str) -> None:
        """Forget the last beginning of an alert."""
        begun = self._begun.get(fingerprint)
        if begun:
            begun.pop()

    def count(self, fingerprint: str, now_ns: int) -> int:
        """Return how often an alert began to fire within the window `(now - WINDOW, now]`."""
        begun = self._begun.get(fingerprint, [])
        while begun and not now_ns - WINDOW_NS < begun[0] <= now_ns:
            del begun[0]
        return len(begun)


def is_flapping(times: int, *, was: bool) -> bool:
    """Return whether an alert flaps, by its starts within the window; it does until quiet."""
    return was or times >= FLAPS_FROM
