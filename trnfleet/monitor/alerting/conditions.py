"""Conditions over all targets of a scope at once: which targets fulfil them, and with which value.

A limit on a metric is held against the columns' codes as they are, and everything else only against the targets that this
leaves, so that a rule over a million chips costs one pass over one column.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import FIGURES, LANES, LEVEL_OF, LINKS_UP, Form, Scope
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.alerting.inputs import LEAST_PEERS
from trnfleet.monitor.alerting.windows import CounterWindow, Feed, Past, Samples
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.rules import Condition, Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.domain.metrics import Metric
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.alerting.named_targets import Table

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]

MANY = 100_000
"""Targets that hit at once, from which on what is done with them is cut into more slices."""
LEAST_SAMPLES = 4
"""Samples in a window without which its maximum or mean says nothing."""
ROWS_A_SLICE = 250_000
"""Targets whose values are worked out between two turns of other tasks: a few milliseconds."""
INSTANCES_A_SLICE = 8_192
"""Instances whose chips are held against each other between two turns."""


class Found(NamedTuple):
    """Targets that fulfil a condition."""

    rows: Rows
    """Ascending."""
    values: NDArray[np.float64]
    """NaN where the condition has no number."""


_NO_ROWS = np.zeros(0, np.int64)
NOTHING = Found(_NO_ROWS, np.zeros(0))


class Counters:
    """The counters of chips that any rule follows; rules with the same counter and window share."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}
        self._windows: dict[tuple[str, float], CounterWindow] = {}
        self._wanted: set[tuple[str, float]] = set()

    def want(self, figure: str, window_s: float) -> None:
        """Follow a counter over a window."""
        self._wanted.add((figure, window_s))

    def take(self, readings: Readings) -> None:
        """Go on to the readings' instant."""
        increases = {}
        for figure, window_s in sorted(self._wanted):
            if figure not in increases:
                feed = self._feeds.setdefault(figure, Feed(BY_NAME[figure].top))
                increases[figure] = feed.take(readings.store.columns[figure])
            window = self._windows.get((figure, window_s))
            if window is None:
                window = self._windows[figure, window_s] = CounterWindow(window_s, readings.layout.chips)
            window.add(readings.instant.now_ns, increases[figure])

    def totals(self, figure: str, window_s: float) -> NDArray[np.int64]:
        """Return the increase of every chip's counter within the window."""
        return self._windows[figure, window_s].totals

    def move(self, to: Rows, source: Rows, chips: int) -> None:
        """Take on a new layout."""
        for feed in self._feeds.values():
            feed.move(to, source, chips)
        for window in self._windows.values():
            window.move(to, source, chips)


