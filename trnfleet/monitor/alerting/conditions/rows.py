"""Conditions over targets that have addresses: rows of the store's columns, a million of them.

`RowCondition` has one subclass for each kind; `ROW_CONDITIONS` is the table of them. `RowSearch` takes the conditions
of one rule and returns the rows that fulfil them all.
"""

from __future__ import annotations

import abc
import math
from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import FIGURES, LANES, LEVEL_OF, LINKS_UP, Scope
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.alerting.conditions.compare import available, compare, compare_codes, not_clear
from trnfleet.monitor.alerting.inputs import LEAST_PEERS
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.domain.metrics import Metric
    from trnfleet.monitor.alerting.conditions.windows import Counters
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.slices import Slices

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Values = NDArray[np.float64]

MANY = 100_000
"""Targets that hit at once, from which on work on them is cut into more slices."""
ROWS_A_SLICE = 250_000
"""Targets whose values are computed in one slice: a few milliseconds."""
INSTANCES_A_SLICE = 8_192
"""Instances whose chips are compared with each other in one slice."""


class Found(NamedTuple):
    """Targets that fulfil a condition."""

    rows: Rows
    """Ascending."""
    values: Values
    """NaN where the condition has no number."""


_NO_ROWS = np.zeros(0, np.int64)
NOTHING = Found(_NO_ROWS, np.zeros(0))


class RowCondition(abc.ABC):
    """One kind of condition; the package's docstring says when which method is called."""

    refines = False
    """Whether the mask lets more through than fulfils the condition, so that the values decide."""
    needs_known = True
    """Whether only targets fulfil it of which anything live is known."""

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:  # noqa: ARG002  for windows
        self.scope = scope
        self.level = LEVEL_OF[scope]
        self.condition = condition
        self.figure = condition.figure or ""
        self.limit = math.nan if condition.limit is None else condition.limit

    def update(self, readings: Readings) -> None:  # noqa: B027  most kinds remember nothing
        """Take what came since the last evaluation, before anything is asked of it."""

    def is_quick(self, readings: Readings) -> bool:  # noqa: ARG002  for kinds that go by the layout
        """Return whether the mask of all targets takes no longer than a slice may."""
        return True

    @abc.abstractmethod
    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return which targets of a part may fulfil it: all that do, and some more where it `refines`.

        A quick one is asked for all targets at once.
        """

    @abc.abstractmethod
    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return the values that are compared, for some targets; NaN where there are none."""

    def holds(self, readings: Readings, rows: Rows) -> Flags:
        """Return which of some targets fulfil it."""
        return compare(self.condition, self.values(readings, rows))

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, Values]:
        """Return for firing targets that do not fulfil it: what is known, what is not clear yet, values."""
        values = self.values(readings, rows)
        return readings.is_known(self.scope, rows), not_clear(self.condition, values), values

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return the rows of all targets that may fulfil it, ascending."""
        total = count_of(readings.layout, self.scope)
        if self.is_quick(readings):
            return np.flatnonzero(self.mask(readings, slice(0, total)))
        found: list[Rows] = []
        for first in range(0, total, ROWS_A_SLICE):
            if first:
                yield from readings.checkpoint()
            part = slice(first, min(total, first + ROWS_A_SLICE))
            found.append(np.flatnonzero(self.mask(readings, part)) + first)
        return np.concatenate(found) if found else _NO_ROWS


class FigureRows(RowCondition):
    """A figure as it is: by the codes of its column where it has one, else by its values."""

    def is_quick(self, readings: Readings) -> bool:
        """Return whether it is a column, or of a level that has few targets."""
        return self.level is not Level.CHIP or readings.column_of(self.scope, self.figure) is not None

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Compare codes, or values where there are none."""
        found = readings.column_of(self.scope, self.figure)
        if found is None:
            return compare(self.condition, readings.values(self.scope, self.figure, part))
        metric, factor = found
        return self._compare_column(readings, metric, self.limit / factor)

    def values(self, readings: Readings, rows: Rows) -> Values:
        return readings.values(self.scope, self.figure, rows)

    def _compare_column(self, readings: Readings, metric: Metric, limit: float) -> Flags:
        codes = readings.store.columns[metric.name]
        return compare_codes(codes, self.condition.comparison.key, limit, metric).reshape(-1)


