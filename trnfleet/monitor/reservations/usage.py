"""Use of reservations, hour by hour of monitor time, as far as it was watched.

Memory is bounded. A span without samples, such as a jump of simulated time, stays unwatched:
nothing is made up.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnfleet.monitor.sources.clocks import Moment

HOUR_NS = 3_600 * NS_PER_S
MOST_HOURS = 200_000
"""Most hours stored of all reservations, about 60 MB. The oldest is dropped first."""
GAP_S = 5.0
"""Longest time between two samples in wall seconds. The time in a longer gap is unwatched."""


@dataclass(frozen=True, slots=True)
class UsageHour:
    """Use of a reservation in one hour of monitor time, for the watched part."""

    hour_ns: int
    """Its begin, nanoseconds since 1970 UTC."""
    watched_s: float
    util_pct: float
    used_share: float
    """Mean share of busy instances among its live instances, 0 to 1."""


class Look(NamedTuple):
    """Sample of a reservation's use at an instant."""

    util_pct: float
    used_share: float
    starts_ns: int
    """A sample covers no time before the reservation's start or after its end."""
    ends_ns: int | None


class _Hour:
    __slots__ = ("used_s", "util_s", "watched_s")

    def __init__(self) -> None:
        self.watched_s = self.util_s = self.used_s = 0.0


class _Watched:
    """One reservation's hours, ascending, and their sums."""

    __slots__ = ("hours", "util_s", "watched_s")

    def __init__(self) -> None:
        self.hours: dict[int, _Hour] = {}
        self.watched_s = self.util_s = 0.0

    def drop(self, hour_ns: int) -> None:
        gone = self.hours.pop(hour_ns)
        self.watched_s -= gone.watched_s
        self.util_s -= gone.util_s


class Usage:
    """The hours of all reservations."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._names: OrderedDict[int, set[str]] = OrderedDict()
        """Ids of reservations with an hour, by hour, ascending."""
        self._last_ns: int | None = None
        self._count = 0

    def watch(self, moment: Moment, looks: Mapping[str, Look]) -> None:
        """Add a sample of the reservations' use, covering the time since the last one.

        If time went back, such as after a simulator's restart, future hours are dropped.

        Args:
            moment: The time of the sample.
            looks: A sample of each, by its id.
        """
        last_ns = self._last_ns
        self._last_ns = moment.time_ns
        if last_ns is None:
            return
        if moment.time_ns < last_ns:
            while self._names and next(reversed(self._names)) > moment.time_ns:
                self._drop(next(reversed(self._names)))
        if not 0 < moment.time_ns - last_ns <= GAP_S * moment.speed * NS_PER_S:
            return
        at_ns = last_ns
        while at_ns < moment.time_ns:
            hour_ns = at_ns - at_ns % HOUR_NS
            until_ns = min(hour_ns + HOUR_NS, moment.time_ns)
            for name, look in looks.items():
                stop_ns = until_ns if look.ends_ns is None else min(until_ns, look.ends_ns)
                lasted_ns = stop_ns - max(at_ns, look.starts_ns)
                if lasted_ns > 0:
                    self._add(name, hour_ns, lasted_ns / NS_PER_S, look)
            at_ns = until_ns
        while self._count > MOST_HOURS:
            self._drop(next(iter(self._names)))

    def hours(self, name: str) -> Sequence[UsageHour]:
        """Return a reservation's hours that were watched, ascending."""
        watched = self._watched.get(name)
        if watched is None:
            return []
        return [
            UsageHour(
                hour_ns, hour.watched_s, hour.util_s / hour.watched_s, hour.used_s / hour.watched_s
            )
            for hour_ns, hour in watched.hours.items()
        ]

    def mean_util_pct(self, name: str) -> float | None:
        """Return a reservation's mean utilisation over the stored hours; None without any."""
        watched = self._watched.get(name)
        return None if watched is None else watched.util_s / watched.watched_s

    def forget(self, name: str) -> None:
        """Drop a reservation."""
        watched = self._watched.pop(name, None)
        if watched is None:
            return
        self._count -= len(watched.hours)
        for hour_ns in watched.hours:
            names = self._names[hour_ns]
            names.discard(name)
            if not names:
                del self._names[hour_ns]

    def _add(self, name: str, hour_ns: int, seconds: float, look: Look) -> None:
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = _Watched()
        hour = watched.hours.get(hour_ns)
        if hour is None:
            hour = watched.hours[hour_ns] = _Hour()
            names = self._names.get(hour_ns)
            if names is None:
                names = self._names[hour_ns] = set()
            names.add(name)
            self._count += 1
        hour.watched_s += seconds
        hour.util_s += look.util_pct * seconds
        hour.used_s += look.used_share * seconds
        watched.watched_s += seconds
        watched.util_s += look.util_pct * seconds

    def _drop(self, hour_ns: int) -> None:
        """Forget an hour of all reservations."""
        for name in self._names.pop(hour_ns):
            watched = self._watched[name]
            watched.drop(hour_ns)
            self._count -= 1
            if not watched.hours:
                del self._watched[name]