class RowWatch:
    """One rule over targets that have addresses."""

    def __init__(self, rule: Rule, counters: Counters) -> None:
        self.rule = rule
        self._counters = counters
        self._events: deque[tuple[int, str]] = deque()
        """When events that the rule counts came, and about which target."""
        if _is_counter(rule) and rule.figure != "events":
            counters.want(str(rule.figure), rule.window_s or 0.0)

    def search(self, readings: Readings) -> Iterator[Found | None]:
        """Look for the targets that fulfil all conditions, giving way (None) between slices; the last one is the result."""
        rule, scope = self.rule, self.rule.scope
        rows: list[Rows] = []
        total = count_of(readings.layout, scope)
        if rule.share_of_median_of == "instance":
            for found in self._uneven(readings):
                rows.append(found)
                yield None
        else:
            for part in _parts(total, whole=self._is_quick(readings)):
                rows.append(np.flatnonzero(self._mask(readings, part)) + part.start)
                if part.stop < total:
                    yield None
        hit = np.concatenate(rows) if rows else _NO_ROWS
        if scope is Scope.ULTRASERVER:
            # Standalone segments are numbered among them and are none.
            hit = hit[~readings.layout.is_standalone[hit]]
        if not len(hit):
            yield NOTHING
            return
        if len(hit) > MANY:
            yield None
        if rule.absent is None:
            hit = hit[readings.is_known(scope, hit)]
        for condition in rule.also:
            hit = hit[self._holds(readings, condition, hit)]
        values = self.values(readings, hit)
        if _of_median(rule):
            # The quick look let through whatever may fulfil it.
            fits = compare(rule, values)
            hit, values = hit[fits], values[fits]
        yield Found(hit, values)

    def look(self, readings: Readings, rows: Rows) -> tuple[Flags, Flags, NDArray[np.float64]]:
        """Return for firing targets that do not fulfil the condition: what is known, what is not clear yet, values."""
        rule = self.rule
        if rule.absent:
            known = np.ones(len(rows), np.bool_)
            return known, np.zeros(len(rows), np.bool_), np.full(len(rows), np.nan)
        known = readings.is_known(rule.scope, rows)
        values = self.values(readings, rows)
        return known, not_clear(rule, values), values

    def values(self, readings: Readings, rows: Rows) -> NDArray[np.float64]:
        """Return the value that the rule's condition is about, for some targets."""
        rule, scope = self.rule, self.rule.scope
        if rule.absent:
            return self._silence_s(readings, rows)
        figure = str(rule.figure)
        if figure == "events":
            counts = self._event_counts(readings)
            return np.array([float(counts.get(row, 0)) for row in rows.tolist()])
        if rule.window_s is not None:
            values = self._increases(readings)[rows].astype(np.float64)
            return values / rule.window_s if rule.rate_over else values
        if rule.has:
            return np.full(len(rows), np.nan)
        values = readings.values(scope, figure, rows)
        medians = self._medians(readings, rows)
        if rule.minus_median_of:
            above: NDArray[np.float64] = values - medians
            return above
        if rule.share_of_median_of:
            share: NDArray[np.float64] = values / np.where(medians > 0, medians, np.nan)
            return share
        return values

    # The quick look

    def _is_quick(self, readings: Readings) -> bool:
        """Whether the whole column can be looked at in one go."""
        rule = self.rule
        if rule.absent or rule.has or _is_counter(rule) or rule.figure == "links_down" or rule.scope in LANES:
            return True
        return LEVEL_OF[rule.scope] is not Level.CHIP or readings.uniform(str(rule.figure)) is not None

    def _mask(self, readings: Readings, part: slice) -> Flags:
        """Return which targets of a part may fulfil the rule's own condition: all that do, and for medians some more."""
        rule, scope = self.rule, self.rule.scope
        level, figure = LEVEL_OF[scope], str(rule.figure)
        if rule.absent:
            return self._absent(readings)
        if figure == "events":
            return self._event_mask(readings)
        if rule.window_s is not None:
            totals = self._increases(readings)
            return compare(rule, totals / rule.window_s if rule.rate_over else totals)
        if rule.has:
            return self._has(readings, rule, part)
        if scope is Scope.LINK and figure == "link_up":
            return self._link_flags(readings)
        if scope in LANES:
            return self._lane_mask(readings, BY_NAME[figure])
        if level is Level.CHIP and figure == "links_down":
            codes, expected = readings.store.columns["links_up"], readings.expected_links
            if rule.above is None or rule.above < 0:
                return compare(rule, readings.values(scope, figure, part))
            # Most have every link: only where a bit is missing is it worth counting.
            missing: Flags = (codes & expected) != expected
            return self._refined(readings, missing & (codes != BY_NAME["links_up"].top))
        metric = readings.uniform(figure) if level is Level.CHIP else None
        if metric is None:
            values = readings.values(scope, figure, part)
            return ~np.isnan(values) if _of_median(rule) else compare(rule, values)
        return self._code_mask(readings, *metric)

    def _refined(self, readings: Readings, mask: Flags) -> Flags:
        rows = np.flatnonzero(mask)
        mask[rows] = compare(self.rule, readings.values(self.rule.scope, str(self.rule.figure), rows))
        return mask

    def _code_mask(self, readings: Readings, metric: Metric, factor: float) -> Flags:
        """Hold a chip's column against a limit, as codes."""
        rule, codes = self.rule, readings.store.columns[metric.name]
        limit = _limit(rule)
        if rule.minus_median_of:
            # A median is 0 or more, so what is that far above it is above that limit, too.
            if rule.above is None or rule.above < 0:
                return _available(codes, metric)
            limit = rule.above
        elif rule.share_of_median_of:
            return _available(codes, metric)
        return hold_against(codes, rule.comparison, limit / factor, metric)

    def _lane_mask(self, readings: Readings, metric: Metric) -> Flags:
        rule, codes = self.rule, readings.store.columns[metric.name]
        if _of_median(rule):
            return _available(codes, metric).reshape(-1)
        return hold_against(codes, rule.comparison, _limit(rule), metric).reshape(-1)

    def _uneven(self, readings: Readings) -> Iterator[Rows]:
        """Yield, slice by slice, targets that may be that far from their instance's median, by its least and largest value."""
        rule, layout = self.rule, readings.layout
        metric = readings.uniform(str(rule.figure)) if rule.scope is Scope.CHIP else None
        known = BY_NAME[str(rule.figure)] if rule.scope in LANES else metric[0] if metric else None
        if known is None:
            # Of a figure that is no column every target may be.
            yield np.arange(count_of(layout, rule.scope))
            return
        column, limit, is_below = readings.store.columns[known.name], _limit(rule), rule.comparison == "below"
        codes = column if column.ndim == 2 else column[:, None]
        for first in range(0, len(layout.instances), INSTANCES_A_SLICE):
            starts = layout.chip_start[first : first + INSTANCES_A_SLICE + 1]
            part = codes[int(starts[0]) : int(starts[-1])]
            offsets = (starts[:-1] - starts[0]).astype(np.intp)
            lowest, highest = np.minimum.reduceat(part, offsets), np.maximum.reduceat(part, offsets)
            # The median lies between: only where the spread is wide enough can a value be that far from it.
            wide = lowest < limit * highest if is_below else highest > limit * lowest
            some = np.flatnonzero(wide.any(axis=1))
            if not len(some):
                yield _NO_ROWS
                continue
            chips = layout.chip_rows(some + first)
            edge = np.repeat((highest if is_below else lowest)[some], np.diff(starts)[some], axis=0)
            values = codes[chips]
            far = (values < limit * edge if is_below else values > limit * edge) & (values != known.top)
            places, lanes = np.nonzero(far)
            yield chips[places] * codes.shape[1] + lanes

    def _link_flags(self, readings: Readings) -> Flags:
        codes, expected = readings.store.columns["links_up"], readings.expected_links
        width = len(LANES[Scope.LINK])
        flags = np.zeros((len(codes), width), np.bool_)
        is_down = self.rule.equals == 0.0 or (self.rule.below is not None and 0 < self.rule.below <= 1)
        if not is_down:
            values = readings.values(Scope.LINK, "link_up", slice(None))
            return compare(self.rule, values)
        some = np.flatnonzero(((codes & expected) != expected) & (codes != BY_NAME["links_up"].top))
        wanted = expected if isinstance(expected, np.uint8) else expected[some]
        missing = wanted & ~codes[some]
        flags[some] = missing[:, None] >> np.arange(width, dtype=np.uint8) & 1 > 0
        return flags.reshape(-1)

    def _has(self, readings: Readings, condition: Condition, part: slice | Rows) -> Flags:
        figure = FIGURES[self.rule.scope][str(condition.figure)]
        codes = readings.bits(self.rule.scope, figure.name, part)
        if figure.name == LINKS_UP:
            named: Flags = codes & readings.lane_bits(self.rule.scope, condition.has, part) != 0
            return named
        wanted = sum(1 << figure.values.index(name) for name in condition.has)
        flags: Flags = codes & np.array(wanted, codes.dtype) != 0
        return flags

    def _holds(self, readings: Readings, condition: Condition, rows: Rows) -> Flags:
        """Return which of some targets fulfil one of the conditions of `also`."""
        if condition.has:
            return self._has(readings, condition, rows)
        return compare(condition, readings.values(self.rule.scope, str(condition.figure), rows))

    # Silence

    def _absent(self, readings: Readings) -> Flags:
        level = LEVEL_OF[self.rule.scope]
        if level is Level.CHIP:
            return readings.silent
        states = readings.rollups.states(level)
        flags: Flags = (states[:, Freshness.LIVE] == 0) & (
            states[:, Freshness.STALE] + states[:, Freshness.OFFLINE] > 0
        )
        return flags

    def _silence_s(self, readings: Readings, rows: Rows) -> NDArray[np.float64]:
        """Return for how many seconds of monitor time nothing has come from some targets; NaN where nothing ever has."""
        layout, level = readings.layout, LEVEL_OF[self.rule.scope]
        last_ns = readings.store.chip_ts_ns
        if level is Level.CHIP:
            newest = last_ns[rows]
        else:
            newest = np.maximum.reduceat(last_ns, layout.chip_start[:-1].astype(np.intp))
            if level is Level.ULTRASERVER:
                newest = np.maximum.reduceat(newest, layout.ultraserver_start[:-1].astype(np.intp))
            newest = newest[rows]
        age_s = (readings.instant.flow_ns - newest) / 1e9
        return np.where(newest > 0, np.maximum(age_s, 0.0), np.nan)

    # Windows

    def _increases(self, readings: Readings) -> NDArray[np.int64]:
        """Return the counter's increase for all targets."""
        totals = self._counters.totals(str(self.rule.figure), self.rule.window_s or 0.0)
        layout, level = readings.layout, LEVEL_OF[self.rule.scope]
        if level is Level.CHIP or not len(totals):
            return totals
        totals = np.add.reduceat(totals, layout.chip_start[:-1].astype(np.intp))
        if level is Level.ULTRASERVER:
            totals = np.add.reduceat(totals, layout.ultraserver_start[:-1].astype(np.intp))
        return totals

    def take_events(self, readings: Readings) -> None:
        """Take note of events since the last evaluation, if the rule counts any."""
        rule = self.rule
        if rule.figure != "events":
            return
        now_ns = readings.instant.now_ns
        depth = int(LEVEL_OF[rule.scope])
        for event in readings.events:
            segments = event.path.split("/") if event.path else []
            if event.name in rule.named and len(segments) >= depth:
                self._events.append((now_ns, "/".join(segments[:depth])))
        begin_ns = now_ns - round((rule.window_s or 0.0) * 1e9)
        while self._events and not begin_ns < self._events[0][0] <= now_ns:
            self._events.popleft()

    def _event_counts(self, readings: Readings) -> dict[int, int]:
        counts: dict[int, int] = {}
        for _, path in self._events:
            node = readings.layout.find(path)
            if node is not None and node.level is LEVEL_OF[self.rule.scope]:
                counts[node.number] = counts.get(node.number, 0) + 1
        return counts

    def _event_mask(self, readings: Readings) -> Flags:
        rule = self.rule
        flags = np.zeros(count_of(readings.layout, rule.scope), np.bool_)
        for row, number in self._event_counts(readings).items():
            seconds = (rule.window_s or 1.0) if rule.rate_over else 1.0
            flags[row] = bool(compare(rule, np.array([number / seconds]))[0])
        return flags

    # Medians

    def _medians(self, readings: Readings, rows: Rows) -> NDArray[np.float64]:
        """Return what each of some targets is held against; NaN where there are too few peers."""
        rule, figure = self.rule, str(self.rule.figure)
        of = rule.minus_median_of or rule.share_of_median_of
        if of == "job" and rule.scope is Scope.CHIP:
            jobs = readings.job_of_chips(rows)
            medians = {job: readings.job_median(figure, job) for job in np.unique(jobs[jobs >= 0]).tolist()}
            return np.array([medians.get(job, np.nan) for job in jobs.tolist()])
        if of in {"instance", "job"}:
            return _peer_medians(readings, rule, rows)
        return np.full(len(rows), np.nan)


