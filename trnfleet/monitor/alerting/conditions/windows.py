"""Windows: the increase of a counter or the samples of a figure.

They cover `(now - window, now]`. Chip counters are stored in columns: only changes are stored, and
each window has a running total. Figures of jobs, reservations and the like are few, so each has its
own samples. All are timed by `Instant.flow_ns`, unaffected by clock steps.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.alerting.conditions.compare import compare, not_clear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.metrics import Scope
    from trnfleet.monitor.alerting.inputs import Readings

    Rows = NDArray[np.int64]

PARTS = 240
"""Parts of a window: changes within one part leave the window together."""
MOST_KEPT = 4_000_000
"""Most changes stored per window. Beyond it, neighbours in time are joined: the window gets
coarser, not larger."""
PAST_SAMPLES = 120
PAST_LEAST = 10
"""Fewest samples of a past to compare with."""
FIRST_EVERY_NS = 2_000_000_000
BEST_OF = 5
"""The smallest fifth of a past is in order, even if the rest is not."""


class Increase(NamedTuple):
    """The increase of a counter since the last evaluation."""

    rows: Rows
    """Chips or instances with a changed counter, ascending."""
    amounts: NDArray[np.int64]


NO_INCREASE = Increase(np.zeros(0, np.int64), np.zeros(0, np.int64))


class CounterFeed:
    """One counter of all chips or instances, from evaluation to evaluation."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._before: NDArray[Any] | None = None

    def take(self, codes: NDArray[Any]) -> Increase:
        """Return the changes since the last call.

        A smaller counter restarted at 0.

        A counter seen for the first time has not increased: its start is unknown.

        Args:
            codes: The counters of all of them.
        """
        before = self._before
        if before is None or len(before) != len(codes):
            self._before = codes.copy()
            return NO_INCREASE
        rows = np.flatnonzero(codes != before)
        if not len(rows):
            return NO_INCREASE
        new = codes[rows]
        old = before[rows]
        before[rows] = new
        counts = (new != self._top) & (old != self._top)
        rows = rows[counts]
        new = new[counts].astype(np.int64)
        old = old[counts].astype(np.int64)
        amounts = np.where(new >= old, new - old, new)
        some = amounts > 0
        return Increase(rows[some], amounts[some])

    def move(self, to: Rows, source: Rows, count: int) -> None:
        """Adopt a new layout: the counter of row `source` moves to row `to`."""
        if self._before is None:
            return
        moved = np.full(count, self._top, self._before.dtype)
        moved[to] = self._before[source]
        self._before = moved


