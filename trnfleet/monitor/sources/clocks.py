"""Clocks of the sources: the lag of messages by them, and the time of the fleet.

A source's time is affine: source = epoch + speed x elapsed wall time. Its descriptor names epoch and speed; the
wall time of the epoch is learned: of a source's messages, the one that was on its way for the shortest time shows best
where its clock stands. A source that runs at the wall clock's speed and near it is measured against the
wall clock itself. It reads no clock.

The time of the fleet is the wall clock's wherever a source that goes by it is heard: a dated or sped-up one that joins cannot
take it over. Among dated and sped-up sources alone, the one of the most instances has it. Where our own wall clock steps, the
sources that went by it before say which of the two times is right.
"""

from __future__ import annotations

import copy
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.wire.values import EARLIEST_NS, LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_S = 120.0
"""The shortest way is looked for among the messages of the last one to two windows, so that one wrong time is forgotten."""
AHEAD_FROM_S = 7_200.0
DATED_FROM_S = 86_400.0
"""A simulator whose time is that far ahead of the wall clock, or behind it, has jumped or was given a date; where it is nearer,
its clock is wrong, or its telemetry late. A replay always has its own date."""
LATE_FROM_S = 60.0
"""Telemetry whose source time is further behind the wall clock is late: more than any queue of ours or of a broker holds."""
SKEW_FROM_S = 5.0
"""Clocks that differ by less are taken to agree: the rest is shown as lag."""
MOST_OF_ONE = 8
"""Clocks that are kept of one publisher: each jump of its time makes another."""
LONGEST_HEARD_S = 120.0
"""Time after a message for which its source counts as heard at most, however rarely it publishes."""
WALL_HELD_S = 600.0
"""Time for which the wall clock stays the fleet's after the last source that goes by it was heard, so that an outage of those
does not hand the time over to those that are left."""
STEP_FROM_NS = 5 * NS_PER_S
"""A change of our wall clock against the monotonic one that is a step; NTP slews less between two looks."""
STANDS_AFTER_PERIODS = 3.0
"""Periods of silence after which a source's time stands still."""


class ClockKey(NamedTuple):
    """The identity of a source's clock; a descriptor with another epoch or speed has another clock."""

    publisher: str
    epoch_ns: int
    """Source time of the first tick, or of the first one after a jump."""
    speed: float
    is_simulated: bool
    """Whether it may have a date of its own; a real host's clock is right or wrong."""
    is_replay: bool = False
    """Whether it has a date of its own, be it near."""


NO_INSTANCES: Mapping[ClockKey, int] = MappingProxyType({})


