"""The chart of an alert's figure around the moment at which it fired.

History has a sample for each wall second; the moment is counted back from now at the fleet's own speed.
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
from trnfleet.monitor.store.history import KEPT
from trnfleet.tui import theme
from trnfleet.tui.widgets import charts
from trnfleet.tui.widgets.cells import CHART, FixedParts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.fields import Field

LEAST_ROWS = 4
"""Title, two rows of the chart, and the row of the mark."""
_KEPT = frozenset(field.key for field in KEPT)
_BEFORE = 0.5
"""Least share of the chart that lies before the moment, as far as history goes back."""


class Past(NamedTuple):
    """The series of an alert's figure, with the moment at which it fired."""

    field: Field
    place: str
    series: NDArray[np.float32]
    """One sample a wall second, oldest first."""
    samples: int
    """Samples that history ever took."""
    low: float
    high: float
    limit: float | None
    fired_s: float | None
    """Wall seconds since it fired; None while it is pending."""


def read_past(monitor: FleetState, alert: Alert) -> Past | None:
    """Return what history keeps of an alert's figure at its worst member; None for nothing.

    A node that history does not keep is watched from now on.
    """
    rule, store = alert.rule, monitor.store
    if rule.figure not in _KEPT or rule.scope not in LEVEL_OF:
        return None
    layout = store.layout
    place = (alert.worst or address_of(alert)).partition(":")[0]
    node = layout.find(place)
    if node is None:
        return None
    if node.level is Level.CHIP or not monitor.history.seconds(node.level):
        monitor.history.watch(layout.path(node))
    field = BY_KEY[rule.figure]
    low, high = field.scale(layout)
    if not field.is_ratio:
        high *= max(1, len(layout.chip_range(node)))
    series = monitor.history.series(layout, node, field.key)
    fired_s = None
    if alert.fired_ns is not None:
        speed = monitor.moment().speed or 1.0
        fired_s = (monitor.alerts.instant.now_ns - alert.fired_ns) / NS_PER_S / speed
    # A limit on what is made of the figure, such as its distance from a median, is no height in its chart.
    limit = rule.limit if rule.is_plain else None
    return Past(field, layout.path(node), series, monitor.history.samples, low, high, limit, fired_s)


def chart(past: Past, width: int, height: int) -> list[FixedParts]:
    """Return a title, the chart and a line with the mark, `height` lines of `width` cells; nothing below `LEAST_ROWS`."""
    if height < LEAST_ROWS or width < 20:
        return []
    per_cell = cell_s(past, width)
    values = charts.bucket(past.series, width, per_cell, past.samples)
    known = values[~np.isnan(values)]
    if not len(known):
        return [((f"{past.field.title} of {past.place}: nothing is kept yet", theme.QUIET),)]
    low, high = _ends(known, past)
    now = with_unit(float(known[-1]), past.field.unit)
    ends = f"{with_unit(low, past.field.unit)} to {with_unit(high, past.field.unit)}"
    title = f"{past.place.rpartition('/')[2] or 'fleet'}  {past.field.title} {now}"
    spans = (f"{ends}, {duration(per_cell)} a cell", ends, "")
    span = next(each for each in spans if not each or len(title) + len(each) + 3 <= width)
    room = width - len(title) - len(span) - 3
    rows: list[FixedParts] = [
        (
            (title, theme.BASE),
            (" " + "─" * max(0, room) + " ", theme.GHOST),
            (span, theme.GHOST),
        )
    ]
    rows += [((text, CHART),) for text in charts.area(values, low, high, height - 2)]
    return [*rows, ((mark(past, width, per_cell), theme.QUIET),)]


def cell_s(past: Past, width: int) -> int:
    """Return how many seconds a cell stands for, so that the moment lies within the chart where history has it."""
    wanted = 0.0 if past.fired_s is None else past.fired_s / (1 - _BEFORE)
    longest = max(1, math.ceil(len(past.series) / width))
    return min(longest, max(1, math.ceil(wanted / width)))


def mark(past: Past, width: int, per_cell: int) -> str:
    """Return the line below the chart: a sign below the moment, or where that is."""
    if past.fired_s is None:
        return "pending: it has not fired yet"[:width]
    cells_back = int((past.fired_s + (-past.samples) % per_cell) / per_cell)
    at = width - 1 - cells_back
    # What history has not seen cannot be pointed at.
    if at < 0 or past.fired_s > len(past.series):
        return f"fired {duration(past.fired_s)} ago, before this chart begins"[:width]
    label = "fired"
    if at + 2 + len(label) <= width:
        return " " * at + f"▲ {label}"
    return " " * max(0, at - len(label) - 1) + f"{label} ▲"


def _ends(known: NDArray[np.float64], past: Past) -> tuple[float, float]:
    """Return the chart's lowest and highest value: what there is and the limit, with some air, within the field's scale."""
    limits = [] if past.limit is None else [past.limit]
    low, high = min([float(known.min()), *limits]), max([float(known.max()), *limits])
    air = 0.1 * (high - low) or 0.05 * abs(high) or 1.0
    return max(low - air, min(past.low, low)), high + air