class MissingLinkRows(FigureRows):
    """How many links are down: counted only where the bit mask of a chip lacks one."""

    def is_quick(self, readings: Readings) -> bool:  # noqa: ARG002  as all kinds
        """Return True: few chips lack a link."""
        return True

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Count where the mask is not the expected one; where chips without a missing link count, everywhere."""
        is_common = self.condition.comparison.key != "above" or self.limit < 0
        if self.level is not Level.CHIP or is_common:
            return compare(self.condition, readings.values(self.scope, self.figure, part))
        flags = _lacking_links(readings)
        rows = np.flatnonzero(flags)
        flags[rows] = self.holds(readings, rows)
        return flags


class LinkUpRows(FigureRows):
    """Whether a link is up: a bit of the chip's mask, looked at only where a chip lacks one."""

    def is_quick(self, readings: Readings) -> bool:  # noqa: ARG002  as all kinds
        """Return True: few chips lack a link."""
        return True

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return the missing bits, or compare everywhere where links that are up fulfil it."""
        condition = self.condition
        is_down = condition.equals == 0.0 or (condition.below is not None and 0 < condition.below <= 1)
        if not is_down:
            return compare(condition, readings.values(self.scope, self.figure, part))
        codes, expected = readings.store.columns[LINKS_UP], readings.expected_links
        width = len(LANES[Scope.LINK])
        flags = np.zeros((len(codes), width), np.bool_)
        some = np.flatnonzero(_lacking_links(readings))
        wanted = expected if isinstance(expected, np.uint8) else expected[some]
        missing = wanted & ~codes[some]
        flags[some] = missing[:, None] >> np.arange(width, dtype=np.uint8) & 1 > 0
        return flags.reshape(-1)


class BitRows(RowCondition):
    """Bits of a bit mask, any of which will do."""

    def mask(self, readings: Readings, part: slice) -> Flags:
        return self._any(readings, part)

    def values(self, readings: Readings, rows: Rows) -> Values:  # noqa: ARG002  as all kinds
        return np.full(len(rows), np.nan)

    def holds(self, readings: Readings, rows: Rows) -> Flags:
        return self._any(readings, rows)

    def _any(self, readings: Readings, rows: Rows | slice) -> Flags:
        codes, has = readings.bits(self.scope, self.figure, rows), self.condition.has
        flags: Flags
        if self.figure == LINKS_UP:
            flags = codes & readings.lane_bits(self.scope, has, rows) != 0
        else:
            names = FIGURES[self.scope][self.figure].values
            wanted = sum(1 << names.index(name) for name in has)
            flags = codes & np.array(wanted, codes.dtype) != 0
        return flags


class SilentRows(RowCondition):
    """Targets from which nothing live comes; the value is for how many seconds."""

    needs_known = False

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return which are silent: of what holds chips, where none lives and any is stale or offline."""
        if self.level is Level.CHIP:
            return readings.silent[part]
        states = readings.rollups.states(self.level)
        dead = states[:, Freshness.STALE] + states[:, Freshness.OFFLINE] > 0
        flags: Flags = (states[:, Freshness.LIVE] == 0) & dead
        return flags[part]

    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return seconds of monitor time since anything has come; NaN where nothing ever has."""
        newest_ns = _by_level(readings.layout, self.level, readings.store.chip_ts_ns, np.maximum)[rows]
        age_s = (readings.instant.flow_ns - newest_ns) / 1e9
        return np.where(newest_ns > 0, np.maximum(age_s, 0.0), np.nan)

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, Values]:  # noqa: ARG002  as all kinds
        """Return that all are known: a target that is not silent any more is live."""
        return np.ones(len(rows), np.bool_), np.zeros(len(rows), np.bool_), np.full(len(rows), np.nan)


class CounterRows(RowCondition):
    """The increase of a counter of chips over a window, or its rate."""

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        self.window_s = condition.window_s or 0.0
        self.seconds = self.window_s if condition.rate_over else 1.0
        """The increase is divided by this."""
        self._counters = counters
        self._follow()

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
        return _by_level(readings.layout, self.level, totals, np.add) if len(totals) else totals

    def _amounts(self, readings: Readings) -> NDArray[np.int64] | Values:
        totals = self._totals(readings)
        return totals / self.seconds if self.condition.rate_over else totals


class EventRows(CounterRows):
    """The number of events of some names over a window, or their rate."""

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        self._events: deque[tuple[int, str]] = deque()
        """When events came, and the targets that they count for."""

    def update(self, readings: Readings) -> None:
        """Take the events since the last evaluation, and drop those that have left the window."""
        now_ns, depth = readings.instant.now_ns, int(self.level)
        for event in readings.events:
            segments = event.path.split("/") if event.path else []
            if event.name in self.condition.named and len(segments) >= depth:
                self._events.append((now_ns, "/".join(segments[:depth])))
        begin_ns = now_ns - round(self.window_s * 1e9)
        while self._events and not begin_ns < self._events[0][0] <= now_ns:
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


class MedianRows(RowCondition):
    """A figure in relation to the median of its peers."""

    refines = True

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        reference = condition.reference
        self._medians = _MEDIANS[scope, "" if reference is None else reference.of]

    def is_quick(self, readings: Readings) -> bool:
        """Return whether it is a column."""
        return readings.column_of(self.scope, self.figure) is not None

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return which have a value: medians are only computed for what may be far from them."""
        found = readings.column_of(self.scope, self.figure)
        if found is None:
            values = readings.values(self.scope, self.figure, part)
            return ~np.isnan(values)
        return available(readings.store.columns[found[0].name], found[0]).reshape(-1)

    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return the relation; NaN where there are too few peers."""
        values = readings.values(self.scope, self.figure, rows)
        return self.relate(values, self._medians(readings, self.scope, self.figure, rows))

    @abc.abstractmethod
    def relate(self, values: Values, medians: Values) -> Values:
        """Return values in relation to their medians."""


class MedianDistanceRows(MedianRows):
    """What a figure is above the median."""

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Compare codes: a median is 0 or more, so what is that far above it is above that limit, too."""
        found = readings.column_of(self.scope, self.figure)
        if found is None or self.condition.above is None or self.condition.above < 0:
            return super().mask(readings, part)
        metric, factor = found
        codes = readings.store.columns[metric.name]
        return compare_codes(codes, "above", self.limit / factor, metric).reshape(-1)

    def relate(self, values: Values, medians: Values) -> Values:
        distance: Values = values - medians
        return distance


