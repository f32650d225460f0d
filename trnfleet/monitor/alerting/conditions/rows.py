"""Conditions over targets with addresses: rows of the store's columns, up to a million.

`ROW_CONDITIONS` is the table of all kinds. Comparisons with a median are in `medians`. `RowSearch`
applies the conditions of one rule and returns the matching rows.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import (
    FIGURES,
    JOB_SLOWDOWN,
    LANES,
    LEVEL_OF,
    LINKS_UP,
    Scope,
)
from trnfleet.domain.metrics import BY_NAME, Aggregate
from trnfleet.domain.metrics import Scope as MetricScope
from trnfleet.monitor.alerting.conditions.compare import available, compare, compare_codes
from trnfleet.monitor.alerting.conditions.medians import (
    InstanceShareRows,
    MedianDistanceRows,
    MedianOnlyRows,
    MedianShareRows,
)
from trnfleet.monitor.alerting.conditions.row_condition import (
    NO_ROWS,
    NOTHING,
    MatchingRows,
    RowCondition,
    count_of,
)
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import ROWS_A_SLICE, Slices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.conditions.windows import Counters
    from trnfleet.monitor.alerting.inputs import Readings

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Values = NDArray[np.float64]


class FigureRows(RowCondition):
    """A figure itself: compared by its column's codes if it has one, otherwise by values."""

    _had_any = False
    """Whether the last search of all targets found candidates."""

    def is_quick(self, readings: Readings) -> bool:
        """Return whether the figure is a column, or its level has few targets."""
        return (
            self.level is not Level.CHIP or readings.column_of(self.scope, self.figure) is not None
        )

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return no rows if neither the largest nor the least code can match."""
        column = readings.column_of(self.scope, self.figure)
        # Recent matches mostly still match, and checking all codes would show no more.
        is_rare = not self._had_any and len(readings.layout.instances) > 0
        if is_rare and column is not None and self.is_beyond_all(readings, *column):
            return NO_ROWS
        some = yield from super().candidates(readings)
        self._had_any = len(some) > 0
        return some

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Compare codes, or values without codes."""
        column = readings.column_of(self.scope, self.figure)
        if column is None:
            return compare(self.condition, readings.values(self.scope, self.figure, part))
        metric, factor = column
        limits = (limit / factor for limit in self.condition.limits)
        codes = readings.store.columns[metric.name]
        return compare_codes(codes, metric, self.condition.comparison.key, *limits).reshape(-1)

    def values(self, readings: Readings, rows: Rows) -> Values:
        return readings.values(self.scope, self.figure, rows)


class SlowJobRows(FigureRows):
    """The slowdown of a chip's job: the same for all chips of a job."""

    is_narrow = True

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return the chips of the jobs that match."""
        yield from readings.checkpoint()
        jobs = np.flatnonzero(compare(self.condition, readings.job_slowdowns))
        return readings.layout.chip_rows(np.flatnonzero(np.isin(readings.job_of, jobs)))


class MissingLinkRows(FigureRows):
    """The number of links down, counted only on chips with a missing mask bit."""

    def is_quick(self, readings: Readings) -> bool:  # noqa: ARG002  as all kinds
        """Return True: few chips lack a link."""
        return True

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Count on chips with an unexpected mask.

        If chips without a missing link can match, count everywhere.
        """
        is_common = self.condition.comparison.key != "above" or self.limit < 0
        if self.level is not Level.CHIP or is_common:
            return compare(self.condition, readings.values(self.scope, self.figure, part))
        flags = _lacking_links(readings)
        rows = np.flatnonzero(flags)
        flags[rows] = self.holds(readings, rows)
        return flags


class LinkUpRows(FigureRows):
    """Whether a link is up: a bit of the chip's mask.

    Only chips with a missing bit are checked.
    """

    def is_quick(self, readings: Readings) -> bool:  # noqa: ARG002  as all kinds
        """Return True: few chips lack a link."""
        return True

    @property
    def _is_down(self) -> bool:
        """Whether only links that are down fulfil it."""
        condition = self.condition
        return condition.equals == 0.0 or (condition.below is not None and 0 < condition.below <= 1)

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return no rows if all links are up in the roll-ups."""
        if self._is_down and readings.all_links_up:
            return NO_ROWS
        return (yield from super().candidates(readings))

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return the missing bits.

        Compare everywhere if links in the up state can match.
        """
        condition = self.condition
        if not self._is_down:
            return compare(condition, readings.values(self.scope, self.figure, part))
        codes = readings.store.columns[LINKS_UP]
        expected = readings.expected_links
        width = len(LANES[Scope.LINK])
        flags = np.zeros((len(codes), width), np.bool_)
        some = np.flatnonzero(_lacking_links(readings))
        links = expected if isinstance(expected, np.uint8) else expected[some]
        missing = links & ~codes[some]
        flags[some] = missing[:, None] >> np.arange(width, dtype=np.uint8) & 1 > 0
        return flags.reshape(-1)