class SourceClock:
    """The relation of one source's time to ours."""

    __slots__ = (
        "_before", "_last", "_least_s", "_most_s", "_since_s", "behind_s", "heard_s", "is_wall", "key", "late_s", "period_s", "skew_s",
    )  # fmt: skip  # a list of names

    def __init__(self, key: ClockKey) -> None:
        self.key = key
        self.period_s = 1.0
        """Wall seconds between two messages of a topic."""
        self.restart()

    def restart(self) -> None:
        """Forget what was learned: the source may have begun its time again."""
        self.heard_s = -float("inf")
        """Monotonic seconds of the newest message."""
        self.is_wall = True
        """Whether the source goes by the wall clock, be it a little wrong; as of the newest message."""
        self.skew_s = 0.0
        """By how much its wall clock is ahead of ours (behind: negative), 0 where they agree; as of the newest message."""
        self.late_s = 0.0
        """By how much the source time of the newest message is behind the wall clock; 0 where it does not go by that."""
        self.behind_s = math.nan
        """By how much that source time is behind the wall clock, negative where it is ahead; NaN where it does not go by that."""
        self._last: tuple[int, float, int, float] = (-1, 0.0, 0, 0.0)
        """Source time and both of our times of the newest message, and its lag."""
        self._since_s = -float("inf")
        self._least_s = float("inf")
        self._most_s = -float("inf")
        self._before = (float("inf"), -float("inf"))
        """Shortest and longest offset of the window before."""

    def copy(self, memo: dict[int, SourceClock]) -> SourceClock:
        """Return the one copy of a clock that a memo has, by the clock's identity."""
        twin = memo.get(id(self))
        if twin is None:
            twin = memo[id(self)] = copy.copy(self)
        return twin

    def take(self, ts_ns: int, now_s: float, wall_ns: int) -> float:
        """Learn from a message's source time, and return its lag.

        Args:
            ts_ns: Source time, ns since 1970.
            now_s: Monotonic seconds at which it came.
            wall_ns: Wall clock at which it came.

        Returns:
            Wall seconds that it is older than it would be by the shortest way; by the wall clock where that is the
            source's clock, too. Never negative.
        """
        if (ts_ns, now_s, wall_ns) == self._last[:3]:
            # Of the same tick in the same batch: there is nothing more to learn.
            return self._last[3]
        lag_s = self._learn(ts_ns, now_s, wall_ns)
        self._last = ts_ns, now_s, wall_ns, lag_s
        return lag_s

    def _learn(self, ts_ns: int, now_s: float, wall_ns: int) -> float:
        offset_s = now_s - (ts_ns - self.key.epoch_ns) / NS_PER_S / self.key.speed
        self.heard_s = now_s
        if now_s - self._since_s >= WINDOW_S:
            # A window that ended long ago does not count for the present.
            is_recent = now_s - self._since_s < 2 * WINDOW_S
            self._before = (self._least_s, self._most_s) if is_recent else (float("inf"), -float("inf"))
            self._since_s, self._least_s, self._most_s = now_s, offset_s, offset_s
        elif offset_s < self._least_s:
            self._least_s = offset_s
        elif offset_s > self._most_s:
            self._most_s = offset_s
        # What turns an offset into wall clock less source time; a step of our wall clock shows at once.
        base_s = (wall_ns - self.key.epoch_ns) / NS_PER_S - now_s
        shortest_s = self._shortest_s
        key = self.key
        self.is_wall = (
            key.speed == 1.0
            and not key.is_replay
            and (not key.is_simulated or -AHEAD_FROM_S < shortest_s + base_s < DATED_FROM_S)
        )
        if not self.is_wall:
            self.skew_s, self.late_s, self.behind_s = 0.0, 0.0, math.nan
            return offset_s - shortest_s
        self.behind_s = offset_s + base_s
        self.late_s = max(0.0, self.behind_s)
        self.skew_s = self._skew_s(shortest_s + base_s)
        return max(0.0, self.behind_s + self.skew_s)

    def _skew_s(self, shortest_s: float) -> float:
        """Return the skew by the message that was on its way for the shortest time.

        A time in the future proves a wrong clock. Times that are old may have been long on their way, too; but queues
        grow and shrink, so a delay that has been the same for a whole window is shown as a wrong clock.
        """
        if shortest_s < -SKEW_FROM_S:
            return -shortest_s
        least_s, most_s = self._before
        is_steady = max(most_s, self._most_s) - min(least_s, self._least_s) < max(1.0, self.period_s)
        if shortest_s > SKEW_FROM_S and least_s <= most_s and is_steady:
            return -shortest_s
        return 0.0

    def is_heard(self, now_s: float) -> bool:
        """Return whether messages still come."""
        return now_s - self.heard_s <= min(LONGEST_HEARD_S, STANDS_AFTER_PERIODS * self.period_s)

    def time_ns(self, now_s: float) -> int:
        """Return the source's time at monotonic `now_s`; it stands still while nothing comes."""
        until_s = min(now_s, self.heard_s + STANDS_AFTER_PERIODS * self.period_s)
        return self.key.epoch_ns + round((until_s - self._shortest_s) * self.key.speed * NS_PER_S)

    @property
    def _shortest_s(self) -> float:
        return min(self._least_s, self._before[0])


class Moment(NamedTuple):
    """The time for the fleet that is watched."""

    time_ns: int
    """Since 1970."""
    speed: float
    """Seconds of that time per wall second."""
    is_wall: bool
    """Whether it is the wall clock's."""


