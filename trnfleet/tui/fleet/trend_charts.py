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
from trnfleet.tui.metric_display import FLEET_CHARTS, fleet_name
from trnfleet.tui.state.chart_history import figure_of, read_kept, resolution
from trnfleet.tui.state.chart_window import MEAN_S, chart_inputs, fired_marks, thresholds
from trnfleet.tui.trends.place import ChartGrid, Trend
from trnfleet.tui.widgets.charts import Chart, Limit, Series

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.style import Style

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.store.fields import Field
    from trnfleet.monitor.store.rings.record import Track
    from trnfleet.tui.state.chart_history import Kept
    from trnfleet.tui.state.chart_window import ChartInputs
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.charts import Mark

_UNKNOWN = "n/a"
_UTIL = "nc_util_pct"


class Source(NamedTuple):
    """What is read once for all charts."""

    context: UiContext
    inputs: ChartInputs
    marks: tuple[Mark, ...]
    jobs: tuple[str, ...]
    """Names of the jobs with series, by descending power."""
    styles: dict[str, Style]
    tracks: dict[tuple[str, str], Track]
    """History of jobs, by job name and figure."""
    kept: Kept | None
    """History of the fleet; None without a folder, or for a short span."""
    kept_jobs: Kept | None
    """The same of its jobs."""

    @staticmethod
    def of(context: UiContext) -> Source:
        monitor = context.monitor
        inputs = chart_inputs(monitor, context.window, shows_past=context.shows_past)
        span_s, history = inputs.times.span_s, monitor.history
        power: dict[str, float] = {}
        tracks: dict[tuple[str, str], Track] = {}
        for name in history.job_names():
            track = tracks[name, POWER] = history.job_track(name, POWER, span_s)
            known = _known(track.last(span_s))
            if len(known):
                power[name] = float(known[-1])
        most = len(theme.JOB_STYLES)
        shown = tuple(sorted(power, key=lambda name: (-power[name], name))[:most])
        slots = theme.job_slots(shown)
        styles = {name: theme.JOB_STYLES[slots[name]] for name in shown}
        chart_history = read_kept(context, inputs.times, "")
        jobs = read_kept(context, inputs.times, "", shown) if shown else None
        return Source(
            context,
            inputs,
            fired_marks(monitor, span_s),
            shown,
            styles,
            tracks,
            chart_history,
            jobs,
        )

    @property
    def every_job(self) -> tuple[str, ...]:
        """Names of all jobs, as they are shown."""
        return tuple(map(plain, self.context.monitor.ingest.jobs))

    def chart(
        self, series: list[Series], unit: str, *, is_of_jobs: bool = False, **rest: object
    ) -> Chart:
        history = self.kept_jobs if is_of_jobs else self.kept
        chart = Chart(series, unit, self.inputs.times, marks=self.marks, gaps=self.inputs.gaps)
        if history is not None:
            chart = chart._replace(kept_gaps=history.gaps([line.track for line in series]))
        return chart._replace(**rest)  # type: ignore[arg-type]  # the names are checked by tests that draw all charts

    def job_series(self, key: str, change: Callable[[str, Track], Track | None]) -> list[Series]:
        """Return the series of the jobs with any sample of a figure."""
        span_s = self.inputs.times.span_s
        series = []
        for name in self.jobs:
            track = self.tracks.get((name, key))
            if track is None:
                track = self.context.monitor.history.job_track(name, key, span_s)
            changed = (
                change(name, track.smoothed(MEAN_S)) if len(_known(track.last(span_s))) else None
            )
            if changed is not None:
                former = None if self.kept_jobs is None else self.kept_jobs.job(name, key, track)
                before = None if former is None else change(name, former)
                series.append(
                    Series(changed, self.styles[name], plain(name), has_band=False, before=before)
                )
        return series


def fleet_trends(context: UiContext) -> list[Trend]:
    """Return the charts of a fleet, the most telling one first."""
    return [make() for make in trend_makers(context)]


def trend_makers(context: UiContext) -> list[Callable[[], Trend]]:
    """Return a maker for each chart of a fleet, the most important first.

    The caller makes as many as there is room for.
    """
    source = Source.of(context)
    steps = _steps(source)
    made: list[Callable[[], Trend]] = [partial(_power, source)]
    if steps is not None:
        made.append(lambda: steps)
    made.append(partial(_busy, source))
    made += [
        partial(_single, source, field) for field in FLEET_CHARTS if field.key not in {POWER, _UTIL}
    ]
    return made


