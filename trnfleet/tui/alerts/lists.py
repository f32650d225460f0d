"""The lists of the Alerts view: alerts or groups, silences, and history.

Each has the columns for its width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import value_text
from trnfleet.domain.quantities import DurationStyle, count, counted
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import shortened
from trnfleet.tui.format.alerts import (
    age_text,
    amount_text,
    said_text,
    severity_text,
    silence_state,
    silence_text,
    status_text,
    time_text,
    where_text,
)
from trnfleet.tui.keys import bind
from trnfleet.tui.widgets.cells import Parts, fit, right, width_of
from trnfleet.tui.widgets.cursor_list import K, R, RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual.binding import BindingType

    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.domain.severity import Severity
    from trnfleet.monitor.alerting.store import AlertTransition
    from trnfleet.tui.alerts.rows import AlertGroup, AlertLine
    from trnfleet.tui.state.alerts import AlertSnapshot

MEDIUM = 100
WIDE = 130
"""Least widths: for whole words and the job's column, and for longer names."""
WHERE = 34
TEXT_FROM = 24
"""Cells of a whole place, and further cells needed for the problem text beside it."""
OWNER = 30
"""Cells of owner and status in wide lists."""
AGE = 4


class AlertPlan(NamedTuple):
    """Cells of the columns at a width, without the space behind each.

    0 for no column.
    """

    severity: int
    rule: int
    where: int
    value: int
    amount: int
    job: int
    status: int
    is_short: bool
    text: int = 0
    """Problem text and cause, on wide screens only."""

    @staticmethod
    def for_width(width: int, *, shows_status: bool) -> AlertPlan:
        """Return the columns for a width in cells.

        Args:
            width: Of a line.
            shows_status: Whether every alert shows its status.
        """
        medium = width >= MEDIUM
        wide = width >= WIDE
        severity = 10 if medium else 6
        rule = 22 if medium else 18
        value = 10 if medium else 9
        amount = 11 if medium else 9 if not shows_status else 0
        job = 18 if wide else 12 if medium and not shows_status else 0
        status = (26 if wide else 22 if medium else 19) if shows_status else 10 if medium else 0
        cells = (severity, AGE, 2 + rule, value, amount, job, status)
        # The last column has no space behind it, unless it is empty.
        used = 1 + sum(cell + 1 for cell in cells if cell) + (not status)
        where = max(1, width - used)
        text = 0
        if where > WHERE + TEXT_FROM:
            text = where - WHERE - 1
            where = WHERE
            if shows_status:
                # The owner needs more than a status.
                more = min(OWNER - status, text - TEXT_FROM)
                status += more
                text -= more
        return AlertPlan(severity, rule, where, value, amount, job, status, not medium, text)


def alert_head(plan: AlertPlan) -> Parts:
    """Return the columns' titles."""
    severity = "sev" if plan.is_short else "severity"
    text = (
        f" {fit(severity, plan.severity)} {'age':>{AGE}}   {fit('rule', plan.rule)}"
        f" {fit('where', plan.where)} "
    )
    text += f"{fit('summary', plan.text)} " if plan.text else ""
    text += f"{right('value', plan.value)} "
    text += f"{right('affected', plan.amount)} " if plan.amount else ""
    text += f"{fit('job', plan.job)} " if plan.job else ""
    status = "owner, status" if plan.status >= OWNER else "status"
    return [(text + fit(status, plan.status), theme.HEAD)]


class Inks(NamedTuple):
    """Styles of a line."""

    body: Style
    quiet: Style
    severity: Style
    strong: Style

    @staticmethod
    def for_line(severity: Severity, *, selected: bool, is_loud: bool) -> Inks:
        """Return the styles of an alert's line: alerts without need for action are quieter."""
        if selected:
            return Inks(theme.SELECTED, theme.SELECTED_QUIET, theme.SELECTED, theme.SELECTED)
        if not is_loud:
            return Inks(theme.QUIET, theme.QUIET, theme.QUIET, theme.QUIET)
        return Inks(theme.BASE, theme.QUIET, theme.SEVERITY_STYLE[severity], theme.STRONG)