class BitRows(RowCondition):
    """Bits of a bit mask.

    Any of them fulfils the condition.
    """

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return no rows if no instance has any of the bits in the roll-ups."""
        if self.level is Level.CHIP and BY_NAME[self.figure].aggregate is Aggregate.OR:
            bits, _ = readings.rollups.parts(self.figure, Level.INSTANCE)
            if not (bits.astype(np.int64) & self._wanted).any():
                return NO_ROWS
        return (yield from super().candidates(readings))

    def mask(self, readings: Readings, part: slice) -> Flags:
        return self._any(readings, part)

    def values(self, readings: Readings, rows: Rows) -> Values:  # noqa: ARG002  as all kinds
        return np.full(len(rows), np.nan)

    def holds(self, readings: Readings, rows: Rows) -> Flags:
        return self._any(readings, rows)

    def _any(self, readings: Readings, rows: Rows | slice) -> Flags:
        codes = readings.bits(self.scope, self.figure, rows)
        has = self.condition.has
        flags: Flags
        if self.figure == LINKS_UP:
            flags = codes & readings.lane_bits(self.scope, has, rows) != 0
        else:
            flags = codes & np.array(self._wanted, codes.dtype) != 0
        return flags

    @property
    def _wanted(self) -> int:
        """The bits of its names."""
        names = FIGURES[self.scope][self.figure].values
        return sum(1 << names.index(name) for name in self.condition.has)


class SilentRows(RowCondition):
    """Targets without live data.

    The value is the silence in seconds.
    """

    needs_known = False

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return no rows if all chips are live."""
        if readings.all_live:
            return NO_ROWS
        return (yield from super().candidates(readings))

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return a flag per target: silent, by no trouble of ours.

        Above the chip, a target is silent if no chip is live and any is stale or offline.
        """
        if readings.all_live:
            return np.zeros(
                len(range(*part.indices(count_of(readings.layout, self.scope)))), np.bool_
            )
        if self.level is Level.CHIP:
            return readings.silent[part]
        states = readings.rollups.states(self.level)
        dead = states[:, Freshness.STALE] + states[:, Freshness.OFFLINE] > 0
        flags: Flags = (states[:, Freshness.LIVE] == 0) & dead
        if readings.unsettled is not None:
            flags &= ~readings.unheard(self.level)
        return flags[part]

    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return seconds of monitor time since anything has come; NaN where nothing ever has."""
        newest_ns = _of_nodes(
            readings.layout, self.level, readings.store.chip_ts_ns, np.maximum, rows
        )
        age_s = (readings.instant.flow_ns - newest_ns) / 1e9
        return np.where(newest_ns > 0, np.maximum(age_s, 0.0), np.nan)

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, Values]:
        """Report every audible target as known: no longer silent, it is live."""
        known = np.ones(len(rows), np.bool_)
        if readings.unsettled is not None:
            known = ~readings.unheard(self.level)[rows]
        return known, np.zeros(len(rows), np.bool_), np.full(len(rows), np.nan)


