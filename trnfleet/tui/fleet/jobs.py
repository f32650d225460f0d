"""The jobs beside the heat map: name, state, how fast it goes, how well it uses its chips, and what faults cost it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType

from trnfleet.domain.quantities import bare, signed_percent, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.impact import STEP_TIME_FIGURE
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.monitor.store.store import Freshness
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.bars.last_known import LAST_KNOWN, last_known
from trnfleet.tui.format.alerts import worst_of
from trnfleet.tui.widgets.cells import fit, width_of
from trnfleet.tui.widgets.cursor_list import RowList
from trnfleet.tui.widgets.line_view import Line, text_line
from trnfleet.tui.widgets.targets import Pressed, Target, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.tui.state.alerts import AlertSnapshot
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cells import Parts
    from trnfleet.wire.messages import JobMessage


ALERTS = 4
"""Cells for a job's alerts: a gap, a sign and their number."""


class StateLook(NamedTuple):
    """Look of a job's state: a sign and a colour beside the word."""

    glyph: str
    style: Style


_LOOKS: dict[str, tuple[str, Severity | None]] = {
    "running": ("●", None),
    "checkpointing": ("▼", Severity.INFO),
    "starting": ("▷", Severity.INFO),
    "stalled": ("▲", Severity.WARNING),
    "waiting": ("◌", Severity.CRITICAL),
    "hung": ("‖", Severity.CRITICAL),
    "failed": ("✖", Severity.CRITICAL),
}
"""Sign of a state, and the severity whose colour it has; None for that of text."""
_TROUBLES = (Severity.CRITICAL, Severity.WARNING)
_QUIET_LOOKS = {"idle": "○"}
_OTHER = "·"
"""Of states that are not known here: only the word tells them apart."""

STATE_NARROW, STATE_WIDE = 8, 13
"""Cells of a state: its word, of which the longest is cut where MFU would have no room."""
_WIDE_FROM = 60
PACE = 12
STEP, BASE = 7, 6
"""Cells of the time of a step, and of its distance from what is usual."""
SLOW_PCT = 10.0
"""From here on steps take clearly longer, as the rule `job-slow` has it."""
NAME_LEAST, NAME_MOST = 9, 24


def look(state: str, *, is_last_known: bool = False) -> StateLook:
    """Return the look of a state; of one that is as last known, what needs help keeps its own, and all else is stale."""
    glyph, severity = _LOOKS.get(state, (_QUIET_LOOKS.get(state, _OTHER), None))
    if is_last_known and severity not in _TROUBLES:
        return StateLook(theme.STATE_GLYPH[Freshness.STALE], theme.STATE_STYLE[Freshness.STALE])
    if state not in _LOOKS:
        return StateLook(glyph, theme.QUIET)
    return StateLook(glyph, theme.BASE if severity is None else theme.SEVERITY_STYLE[severity])


def pace(job: JobMessage) -> str:
    """Return how fast a job goes, in the terms of its kind."""
    if job.tokens_per_s is not None:
        return f"{bare(job.tokens_per_s, '')} tok/s"
    if job.steps_per_s is not None:
        # Steps take seconds: below one a second, the time of one says more.
        return f"{job.steps_per_s:.3g} step/s"
    return "n/a"


class JobPlan(NamedTuple):
    """The columns of the list at a width."""

    name: int
    state: int
    has_mfu: bool
    has_step: bool
    """The time of a step, and how far it is from what is usual."""
    has_lost: bool
    has_restarts: bool
    has_kind: bool

    @staticmethod
    def of(width: int, longest: int) -> JobPlan:
        """Return what there is room for beside names of which the longest has `longest` characters."""
        # Sign and gaps, state, pace.
        state = STATE_WIDE if width >= _WIDE_FROM else STATE_NARROW
        left = width - 3 - (1 + state) - (1 + PACE)
        wanted = min(NAME_MOST, max(NAME_LEAST, longest))
        shown: list[bool] = []
        for cells in (8, STEP + BASE + 2, 9, 10, 10):
            fits = left - cells >= wanted and all(shown)
            shown.append(fits)
            left -= cells if fits else 0
        return JobPlan(max(NAME_LEAST, min(left, wanted)), state, *shown)


def head(jobs: int, plan: JobPlan, *, are_last_known: bool = False) -> Parts:
    """Return the list's head: how many there are, and what its columns are.

    Args:
        jobs: How many jobs there are.
        plan: The columns.
        are_last_known: Whether states and figures of any are as last known, which is told in place of the state's title.
    """
    title = " Jobs "
    amount = f"{jobs:,}"
    room = 3 + plan.name
    state = f" {'state':{plan.state}}"
    parts: Parts = [(title, theme.STRONG), (amount.ljust(max(0, room - len(title))), theme.QUIET)]
    if are_last_known:
        room += len(state) - len(title)
        told = fit(
            f"{amount}, {LAST_KNOWN}" if len(amount) + len(LAST_KNOWN) + 2 <= room else LAST_KNOWN,
            room,
        )
        parts, state = (
            [(title, theme.STRONG), (told.ljust(room), theme.STATE_STYLE[Freshness.STALE])],
            "",
        )
    titles = [state, f" {'pace':>{PACE}}"]
    titles += [f" {'MFU':>7}"] * plan.has_mfu
    titles += [f" {'step':>{STEP}} {'Δ base':>{BASE}}"] * plan.has_step
    titles += [f" {'lost':>8}"] * plan.has_lost
    titles += [f" {'restarts':>9}"] * plan.has_restarts + [f" {'kind':9}"] * plan.has_kind
    return [*parts, ("".join(titles), theme.GHOST)]