class LastChanges:
    """When one counter of all chips last changed, at the earliest when it was first seen."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._before: NDArray[Any] = np.zeros(0)
        self._begun_ns: int | None = None
        self._at_s: NDArray[np.float32] = np.zeros(0, np.float32)
        """Seconds from the begin to the last change, by row."""

    def stands(self, now_ns: int, for_s: float, rows: Rows | slice) -> NDArray[np.bool_]:
        """Return which counters have not changed for some seconds."""
        flags: NDArray[np.bool_] = self._at_s[rows] <= self._since_s(now_ns) - for_s
        return flags

    def _since_s(self, now_ns: int) -> float:
        if self._begun_ns is None:
            self._begun_ns = now_ns
        return (now_ns - self._begun_ns) / 1e9

    def update(self, codes: NDArray[Any], now_ns: int) -> None:
        """Go on to an instant with the counters of all chips."""
        now_s = self._since_s(now_ns)
        if len(self._before) != len(codes):
            self._before = codes.copy()
            self._at_s = np.full(len(codes), now_s, np.float32)
            return
        np.copyto(self._at_s, now_s, where=codes != self._before)
        np.copyto(self._before, codes)

    def move(self, to: Rows, source: Rows, count: int) -> None:
        """Adopt a new layout; the next values of new rows are changes."""
        if not len(self._before):
            return
        before = np.full(count, self._top, self._before.dtype)
        before[to] = self._before[source]
        at_s = np.zeros(count, np.float32)
        at_s[to] = self._at_s[source]
        self._before = before
        self._at_s = at_s


class CounterWindow:
    """The increase of one counter of all chips or instances over a window."""

    def __init__(self, window_s: float, count: int) -> None:
        self._window_ns = round(window_s * 1e9)
        self._entries: deque[tuple[int, Rows, NDArray[np.int64]]] = deque()
        self.kept = 0
        """Stored changes of all parts."""
        self.totals: NDArray[np.int64] = np.zeros(count, np.int64)
        """Increase within the window, by row."""

    def __len__(self) -> int:
        """Return the number of parts that have changes."""
        return len(self._entries)

    def add(self, now_ns: int, increase: Increase) -> None:
        """Advance to an instant and add an increase."""
        entries = self._entries
        totals = self.totals
        while entries and not now_ns - self._window_ns < entries[0][0] <= now_ns:
            _, rows, amounts = entries.popleft()
            totals[rows] -= amounts
            self.kept -= len(rows)
        if not len(increase.rows):
            return
        totals[increase.rows] += increase.amounts
        part_ns = self._window_ns // PARTS
        if entries and now_ns - entries[-1][0] < part_ns:
            begun_ns, rows, amounts = entries.pop()
            self.kept -= len(rows)
            self._put(begun_ns, *_joined(rows, amounts, *increase))
        else:
            self._put(now_ns, *increase)
        while self.kept > MOST_KEPT and len(entries) > 2:
            self._coarsen()

    def above(self, limit: float) -> Rows:
        """Return the rows with an increase above a limit of 0 or more, ascending."""
        if not self._entries:
            return NO_INCREASE.rows
        return np.flatnonzero(self.totals > limit)

    def move(self, to: Rows, source: Rows, count: int) -> None:
        """Adopt a new layout."""
        places = np.full(len(self.totals), -1, np.int64)
        places[source] = to
        moved = np.zeros(count, np.int64)
        moved[to] = self.totals[source]
        self.totals = moved
        entries = self._entries
        self._entries = deque()
        self.kept = 0
        for at_ns, rows, amounts in entries:
            new = places[rows]
            order = np.argsort(new[new >= 0], kind="stable")
            self._put(at_ns, new[new >= 0][order], amounts[new >= 0][order])

    def _put(self, at_ns: int, rows: Rows, amounts: NDArray[np.int64]) -> None:
        self._entries.append((at_ns, rows, amounts))
        self.kept += len(rows)

    def _coarsen(self) -> None:
        """Join neighbours in time in pairs.

        Each pair leaves the window with its later one.
        """
        entries = list(self._entries)
        self._entries = deque()
        self.kept = 0
        for first, second in zip(entries[::2], entries[1::2], strict=False):
            self._put(second[0], *_joined(*first[1:], *second[1:]))
        if len(entries) % 2:
            self._put(*entries[-1])


def _joined(
    rows: Rows, amounts: NDArray[np.int64], more: Rows, further: NDArray[np.int64]
) -> tuple[Rows, NDArray[np.int64]]:
    every, inverse = np.unique(np.concatenate([rows, more]), return_inverse=True)
    total = np.zeros(len(every), np.int64)
    np.add.at(total, inverse, np.concatenate([amounts, further]))
    return every, total


class Counters:
    """The counters followed by any rule.

    Rules with the same counter and window share one.
    """

    def __init__(self) -> None:
        self._feeds: dict[str, CounterFeed] = {}
        self._windows: dict[tuple[str, float], CounterWindow] = {}
        self._wanted: set[tuple[str, float]] = set()
        self._changes: dict[str, LastChanges] = {}

    def changes(self, figure: str) -> LastChanges:
        """Return the last changes of a counter of chips, followed from the first call on."""
        if figure not in self._changes:
            self._changes[figure] = LastChanges(BY_NAME[figure].top)
        return self._changes[figure]

    def want(self, figure: str, window_s: float) -> None:
        """Follow a counter over a window."""
        self._wanted.add((figure, window_s))

    def update(self, readings: Readings) -> None:
        """Go on to the readings' instant."""
        for figure, changes in self._changes.items():
            changes.update(readings.store.columns[figure], readings.instant.flow_ns)
        increases = {}
        for figure, window_s in sorted(self._wanted):
            if figure not in increases:
                feed = self._feeds.setdefault(figure, CounterFeed(BY_NAME[figure].top))
                increases[figure] = feed.take(readings.store.columns[figure])
            window = self._windows.get((figure, window_s))
            if window is None:
                window = self._windows[figure, window_s] = CounterWindow(
                    window_s, len(readings.store.columns[figure])
                )
            window.add(readings.instant.flow_ns, increases[figure])

    def above(self, figure: str, window_s: float, limit: float) -> Rows:
        """Return the rows whose counter rose by more than a limit in the window, ascending.

        The limit is 0 or more.
        """
        return self._windows[figure, window_s].above(limit)

    def totals(self, figure: str, window_s: float) -> NDArray[np.int64]:
        """Return the increase of every counter within the window."""
        return self._windows[figure, window_s].totals

    def move(self, moves: Mapping[Scope, tuple[Rows, Rows, int]]) -> None:
        """Adopt a new layout.

        Args:
            moves: Of chips and instances, the new rows, the former ones, and the new number.
        """
        for figure, feed in self._feeds.items():
            feed.move(*moves[BY_NAME[figure].scope])
        for figure, changes in self._changes.items():
            changes.move(*moves[BY_NAME[figure].scope])
        for (figure, _), window in self._windows.items():
            window.move(*moves[BY_NAME[figure].scope])