def _power(source: Source) -> Trend:
    """Return the chips' power by job, or the fleet's without jobs."""
    layout = source.context.monitor.store.layout
    cap_w = {kind.name: kind.chip.power_max_w.value for kind in layout.types}
    by_instance = np.array([cap_w[kind.name] for kind in layout.types])[layout.instance_type]
    chips = layout.sizes
    # The header's cap: of the chips whose power is known.
    fleet_w = source.context.frame.summary.mean.power_cap_w or float((by_instance * chips).sum())
    series = source.job_series(POWER, lambda _name, track: track)
    figures = tuple(with_unit(_last(line.track), "W") for line in series)
    if series:
        jobs, placed = (
            source.context.monitor.ingest.job_table.placed,
            source.context.monitor.store.job_of,
        )
        numbers = [jobs.index(name) for name in source.jobs if name in jobs]
        largest_w = max(
            (float((by_instance * chips)[placed == number].sum()) for number in numbers),
            default=0.0,
        )
        limits = [Limit(largest_w, "cap", theme.CHART_CAP)] if largest_w else []
    else:
        series, limits = (
            [_of_field(source, BY_KEY[POWER])],
            [Limit(fleet_w, "cap", theme.CHART_CAP)],
        )
    is_of_jobs = bool(series and series[0].name)
    chart = source.chart(series, "W", is_of_jobs=is_of_jobs, limits=limits)
    cap_text = f" of {with_unit(fleet_w, 'W')}"
    return Trend("Power", POWER, cap_text, chart, figures, _note(source), jobs=source.every_job)


def _steps(source: Source) -> Trend | None:
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
    figures = tuple(_signed(now.get(line.name)) for line in series)
    limits = []
    if rule is not None and rule.limit is not None:
        value = 100.0 * (rule.limit - 1.0)
        limits = [Limit(value, "alert", theme.CHART_THRESHOLD, is_always_shown=True)]
    lacking = Reason.NO_STEPS
    chart = source.chart(
        series, "%", is_of_jobs=True, limits=limits, is_signed=True, lacking=lacking
    )
    return Trend(
        "Step time, % of base", "", "", chart, figures, _note(source), jobs=source.every_job
    )


def _busy(source: Source) -> Trend:
    """Return utilisation of NeuronCores with MFU."""
    util = BY_KEY[_UTIL]
    mfu = BY_KEY["mfu_pct"]
    series = [
        _of_field(source, util)._replace(name=util.title),
        _of_field(source, mfu)._replace(name=mfu.title, style=theme.LINK, has_band=False),
    ]
    chart = source.chart(series, "%", ceiling=100.0)
    return Trend("NeuronCores", "", "", chart, (util.key, mfu.key), _note(source), has_keys=True)


def _single(source: Source, field: Field) -> Trend:
    """Return one field of the fleet with its limits."""
    monitor = source.context.monitor
    low, high = field.scale(monitor.store.layout)
    limits = list(thresholds(monitor, field, Level.FLEET))
    if not field.is_ratio:
        limits.append(Limit(high * monitor.store.layout.chip_count, "peak", theme.CHART_CAP))
    chart = source.chart([_of_field(source, field)], field.unit, floor=low, limits=limits)
    peak_text = (
        ""
        if field.is_ratio
        else f" of {with_unit(high * monitor.store.layout.chip_count, field.unit)}"
    )
    return Trend(fleet_name(field), field.key, peak_text, chart, (), _note(source))


def _of_field(source: Source, field: Field) -> Series:
    monitor = source.context.monitor
    layout = monitor.store.layout
    track = monitor.history.track(layout, FLEET_NODE, field.key, source.inputs.times.span_s)
    before = (
        None if source.kept is None else source.kept.field(field, figure_of(field, layout), track)
    )
    return Series(track.smoothed(MEAN_S), theme.CHART, before=before)


def _is_step_rule(rule: Rule) -> bool:
    return rule.figure == STEP_TIME and rule.reference is not None and rule.reference.of == "past"


def _note(source: Source) -> str:
    return f"{source.inputs.note}, {MEAN_S} s mean{resolution(source.kept)}"


def _known(track: Track) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    known: np.ndarray[tuple[int], np.dtype[np.float32]] = track.mean[~np.isnan(track.mean)]
    return known


def _last(track: Track) -> float:
    """Return the newest value; NaN if it is not available."""
    return float(track.mean[-1]) if len(track.mean) else float("nan")


def _signed(value: float | None) -> str:
    return _UNKNOWN if value is None else signed_percent(value)


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
