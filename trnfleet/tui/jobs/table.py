"""The table of jobs by what they lose, and of the instances without a job.

Paid time is read once a second, while the view is on the screen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.cells import cell_len

from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.filters.language import EVERYTHING
from trnfleet.domain.goodput import TimeCause, goodput_of
from trnfleet.domain.quantities import NOT_AVAILABLE, count, duration, signed_percent
from trnfleet.domain.quantities import with_unit as quantity
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.goodput import MINUTES, present_cause
from trnfleet.monitor.goodput_report import LOST, NO_JOB, GoodputReport, JobTime, PaidTime, lost_of
from trnfleet.monitor.problems import texts
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.jobs import SLOW_PCT, look, pace, problem_of
from trnfleet.tui.theme.palettes import Tile
from trnfleet.tui.widgets.bar import cut
from trnfleet.tui.widgets.cells import Parts, fit, right, text_of
from trnfleet.tui.widgets.cursor_list import RowList

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from rich.style import Style

    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.monitor.store.jobs import ClaimedFigures
    from trnfleet.tui.state.context import UiContext
    from trnfleet.wire.messages import JobMessage

LOSS = "lost"
GOODPUT = "goodput"
CHIPS = "chips"
NAME = "name"
SORTS = (LOSS, GOODPUT, CHIPS, NAME)
"""Orders cycled with `s`."""
MOST_ROWS = 200
"""Most jobs listed without a filter."""
OTHERS = "\n"
"""Key of the jobs without sums of their own; no name has a line break."""
NOTHING = (
    " No job is published. Jobs come from",
    "",
    "   the job's own messages        docs/wire.md",
    "   a scheduler, a tag, a pod     docs/jobs.md",
    "   the simulated fleet's file    [[jobs]], as in config/fleets/demo.toml",
)
"""Text for an empty table."""
NOT_FOUND = "No job matches. Esc clears the filter."
JOB_COLUMNS = Columns(
    (
        Column("job", aliases=("name",)),
        Column("state"),
        Column("kind"),
        Column("chips", Kind.NUMBER),
        Column("goodput", Kind.NUMBER, "%"),
        Column("lost", Kind.NUMBER, "$/h", ("loss",)),
        Column("idle", Kind.NUMBER, "$/h"),
        Column("step", Kind.NUMBER, "s"),
        Column("mfu", Kind.NUMBER, "%"),
    )
)
"""Columns for filters of jobs."""
_METER = {
    TimeCause.PRODUCTIVE: "■",
    TimeCause.SLOW: "▒",
    TimeCause.LOST_WORK: "l",
    TimeCause.RECOVERY: "r",
    TimeCause.DOWN: "×",  # noqa: RUF001  the sign
    TimeCause.START_UP: "s",
    TimeCause.CHECKPOINT: "c",
    TimeCause.DATA_WAIT: "d",
    TimeCause.EVALUATION: "e",
    TimeCause.IDLE_RESERVED: "$",
    TimeCause.IDLE: "◦",
    TimeCause.UNOBSERVED: "?",
    TimeCause.UNSPLIT: "─",
    TimeCause.HEADROOM: "·",
}
"""Sign of each cause, in the order of a meter. Signs tell causes apart without colour."""
_IDLE = {TimeCause.IDLE_RESERVED: Tile.RESERVED_IDLE, TimeCause.IDLE: Tile.IDLE}
"""Idle time looks as on the map of chips."""
_ROUTINE = frozenset(
    {
        TimeCause.START_UP,
        TimeCause.CHECKPOINT,
        TimeCause.DATA_WAIT,
        TimeCause.EVALUATION,
        TimeCause.UNOBSERVED,
    }
)
"""Losses in a quiet colour."""
_LEAST_SHARE = 0.005
"""Smallest share of a cause with a cell of its own in a meter."""
_SIGN = 3
_NAME_LEAST = 9
_NAME_MOST = 28


class JobRow(NamedTuple):
    """A line of the table."""

    key: str
    """The job's name, `NO_JOB` or `OTHERS`."""
    title: str
    time: JobTime | None
    """None for a job without paid time of its own."""
    per_h: float
    """Factor from the window to an hour."""
    chips: int | None
    job: JobMessage | None
    """None for an ended job, and without a job."""
    claimed: ClaimedFigures | None
    problem: Problem | None
    """Worst problem that hurts the job."""
    is_last_known: bool
    is_late: bool
    """Whether a serving job is over its limits."""

    @property
    def goodput_pct(self) -> float | None:
        share = None if self.time is None else goodput_of(self.time.paid.seconds)
        return None if share is None else 100.0 * share

    @property
    def step_s(self) -> float | None:
        """Step time of a job that is heard."""
        return None if self.job is None or self.is_last_known else self.job.step_time_s

    @property
    def slower_pct(self) -> float | None:
        """How much longer a step is than its ideal time; None if unknown."""
        ideal_s = math.nan if self.time is None else self.time.ideal_s
        step_s = self.step_s
        return None if step_s is None or not ideal_s > 0 else 100.0 * (step_s / ideal_s - 1.0)

    @property
    def trouble(self) -> str:
        """What lost most of the time with the largest loss, as `JobTime.by` names it.

        Without a job it is the reservation with the most idle time. Empty if unknown.
        """
        cause = None if self.time is None else largest_loss(self.time.paid.seconds)
        if self.key == NO_JOB:
            cause = TimeCause.IDLE_RESERVED
        if self.time is None or cause is None:
            return ""
        parts = self.time.by(cause)
        return max((name for name in parts if name), key=lambda name: parts[name], default="")

    @property
    def mfu_pct(self) -> float | None:
        mfu = None if self.job is None or self.is_last_known else self.job.mfu
        return None if mfu is None else 100.0 * mfu

    def amounts(self, *, in_usd: bool) -> NDArray[np.float64] | None:
        """Return its paid time by cause as `amounts_of`; None, too, while no part is split."""
        if self.time is None:
            return None
        seconds = self.time.paid.seconds
        if self.goodput_pct is None and seconds[TimeCause.UNSPLIT] and not lost_of(seconds):
            return None
        return amounts_of(self.time.paid, in_usd=in_usd)

    def lost_per_h(self, *, in_usd: bool) -> float | None:
        """Return its loss an hour, in USD or instance-hours; None if unknown."""
        amounts = self.amounts(in_usd=in_usd)
        return None if amounts is None else lost_of(amounts) * self.per_h

    def value(self, column: str) -> str | float | None:
        """Return a figure for a filter."""
        job = self.job
        priced = self.amounts(in_usd=True)
        values: dict[str, str | float | None] = {
            "job": self.title,
            "state": None if job is None else job.state,
            "kind": None if job is None else job.kind,
            "chips": self.chips,
            "goodput": self.goodput_pct,
            "lost": self.lost_per_h(in_usd=True),
            "idle": None if priced is None else float(priced[[*_IDLE]].sum()) * self.per_h,
            "step": self.step_s,
            "mfu": self.mfu_pct,
        }
        return values[column]

    def has(self, part: str) -> bool:
        """Return whether one of its texts contains a part."""
        job = self.job
        known = [self.key, self.title] + ([] if job is None else [job.state, job.kind, *job.on])
        return part in "\n".join(known).lower()


