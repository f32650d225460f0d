"""Charts: areas, stacks and lines of samples with axes, limits, alert marks, and labelled gaps.

One series is an area with its band as a shade, parts of a sum are a stack, and several series are
lines. `draw` makes lines of styled texts for any width and height; a view chooses the contents. The
dots come from `plot`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.style import Style

from trnfleet.monitor.store.gaps import Gap, Reason
from trnfleet.tui import theme
from trnfleet.tui.charts import axes, plot
from trnfleet.tui.charts.axes import ChartMark, Limit, Times, ValueAxis
from trnfleet.tui.charts.stack import EIGHTHS, Layer, stack
from trnfleet.tui.keys import first_key
from trnfleet.tui.widgets.cells import FixedParts, Parts, fit, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.store.rings.record import Track

LEAST_WIDTH = 12
LEAST_ROWS = 3
"""Below these a chart says no more than a number."""
NEAR_LIMIT = 2.0
"""Most times the largest value for a limit on the scale. Higher limits are only in the title."""
_REASONS = tuple(Reason)


class Series(NamedTuple):
    """One line."""

    track: Track
    style: Style
    name: str = ""
    """Its name in the legend; empty for the only one."""
    has_band: bool = True
    """Whether the largest samples are a band above an area."""
    before: Track | None = None
    """Samples before its first value, in steps of another length; None for nothing."""
    area: tuple[Style, ...] = ()
    """Styles of the area below it, from low to high values; empty for a line."""

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
    marks: Sequence[ChartMark] = ()
    gaps: Sequence[Gap] = ()
    past_gaps: Sequence[Gap] = ()
    """Gaps of the history before the first sample."""
    is_signed: bool = False
    """Whether values are distances, written with a sign."""
    lacking: Reason = Reason.SILENT
    """Reason for a missing value outside of the gaps."""
    before: Reason = Reason.BEFORE_START
    """Reason for missing values between the first sample ever and the series' first."""
    below: Callable[[plot.Grid], FixedParts] | None = None
    """Makes a line between the values and the time axis, in the grid's columns."""

    def rows(self, height: int) -> int:
        """Return the lines of values."""
        return height - 1 - (self.below is not None)

    total: Series | None = None
    """The sum that the stacked series add up to; None for no stack."""


def draw(
    chart: Chart,
    width: int,
    height: int,
    *,
    axis: int = 0,
    own: ValueAxis | None = None,
    has_times: bool = True,
) -> list[FixedParts]:
    """Return a chart of `height` lines; the last is its time axis.

    Below the least size, all lines are blank.

    Args:
        chart: The contents.
        width: Cells.
        height: Lines.
        axis: Least cells of the value axis. Charts of a screen share it, so that their times line
            up.
        own: The chart's value axis if known.
        has_times: Whether it has a time axis, not that of the chart below it.
    """
    if width < 1 or height < 1:
        return []
    if width < LEAST_WIDTH or height < LEAST_ROWS:
        return [((" " * width, theme.BASE),)] * height
    rows = chart.rows(height + 1 - has_times)
    low, high, labels, least = (
        value_axis(chart, width, height + 1 - has_times) if own is None else own
    )
    gutter = max(axis, least)
    cells = width - gutter
    grid = plot.Grid(chart.times.span_s, cells * plot.COLUMNS, chart.times.end_s)
    body = (
        _lines(chart, grid, rows, (low, high))
        if chart.total is None
        else _stack(chart, chart.total, cells, rows, high)
    )
    made: list[FixedParts] = []
    for row, parts in enumerate(body):
        text, style = labels.get(row, ("", theme.CHART_AXIS))
        made.append(((text.rjust(gutter - 1), style), ("┤", theme.CHART_AXIS), *parts))
    if chart.below is not None:
        made.append(((" " * gutter, theme.BASE), *chart.below(grid)))
    times = axes.time_axis(chart.times, chart.marks, grid, cells) if has_times else ()
    return [*made, ((" " * gutter, theme.BASE), *times)] if has_times else made


