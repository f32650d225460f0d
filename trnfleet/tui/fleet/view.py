"""The Fleet view: heat map, legend, selection, and beside them problems and jobs.

It describes the map's colours in words, and shares the lines of output among its widgets. The
fleet's past is in charts (`Trends`) in the space that a small fleet's heat map leaves. They show
history, catalogue limits, rules and alerts of the whole fleet, independent of the cursor.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from textual import on
from textual.containers import Container

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import NO_NAMES, Level, Names
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.layout import FLEET_NODE, Node
from trnfleet.domain.quantities import counted, signed_percent, with_unit
from trnfleet.monitor.fleet_state import LOADING, FleetState
from trnfleet.monitor.problems.state import jobs_of
from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT
from trnfleet.monitor.store.announced import unknown_text
from trnfleet.monitor.store.fields import BY_KEY, Field
from trnfleet.monitor.store.gaps import Reason
from trnfleet.monitor.store.job_history import POWER, STEP_TIME
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts.axes import Limit
from trnfleet.tui.charts.chart import Chart, Series
from trnfleet.tui.charts.history import MEAN_S, ChartPast, read_past
from trnfleet.tui.charts.place import (
    LEAST_ROWS,
    MOST_ROWS,
    UTIL,
    ChartedPlace,
    ChartGrid,
    ChartSource,
    PlaceCharts,
    Trend,
)
from trnfleet.tui.fleet.filtering import filter_head
from trnfleet.tui.fleet.heatmap import HeatMap
from trnfleet.tui.fleet.heatmap_health import HEALTH, WORDS, MapHealth
from trnfleet.tui.fleet.heatmap_pixels import Trust, is_count
from trnfleet.tui.fleet.heatmap_style import health_style
from trnfleet.tui.fleet.jobs import JobList
from trnfleet.tui.fleet.problems import ProblemList, problem_table, title
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.format.alerts import event_address, tally_text, worst_of
from trnfleet.tui.keys import bind
from trnfleet.tui.metric_display import FLEET_CHARTS, SELECTION, fleet_name
from trnfleet.tui.state.chip_table import CHIP_COLUMNS
from trnfleet.tui.state.subjects import Subject, of_alerts, of_job
from trnfleet.tui.view import EVENTS, FilteredView, Lists, View, filter_keys
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.cells import Parts, fit, width_of, wrapped
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.focus import focus_on
from trnfleet.tui.widgets.line_view import Line, LineView, text_line
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.filters.columns import Columns
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.store.rings.record import Track
    from trnfleet.tui.snapshots.table import ExportTable
    from trnfleet.tui.state.context import UiContext


class FleetSource(NamedTuple):
    """Data read once for all charts of a fleet."""

    fleet: ChartSource
    jobs: tuple[str, ...]
    """Names of the jobs with series, by descending power."""
    slots: dict[str, int]
    """Places of their colours."""
    tracks: dict[tuple[str, str], Track]
    """History of jobs, by job name and figure."""
    jobs_past: ChartPast | None
    """History of its jobs; None without a folder, or for a short span."""

    @staticmethod
    def read(context: UiContext) -> FleetSource:
        """Return the data of a fleet."""
        fleet = ChartSource.read_node(ChartedPlace(context), FLEET_NODE)
        history = context.monitor.history
        times = fleet.inputs.times
        power: dict[str, float] = {}
        tracks: dict[tuple[str, str], Track] = {}
        for name in history.job_names():
            track = tracks[name, POWER] = history.job_track(name, POWER, times.span_s)
            known = _known(track.last(times.span_s))
            if len(known):
                power[name] = float(known[-1])
        most = len(theme.JOB_STYLES)
        shown = tuple(sorted(power, key=lambda name: (-power[name], name))[:most])
        slots = theme.job_slots(shown)
        jobs = read_past(context, times, "", shown) if shown else None
        return FleetSource(fleet, shown, slots, tracks, jobs)

    @property
    def context(self) -> UiContext:
        return self.fleet.place.context

    @property
    def every_job(self) -> tuple[str, ...]:
        """Names of all jobs, as they are shown."""
        return tuple(map(plain, self.context.monitor.ingest.jobs))

    def job_chart(self, series: list[Series], unit: str, **rest: object) -> Chart:
        """Return a chart of jobs, with their history."""
        return self.fleet._replace(past=self.jobs_past).chart(series, unit, **rest)

    def job_series(self, key: str, change: Callable[[str, Track], Track | None]) -> list[Series]:
        """Return the series of the jobs with any sample of a figure."""
        span_s = self.fleet.inputs.times.span_s
        series = []
        for name in self.jobs:
            track = self.tracks.get((name, key))
            if track is None:
                track = self.context.monitor.history.job_track(name, key, span_s)
            changed = (
                change(name, track.smoothed(MEAN_S)) if len(_known(track.last(span_s))) else None
            )
            if changed is not None:
                former = None if self.jobs_past is None else self.jobs_past.job(name, key, track)
                before = None if former is None else change(name, former)
                slot = self.slots[name]
                series.append(
                    Series(
                        changed,
                        theme.JOB_STYLES[slot],
                        plain(name),
                        has_band=False,
                        before=before,
                        area=(theme.LAYERS[slot],) if key == POWER else (),
                    )
                )
        return series


def trend_makers(context: UiContext) -> list[Callable[[], Trend]]:
    """Return a maker for each chart of a fleet, the most important first.

    The caller makes as many as there is room for.
    """
    source = FleetSource.read(context)
    steps = _steps(source)
    announced = context.frame.summary.announced
    return [
        *([partial(_power, source)] if announced.knows([POWER]) else []),
        *([] if steps is None else [lambda: steps]),
        source.fleet.busy,
        *(
            partial(source.fleet.single, field)
            for field in FLEET_CHARTS
            if field.key not in {POWER, UTIL} and announced.knows(field.parts)
        ),
    ]


def _power(source: FleetSource) -> Trend:
    """Return the chips' power, stacked by job if there are any."""
    layout = source.context.monitor.store.layout
    cap_w = np.array([kind.chip.power_max_w.value for kind in layout.types])
    # The header's cap: of the chips whose power is known.
    fleet_w = source.context.frame.summary.mean.power_cap_w or float(
        (cap_w[layout.instance_type] * layout.sizes).sum()
    )
    series = source.job_series(POWER, lambda _name, track: track)
    total = source.fleet.series(BY_KEY[POWER])
    limits = [Limit(fleet_w, "cap", theme.CHART_CAP)]
    chart = source.fleet.chart([total], "W", limits=limits)
    if series:
        chart = source.job_chart(series, "W", limits=limits, total=total._replace(has_band=False))
    figures = tuple(with_unit(_last(line.track), "W") for line in series)
    cap_text = f" of {with_unit(fleet_w, 'W')}"
    return Trend("Power", POWER, cap_text, chart, figures, source.fleet.note, jobs=source.every_job)