class CounterRows(RowCondition):
    """The increase of a counter over a window, or its rate."""

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        self.window_s = condition.window_s or 0.0
        self.seconds = self.window_s if condition.rate_over else 1.0
        """The increase is divided by this."""
        self._counters = counters
        self._follow()

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Search only chips with an increase, if no other chip can match."""
        condition = self.condition
        is_some = condition.comparison.key == "above" and self.limit >= 0
        if self.level is not Level.CHIP or condition.rate_over or not is_some:
            return (yield from super().candidates(readings))
        return self._counters.above(self.figure, self.window_s, self.limit)

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Compare the window's totals."""
        return compare(self.condition, self._amounts(readings)[part])

    def values(self, readings: Readings, rows: Rows) -> Values:
        return self._amounts(readings)[rows].astype(np.float64)

    def _follow(self) -> None:
        self._counters.want(self.figure, self.window_s)

    def _totals(self, readings: Readings) -> NDArray[np.int64]:
        """Return the increase of each target."""
        totals = self._counters.totals(self.figure, self.window_s)
        return _by_level(readings.layout, self.level, BY_NAME[self.figure].scope, totals)

    def _amounts(self, readings: Readings) -> NDArray[np.int64] | Values:
        totals = self._totals(readings)
        return totals / self.seconds if self.condition.rate_over else totals


class UnchangedRows(RowCondition):
    """Counters of chips that stand still. There is no value."""

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        self._changes = counters.changes(self.figure)

    def mask(self, readings: Readings, part: slice) -> Flags:
        return self._stands(readings, part)

    def values(self, readings: Readings, rows: Rows) -> Values:  # noqa: ARG002  as all kinds
        return np.full(len(rows), np.nan)

    def holds(self, readings: Readings, rows: Rows) -> Flags:
        return self._stands(readings, rows)

    def _stands(self, readings: Readings, rows: Rows | slice) -> Flags:
        codes = readings.store.columns[self.figure][rows]
        stands = self._changes.stands(readings.instant.flow_ns, self.limit, rows)
        return stands & available(codes, BY_NAME[self.figure])


