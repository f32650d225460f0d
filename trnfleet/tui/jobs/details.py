"""The job under the cursor: its causes, its steps or its serving, its slowest chips, its past."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.goodput import SERVING, TimeCause
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.quantities import NOT_AVAILABLE, bare, counted, duration, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.goodput_report import (
    NO_JOB,
    cell_reports,
    energy_text,
    expected_text,
    fix_first,
    lost_of,
)
from trnfleet.monitor.medians import median
from trnfleet.monitor.problems import texts
from trnfleet.monitor.store.job_history import STATES, STEP_TIME, TPOT, TTFT
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.axes import time_axis
from trnfleet.tui.charts.chart import head
from trnfleet.tui.charts.place import NO_STATE, ChartedPlace, ChartSource
from trnfleet.tui.format.addresses import last_segments, name_in_fleet
from trnfleet.tui.format.alerts import entries
from trnfleet.tui.format.jobs import SLOW_PCT, look
from trnfleet.tui.jobs.table import NOTHING, amount_text, amounts_of, cause_style
from trnfleet.tui.widgets.cells import (
    FixedParts,
    Parts,
    TextColumn,
    bar,
    beside,
    fit,
    width_of,
    wrapped,
)
from trnfleet.tui.widgets.line_view import Line, LineView

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.monitor.store.rings.record import Track
    from trnfleet.tui.jobs.table import JobRow, JobTable
    from trnfleet.tui.state.context import UiContext

Block = list[FixedParts]
"""Lines of a block, its title first."""
BLOCK_WIDTH = 38
"""Least cells of a block."""
_GAP = 2
_BINS = 8
"""Most bars of a histogram."""
_SLOWEST = 6
"""Most chips, and most losses, in their blocks."""
_MOST_LINES = 10
"""Most lines of a list of a block."""
_LABEL = 14
_ENGINES = BY_NAME["engine_util_pct"]


class StepSample(NamedTuple):
    """Step times over a window: a value and the number of steps that it stands for."""

    step_s: NDArray[np.float64]
    steps: NDArray[np.float64]

    @staticmethod
    def read(track: Track) -> StepSample:
        """Return the steps of a track of step times: in a second there are 1 / step time."""
        known = track.mean[track.mean > 0].astype(np.float64)
        order = np.sort(known)
        return StepSample(order, track.step_s / order)

    def percentile(self, share: float) -> float:
        """Return the step time that a share of the steps does not exceed."""
        counted_steps = np.cumsum(self.steps)
        at = int(np.searchsorted(counted_steps, share * counted_steps[-1]))
        return float(self.step_s[min(at, len(self.step_s) - 1)])

    def bins(self) -> list[tuple[float, float]]:
        """Return the lower end of each bar of a histogram, and its steps."""
        # Three digits tell bars of one per cent apart.
        bars = min(_BINS, int((self.step_s[-1] - self.step_s[0]) / (0.01 * self.step_s[-1])))
        if bars < 2:
            return [(float(self.step_s[0]), float(self.steps.sum()))]
        counts, edges = np.histogram(self.step_s, bars, weights=self.steps)
        return list(zip(edges[:-1].tolist(), counts.tolist(), strict=True))


class LateChips(NamedTuple):
    """Chips of a job by the seconds that a step waits for them."""

    rows: NDArray[np.int64]
    """Chip rows, the latest first."""
    late_s: NDArray[np.float64]
    median_pct: float
    total: int
    """Chips with known engines."""


def late_chips(
    rows: NDArray[np.int64], busy_pct: NDArray[np.float64], step_s: float, most: int
) -> LateChips:
    """Return the latest chips.

    A chip is late by its own busy share less the job's median, times the step: the others wait for
    that long.

    Args:
        rows: The job's chips.
        busy_pct: Busy share of each chip's busiest engine, NaN where unknown.
        step_s: The step time.
        most: How many are returned.
    """
    known = np.flatnonzero(~np.isnan(busy_pct))
    usual = median(busy_pct[known])
    late_s = (busy_pct[known] - usual) / 100.0 * step_s
    # A job has up to a million chips: only the first ones are sorted.
    first = np.argpartition(-late_s, most - 1)[:most] if len(late_s) > most else slice(None)
    order = np.argsort(-late_s[first], kind="stable")
    return LateChips(rows[known][first][order], late_s[first][order], usual, len(known))


class JobDetails(LineView, can_focus=True):
    """Blocks about the job under the cursor, beside and below each other."""

    def __init__(self, context: UiContext, table: JobTable) -> None:
        super().__init__()
        self._ui = context
        self._monitor = context.monitor
        self._table = table
        self._made_of: tuple[object, ...] = ()
        self._lines: list[Line] = []

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        return self.made(width)[top : top + height]

    def restyled(self) -> None:
        self._made_of = ()

    def made(self, width: int) -> list[Line]:
        """Return all lines; made again for another job, second or width."""
        row = self._table.picked
        made_of = (None if row is None else row.key, width, self._table.rows_of)
        if made_of != self._made_of:
            self._made_of = made_of
            self._lines = [] if row is None else self._laid_out(row, width)
            self.set_extent(0, len(self._lines))
        return self._lines

    def _laid_out(self, row: JobRow, width: int) -> list[Line]:
        blocks: list[Callable[[int], Block]] = [
            *(partial(self._causes, row), self._fix_first, self._cells)
        ]
        if row.key == NO_JOB:
            blocks.append(self._without_job)
        elif row.job is not None:
            is_serving = row.job.kind == SERVING
            mine = [self._serving] if is_serving else [self._steps, self._late]
            blocks += [partial(block, row) for block in (*mine, self._facts, self._past)]
        columns = max(1, min(4, (width + _GAP) // (BLOCK_WIDTH + _GAP)))
        cells = max(BLOCK_WIDTH, (width - 1 - _GAP * (columns - 1)) // columns)
        stacks: list[Block] = [[] for _ in range(columns)]
        for block in blocks:
            lines = block(cells)
            if lines:
                stack = min(stacks, key=len)
                stack += [*([()] if stack else []), *lines]
        made: list[TextColumn] = []
        for stack in stacks:
            made += [TextColumn((), _GAP if made else 1), TextColumn(stack, cells)]
        return beside(made, width)

    # Blocks

    def _causes(self, row: JobRow, width: int) -> Block:
        """Return paid time by cause, adding up to what was paid."""
        in_usd = self._table.in_usd
        if row.time is None or not row.time.paid.seconds.any():
            return [head([(row.title, theme.STRONG)], "no paid time of its own", width)]
        paid = row.time.paid
        amounts = amounts_of(paid, in_usd=in_usd)
        title: Parts = [(row.title, theme.STRONG), (" paid time", theme.QUIET)]
        note = self._table.window_text + (", provisional" if row.time.is_provisional else "")
        names = f"{'':15}{'inst min':>10}{'%':>7}{'USD' if in_usd else '':>11}"
        made = [head(title, note, width), ((names, theme.GHOST),)]
        total_s = float(paid.seconds.sum())

        def line(name: str, seconds: float, amount: float | None) -> str:
            usd = amount_text(amount) if in_usd else ""
            return f"{name:15}{seconds / 60:>10,.1f}{100 * seconds / total_s:>7.1f}{usd:>11}"

        for number in np.argsort(-paid.seconds, kind="stable").tolist():
            cause = TimeCause(number)
            seconds = float(paid.seconds[number])
            if seconds > 0:
                text = line(cause.label, seconds, None if amounts is None else amounts[number])
                drawn = bar(seconds / total_s, width - len(text) - 2, cause_style(cause))
                made.append(((f"{text}  ", theme.BASE), *(drawn if len(text) + 8 <= width else ())))
                for name, part in row.time.by(cause).items():
                    if name:
                        place, _, what = name.removesuffix(")").partition(" (")
                        words = fit(plain(f"  {last_segments(place)} {what}"), 32)
                        amount = part.usd if in_usd else part.seconds / 3_600
                        made.append(((f"{words}{amount_text(amount):>11}", theme.QUIET),))
        whole = line("paid", total_s, None if amounts is None else float(amounts.sum()))
        made.append(((whole, theme.STRONG),))
        if amounts is not None:
            lost = f"lost {amount_text(lost_of(amounts))} {'USD' if in_usd else 'instance-hours'}"
            if in_usd and paid.unpriced_s:
                lost += f"; {amount_text(paid.unpriced_s / 3_600)} h have no price"
            made.append(((fit(lost, width), theme.QUIET),))
        if words := energy_text(row.time):
            made.append(((fit(words, width), theme.QUIET),))
        if row.time.written_off_s:
            words = f"{row.time.written_off_s / 60:,.1f} inst min of earlier steps lost"
            made.append(((fit(words, width), theme.QUIET),))
        return made

    def _fix_first(self, width: int) -> Block:
        """Return the fleet's losses by what would have to be fixed, the most expensive first."""
        report = self._table.report
        if report is None:
            return []
        made: Block = [head([("Fix first", theme.STRONG)], self._table.window_text, width)]
        for loss in fix_first(report)[:_SLOWEST]:
            part = loss.part if self._table.in_usd else loss.part._replace(usd=0.0)
            if round(part.usd or part.seconds / 3_600, 2) <= 0:
                break
            text = texts.loss_text(loss._replace(part=part), self._monitor.ingest.names)
            lines = [line for line in wrapped(text, width, 2) if line.strip()]
            made += [((line, theme.BASE),) for line in lines]
        return made if len(made) > 1 else [*made, (("no loss is known so far", theme.QUIET),)]

    def _cells(self, width: int) -> Block:
        """Return what relays have paid, lost and made productive in their cells."""
        cells = cell_reports(self._monitor.store.rolled.paid_by_cell())
        if not cells:
            return []
        in_usd = self._table.in_usd
        note = f"{'USD' if in_usd else 'instance-hours'}, last hour"
        names = f"{'paid':>9}{'lost':>9}{'productive':>11}"
        made: Block = [
            head([("Cells by their relays", theme.STRONG)], note, width),
            ((f"{'':{width - len(names)}}{names}", theme.GHOST),),
        ]
        for cell, title, report in cells[:_MOST_LINES]:
            amounts = None if report is None else amounts_of(report.fleet, in_usd=in_usd)
            figures = f"{NOT_AVAILABLE:>{len(names)}}"
            if report is not None and amounts is not None:
                least = "≥" if in_usd and report.fleet.unpriced_s else ""
                values = amounts.sum(), lost_of(amounts), amounts[TimeCause.PRODUCTIVE]
                paid, lost, productive = (least + amount_text(float(value)) for value in values)
                figures = f"{paid:>9}{lost:>9}{productive:>11}"
            style = theme.STRONG if cell is None else theme.BASE
            made.append(((fit(plain(title), width - len(figures)) + figures, style),))
        if len(cells) > _MOST_LINES:
            made.append(((f"and {len(cells) - _MOST_LINES:,} more", theme.QUIET),))
        return made

    def _steps(self, row: JobRow, width: int) -> Block:
        """Return percentiles and a histogram of the step time."""
        history = self._monitor.history
        span_s = self._ui.window.span_s(history.end)
        sample = StepSample.read(history.job_track(row.key, STEP_TIME, span_s).last(span_s))
        title: Parts = [("Steps by their time", theme.STRONG)]
        if not len(sample.step_s):
            words = "the past is kept for the largest jobs alone"
            if row.job is None or row.job.step_time_s is None:
                words = "no step time is published"
            return [head(title, "", width), ((fit(words, width), theme.QUIET),)]
        ideal_s = math.nan if row.time is None else row.time.ideal_s
        ideal = "ideal n/a"
        if ideal_s > 0:
            planned = row.time is not None and row.time.is_planned
            ideal = f"ideal {with_unit(ideal_s, 's')} ({'plan' if planned else 'measured'})"
        marks = [
            f"p{share} {with_unit(sample.percentile(share / 100), 's')}" for share in (50, 90, 99)
        ]
        title.append((f" ≈ {sample.steps.sum():,.0f} steps", theme.QUIET))
        made: Block = [
            head(title, self._ui.window.title(history.end), width),
            ((fit("  ".join(marks), width), theme.BASE),),
            ((fit(ideal, width), theme.QUIET),),
        ]
        bins = sample.bins()
        most = max(steps for _, steps in bins)
        for number, (low_s, steps) in enumerate(bins):
            after_s = bins[number + 1][0] if number + 1 < len(bins) else math.inf
            is_slow = low_s >= ideal_s * (1 + SLOW_PCT / 100)
            has_ideal = low_s <= ideal_s < after_s or (not number and ideal_s < low_s)
            made.append(
                (
                    (f"{with_unit(low_s, 's'):>8}{steps:>7,.0f} ", theme.BASE),
                    *bar(steps / most, width - 22, theme.FILL_WARNING if is_slow else theme.FILL),
                    (" ideal" if has_ideal else "", theme.QUIET),
                )
            )
        return made

    def _late(self, row: JobRow, width: int) -> Block:
        """Return the chips that the job's step waits for; nothing where engines are not known."""
        store = self._monitor.store
        placed = self._monitor.ingest.job_table.placed
        if row.step_s is None or row.key not in placed or _ENGINES.name not in store.columns:
            return []
        owner = placed.index(row.key)
        rows = np.flatnonzero(store.job_of[store.layout.instance_of_chip] == owner)
        rows = rows[store.chip_state[rows] == Freshness.LIVE]
        busy_pct = _ENGINES.decode(store.columns[_ENGINES.name][rows])
        late = late_chips(rows, busy_pct.max(axis=1), row.step_s, _SLOWEST + 1)
        if not len(late.rows):
            return []
        note = f"busiest engine, median {late.median_pct:.0f} %, now"
        made: Block = [
            head([("Slowest chips", theme.STRONG)], note, width),
            ((f"{'chip':{width - 12}}{'late a step':>12}", theme.GHOST),),
        ]
        names = self._monitor.ingest.names
        for chip, late_s in zip(late.rows[:_SLOWEST].tolist(), late.late_s.tolist(), strict=False):
            path = names.address(store.layout.path(Node(Level.CHIP, chip)))
            is_marked = chip in self._ui.alerts.marks.chips
            style = theme.SEVERITY_STYLE[Severity.WARNING] if is_marked else theme.BASE
            place = plain("/".join(path.split("/")[-2:]))
            made.append(((fit(place, width - 12), style), (f"{late_s:>+10.3f} s", style)))
        if late.total > _SLOWEST:
            words = (
                f"{counted(late.total - _SLOWEST, 'other')} up to {late.late_s[_SLOWEST]:+.3f} s"
            )
            made.append(((fit(words, width), theme.QUIET),))
        return made

    def _serving(self, row: JobRow, width: int) -> Block:
        """Return latencies with their limits and percentiles, and tokens with their price."""
        job = row.job
        assert job is not None  # noqa: S101  the caller has looked
        site = self._monitor.site
        history = self._monitor.history
        span_s = self._ui.window.span_s(history.end)
        note = f"means: now, {self._ui.window.title(history.end)}"
        made: Block = [head([("Serving", theme.STRONG)], note, width)]
        for name, key, time_s, limit_s in (
            ("TTFT", TTFT, job.ttft_s, job.ttft_limit_s or site.ttft_limit),
            ("TPOT", TPOT, job.tpot_s, job.tpot_limit_s or site.tpot_limit),
        ):
            is_over = time_s is not None and time_s > limit_s
            style = theme.SEVERITY_STYLE[Severity.WARNING] if is_over else theme.BASE
            made.append(
                (
                    (fit(name, _LABEL), theme.QUIET),
                    (f"{_latency(time_s):>10}", style),
                    (f"  limit {_latency(limit_s)}", theme.QUIET),
                )
            )
            means = history.job_track(row.key, key, span_s).last(span_s).mean
            means = means[np.isfinite(means)]
            if len(means):
                shares = zip((50, 90, 99), np.percentile(means, (50, 90, 99)), strict=True)
                words = "  ".join(f"p{share} {_latency(mean)}" for share, mean in shares)
                made.append(((fit(f"  {words}", width), theme.QUIET),))
        for name, value in (
            ("batch", bare(job.batch, "")),
            ("tokens/s", bare(job.tokens_per_s, "")),
            ("tokens a USD", self._tokens_a_usd(row)),
            ("KV cache", _share(job.kv_cache_share)),
            ("availability", _share(job.availability)),
        ):
            made.append(((fit(name, _LABEL), theme.QUIET), (f"{value:>10}", theme.BASE)))
        return made

    def _tokens_a_usd(self, row: JobRow) -> str:
        """Return the present tokens a second by the price of the window's instances."""
        priced = None if row.time is None else amounts_of(row.time.paid, in_usd=True)
        if row.job is None or row.job.tokens_per_s is None or priced is None or row.is_last_known:
            return NOT_AVAILABLE
        usd_per_h = float(priced.sum()) * row.per_h
        return bare(row.job.tokens_per_s * 3_600 / usd_per_h, "") if usd_per_h else NOT_AVAILABLE

    def _facts(self, row: JobRow, width: int) -> Block:
        """Return state, place, counters and claims."""
        job = row.job
        assert job is not None  # noqa: S101  the caller has looked
        ingest = self._monitor.ingest
        layout = self._monitor.store.layout
        places = [name_in_fleet(place, layout, ingest.names, width) for place in job.on]
        more = f" and {len(places) - 3:,} more" if len(places) > 3 else ""
        facts = [
            ("state", plain(job.state) + (", last known" if row.is_last_known else "")),
            ("kind", plain(job.kind)),
            ("on", ", ".join(places[:3]) + more),
        ]
        if row.claimed is not None:
            facts += [
                ("claimed by", plain(ingest.job_table.sources[row.key])),
                ("NC util", with_unit(row.claimed.nc_util_pct, "%")),
                ("HBM used", with_unit(row.claimed.hbm_used_bytes, "bytes")),
            ]
        facts += [
            (name, f"{value:,.0f}")
            for name, value in (
                ("steps done", job.steps_completed),
                ("steps lost", job.steps_lost),
                ("restarts", job.restarts),
            )
            if value is not None
        ]
        if job.loss is not None:
            facts.append(("loss", f"{job.loss:.4g}"))
        if row.time is not None and row.time.expected is not None:
            lines = wrapped(expected_text(row.time.expected), width - _LABEL, 4)
            facts += zip(["expected", "", "", ""], filter(str.strip, lines), strict=False)
        return [head([("Job", theme.STRONG)], "", width)] + [
            ((fit(name, _LABEL), theme.QUIET), (fit(words, width - _LABEL), theme.BASE))
            for name, words in facts
        ]

    def _without_job(self, width: int) -> Block:
        """Return the instances without a job, and their reservations."""
        monitor = self._monitor
        layout = monitor.store.layout
        free = np.flatnonzero(monitor.store.job_of < 0)
        title: Parts = [("Instances without a job", theme.STRONG), (f" {len(free):,}", theme.QUIET)]
        made: Block = [head(title, "", width)]
        held = [one for one in monitor.reservations.table() if one.is_current]
        for number in free[:_MOST_LINES].tolist():
            path = monitor.ingest.names.address(layout.path(Node(Level.INSTANCE, number)))
            ids = (one.message.id for one in held if any(number in run for run in one.rows))
            reservation = plain(next(ids, "no reservation"), 64)
            words = f"{plain(path.rpartition('/')[2])}  {reservation}"
            made.append(((fit(words, width), theme.BASE),))
        if len(free) > _MOST_LINES:
            made.append(((f"and {len(free) - _MOST_LINES:,} more", theme.QUIET),))
        if not monitor.ingest.jobs:
            made += [((fit(text.strip(), width), theme.QUIET),) for text in NOTHING]
        return made

    def _past(self, row: JobRow, width: int) -> Block:
        """Return the events and alerts of the job, the newest first."""
        monitor = self._monitor
        span_s = self._ui.window.span_s(monitor.history.end)
        moment = monitor.moment()
        since_ns = moment.time_ns - round(span_s * (moment.speed or 1.0)) * NS_PER_S
        told = entries(
            monitor.events.newest_first(),
            monitor.alerts.history,
            (since_ns, math.inf),
            lambda item: item.job == row.key,
        )
        title = [("Timeline", theme.STRONG)]
        source = ChartSource.read_node(ChartedPlace(self._ui, "", row.key), None)
        times = source.inputs.times
        grid = plot.Grid(times.span_s, width * plot.COLUMNS, times.end_s)
        states = source.states(grid)
        names = {look(state).glyph: state or "other" for state in STATES} | {NO_STATE: "not known"}
        styles = {text[0]: style for text, style in states}
        signs: list[Parts] = [[]]
        for sign, style in styles.items():
            item = (f"{sign} {names[sign]}  ", style)
            if width_of([*signs[-1], item]) > width:
                signs.append([])
            signs[-1].append(item)
        made: Block = [
            head(title, source.inputs.note, width),
            states,
            time_axis(times, source.marks, grid, width),
            *map(tuple, signs),
        ]
        for at_ns, words, severity in told[:_MOST_LINES]:
            text = fit(f"{format_rfc3339(at_ns)[11:19]} {words}", width)
            is_info = severity is Severity.INFO
            made.append(((text, theme.BASE if is_info else theme.SEVERITY_STYLE[severity]),))
        if len(told) > _MOST_LINES:
            made.append((("older ones: 9 Events", theme.QUIET),))
        if not told:
            made.append((("no event and no alert of it", theme.QUIET),))
        return made


def _latency(seconds: float | None) -> str:
    """Return a latency, below a second in milliseconds."""
    return duration(seconds) if seconds is not None and seconds < 1 else with_unit(seconds, "s")


def _share(value: float | None) -> str:
    return with_unit(None if value is None else 100.0 * value, "%")
