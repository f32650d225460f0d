"""The chart of an alert's figure around the moment at which it fired.

History has a sample for each wall second; the moment is counted back from now at the fleet's own
speed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.signals import LEVEL_OF
from trnfleet.domain.quantities import duration, with_unit
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.gaps import Reason
from trnfleet.monitor.store.history import KEPT
from trnfleet.monitor.store.job_history import JOB_KEYS
from trnfleet.tui import theme
from trnfleet.tui.state.chart_window import MOST_ALL_S, before_of, chart_inputs
from trnfleet.tui.widgets import charts
from trnfleet.tui.widgets.cells import width_of
from trnfleet.tui.widgets.charts import Chart, Limit, Mark, Series

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cells import FixedParts, Parts

LEAST_ROWS = 5
"""Title, three rows of the chart, and its time axis."""
_LEAST_WIDTH = 20
_KEPT = frozenset(field.key for field in KEPT)
_BEFORE = 0.5
"""Least share of the chart before the moment, if history goes back so far."""


class Past(NamedTuple):
    """Chart of an alert's figure, and the moment it fired."""

    title: str
    """What it is of."""
    place: str
    chart: Chart
    window: str
    """The span in words."""
    fired_s: float | None
    """Wall seconds since it fired; None while it is pending."""


def read_past(context: UiContext, alert: Alert) -> Past | None:
    """Return the history of an alert's figure at its worst member; None without history.

    A node without history is recorded from now on.
    """
    monitor = context.monitor
    rule = alert.rule
    layout = monitor.store.layout
    history = monitor.history
    fired_s = None
    if alert.fired_ns is not None:
        speed = monitor.moment().speed or 1.0
        fired_s = (monitor.alerts.instant.now_ns - alert.fired_ns) / NS_PER_S / speed
    around_s = 0 if fired_s is None else math.ceil(fired_s / (1 - _BEFORE) / 60) * 60
    least_s = around_s if around_s <= min(MOST_ALL_S, 2 * history.end) else 0
    inputs = chart_inputs(monitor, context.window, shows_past=context.shows_past, least_s=least_s)
    span_s = inputs.times.span_s
    # A limit on a derived figure, such as the distance from a median, is not a height in this
    # chart.
    limit = rule.limit if rule.is_plain else None
    base = 0.0
    before = Reason.BEFORE_START
    if rule.figure in JOB_KEYS and alert.target in history.job_names():
        place = alert.target
        title = "step time" if rule.figure.endswith("_s") else "power"
        unit = "s"
        low = 0.0
        unit = "s" if rule.figure.endswith("_s") else "W"
        track = history.job_track(alert.target, rule.figure, span_s)
        base = monitor.alerts.usual(rule.figure, alert.target) or 0.0
        if base and rule.limit is not None and not rule.is_plain:
            limit = rule.limit * base
    elif rule.figure in _KEPT and rule.scope in LEVEL_OF:
        field = BY_KEY[rule.figure]
        place = (alert.worst or address_of(alert)).partition(":")[0]
        node = layout.find(place)
        if node is None:
            return None
        if node.level is Level.CHIP or not history.seconds(node.level):
            history.watch(layout.path(node))
        place = layout.path(node)
        title = field.title
        unit = field.unit
        low = field.low
        track = history.track(layout, node, field.key, span_s)
        before = before_of(monitor, node.level)
    else:
        return None
    limits = (
        []
        if limit is None
        else [Limit(limit, "alert", theme.CHART_THRESHOLD, is_always_shown=True)]
    )
    if base and limit is not None:
        limits.append(Limit(base, "usual", theme.CHART_CAP))
    marks = [] if fired_s is None or fired_s > span_s else [Mark(fired_s, rule.severity)]
    ceiling = 100.0 if unit == "%" else np.inf
    chart = Chart(
        [Series(track.smoothed(inputs.mean_s), theme.CHART)],
        unit,
        inputs.times,
        low,
        ceiling,
        limits,
        marks,
        inputs.gaps,
        before=before,
    )
    return Past(title, place, chart, inputs.line_note, fired_s)


def chart(past: Past, width: int, height: int) -> list[FixedParts]:
    """Return a title and the chart, `height` lines of `width` cells; nothing below `LEAST_ROWS`."""
    if height < LEAST_ROWS or width < _LEAST_WIDTH:
        return []
    track = past.chart.series[0].track.last(past.chart.times.span_s)
    known = track.mean[~np.isnan(track.mean)]
    if not len(known):
        return [((f"{past.title} of {past.place}: nothing is kept yet", theme.QUIET),)]
    now = with_unit(float(known[-1]), past.chart.unit)
    title: Parts = [(f"{past.place.rpartition('/')[2] or 'fleet'}  {past.title} {now}", theme.BASE)]
    note = f"{moment(past)}, {past.window}"
    if width_of(title) + len(note) + 4 > width:
        note = moment(past)
    return [charts.head(title, note, width), *charts.draw(past.chart, width, height - 1)]


def moment(past: Past) -> str:
    """Return when it fired, and where a chart begins later."""
    if past.fired_s is None:
        return "pending"
    words = f"fired {duration(past.fired_s)} ago"
    return words if past.fired_s <= past.chart.times.span_s else f"{words}, before this chart"
