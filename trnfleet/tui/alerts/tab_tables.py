"""The tabs of the Alerts view as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.templates import summary
from trnfleet.tui.alerts.query import owner_of
from trnfleet.tui.alerts.rows import in_order
from trnfleet.tui.alerts.tabs import ACTIVE, HISTORY, SILENCES
from trnfleet.tui.snapshots.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.alerts.lists import HistoryEntry
    from trnfleet.tui.alerts.query import AlertQuery
    from trnfleet.tui.state.alerts import AlertSnapshot

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


def alert_table(alerts: Iterable[AlertWithStatus], of: AlertSnapshot) -> Table:
    """Return alerts as a table."""
    return Table(
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
                owner_of(held.alert, of),
                summary(held.alert),
            )
            for held in alerts
        ],
    )


def history_table(entries: Iterable[HistoryEntry]) -> Table:
    """Return transitions of alerts as a table."""
    transitions = [entry.transition for entry in entries]
    return Table(
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


def silence_table(silences: Iterable[Silence], now_ns: int) -> Table:
    """Return silences as a table."""
    return Table(
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


def tab_table(query: AlertQuery, of: AlertSnapshot, tab: str, sort: str) -> Table:
    """Return a tab's rows as a table, each alert of a group by itself."""
    if tab == SILENCES:
        return silence_table(query.silences(), of.now_ns)
    if tab == HISTORY:
        return history_table(query.history())
    return alert_table(in_order(query.alerts(only_unhandled=tab == ACTIVE), sort), of)
