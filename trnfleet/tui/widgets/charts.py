"""Charts: lines and bands of samples with axes, limits, marks of alerts, and labelled gaps.

`draw` makes lines of styled texts for any width and height; a view chooses the contents. The dots
come from `plot`.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.style import Style

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.quantities import with_unit
from trnfleet.monitor.store.gaps import Reason
from trnfleet.tui import theme
from trnfleet.tui.widgets import plot
from trnfleet.tui.widgets.cells import FixedParts, Parts, fit, width_of
from trnfleet.tui.widgets.targets import Target, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.severity import Severity
    from trnfleet.monitor.store.gaps import Gap
    from trnfleet.monitor.store.rings.record import Track

LEAST_WIDTH = 12
LEAST_ROWS = 3
"""Below these a chart says no more than a number."""
_NAMED_LIMITS_FROM = 56
"""Least cells for names of limits beside their values."""
_NEAR_LIMIT = 1.6
"""Most times the largest value for a limit on the scale. Higher limits are only in the title."""
_REASONS = tuple(Reason)
_PRESENT = -1
_NO_VALUE = math.nan


class Series(NamedTuple):
    """One line."""

    track: Track
    style: Style
    name: str = ""
    """Its name in the legend; empty for the only one."""
    has_band: bool = True
    """Whether least and largest samples are drawn as a band around the line."""
    before: Track | None = None
    """Samples before its first value, in steps of another length; None for nothing."""

    def bands(self, grid: plot.Grid) -> plot.Bands:
        """Return its bands.

        Gaps of its own samples are filled from the samples before.
        """
        own = grid.bands(self.track, has_extremes=self.has_band)
        if self.before is None:
            return own
        missing = np.isnan(own.mean)
        former = grid.bands(self.before, has_extremes=self.has_band)
        return plot.Bands(
            *(np.where(missing, old, new) for old, new in zip(former, own, strict=True))
        )


class Limit(NamedTuple):
    """A dashed line across the chart: a cap of the hardware, or an alert's threshold."""

    value: float
    name: str
    style: Style
    is_always_shown: bool = False
    """Whether the scale reaches up to it, however far above the values it is."""


class Mark(NamedTuple):
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


class Chart(NamedTuple):
    """The contents of a chart."""

    series: Sequence[Series]
    unit: str
    times: Times
    floor: float = 0.0
    """Lower end of the scale, unless a value is below it."""
    ceiling: float = np.inf
    """The scale never ends above this, unless a value does, such as 100 %."""
    limits: Sequence[Limit] = ()
    marks: Sequence[Mark] = ()
    gaps: Sequence[Gap] = ()
    kept_gaps: Sequence[Gap] = ()
    """Gaps of the history before the first sample."""
    is_signed: bool = False
    """Whether values are distances, written with a sign."""
    lacking: Reason = Reason.SILENT
    """Reason for a missing value outside of the gaps."""
    before: Reason = Reason.BEFORE_START
    """Reason for missing values between the first sample ever and the series' first."""


class ValueAxis(NamedTuple):
    """The value axis of a chart of some size."""

    low: float
    high: float
    """The ends of the scale."""
    labels: dict[int, tuple[str, Style]]
    """By row."""
    cells: int
    """Its width; 0 below the least size."""


