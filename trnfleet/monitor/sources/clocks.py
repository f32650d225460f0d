"""Clocks of the sources: message lag per source, and the time of the fleet.

A source's time is affine: source = epoch + speed x elapsed wall time. Its descriptor has the epoch
and the speed. The wall time of the epoch is learned from the message with the shortest delay. A
source with the speed of the wall clock and a time near it is measured against the wall clock
itself. The module reads no clock.

The time of the fleet is the wall clock's while any source that follows it is heard: a dated or
sped-up source cannot change it by joining. Among dated and sped-up sources alone, the one with the
most instances sets the time. If our own wall clock steps, the sources that followed it before show
which of the two times is right.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.freshness import STALE_AFTER_PERIODS
from trnfleet.monitor.pipeline.publishers import SKEW_FROM_S
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

WINDOW_S = 120.0
"""Window of the shortest delay. It is the minimum over the last one to two windows, so that a wrong
time is forgotten."""
AHEAD_FROM_S = 7_200.0
DATED_FROM_S = 86_400.0
"""Offset from the wall clock above which a simulator has a date of its own.

It has jumped or was started with a date. Nearer, its clock is wrong or its telemetry late. A replay
always has its own date.
"""

_LEARNED: dict[str, tuple[Any, float]] = {
    "heard_s": (np.float64, -np.inf),
    "is_wall": (np.bool_, True),
    "skew_s": (np.float64, 0.0),
    "late_s": (np.float64, 0.0),
    "behind_s": (np.float64, np.nan),
    "since_s": (np.float64, -np.inf),
    "least_s": (np.float64, np.inf),
    "most_s": (np.float64, -np.inf),
    "before_least_s": (np.float64, np.inf),
    "before_most_s": (np.float64, -np.inf),
}
"""Columns learned from messages, with the initial values of a new clock. `heard_s`, `is_wall`,
`skew_s`, `late_s` and `behind_s` are as in `SourceClock`. The window began at `since_s`. The others
are the shortest and longest offset of this window and the one before."""
_GIVEN: dict[str, tuple[Any, float]] = {
    "epoch_ns": (np.int64, 0),
    "speed": (np.float64, 1.0),
    "may_be_wall": (np.bool_, True),
    "may_be_dated": (np.bool_, False),
    "period_s": (np.float64, 1.0),
}
"""Columns from descriptors: epoch, speed, permission for wall clock and own date, and period."""
_COLUMNS = {**_LEARNED, **_GIVEN}


class DatedMessages(NamedTuple):
    """Results of the source times of messages, one value each."""

    lags_s: NDArray[np.float64]
    """Lag in wall seconds over the shortest delay. Measured by the wall clock if the source follows
    it. Never negative."""
    late_s: NDArray[np.float64]
    """Seconds the source time is behind the wall clock. 0 if the source does not follow it."""
    behind_s: NDArray[np.float64]
    """Like `late_s`, but negative if ahead. NaN if the source does not follow the wall clock."""


class ClockColumns:
    """The columns; a row is given out by `add` and stays the clock's."""

    def __init__(self) -> None:
        self._columns = {name: np.full(16, value, kind) for name, (kind, value) in _COLUMNS.items()}
        self._size = 0
        self._free: list[int] = []
        """Rows of removed clocks, reset to the values of a new clock."""
        self._place = np.zeros(16, np.int64)

    def __len__(self) -> int:
        return self._size - len(self._free)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column for reading.

        Writers must know its meaning.
        """
        return self._columns[name][: self._size]

    def add(self) -> int:
        """Return a new row."""
        if self._free:
            return self._free.pop()
        row = self._size
        if row == len(self._place):
            self._columns = {
                name: np.resize(column, 2 * row) for name, column in self._columns.items()
            }
            self._place = np.resize(self._place, 2 * row)
        self._size += 1
        for name, (_, value) in _COLUMNS.items():
            self._columns[name][row] = value
        return row

    def restart(self, row: int) -> None:
        """Discard a clock's learned values."""
        for name, (_, value) in _LEARNED.items():
            self._columns[name][row] = value

    def free(self, row: int) -> None:
        """Forget a clock; its row is the next new one's."""
        for name, (_, value) in _COLUMNS.items():
            self._columns[name][row] = value
        self._free.append(row)

    def keep(self, rows: list[int]) -> None:
        """Renumber the rows in this order, and drop all others."""
        size = len(rows)
        for name, (kind, value) in _COLUMNS.items():
            column = np.full(max(16, size), value, kind)
            column[:size] = self._columns[name][rows]
            self._columns[name] = column
        self._size = size
        self._free = []
        self._place = np.zeros(max(16, size), np.int64)

    def take(
        self, rows: NDArray[np.int64], ts_ns: NDArray[np.int64], now_s: float, wall_ns: int
    ) -> DatedMessages:
        """Update the clocks from source times of messages in order of arrival.

        Return the lags of the messages.

        Args:
            rows: The clock of each message.
            ts_ns: Source times, ns since 1970.
            now_s: Monotonic seconds of arrival.
            wall_ns: Wall clock at arrival.
        """
        order = np.arange(len(rows))
        place = self._place
        place[rows] = order
        last = place[rows]
        if bool((ts_ns[last] == ts_ns).all()):
            # A clock is there once, or always with the same time, which says nothing more.
            return self._learn(rows, ts_ns, now_s, wall_ns)
        dated = DatedMessages(*(np.empty(len(rows)) for _ in DatedMessages._fields))
        by_row = np.argsort(rows, kind="stable")
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = rows[by_row[1:]] != rows[by_row[:-1]]
        differs = begins.copy()
        differs[1:] |= ts_ns[by_row[1:]] != ts_ns[by_row[:-1]]
        # Messages of a clock with one time after the other make a run; runs of one number are of
        # different clocks.
        counted: NDArray[np.int64] = np.cumsum(differs, dtype=np.int64)
        runs = counted - np.maximum.accumulate(np.where(begins, counted, np.int64(0)))
        for run in range(int(runs.max()) + 1):
            chosen = by_row[runs == run]
            learned = self._learn(rows[chosen], ts_ns[chosen], now_s, wall_ns)
            for into, values in zip(dated, learned, strict=True):
                into[chosen] = values
        return dated

    def _learn(
        self, rows: NDArray[np.int64], ts_ns: NDArray[np.int64], now_s: float, wall_ns: int
    ) -> DatedMessages:
        """Learn from messages: one per clock, or several with the same time."""
        columns = self._columns
        values = {name: columns[name][rows] for name in (*_GIVEN, *_WINDOWS)}
        with np.errstate(invalid="ignore", over="ignore"):
            offset_s = now_s - (ts_ns - values["epoch_ns"]) / NS_PER_S / values["speed"]
            passed_s = now_s - values["since_s"]
            begins = passed_s >= WINDOW_S
            is_recent = passed_s < 2 * WINDOW_S
            if begins.any():
                # A window that ended long ago does not count for the present.
                for edge, none in (("least_s", np.inf), ("most_s", -np.inf)):
                    ended = np.where(is_recent, values[edge], none)
                    values[f"before_{edge}"] = np.where(begins, ended, values[f"before_{edge}"])
                    values[edge] = np.where(begins, offset_s, values[edge])
                    columns[f"before_{edge}"][rows] = values[f"before_{edge}"]
                columns["since_s"][rows] = np.where(begins, now_s, values["since_s"])
            least_s = np.minimum(values["least_s"], offset_s)
            most_s = np.maximum(values["most_s"], offset_s)
            shortest_s = np.minimum(least_s, values["before_least_s"])
            # What turns an offset into wall clock less source time; a step of our wall clock shows
            # at once.
            base_s = (wall_ns - values["epoch_ns"]) / NS_PER_S - now_s
            way_s = shortest_s + base_s
            is_wall = values["may_be_wall"] & (
                ~values["may_be_dated"] | ((way_s > -AHEAD_FROM_S) & (way_s < DATED_FROM_S))
            )
            behind_s = offset_s + base_s
            # A time in the future proves a wrong clock. Times that are old may have been long on
            # their way, too; but queues grow and shrink, so a delay that has been the same for a
            # whole window is shown as a wrong clock.
            is_skewed = way_s < -SKEW_FROM_S
            is_old = way_s > SKEW_FROM_S
            if is_old.any():
                before_least_s = values["before_least_s"]
                before_most_s = values["before_most_s"]
                spread_s = np.maximum(before_most_s, most_s) - np.minimum(before_least_s, least_s)
                is_steady = spread_s < np.maximum(1.0, values["period_s"])
                is_skewed |= is_old & (before_least_s <= before_most_s) & is_steady
            skew_s = np.where(is_skewed & is_wall, -way_s, 0.0)
            lags_s = np.where(is_wall, np.maximum(0.0, behind_s + skew_s), offset_s - shortest_s)
        late_s = np.where(is_wall, np.maximum(0.0, behind_s), 0.0)
        behind_s = np.where(is_wall, behind_s, np.nan)
        columns["heard_s"][rows] = now_s
        columns["least_s"][rows] = least_s
        columns["most_s"][rows] = most_s
        columns["is_wall"][rows] = is_wall
        columns["skew_s"][rows] = skew_s
        columns["late_s"][rows] = late_s
        columns["behind_s"][rows] = behind_s
        return DatedMessages(lags_s, late_s, behind_s)


