"""How reservations were used, hour by hour of monitor time, as far as somebody watched.

Memory is bounded. A span in which nobody watched, such as a jump of simulated time, stays unwatched: nothing is made up.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnfleet.monitor.timebase import Moment

NS_PER_S = 1_000_000_000
HOUR_NS = 3_600 * NS_PER_S
MOST_HOURS = 182 * 24
"""Hours that are kept of one reservation: those of the longest block."""
MOST_IN_ALL = 200_000
"""Hours that are kept of all together, about 50 MB."""
GAP_S = 5.0
"""Wall seconds between two looks beyond which the time between them is unwatched."""


@dataclass(frozen=True, slots=True)
class UsageHour:
    """How a reservation was used in one hour of monitor time, as far as it was watched."""

    hour_ns: int
    """Its begin, nanoseconds since 1970 UTC."""
    watched_s: float
    util_pct: float
    used_share: float
    """Mean share of its instances that did something."""


class Look(NamedTuple):
    """What a reservation is doing at an instant."""

    util_pct: float
    used_share: float


class _Hour:
    __slots__ = ("used_s", "util_s", "watched_s")

    def __init__(self) -> None:
        self.watched_s = self.util_s = self.used_s = 0.0


class Usage:
    """The hours of all reservations."""

    def __init__(self) -> None:
        self._hours: dict[str, OrderedDict[int, _Hour]] = {}
        self._last_ns: int | None = None
        self._count = 0

    def watch(self, moment: Moment, looks: Mapping[str, tuple[float, float]]) -> None:
        """Take note of what reservations are doing; it stands for the time since the last look.

        Args:
            moment: When.
            looks: Utilisation in % and share of instances that do something, by id.
        """
        last_ns, self._last_ns = self._last_ns, moment.time_ns
        if last_ns is None or not 0 < moment.time_ns - last_ns <= GAP_S * moment.speed * NS_PER_S:
            return
        for name, (util_pct, used_share) in looks.items():
            at_ns = last_ns
            while at_ns < moment.time_ns:
                hour_ns = at_ns - at_ns % HOUR_NS
                until_ns = min(hour_ns + HOUR_NS, moment.time_ns)
                hour, seconds = self._hour(name, hour_ns), (until_ns - at_ns) / NS_PER_S
                hour.watched_s += seconds
                hour.util_s += util_pct * seconds
                hour.used_s += used_share * seconds
                at_ns = until_ns

    def hours(self, name: str) -> Sequence[UsageHour]:
        """Return a reservation's hours that were watched, ascending."""
        return [
            UsageHour(hour_ns, hour.watched_s, hour.util_s / hour.watched_s, hour.used_s / hour.watched_s)
            for hour_ns, hour in self._hours.get(name, {}).items()
        ]

    def mean_util_pct(self, name: str) -> float | None:
        """Return a reservation's mean utilisation over all that was watched; None where nothing was."""
        hours = self._hours.get(name)
        if not hours:
            return None
        watched_s = sum(hour.watched_s for hour in hours.values())
        return sum(hour.util_s for hour in hours.values()) / watched_s

    def forget(self, name: str) -> None:
        """Drop a reservation."""
        self._count -= len(self._hours.pop(name, ()))

    def _hour(self, name: str, hour_ns: int) -> _Hour:
        hours = self._hours.setdefault(name, OrderedDict())
        hour = hours.get(hour_ns)
        if hour is None:
            hour = hours[hour_ns] = _Hour()
            self._count += 1
            if len(hours) > MOST_HOURS:
                hours.popitem(last=False)
                self._count -= 1
            if self._count > MOST_IN_ALL:
                max(self._hours.values(), key=len).popitem(last=False)
                self._count -= 1
        return hour
