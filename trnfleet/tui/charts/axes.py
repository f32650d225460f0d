"""Axes of charts: scale, limits and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.quantities import with_unit
from trnfleet.tui import theme
from trnfleet.tui.charts import plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from trnfleet.domain.severity import Severity
    from trnfleet.tui.widgets.cells import FixedParts

_NAMED_LIMITS_FROM = 56
"""Least cells for names of limits beside their values."""


class Limit(NamedTuple):
    """A dashed line across the chart: a cap of the hardware, or an alert's threshold."""

    value: float
    name: str
    style: Style
    is_always_shown: bool = False
    """Whether the scale reaches up to it, however far above the values it is."""

    @property
    def is_alert(self) -> bool:
        return self.name == "alert"


class ChartMark(NamedTuple):
    """An alert that began to fire."""

    back_s: float
    """Wall seconds before the chart's end."""
    severity: Severity


class Times(NamedTuple):
    """The time covered by a chart's columns."""

    span_s: int
    end_s: int
    """Where it ends: seconds since the first sample ever."""
    end_ns: int | None = None
    """The end by the fleet's clock, if ticks show times. None: ticks show ages."""
    speed: float = 1.0
    """Seconds of the fleet's time a wall second."""


class ValueAxis(NamedTuple):
    """The value axis of a chart of some size."""

    low: float
    high: float
    """The ends of the scale."""
    labels: dict[int, tuple[str, Style]]
    """By row."""
    cells: int
    """Its width; 0 below the least size."""


def axis_text(value: float, unit: str, *, is_signed: bool = False) -> str:
    """Return the short text of a value on an axis.

    Examples are `32kW`, `4.1TB/s`, `100%`, and `+10%` for a distance.
    """
    text = with_unit(value, unit).replace(" ", "")
    number = len(text) - len(text.lstrip("0123456789.,-"))
    digits = text[:number]
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    sign = "+" if is_signed and value > 0 else ""
    return sign + digits + text[number:]


def row_of(value: float, scale: tuple[float, float], rows: int) -> int:
    """Return the row of cells of a limit, 0 the lowest."""
    return int(plot.row_of(np.array([value]), *scale, rows * plot.ROWS)[0]) // plot.ROWS


def value_axis(
    scale: tuple[float, float],
    unit: str,
    limits: Sequence[Limit],
    rows: int,
    width: int,
    *,
    is_signed: bool,
) -> ValueAxis:
    """Return the value axis of a chart, labelled at its ends and at the limits.

    In a shared row the limit wins.

    Args:
        scale: The ends.
        unit: Of the values.
        limits: Those beyond the ends are left out.
        rows: Height in cells.
        width: Cells of the whole chart.
        is_signed: Whether values are written with a sign.
    """
    low, high = scale
    labels = {
        0: (axis_text(high, unit, is_signed=is_signed), theme.CHART_AXIS),
        rows - 1: (axis_text(low, unit, is_signed=is_signed), theme.CHART_AXIS),
    }
    for limit in limits:
        if low <= limit.value <= high:
            text = axis_text(limit.value, unit, is_signed=is_signed)
            if width >= _NAMED_LIMITS_FROM:
                text = f"{limit.name} {text}"
            labels[rows - 1 - row_of(limit.value, scale, rows)] = (text, limit.style)
    return ValueAxis(low, high, labels, max(len(text) for text, _ in labels.values()) + 1)


def time_axis(times: Times, marks: Sequence[ChartMark], grid: plot.Grid, cells: int) -> FixedParts:
    """Return the line below a chart: ticks, with a sign at each firing alert."""
    line: list[tuple[str, Style]] = [(" ", theme.CHART_AXIS)] * cells
    marked: set[int] = set()
    for mark in sorted(marks, key=lambda mark: -mark.severity.rank):
        column = grid.column_of(times.end_s - max(0.0, mark.back_s))
        if column >= 0:
            cell = min(column, grid.columns - 1) // plot.COLUMNS
            marked.add(cell)
            line[cell] = (theme.SEVERITY_GLYPH[mark.severity], theme.SEVERITY_STYLE[mark.severity])
    free_cells = cells
    for back_s, text in _ticks(times, cells):
        at = cells - 1 - int(back_s * cells / times.span_s)
        # Beside marks a label stands as near to its instant as it can, and still over or beside it.
        middle = min(max(0, at - len(text) // 2), cells - len(text))
        firsts = sorted(
            range(max(0, at - len(text)), at + 2), key=lambda first: abs(first - middle)
        )
        rooms = (range(first, first + len(text)) for first in firsts)
        room = next(
            (span for span in rooms if span.stop <= free_cells and marked.isdisjoint(span)), None
        )
        if at < 0 or room is None:
            continue
        line[room.start : room.stop] = [(character, theme.CHART_AXIS) for character in text]
        free_cells = room.start - 2
    parts: list[tuple[str, Style]] = []
    for character, style in line:
        # Most are the very same, which is quicker to see than that two are equal.
        if parts and (parts[-1][1] is style or parts[-1][1] == style):
            parts[-1] = (parts[-1][0] + character, style)
        else:
            parts.append((character, style))
    return tuple(parts)


def _ticks(times: Times, cells: int) -> list[tuple[float, str]]:
    """Return the ticks from last to first: wall seconds back, and label."""
    if times.end_ns is None:
        every_s = max(tick_every(times.span_s, cells, 4), 30 if times.span_s > 60 else 1)
        ticks = [(0.0, "now")]
        ticks += [
            (float(back_s), f"-{back_text(back_s)}")
            for back_s in range(every_s, times.span_s + 1, every_s)
        ]
        return ticks
    speed = times.speed or 1.0
    span_s = max(1, round(times.span_s * speed))
    every_s = tick_every(span_s, cells, 8 if span_s < 3_600 else 5)
    # Days have dates, and shorter steps times of day.
    begin, size = (5, 5) if not every_s % 86_400 else (11, 8 if every_s % 60 else 5)
    last_s = times.end_ns // NS_PER_S
    first = last_s - last_s % every_s
    return [
        (
            (times.end_ns / NS_PER_S - at_s) / speed,
            format_rfc3339(at_s * NS_PER_S)[begin : begin + size],
        )
        for at_s in range(first, last_s - span_s, -every_s)
    ]


_NICE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def nice_ceiling(value: float) -> float:
    """Return the round number at or above a positive value.

    It is 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten.
    """
    power = 10.0 ** np.floor(np.log10(value))
    return float(
        next(
            (factor * power for factor in _NICE if factor * power >= value * (1 - 1e-9)),
            10.0 * power,
        )
    )


_TICKS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    86_400,
    172_800,
    345_600,
    604_800,
    1_209_600,
    2_592_000,
    7_776_000,
    31_536_000,
)


def tick_every(span_s: int, cells: int, label: int) -> int:
    """Return the seconds between ticks with room for labels of `label` cells."""
    least_s = span_s * (label + 3) / max(1, cells)
    return next((tick_s for tick_s in _TICKS_S if tick_s >= least_s), _TICKS_S[-1])


def back_text(seconds: int) -> str:
    """Return how long ago a tick is, in the largest unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size and not seconds % size:
            return f"{seconds // size}{unit}"
    if seconds >= 3_600:
        return f"{seconds / 3_600:g}h"
    return f"{seconds / 60:g}m" if seconds >= 60 else f"{seconds}s"
