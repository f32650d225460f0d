"""The jobs beside the heat map: name, state, pace, MFU, and the cost of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len

from trnfleet.domain.quantities import bare, counted, signed_percent, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.state import jobs_of
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.monitor.store.last_known import LAST_KNOWN, last_known_text
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import name_in_fleet
from trnfleet.tui.format.alerts import worst_of
from trnfleet.tui.format.jobs import (
    LOOKS,
    OTHER,
    SLOW_PCT,
    look,
    pace,
    place_of,
    problem_of,
)
from trnfleet.tui.keys import bind
from trnfleet.tui.widgets.cells import Parts, fit, width_of
from trnfleet.tui.widgets.cursor_list import R, RowList
from trnfleet.tui.widgets.line_view import Line, text_line
from trnfleet.tui.widgets.targets import ClickTarget, Pressed, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual.binding import BindingType

    from trnfleet.monitor.store.jobs import ClaimedFigures
    from trnfleet.tui.state.context import UiContext
    from trnfleet.wire.messages import JobMessage


ALERTS = 4
"""Cells for a job's alerts: a gap, a sign and their number."""
_TROUBLES = (Severity.CRITICAL, Severity.WARNING)
STATE_NARROW = 8
STATE_WIDE = max(map(len, LOOKS))
"""Cells of a state. The longest word is cut if MFU would have no room."""
_WIDE_FROM = 60
PACE = 12
STEP = 7
BASE = 6
"""Cells of the step time, and of its deviation from usual."""
NAME_LEAST = 9
NAME_MOST = 24


class JobPlan(NamedTuple):
    """The columns of the list at a width."""

    name: int
    state: int
    has_mfu: bool
    has_step: bool
    """Whether there is room for the step time and its deviation from usual."""
    has_lost: bool
    has_restarts: bool
    has_kind: bool

    @staticmethod
    def arrange(width: int, longest: int, known: Sequence[bool] = (True,) * 5) -> JobPlan:
        """Return the columns with room beside names of up to `longest` characters.

        Args:
            width: Cells.
            longest: Cells of the longest name.
            known: Whether any job has MFU, step time, lost steps, restarts and kind.
        """
        # Sign and gaps, state, pace.
        state = STATE_WIDE if width >= _WIDE_FROM else STATE_NARROW
        left = width - 3 - (1 + state) - (1 + PACE)
        name_width = min(NAME_MOST, max(NAME_LEAST, longest))
        shown: list[bool] = []
        has_room = True
        for cells, is_known in zip((8, STEP + BASE + 2, 9, 10, 10), known, strict=True):
            # Nothing narrow takes the place of what is too wide.
            has_room = has_room and (left - cells >= name_width or not is_known)
            shown.append(has_room and is_known)
            left -= cells if shown[-1] else 0
        state += max(0, min(left - name_width, STATE_WIDE - state))
        return JobPlan(max(NAME_LEAST, min(left, name_width)), state, *shown)


def head(jobs: int, plan: JobPlan) -> Parts:
    """Return the list's head: the number of jobs and the names of the columns."""
    title = " Jobs "
    room = 3 + plan.name - len(title)
    parts: Parts = [(title, theme.STRONG), (f"{jobs:,}".ljust(max(0, room)), theme.QUIET)]
    titles = [f" {'state':{plan.state}}", f" {'pace':>{PACE}}"]
    titles += [f" {'MFU':>7}"] * plan.has_mfu
    titles += [f" {'step':>{STEP}} {'Δ base':>{BASE}}"] * plan.has_step
    titles += [f" {'lost':>8}"] * plan.has_lost
    titles += [f" {'restarts':>9}"] * plan.has_restarts + [f" {'kind':9}"] * plan.has_kind
    return [*parts, ("".join(titles), theme.GHOST)]


class FleetList(RowList[str, R]):
    """A list beside the map; its cursor is shown while it has the focus."""

    HELP_TITLE = "Fleet: problems and jobs"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "enter", "Go to the cause, or to a job's place"),
    ]

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = context.monitor
        self._alerts = context.alerts

    def on_focus(self) -> None:
        """Show the line under the cursor, and go there."""
        if self.picked is not None:
            self.point(self.row)
        # Textual notes the focus after this handler.
        self.call_next(self.tick)

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.call_next(self.tick)


