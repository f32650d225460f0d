"""The past of one place, from the fleet to a chip, or of one job.

The charts stand beside a list, for the entity under its cursor. Figures in the titles are those of
the tree's rows: means of the last seconds; for a chip the present value.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.style import Style

from trnfleet.domain.address import LEVEL_NAMES, Level
from trnfleet.domain.alerts.alert import address_of, is_below
from trnfleet.domain.layout import FLEET_NODE, Node
from trnfleet.domain.quantities import with_unit
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.fields import BY_KEY, Field
from trnfleet.monitor.store.job_history import POWER, STATE, STATES, STEP_TIME
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.axes import ChartMark, Limit
from trnfleet.tui.charts.chart import Chart, Series, draw, head, legend, value_axis
from trnfleet.tui.charts.history import (
    MEAN_S,
    ChartInputs,
    ChartPast,
    before_of,
    chart_inputs,
    figure_of,
    fired_marks,
    read_past,
    resolution,
    thresholds,
)
from trnfleet.tui.format.freshness import FreshnessText, describe
from trnfleet.tui.format.jobs import look
from trnfleet.tui.metric_display import DISPLAY, FLEET_CHARTS, fleet_name
from trnfleet.tui.widgets.cells import FixedParts, Parts, TextColumn, beside
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line, text_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from trnfleet.tui.state.context import UiContext


class Trend(NamedTuple):
    """One chart with its title."""

    name: str
    key: str
    """Field of the present mean in the title; empty for none."""
    comparison: str
    """Text behind the value, such as ` of 8 kW`."""
    chart: Chart
    figures: tuple[str, ...]
    """Of the series in the legend; keys of more fields in the title if there is none."""
    note: str
    jobs: tuple[str, ...] = ()
    """Names of all jobs if the series are a selection. Shortened names must be unique among them.
    """

    def title(self, figure: Callable[[str], str], width: int) -> Parts:
        """Return the title: its name, the fleet's present value, and the legend.

        Args:
            figure: Returns the fleet's present mean of a field, self.figures.
            width: Cells of the chart.
        """
        value = f" {figure(self.key)}" if self.key else ""
        parts: Parts = [(self.name, theme.STRONG), (value + self.comparison, theme.BASE)]
        series = [line for line in self.chart.series if line.name]
        if not series:
            return [
                *parts,
                *((f"  {BY_KEY[key].title} {figure(key)}", theme.QUIET) for key in self.figures),
            ]
        bare: Parts = [parts[0], (value, theme.BASE)]
        room = width - sum(len(text) for text, _ in parts)
        whole = sum(
            len(line.name) + len(text) + 3 for line, text in zip(series, self.figures, strict=True)
        )
        # What the line is a mean over goes before figures; with these the span stays.
        span = len(self.note.partition(", ")[0]) + 3
        if whole <= room - span:
            return [*parts, *legend(series, self.figures, room - span, self.jobs)]
        # The note goes before names are cut, then what the value is compared with.
        for title, note in ((parts, len(self.note) + 3), (parts, 2), (bare, 2)):
            parts = [
                *title,
                *legend(
                    series,
                    self.figures,
                    width - note - sum(len(text) for text, _ in title),
                    self.jobs,
                ),
            ]
            if len(parts) == len(title) + len(series) and not parts[-1][0].startswith(" +"):
                break
        return parts


LEAST_ROWS = 7
"""Title, four rows, time axis and a blank line. A smaller chart shows no more than a number."""
MOST_ROWS = 40
_CHART_WIDTH = 42
_WORDS_FROM = 60
"""Least cells of a chart, and least cells for unabridged titles and limits."""
_COMFORTABLE_ROWS = 9
_MOST_COLUMNS = 3
_GAP = 2


class ChartPlan(NamedTuple):
    """How charts share the space."""

    columns: int
    rows: int
    width: int
    """Cells of each."""

    @staticmethod
    def arrange(number: int, width: int, height: int) -> ChartPlan:
        """Return the arrangement of as many charts as fit, in whole rows."""
        most = max(1, min(_MOST_COLUMNS, number, (width + _GAP) // (_CHART_WIDTH + _GAP)))
        high = max(1, height // _COMFORTABLE_ROWS)
        roomy = (width + _GAP) // (_WORDS_FROM + _GAP)
        # Below each other where beside each other titles and limits would lack their words.
        columns = next(
            (across for across in range(min(most, roomy), 0, -1) if across * high >= number), most
        )
        rows = max(1, min(number // columns, high))
        return ChartPlan(columns, rows, (width - _GAP * (columns - 1)) // columns)


class ChartGrid(LineView, can_focus=False):
    """Charts beside and below each other; subclasses choose them."""

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._ui = context
        self._drawn_of: Hashable = None
        self._drawn: list[tuple[Trend, list[FixedParts]]] = []
        self._plan = ChartPlan(1, 1, 1)
        self._heights = [1]

    @abstractmethod
    def makers(self) -> list[Callable[[], Trend]]:
        """Return a function per chart, the most important first.

        Only charts with room are made.
        """

    @abstractmethod
    def figure(self, key: str) -> str:
        """Return the text of a field's present value, the value of a chart's last column."""

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the charts, divided evenly over the space."""
        return self.rows_of_charts(height, width)[top:height]

    def rows_of_charts(self, height: int, width: int) -> list[Line]:
        """Return the charts' lines; none where there are no charts."""
        drawn, plan, heights = self._charts(width - 2, height)
        made: list[Line] = []
        for row in range(plan.rows if drawn else 0):
            cells: list[TextColumn] = []
            for trend, body in drawn[row * plan.columns : (row + 1) * plan.columns]:
                title = head(trend.title(self.figure, plan.width), trend.note, plan.width)
                cells += [
                    TextColumn((), _GAP if cells else 1),
                    TextColumn([title, *body], plan.width),
                ]
            lines = beside(cells, width)
            made += [blank_line(width)] * (heights[row] - len(lines)) + lines
        return made

    def restyled(self) -> None:
        """Draw again in another theme."""
        self._drawn_of = None

    def drawn_of(self) -> tuple[Hashable, ...]:
        """Return the inputs of the charts besides their size.

        A change redraws them.
        """
        context = self._ui
        monitor = context.monitor
        return (
            monitor.revision.source,
            monitor.history.end,
            monitor.store.generation,
            context.alerts.revision,
            context.window.span_s(monitor.history.end),
            context.shows_past,
            None if context.history is None else context.history.revision,
        )

    def _charts(
        self, width: int, height: int
    ) -> tuple[list[tuple[Trend, list[FixedParts]]], ChartPlan, list[int]]:
        """Return the charts, redrawn only for a new sample, alert or size."""
        drawn_of = (*self.drawn_of(), width, height)
        if drawn_of != self._drawn_of:
            self._drawn_of = drawn_of
            makers = self.makers()
            plan = ChartPlan.arrange(max(1, len(makers)), width, height)
            heights = [height // plan.rows + (row < height % plan.rows) for row in range(plan.rows)]
            placed = [
                (make(), number // plan.columns)
                for number, make in enumerate(makers[: plan.columns * plan.rows])
            ]
            # One time axis a screen: below the last chart of each column, all equally wide.
            last = len(placed) - plan.columns
            sizes = [
                heights[row] - 1 - (row == 0) - (number >= last)
                for number, (_, row) in enumerate(placed)
            ]
            axes = [
                value_axis(trend.chart, plan.width, rows + 1)
                for (trend, _), rows in zip(placed, sizes, strict=True)
            ]
            shared = max((axis.cells for axis in axes), default=0)
            self._drawn = [
                (
                    trend,
                    draw(
                        trend.chart,
                        plan.width,
                        rows + (number >= last),
                        axis=shared,
                        own=axis,
                        has_times=number >= last,
                    ),
                )
                for number, ((trend, _), rows, axis) in enumerate(
                    zip(placed, sizes, axes, strict=True)
                )
            ]
            self._plan = plan
            self._heights = heights
        return self._drawn, self._plan, self._heights


NO_STATE = "┄"
"""Sign of a time in which a job's state is not known."""
UTIL = "nc_util_pct"
_MFU = "mfu_pct"


class ChartedPlace(NamedTuple):
    """The subject of charts."""

    context: UiContext
    address: str = ""
    """Of a node; empty for the fleet, and for a job alone."""
    job: str = ""
    """Name of a job; its own charts come first."""
    without: str = ""
    """Key of a field charted elsewhere on the screen."""


class PlaceCharts(ChartGrid):
    """Charts of the place under a list's cursor, below a line with its name."""

    DEFAULT_CSS = "PlaceCharts { display: none; overflow: hidden; }"

    def __init__(self, context: UiContext, place: Callable[[], ChartedPlace | None]) -> None:
        super().__init__(context)
        self._place_of = place
        self._place: ChartedPlace | None = None
        self._source: ChartSource | None = None

    def lend(self, rows: int) -> None:
        """Use a number of rows, or none if they are too few."""
        super().lend(rows if rows >= LEAST_ROWS else 0)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the place's name and its charts."""
        place = self._place = self._place_of()
        if place is None:
            return []
        made = self.rows_of_charts(height, width)
        if self._source is None:
            return []
        # It stands in place of the blank line above charts.
        title = [
            (" ", theme.BASE),
            (self._source.title, theme.STRONG),
            (self._source.words, theme.QUIET),
        ]
        state = self._source.state
        if state is not None:
            title.append((f"  {state.text}", state.style))
        return [text_line(head(title, "", width - 1), width), *made[1:]][top:height]

    def makers(self) -> list[Callable[[], Trend]]:
        self._source = None if self._place is None else ChartSource.read(self._place)
        return [] if self._source is None else self._source.makers()

    def drawn_of(self) -> tuple[Hashable, ...]:
        place = self._place
        if place is None:
            return ()
        self._ui = place.context
        return (*super().drawn_of(), place.context.monitor.fleet_name, *place[1:])

    def figure(self, key: str) -> str:
        return "" if self._source is None else self._source.figure(key)


class ChartSource(NamedTuple):
    """Data read once for all charts of a place, and its charts."""

    place: ChartedPlace
    node: Node | None
    """None for a place missing in the layout, and for a job alone."""
    inputs: ChartInputs
    marks: tuple[ChartMark, ...]
    past: ChartPast | None
    title: str
    words: str
    state: FreshnessText | None
    """Its freshness if nothing in it is live: last known values are no present values."""

    @staticmethod
    def read(place: ChartedPlace) -> ChartSource | None:
        """Return the data of a place; None if it is unknown."""
        node = _node_of(place)
        return ChartSource.read_node(place, node) if node is not None or place.job else None

    @staticmethod
    def read_node(place: ChartedPlace, node: Node | None) -> ChartSource:
        """Return the data of a node, or of a place's job."""
        context = place.context
        monitor = context.monitor
        layout = monitor.store.layout
        history = monitor.history
        path = "" if node is None else layout.path(node)
        if node is not None and (node.level is Level.CHIP or not history.seconds(node.level)):
            history.watch(path)
        inputs = chart_inputs(monitor, context.window, shows_past=context.shows_past)
        span_s = inputs.times.span_s
        if place.job:
            marks = fired_marks(monitor, span_s, lambda alert: alert.job == place.job)
        else:
            marks = fired_marks(
                monitor, span_s, lambda alert: is_below(address_of(alert).partition(":")[0], path)
            )
        chart_history = None if node is None else read_past(context, inputs.times, path)
        names = monitor.ingest.names
        name = plain(names.address(path)) if path else plain(monitor.fleet_name, 64)
        level = "" if node is None else LEVEL_NAMES[node.level]
        if (
            node is not None
            and node.level is Level.ULTRASERVER
            and layout.is_standalone[node.number]
        ):
            level = "instances outside UltraServers"
        title, words = (name, f"  {level}") if node is not None else ("", "")
        if place.job:
            words = f"  {title}{words}" if title else ""
            title = f"job {plain(names.job(place.job), 64)}"
        state = None if node is None else _state_of(context, node)
        return ChartSource(place, node, inputs, marks, chart_history, title, words, state)

    def makers(self) -> list[Callable[[], Trend]]:
        """Return a function per chart, the most important first."""
        made: list[Callable[[], Trend]] = []
        history = self.place.context.monitor.history
        job = self.place.job
        if job and job in history.job_names():
            for key in (STEP_TIME, POWER):
                known = history.job_track(job, key, self.inputs.times.span_s).mean
                if key != self.place.without and not np.isnan(known).all():
                    made.append(partial(self._job_trend, key))
        if self.node is None:
            return made
        rows = self.place.context.monitor.store.layout.instance_range(self.node)
        fields = [
            field
            for field in FLEET_CHARTS
            if field.key != self.place.without
            and self.place.context.monitor.store.announces(
                field.parts, slice(rows.start, rows.stop)
            )
        ]
        if self.place.without != UTIL:
            made.append(self.busy)
        return made + [partial(self.single, field) for field in fields if field.key != UTIL]

    def figure(self, key: str) -> str:
        """Return a field's value as the tree's row of the place has it."""
        node = self.node
        store = self.place.context.monitor.store
        averages = self.place.context.frame.averages
        field = BY_KEY[key]
        is_ready = self._is_chip or self._has_averages
        if node is None or self.state is not None or not is_ready:
            return with_unit(None, field.unit)
        value = float(field.values(store, averages, node.level, np.array([node.number]))[0])
        return with_unit(value, field.unit) + (" now" if node.level is Level.CHIP else "")

    @property
    def _has_averages(self) -> bool:
        averages = self.place.context.frame.averages
        generation = self.place.context.monitor.store.generation
        return averages.rollups.ready and averages.generation == generation

    @property
    def _is_chip(self) -> bool:
        return self.node is not None and self.node.level is Level.CHIP

    @property
    def note(self) -> str:
        """The note of a chart: span, averaging, and length of a step of history."""
        if self._is_chip:
            return self.inputs.line_note + resolution(self.past)
        return f"{self.inputs.note}, {MEAN_S} s mean{resolution(self.past)}"

    def series(self, field: Field) -> Series:
        """Return the samples of a field."""
        context = self.place.context
        node = self.node or FLEET_NODE
        layout = context.monitor.store.layout
        history = context.monitor.history
        track = history.track(layout, node, field.key, self.inputs.times.span_s)
        before = (
            None
            if self.past is None
            else self.past.field(field, figure_of(field, layout, node), track)
        )
        mean_s = self.inputs.mean_s if self._is_chip else MEAN_S
        area = theme.AREAS[DISPLAY[field.key].ramp]
        style = theme.BASE + Style(color=area[-1].color)
        return Series(track.smoothed(mean_s), style, before=before, area=area)

    def chart(self, series: list[Series], unit: str, **rest: object) -> Chart:
        """Return a chart of some series, with marks and gaps."""
        reason = before_of(self.place.context.monitor, (self.node or FLEET_NODE).level)
        chart = Chart(
            series, unit, self.inputs.times, marks=self.marks, gaps=self.inputs.gaps, before=reason
        )
        if self.past is not None:
            chart = chart._replace(past_gaps=self.past.gaps([line.track for line in series]))
        return chart._replace(**rest)  # type: ignore[arg-type]  # the names are checked by tests that draw all charts

    def busy(self) -> Trend:
        """Return utilisation of NeuronCores, with MFU in its title."""
        chart = self.chart([self.series(BY_KEY[UTIL])], "%", ceiling=100.0)
        return Trend(BY_KEY[UTIL].title, UTIL, "", chart, (_MFU,), self.note)

    def single(self, field: Field) -> Trend:
        """Return one field with the limits of rules and hardware."""
        monitor = self.place.context.monitor
        node = self.node or FLEET_NODE
        limits = list(thresholds(monitor, field, node.level))
        peak_text = ""
        if not field.is_ratio and field.peak is not None:
            most = self._most(field, node)
            limits.append(Limit(most, "cap" if field.key == POWER else "peak", theme.CHART_CAP))
            peak_text = f" of {with_unit(most, field.unit)}"
        ceiling = 100.0 if field.unit == "%" else np.inf
        chart = self.chart(
            [self.series(field)], field.unit, floor=field.low, ceiling=ceiling, limits=limits
        )
        name = field.title if self._is_chip else fleet_name(field)
        return Trend(name, field.key, peak_text, chart, (), self.note)

    def _most(self, field: Field, node: Node) -> float:
        """Return the hardware's maximum of a field for a node."""
        context = self.place.context
        layout = context.monitor.store.layout
        if (
            field.key == POWER
            and node.level is Level.FLEET
            and context.frame.summary.mean.power_cap_w
        ):
            # The header's: of the chips whose power is known.
            return context.frame.summary.mean.power_cap_w
        peak = field.peak
        assert peak is not None  # noqa: S101  callers have looked
        by_type = np.array([peak(kind.chip) for kind in layout.types])
        covered = layout.instance_range(node)
        rows = slice(covered.start, covered.stop)
        chips = np.ones(1) if node.level is Level.CHIP else layout.sizes[rows]
        return float((by_type[layout.instance_type[rows]] * chips).sum())

    def states(self, grid: plot.Grid) -> FixedParts:
        """Return the most serious state of the job in each cell of a grid."""
        history = self.place.context.monitor.history
        track = history.job_track(self.place.job, STATE, self.inputs.times.span_s)
        worst = np.fmax.reduce(grid.bands(track).high.reshape(-1, plot.COLUMNS), axis=1)
        numbers = np.where(np.isnan(worst), -1, worst).astype(np.int64)
        made: list[tuple[str, Style]] = []
        for first, after, number in plot.row_runs(numbers[np.newaxis])[0]:
            glyph, style = (NO_STATE, theme.CHART_GAP) if number < 0 else look(STATES[number])
            made.append((glyph * (after - first), style))
        return tuple(made)

    def _job_trend(self, key: str) -> Trend:
        """Return the chart of a job's step time or of its chips' power.

        Step time has its usual value and the rule's limit. Below is the job's state.
        """
        monitor = self.place.context.monitor
        name = self.place.job
        track = monitor.history.job_track(name, key, self.inputs.times.span_s).smoothed(MEAN_S)
        note = f"{self.inputs.note}, {MEAN_S} s mean"
        limits: list[Limit] = []
        if key == STEP_TIME:
            usual_s = monitor.alerts.usual(STEP_TIME, name)
            rule = next(
                (
                    candidate
                    for candidate in monitor.alerts.rules
                    if candidate.figure == STEP_TIME and candidate.reference
                ),
                None,
            )
            if usual_s:
                limits.append(Limit(usual_s, "usual", theme.CHART_CAP))
                if rule is not None and rule.limit is not None and not rule.is_plain:
                    limits.append(Limit(usual_s * rule.limit, "alert", theme.CHART_THRESHOLD))
        unit = "s" if key == STEP_TIME else "W"
        chart = Chart(
            [Series(track, theme.CHART, area=theme.AREAS[""])],
            unit,
            self.inputs.times,
            limits=limits,
            marks=self.marks,
            gaps=self.inputs.gaps,
            below=self.states,
        )
        last = float(track.mean[-1]) if len(track.mean) else float("nan")
        if key == POWER:
            last = self._job_power_w()
        title = f"{'Step time' if key == STEP_TIME else 'Power'} of the job {with_unit(last, unit)}"
        return Trend(title, "", "", chart, (), note)

    def _job_power_w(self) -> float:
        """Return the power of the job's instances, as their rows in the tree have it."""
        monitor = self.place.context.monitor
        averages = self.place.context.frame.averages
        placed = monitor.ingest.job_table.placed
        if not self._has_averages or self.place.job not in placed:
            return float("nan")
        rows = np.flatnonzero(monitor.store.job_of == placed.index(self.place.job))
        watts = BY_KEY[POWER].values(monitor.store, averages, Level.INSTANCE, rows)
        return float(np.nansum(watts)) if np.isfinite(watts).any() else float("nan")


def _state_of(context: UiContext, node: Node) -> FreshnessText | None:
    """Return the freshness of a node with nothing live.

    None for other nodes, and while it is unknown.
    """
    store = context.monitor.store
    rollups = context.frame.rollups
    if node.level is Level.CHIP:
        counts = np.eye(len(Freshness), dtype=np.int64)[store.chip_state[node.number]]
    elif rollups.generation != store.generation or not rollups.ready:
        return None
    else:
        counts = rollups.states(node.level)[node.number]
    if counts[Freshness.LIVE] or not counts.sum():
        return None
    chips = store.layout.chip_range(node)
    seen_s = float(store.chip_seen_s[chips.start : chips.stop].max(initial=-np.inf))
    return describe(tuple(counts.tolist()), context.monitor.clock.monotonic_s() - seen_s)


def _node_of(place: ChartedPlace) -> Node | None:
    """Return the node to chart: for a core its chip.

    Without an address it is the fleet, or None if a job is charted.
    """
    if not place.address:
        return None if place.job else FLEET_NODE
    layout = place.context.monitor.store.layout
    node = layout.find(place.address)
    return layout.parent(node) if node is not None and node.level is Level.CORE else node
