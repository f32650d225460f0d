"""The clock of a receiver (`Date` in its answers), compared with ours.

Either may be wrong or be set.
"""

from __future__ import annotations

from trnfleet.clock import NS_PER_S, Clock

SKEW_S = 5.0
"""Largest difference between equal clocks, and largest drift of a clock that was not set. `Date`
has whole seconds and is late by the answer's transit time, and NTP slews."""
SKEW_NS = round(SKEW_S * NS_PER_S)


class OtherClock:
    """How far the clock of the other side is ahead of ours."""

    def __init__(self, clock: Clock) -> None:
        """Assume equal clocks until an answer differs.

        Args:
            clock: Ours.
        """
        self.ahead_ns = 0
        """How far it is ahead of our wall clock; 0 for a difference within `SKEW_S`."""
        self._clock = clock
        self._known = clock.wall_ns(), clock.monotonic_s()
        """Our clocks when that was known."""

    def learn(self, date_ns: int | None) -> bool:
        """Read the other clock from an answer, if it has one; return whether it changed."""
        if date_ns is None:
            return False
        self.confirm()
        ahead_ns = date_ns - self._clock.wall_ns()
        if abs(ahead_ns) <= SKEW_NS:
            ahead_ns = 0
        if ahead_ns == self.ahead_ns or (ahead_ns and abs(ahead_ns - self.ahead_ns) <= SKEW_NS):
            return False
        self.ahead_ns = ahead_ns
        return True

    def confirm(self) -> None:
        """Record an answer: earlier steps of our clock no longer count."""
        self._known = self._clock.wall_ns(), self._clock.monotonic_s()

    @property
    def has_stepped(self) -> bool:
        """Whether our clock was set since the other one was known, perhaps together with that."""
        return abs(stepped_ns(self._known, self._clock)) > SKEW_NS


def stepped_ns(since: tuple[int, float], clock: Clock) -> int:
    """Return how far the wall clock was set since an instant.

    The instant is in ns of the wall clock and s of the monotonic one.
    """
    wall_ns, mono_s = since
    return clock.wall_ns() - wall_ns - round((clock.monotonic_s() - mono_s) * NS_PER_S)