def _steps(source: FleetSource) -> Trend | None:
    """Return the deviation of step times from usual, per job.

    None if no job has steps.
    """
    monitor = source.context.monitor
    rule = next((candidate for candidate in monitor.alerts.rules if _is_step_rule(candidate)), None)

    def distance(name: str, track: Track) -> Track | None:
        base = monitor.alerts.usual(STEP_TIME, name)
        return track.distance_pct(base) if base else None

    series = source.job_series(STEP_TIME, distance)
    if not series:
        return None
    # Those of the list of jobs: two figures of one thing are one figure.
    running = jobs_of(monitor)
    jobs = running.jobs
    names = monitor.ingest.names
    now = {
        names.job(name): running.slowdown_pct(jobs[name]) for name in source.jobs if name in jobs
    }
    slowdowns = [now.get(line.name) for line in series]
    figures = tuple("n/a" if value is None else signed_percent(value) for value in slowdowns)
    limits = []
    if rule is not None and rule.limit is not None:
        value = 100.0 * (rule.limit - 1.0)
        limits = [Limit(value, "alert", theme.CHART_THRESHOLD, is_always_shown=True)]
    chart = source.job_chart(series, "%", limits=limits, is_signed=True, lacking=Reason.NO_STEPS)
    return Trend(
        "Step time, % of base", "", "", chart, figures, source.fleet.note, jobs=source.every_job
    )


