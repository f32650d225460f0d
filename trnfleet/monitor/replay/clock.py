"""The clock of a monitor whose time is a tape's: it stands where whoever plays the tape has put it."""

from __future__ import annotations

from trnfleet.clock import NS_PER_S, Clock


class TapeClock:
    """A place on a tape as wall time and as monotonic time; waiting is done by a real clock."""

    def __init__(self, pace: Clock, anchor_ns: int, anchor_s: float, position_ns: int) -> None:
        """Put the clock on a place.

        Args:
            pace: The clock that waits.
            anchor_ns: A time of the tape.
            anchor_s: The monotonic seconds that go with it: what a snapshot holds is in these.
            position_ns: Where on the tape it stands.
        """
        self._pace = pace
        self._anchor_ns = anchor_ns
        self._anchor_s = anchor_s
        self.position_ns = position_ns

    def at_s(self, time_ns: int) -> float:
        """Return the monotonic seconds of a time of the tape."""
        return self._anchor_s + (time_ns - self._anchor_ns) / NS_PER_S

    def wall_ns(self) -> int:
        """Return the time of the tape, ns since 1970."""
        return self.position_ns

    def monotonic_s(self) -> float:
        """Return the monotonic seconds of the place."""
        return self.at_s(self.position_ns)

    async def sleep(self, seconds: float) -> None:
        """Wait for real seconds."""
        await self._pace.sleep(seconds)
