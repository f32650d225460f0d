"""Minutes of a fleet: chips are added to the minute of their source time.

A minute is returned once, when it is over. Source time decides, so a recording has the same minutes
as its fleet, and two writers of one cell agree. A few minutes are open at a time: clocks differ. A
sample for a returned minute is late, and counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.layout import EMPTY_LAYOUT
from trnfleet.domain.minutes import MINUTE_NS, MinuteRows
from trnfleet.monitor.minutes.counters import CounterValues
from trnfleet.monitor.minutes.sums import MinuteSums
from trnfleet.monitor.store.layout_changes import moves, same_instances

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.store import Store

    Rows = slice | NDArray[np.int64]

GRACE_S = 2.0
"""Monotonic seconds without a sample after which a minute is over. A later one must have begun.
Longer with slower sources."""
SILENT_S = 70.0
"""Seconds without a sample after which any minute is over."""
MOST_OPEN = 3
"""Minutes open at a time. A fast simulator's minutes follow each other quickly."""
MOST_GIVEN = 1_440


class Minutes:
    """The minutes of one fleet that are open."""

    def __init__(self) -> None:
        self._layout: Layout = EMPTY_LAYOUT
        self._taken_ns: NDArray[np.int64] = np.zeros(0, np.int64)
        """Source time of the newest sample of each chip."""
        self._counters = CounterValues(0)
        self._open: dict[int, MinuteSums] = {}
        self._gone: list[MinuteRows] = []
        """Minutes of removed chips, and of minutes closed to make room."""
        self._given: deque[int] = deque(maxlen=MOST_GIVEN)
        """The last returned minutes."""
        self.late = 0
        """Samples for an already returned minute."""
        self.samples = 0

    def take(
        self,
        store: Store,
        *,
        now_s: float,
        speed: float,
        job_of: NDArray[np.int32],
        jobs: tuple[str, ...],
    ) -> None:
        """Add one sample for each chip with a newer source time than before.

        Args:
            store: The values.
            now_s: Monotonic seconds.
            speed: Seconds of source time for a wall second.
            job_of: Number of each instance's job.
            jobs: The jobs' names by these numbers.
        """
        if store.layout is not self._layout:
            self._move_to(store.layout)
        newest_ns = store.chip_ts_ns
        is_new = newest_ns != self._taken_ns
        layout = store.layout
        if layout.has_rolled:
            # The chip row of a row that is known from roll-ups only is no chip.
            is_new &= ~layout.is_rolled[layout.instance_of_chip]
        count = int(np.count_nonzero(is_new))
        if not count:
            return
        rows: Rows = slice(None) if count == len(is_new) else np.flatnonzero(is_new)
        times = newest_ns[rows]
        first = int(times.min()) // MINUTE_NS
        last = int(times.max()) // MINUTE_NS
        if first == last:
            self._add(first, store, rows, count, now_s, speed, job_of, jobs)
        else:
            minutes = times // MINUTE_NS
            places = np.arange(len(is_new)) if isinstance(rows, slice) else rows
            for minute in np.unique(minutes).tolist():
                chosen = places[minutes == minute]
                self._add(minute, store, chosen, len(chosen), now_s, speed, job_of, jobs)
        self._taken_ns = newest_ns.copy()

    def _add(
        self,
        minute: int,
        store: Store,
        rows: Rows,
        count: int,
        now_s: float,
        speed: float,
        job_of: NDArray[np.int32],
        jobs: tuple[str, ...],
    ) -> None:
        sums = self._open.get(minute)
        if sums is None:
            if minute in self._given:
                self.late += count
                self._counters.take(store, rows)
                return
            for former in self._open.values():
                former.last = former.last or self._counters.copy()
            while len(self._open) >= MOST_OPEN:
                self._give_out(min(self._open))
            sums = self._open[minute] = MinuteSums(store.layout)
        elif sums.last is not None:
            sums.last.put(store, rows)
        sums.add(store, rows, self._counters.take(store, rows))
        sums.touched_s = now_s
        sums.tick_s = store.period_s * speed
        sums.job_of = job_of.copy()
        sums.jobs = jobs
        self.samples += count

    def close(self, now_s: float, period_s: float, *, at_end: bool = False) -> Iterator[MinuteRows]:
        """Yield the minutes that are over, oldest first, each once.

        Args:
            now_s: Monotonic seconds.
            period_s: The publishing period of the usual source, wall seconds.
            at_end: Whether no more will come.
        """
        newest = max(self._open, default=0)
        grace_s = max(GRACE_S, 2 * period_s)
        for minute in sorted(self._open):
            silent_s = now_s - self._open[minute].touched_s
            if at_end or silent_s >= SILENT_S or (minute < newest and silent_s >= grace_s):
                self._give_out(minute)
        # Removed chips wait for their minute, so it is returned as one.
        waiting = set(self._open)
        ready = [removed for removed in self._gone if removed.minute not in waiting]
        self._gone = [removed for removed in self._gone if removed.minute in waiting]
        yield from sorted(ready, key=lambda removed: removed.minute)

    def _give_out(self, minute: int) -> None:
        sums = self._open.pop(minute)
        self._given.append(minute)
        self._gone.append(self._rows_of(minute, sums, sums.rows_with_samples()))

    def _rows_of(self, minute: int, sums: MinuteSums, rows: Rows) -> MinuteRows:
        layout = sums.layout
        owner = layout.instance_of_chip[rows]
        numbers = np.arange(layout.chips)[rows] - layout.chip_start[owner]
        return MinuteRows(
            minute,
            layout.instances,
            owner.astype(np.int32),
            numbers.astype(np.int16),
            sums.covered_s(rows),
            sums.jobs,
            sums.job_of[owner],
            sums.columns(rows, self._counters),
            int(sums.count[rows].sum()),
        )

    def _move_to(self, layout: Layout) -> None:
        """Adopt a new layout.

        Minutes of removed chips are preserved.
        """
        before = self._layout
        stays = np.zeros(len(before.instances), np.bool_)
        taken_ns = np.zeros(layout.chips, np.int64)
        same = same_instances(layout, before)
        for new, old in moves(same):
            taken_ns[layout.chips_of(new)] = self._taken_ns[before.chips_of(old)]
            stays[old] = True
        if not stays.all():
            gone = ~stays[before.instance_of_chip]
            for minute, sums in self._open.items():
                rows = np.flatnonzero(gone & (sums.count > 0))
                if len(rows):
                    self._gone.append(self._rows_of(minute, sums, rows))
        self._open = {minute: sums.moved(layout) for minute, sums in self._open.items()}
        self._counters = self._counters.moved(layout, before)
        self._taken_ns = taken_ns
        self._layout = layout