def problem_of(alerts: AlertSnapshot, name: str) -> Problem | None:
    """Return the worst problem that hurts a job; None for none."""
    listed = alerts.problems.listed
    return next((each for each in listed if any(impact.job == name for impact in each.jobs)), None)


def slowdown_of(alerts: AlertSnapshot, job: JobMessage) -> float | None:
    """Return by how much a job's steps take longer than usual, in %, as the problem says that hurts it; None where nothing is known."""
    problem = problem_of(alerts, job.job)
    for impact in problem.jobs if problem is not None else ():
        if impact.job == job.job and impact.slowdown_pct is not None:
            return impact.slowdown_pct
    usual_s = alerts.alerts.usual(STEP_TIME_FIGURE, job.job)
    if not usual_s or job.step_time_s is None or job.state in JOBS_DOWN:
        return None
    return 100.0 * (job.step_time_s / usual_s - 1.0)


class JobList(RowList[str, "JobMessage"]):
    """Jobs in trouble first, then by their names, two lines each where there is room; a click or Enter leads to the cause of a job's trouble, or to its place."""

    HELP_TITLE = "Fleet: problems and jobs"
    DEFAULT_CSS = "JobList { scrollbar-gutter: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "Go to the cause, or to a job's place"),
    ]

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = context.monitor
        self._alerts = context.alerts
        self.last_known: frozenset[str] = frozenset()
        """Names of the jobs of which nothing comes at present."""

    def key_of(self, row: JobMessage) -> str:
        return row.job

    def plan(self, width: int) -> JobPlan:
        return JobPlan.of(
            width - self._room_of_alerts, max(map(len, self.monitor.ingest.jobs), default=0)
        )

    @property
    def _room_of_alerts(self) -> int:
        """Cells for alerts at the end of a line; 0 where there are no rules."""
        return ALERTS if self._alerts.has_rules else 0

    def head(self, jobs: int) -> Parts:
        """Return the list's head at the present width."""
        width = self.line_width
        parts = head(jobs, self.plan(width), are_last_known=bool(self.last_known))
        left = width - width_of(parts)
        title = next((each for each in ("alerts", "!") if len(each) + 1 <= left), "")
        return (
            [*parts, (f"{title:>{max(0, left)}}", theme.GHOST)] if self._room_of_alerts else parts
        )

    def tick(self, limit: int | None = None) -> int:
        jobs = self.monitor.ingest.jobs
        is_last_known = last_known(self.monitor)
        self.last_known = frozenset(name for name, job in jobs.items() if is_last_known(job))
        height = self.scrollable_content_region.height
        self.lines_per_row = 2 if height >= 2 * len(jobs) else 1
        self.put(sorted(jobs.values(), key=lambda job: (self._rank(job), job.job)))
        return super().tick(limit)

    def _rank(self, job: JobMessage) -> int:
        """Return the rank of the worst of a job's state and its alerts; the largest where all is well."""
        found = [worst_of(alerts)] if (alerts := self._alerts.of_job(job.job)) else []
        state = _LOOKS.get(job.state, (_OTHER, None))[1]
        return min(
            (each.rank for each in (*found, state) if each in _TROUBLES), default=len(Severity)
        )

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        return [(" no jobs", theme.GHOST)]

    def row_lines(self, rows: range, width: int) -> list[Line]:
        room = min(width, self.line_width)
        plan = self.plan(room)
        made: list[Line] = []
        for number in rows:
            job = self.rows[number]
            selected = self.has_focus and number == self.row
            fill = theme.SELECTED_QUIET if selected else theme.BASE
            target = self.target_of(job)
            parts = row(
                job,
                plan,
                slowdown_of(self._alerts, job) if plan.has_step else None,
                selected=selected,
                is_last_known=job.job in self.last_known,
            )
            parts += self._alert_parts(job, room - width_of(parts))
            made.append(
                text_line([(text, linked(style, target)) for text, style in parts], width, fill)
            )
            if self.lines_per_row > 1:
                quiet = theme.SELECTED_QUIET if selected else theme.QUIET
                below = fit(f"└ {self._below(job, plan, room - 5)}", max(1, room - 3))
                made.append(text_line([(f"   {below}", linked(quiet, target))], width, fill))
        return made

    def place_of(self, job: JobMessage) -> str:
        """Return where a job leads to: the cause of the worst problem that hurts it and has a place, else where it begins.

        Empty for a job of which no instance is known.
        """
        for problem in self._alerts.problems.listed:
            if problem.place.address and any(impact.job == job.job for impact in problem.jobs):
                return problem.place.address
        return begin_of(job, self.monitor.store.layout)

    def target_of(self, job: JobMessage) -> Target:
        """Return what a click on a job, or Enter, asks for."""
        place = self.place_of(job)
        return Target(TargetKind.PLACE, place) if place else Target(TargetKind.JOB, job.job)

    def action_enter(self) -> None:
        if self.picked is not None:
            self.post_message(Pressed(self.target_of(self.picked)))

    def on_focus(self) -> None:
        """Show the cursor, and where it points to."""
        if self.picked is not None:
            self.point(self.row)
        # Textual notes the focus after this handler.
        self.call_next(self.tick)

    def on_blur(self) -> None:
        self.call_next(self.tick)

    def _below(self, job: JobMessage, plan: JobPlan, room: int) -> str:
        """Return what stands below a job: the cause of its trouble, else where it runs, and what faults cost it."""
        problem = problem_of(self._alerts, job.job)
        first = plain(job.on[0].rpartition("/")[2], 40) if job.on else ""
        whole = place = f"{first} and {len(job.on) - 1:,} more" if len(job.on) > 1 else first
        if problem is not None:
            cause, whole = texts.place_text(problem.place), texts.text_of(problem)
            # Where nothing but the job is to blame, its name is on the line above.
            if cause != plain(job.job):
                place, whole = cause, f"{cause}: {whole}"
        lost = [
            f"{bare(job.steps_lost, 'events')} steps lost"
            if not plan.has_lost and job.steps_lost
            else "",
            f"restarts {bare(job.restarts, 'events')}"
            if not plan.has_restarts and job.restarts
            else "",
        ]
        cost = "  ".join(each for each in lost if each)
        # Rather fewer words than cut ones.
        forms = (f"{whole}  {cost}".rstrip(), whole, f"{place}  {cost}".rstrip())
        return next((form for form in forms if len(form) <= room), place)

    def _alert_parts(self, job: JobMessage, room: int) -> Parts:
        """Return the alerts of a job, at the end of its line: the worst one's sign, and how many there are."""
        alerts = self._alerts.of_job(job.job)
        if not alerts:
            return []
        worst = worst_of(alerts)
        text = f"{theme.SEVERITY_GLYPH[worst]}{min(len(alerts), 99)}"
        return [(f"{text:>{max(0, room)}}", theme.SEVERITY_STYLE[worst])]