def alert_parts(
    row: AlertLine, plan: AlertPlan, snapshot: AlertSnapshot, *, selected: bool
) -> Parts:
    """Return the line of an alert or of several collapsed ones."""
    if row.group is not None:
        return _group_parts(row.group, plan, snapshot.now_ns, selected=selected)
    item = row.single
    if item is None:
        return []
    alert = item.alert
    ink = Inks.for_line(item.severity, selected=selected, is_loud=item.status is AlertStatus.FIRING)
    value = value_text(alert.rule, alert.value, plain(alert.text), DurationStyle.SHORT)
    status = status_text(item, snapshot.alerts, snapshot.now_ns)
    parts = _lead(item.severity, age_text(alert, snapshot.now_ns), plan, ink, selected=selected)
    parts += [
        (f"{'│' if row.is_inside else ' '} ", ink.quiet),
        (f"{fit(plain(alert.name), plan.rule)} ", ink.quiet if row.is_inside else ink.strong),
        (f"{fit(where_text(alert, plan.where), plan.where)} ", ink.body),
        (f"{fit(said_text(alert), plan.text)} " if plan.text else "", ink.quiet),
        (f"{right('' if value == 'n/a' else value, plan.value)} ", ink.body),
    ]
    if plan.amount:
        extent = amount_text(alert)
        if len(extent) > plan.amount:
            # The number is whole where its noun has no room.
            extent = extent.partition(" ")[0]
        # Without a column of its own, the status replaces the amount.
        amount = (not plan.status and status) or extent
        parts.append((f"{right(amount, plan.amount)} ", ink.quiet))
    if plan.job:
        parts.append((f"{fit(alert.names.job(alert.job), plan.job)} ", ink.quiet))
    parts.append((fit(status, plan.status), ink.quiet))
    return parts


def _group_parts(group: AlertGroup, plan: AlertPlan, now_ns: int, *, selected: bool) -> Parts:
    ink = Inks.for_line(
        group.severity, selected=selected, is_loud=group.status is AlertStatus.FIRING
    )
    amount = f"{count(len(group.members))} alerts"
    place = plain(group.newest.alert.names.address(group.place))
    room = plan.value + (1 + plan.amount if plan.amount else 0)
    parts = _lead(
        group.severity, age_text(group.newest.alert, now_ns), plan, ink, selected=selected
    )
    parts += [
        (f"{'▾' if group.is_open else '▸'} ", ink.body),
        (f"{fit(plain(group.name), plan.rule)} ", ink.strong),
        (
            f"{fit(shortened(place, plan.where) or 'fleet', plan.where)} ",
            ink.body,
        ),
        (f"{fit(said_text(group.newest.alert), plan.text)} " if plan.text else "", ink.quiet),
        (f"{right(amount, room)} ", ink.strong),
    ]
    if plan.job:
        jobs = {member.alert.names.job(member.alert.job) for member in group.members}
        parts.append((f"{fit(jobs.pop() if len(jobs) == 1 else '', plan.job)} ", ink.quiet))
    word = "" if group.status is AlertStatus.FIRING else group.status.value
    return [*parts, (fit(word, plan.status), ink.quiet)]


def _lead(severity: Severity, age: str, plan: AlertPlan, ink: Inks, *, selected: bool) -> Parts:
    return [
        (">" if selected else " ", ink.body),
        (f"{fit(severity_text(severity, short=plan.is_short), plan.severity)} ", ink.severity),
        (f"{age:>{AGE}} ", ink.quiet),
    ]


class TabList(RowList[K, R]):
    """The list of a tab."""

    IS_FEED = True

    def __init__(self, snapshot: AlertSnapshot) -> None:
        super().__init__()
        self._snapshot = snapshot
        self.words: list[str] = []
        """The text of an empty list."""

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        """Return the text of an empty list."""
        return [("", theme.QUIET), *((f" {text}", theme.QUIET) for text in self.words)]


class AlertList(TabList[str, "AlertLine"]):
    """Alerts, one a line, many of one rule in one."""

    HELP_TITLE = "Alerts"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "enter", "go to the alert's cause; open what is collapsed"),
    ]

    def __init__(self, snapshot: AlertSnapshot) -> None:
        super().__init__(snapshot)
        self.shows_status = False
        """Whether every alert shows its status, because all are listed."""

    @property
    def plan(self) -> AlertPlan:
        return self._plan(max(1, self.line_width))

    def _plan(self, width: int) -> AlertPlan:
        return AlertPlan.for_width(width, shows_status=self.shows_status)

    def key_of(self, row: AlertLine) -> str:
        """Return the alert's fingerprint, or its group's key."""
        return row.key

    def parts_of(self, row: AlertLine, width: int, *, selected: bool) -> Parts:
        return alert_parts(row, self._plan(width), self._snapshot, selected=selected)