_WINDOWS = ("since_s", "least_s", "most_s", "before_least_s", "before_most_s")


LATE_FROM_S = 60.0
"""Telemetry is late if its source time is further behind the wall clock. More than any queue of
ours or of a broker can store."""
MOST_OF_ONE = 8
"""Most clocks per publisher: each jump of its time creates another."""
LONGEST_HEARD_S = 120.0
"""Longest time a source counts as heard after a message, however rarely it publishes."""
WALL_HELD_S = 600.0
"""Seconds the fleet stays on the wall clock after its last wall-clock source. An outage of these
sources does not hand the time over to the rest."""
STEP_FROM_NS = round(SKEW_FROM_S * NS_PER_S)
"""Least change of our wall clock against the monotonic clock to count as a step. NTP slews less
between two checks."""


class ClockKey(NamedTuple):
    """Identity of a source's clock.

    A descriptor with another epoch or speed has another clock.
    """

    publisher: str
    epoch_ns: int
    """Source time of the first tick, or of the first one after a jump."""
    speed: float
    is_simulated: bool
    """Whether it may have a date of its own. A real host's clock is right or wrong."""
    is_replay: bool = False
    """Whether it has a date of its own, be it near."""


NO_INSTANCES: Mapping[ClockKey, int] = MappingProxyType({})