def draw(
    chart: Chart, width: int, height: int, *, axis: int = 0, own: ValueAxis | None = None
) -> list[FixedParts]:
    """Return a chart of `height` lines; the last is its time axis.

    Below the least size, all lines are blank.

    Args:
        chart: The contents.
        width: Cells.
        height: Lines.
        axis: Least cells of the value axis. Charts below each other share it, so that their times
            line up.
        own: The chart's value axis if known.
    """
    if width < 1 or height < 1:
        return []
    if width < LEAST_WIDTH or height < LEAST_ROWS:
        return [((" " * width, theme.BASE),)] * height
    rows = height - 1
    low, high, labels, least = value_axis(chart, width, height) if own is None else own
    gutter = max(axis, least)
    cells = width - gutter
    grid = plot.Grid(chart.times.span_s, cells * plot.COLUMNS, chart.times.end_s)
    canvas = _Canvas(rows, cells)
    bands = [series.bands(grid) for series in chart.series]
    for limit in chart.limits:
        if low <= limit.value <= high:
            canvas.dash(limit, low, high)
    for series, band in zip(chart.series, bands, strict=True):
        canvas.line(series, band, low, high)
    for first, after, reason in _gaps(chart, grid, bands):
        canvas.gap(-(-first // plot.COLUMNS), after // plot.COLUMNS, reason.value)
    made: list[FixedParts] = []
    for row, parts in enumerate(canvas.lines()):
        text, style = labels.get(row, ("", theme.CHART_AXIS))
        made.append(((text.rjust(gutter - 1), style), ("┤", theme.CHART_AXIS), *parts))
    return [*made, ((" " * gutter, theme.BASE), *time_axis(chart, grid, cells))]


def value_axis(chart: Chart, width: int, height: int) -> ValueAxis:
    """Return the value axis that a chart needs."""
    low, high = scale_of(chart)
    if width < LEAST_WIDTH or height < LEAST_ROWS:
        return ValueAxis(low, high, {}, 0)
    labels = _labels(chart, low, high, height - 1, width)
    return ValueAxis(low, high, labels, max(len(text) for text, _ in labels.values()) + 1)


def axis_cells(chart: Chart, width: int, height: int) -> int:
    """Return the cells of a chart's value axis; 0 below the least size."""
    return value_axis(chart, width, height).cells


def head(title: Parts, note: str, width: int) -> FixedParts:
    """Return a chart's first line: title with figures or legend, a rule, and a note.

    The note may be shortened to its first parts, or left out.

    A click on rule or note shows a longer span, like the key.
    """
    used = width_of(title)
    if used >= width:
        return tuple(title)
    while ", " in note and width - used - len(note) - 1 < 2:
        note = note.rpartition(", ")[0]
    room = width - used - (len(note) + 1 if note else 0)
    if room < 2:
        note = ""
        room = width - used
    rule = " " + "─" * max(0, room - (2 if note else 1)) + (" " if note else "")
    longer = Target(TargetKind.KEY, "v")
    return (
        *title,
        (rule, linked(theme.RULE, longer)),
        (note + (" " if note else ""), linked(theme.CHART_AXIS, longer)),
    )


def legend(
    series: Sequence[Series], figures: Sequence[str], width: int, others: Sequence[str] = ()
) -> Parts:
    """Return the names of series in their styles, with figures.

    Figures go first where there is not room for all, then ends of names, then the beginnings that
    several share before ends that no other has; then the last ones are only counted. A part of a
    name stands for it only where it is that of none of the `others` either.
    """
    names = [line.name for line in series]
    with_figures = [f"{name} {figure}" for name, figure in zip(names, figures, strict=True)]
    every = {*names, *others}
    stems = parts_of(names, every, before=True)
    ends = parts_of(names, every, before=False)
    shortest = [
        end if stem == name else stem for stem, end, name in zip(stems, ends, names, strict=True)
    ]
    if len(set(shortest)) < len(names):
        shortest = stems
    for texts in (with_figures, names, stems, shortest):
        if sum(len(text) + 2 for text in texts) <= width:
            return [(f" {text} ", line.style) for text, line in zip(texts, series, strict=True)]
    shown: Parts = []
    left = width - 4
    for name, line in zip(shortest, series, strict=True):
        text = f" {fit(name, 9).rstrip()} "
        if len(text) > left:
            break
        shown.append((text, line.style))
        left -= len(text)
    rest = len(series) - len(shown)
    return [*shown, (f" +{rest}", theme.QUIET)] if rest else shown


def parts_of(names: Sequence[str], every: Iterable[str], *, before: bool) -> list[str]:
    """Return the part of names before (or behind) the first hyphen.

    The whole name is used if the part is empty or not unique.
    """
    side = 0 if before else 2
    shared = Counter(name.partition("-")[side] for name in every)
    parts = [name.partition("-")[side] for name in names]
    return [
        part if part and shared[part] == 1 else name
        for part, name in zip(parts, names, strict=True)
    ]


def scale_of(chart: Chart) -> tuple[float, float]:
    """Return the ends of a chart's scale: round numbers around values and near limits."""
    lows = [chart.floor]
    highs = [chart.floor]
    tracks = [
        (line, track)
        for line in chart.series
        for track in (line.track, line.before)
        if track is not None
    ]
    for line, former in tracks:
        track = former.last(chart.times.span_s)
        least, most = (track.low, track.high) if line.has_band else (track.mean, track.mean)
        lowest = _NO_VALUE
        highest = _NO_VALUE
        if len(least):
            lowest = float(np.fmin.reduce(least))
            highest = float(np.fmax.reduce(most))
        if not math.isnan(lowest):
            lows.append(lowest)
            highs.append(highest)
    low = min(lows)
    high = max(highs)
    if low < chart.floor:
        low = chart.floor - plot.nice_ceiling(chart.floor - low)
    over = high - chart.floor
    near = [
        limit.value - chart.floor
        for limit in chart.limits
        if limit.value > chart.floor
        and (
            limit.is_always_shown or not over > 0 or limit.value - chart.floor <= _NEAR_LIMIT * over
        )
    ]
    # A line on the edge of the chart is hard to see.
    top = 1.02 * max([over, *near])
    if not top > 0:
        return low, chart.ceiling if np.isfinite(chart.ceiling) else low + 1.0
    top = chart.floor + plot.nice_ceiling(top)
    return low, max(
        min(top, chart.ceiling), high, *(chart.floor + distance for distance in near), low + 1e-9
    )


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


class _Canvas:
    """Cells of dots with the style of each, and texts over them."""

    def __init__(self, rows: int, cells: int) -> None:
        self._dots = rows * plot.ROWS
        self._bits = np.zeros((rows, cells), np.int64)
        self._under = np.zeros((rows, cells), np.int64)
        """Dot bits of the limits; drawn only in empty cells."""
        self._owner = np.zeros((rows, cells), np.int64)
        self._styles: list[Style] = [theme.BASE]
        self._texts: list[tuple[int, int, str]] = []

    def dash(self, limit: Limit, low: float, high: float) -> None:
        """Draw a limit: every other cell of its row."""
        above = self._dots - 1 - int(plot.row_of(np.array([limit.value]), low, high, self._dots)[0])
        bits = np.zeros_like(self._under)
        bits[above // plot.ROWS, ::2] = plot.bits_across(above % plot.ROWS)
        self._under |= bits
        self._own(bits > 0, limit.style)

    def line(self, series: Series, bands: plot.Bands, low: float, high: float) -> None:
        """Draw a band, and over it the line of its means."""
        if series.has_band:
            rows = plot.reach(
                plot.row_of(bands.low, low, high, self._dots),
                plot.row_of(bands.high, low, high, self._dots),
            )
            self._add(
                plot.cells_of(plot.picture(*rows, self._dots)), series.style + Style(dim=True)
            )
        mean = plot.row_of(bands.mean, low, high, self._dots)
        self._add(plot.cells_of(plot.picture(*plot.reach(mean, mean), self._dots)), series.style)

    def gap(self, first: int, after: int, text: str) -> None:
        """Mark cells without values: a dotted line with the reason.

        The reason is in the gap, or near it if there is no room.
        """
        cells = after - first
        if cells <= 0:
            return
        row = len(self._bits) // 2
        said = f" {text} " if cells >= len(text) + 4 else text if cells >= len(text) else ""
        self._texts.append((row, first, said.center(cells, "┄")))
        if not said:
            mask = self._bits > 0
            for text_row, at, other in self._texts:
                mask[text_row, at : at + len(other)] = True
            self._texts += plot.words_near(mask, first, after, text)

    def lines(self) -> list[FixedParts]:
        """Return the rows as styled texts."""
        bits = np.where(self._bits > 0, self._bits, self._under)
        characters = plot.CHARACTERS[bits]
        owner = np.where(bits > 0, self._owner, 0)
        self._styles.append(theme.CHART_GAP)
        for row, first, text in self._texts:
            characters[row, first : first + len(text)] = list(text)
            owner[row, first : first + len(text)] = len(self._styles) - 1
        made: list[FixedParts] = []
        for letters, runs in zip(characters.tolist(), plot.row_runs(owner), strict=True):
            text = "".join(letters)
            made.append(
                tuple((text[first:after], self._styles[number]) for first, after, number in runs)
            )
        return made

    def _add(self, bits: NDArray[np.int64], style: Style) -> None:
        self._bits |= bits
        self._own(bits > 0, style)

    def _own(self, where: NDArray[np.bool_], style: Style) -> None:
        self._styles.append(style)
        self._owner[where] = len(self._styles) - 1


def _labels(
    chart: Chart, low: float, high: float, rows: int, width: int
) -> dict[int, tuple[str, Style]]:
    """Return the labels of the value axis by row: its ends and the limits.

    In a shared row the limit wins.
    """
    labels = {
        0: (axis_text(high, chart.unit, is_signed=chart.is_signed), theme.CHART_AXIS),
        rows - 1: (axis_text(low, chart.unit, is_signed=chart.is_signed), theme.CHART_AXIS),
    }
    for limit in chart.limits:
        if not low <= limit.value <= high:
            continue
        dot = int(plot.row_of(np.array([limit.value]), low, high, rows * plot.ROWS)[0])
        text = axis_text(limit.value, chart.unit, is_signed=chart.is_signed)
        if width >= _NAMED_LIMITS_FROM:
            text = f"{limit.name} {text}"
        labels[rows - 1 - dot // plot.ROWS] = (text, limit.style)
    return labels


def _gaps(chart: Chart, grid: plot.Grid, bands: list[plot.Bands]) -> list[tuple[int, int, Reason]]:
    """Return the gaps of all series: first column, the one after the last, reason."""
    missing = np.ones(grid.columns, np.bool_)
    for band in bands:
        missing &= np.isnan(band.mean)
    if not missing.any():
        return []
    reasons = np.full(grid.columns, _REASONS.index(chart.lacking))
    begins_s = min(
        ((line.track.total - len(line.track.mean)) * line.track.step_s for line in chart.series),
        default=chart.times.end_s,
    )
    for gap in chart.gaps:
        first = grid.column_of(gap.first)
        last = grid.column_of(gap.after - 1)
        reasons[max(0, first) : max(0, last + 1)] = _REASONS.index(gap.reason)
    reasons[: max(0, grid.column_of(begins_s))] = _REASONS.index(chart.before)
    reasons[: max(0, grid.column_of(0))] = _REASONS.index(Reason.BEFORE_START)
    for gap in chart.kept_gaps:
        first = grid.column_of(gap.first)
        after = grid.column_of(gap.after)
        reasons[max(0, first) : max(0, after)] = _REASONS.index(gap.reason)
    return [
        (first, after, _REASONS[number])
        for first, after, number in plot.row_runs(np.where(missing, reasons, _PRESENT)[np.newaxis])[
            0
        ]
        if number != _PRESENT
    ]


def time_axis(chart: Chart, grid: plot.Grid, cells: int) -> FixedParts:
    """Return the line below a chart: ticks, with a sign at each firing alert."""
    times = chart.times
    line: list[tuple[str, Style]] = [(" ", theme.CHART_AXIS)] * cells
    marked: set[int] = set()
    for mark in sorted(chart.marks, key=lambda mark: -mark.severity.rank):
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
        every_s = max(plot.tick_every(times.span_s, cells, 4), 30 if times.span_s > 60 else 1)
        ticks = [(0.0, "now")]
        ticks += [
            (float(back_s), f"-{plot.back_text(back_s)}")
            for back_s in range(every_s, times.span_s + 1, every_s)
        ]
        return ticks
    speed = times.speed or 1.0
    span_s = max(1, round(times.span_s * speed))
    every_s = plot.tick_every(span_s, cells, 8 if span_s < 3_600 else 5)
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
