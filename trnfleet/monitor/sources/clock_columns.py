"""What is known of the clocks of all sources, in columns: each host of a large fleet has one, and all of a batch are learned at once.

A row is a clock. It reads no clock itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_S = 120.0
"""The shortest way is looked for among the messages of the last one to two windows, so that one wrong time is forgotten."""
AHEAD_FROM_S = 7_200.0
DATED_FROM_S = 86_400.0
"""A simulator whose time is that far ahead of the wall clock, or behind it, has jumped or was given a date; where it is nearer,
its clock is wrong, or its telemetry late. A replay always has its own date."""
SKEW_FROM_S = 5.0
"""Clocks that differ by less are taken to agree: the rest is shown as lag."""

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
"""What messages show, with what a clock has before the first one. `heard_s`, `is_wall`, `skew_s`, `late_s` and `behind_s` are as
`SourceClock` has them; the window began at `since_s`, and the shortest and longest offset within it and within the one before are the others."""
_GIVEN: dict[str, tuple[Any, float]] = {
    "epoch_ns": (np.int64, 0),
    "speed": (np.float64, 1.0),
    "may_be_wall": (np.bool_, True),
    "may_be_dated": (np.bool_, False),
    "period_s": (np.float64, 1.0),
}
"""What descriptors say: epoch and speed, whether it may go by the wall clock, whether it may have a date of its own, and its period."""
_COLUMNS = {**_LEARNED, **_GIVEN}


class DatedMessages(NamedTuple):
    """What the source times of messages say, one value each."""

    lags_s: NDArray[np.float64]
    """Wall seconds that it is older than it would be by the shortest way; by the wall clock where that is the source's clock, too.
    Never negative."""
    late_s: NDArray[np.float64]
    """By how much its source time is behind the wall clock; 0 where the source does not go by that."""
    behind_s: NDArray[np.float64]
    """The same, negative where it is ahead, and NaN where the source does not go by it."""


class ClockColumns:
    """The columns; a row is given out by `add` and stays the clock's."""

    def __init__(self) -> None:
        self._columns = {name: np.full(16, value, kind) for name, (kind, value) in _COLUMNS.items()}
        self._size = 0
        self._free: list[int] = []
        """Rows of clocks that are forgotten, which have what a new clock has."""
        self._place = np.zeros(16, np.int64)

    def __len__(self) -> int:
        return self._size - len(self._free)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column, to be read, and written by who knows what goes into it."""
        return self._columns[name][: self._size]

    def copy(self) -> ClockColumns:
        """Return a copy."""
        twin = ClockColumns()
        twin._columns = {name: column.copy() for name, column in self._columns.items()}
        twin._size, twin._free, twin._place = self._size, self._free.copy(), self._place.copy()
        return twin

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
        """Forget what was learned of a clock."""
        for name, (_, value) in _LEARNED.items():
            self._columns[name][row] = value

    def free(self, row: int) -> None:
        """Forget a clock; its row is the next new one's."""
        for name, (_, value) in _COLUMNS.items():
            self._columns[name][row] = value
        self._free.append(row)

    def keep(self, rows: list[int]) -> None:
        """Keep some rows, which are numbered in this order from now on, and forget all others."""
        size = len(rows)
        for name, (kind, value) in _COLUMNS.items():
            kept = np.full(max(16, size), value, kind)
            kept[:size] = self._columns[name][rows]
            self._columns[name] = kept
        self._size, self._free, self._place = size, [], np.zeros(max(16, size), np.int64)

    def take(
        self, rows: NDArray[np.int64], ts_ns: NDArray[np.int64], now_s: float, wall_ns: int
    ) -> DatedMessages:
        """Learn from the source times of messages, in the order in which they came, and return what they say.

        Args:
            rows: The clock of each.
            ts_ns: Their source times, ns since 1970.
            now_s: Monotonic seconds at which they came.
            wall_ns: Wall clock at which they came.
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
        # Messages of a clock with one time after the other make a run; runs of one number are of different clocks.
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
        of = {name: columns[name][rows] for name in (*_GIVEN, *_WINDOWS)}
        with np.errstate(invalid="ignore", over="ignore"):
            offset_s = now_s - (ts_ns - of["epoch_ns"]) / NS_PER_S / of["speed"]
            passed_s = now_s - of["since_s"]
            begins, is_recent = passed_s >= WINDOW_S, passed_s < 2 * WINDOW_S
            if begins.any():
                # A window that ended long ago does not count for the present.
                for edge, none in (("least_s", np.inf), ("most_s", -np.inf)):
                    ended = np.where(is_recent, of[edge], none)
                    of[f"before_{edge}"] = np.where(begins, ended, of[f"before_{edge}"])
                    of[edge] = np.where(begins, offset_s, of[edge])
                    columns[f"before_{edge}"][rows] = of[f"before_{edge}"]
                columns["since_s"][rows] = np.where(begins, now_s, of["since_s"])
            least_s, most_s = (
                np.minimum(of["least_s"], offset_s),
                np.maximum(of["most_s"], offset_s),
            )
            shortest_s = np.minimum(least_s, of["before_least_s"])
            # What turns an offset into wall clock less source time; a step of our wall clock shows at once.
            base_s = (wall_ns - of["epoch_ns"]) / NS_PER_S - now_s
            way_s = shortest_s + base_s
            is_wall = of["may_be_wall"] & (
                ~of["may_be_dated"] | ((way_s > -AHEAD_FROM_S) & (way_s < DATED_FROM_S))
            )
            behind_s = offset_s + base_s
            # A time in the future proves a wrong clock. Times that are old may have been long on their way, too; but queues
            # grow and shrink, so a delay that has been the same for a whole window is shown as a wrong clock.
            is_skewed = way_s < -SKEW_FROM_S
            is_old = way_s > SKEW_FROM_S
            if is_old.any():
                before_least_s, before_most_s = of["before_least_s"], of["before_most_s"]
                spread_s = np.maximum(before_most_s, most_s) - np.minimum(before_least_s, least_s)
                is_steady = spread_s < np.maximum(1.0, of["period_s"])
                is_skewed |= is_old & (before_least_s <= before_most_s) & is_steady
            skew_s = np.where(is_skewed & is_wall, -way_s, 0.0)
            lags_s = np.where(is_wall, np.maximum(0.0, behind_s + skew_s), offset_s - shortest_s)
        late_s = np.where(is_wall, np.maximum(0.0, behind_s), 0.0)
        behind_s = np.where(is_wall, behind_s, np.nan)
        columns["heard_s"][rows] = now_s
        columns["least_s"][rows], columns["most_s"][rows] = least_s, most_s
        columns["is_wall"][rows], columns["skew_s"][rows] = is_wall, skew_s
        columns["late_s"][rows], columns["behind_s"][rows] = late_s, behind_s
        return DatedMessages(lags_s, late_s, behind_s)


_WINDOWS = ("since_s", "least_s", "most_s", "before_least_s", "before_most_s")