def _peer_medians(readings: Readings, rule: Rule, rows: Rows) -> NDArray[np.float64]:
    """Return the median over the chips of each target's instance, for links and cores lane by lane.

    Only chips whose values are of the same instant as the newest of the instance count: while a tick's messages still come
    in, those of the tick before are no peers.
    """
    scope, figure, layout, store = rule.scope, str(rule.figure), readings.layout, readings.store
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


class NamedWatch:
    """One rule over targets that have names."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._samples: dict[str, Samples] = {}
        self._past: dict[str, Past] = {}

    def search(self, readings: Readings, table: Table, active: set[str]) -> dict[str, tuple[float, str]]:
        """Return the targets that fulfil all conditions, with their values as number and text.

        Args:
            readings: The instant.
            table: The targets.
            active: Those that are pending or firing: what they do at present is not usual.
        """
        rule, names = self.rule, table.names
        now_ns = readings.instant.now_ns
        column = table.column(str(rule.figure))
        for kept in (self._samples, self._past):
            for name in kept.keys() - set(names):
                del kept[name]
        found: dict[str, tuple[float, str]] = {}
        for place, (name, raw) in enumerate(zip(names, column, strict=True)):
            value = self._value(name, raw, now_ns, table, place)
            is_hit = value is not None and self._hits(table, place, value)
            if rule.past is not None and isinstance(raw, float | int):
                self._learn(name, raw, now_ns, table, place, is_out=is_hit or name in active)
            if is_hit and value is not None:
                found[name] = (math.nan, value) if isinstance(value, str) else (float(value), "")
        return found

    def value(self, name: str, raw: float | str | None, now_ns: int) -> float | None:
        """Return the number that the condition is about, for a target that is looked at again in the same evaluation."""
        value = self._made(name, raw, now_ns)
        return value if isinstance(value, float) else None

    def _value(
        self, name: str, raw: float | str | None, now_ns: int, table: Table, place: int
    ) -> float | str | None:
        if self.rule.window_s is not None:
            samples = self._samples.get(name)
            if samples is None:
                samples = self._samples[name] = Samples(self.rule.window_s)
            # Times in which the other conditions do not hold say nothing of what is usual while they do.
            samples.add(now_ns, raw if self._also(table, place) else None)
        return self._made(name, raw, now_ns)

    def _made(self, name: str, raw: float | str | None, now_ns: int) -> float | str | None:
        value = self._windowed(name, raw, now_ns)
        if self.rule.share_of_median_of == "past":
            usual = self._past[name].usual() if name in self._past else None
            return value / usual if isinstance(value, float) and usual else None
        return value

    def _windowed(self, name: str, raw: float | str | None, now_ns: int) -> float | str | None:
        rule = self.rule
        if rule.window_s is None:
            return float(raw) if isinstance(raw, int) else raw
        samples = self._samples.get(name)
        if samples is None:
            return None
        if rule.changes_over:
            return samples.changes(now_ns)
        if rule.rate_over or rule.increase_over:
            increase = samples.increase(now_ns)
            return increase if increase is None or rule.increase_over else increase / rule.window_s
        values = samples.within(now_ns)
        if len(values) < LEAST_SAMPLES:
            # Time runs faster than the window can follow.
            return None
        return max(values) if rule.max_over else float(sum(values) / len(values))

    def _learn(self, name: str, raw: float, now_ns: int, table: Table, place: int, *, is_out: bool) -> None:
        """Take note of what is usual, while all other conditions hold and nothing is out of order."""
        value = self._windowed(name, raw, now_ns)
        if is_out or not isinstance(value, float) or not self._also(table, place):
            return
        past = self._past.get(name)
        if past is None:
            past = self._past[name] = Past(self.rule.past or 0.0)
        past.add(now_ns, value)

    def _hits(self, table: Table, place: int, value: float | str) -> bool:
        return holds(self.rule, value) and self._also(table, place)

    def _also(self, table: Table, place: int) -> bool:
        for condition in self.rule.also:
            other = table.column(str(condition.figure))[place]
            if other is None or not holds(condition, other):
                return False
        return True


def holds(condition: Condition, value: float | str) -> bool:
    """Say whether one value fulfils a condition."""
    if isinstance(value, str):
        return value in condition.texts
    return bool(compare(condition, np.array([value]))[0])


def compare(condition: Condition, values: NDArray[Any]) -> Flags:
    """Return which values fulfil a condition; NaN does not."""
    flags: Flags
    if condition.above is not None:
        flags = values > condition.above
    elif condition.below is not None:
        flags = values < condition.below
    elif isinstance(condition.equals, float):
        flags = values == condition.equals
    else:
        flags = np.zeros(len(values), np.bool_)
    return flags


def not_clear(rule: Rule, values: NDArray[np.float64]) -> Flags:
    """Return which values are not yet at the limit at which a rule clears, or on its good side."""
    flags: Flags
    if rule.clear is None:
        flags = np.zeros(len(values), np.bool_)
    elif rule.above is not None:
        flags = values > rule.clear
    else:
        flags = values < rule.clear
    return flags


def hold_against(codes: NDArray[Any], comparison: str, limit: float, metric: Metric) -> Flags:
    """Hold wire codes against a limit in the metric's unit, without decoding them."""
    steps = limit * metric.steps_per_unit if metric.steps_per_unit else limit / metric.scale
    if abs(steps - round(steps)) <= 1e-10 + abs(steps) * 2**-51:
        # 0.1 x 3 is 0.3 for whoever wrote the rule, and a limit that is a code's value is that code.
        steps = round(steps)
    flags: Flags
    if comparison == "above":
        least = math.floor(steps) + 1
        if least >= metric.top:
            return np.zeros(codes.shape, np.bool_)
        flags = (codes >= max(least, 0)) & (codes != metric.top)
    elif comparison == "below":
        most = math.ceil(steps)
        if most <= 0:
            return np.zeros(codes.shape, np.bool_)
        flags = (codes < min(most, metric.top)) & (codes != metric.top)
    else:
        whole = round(steps)
        if whole != steps or not 0 <= whole < metric.top:
            return np.zeros(codes.shape, np.bool_)
        flags = codes == whole
    return flags


def _available(codes: NDArray[Any], metric: Metric) -> Flags:
    flags: Flags = codes != metric.top
    return flags


def count_of(layout: Layout, scope: Scope) -> int:
    """Return how many targets a scope has."""
    return layout.count(LEVEL_OF[scope]) * (len(LANES[scope]) if scope in LANES else 1)


def _limit(rule: Rule) -> float:
    return math.nan if rule.limit is None else rule.limit


def _of_median(rule: Rule) -> bool:
    return bool(rule.minus_median_of or rule.share_of_median_of)


def _is_counter(rule: Rule) -> bool:
    return rule.figure is not None and FIGURES[rule.scope][rule.figure].form is Form.COUNTER


def _parts(total: int, *, whole: bool) -> Iterator[slice]:
    step = max(1, total) if whole else ROWS_A_SLICE
    for first in range(0, total, step):
        yield slice(first, min(total, first + step))