def _is_step_rule(rule: Rule) -> bool:
    return rule.figure == STEP_TIME and rule.reference is not None and rule.reference.of == "past"


def _known(track: Track) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    known: np.ndarray[tuple[int], np.dtype[np.float32]] = track.mean[~np.isnan(track.mean)]
    return known


def _last(track: Track) -> float:
    """Return the newest value; NaN if it is not available."""
    return float(track.mean[-1]) if len(track.mean) else float("nan")


class Trends(ChartGrid):
    """Charts of the fleet beside and below each other."""

    def makers(self) -> list[Callable[[], Trend]]:
        return trend_makers(self._ui)

    def figure(self, key: str) -> str:
        """Return the header's mean of a field."""
        store = self._ui.monitor.store
        averages = self._ui.frame.averages
        is_ready = averages.rollups.ready and averages.generation == store.generation
        field = BY_KEY[key]
        value = float(field.values(store, averages, Level.FLEET, None)[0]) if is_ready else None
        return with_unit(value, field.unit)


LEAST_LATEST = 5
"""Rows of it, at least, and in steps of."""
PLACE = 20
"""Cells of a place: an instance and its chip."""
_MOST_LINES = 2
"""Most lines of an event's text below its place."""
ONE_LINE_FROM = 59
"""Least cells for an event in one line. Below it, the text has lines of its own."""