class EventRows(CounterRows):
    """The number of events of some names over a window, or their rate."""

    has_telling_mask = False

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return the targets with enough events."""
        return (yield from RowCondition.candidates(self, readings))

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        self._events: deque[tuple[int, str]] = deque()
        """Arrival of each event in passed time, and its target."""

    def update(self, readings: Readings) -> None:
        """Add the events since the last evaluation.

        Drop events outside the window.
        """
        flow_ns = readings.instant.flow_ns
        depth = int(self.level)
        for event in readings.events:
            segments = event.path.split("/") if event.path else []
            if event.name in self.condition.named and len(segments) >= depth:
                self._events.append((flow_ns, "/".join(segments[:depth])))
        begin_ns = flow_ns - round(self.window_s * 1e9)
        while self._events and self._events[0][0] <= begin_ns:
            self._events.popleft()

    def _follow(self) -> None:
        """Follow no counter: events come with the readings."""

    def _totals(self, readings: Readings) -> NDArray[np.int64]:
        totals = np.zeros(count_of(readings.layout, self.scope), np.int64)
        for _, path in self._events:
            node = readings.layout.find(path)
            if node is not None and node.level is self.level:
                totals[node.number] += 1
        return totals


ROW_CONDITIONS: Mapping[tuple[str, str], type[RowCondition]] = MappingProxyType(
    {
        ("figure", ""): FigureRows,
        ("figure", JOB_SLOWDOWN): SlowJobRows,
        ("figure", "links_down"): MissingLinkRows,
        ("figure", "link_up"): LinkUpRows,
        ("has", ""): BitRows,
        ("absent", ""): SilentRows,
        ("unchanged_for", ""): UnchangedRows,
        ("rate_over", ""): CounterRows,
        ("rate_over", "events"): EventRows,
        ("increase_over", ""): CounterRows,
        ("increase_over", "events"): EventRows,
        ("median_of", "instance"): MedianOnlyRows,
        ("minus_median_of", "job"): MedianDistanceRows,
        ("share_of_median_of", "job"): MedianShareRows,
        ("share_of_median_of", "instance"): InstanceShareRows,
    }
)
"""The evaluation of each kind. Keys: the reference (and its value), the window or the comparison
(and the figure, if special)."""


def evaluation_of(scope: Scope, condition: Condition, counters: Counters) -> RowCondition:
    """Return the evaluation of a condition."""
    reference = condition.reference
    window = condition.window
    comparison = condition.comparison
    if reference is not None:
        kind = reference.key
        special = reference.of
    elif window is not None:
        kind = window.key
        special = condition.figure or ""
    else:
        kind = comparison.key if (comparison.key, "") in ROW_CONDITIONS else "figure"
        special = condition.figure or ""
    evaluation = ROW_CONDITIONS.get((kind, special)) or ROW_CONDITIONS[kind, ""]
    return evaluation(scope, condition, counters)


class RowSearch:
    """The conditions of one rule over targets with addresses."""

    def __init__(self, rule: Rule, counters: Counters) -> None:
        self._scope = rule.scope
        self._own = evaluation_of(rule.scope, rule, counters)
        self._also = [evaluation_of(rule.scope, condition, counters) for condition in rule.also]
        self._first = next(
            (condition for condition in self._also if condition.is_narrow), self._own
        )
        """The condition whose candidates are looked at."""

    def sees_nothing(self, readings: Readings) -> bool:
        """Return whether one pass over all targets shows that none matches.

        False if it would need more than one pass.
        """
        own = self._own
        total = count_of(readings.layout, self._scope)
        if not own.has_telling_mask or total > ROWS_A_SLICE or not own.is_quick(readings):
            return False
        return not own.mask(readings, slice(0, total)).any()

    def search(self, readings: Readings) -> Slices[MatchingRows]:
        """Return the targets that fulfil all conditions.

        Raises:
            LayoutChanged: their rows have other numbers now.
        """
        own = self._own
        scope = self._scope
        own.update(readings)
        hit = yield from self._first.candidates(readings)
        if scope is Scope.ULTRASERVER:
            # Standalone segments are numbered among them and are none.
            hit = hit[~readings.layout.is_standalone[hit]]
        if readings.store.rolled.blocks and scope is not Scope.ULTRASERVER:
            hit = hit[~_is_of_cell(readings, scope, hit)]
        if not len(hit):
            return NOTHING
        if len(hit) > ROWS_A_SLICE:
            yield from readings.checkpoint()
        if own.needs_known and not readings.all_live:
            hit = hit[readings.is_known(scope, hit)]
        for condition in self._also:
            hit = hit[condition.holds(readings, hit)]
        if self._first is not own:
            hit = hit[own.holds(readings, hit)]
        values = own.values(readings, hit)
        if own.refines:
            fits = compare(own.condition, values)
            hit = hit[fits]
            values = values[fits]
        return MatchingRows(hit, values)

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, Values]:
        """Return three arrays for active targets without a match.

        They are: value known, not clear yet, values.
        """
        return self._own.look(readings, rows)


def _is_of_cell(readings: Readings, scope: Scope, rows: Rows) -> Flags:
    """Return a flag per target below the UltraServer: its cell evaluates these rules.

    Such a target is known here from roll-ups only, or forwarded under a lease.
    """
    layout = readings.layout
    if LEVEL_OF[scope] is Level.CHIP:
        rows = layout.instance_of_chip[readings.chips_of(scope, rows)].astype(np.int64)
    flags: Flags = layout.is_rolled[rows] | readings.store.is_forwarded[rows]
    return flags


def _lacking_links(readings: Readings) -> Flags:
    """Return a flag per chip: an expected link is down."""
    codes = readings.store.columns[LINKS_UP]
    expected = readings.expected_links
    flags: Flags = ((codes & expected) != expected) & (codes != BY_NAME[LINKS_UP].top)
    return flags


def _of_nodes(
    layout: Layout, level: Level, of_chips: NDArray[np.int64], reduce: np.ufunc, rows: Rows
) -> NDArray[np.int64]:
    """Return a column of chips, reduced to some nodes of a level."""
    if level is Level.CHIP or not len(rows):
        return of_chips[rows]
    starts = layout.chip_start
    if level is Level.ULTRASERVER:
        starts = starts[layout.ultraserver_start]
    firsts = starts[rows]
    sizes = starts[rows + 1] - starts[rows]
    offsets = np.cumsum(sizes) - sizes
    chips = np.arange(int(sizes.sum())) + np.repeat(firsts - offsets, sizes)
    of_nodes: NDArray[np.int64] = reduce.reduceat(of_chips[chips], offsets.astype(np.intp))
    return of_nodes


def _by_level(
    layout: Layout, level: Level, scope: MetricScope, totals: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sums of a column of chips or instances for the nodes of a level."""
    if level is Level.CHIP or not len(totals):
        return totals
    if scope is MetricScope.CHIP:
        totals = np.add.reduceat(totals, layout.chip_start[:-1].astype(np.intp))
    if level is Level.ULTRASERVER:
        totals = np.add.reduceat(totals, layout.ultraserver_start[:-1].astype(np.intp))
    return totals
