"""The fleet's past as charts, in the space that a small fleet's heat map leaves.

They show history, catalogue limits, rules and alerts of the whole fleet, independent of the cursor.
A chip's own past is in the Chip view.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import FLEET_NODE
from trnfleet.domain.quantities import signed_percent, with_unit
from trnfleet.monitor.problems.state import jobs_of
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.gaps import Reason
from trnfleet.monitor.store.job_history import POWER, STEP_TIME
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts.axes import Limit
from trnfleet.tui.charts.chart import Chart, Series
from trnfleet.tui.charts.history import (
    MEAN_S,
    read_past,
)
from trnfleet.tui.charts.place import UTIL, ChartedPlace, ChartGrid, ChartSource, Trend
from trnfleet.tui.metric_display import FLEET_CHARTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.style import Style

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.store.rings.record import Track
    from trnfleet.tui.charts.history import ChartPast
    from trnfleet.tui.state.context import UiContext


class FleetSource(NamedTuple):
    """Data read once for all charts of a fleet."""

    fleet: ChartSource
    jobs: tuple[str, ...]
    """Names of the jobs with series, by descending power."""
    styles: dict[str, Style]
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
        styles = {name: theme.JOB_STYLES[slots[name]] for name in shown}
        jobs = read_past(context, times, "", shown) if shown else None
        return FleetSource(fleet, shown, styles, tracks, jobs)

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
                series.append(
                    Series(changed, self.styles[name], plain(name), has_band=False, before=before)
                )
        return series


def trend_makers(context: UiContext) -> list[Callable[[], Trend]]:
    """Return a maker for each chart of a fleet, the most important first.

    The caller makes as many as there is room for.
    """
    source = FleetSource.read(context)
    steps = _steps(source)
    return [
        partial(_power, source),
        *([] if steps is None else [lambda: steps]),
        source.fleet.busy,
        *(
            partial(source.fleet.single, field)
            for field in FLEET_CHARTS
            if field.key not in {POWER, UTIL}
        ),
    ]


def _power(source: FleetSource) -> Trend:
    """Return the chips' power by job, or the fleet's without jobs."""
    layout = source.context.monitor.store.layout
    cap_w = {kind.name: kind.chip.power_max_w.value for kind in layout.types}
    by_instance = np.array([cap_w[kind.name] for kind in layout.types])[layout.instance_type]
    chips = layout.sizes
    # The header's cap: of the chips whose power is known.
    fleet_w = source.context.frame.summary.mean.power_cap_w or float((by_instance * chips).sum())
    series = source.job_series(POWER, lambda _name, track: track)
    cap_text = f" of {with_unit(fleet_w, 'W')}"
    note = source.fleet.note
    if not series:
        limits = [Limit(fleet_w, "cap", theme.CHART_CAP)]
        chart = source.fleet.chart([source.fleet.series(BY_KEY[POWER])], "W", limits=limits)
        return Trend("Power", POWER, cap_text, chart, (), note, jobs=source.every_job)
    jobs = source.context.monitor.ingest.job_table.placed
    placed = source.context.monitor.store.job_of
    numbers = [jobs.index(name) for name in source.jobs if name in jobs]
    largest_w = max(
        (float((by_instance * chips)[placed == number].sum()) for number in numbers), default=0.0
    )
    limits = [Limit(largest_w, "cap", theme.CHART_CAP)] if largest_w else []
    figures = tuple(with_unit(_last(line.track), "W") for line in series)
    chart = source.job_chart(series, "W", limits=limits)
    return Trend("Power", POWER, cap_text, chart, figures, note, jobs=source.every_job)


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
    now = {plain(name): running.slowdown_pct(jobs[name]) for name in source.jobs if name in jobs}
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