class Timebase:
    """The clocks of all sources of a fleet."""

    def __init__(self) -> None:
        self._clocks: dict[ClockKey, SourceClock] = {}
        self._of: dict[str, list[SourceClock]] = {}
        """Each publisher's clocks."""
        self._wall: tuple[float, int] | None = None
        """Monotonic seconds and our wall clock at the last look."""
        self._correction_ns = 0
        """What our wall clock has stepped by since its time was right, with the sign turned; 0 where it is right."""

    def clock(self, key: ClockKey, period_s: float) -> SourceClock:
        """Return the clock of a key."""
        clock = self._clocks.get(key)
        if clock is None:
            clock = self._clocks[key] = SourceClock(key)
            same = self._of.setdefault(key.publisher, [])
            same.append(clock)
            if len(same) > MOST_OF_ONE:
                gone = min(same[:-1], key=_heard_s)
                same.remove(gone)
                del self._clocks[gone.key]
        clock.period_s = period_s
        return clock

    def copy(self, memo: dict[int, SourceClock]) -> Timebase:
        """Return a copy.

        Args:
            memo: Gets the copy of each clock by the identity of the clock, for others that refer to one.
        """
        twin = Timebase()
        twin._clocks = {key: clock.copy(memo) for key, clock in self._clocks.items()}
        twin._of = {name: [clock.copy(memo) for clock in clocks] for name, clocks in self._of.items()}
        twin._wall, twin._correction_ns = self._wall, self._correction_ns
        return twin

    def restart(self, publisher: str) -> None:
        """Learn a publisher's clocks again, because it has booted."""
        for clock in self._of.get(publisher, ()):
            clock.restart()

    def keep(self, keys: set[ClockKey]) -> None:
        """Forget all other clocks."""
        self._clocks = {key: clock for key, clock in self._clocks.items() if key in keys}
        self._of = {}
        for key, clock in self._clocks.items():
            self._of.setdefault(key.publisher, []).append(clock)

    def now(self, now_s: float, wall_ns: int, instances: Mapping[ClockKey, int] = NO_INSTANCES) -> Moment:
        """Return the fleet's time: the wall clock's while a source goes by it, else that of a dated or sped-up source.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Our wall clock.
            instances: Number of instances that go by each clock: of several dated ones the largest has the time, and of equal
                ones the first described, so that it does not jump to and fro.
        """
        chosen: SourceClock | None = None
        rank = (False, 0.0)
        wall_heard_s = -float("inf")
        for clocks in self._of.values():
            # After a jump a publisher has another clock; the former one is not asked any more.
            clock = max(reversed(clocks), key=_heard_s)
            if instances and clock.key not in instances:
                # Nothing goes by it any more.
                continue
            if clock.is_wall:
                wall_heard_s = max(wall_heard_s, clock.heard_s)
                if now_s - wall_heard_s <= WALL_HELD_S:
                    # One decides: each host of a large fleet may have a clock of its own.
                    break
                continue
            is_heard = clock.is_heard(now_s)
            own = is_heard, float(instances.get(clock.key, 0)) if is_heard else clock.heard_s
            if chosen is None or own > rank:
                chosen, rank = clock, own
        if chosen is None or now_s - wall_heard_s <= WALL_HELD_S:
            return Moment(self._right_wall_ns(now_s, wall_ns, instances), 1.0, is_wall=True)
        # A fast clock gets to the end of time between two messages.
        time_ns = min(max(chosen.time_ns(now_s), EARLIEST_NS), LATEST_NS)
        return Moment(time_ns, chosen.key.speed, is_wall=False)

    def worst_skew_s(self, now_s: float) -> float:
        """Return the largest error of the wall clocks that are heard: seconds ahead of ours (behind: negative), 0 for none.

        What is behind by more than `LATE_FROM_S` is late, be it by its clock or on its way; but not by a step of our clock, from which
        all sources are off.
        """
        skews_s = [
            clock.skew_s
            for clock in self._clocks.values()
            if clock.skew_s and self._late_of_s(clock) <= LATE_FROM_S and clock.is_heard(now_s)
        ]
        return max([*skews_s, self._correction_ns / NS_PER_S], key=abs)

    def late_s(self, now_s: float) -> float:
        """Return by how much the latest telemetry that comes is behind the wall clock; 0 where none is late."""
        # As a rule none is late, of any number: what was set ahead only takes away from it.
        late_s = [
            self._late_of_s(clock)
            for clock in self._clocks.values()
            if clock.late_s > LATE_FROM_S and clock.is_heard(now_s)
        ]
        return max((each for each in late_s if each > LATE_FROM_S), default=0.0)

    def _late_of_s(self, clock: SourceClock) -> float:
        """Return by how much a source's newest message is late, without what our clock was set ahead by."""
        return clock.late_s + min(0.0, self._correction_ns / NS_PER_S)

    def late_by_s(self, key: ClockKey, ts_ns: int, seen_s: float) -> float:
        """Return by how much telemetry of a source was behind the wall clock when it came; 0 where it is not late.

        Args:
            key: The source's clock.
            ts_ns: Source time of the telemetry.
            seen_s: Monotonic seconds at which it came.
        """
        clock = self._clocks.get(key)
        if clock is None or not clock.is_wall or self._wall is None:
            return 0.0
        now_s, wall_ns = self._wall
        late_s = (wall_ns + self._correction_ns - ts_ns) / NS_PER_S - (now_s - seen_s)
        return late_s if late_s > LATE_FROM_S else 0.0

    def _right_wall_ns(self, now_s: float, wall_ns: int, instances: Mapping[ClockKey, int]) -> int:
        """Return our wall clock, or what it would show without its steps where most sources go on by that."""
        before, self._wall = self._wall, (now_s, wall_ns)
        if before is not None:
            step_ns = wall_ns - before[1] - round((now_s - before[0]) * NS_PER_S)
            if abs(step_ns) > STEP_FROM_NS:
                self._correction_ns -= step_ns
        if abs(self._correction_ns) <= STEP_FROM_NS:
            self._correction_ns = 0
            return wall_ns
        right_ns, votes = wall_ns + self._correction_ns, 0
        for clock in self._clocks.values():
            if clock.is_wall and clock.is_heard(now_s):
                source_ns, weight = clock.time_ns(now_s), max(1, instances.get(clock.key, 1))
                votes += weight * (abs(source_ns - right_ns) <= STEP_FROM_NS)
                votes -= weight * (abs(source_ns - wall_ns) <= STEP_FROM_NS)
        if votes > 0:
            return right_ns
        self._correction_ns = 0
        return wall_ns


def _heard_s(clock: SourceClock) -> float:
    return clock.heard_s