def _lines(
    chart: Chart, grid: plot.Grid, rows: int, scale: tuple[float, float]
) -> list[FixedParts]:
    """Return areas and lines."""
    canvas = _Canvas(rows, grid.columns // plot.COLUMNS, scale)
    bands = [series.bands(grid) for series in chart.series]
    alert = min((limit.value for limit in chart.limits if limit.is_alert), default=np.inf)
    for series, band in zip(chart.series, bands, strict=True):
        if series.area:
            canvas.area(series, band, alert)
        else:
            canvas.line(series, band)
    for limit in chart.limits:
        if scale[0] <= limit.value <= scale[1]:
            canvas.dash(limit)
    for first, after, reason in _gaps(chart, grid, bands):
        canvas.gap(-(-first // plot.COLUMNS), after // plot.COLUMNS, reason.value)
    return canvas.lines()


def _stack(chart: Chart, total: Series, cells: int, rows: int, top: float) -> list[FixedParts]:
    """Return a stack: the parts, and above them what is left of the sum."""
    grid = plot.Grid(chart.times.span_s, cells, chart.times.end_s)
    bands = total.bands(grid)
    layers = [Layer(line.name, line.area[0], line.bands(grid).mean) for line in chart.series]
    parts = np.sum([np.nan_to_num(layer.values) for layer in layers], axis=0)
    layers.append(Layer("", theme.LAYERS[-1], np.maximum(bands.mean - parts, 0.0)))
    caps = [rows - 1 - axes.row_of(limit.value, (0.0, top), rows) for limit in chart.limits]
    gaps = _gaps(chart._replace(series=[total]), grid, [bands])
    words = {first: reason.value for first, _, reason in gaps}
    return stack(layers, ~np.isnan(bands.mean), top, rows, caps, words)


def value_axis(chart: Chart, width: int, height: int) -> ValueAxis:
    """Return the value axis that a chart needs."""
    scale = scale_of(chart)
    if width < LEAST_WIDTH or height < LEAST_ROWS:
        return ValueAxis(*scale, {}, 0)
    return axes.value_axis(
        scale, chart.unit, chart.limits, chart.rows(height), width, is_signed=chart.is_signed
    )


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
    longer = ClickTarget(TargetKind.KEY, first_key("longer-charts"))
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
    low = chart.floor
    high = chart.floor
    for line in chart.series if chart.total is None else [chart.total]:
        for former in (line.track, line.before):
            if former is not None:
                track = former.last(chart.times.span_s)
                least, most = (track.low, track.high) if line.has_band else (track.mean,) * 2
                low = min(low, float(np.fmin.reduce(least, initial=low)))
                high = max(high, float(np.fmax.reduce(most, initial=high)))
    if low < chart.floor:
        low = chart.floor - axes.nice_ceiling(chart.floor - low)
    over = high - chart.floor
    near = [
        limit.value - chart.floor
        for limit in chart.limits
        if limit.value > chart.floor
        and (
            limit.is_always_shown or not over > 0 or limit.value - chart.floor <= NEAR_LIMIT * over
        )
    ]
    # A line on the edge of the chart is hard to see.
    top = 1.02 * max([over, *near])
    if not top > 0:
        return low, chart.ceiling if np.isfinite(chart.ceiling) else low + 1.0
    top = chart.floor + axes.nice_ceiling(top)
    return low, max(
        min(top, chart.ceiling), high, *(chart.floor + distance for distance in near), low + 1e-9
    )


class _Canvas:
    """Cells of dots with the style of each, and texts over them."""

    def __init__(self, rows: int, cells: int, scale: tuple[float, float]) -> None:
        self._scale = scale
        self._dots = rows * plot.ROWS
        self._bits = np.zeros((rows, cells), np.int64)
        self._under = np.full((rows, cells), " ")
        """Limits, and edges of bands; drawn only in empty cells."""
        self._owner = np.zeros((rows, cells), np.int64)
        self._shaded = np.zeros((rows, cells), np.bool_)
        """Cells on the shade of a band."""
        self._styles: list[Style] = [theme.BASE]
        self._shade = theme.BASE
        self._texts: list[tuple[int, int, str]] = []

    def dash(self, limit: Limit) -> None:
        """Draw a limit where nothing else is."""
        row = len(self._bits) - 1 - int(self._rows_of(np.array([limit.value]))[0]) // plot.ROWS
        free = self._bits[row] == 0
        self._under[row, free] = "╌"
        self._styles.append(limit.style)
        self._owner[row, free] = len(self._styles) - 1

    def area(self, series: Series, bands: plot.Bands, alert: float) -> None:
        """Draw an area coloured by value, and its band as a shade up to the largest samples.

        Above an alert's limit it has the colour of a warning.
        """
        rows = len(self._bits)
        mean = self._rows_of(bands.mean)
        bits = plot.cells_of(plot.picture(np.minimum(mean, 0), mean, self._dots))
        self._bits |= bits
        first = len(self._styles)
        steps = np.arange(rows)[::-1] * len(series.area) // rows + first
        self._styles += [*series.area, theme.CHART_THRESHOLD]
        low, high = self._scale
        tops = low + np.arange(rows, 0, -1) * (high - low) / rows
        over = np.fmax(*bands.mean.reshape(-1, plot.COLUMNS).T) > alert
        above = (tops > alert)[:, np.newaxis] & over
        looks = np.where(above, len(self._styles) - 1, steps[:, np.newaxis])
        self._owner = np.where(bits > 0, looks, self._owner)
        shade = series.area[0].bgcolor
        if not series.has_band or shade in {None, theme.BACKGROUND}:
            return
        most = np.fmax(*bands.high.reshape(-1, plot.COLUMNS).T)
        eighths = plot.row_of(most, low, high, 8 * rows + 1) - 8 * np.arange(rows)[::-1, np.newaxis]
        self._shaded = eighths >= 8
        self._styles.append(Style(color=shade, bgcolor=theme.BACKGROUND))
        edge = (eighths > 0) & ~self._shaded & (self._bits == 0) & (not theme.is_ascii)
        self._under[edge] = EIGHTHS[eighths[edge]]
        self._owner[edge] = len(self._styles) - 1
        self._shade = Style(bgcolor=shade)

    def line(self, series: Series, bands: plot.Bands) -> None:
        """Draw the line of the means."""
        mean = self._rows_of(bands.mean)
        bits = plot.cells_of(plot.picture(*plot.reach(mean, mean), self._dots))
        self._bits |= bits
        self._styles.append(series.style)
        self._owner[bits > 0] = len(self._styles) - 1

    def _rows_of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        return plot.row_of(values, *self._scale, self._dots)

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
        characters = np.where(self._bits > 0, plot.CHARACTERS[self._bits], self._under)
        owner = self._owner
        self._styles.append(theme.CHART_GAP)
        for row, first, text in self._texts:
            characters[row, first : first + len(text)] = list(text)
            owner[row, first : first + len(text)] = len(self._styles) - 1
        made: list[FixedParts] = []
        pages = [style + Style(bgcolor=theme.BACKGROUND) for style in self._styles]
        looks = [*pages, *(page + self._shade for page in pages)]
        codes = owner + len(pages) * self._shaded
        for letters, runs in zip(characters.tolist(), plot.row_runs(codes), strict=True):
            text = "".join(letters)
            made.append(tuple((text[first:after], looks[number]) for first, after, number in runs))
        return made


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
        after = grid.column_of(gap.after - 1) + 1
        reasons[max(0, grid.column_of(gap.first)) : max(0, after)] = _REASONS.index(gap.reason)
    reasons[: max(0, grid.column_of(begins_s))] = _REASONS.index(chart.before)
    reasons[: max(0, grid.column_of(0))] = _REASONS.index(Reason.BEFORE_START)
    for gap in chart.past_gaps:
        after = grid.column_of(gap.after)
        reasons[max(0, grid.column_of(gap.first)) : max(0, after)] = _REASONS.index(gap.reason)
    numbers = np.where(missing, reasons + 1, 0)
    return [
        (first, after, _REASONS[number - 1])
        for first, after, number in plot.row_runs(numbers[np.newaxis])[0]
        if number
    ]
