"""What is listed under the tabs of the Alerts view, as tables."""

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
                each.severity.value,
                each.alert.name,
                each.status.value,
                address_of(each.alert),
                each.alert.target,
                each.alert.value,
                each.alert.chips or None,
                each.alert.job,
                format_rfc3339(each.alert.fired_ns or each.alert.since_ns),
                owner_of(each.alert, of),
                summary(each.alert),
            )
            for each in alerts
        ],
    )


def history_table(entries: Iterable[HistoryEntry]) -> Table:
    """Return transitions of alerts as a table."""
    found = [each.transition for each in entries]
    return Table(
        HISTORY_TITLES,
        [
            (
                format_rfc3339(each.at_ns),
                each.kind,
                each.alert.severity.value,
                each.alert.name,
                address_of(each.alert),
                each.alert.target,
                each.summary,
            )
            for each in found
        ],
    )


def silence_table(silences: Iterable[Silence], now_ns: int) -> Table:
    """Return silences as a table."""
    return Table(
        SILENCE_TITLES,
        [
            (
                ", ".join(map(str, each.matchers)),
                each.span(now_ns).value,
                format_rfc3339(each.starts_ns),
                format_rfc3339(each.ends_ns),
                each.whose,
                each.why,
            )
            for each in silences
        ],
    )


def tab_table(query: AlertQuery, of: AlertSnapshot, tab: str, sort: str) -> Table:
    """Return what is listed under a tab, each alert of a group by itself."""
    if tab == SILENCES:
        return silence_table(query.silences(), of.now_ns)
    if tab == HISTORY:
        return history_table(query.history())
    return alert_table(in_order(query.alerts(only_unhandled=tab == ACTIVE), sort), of)