def amounts_of(paid: PaidTime, *, in_usd: bool) -> NDArray[np.float64] | None:
    """Return paid time by cause, in USD or instance-hours; None without any known price."""
    if not in_usd:
        return paid.seconds / 3_600
    return paid.usd if paid.is_priced else None


def amount_text(amount: float | None) -> str:
    """Return an amount in at most ten cells; NaN is that of no time yet."""
    if amount is None or math.isnan(amount):
        return NOT_AVAILABLE
    text = f"{amount:,.2f}" if abs(amount) < 99_999.995 else f"{amount:,.0f}"
    return text.lstrip("-") if not text.strip("-0.") else text


def at_least(paid: PaidTime, *, in_usd: bool) -> str:
    """Return the mark of a loss: more is lost where time is not split, or has no price."""
    is_known = paid.seconds[TimeCause.UNSPLIT] < 0.05 and not (in_usd and paid.unpriced_s)
    return "" if is_known else "≥"


def cause_style(cause: TimeCause) -> Style:
    """Return the colour of a cause: amber for what should not be, slate for routine."""
    if cause is TimeCause.PRODUCTIVE:
        return theme.FILL
    if cause in _IDLE:
        return theme.TILE_STYLE[_IDLE[cause]]
    if cause not in LOST or cause in _ROUTINE:
        return theme.QUIET
    return theme.STATE_STYLE[Freshness.OFFLINE] if cause is TimeCause.DOWN else theme.FILL_WARNING