class LatestEvents(LineView, can_focus=False):
    """Events, newest first, in one line or two each.

    A click leads to an event's place.
    """

    DEFAULT_CSS = "LatestEvents { overflow: hidden; }"

    def __init__(self, monitor: FleetState, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._monitor = monitor

    @property
    def received(self) -> int:
        """How many events there have been; goes up with each."""
        ingest = self._monitor.ingest
        return ingest.events.received + ingest.alert_events.received

    def rows_wanted(self, width: int) -> int:
        """Return the rows of all events, in steps."""
        ingest = self._monitor.ingest
        number = (len(ingest.events) + len(ingest.alert_events)) * (
            1 if width >= ONE_LINE_FROM else 2
        )
        return -(-max(1, number) // LEAST_LATEST) * LEAST_LATEST

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        ingest = self._monitor.ingest
        rings = (ingest.events.newest_first(), ingest.alert_events.newest_first())
        newest = heapq.merge(*rings, key=operator.attrgetter("order"), reverse=True)
        made: list[Line] = []
        for event in itertools.islice(newest, height):
            address = event_address(event, self._monitor.alerts)
            told = event_lines(event.shown(ingest.names), width - 1, height - len(made), address)
            made += [text_line(parts, width) for parts in told]
            if len(made) >= height:
                break
        none = " loading events …" if self._monitor.incomplete == LOADING else " no events yet"
        return made or [text_line([(none, theme.QUIET)], width)]


def event_lines(event: Event, width: int, most: int, address: str = "") -> list[Parts]:
    """Return an event's line, or more if narrow: time, sign, place and text.

    Args:
        event: The event.
        width: Cells.
        most: Lines available.
        address: Target of a click; empty for the list of events.
    """
    place = plain(last_segments(event.path) or event.job or event.subject) or "fleet"
    target = (
        ClickTarget(TargetKind.PLACE, address) if address else ClickTarget(TargetKind.VIEW, EVENTS)
    )
    head: Parts = [
        (f" {format_rfc3339(event.ts_ns)[11:19]} ", theme.QUIET),
        (f"{theme.SEVERITY_GLYPH[event.severity]} ", theme.SEVERITY_STYLE[event.severity]),
    ]
    used = width_of(head)
    happened = plain(event.text, 256)
    if width >= ONE_LINE_FROM:
        room = max(1, width - PLACE - used - 1)
        lines = [[*head, (f"{fit(place, PLACE)} ", theme.BASE), (fit(happened, room), theme.QUIET)]]
    else:
        room = max(1, width - used)
        indent = " " * min(used, max(0, width - 1))
        texts = [
            text for text in wrapped(happened, room, min(_MOST_LINES, most - 1)) if text.strip()
        ]
        lines = [
            [*head, (fit(place, room), theme.BASE)],
            *([(indent, theme.QUIET), (text, theme.QUIET)] for text in texts),
        ]
    return [[(text, linked(style, target)) for text, style in parts] for parts in lines]


TRUST_WORDS = {
    Trust.LIVE: "live",
    Trust.PARTLY: "partial",
    Trust.STALE: "stale: last known value",
    Trust.OFFLINE: "offline",
    Trust.UNKNOWN: "not heard yet",
    Trust.NOTHING: "",
}

ROWS_TO_SHARE = 22
"""Fewest rows that map and charts share; the map has up to three fifths of them."""
MOST_JOBS = 12
LEAST_JOBS = 10
LEAST_PROBLEMS = 6
HEADS = 5
"""Limits in rows of the lists. Most jobs beside many new events, fewest rows for many jobs, rows of
problems (and their step), rows of heads and gaps."""


class FleetView(FilteredView):
    """The first thing the eye meets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("next-pane", "switch", "Next pane"),
        bind("silenced", "silenced", "Show or hide silenced problems"),
        *filter_keys(
            "Filter map and problems: part of an address, power>450 & job=name, sev>=warning"
        ),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.map = HeatMap(context, id="map")
        self.problems = ProblemList(context, id="problems")
        self.jobs = JobList(context, id="jobs")
        self.trends = Trends(context, id="trends")
        self._map_side = Container(id="map-side")
        self._lent_rows = 0
        self._legend = Bar(id="legend")
        self._selection = Bar(id="selection")
        self._unknown = Bar(id="unknown")
        self._problems_head = Bar(id="problems-head")
        self._jobs_head = Bar(id="jobs-head")
        self._list_side = Container(id="list-side")
        self._latest_head = Bar(id="latest-head")
        self.latest = LatestEvents(self.monitor, id="latest")
        self.charts = PlaceCharts(context, lambda: ChartedPlace(context, self.place))
        self._shown: Hashable = None
        """Pass on screen, and the revision of alerts."""

    def compose(self) -> ComposeResult:
        with self._map_side:
            yield self._legend
            yield self.map
            yield self.trends
            yield self._selection
            yield self._unknown
        with self._list_side:
            yield self._problems_head
            yield self.problems
            yield self._jobs_head
            yield self.jobs
            yield self._latest_head
            yield self.latest
            yield self.charts
        yield self.prompt

    def on_mount(self) -> None:
        self._write()

    @property
    def place(self) -> str:
        """Address at the map's cursor, or of the problem or job it follows.

        It may be deeper than the map shows.
        """
        if self.jobs.has_focus and self.jobs.picked is not None:
            return self.jobs.place_of(self.jobs.picked)
        problem = self.problems.picked_here if self.problems.has_focus else None
        return (
            problem.place.address
            if problem is not None and problem.place.address
            else self.map.place
        )

    @property
    def lists(self) -> Lists:
        return Lists(problems=True, events=bool(self.latest.display))

    @property
    def subject(self) -> Subject:
        """Problem or job under the cursor of the focused list; else the map's selection."""
        if self.jobs.has_focus and self.jobs.picked is not None:
            return of_job(self.context.alerts, self.jobs.picked.job)
        problem = self.problems.picked if self.problems.has_focus else None
        alerts = () if problem is None else (held.alert for held in problem.alerts)
        return of_alerts(self.subject_context.alerts, alerts) or super().subject

    @property
    def subject_context(self) -> UiContext:
        """The fleet of the problem under the cursor, while its list has the keys."""
        problem = self.problems.picked if self.problems.has_focus else None
        return self.context if problem is None else self.problems.fleet_of(problem)

    def show_place(self, address: str) -> None:
        self.map.show_place(address)
        self._write()

    def take_focus(self) -> None:
        """The keys are the map's."""
        focus_on(self.map)

    def columns(self) -> Columns:
        return CHIP_COLUMNS

    def take_filter(self, wanted: Filter) -> None:
        """Apply a filter: highlight its chips on the map and list its problems."""
        self.problems.filter.apply(wanted)
        self.problems.filter.follow()
        self.map.filtered = self.problems.filter.mask
        self._shown = None
        self.tick()

    def export(self) -> ExportTable:
        """Return the problems that are listed."""
        return problem_table(self.problems.rows)

    def found_text(self) -> str:
        mask = self.map.filtered
        chips = 0 if mask is None else int(np.count_nonzero(mask))
        said = f"{counted(chips, 'chip')}, {counted(self.problems.count, 'problem')}"
        return said if chips or self.problems.count else hint(self.pattern, CHIP_COLUMNS) or said

    def close_prompt(self, pattern: str) -> None:
        """Apply the filter.

        If the cursor's chip does not match, the cursor moves to the first chip that does.
        """
        super().close_prompt(pattern)
        mask = self.map.filtered
        layout = self.monitor.store.layout
        node = layout.find(self.map.place)
        if mask is None or len(mask) != layout.chips or not mask.any() or node is None:
            return
        rows = layout.chip_range(node)
        if not mask[rows.start : rows.stop].any():
            self.map.show_place(layout.path(Node(Level.CHIP, int(mask.argmax()))))
            self._write()
            self.post_message(View.Moved(self.map.place))

    def renew(self) -> None:
        """Paint everything at the next tick: another monitor is shown."""
        self._shown = None

    def tick(self) -> None:
        """Paint changes of one pass, the most important in the fewest lines first."""
        rollups = self.context.frame.rollups
        news = (
            self.context.fleets.revision,
            self.monitor.incomplete,
            self.latest.received,
            len(self.monitor.ingest.jobs),
        )
        history = self.context.history
        history_revision = 0 if history is None else history.revision
        # Ages of jobs without a live chip count on.
        aging = self.monitor.ingest.job_table.last_known
        second = int(self.monitor.clock.monotonic_s()) if aging else 0
        shown = (
            rollups.generation,
            rollups.revision,
            history_revision,
            self.monitor.link.changes,
            second,
            *news,
        )
        if shown == self._shown:
            # What changes sizes draws itself.
            return
        self._share_space()
        if self.problems.filter.follow():
            self.map.filtered = self.problems.filter.mask
        self.problems.tick()
        self.jobs.tick()
        self.latest.tick()
        self.charts.tick()
        self._write()  # After the problems were taken: the heads count them.
        self.trends.tick()
        self.map.tick()
        # The map of another fleet may have another zoom level.
        self._write_legend()
        # Another grid may have another zoom level, and with it other rows to lend.
        if not self._share_space():
            self._shown = shown

    def on_resize(self) -> None:
        """Divide the space again, once the map knows its size."""
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        self._share_space()
        # Another zoom level may fit, and the map's head shows the chips per cell.
        self._write()

    def _share_lists(self) -> None:
        """Set the rows of problems, jobs and events.

        Problems and jobs get the rows they need, the newest events the rest. Rows that events do
        not fill are for more jobs, then for charts of the place under the cursor.
        """
        width, height = self._list_side.size
        rows: tuple[int, ...] | None = None
        spare = 0
        if height and self.jobs.display:
            every = 2 * max(1, len(self.monitor.ingest.jobs))
            problems = max(1, self.problems.count) * max(2, self.problems.lines_wanted(width - 2))
            # In steps, so that the rows below do not move with each problem.
            problems = max(LEAST_PROBLEMS, -(-problems // LEAST_PROBLEMS) * LEAST_PROBLEMS)
            left = height - problems - HEADS
            if left - min(every, LEAST_JOBS) >= LEAST_LATEST:
                jobs = min(every, 2 * MOST_JOBS, left - LEAST_LATEST)
                jobs = max(jobs, min(every, left - self.latest.rows_wanted(width)))
                spare = left - jobs - self.latest.rows_wanted(width)
                spare = spare if spare >= LEAST_ROWS else 0
                rows = (jobs, left - jobs - spare)
        self.charts.lend(spare)
        self._latest_head.display = self.latest.display = rows is not None
        if rows is None:
            for name in ("height", "max_height"):
                self.jobs.styles.clear_rule(name)
        else:
            self.jobs.styles.height, self.latest.styles.height = rows
            self.jobs.styles.max_height = rows[0]

    def _share_space(self) -> bool:
        """Lend the map's empty rows to the trends, or reclaim them.

        Return whether that changed.
        """
        self._share_lists()
        # Legend, selection and unknown figures take a row each.
        rows = self._map_side.size.height - 2 - bool(self._unknown.display)
        if rows <= 0 or not self.map.grid.groups:
            return False
        # A nearer map would leave no room for charts.
        self.map.give_room(rows if rows < ROWS_TO_SHARE else rows * 3 // 5)
        spare = min(MOST_ROWS, rows - self.map.zoom.extent(self.map.grid)[1])
        lent = spare if spare >= LEAST_ROWS and self.monitor.history.samples else 0
        if lent == self._lent_rows:
            return False
        self._lent_rows = lent
        self.trends.styles.height = lent
        self.trends.display = lent > 0
        return True

    def action_switch(self) -> None:
        """Move the focus from the map to the problems, and to the jobs if shown."""
        panes = [self.map, *(pane for pane in (self.problems, self.jobs) if pane.region.height)]
        at = next((number for number, pane in enumerate(panes) if pane.has_focus), -1)
        focus_on(panes[(at + 1) % len(panes)])

    def action_silenced(self) -> None:
        """Show silenced problems, too, or hide them again."""
        self.problems.toggle_silenced()
        self._write()

    @on(View.Moved)
    def _moved(self) -> None:
        self._share_space()
        self.charts.tick()
        self._write()

    @on(CursorList.Changed)
    def _pointed(self, message: CursorList.Changed) -> None:
        """Show the place of the problem or job under the cursor on the map."""
        message.stop()
        problem = self.problems.picked_here
        if self.jobs.has_focus:
            place = "" if self.jobs.picked is None else self.jobs.place_of(self.jobs.picked)
        else:
            place = "" if problem is None else problem.place.address
        if place:
            self.map.show_place(place)
            self.post_message(View.Moved(place))
        self._write()

    def _write_legend(self) -> None:
        """Write the map's head, or the filter if the lists have no room for it."""
        is_told = not self.wanted or bool(self._list_side.size.height)
        self._legend.show(
            lambda width: [
                (
                    self.map.legend(width)
                    if is_told
                    else filter_head(self.pattern, self.found_text(), width)
                )
            ]
        )

    def _write(self) -> None:
        self._write_legend()
        alerts = self.context.alerts.touching(self.map.place)
        names = self.monitor.ingest.names
        self._selection.show(lambda width: [selection(self.map, width, alerts, names)])
        summary = self.context.frame.summary
        unknown = unknown_text(summary.announced, summary.chips)
        self._unknown.display = bool(unknown)
        self._unknown.show(lambda width: [[(f" {_unknown_line(unknown, width - 1)}", theme.QUIET)]])
        problems = self.problems.problems
        shows_silenced = self.problems.shows_silenced
        incomplete = self.monitor.incomplete
        self._problems_head.show(
            lambda width: [
                (
                    filter_head(self.pattern, self.found_text(), width)
                    if self.wanted
                    else title(
                        problems, width - 10, shows_silenced=shows_silenced, incomplete=incomplete
                    )
                )
            ]
        )
        jobs = len(self.monitor.ingest.jobs)
        # The head's columns are those of the lines below it, which a scroll bar may make narrower.
        self._jobs_head.show(lambda _width: [self.jobs.head(jobs)])
        self._latest_head.show(
            lambda _width: [[(" Latest ", theme.STRONG), ("events, newest first", theme.GHOST)]]
        )


def _unknown_line(text: str, room: int) -> str:
    """Return the figures that are not known, with fewer words in little room."""
    why = " (p: why)"
    room -= len(why)
    if len(text) > room:
        text = f"{text[: max(0, room - 2)].rpartition(',')[0]} …"
    return text + why


def selection(
    heat: HeatMap, width: int, alerts: Sequence[AlertWithStatus] = (), names: Names = NO_NAMES
) -> Parts:
    """Return the line of the selection: address, value, whether it is live, and alerts.

    More if there is room.

    Args:
        heat: The map.
        width: Cells.
        alerts: Alerts there.
        names: Display names.
    """
    if not heat.grid.groups:
        return []
    place = plain(names.address(heat.place))
    if heat.zoom.unit is None:
        place += " and its neighbours"
    first: float | None = None
    if heat.field is HEALTH:
        health = heat.health()
        first, trust = heat.reading(SELECTION[0])
        shown = WORDS[health]
        style = health_style(health)
        if health in {MapHealth.IDLE, MapHealth.RESERVED_IDLE} and first > IDLE_BELOW_PCT:
            # The mean of 10 s beside it is still of a job that has just gone.
            shown = shown.replace("idle", "idle now")
    else:
        value, trust = heat.reading(heat.field)
        shown = _figure(heat, heat.field, value)
        style = theme.LINK
    words = TRUST_WORDS[Trust(trust)]
    # What follows says that it is stale or offline.
    said = words.partition(":")[0]
    shown = shown.removesuffix(said).removesuffix(", ") if said and heat.field is HEALTH else shown
    parts: Parts = [
        (" [ ] ", theme.QUIET),
        (place, theme.STRONG),
        (f"  {shown}" if shown else "", style),
    ]
    if width_of(parts) > width:
        parts[1] = (place.partition("/")[2] or place, theme.STRONG)
    parts += [("  ", theme.QUIET), (words, theme.QUIET if trust == Trust.LIVE else theme.BAR_ALERT)]
    if alerts:
        parts.append((f"  {tally_text([*alerts])}", theme.SEVERITY_STYLE[worst_of([*alerts])]))
    for field in SELECTION:
        if field is heat.field or not heat.knows(field):
            continue
        value = first if field is SELECTION[0] and first is not None else heat.reading(field)[0]
        text = f"  {_figure(heat, field, value)}"
        if width_of(parts) + len(text) > width:
            break
        parts.append((text, theme.QUIET))
    return parts


def _figure(heat: HeatMap, field: Field, value: float) -> str:
    """Return a field's value for the selection.

    For several chips it names the statistic.
    """
    if heat.zoom.unit is Level.CHIP:
        return f"{field.title} {with_unit(value, field.unit)}"
    # Several UltraServers have no row in the tree: their value is for one chip.
    a_chip = (
        " a chip" if heat.zoom.unit is None and not field.is_ratio and not is_count(field) else ""
    )
    return f"{fleet_name(field)} {with_unit(value, field.unit)}{a_chip}"
