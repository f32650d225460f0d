"""The jobs beside the heat map: name, state, how fast it goes, how well it uses its chips, and what faults cost it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import bare, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.alerts import worst_of
from trnfleet.tui.widgets.cells import width_of
from trnfleet.tui.widgets.line_view import Line, LineView, text_line
from trnfleet.tui.widgets.targets import Target, TargetKind, linked

if TYPE_CHECKING:
    from rich.style import Style

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
_QUIET_LOOKS = {"idle": "○"}
_OTHER = "·"
"""Of states that are not known here: only the word tells them apart."""

STATE_NARROW, STATE_WIDE = 8, 13
"""Cells of a state: its word, of which the longest is cut where MFU would have no room."""
_WIDE_FROM = 60
PACE = 12
NAME_LEAST, NAME_MOST = 9, 24


def look(state: str) -> StateLook:
    """Return the look of a state."""
    if state not in _LOOKS:
        return StateLook(_QUIET_LOOKS.get(state, _OTHER), theme.QUIET)
    glyph, severity = _LOOKS[state]
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
        for cells in (8, 9, 10, 10):
            fits = left - cells >= wanted and all(shown)
            shown.append(fits)
            left -= cells if fits else 0
        return JobPlan(max(NAME_LEAST, min(left, wanted)), state, *shown)


def head(jobs: int, plan: JobPlan) -> Parts:
    """Return the list's head: how many there are, and what its columns are."""
    title = " Jobs "
    amount = f"{jobs:,}"
    room = 3 + plan.name
    parts: Parts = [(title, theme.STRONG), (amount.ljust(max(0, room - len(title))), theme.QUIET)]
    texts = [f" {'state':{plan.state}}", f" {'pace':>{PACE}}"]
    texts += [f" {'MFU':>7}"] * plan.has_mfu + [f" {'lost':>8}"] * plan.has_lost
    texts += [f" {'restarts':>9}"] * plan.has_restarts + [f" {'kind':9}"] * plan.has_kind
    return [*parts, ("".join(texts), theme.GHOST)]


class JobList(LineView, can_focus=False):
    """Jobs, one a line, in the order of their names; a click leads to the cause of a job's trouble, or to its place."""

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = context.monitor
        self._alerts = context.alerts

    @property
    def line_width(self) -> int:
        return self._visible_size().width

    def plan(self, width: int) -> JobPlan:
        return JobPlan.of(width - self._room_of_alerts, max(map(len, self.monitor.ingest.jobs), default=0))

    @property
    def _room_of_alerts(self) -> int:
        """Cells for alerts at the end of a line; 0 where there are no rules."""
        return ALERTS if self._alerts.has_rules else 0

    def head(self, jobs: int) -> Parts:
        """Return the list's head at the present width."""
        width = self.line_width
        parts = head(jobs, self.plan(width))
        left = width - width_of(parts)
        title = next((each for each in ("alerts", "!") if len(each) + 1 <= left), "")
        return [*parts, (f"{title:>{max(0, left)}}", theme.GHOST)] if self._room_of_alerts else parts

    def tick(self, limit: int | None = None) -> int:
        self.set_extent(0, len(self.monitor.ingest.jobs))
        return super().tick(limit)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        jobs = self.monitor.ingest.jobs
        names = sorted(jobs)[top : top + height]
        if not names:
            return [text_line([(" no jobs", theme.GHOST)], width)]
        plan = self.plan(width)
        made = []
        for name in names:
            target = Target(TargetKind.PLACE, self._place(name))
            parts = [*row(jobs[name], plan), *self._alert_parts(name, width, plan)]
            made.append(text_line([(text, linked(style, target)) for text, style in parts], width))
        return made

    def _place(self, name: str) -> str:
        """Return where a click on a job leads: to the cause of the worst problem that hurts it, else to where it begins."""
        for problem in self._alerts.problems.listed:
            if problem.place.address and any(impact.job == name for impact in problem.jobs):
                return problem.place.address
        return next(iter(self.monitor.ingest.jobs[name].on), "")

    def _alert_parts(self, name: str, width: int, plan: JobPlan) -> Parts:
        """Return the alerts of a job, at the end of its line: the worst one's sign, and how many there are."""
        alerts = self._alerts.of_job(name)
        if not alerts:
            return []
        worst = worst_of(alerts)
        used = width_of(row(self.monitor.ingest.jobs[name], plan))
        text = f"{theme.SEVERITY_GLYPH[worst]}{min(len(alerts), 99)}"
        return [(f"{text:>{max(0, width - used)}}", theme.SEVERITY_STYLE[worst])]


def row(job: JobMessage, plan: JobPlan) -> Parts:
    """Return one job's line."""
    glyph, style = look(job.state)
    parts: Parts = [
        (f" {glyph} ", style),
        (_cut(plain(job.job), plan.name).ljust(plan.name), theme.BASE),
        (f" {_cut(plain(job.state), plan.state):{plan.state}}", style),
        (f" {pace(job):>{PACE}}", theme.BASE),
    ]
    if plan.has_mfu:
        parts.append((f" {with_unit(None if job.mfu is None else 100 * job.mfu, '%'):>7}", theme.QUIET))
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