class JobList(FleetList["JobMessage"]):
    """Jobs in trouble first, then by name, two lines each with enough room.

    A click or Enter opens the cause of a job's trouble, or the job's place.
    """

    def key_of(self, row: JobMessage) -> str:
        return row.job

    def plan(self, width: int) -> JobPlan:
        names = self.monitor.ingest.names
        jobs = self.monitor.ingest.jobs
        fields = [
            (job.mfu, job.step_time_s, job.steps_lost, job.restarts, job.kind)
            for job in jobs.values()
        ]
        known = [any(value is not None for value in values) for values in zip(*fields, strict=True)]
        longest = max(map(cell_len, map(names.job, jobs)), default=0)
        return JobPlan.arrange(width - self._room_of_alerts, longest, known or (True,) * 5)

    @property
    def _room_of_alerts(self) -> int:
        """Cells for alerts at the end of a line; 0 without rules."""
        return ALERTS if self._alerts.has_rules else 0

    def head(self, jobs: int) -> Parts:
        """Return the list's head at the present width."""
        width = self.line_width
        parts = head(jobs, self.plan(width))
        left = width - width_of(parts)
        title = next((label for label in ("alerts", "!") if len(label) + 1 <= left), "")
        return (
            [*parts, (f"{title:>{max(0, left)}}", theme.GHOST)] if self._room_of_alerts else parts
        )

    def tick(self) -> None:
        jobs = self.monitor.ingest.jobs
        height = self.scrollable_content_region.height
        self.lines_per_row = 2 if height >= 2 * len(jobs) else 1
        self.put(sorted(jobs.values(), key=lambda job: (self._rank(job), job.job)))
        super().tick()

    def _rank(self, job: JobMessage) -> int:
        """Return the worst rank of a job's state and alerts.

        The largest number if all is well.
        """
        severities = [worst_of(alerts)] if (alerts := self._alerts.of_job(job.job)) else []
        state = LOOKS.get(job.state, (OTHER, None))[1]
        return min(
            (severity.rank for severity in (*severities, state) if severity in _TROUBLES),
            default=len(Severity),
        )

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        return [(" no jobs", theme.GHOST)]

    def row_lines(self, rows: range, width: int) -> list[Line]:
        room = min(width, self.line_width)
        plan = self.plan(room)
        made: list[Line] = []
        running = jobs_of(self.monitor)
        for number in rows:
            job = self.rows[number]
            selected = self.has_focus and number == self.row
            fill = theme.SELECTED_QUIET if selected else theme.BASE
            target = self.target_of(job)
            claimed = self.monitor.ingest.job_table.claimed_figures(job.job, self.monitor.store)
            parts = row(
                job,
                plan,
                running.slowdown_pct(job) if plan.has_step else None,
                claimed,
                name=self.monitor.ingest.names.job(job.job),
                selected=selected,
                age_s=self.monitor.job_age_s(job.job),
            )
            parts += self._alert_parts(job, room - width_of(parts))
            made.append(
                text_line([(text, linked(style, target)) for text, style in parts], width, fill)
            )
            if self.lines_per_row > 1:
                quiet = theme.SELECTED_QUIET if selected else theme.QUIET
                below = fit(f"└ {self._below(job, plan, claimed, room - 5)}", max(1, room - 3))
                made.append(text_line([(f"   {below}", linked(quiet, target))], width, fill))
        return made

    def place_of(self, job: JobMessage) -> str:
        """Return the place that a job opens; empty if no instance of it is known."""
        return place_of(job, self._alerts.problems, self.monitor.store.layout)

    def target_of(self, job: JobMessage) -> ClickTarget:
        """Return the target of a click or Enter on a job."""
        place = self.place_of(job)
        return (
            ClickTarget(TargetKind.PLACE, place) if place else ClickTarget(TargetKind.JOB, job.job)
        )

    def action_enter(self) -> None:
        if self.picked is not None:
            self.post_message(Pressed(self.target_of(self.picked)))

    def _below(
        self, job: JobMessage, plan: JobPlan, claimed: ClaimedFigures | None, room: int
    ) -> str:
        """Return a job's second line: cause of trouble, else place, and fault cost."""
        problem = problem_of(self._alerts.problems, job.job)
        names = self.monitor.ingest.names
        layout = self.monitor.store.layout
        first = name_in_fleet(job.on[0], layout, names, 40)[:40] if job.on else ""
        whole = place = f"{first} and {len(job.on) - 1:,} more" if len(job.on) > 1 else first
        if claimed is not None:
            busy = with_unit(claimed.nc_util_pct, "%")
            used = with_unit(claimed.hbm_used_bytes, "bytes")
            source = plain(self.monitor.ingest.job_table.sources[job.job])
            whole = (
                f"{place}: {counted(claimed.chips, 'chip')} claimed ({source}), {busy}, HBM {used}"
            )
        if problem is not None:
            cause = texts.place_text(problem.place, names)
            whole = texts.text_of(problem)
            # Where nothing but the job is to blame, its name is on the line above.
            if cause != names.job(job.job):
                place = cause
                whole = f"{cause}: {whole}"
        lost = [
            (
                f"{bare(job.steps_lost, 'events')} steps lost"
                if not plan.has_lost and job.steps_lost
                else ""
            ),
            f"loss {job.loss:.4g}" if job.loss is not None else "",
            (
                f"restarts {bare(job.restarts, 'events')}"
                if not plan.has_restarts and job.restarts
                else ""
            ),
        ]
        cost = "  ".join(loss for loss in lost if loss)
        # Rather fewer words than cut ones.
        forms = (f"{whole}  {cost}".rstrip(), whole, f"{place}  {cost}".rstrip())
        return next((form for form in forms if len(form) <= room), place)

    def _alert_parts(self, job: JobMessage, room: int) -> Parts:
        """Return the alerts of a job: the worst sign and their number.

        They are at the end of its line.
        """
        alerts = self._alerts.of_job(job.job)
        if not alerts:
            return []
        worst = worst_of(alerts)
        text = f"{theme.SEVERITY_GLYPH[worst]}{min(len(alerts), 99)}"
        return [(f"{text:>{max(0, room)}}", theme.SEVERITY_STYLE[worst])]