def legend_items(drawn: str) -> Parts:
    """Return the signs and names of the causes in drawn meters."""
    return [
        (f" {sign} {cause.label} ", cause_style(cause))
        for cause, sign in _METER.items()
        if sign in drawn
    ]


def meter(amounts: NDArray[np.float64], width: int) -> Parts:
    """Return a line with a cell for each part of paid time, by cause.

    A cause with a noticeable share has one cell at least; the largest one gives them.
    """
    total = float(amounts.sum())
    if not total > 0 or width < 1:
        return [(" " * max(0, width), theme.BASE)]
    shares = amounts / total
    exact = shares * width
    cells = np.floor(exact).astype(np.int64)
    for cause in np.argsort(cells - exact)[: width - int(cells.sum())].tolist():
        cells[cause] += 1
    for cause in np.flatnonzero((cells == 0) & (shares >= _LEAST_SHARE)).tolist():
        largest = int(cells.argmax())
        if cells[largest] > 1:
            cells[largest] -= 1
            cells[cause] = 1
    return [
        (sign * int(cells[cause]), cause_style(cause))
        for cause, sign in _METER.items()
        if cells[cause]
    ]


def largest_loss(amounts: NDArray[np.float64]) -> TimeCause | None:
    """Return the cause of the largest loss; None if nothing noticeable is lost."""
    cause = max(LOST, key=lambda cause: amounts[cause])
    return cause if round(float(amounts[cause]), 2) > 0 else None


def columns_at(width: int, rows: Sequence[JobRow], chips: int = 0) -> dict[str, int]:
    """Return the cells of each column with room. One that no row knows has none.

    Args:
        width: Cells of a line.
        rows: The jobs.
        chips: Those of the fleet.
    """
    longest = max((cell_len(row.title) for row in rows), default=0)
    columns = {"job": min(_NAME_MOST, max(_NAME_LEAST, longest))}
    columns |= {"chips": max(8, len(count(chips)) + 1), "goodput": 9, "lost": 12, "loss": 21}
    left = width - _SIGN - sum(columns.values())
    if left < 0:
        columns["job"] = max(_NAME_LEAST, columns["job"] + left)
        columns["loss"] = max(0, columns["loss"] + left)
        return columns
    for name, cells, is_known in (
        ("step", 9, any(row.step_s is not None for row in rows)),
        ("slower", 10, any(row.slower_pct is not None for row in rows)),
        ("meter", 13, True),
        ("pace", 13, True),
        ("mfu", 7, any(row.mfu_pct is not None for row in rows)),
        ("problem", 30, any(row.problem is not None for row in rows)),
    ):
        if is_known and cells > left:
            break
        if is_known:
            columns[name] = cells
            left -= cells
    if "meter" not in columns:
        columns["loss"] += min(left, 9)
        return columns
    # Beside problems a meter has half of what is left.
    more = left // 2 if "problem" in columns else left
    columns["meter"] += more
    if "problem" in columns:
        columns["problem"] += left - more
    return columns