class MedianShareRows(MedianRows):
    """A figure as a share of the median."""

    def relate(self, values: Values, medians: Values) -> Values:
        share: Values = values / np.where(medians > 0, medians, np.nan)
        return share


class InstanceShareRows(MedianShareRows):
    """A figure as a share of the median of the same instance's chips: only uneven instances are looked at."""

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return the rows whose value may be that far from the median, by their instance's least and largest value."""
        layout = readings.layout
        found = readings.column_of(self.scope, self.figure)
        if found is None:
            # Of a figure that is no column every target may be.
            yield from readings.checkpoint()
            return np.arange(count_of(layout, self.scope))
        rows: list[Rows] = []
        for first in range(0, len(layout.instances), INSTANCES_A_SLICE):
            rows.append(self._uneven(readings, found[0], first))
            yield from readings.checkpoint()
        return np.concatenate(rows) if rows else _NO_ROWS

    def _uneven(self, readings: Readings, metric: Metric, first: int) -> Rows:
        layout, limit, is_below = readings.layout, self.limit, self.condition.below is not None
        column = readings.store.columns[metric.name]
        codes = column if column.ndim == 2 else column[:, None]
        starts = layout.chip_start[first : first + INSTANCES_A_SLICE + 1]
        part = codes[int(starts[0]) : int(starts[-1])]
        offsets = (starts[:-1] - starts[0]).astype(np.intp)
        lowest, highest = np.minimum.reduceat(part, offsets), np.maximum.reduceat(part, offsets)
        # The median lies between: only where the spread is wide enough can a value be that far from it.
        wide = lowest < limit * highest if is_below else highest > limit * lowest
        some = np.flatnonzero(wide.any(axis=1))
        if not len(some):
            return _NO_ROWS
        chips = layout.chip_rows(some + first)
        edge = np.repeat((highest if is_below else lowest)[some], np.diff(starts)[some], axis=0)
        values = codes[chips]
        far = (values < limit * edge if is_below else values > limit * edge) & (values != metric.top)
        places, lanes = np.nonzero(far)
        rows: Rows = chips[places] * codes.shape[1] + lanes
        return rows


ROW_CONDITIONS: Mapping[tuple[str, str], type[RowCondition]] = MappingProxyType(
    {
        ("figure", ""): FigureRows,
        ("figure", "links_down"): MissingLinkRows,
        ("figure", "link_up"): LinkUpRows,
        ("has", ""): BitRows,
        ("absent", ""): SilentRows,
        ("rate_over", ""): CounterRows,
        ("rate_over", "events"): EventRows,
        ("increase_over", ""): CounterRows,
        ("increase_over", "events"): EventRows,
        ("minus_median_of", "job"): MedianDistanceRows,
        ("share_of_median_of", "job"): MedianShareRows,
        ("share_of_median_of", "instance"): InstanceShareRows,
    }
)
"""How each kind is evaluated: by the key of its reference (and its value), window or comparison (and the figure, if special)."""


def row_condition(scope: Scope, condition: Condition, counters: Counters) -> RowCondition:
    """Return the evaluation of a condition."""
    reference, window, comparison = condition.reference, condition.window, condition.comparison
    if reference is not None:
        kind, special = reference.key, reference.of
    elif window is not None:
        kind, special = window.key, condition.figure or ""
    else:
        kind = comparison.key if (comparison.key, "") in ROW_CONDITIONS else "figure"
        special = condition.figure or ""
    found = ROW_CONDITIONS.get((kind, special)) or ROW_CONDITIONS[kind, ""]
    return found(scope, condition, counters)