class SourceClock:
    """The relation of one source's time to ours: a row of the columns."""

    __slots__ = ("_columns", "key", "row")

    def __init__(self, key: ClockKey, columns: ClockColumns, row: int) -> None:
        self.key = key
        self.row = row
        self._columns = columns

    def restart(self) -> None:
        """Discard the learned values: the source may have restarted its time."""
        self._columns.restart(self.row)

    @property
    def period_s(self) -> float:
        """Wall seconds between two messages of a topic."""
        return float(self._columns["period_s"][self.row])

    @property
    def heard_s(self) -> float:
        """Monotonic seconds of the newest message."""
        return float(self._columns["heard_s"][self.row])

    @property
    def is_wall(self) -> bool:
        """Whether the source follows the wall clock, even if slightly wrong.

        As of the newest message.
        """
        return bool(self._columns["is_wall"][self.row])

    @property
    def skew_s(self) -> float:
        """Seconds its wall clock is ahead of ours (behind: negative).

        0 if they agree. As of the newest message.
        """
        return float(self._columns["skew_s"][self.row])

    @property
    def late_s(self) -> float:
        """Seconds the newest message's source time is behind the wall clock.

        0 if the source does not follow the wall clock.
        """
        return float(self._columns["late_s"][self.row])

    @property
    def behind_s(self) -> float:
        """Seconds the newest message's source time is behind the wall clock.

        Negative if ahead. NaN if the source does not follow the wall clock.
        """
        return float(self._columns["behind_s"][self.row])

    def take(self, ts_ns: int, now_s: float, wall_ns: int) -> float:
        """Update the clock from a message's source time, and return the message's lag.

        `ClockColumns.take` does the same for many messages.

        Args:
            ts_ns: Source time, ns since 1970.
            now_s: Monotonic seconds of arrival.
            wall_ns: Wall clock at arrival.
        """
        rows = np.array([self.row])
        times_ns = np.array([ts_ns], np.int64)
        return float(self._columns.take(rows, times_ns, now_s, wall_ns).lags_s[0])

    def is_heard(self, now_s: float) -> bool:
        """Return whether messages still come."""
        return now_s - self.heard_s <= min(LONGEST_HEARD_S, STALE_AFTER_PERIODS * self.period_s)

    def time_ns(self, now_s: float) -> int:
        """Return the source's time at monotonic `now_s`; it stands still while nothing comes."""
        columns = self._columns
        row = self.row
        shortest_s = min(float(columns["least_s"][row]), float(columns["before_least_s"][row]))
        until_s = min(now_s, self.heard_s + STALE_AFTER_PERIODS * self.period_s)
        return self.key.epoch_ns + round((until_s - shortest_s) * self.key.speed * NS_PER_S)


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
        self.columns = ClockColumns()
        """Values of each clock. Topics store the row number of their clock."""
        self.moves = 0
        """How often the rows of clocks have become others."""
        self._clocks: dict[ClockKey, SourceClock] = {}
        self._of: dict[str, list[SourceClock]] = {}
        """Each publisher's clocks."""
        self._wall: tuple[float, int] | None = None
        """Monotonic seconds and our wall clock at the last look."""
        self._correction_ns = 0
        """Negated sum of our wall clock's steps since it was right. 0 if it is right."""

    def clock(self, key: ClockKey, period_s: float) -> SourceClock:
        """Return the clock of a key."""
        clock = self._clocks.get(key)
        if clock is None:
            same = self._of.setdefault(key.publisher, [])
            if len(same) < MOST_OF_ONE:
                row = self.columns.add()
            else:
                # A topic that still goes by the clock that is gone has the one in its place: both
                # are the publisher's.
                gone = min(same, key=_heard_s)
                same.remove(gone)
                row = self._clocks.pop(gone.key).row
                self.moves += 1
            clock = self._clocks[key] = SourceClock(key, self.columns, row)
            same.append(clock)
            clock.restart()
            for name, value in (
                ("epoch_ns", key.epoch_ns),
                ("speed", key.speed),
                ("may_be_wall", key.speed == 1.0 and not key.is_replay),
                ("may_be_dated", key.is_simulated),
            ):
                self.columns[name][row] = value
        self.columns["period_s"][clock.row] = period_s
        return clock

    def restart(self, publisher: str) -> None:
        """Learn a publisher's clocks again, because it has booted."""
        for clock in self._of.get(publisher, ()):
            clock.restart()

    def keep(self, keys: set[ClockKey]) -> None:
        """Drop all other clocks.

        The rows of the remaining ones may change.
        """
        clocks = {key: clock for key, clock in self._clocks.items() if key in keys}
        if len(clocks) == len(self._clocks):
            return
        self.moves += 1
        self.columns.keep([clock.row for clock in clocks.values()])
        for row, clock in enumerate(clocks.values()):
            clock.row = row
        self._clocks = clocks
        self._of = {}
        for clock in clocks.values():
            self._of.setdefault(clock.key.publisher, []).append(clock)

    def drop(self, key: ClockKey) -> None:
        """Drop an unused clock.

        The others keep their rows.
        """
        clock = self._clocks.pop(key, None)
        if clock is None:
            return
        self.columns.free(clock.row)
        same = self._of[key.publisher]
        same.remove(clock)
        if not same:
            del self._of[key.publisher]

    def now(
        self, now_s: float, wall_ns: int, instances: Mapping[ClockKey, int] = NO_INSTANCES
    ) -> Moment:
        """Return the fleet's time.

        It is the wall clock's while a source follows it, else that of a dated or sped-up source.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Our wall clock.
            instances: Number of instances on each clock. Of several dated clocks the largest sets
                the time, and of equal ones the first described, so that it does not jump.
        """
        wall_heard_s = -float("inf")
        is_wall = self.columns["is_wall"]
        dated: list[SourceClock] = []
        numbers: list[int] = []
        for clocks in self._of.values():
            # After a jump a publisher has another clock; the former one is not asked any more.
            clock = clocks[0] if len(clocks) == 1 else max(reversed(clocks), key=_heard_s)
            number = instances.get(clock.key, 0)
            if instances and not number:
                # Nothing goes by it any more.
                continue
            if not is_wall[clock.row]:
                dated.append(clock)
                numbers.append(number)
                continue
            wall_heard_s = max(wall_heard_s, clock.heard_s)
            if now_s - wall_heard_s <= WALL_HELD_S:
                # One decides: each host of a large fleet may have a clock of its own.
                return Moment(self._right_wall_ns(now_s, wall_ns, instances), 1.0, is_wall=True)
        if not dated:
            return Moment(self._right_wall_ns(now_s, wall_ns, instances), 1.0, is_wall=True)
        rows = np.array([clock.row for clock in dated])
        heard = self._are_heard(now_s)[rows]
        rank = np.where(heard, numbers, -1) if heard.any() else self.columns["heard_s"][rows]
        chosen = dated[int(rank.argmax())]
        # A fast clock gets to the end of time between two messages.
        time_ns = min(max(chosen.time_ns(now_s), 0), LATEST_NS)
        return Moment(time_ns, chosen.key.speed, is_wall=False)

    def worst_skew_s(self, now_s: float) -> float:
        """Return the largest error of the heard wall clocks in seconds.

        Positive if ahead of ours, negative if behind, 0 for none. A source more than `LATE_FROM_S`
        behind is late instead, whether by its clock or on the way. A step of our own clock does not
        count: it sets all sources off.
        """
        skew_s = self.columns["skew_s"]
        late_s = self._late_s()
        counts = (skew_s != 0) & (late_s <= LATE_FROM_S)
        if counts.any():
            counts &= self._are_heard(now_s)
        return float(max([*skew_s[counts].tolist(), self._correction_ns / NS_PER_S], key=abs))

    def late_s(self, now_s: float) -> float:
        """Return the seconds the latest telemetry is behind the wall clock.

        0 if none is late.
        """
        late_s = self._late_s()
        counts = late_s > LATE_FROM_S
        if not counts.any():
            # As a rule none is late, of any number.
            return 0.0
        return float(late_s[counts & self._are_heard(now_s)].max(initial=0.0))

    def _late_s(self) -> NDArray[np.float64]:
        """Return the lateness of each source's newest message, without steps of our clock."""
        late_s: NDArray[np.float64] = self.columns["late_s"] + min(
            0.0, self._correction_ns / NS_PER_S
        )
        return late_s

    def _are_heard(self, now_s: float) -> NDArray[np.bool_]:
        """Return a mask of sources with recent messages."""
        longest_s = np.minimum(LONGEST_HEARD_S, STALE_AFTER_PERIODS * self.columns["period_s"])
        heard: NDArray[np.bool_] = now_s - self.columns["heard_s"] <= longest_s
        return heard

    def late_by_s(self, key: ClockKey, ts_ns: int, seen_s: float) -> float:
        """Return the seconds telemetry was behind the wall clock on arrival.

        0 if it is not late.

        Args:
            key: The source's clock.
            ts_ns: Source time of the telemetry.
            seen_s: Monotonic seconds of its arrival.
        """
        clock = self._clocks.get(key)
        if clock is None or not clock.is_wall or self._wall is None:
            return 0.0
        now_s, wall_ns = self._wall
        late_s = (wall_ns + self._correction_ns - ts_ns) / NS_PER_S - (now_s - seen_s)
        return late_s if late_s > LATE_FROM_S else 0.0

    def _right_wall_ns(self, now_s: float, wall_ns: int, instances: Mapping[ClockKey, int]) -> int:
        """Return our wall clock, without its steps if most sources continue without them."""
        before = self._wall
        self._wall = (now_s, wall_ns)
        if before is not None:
            step_ns = wall_ns - before[1] - round((now_s - before[0]) * NS_PER_S)
            if abs(step_ns) > STEP_FROM_NS:
                self._correction_ns -= step_ns
        if abs(self._correction_ns) <= STEP_FROM_NS:
            self._correction_ns = 0
            return wall_ns
        right_ns = wall_ns + self._correction_ns
        clocks = list(self._clocks.values())
        columns = self.columns
        rows = np.array([clock.row for clock in clocks], np.int64)
        votes_at = columns["is_wall"][rows] & self._are_heard(now_s)[rows]
        weights = np.array([instances.get(clock.key, 1) for clock in clocks], np.int64)[votes_at]
        rows = rows[votes_at]
        shortest_s = np.minimum(columns["least_s"][rows], columns["before_least_s"][rows])
        until_s = np.minimum(
            now_s, columns["heard_s"][rows] + STALE_AFTER_PERIODS * columns["period_s"][rows]
        )
        sources_ns = columns["epoch_ns"][rows] + np.rint((until_s - shortest_s) * NS_PER_S).astype(
            np.int64
        )
        votes = int(weights[np.abs(sources_ns - right_ns) <= STEP_FROM_NS].sum())
        votes -= int(weights[np.abs(sources_ns - wall_ns) <= STEP_FROM_NS].sum())
        if votes > 0:
            return right_ns
        self._correction_ns = 0
        return wall_ns


def _heard_s(clock: SourceClock) -> float:
    return clock.heard_s