def row(
    job: JobMessage,
    plan: JobPlan,
    slowdown_pct: float | None = None,
    claimed: ClaimedFigures | None = None,
    *,
    name: str = "",
    selected: bool = False,
    age_s: float | None = None,
) -> Parts:
    """Return one job's line.

    Args:
        job: The job.
        plan: The columns.
        slowdown_pct: By how much its steps take longer than usual; None where that is not known.
        claimed: Figures of the chips that it claims.
        name: Its display name; the segment by default.
        selected: Whether the cursor is on it.
        age_s: Seconds since its chips were last heard; None while any is live. It has no pace then.
    """
    is_live = age_s is None
    glyph, style = look(job.state)
    if not is_live and job.state not in JOBS_DOWN:
        glyph = theme.STATE_GLYPH[Freshness.STALE]
        style = theme.STATE_STYLE[Freshness.STALE]
    body = theme.SELECTED if selected else theme.BASE if is_live else theme.QUIET
    parts: Parts = [
        (f"{'>' if selected else ' '}{glyph} ", style),
        (fit(name or plain(job.job), plan.name), body),
    ]
    if age_s is None:
        parts.append((f" {_cut(plain(job.state), plan.state):{plan.state}}", style))
        parts.append((f" {pace(job, claimed):>{PACE}}", body))
    else:
        parts.append((_last_known(job, age_s, 2 + plan.state + PACE), style))
    if plan.has_mfu:
        share = with_unit(None if job.mfu is None else 100 * job.mfu, "%") if is_live else ""
        parts.append((f" {share:>7}", theme.QUIET))
    if plan.has_step:
        step = "" if job.step_time_s is None or not is_live else with_unit(job.step_time_s, "s")
        slowdown = "" if slowdown_pct is None else signed_percent(slowdown_pct)
        is_slow = slowdown_pct is not None and slowdown_pct >= SLOW_PCT
        parts.append((f" {_cut(step, STEP):>{STEP}}", theme.QUIET))
        parts.append(
            (
                f" {_cut(slowdown, BASE):>{BASE}}",
                theme.SEVERITY_STYLE[Severity.WARNING] if is_slow else theme.QUIET,
            )
        )
    if plan.has_lost:
        parts.append(
            (
                f" {_steps(job.steps_lost):>8}",
                theme.SEVERITY_STYLE[Severity.WARNING] if job.steps_lost else theme.QUIET,
            )
        )
    if plan.has_restarts:
        parts.append(
            (
                f" {_steps(job.restarts):>9}",
                theme.SEVERITY_STYLE[Severity.WARNING] if job.restarts else theme.QUIET,
            )
        )
    if plan.has_kind:
        parts.append((f" {_cut(plain(job.kind), 9):9}", theme.QUIET))
    return parts


def _last_known(job: JobMessage, age_s: float, room: int) -> str:
    """Return the age of a job's message, in place of state and pace.

    A state that needs help is added.
    """
    age = last_known_text(age_s)
    state = f" {plain(job.state, 12)} " if job.state in JOBS_DOWN else " "
    if len(state) + len(age) > room:
        age = age.removeprefix(f"{LAST_KNOWN} ")
    return state + f"{age:>{room - len(state)}}"


def _steps(number: float | None) -> str:
    """Return a count; empty if it makes no sense for a kind of job."""
    return "" if number is None else bare(number, "events")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