class SilenceList(TabList[str, "Silence"]):
    """Silences, one per line, active ones first."""

    def __init__(self, snapshot: AlertSnapshot) -> None:
        super().__init__(snapshot)
        self.matched: dict[str, int] = {}
        """Number of active alerts that match, by silence id."""

    def key_of(self, row: Silence) -> str:
        return row.id

    def parts_of(self, row: Silence, width: int, *, selected: bool) -> Parts:
        """Return the line: end, number of matching alerts, owner, comment and matchers."""
        body = theme.SELECTED if selected else theme.BASE
        quiet = theme.SELECTED_QUIET if selected else theme.QUIET
        matched = self.matched.get(row.id, 0)
        who, why = silence_columns(width)
        parts: Parts = [
            (">" if selected else " ", body),
            (f"{fit(silence_state(row, self._snapshot.now_ns), 9)} ", body),
            (f"{right(counted(matched, 'alert'), 11)}  ", body if matched else quiet),
            (f"{fit(plain(row.whose), who)} ", quiet),
            (f"{fit(plain(row.why), why)} ", body),
        ]
        return [*parts, (fit(silence_text(row), width - width_of(parts)), quiet)]


def silence_columns(width: int) -> tuple[int, int]:
    """Return the cells of a silence's owner and comment at a width."""
    return (8, 16) if width < MEDIUM else (12, 30) if width < WIDE else (16, 44)


def silence_head(width: int) -> Parts:
    """Return the titles of the silences' columns."""
    who, why = silence_columns(width)
    return [
        (
            f" {'time left':9} {'matches':>11}  {fit('owner', who)} {fit('comment', why)} matchers",
            theme.HEAD,
        )
    ]


class HistoryEntry(NamedTuple):
    """A line of the history: a transition with its number."""

    number: int
    """Counts all transitions, from 1."""
    transition: AlertTransition


class HistoryList(TabList["tuple[int, str, str]", "HistoryEntry"]):
    """Transitions of alerts, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "enter", "go to the alert's place"),
    ]

    def key_of(self, row: HistoryEntry) -> tuple[int, str, str]:
        """Return time, kind and alert of a transition; its number differs per monitor."""
        happened = row.transition
        return happened.at_ns, happened.kind, happened.alert.fingerprint

    def parts_of(self, row: HistoryEntry, width: int, *, selected: bool) -> Parts:
        """Return the line: time, transition, alert, and its summary then."""
        happened = row.transition
        alert = row.transition.alert
        severity = alert.severity
        ink = Inks.for_line(severity, selected=selected, is_loud=happened.kind != "resolved")
        rule, where = history_columns(width)
        severity_cells = 10 if width >= MEDIUM else 1
        parts: Parts = [
            (">" if selected else " ", ink.body),
            (f"{time_text(happened.at_ns, self._snapshot.now_ns)[-8:]} ", ink.quiet),
            (f"{fit(happened.kind, 8)} ", ink.body),
            (
                f"{fit(severity_text(severity)[:severity_cells], severity_cells)} ",
                ink.severity,
            ),
            (f"{fit(plain(alert.name), rule)} ", ink.strong),
            (f"{fit(where_text(alert, where), where)} ", ink.body),
        ]
        return [*parts, (fit(plain(happened.summary, 400), width - width_of(parts)), ink.quiet)]


def history_columns(width: int) -> tuple[int, int]:
    """Return the cells of a rule's name and of its place at a width."""
    return (18, 17) if width < MEDIUM else (22, 26)


def history_head(width: int) -> Parts:
    """Return the titles of the history's columns."""
    rule, where = history_columns(width)
    severity, cells = ("severity", 10) if width >= MEDIUM else ("", 1)
    return [
        (
            (
                f" {'time':8} {'change':8} {fit(severity, cells)} {fit('rule', rule)}"
                f" {fit('where', where)} summary"
            ),
            theme.HEAD,
        )
    ]