def begin_of(job: JobMessage, layout: Layout) -> str:
    """Return the address where a job begins; empty where no place of it is known."""
    begins = (place.partition("..")[0] for place in job.on)
    return next((address for address in begins if layout.find(address) is not None), "")


def unplaced_text(job: JobMessage) -> str:
    """Return why a job leads nowhere: no instance of it is known."""
    named = plain(job.job, 40)
    if not job.on:
        return f"job {named} is {plain(job.state, 20)} and names no instance"
    first = plain(job.on[0], 60)
    return f"no instance of job {named} is known: nothing has described {first}" + (
        f" and {len(job.on) - 1:,} more" if len(job.on) > 1 else ""
    )


def row(
    job: JobMessage,
    plan: JobPlan,
    slowdown_pct: float | None = None,
    *,
    selected: bool = False,
    is_last_known: bool = False,
) -> Parts:
    """Return one job's line.

    Args:
        job: The job.
        plan: The columns.
        slowdown_pct: By how much its steps take longer than usual; None where that is not known.
        selected: Whether the cursor is on it.
        is_last_known: Whether nothing comes of it at present, so that its figures are of no present.
    """
    glyph, style = look(job.state, is_last_known=is_last_known)
    body = theme.SELECTED if selected else theme.QUIET if is_last_known else theme.BASE
    parts: Parts = [
        (f"{'>' if selected else ' '}{glyph} ", style),
        (_cut(plain(job.job), plan.name).ljust(plan.name), body),
        (f" {_cut(plain(job.state), plan.state):{plan.state}}", style),
        (f" {pace(job):>{PACE}}", body),
    ]
    if plan.has_mfu:
        parts.append(
            (f" {with_unit(None if job.mfu is None else 100 * job.mfu, '%'):>7}", theme.QUIET)
        )
    if plan.has_step:
        step = "" if job.step_time_s is None else with_unit(job.step_time_s, "s")
        slowdown = "" if slowdown_pct is None else signed_percent(slowdown_pct)
        is_slow = slowdown_pct is not None and slowdown_pct >= SLOW_PCT
        parts.append((f" {_cut(step, STEP):>{STEP}}", theme.QUIET))
        parts.append(
            (
                f" {_cut(slowdown, BASE):>{BASE}}",
                theme.SEVERITY_STYLE[Severity.WARNING]
                if is_slow and not is_last_known
                else theme.QUIET,
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


def _steps(number: float | None) -> str:
    """Return a count, nothing where it makes no sense for a kind of job."""
    return "" if number is None else bare(number, "events")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
