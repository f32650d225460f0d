"""Clocks of all sources in columns, one row per clock.

Each host of a large fleet has a clock, and all clocks of a batch are updated at once. The module
reads no clock itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.pipeline.publishers import SKEW_FROM_S

if TYPE_CHECKING:
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
        """Learn from messages of which each clock has one, or several with the same time."""
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
