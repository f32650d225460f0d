"""Time as an argument: the only module reading the machine's clocks.

The core receives `now`. Its surroundings receive a `Clock`, so tests can advance time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

NS_PER_US = 1_000
NS_PER_MS = 1_000 * NS_PER_US
NS_PER_S = 1_000 * NS_PER_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Wall time, monotonic time and waiting, in one replaceable object."""

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC; it may step."""

    def monotonic_s(self) -> float:
        """Return seconds without steps.

        Only differences mean anything.
        """

    def cpu_s(self) -> float:
        """Return the calling thread's processor seconds.

        They do not grow with the machine's load.
        """

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` (none for zero or less, but other tasks get their turn)."""


class SystemClock:
    """The machine's own clocks."""

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC."""
        return time.time_ns()  # noqa: TID251  this is the module that may

    def monotonic_s(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()  # noqa: TID251  this is the module that may

    def cpu_s(self) -> float:
        """Return the thread's seconds of processor time."""
        return time.thread_time()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await asyncio.sleep(max(0.0, seconds))  # noqa: TID251  this is the module that may


class SteadyWall:
    """Wall time without steps: the wall clock at the start, plus monotonic time since."""

    def __init__(self, clock: Clock) -> None:
        """Begin now."""
        self._wall_ns = clock.wall_ns()
        self._since_s = clock.monotonic_s()

    def to_ns(self, monotonic_s: float) -> int:
        """Return the nanoseconds since 1970 of a monotonic moment."""
        return self._wall_ns + round((monotonic_s - self._since_s) * NS_PER_S)


_MOST_TURNS = 100
_IDLE_TURNS = 3
"""Turns with nothing to run. Data from a socket or a thread is ready a turn later."""


class ManualClock:
    """A clock at rest until a test advances it.

    Sleepers wake in the order of their deadlines.
    """

    def __init__(self, wall_ns: int = 0, monotonic_s: float = 0.0) -> None:
        self._wall_ns = wall_ns
        self._monotonic_s = monotonic_s
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._tie = itertools.count()

    def wall_ns(self) -> int:
        """Return the hand-turned wall time."""
        return self._wall_ns

    def monotonic_s(self) -> float:
        """Return the hand-turned monotonic time."""
        return self._monotonic_s

    def cpu_s(self) -> float:
        """Return the hand-turned monotonic time."""
        return self._monotonic_s

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)  # noqa: TID251  yields to other tasks without waiting
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic_s + seconds, next(self._tie), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking sleepers one by one.

        Each woken task runs until it waits again.
        """
        target = self._monotonic_s + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            deadline, _, woken = heapq.heappop(self._sleepers)
            self._move_to(deadline)
            if not woken.done():
                woken.set_result(None)
            await _settle()
        self._move_to(target)
        await _settle()

    def step_wall(self, seconds: float) -> None:
        """Step the wall clock alone, as an administrator or NTP would."""
        self._wall_ns += round(seconds * NS_PER_S)

    def _move_to(self, monotonic_s: float) -> None:
        self._wall_ns += round((monotonic_s - self._monotonic_s) * NS_PER_S)
        self._monotonic_s = monotonic_s


async def _settle() -> None:
    """Let ready tasks run until none is left, for a limited number of turns.

    The limit is far above the needs of our code. asyncio has no public way to find out; a loop
    without CPython's queue of ready handles gets all the turns.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    idle = 0
    for _ in range(_MOST_TURNS):
        await asyncio.sleep(0)  # noqa: TID251  yields to other tasks without waiting
        idle = idle + 1 if ready is not None and not ready else 0
        if idle == _IDLE_TURNS:
            return


def format_rfc3339(ns: int) -> str:
    """Return `ns` since 1970 as RFC 3339 in UTC with milliseconds.

    Example: 2026-01-31T23:59:58.250Z.
    """
    seconds, rest = divmod(ns, NS_PER_S)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}.{rest // NS_PER_MS:03d}Z"


def format_local(ns: int) -> str:
    """Return `ns` since 1970 as the machine's local time, such as `22:04 CET`."""
    return time.strftime("%H:%M %Z", time.localtime(ns // NS_PER_S))


def format_basic(ns: int) -> str:
    """Return `ns` since 1970 in the basic format of ISO 8601, in UTC.

    Precise to the second. Example: 20260131T235958Z, for file names: it has no colons.
    """
    return f"{format_rfc3339(ns)[:19].replace('-', '').replace(':', '')}Z"


def parse_rfc3339(text: str) -> int:
    """Return nanoseconds since 1970 of an RFC 3339 instant.

    Raises:
        ValueError: the text is not an instant, has no time zone, or is none of the years 1 to 9999
            in UTC.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it as 2026-01-31T00:00:00Z")
    ns = datetime_ns(moment)
    if not _FIRST_NS <= ns <= _LAST_NS:
        # An offset can lead beyond what can be written again.
        raise ValueError(f"{text!r} is not in the years 1 to 9999")
    return ns


def datetime_ns(moment: datetime) -> int:
    """Return a moment with a time zone in ns since 1970."""
    return (moment - _EPOCH) // _MICROSECOND * 1_000


_FIRST_NS = datetime_ns(datetime.min.replace(tzinfo=UTC))
_LAST_NS = datetime_ns(datetime.max.replace(tzinfo=UTC))