class RowSearch:
    """The conditions of one rule over targets that have addresses."""

    def __init__(self, rule: Rule, counters: Counters) -> None:
        self._scope = rule.scope
        self._own = row_condition(rule.scope, rule, counters)
        self._also = [row_condition(rule.scope, condition, counters) for condition in rule.also]

    def search(self, readings: Readings) -> Slices[Found]:
        """Return the targets that fulfil all conditions.

        Raises:
            LayoutChanged: their rows have other numbers now.
        """
        own, scope = self._own, self._scope
        own.update(readings)
        hit = yield from own.candidates(readings)
        if scope is Scope.ULTRASERVER:
            # Standalone segments are numbered among them and are none.
            hit = hit[~readings.layout.is_standalone[hit]]
        if not len(hit):
            return NOTHING
        if len(hit) > MANY:
            yield from readings.checkpoint()
        if own.needs_known:
            hit = hit[readings.is_known(scope, hit)]
        for condition in self._also:
            hit = hit[condition.holds(readings, hit)]
        values = own.values(readings, hit)
        if own.refines:
            fits = compare(own.condition, values)
            hit, values = hit[fits], values[fits]
        return Found(hit, values)

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, Values]:
        """Return for firing targets that do not fulfil them: what is known, what is not clear yet, values."""
        return self._own.look(readings, rows)


def count_of(layout: Layout, scope: Scope) -> int:
    """Return how many targets a scope has."""
    return layout.count(LEVEL_OF[scope]) * (len(LANES[scope]) if scope in LANES else 1)


def _lacking_links(readings: Readings) -> Flags:
    """Return which chips have a link down that they should have up."""
    codes, expected = readings.store.columns[LINKS_UP], readings.expected_links
    flags: Flags = ((codes & expected) != expected) & (codes != BY_NAME[LINKS_UP].top)
    return flags


def _by_level(
    layout: Layout, level: Level, of_chips: NDArray[np.int64], reduce: np.ufunc
) -> NDArray[np.int64]:
    """Return a column of chips, reduced to the nodes of a level."""
    if level is Level.CHIP:
        return of_chips
    of_nodes: NDArray[np.int64] = reduce.reduceat(of_chips, layout.chip_start[:-1].astype(np.intp))
    if level is Level.ULTRASERVER:
        of_nodes = reduce.reduceat(of_nodes, layout.ultraserver_start[:-1].astype(np.intp))
    return of_nodes


def _job_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:  # noqa: ARG001  as all medians
    """Return the median over the live chips of each chip's job."""
    jobs = readings.job_of_chips(rows)
    medians = {job: readings.job_median(figure, job) for job in np.unique(jobs[jobs >= 0]).tolist()}
    return np.array([medians.get(job, np.nan) for job in jobs.tolist()])


def _peer_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:
    """Return the median over the chips of each target's instance, for links lane by lane.

    Only chips whose values are of the same instant as the newest of the instance count: while a tick's messages still come
    in, those of the tick before are no peers.
    """
    layout, store = readings.layout, readings.store
    width = len(LANES[scope]) if scope in LANES else 1
    chips, lanes = np.divmod(rows, width)
    owners = layout.instance_of_chip[chips]
    made: dict[tuple[int, int], tuple[float, int]] = {}
    medians = np.full(len(rows), np.nan)
    for place, (owner, lane) in enumerate(zip(owners.tolist(), lanes.tolist(), strict=True)):
        known = made.get((owner, lane))
        if known is None:
            peers = np.arange(layout.chip_start[owner], layout.chip_start[owner + 1])
            times_ns = store.chip_ts_ns[peers]
            newest_ns = int(times_ns.max())
            peers = peers[(times_ns == newest_ns) & readings.live[peers]]
            values = readings.values(scope, figure, peers * width + lane)
            values = values[~np.isnan(values)]
            known = float(np.median(values)) if len(values) >= LEAST_PEERS else np.nan, newest_ns
            made[owner, lane] = known
        if store.chip_ts_ns[chips[place]] == known[1]:
            medians[place] = known[0]
    return medians


_MEDIANS: Mapping[tuple[Scope, str], Callable[[Readings, Scope, str, Rows], Values]] = MappingProxyType(
    {
        (Scope.CHIP, "job"): _job_medians,
        (Scope.CHIP, "instance"): _peer_medians,
        (Scope.LINK, "job"): _peer_medians,
        (Scope.LINK, "instance"): _peer_medians,
    }
)
"""The medians of each scope and reference; links of a job are compared within their instance."""