class Samples:
    """One figure of one target over a window."""

    __slots__ = ("_times_ns", "_values", "_window_ns")

    def __init__(self, window_s: float) -> None:
        self._window_ns = round(window_s * 1e9)
        self._times_ns: deque[int] = deque()
        self._values: deque[Any] = deque()

    def add(self, now_ns: int, value: float | str | None) -> None:
        """Add the value of an instant; None if unknown.

        The newest sample before the window is stored for differences.
        """
        times_ns = self._times_ns
        values = self._values
        if times_ns and times_ns[-1] > now_ns:
            times_ns.clear()
            values.clear()
        if value is not None:
            times_ns.append(now_ns)
            values.append(value)
        while len(times_ns) > 1 and times_ns[1] <= now_ns - self._window_ns:
            times_ns.popleft()
            values.popleft()

    def within(self, now_ns: int) -> list[Any]:
        """Return the values in the window, oldest first."""
        begin_ns = now_ns - self._window_ns
        times_ns = self._times_ns
        first = 0
        # Right after `add` one sample at most is older.
        while first < len(times_ns) and times_ns[first] <= begin_ns:
            first += 1
        return list(itertools.islice(self._values, first, None))

    def increase(self, now_ns: int) -> float | None:
        """Return a counter's increase in the window.

        A falling counter subtracts what was counted too early, such as a tick counted as lost that
        was only late. Any later increase counts in full.
        """
        del now_ns
        values = self._values
        return float(values[-1] - min(values)) if values else None

    def changes(self, now_ns: int) -> float | None:
        """Return how often the value differed from the one before within the window."""
        values = self.within(now_ns)
        if not values:
            return None
        return float(sum(new != old for old, new in itertools.pairwise(values)))


class UsualValue:
    """The usual value of one target: the median of its own past, without abnormal times.

    Not every abnormal time has an alert: a job may be slow from its first minute on, or by less
    than the limit. For figures with an upper limit, the median covers only samples at which an
    alert would end if the smallest fifth were usual. A time is never much shorter than the work
    needs. A rate may exceed its usual value for a while, so `below` uses the plain median.
    """

    __slots__ = ("_condition", "_every_ns", "_kept", "_median")

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._every_ns = round((condition.past or 0.0) * 1e9 / PAST_SAMPLES)
        self._kept: deque[tuple[int, float]] = deque(maxlen=PAST_SAMPLES)
        self._median: float | None = None
        """Median of the stored samples; None until requested."""

    def usual(self) -> float | None:
        """Return the median.

        None with too few samples.
        """
        if len(self._kept) < PAST_LEAST:
            return None
        if self._median is None:
            self._median = self._find()
        return self._median

    def prepend(self, before: UsualValue) -> None:
        """Put the samples of a time before in front of the own ones."""
        own = list(self._kept)
        older = [sample for sample in before._kept if not own or sample[0] < own[0][0]]
        self._kept = deque([*older, *own], PAST_SAMPLES)
        self._median = None

    def _find(self) -> float:
        values = np.array(sorted(value for _, value in self._kept))
        best = values[math.ceil(len(values) / BEST_OF) - 1]
        if self._condition.above is not None and best > 0:
            shares = values / best
            values = values[
                ~(compare(self._condition, shares) | not_clear(self._condition, shares))
            ]
        return float(np.median(values)) if len(values) else float(best)

    def add(self, now_ns: int, value: float) -> None:
        """Add a normal value."""
        if self._kept and now_ns < self._kept[-1][0]:
            self._kept.clear()
            self._median = None
        # The first samples are closer together, so the usual value is known soon.
        every_ns = (
            self._every_ns if len(self._kept) >= PAST_LEAST else min(self._every_ns, FIRST_EVERY_NS)
        )
        if not self._kept or now_ns - self._kept[-1][0] >= every_ns:
            self._kept.append((now_ns, value))
            self._median = None
