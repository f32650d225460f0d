"""Minutes of a fleet: chips are added to the minute of their source time.

A minute is returned once, when it is over. Source time decides, so a recording has the same minutes
as its fleet, and two writers of one cell agree. A few minutes are open at a time: clocks differ. A
sample for a returned minute is late, and counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.domain.metrics import CHIP_METRICS, Aggregate, Kind, Metric
from trnfleet.domain.minutes import (
    MINUTE_COLUMNS,
    KeptSeries,
    MinuteRows,
    Part,
    Reach,
    Wanted,
    has_peak,
    mean_values,
)
from trnfleet.monitor.store.layout_changes import moves, same_instances

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.monitor.store.store import Store

    Rows = slice | NDArray[np.int64]


_COUNTERS = tuple(metric for metric in CHIP_METRICS if metric.kind is Kind.COUNTER)
_GAUGES = tuple(metric for metric in CHIP_METRICS if metric.kind is Kind.GAUGE)
_BITS = tuple(metric for metric in CHIP_METRICS if metric.kind is Kind.BITMASK)
_OPERATIONS = {Aggregate.OR: np.bitwise_or, Aggregate.AND: np.bitwise_and}
UNKNOWN = np.iinfo(np.uint64).max
"""Stands for an unknown whole number."""


class ChipColumns(Protocol):
    """Wire codes of chips."""

    columns: dict[str, NDArray[Any]]
    """By metric."""


class CounterValues:
    """The last known value of every counter of every chip."""

    def __init__(self, chips: int) -> None:
        self.last: dict[str, NDArray[Any]] = {
            metric.name: metric.blank(chips) for metric in _COUNTERS
        }

    def moved(self, to: Layout, source: Layout) -> CounterValues:
        """Return the values of the remaining instances under another layout's rows."""
        twin = CounterValues(to.chips)
        for new, old in moves(same_instances(to, source)):
            rows = to.chips_of(new)
            before = source.chips_of(old)
            for name, values in self.last.items():
                twin.last[name][rows] = values[before]
        return twin

    def copy(self) -> CounterValues:
        """Return a copy."""
        twin = CounterValues(0)
        twin.last = {name: values.copy() for name, values in self.last.items()}
        return twin

    def increases(self, store: Store, rows: Rows) -> dict[str, NDArray[np.uint64]]:
        """Store the values of rows, and return the increases of changed counters.

        A lower value than before restarted at 0. A first value is no increase.
        """
        grown: dict[str, NDArray[np.uint64]] = {}
        for metric in _COUNTERS:
            last = self.last[metric.name]
            new = store.columns[metric.name][rows]
            old = last[rows]
            if np.array_equal(new, old):
                continue
            top = metric.dtype.type(metric.top)
            known = new != top
            both = known & (old != top)
            # Most grow; where one is lower, all that it shows has come since.
            step = np.where(new >= old, new - old, new)
            grown[metric.name] = np.where(both, step, 0).astype(np.uint64)
            last[rows] = new if known.all() else np.where(known, new, old)
        return grown

    def put(self, store: ChipColumns, rows: Rows) -> None:
        """Replace the values of rows by known ones of the store."""
        for metric in _COUNTERS:
            new = store.columns[metric.name][rows]
            self.last[metric.name][rows] = np.where(
                new != metric.top, new, self.last[metric.name][rows]
            )