class JobTable(RowList[str, JobRow]):
    """Jobs, one a line."""

    HELP_TITLE = "Jobs"

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self._ui = context
        self._monitor = context.monitor
        self.wanted = EVERYTHING
        """The filter."""
        self.order = LOSS
        """One of `SORTS`."""
        self.shows_hours = False
        """Whether hours are shown even where prices are known."""
        self.report: GoodputReport | None = None
        """Paid time of the window; None before the first reading."""
        self.matching = 0
        """Rows that match, listed or not."""
        self._report_of: tuple[object, ...] = ()
        self.rows_of: tuple[object, ...] = ()
        """What the rows were made of; another one means other figures."""
        self._plan: tuple[object, dict[str, int]] = (None, {})
        self._chips_of: tuple[object, NDArray[np.int64]] = (None, np.zeros(0, np.int64))

    def key_of(self, row: JobRow) -> str:
        return row.key

    @property
    def minutes(self) -> int | None:
        """Minutes of the window of charts, in the fleet's time; None since the start."""
        window = self._ui.window
        chosen = window.spans_s[window.place]
        if chosen is None:
            return None
        minutes = math.ceil(chosen * (self._monitor.moment().speed or 1.0) / 60)
        # One that has begun is only a part.
        return None if minutes > MINUTES else min(MINUTES, minutes + 1)

    @property
    def window_text(self) -> str:
        """The time that the sums cover."""
        report = self.report
        if report is None or not report.lasts_s:
            return "nothing counted yet"
        minutes = self.minutes
        text = duration(report.lasts_s) + (", loading" if self._ui.is_loading else "")
        if minutes is None:
            return f"since the start, over {text}"
        return f"{'last' if report.lasts_s > (minutes - 1) * 60 - 1 else 'over'} {text}"

    @property
    def in_usd(self) -> bool:
        """Whether amounts are USD: they are where a price is known."""
        return (
            not self.shows_hours
            and self.report is not None
            and amounts_of(self.report.fleet, in_usd=True) is not None
        )

    def tick(self) -> None:
        self.sync()
        super().tick()

    def sync(self) -> None:
        """Read the paid time if it is another, and keep the cursor on its job."""
        monitor = self._monitor
        revision = monitor.revision
        report_of = (revision.source, monitor.history.end, self.minutes)
        if self.report is None or report_of != self._report_of:
            self._report_of = report_of
            self.report = monitor.goodput.report(self.minutes)
        rows_of = (
            self._report_of,
            revision.jobs,
            self._ui.alerts.revision,
            self.wanted,
            self.wanted.typed,
            self.order,
            self.shows_hours,
            self._ui.is_loading,
        )
        if rows_of != self.rows_of:
            self.rows_of = rows_of
            query = self.wanted
            rows = [row for row in self._all_rows() if not query or query.keeps(row)]
            self.matching = len(rows)
            self.rows = ordered(rows, self.order, in_usd=self.in_usd)[:MOST_ROWS]
        super().sync()
        if self._key is None:
            self._key = self._kept_key(self.row)

    def _all_rows(self) -> Iterable[JobRow]:
        """Yield a row for each job with paid time, or published."""
        report = self.report
        ingest = self._monitor.ingest
        jobs = ingest.jobs
        if report is None:
            return
        times: dict[str, JobTime | None] = {
            OTHERS if time.job is None else time.job: time for time in report.jobs
        }
        times |= {name: None for name in jobs if name not in times}
        chips = self._chips()
        numbers = {name: number for number, name in enumerate(ingest.job_table.placed)}
        per_h = 3_600 / report.lasts_s if report.lasts_s else math.nan
        for key, time in times.items():
            claimed = ingest.job_table.claimed_figures(key, self._monitor.store)
            number = -1 if key == NO_JOB else numbers.get(key)
            title = {NO_JOB: "no job", OTHERS: "other jobs"}.get(key) or plain(
                ingest.names.job(key)
            )
            yield JobRow(
                key,
                title,
                time,
                per_h,
                claimed.chips
                if claimed is not None
                else None
                if number is None or number >= len(chips) - 1
                else int(chips[number]),
                jobs.get(key),
                claimed,
                problem_of(self._ui.alerts.problems, key) if key in jobs else None,
                key in ingest.job_table.last_known,
                key in jobs and present_cause(jobs[key], self._monitor.site) is TimeCause.SLOW,
            )

    def _chips(self) -> NDArray[np.int64]:
        """Return the chips of each placed job and, last, those without a job."""
        store = self._monitor.store
        if self._chips_of[0] is not store.placement:
            most = len(self._monitor.ingest.job_table.placed)
            owners = np.where((store.job_of >= 0) & (store.job_of < most), store.job_of, most)
            chips = np.bincount(owners, store.layout.sizes, most + 1).astype(np.int64)
            self._chips_of = (store.placement, chips)
        return self._chips_of[1]

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        made = (f" {NOT_FOUND}",) if self.wanted else NOTHING
        return [(fit(text, self.line_width), theme.QUIET) for text in made]

    # Lines

    def plan(self) -> dict[str, int]:
        """Return the cells of the columns at the present width."""
        plan_of = (self.rows_of, self.line_width)
        if self._plan[0] != plan_of:
            chips = int(self._monitor.store.layout.sizes.sum())
            self._plan = (plan_of, columns_at(self.line_width, self.rows, chips))
        return self._plan[1]

    def drawn_meters(self) -> str:
        """Return the signs in the meters of the rows on the screen and of the fleet."""
        width = self.plan().get("meter", 0) - 1
        shown = self.rows[self.top : self.top + self.size.height]
        times = [row.time for row in shown] + [self.report and self.report.whole]
        return "".join(text_of(meter(time.paid.seconds, width)) for time in times if time)

    def head(self) -> Parts:
        """Return the names of the columns."""
        plan = self.plan()
        titles = {
            "chips": "chips",
            "pace": "pace",
            "step": "step",
            "slower": "vs ideal",
            "mfu": "MFU %",
            "meter": " where paid time went" if plan.get("meter", 0) > 21 else " paid time",
            "goodput": "goodput",
            "lost": "lost USD/h" if self.in_usd else "lost h/h",
            "loss": " largest loss",
            "problem": " problem now",
        }
        made = [
            fit(title, plan[name]) if title[0] == " " else right(title, plan[name])
            for name, title in titles.items()
            if plan.get(name)
        ]
        line = f"{'':{_SIGN}}{fit('job', plan['job'])}{''.join(made)}"
        return [(fit(line, self.line_width), theme.GHOST)]

    def sum_parts(self) -> Parts:
        """Return the fleet's line below all jobs."""
        report = self.report
        if report is None:
            return []
        sum_row = JobRow(
            OTHERS,
            "sum",
            report.whole,
            3_600 / report.lasts_s if report.lasts_s else math.nan,
            int(self._monitor.store.layout.sizes.sum()),
            None,
            None,
            None,
            is_last_known=False,
            is_late=False,
        )
        return self._figures(sum_row, self.plan(), ("   ", theme.BASE), theme.STRONG, theme.STRONG)

    def parts_of(self, row: JobRow, width: int, *, selected: bool) -> Parts:
        sign, style = self._sign(row)
        body = theme.SELECTED if selected else theme.QUIET if row.is_last_known else theme.BASE
        lost = row.lost_per_h(in_usd=self.in_usd)
        is_hurt = row.problem is not None and row.problem.severity is not Severity.INFO
        loud = theme.SEVERITY_STYLE[Severity.WARNING] if is_hurt and lost else body
        mark = (f"{'>' if selected else ' '}{sign} ", style)
        parts = self._figures(row, self.plan(), mark, body, loud)
        if selected:
            parts = [(text, style + theme.CURSOR_FILL) for text, style in parts]
        return cut(parts, width)

    def _sign(self, row: JobRow) -> tuple[str, Style]:
        """Return a row's first sign: its problem's severity, else its state."""
        if row.key == NO_JOB:
            is_reserved = row.time is not None and row.time.paid.seconds[TimeCause.IDLE_RESERVED]
            tile = _IDLE[TimeCause.IDLE_RESERVED if is_reserved else TimeCause.IDLE]
            return theme.TILE_GLYPH[tile], theme.TILE_STYLE[tile]
        if row.problem is not None and (row.job is None or row.job.state not in JOBS_DOWN):
            severity = row.problem.severity
            return theme.SEVERITY_GLYPH[severity], theme.SEVERITY_STYLE[severity]
        if row.job is None:
            return " ", theme.QUIET
        if row.is_last_known:
            return theme.STATE_GLYPH[Freshness.STALE], theme.STATE_STYLE[Freshness.STALE]
        return look(row.job.state)

    def _figures(
        self, row: JobRow, plan: dict[str, int], mark: tuple[str, Style], body: Style, loud: Style
    ) -> Parts:
        """Return the line of a row: its sign, its figures, and its largest loss."""
        quiet = theme.QUIET if body is theme.BASE else body
        slower = row.slower_pct
        is_slow = slower is not None and slower >= SLOW_PCT
        warning = theme.SEVERITY_STYLE[Severity.WARNING]
        parts: Parts = [mark, (fit(row.title, plan["job"]), body)]
        parts += [
            (right(text, plan[name]), style)
            for name, text, style in (
                ("chips", NOT_AVAILABLE if row.chips is None else count(row.chips), body),
                (
                    "pace",
                    self._pace(row),
                    warning if row.is_late and not row.is_last_known else body,
                ),
                ("step", "-" if row.step_s is None else quantity(row.step_s, "s"), quiet),
                (
                    "slower",
                    "-" if slower is None else signed_percent(slower),
                    warning if is_slow else quiet,
                ),
                ("mfu", "-" if row.mfu_pct is None else f"{row.mfu_pct:.1f}", quiet),
            )
            if name in plan
        ]
        if "meter" in plan:
            seconds = np.zeros(len(TimeCause)) if row.time is None else row.time.paid.seconds
            parts += [(" ", body), *meter(seconds, plan["meter"] - 1)]
        share = NOT_AVAILABLE if row.goodput_pct is None else f"{row.goodput_pct:.1f} %"
        parts.append((right(share, plan["goodput"]), body))
        parts += self._lost_parts(row, plan, quiet, loud)
        if "problem" in plan and row.problem is not None:
            style = theme.SEVERITY_STYLE[row.problem.severity]
            parts.append((fit(f" {_problem_text(row.problem)}", plan["problem"]), style))
        return parts

    def _lost_parts(self, row: JobRow, plan: dict[str, int], quiet: Style, loud: Style) -> Parts:
        """Return what a row loses an hour, and its largest loss."""
        time = row.time
        amounts = row.amounts(in_usd=self.in_usd)
        if time is None or amounts is None:
            return [(right(NOT_AVAILABLE, plan["lost"]), quiet), (fit(" -", plan["loss"]), quiet)]
        lost = at_least(time.paid, in_usd=self.in_usd) + amount_text(lost_of(amounts) * row.per_h)
        cause = largest_loss(amounts * row.per_h)
        loss = "-"
        if cause is not None:
            amount = float(amounts[cause]) * row.per_h
            loss = f"{cause.label} {amount_text(amount)}"
            if len(loss) >= plan["loss"]:
                loss = f"{cause.label} {amount:,.0f}"
        style = quiet if cause is None else loud
        return [(right(lost, plan["lost"]), loud), (fit(f" {loss}", plan["loss"]), style)]

    def _pace(self, row: JobRow) -> str:
        job = row.job
        if job is None:
            return "-"
        if row.is_last_known:
            return "last known"
        return plain(job.state) if job.state in JOBS_DOWN else pace(job, row.claimed)


def _problem_text(problem: Problem) -> str:
    place = texts.place_text(problem.place, problem.names)
    return f"{place}: {texts.text_of(problem)}" if place else texts.text_of(problem)


def ordered(rows: list[JobRow], order: str, *, in_usd: bool) -> list[JobRow]:
    """Return rows in one of `SORTS`; unknown figures come last."""
    if order == NAME:
        return sorted(rows, key=lambda row: row.title)
    if order == CHIPS:
        return sorted(rows, key=lambda row: (-(row.chips or 0), row.title))
    if order == GOODPUT:
        return sorted(
            rows,
            key=lambda row: (math.inf if row.goodput_pct is None else row.goodput_pct, row.title),
        )
    return sorted(
        rows,
        key=lambda row: (
            math.inf if (lost := row.lost_per_h(in_usd=in_usd)) is None else -lost,
            -(row.lost_per_h(in_usd=False) or 0.0),
            row.title,
        ),
    )
