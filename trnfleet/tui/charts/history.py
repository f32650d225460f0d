"""The past of charts: span, marked alerts, limits, and history from a folder.

A chart counts wall seconds from the first sample; history has the fleet's time. Times before the
first sample are negative seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level, level_of
from trnfleet.domain.metrics import BY_NAME, Aggregate
from trnfleet.domain.minutes import KeptSeries, Wanted
from trnfleet.domain.quantities import duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.gaps import Gap, Reason
from trnfleet.monitor.store.rings.record import Track
from trnfleet.tui import theme
from trnfleet.tui.charts.axes import ChartMark, Limit, Times
from trnfleet.tui.charts.plot import row_runs
from trnfleet.tui.state.chart_window import LEAST_ALL_S, ChartWindow
from trnfleet.tui.state.limits import rules_about

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.fields import Field
    from trnfleet.tui.state.context import UiContext

MEAN_S = 10
"""Seconds averaged in lines and headlines. Two steps of training: no line shows the swing of single
steps."""
FROM_S = 3_600
"""Least span for reading history. The app soon has the samples of a shorter one itself."""
MOST_STEPS = 1_500
_STEPS_S = (60, 600, 3_600, 21_600, 86_400)
_QUANTA = 16
"""Steps per span for moving the range read from history."""


class ChartPast(NamedTuple):
    """History for the charts of a node, or of jobs."""

    series: KeptSeries | None
    origin_ns: int
    """The fleet's time at the first sample."""
    speed: float
    step_s: int
    """Wall seconds."""
    from_s: int
    end_s: int
    reach_s: tuple[float, float] | None
    is_failed: bool

    def gaps(self, own: Sequence[Track]) -> tuple[Gap, ...]:
        """Return why there is nothing before the first value of the app's own."""
        until = min([self.end_s, *map(begin_of, own)])
        if self.series is None:
            reason = Reason.UNREADABLE if self.is_failed else Reason.READING
            return (Gap(self.from_s, until, reason),)
        first = self._first
        missing = np.isnan(self.series.chips).astype(np.int64)
        gaps = [Gap(self.from_s, until, Reason.NOT_IN_HISTORY)]
        for begin, after, is_missing in row_runs(missing[np.newaxis])[0]:
            if not is_missing:
                gaps.append(
                    Gap((first + begin) * self.step_s, (first + after) * self.step_s, Reason.SILENT)
                )
        if self.reach_s is not None and self.reach_s[0] > self.from_s:
            gaps.append(Gap(self.from_s, min(until, int(self.reach_s[0])), Reason.BEFORE_HISTORY))
        return tuple(gap for gap in gaps if gap.after > gap.first and gap.first < until)

    def field(self, field: Field, figure: float, own: Track) -> Track | None:
        """Return a field's part before the app's own samples; None if empty."""
        if self.series is None or any(name not in self.series.columns for name in field.parts):
            return None
        parts = [self.series.columns[name] for name in field.parts]
        hardware = np.array([figure])
        is_node = level_of(self.series.wanted.address) < Level.CHIP
        if is_node and field.is_max:
            # The highest of all chips, as the app's own line is.
            parts = [part._replace(low=part.high, mean=part.high) for part in parts]
        made = []
        for at in range(3):
            values = [part[at].astype(np.float64) for part in parts]
            if is_node and field.is_ratio:
                values = [
                    value / self.series.chips if BY_NAME[name].aggregate is Aggregate.SUM else value
                    for name, value in zip(field.parts, values, strict=True)
                ]
            made.append(field.join(values, hardware).astype(np.float32))
        return self._track(made[0], made[1], made[2], own)

    def job(self, name: str, key: str, own: Track) -> Track | None:
        """Return a job's part."""
        column = None if self.series is None else self.series.columns.get(f"{key} {name}")
        return None if column is None else self._track(*column, own)

    @property
    def _first(self) -> int:
        """Number of the first step, counted from the first sample."""
        assert self.series is not None  # noqa: S101  callers have looked
        back_s = (self.series.wanted.from_ns - self.origin_ns) / NS_PER_S / self.speed
        return int(back_s // self.step_s)

    def _track(
        self,
        low: NDArray[np.float32],
        mean: NDArray[np.float32],
        high: NDArray[np.float32],
        own: Track,
    ) -> Track | None:
        first = self._first
        begin = max(0, self.from_s // self.step_s - first)
        after = max(begin, min(len(mean), -(-begin_of(own) // self.step_s) - first))
        if not (~np.isnan(mean[begin:after])).any():
            return None
        total = first + after
        return Track(
            low[begin:after],
            mean[begin:after],
            high[begin:after],
            self.step_s,
            total,
            total * self.step_s,
        )


def begin_of(own: Track) -> int:
    """Return the second of a track's first value; its end where it has none."""
    known = np.flatnonzero(~np.isnan(own.mean))
    first = int(known[0]) if len(known) else len(own.mean)
    return (own.total - len(own.mean) + first) * own.step_s


def read_past(
    context: UiContext, times: Times, address: str, jobs: tuple[str, ...] = ()
) -> ChartPast | None:
    """Return history for the charts of a span.

    None without a folder, and for a short span.

    Args:
        context: The fleet.
        times: The span.
        address: The node.
        jobs: Jobs to chart instead of the node.
    """
    history = context.history
    span_s = times.span_s
    if history is None or span_s < FROM_S:
        return None
    moment = context.monitor.moment()
    speed = moment.speed or 1.0
    is_coarse = bool(jobs) or level_of(address) <= Level.ULTRASERVER
    rows_s = 600 if is_coarse else 60
    # No step is shorter than a row of history, whatever the fleet's speed.
    step_s = next(
        (step for step in _STEPS_S if step * speed >= rows_s and span_s <= MOST_STEPS * step),
        _STEPS_S[-1],
    )
    step_ns = round(step_s * speed) * NS_PER_S
    quantum_ns = max(step_ns, round(span_s * speed / _QUANTA) * NS_PER_S // step_ns * step_ns)
    origin_ns = moment.time_ns - round(times.end_s * speed * NS_PER_S)
    to_ns = -(-moment.time_ns // quantum_ns) * quantum_ns
    length_ns = -(-round(span_s * speed * NS_PER_S) // quantum_ns) * quantum_ns + quantum_ns
    series = history.ask(Wanted(address, to_ns - length_ns, to_ns, step_ns, jobs))
    reach = history.reach
    reach_s = (
        None
        if reach is None
        else (
            (reach.first_ns - origin_ns) / NS_PER_S / speed,
            (reach.end_ns - origin_ns) / NS_PER_S / speed,
        )
    )
    return ChartPast(
        series,
        origin_ns,
        speed,
        step_s,
        times.end_s - span_s,
        times.end_s,
        reach_s,
        bool(history.problem),
    )


def resolution(past: ChartPast | None) -> str:
    """Return the length of a step of history for a chart's note.

    Empty without history.
    """
    if past is None or past.series is None:
        return ""
    step_s = past.step_s
    text = (
        f"{step_s // 3_600} h"
        if step_s >= 3_600
        else f"{step_s // 60} min"
        if step_s >= 60
        else f"{step_s} s"
    )
    return f", {text} of history"


def figure_of(field: Field, layout: Layout, node: Node) -> float:
    """Return the hardware figure per chip for a field's join.

    It is the mean of a place's types, weighted by chips.
    """
    if field.hardware is None or not layout.types:
        return 1.0
    by_type = np.array([field.hardware(kind.chip) for kind in layout.types])
    covered = layout.instance_range(node)
    rows = slice(covered.start, covered.stop)
    weights = np.diff(layout.chip_start)[rows]
    return float(np.average(by_type[layout.instance_type[rows]], weights=weights))


class ChartInputs(NamedTuple):
    """The inputs shared by all charts of one moment."""

    times: Times
    gaps: tuple[Gap, ...]
    note: str
    """The span in words."""
    mean_s: int
    """Seconds averaged in the lines of single nodes. 1 in the shortest span, so that single steps
    show."""

    @property
    def line_note(self) -> str:
        """The span and the averaging of lines, in words."""
        return self.note if self.mean_s == 1 else f"{self.note}, {self.mean_s} s mean"


def chart_inputs(
    monitor: FleetState, window: ChartWindow, *, shows_past: bool, least_s: int = 0
) -> ChartInputs:
    """Return the shared inputs of charts at present.

    Args:
        monitor: The monitor shown.
        window: The span.
        shows_past: Whether ticks are times, because the end is not now.
        least_s: Least seconds of the span.
    """
    history = monitor.history
    moment = monitor.moment()
    end_s = history.end
    span_s = max(window.span_s(end_s), least_s)
    # History has a sample for each second of the wall clock, whatever the fleet's own time does.
    note = window.title(end_s) if span_s > least_s else duration(span_s)
    times = Times(span_s, end_s, moment.time_ns if shows_past else None, moment.speed or 1.0)
    gaps = tuple(history.gaps_since(end_s - span_s))
    mean_s = MEAN_S if span_s > LEAST_ALL_S else 1
    return ChartInputs(times, gaps, note + ("" if moment.speed == 1.0 else " wall"), mean_s)


def before_of(monitor: FleetState, level: Level) -> Reason:
    """Return the reason for missing samples between history's first and a node's own.

    It depends on whether history has samples of the node's level.
    """
    return Reason.BEFORE_START if monitor.history.seconds(level) else Reason.NOT_KEPT


def fired_marks(
    monitor: FleetState, span_s: int, pick: Callable[[Alert], bool] | None = None
) -> tuple[ChartMark, ...]:
    """Return marks of alerts that began to fire within a span.

    Alerts of severity info have none.

    Args:
        monitor: The monitor shown.
        span_s: The span in wall seconds; it ends at present.
        pick: Predicate for alerts to mark; all by default.
    """
    alerts = monitor.alerts
    speed = monitor.moment().speed or 1.0
    marks: list[ChartMark] = []
    for transition in reversed(alerts.history):
        back_s = (alerts.instant.now_ns - transition.at_ns) / NS_PER_S / speed
        if back_s > span_s:
            break
        is_loud = transition.alert.rule.severity is not Severity.INFO
        if transition.kind == "firing" and is_loud and (pick is None or pick(transition.alert)):
            marks.append(ChartMark(back_s, transition.alert.rule.severity))
    return tuple(marks)


def alert_limit(rule: Rule, value: float) -> Limit:
    """Return a rule's limit; only what is above one of the name `alert` is drawn as a warning."""
    name = "alert" if rule.comparison.key == "above" else "alert below"
    return Limit(value, name, theme.CHART_THRESHOLD, is_always_shown=True)


def thresholds(monitor: FleetState, field: Field, level: Level) -> tuple[Limit, ...]:
    """Return the rules' limits for a field at a level."""
    limits = {
        rule.limit: alert_limit(rule, rule.limit)
        for rule in rules_about(monitor.alerts.rules, field.key, level)
        if rule.limit is not None
    }
    return tuple(limits.values())