class MinuteSums:
    """The sums of all chips of a layout over one minute."""

    def __init__(self, layout: Layout) -> None:
        chips = layout.chips
        self.layout = layout
        self.touched_s = 0.0
        """Monotonic seconds of its last sample."""
        self.count: NDArray[np.uint16] = np.zeros(chips, np.uint16)
        """Samples of each chip."""
        self.tick_s: NDArray[np.float64] = np.zeros(len(layout.instances))
        """Seconds covered by a sample, per instance."""
        self.job_of: NDArray[np.int32] = np.full(len(layout.instances), -1, np.int32)
        self.jobs: tuple[str, ...] = ()
        """Names of jobs by the numbers in `job_of`."""
        self.last: CounterValues | None = None
        """The counters at its end; None until a later minute has begun."""
        self._sums: dict[str, NDArray[Any]] = {
            metric.name: np.zeros(chips, np.uint32 if metric.dtype.itemsize <= 2 else np.uint64)
            for metric in _GAUGES
        }
        self._most: dict[str, NDArray[Any]] = {
            metric.name: np.zeros(chips, np.uint32) for metric in _GAUGES if has_peak(metric)
        }
        self._bits: dict[str, NDArray[Any]] = {
            metric.name: np.full(
                chips, metric.top if metric.aggregate is Aggregate.AND else 0, metric.dtype
            )
            for metric in _BITS
        }
        self._known: dict[str, NDArray[np.uint16]] = {}
        """Samples with a value, for metrics missing in some sample. For all others it is `count`.
        """
        self._grown: dict[str, NDArray[np.uint64]] = {}

    def add(self, store: ChipColumns, rows: Rows, grown: dict[str, NDArray[np.uint64]]) -> None:
        """Add a sample of rows.

        Args:
            store: The values.
            rows: Rows of chips, each once.
            grown: By how much counters have grown since the sample before.
        """
        for metric in _GAUGES:
            self._add_gauge(metric, store.columns[metric.name][rows], rows)
        for metric in _BITS:
            codes = store.columns[metric.name][rows]
            known = self._known_of(metric, codes, rows)
            bits = self._bits[metric.name]
            if known is not None and metric.aggregate is Aggregate.OR:
                codes = np.where(known, codes, 0)
            bits[rows] = _OPERATIONS[metric.aggregate](bits[rows], codes)
        for name, increase in grown.items():
            total = self._grown.get(name)
            if total is None:
                total = self._grown[name] = np.zeros(len(self.count), np.uint64)
            total[rows] += increase
        self.count[rows] += 1

    def _add_gauge(self, metric: Metric, codes: NDArray[Any], rows: Rows) -> None:
        value: NDArray[Any]
        if not metric.is_vector:
            known = self._known_of(metric, codes, rows)
            value = codes if known is None else np.where(known, codes, 0)
        elif int(codes.max(initial=0)) != metric.top:
            known = self._known_of(metric, None, rows)
            value = np.einsum("ij->i", codes, dtype=np.uint16 if metric.wire == "u8" else np.uint32)
        else:
            there = codes != metric.top
            lanes = there.sum(axis=1)
            known = self._known_of(metric, lanes > 0, rows)
            value = np.where(there, codes, 0).sum(axis=1, dtype=np.uint32)
            if metric.lane_aggregate is Aggregate.MEAN:
                # As if the lanes that there are were all: sums stay whole numbers of codes.
                value = np.rint(value * (metric.width / np.maximum(lanes, 1))).astype(np.uint32)
        name = metric.name
        self._sums[name][rows] += value
        if name in self._most:
            most = self._most[name]
            if isinstance(rows, slice):
                np.maximum(most[rows], value, out=most[rows])
            else:
                most[rows] = np.maximum(most[rows], value)

    def _known_of(
        self, metric: Metric, codes: NDArray[Any] | None, rows: Rows
    ) -> NDArray[np.bool_] | None:
        """Count the samples with a value and return their flags.

        None for all.

        Args:
            metric: Their metric.
            codes: Their codes, or whether each has a value; None for all of them.
            rows: Their rows.
        """
        name = metric.name
        known: NDArray[np.bool_] | None = None
        if codes is not None:
            if codes.dtype == np.bool_:
                known = codes
            elif int(codes.max(initial=0)) == metric.top:
                known = codes != metric.top
            if known is not None and known.all():
                known = None
        if name in self._known:
            self._known[name][rows] += 1 if known is None else known
        elif known is not None:
            self._known[name] = self.count.copy()
            self._known[name][rows] += known
        return known

    def moved(self, to: Layout) -> MinuteSums:
        """Return the sums of the remaining instances under another layout's rows."""
        twin = MinuteSums(to)
        twin.touched_s = self.touched_s
        twin.jobs = self.jobs
        twin._known = {name: np.zeros(to.chips, np.uint16) for name in self._known}
        twin._grown = {name: np.zeros(to.chips, np.uint64) for name in self._grown}
        twin.last = None if self.last is None else self.last.moved(to, self.layout)
        for new, old in moves(same_instances(to, self.layout)):
            rows = to.chips_of(new)
            before = self.layout.chips_of(old)
            twin.count[rows] = self.count[before]
            twin.tick_s[new] = self.tick_s[old]
            twin.job_of[new] = self.job_of[old]
            for ours, theirs in (
                (twin._sums, self._sums),
                (twin._most, self._most),
                (twin._bits, self._bits),
                (twin._known, self._known),
                (twin._grown, self._grown),
            ):
                for name, values in theirs.items():
                    ours[name][rows] = values[before]
        return twin

    def rows_with_samples(self) -> Rows:
        """Return the rows that have any sample."""
        return slice(None) if self.count.all() else np.flatnonzero(self.count)

    def covered_s(self, rows: Rows) -> NDArray[np.float32]:
        """Return the seconds of the minute covered by the samples of rows."""
        tick_s = self.tick_s[self.layout.instance_of_chip[rows]]
        return np.round(np.minimum(60.0, self.count[rows] * tick_s), 1).astype(np.float32)

    def columns(self, rows: Rows, counters: CounterValues) -> dict[str, NDArray[Any]]:
        """Return the minute's figures of rows.

        If unknown: NaN, or `UNKNOWN` for whole numbers.

        Args:
            rows: Rows with samples.
            counters: The counters at the minute's end, if no later minute has begun.
        """
        counters = self.last or counters
        made: dict[str, NDArray[Any]] = {}
        for name, metric, part in MINUTE_COLUMNS:
            known = self._known.get(metric.name, self.count)[rows]
            some = known > 0
            if part is Part.MEAN:
                lanes = (
                    metric.width
                    if metric.is_vector and metric.lane_aggregate is Aggregate.MEAN
                    else 1
                )
                divisor = np.where(some, known, 1).astype(np.float64) * lanes
                means = mean_values(metric, self._sums[metric.name][rows] / divisor)
                means[~some] = np.nan
                made[name] = means
            elif part is Part.MAX:
                lanes = (
                    metric.width
                    if metric.is_vector and metric.lane_aggregate is Aggregate.MEAN
                    else 1
                )
                most = mean_values(metric, self._most[metric.name][rows] / lanes)
                most[~some] = np.nan
                made[name] = most
            elif part is Part.BITS:
                made[name] = np.where(
                    some, self._bits[metric.name][rows].astype(np.uint64), UNKNOWN
                )
            else:
                last = counters.last[metric.name][rows]
                unknown = last == metric.top
                if part is Part.LAST:
                    made[name] = np.where(unknown, UNKNOWN, last.astype(np.uint64))
                else:
                    grown = self._grown.get(metric.name)
                    increase = np.zeros(len(last), np.uint64) if grown is None else grown[rows]
                    made[name] = np.where(unknown, UNKNOWN, increase)
        return made


class FleetHistory(Protocol):
    """The files of months of one fleet."""

    @property
    def revision(self) -> int:
        """Increases with each answer and each problem."""

    @property
    def problem(self) -> str:
        """The unreadable file and the reason, in one line.

        Empty if all is readable.
        """

    @property
    def reach(self) -> Reach | None:
        """The covered times.

        None if there are none, or unknown yet.
        """

    def ask(self, wanted: Wanted) -> KeptSeries | None:
        """Return an answer, perhaps one from a little earlier.

        None while it is read.
        """


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
                self._counters.increases(store, rows)
                return
            for former in self._open.values():
                former.last = former.last or self._counters.copy()
            while len(self._open) >= MOST_OPEN:
                self._give_out(min(self._open))
            sums = self._open[minute] = MinuteSums(store.layout)
        elif sums.last is not None:
            sums.last.put(store, rows)
        sums.add(store, rows, self._counters.increases(store, rows))
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
