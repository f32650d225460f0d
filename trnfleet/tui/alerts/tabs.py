"""Titles, counts and notes of the tabs, and the texts of empty ones.

Pure functions to the parts of a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.quantities import count
from trnfleet.domain.severity import Severity
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.alerts.query import owner_of
from trnfleet.tui.alerts.rows import in_order
from trnfleet.tui.snapshots.table import ExportTable
from trnfleet.tui.widgets.bar import justified, tab_parts
from trnfleet.tui.widgets.cells import Parts, fit, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.alerts.lists import HistoryEntry
    from trnfleet.tui.alerts.query import AlertQuery
    from trnfleet.tui.state.alerts import AlertSnapshot


ACTIVE, ALL, SILENCES, HISTORY = TABS = ("active", "all", "silences", "history")
_LEAST_PROBLEM = 20
"""Least cells of the error in a filter."""


def alert_tabs(snapshot: AlertSnapshot, tab: str) -> Parts:
    """Return the tabs side by side with their counts, the current one in brackets."""
    numbers = {
        ACTIVE: snapshot.counts.firing,
        ALL: len(snapshot.active),
        SILENCES: snapshot.alerts.silences.count()[1],
        HISTORY: len(snapshot.alerts.history),
    }
    parts = tab_parts({name: f"{name} {count(number)}" for name, number in numbers.items()}, tab)
    if snapshot.incomplete:
        parts.append((f" {snapshot.incomplete} ", theme.STRONG))
    return parts


def elsewhere_parts(fleets: Mapping[str, AlertSnapshot]) -> Parts:
    """Return the number of unhandled alerts of each other fleet, linked to its alerts.

    Empty without any.

    Args:
        fleets: The alerts of the other fleets, by the fleets' names.
    """
    parts: Parts = []
    for name, snapshot in fleets.items():
        counts = snapshot.counts
        if counts.firing:
            severity = (
                Severity.CRITICAL
                if counts.critical
                else Severity.WARNING
                if counts.warning
                else Severity.INFO
            )
            style = linked(theme.SEVERITY_STYLE[severity], ClickTarget(TargetKind.FLEET, name))
            parts.append((f"  {plain(name, 32)} {count(counts.firing)}", style))
    return [("  other fleets:", theme.QUIET), *parts] if parts else []


def with_note(tabs: Parts, note: str, width: int) -> Parts:
    """Return the line with a note.

    It replaces the tabs if there is no room beside them.
    """
    if width_of(tabs) + len(note) + 2 > width:
        return [(f" {fit(note, width - 2)}", theme.SEVERITY_STYLE[Severity.WARNING])]
    return justified(
        tabs, [(f"{note} ", theme.SEVERITY_STYLE[Severity.WARNING])], width, theme.BASE
    )


def with_found(tabs: Parts, pattern: str, matches: int, width: int) -> Parts:
    """Return the line with the filter, and its count if there is room."""
    right: Parts = [
        (f"/{plain(pattern, 40)} ", theme.LINK),
        (f"{count(matches)} found ", theme.QUIET),
    ]
    if width_of(tabs) + width_of(right) >= width:
        right = right[:1]
    return justified(tabs, right, width, theme.BASE)


def with_doubt(tabs: Parts, doubt: str, width: int) -> Parts:
    """Return the line with a doubt about the leading watch."""
    room = max(_LEAST_PROBLEM, width - width_of(tabs) - 2)
    return justified(
        tabs,
        [(fit(f"▲ {plain(doubt)}", room), theme.SEVERITY_STYLE[Severity.WARNING])],
        width,
        theme.BASE,
    )


def with_order(
    tabs: Parts,
    tab: str,
    sort: str,
    width: int,
    word: str = "",
    others: Mapping[str, AlertSnapshot] | None = None,
) -> Parts:
    """Return the line with the order, for sortable tabs.

    Other fleets and the leading watch follow if there is room.

    Args:
        tabs: The tabs.
        tab: The one that is shown.
        sort: The order.
        width: Cells.
        word: The watch that leads.
        others: The alerts of other fleets, by the fleets' names.
    """
    right: Parts = [(f"sort: {sort} ", theme.QUIET)] if tab in {ACTIVE, ALL} else []
    elsewhere = elsewhere_parts(others or {})
    if width_of(tabs) + width_of(elsewhere) + width_of(right) < width:
        tabs = [*tabs, *elsewhere]
    led: Parts = [(f"{plain(word)}  ", theme.QUIET)] if word else []
    if led and width_of(tabs) + width_of(led) + width_of(right) < width:
        right = led + right
    return justified(tabs, right, width, theme.BASE)


def nothing_words(snapshot: AlertSnapshot, tab: str, pattern: str) -> list[str]:
    """Return the text of an empty list of alerts, or of an empty history."""
    if not snapshot.has_rules:
        return ["No rules are loaded, so there are no alerts."]
    if snapshot.incomplete == LOADING:
        return ["Loading alerts …"]
    if pattern:
        return [f"Nothing matches {plain(pattern, 60)}. Esc shows everything."]
    if snapshot.incomplete:
        return [f"No alerts {snapshot.incomplete}. What fired before is not known."]
    if tab == HISTORY:
        return ["No alert has fired since this program started."]
    counts = snapshot.counts
    others = [
        f"{count(number)} {word}"
        for number, word in (
            (counts.acked, "acknowledged"),
            (counts.silenced, "silenced"),
            (counts.inhibited, "inhibited"),
            (counts.pending, "pending"),
        )
        if number
    ]
    calm = f"No unacknowledged alerts. {count(len(snapshot.alerts.rules))} rules loaded."
    return [calm, f"{', '.join(others)}: t shows them." if others else ""]


ALERT_TITLES = (
    "severity",
    "rule",
    "status",
    "place",
    "target",
    "value",
    "chips",
    "job",
    "since",
    "owner",
    "summary",
)
HISTORY_TITLES = ("time", "what", "severity", "rule", "place", "target", "summary")
SILENCE_TITLES = ("matchers", "state", "begins", "ends", "owner", "comment")


def alert_table(alerts: Iterable[AlertWithStatus], snapshot: AlertSnapshot) -> ExportTable:
    """Return alerts as a table."""
    return ExportTable(
        ALERT_TITLES,
        [
            (
                held.severity.value,
                held.alert.name,
                held.status.value,
                address_of(held.alert),
                held.alert.target,
                held.alert.value,
                held.alert.chips or None,
                held.alert.job,
                format_rfc3339(held.alert.fired_ns or held.alert.since_ns),
                owner_of(held.alert, snapshot),
                summary(held.alert),
            )
            for held in alerts
        ],
    )


def history_table(entries: Iterable[HistoryEntry]) -> ExportTable:
    """Return transitions of alerts as a table."""
    transitions = [entry.transition for entry in entries]
    return ExportTable(
        HISTORY_TITLES,
        [
            (
                format_rfc3339(transition.at_ns),
                transition.kind,
                transition.alert.severity.value,
                transition.alert.name,
                address_of(transition.alert),
                transition.alert.target,
                transition.summary,
            )
            for transition in transitions
        ],
    )


def silence_table(silences: Iterable[Silence], now_ns: int) -> ExportTable:
    """Return silences as a table."""
    return ExportTable(
        SILENCE_TITLES,
        [
            (
                ", ".join(map(str, silence.matchers)),
                silence.span(now_ns).value,
                format_rfc3339(silence.starts_ns),
                format_rfc3339(silence.ends_ns),
                silence.whose,
                silence.why,
            )
            for silence in silences
        ],
    )


def tab_table(query: AlertQuery, snapshot: AlertSnapshot, tab: str, sort: str) -> ExportTable:
    """Return a tab's rows as a table, each alert of a group by itself."""
    if tab == SILENCES:
        return silence_table(query.silences(), snapshot.now_ns)
    if tab == HISTORY:
        return history_table(query.history())
    return alert_table(in_order(query.alerts(only_unhandled=tab == ACTIVE), sort), snapshot)
