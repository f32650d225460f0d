"""The shared part of all charts: span, marked alerts and limits.

The span is remembered while the app runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.quantities import duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.gaps import Reason
from trnfleet.tui import theme
from trnfleet.tui.state.limits import rules_about
from trnfleet.tui.widgets.charts import Limit, Mark, Times

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.address import Level
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.fields import Field
    from trnfleet.monitor.store.gaps import Gap

WINDOWS_S = (60, 300, 900, 3_600, 21_600, None)
"""Spans to choose from in wall seconds; None for the whole history."""
LONG_WINDOWS_S = (*WINDOWS_S[:-1], 86_400, 7 * 86_400, 30 * 86_400, None)
"""The same with a folder of history."""
_USUAL = 1
MEAN_S = 10
"""Seconds averaged in lines and headlines. Two steps of training: no line shows the swing of single
steps."""
LEAST_ALL_S = 60
MOST_ALL_S = 86_400
"""Seconds that history keeps at most."""


class ChartWindow:
    """The span that charts show."""

    def __init__(self) -> None:
        self._place = _USUAL
        self.kept_s: list[Callable[[], int]] = []
        """Each returns how many seconds back a folder of history reaches; none without one."""

    @property
    def spans_s(self) -> tuple[int | None, ...]:
        """The spans to choose from."""
        return LONG_WINDOWS_S if self.kept_s else WINDOWS_S

    @property
    def place(self) -> int:
        """Number of the chosen span."""
        return self._place

    def step(self, by: int) -> None:
        """Choose a longer span, or a shorter one if `by` is negative.

        Stops at the longest and the shortest.
        """
        self._place = min(len(self.spans_s) - 1, max(0, self._place + by))

    def span_s(self, end_s: int) -> int:
        """Return the span in wall seconds.

        Args:
            end_s: Seconds from the first sample to the chart's end: the most the samples can cover.
        """
        chosen = self.spans_s[self._place]
        if chosen is not None:
            return chosen
        own_s = min(MOST_ALL_S, max(LEAST_ALL_S, end_s))
        return max([own_s, *(reach() for reach in self.kept_s)])

    def reach_back(self, seconds: float) -> None:
        """Widen the span to cover some seconds, or to the longest."""
        places = [
            number
            for number, span_s in enumerate(self.spans_s)
            if span_s is not None and span_s >= seconds
        ]
        self._place = max(self._place, min(places, default=len(self.spans_s) - 1))

    def title(self, end_s: int) -> str:
        """Return the span in words, such as `5 min` or `all: 2 h 10 min`."""
        span_s = self.span_s(end_s)
        for size_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
            if span_s == 86_400 and unit == "d":
                continue
            if self.spans_s[self._place] is not None and not span_s % size_s:
                return f"{span_s // size_s} {unit}"
        return f"all: {duration(span_s)}"


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
) -> tuple[Mark, ...]:
    """Return marks of alerts that began to fire within a span.

    Alerts of severity info have none.

    Args:
        monitor: The monitor shown.
        span_s: The span in wall seconds; it ends at present.
        pick: Predicate for alerts to mark; all by default.
    """
    alerts = monitor.alerts
    speed = monitor.moment().speed or 1.0
    marks: list[Mark] = []
    for transition in reversed(alerts.history):
        back_s = (alerts.instant.now_ns - transition.at_ns) / NS_PER_S / speed
        if back_s > span_s:
            break
        is_loud = transition.alert.rule.severity is not Severity.INFO
        if transition.kind == "firing" and is_loud and (pick is None or pick(transition.alert)):
            marks.append(Mark(back_s, transition.alert.rule.severity))
    return tuple(marks)


def thresholds(monitor: FleetState, field: Field, level: Level) -> tuple[Limit, ...]:
    """Return the rules' limits for a field at a level."""
    limits = {
        rule.limit: Limit(rule.limit, "alert", theme.CHART_THRESHOLD, is_always_shown=True)
        for rule in rules_about(monitor.alerts.rules, field.key, level)
        if rule.limit is not None
    }
    return tuple(limits.values())
