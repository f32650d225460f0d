"""The filter of the Alerts view, and the filtered rows of each tab.

Rows are alerts, silences and history, in order. Columns are the list's columns and every label.
Texts are cached and the history is followed, so that a filter costs little while nothing changes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import Alert, address_of, has_id
from trnfleet.domain.alerts.silences import Silence, Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.filters.columns import SEVERITY, Column, Columns, Kind, severity_number
from trnfleet.domain.filters.language import EVERYTHING, Filter
from trnfleet.tui.alerts.lists import HistoryEntry
from trnfleet.tui.format.alerts import age_s, status_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.store import AlertTransition, AlertWithStatus
    from trnfleet.tui.state.alerts import AlertSnapshot


AT = "at"
"""The column of addresses."""
_OWN = (
    SEVERITY,
    Column("rule", aliases=("alertname", "name")),
    Column("job"),
    Column("status"),
    Column("age", Kind.DURATION),
    Column(AT, Kind.PLACE, aliases=("where",)),
    Column("count", Kind.NUMBER, aliases=("chips", "affected")),
    Column("value", Kind.NUMBER),
    Column("owner", aliases=("who",)),
)
_LABELS = (
    "chip",
    "instance",
    "rack",
    "ultraserver",
    "cluster",
    "reservation",
    "publisher",
    "scope",
    "target",
    "fleet",
)


def columns_of(rules: Iterable[Rule]) -> Columns:
    """Return the filter columns of alerts: list columns and labels, including rule labels."""
    names = {column.name for column in _OWN}
    labels = dict.fromkeys((*_LABELS, *(label for rule in rules for label in rule.labels)))
    return Columns((*_OWN, *(Column(label) for label in labels if label not in names)))


class AlertRow(NamedTuple):
    """An alert as a filter sees it."""

    alert: Alert
    words: Callable[[], str]
    """Returns its whole text, in lower case."""
    now_ns: int = 0
    status: str = ""
    owner: str = ""

    def value(self, column: str) -> str | float | None:
        alert = self.alert
        if column == SEVERITY.name:
            return severity_number(alert.severity)
        if column == AT:
            return address_of(alert)
        if column == "age":
            return age_s(alert, self.now_ns)
        if column == "count":
            return float(alert.chips or alert.members)
        if column == "value":
            return alert.value
        named = {"rule": alert.name, "job": alert.job, "status": self.status, "owner": self.owner}
        return named.get(column) or alert.labels.get(column, "")

    def has(self, part: str) -> bool:
        return part in self.words() or has_id(self.alert.fingerprint, part)


class SilenceRow(NamedTuple):
    """A silence as a filter sees it.

    Its author is the owner column.
    """

    silence: Silence

    def value(self, column: str) -> str | float | None:
        return self.silence.whose if column == "owner" else None

    def has(self, part: str) -> bool:
        silence = self.silence
        texts = (*map(str, silence.matchers), silence.whose, silence.why, silence.not_applied)
        return part in " ".join(texts).lower() or has_id(silence.id, part)


_RANK = {span: rank for rank, span in enumerate((Span.ACTIVE, Span.TO_COME, Span.OVER))}


class AlertQuery:
    """A filter, and its matches in a snapshot and its monitor."""

    def __init__(self, snapshot: AlertSnapshot) -> None:
        self._snapshot = snapshot
        self._wanted = EVERYTHING
        self._texts: dict[str, tuple[tuple[int, int, AlertStatus, int], str]] = {}
        """An alert's searchable text and the key it was made for, by fingerprint."""
        self._texts_before: dict[str, tuple[tuple[int, int, AlertStatus, int], str]] = {}
        """The texts of the listing before."""
        self._entries: list[HistoryEntry] = []
        """Matching entries, newest first."""
        self._seen = 0
        """Number of the newest transition evaluated."""

    def filter(self, query: Filter) -> None:
        self._wanted = query
        self._entries = []
        self._seen = 0

    def renew(self) -> None:
        """Drop caches: another monitor is shown; the filter stays."""
        self._texts.clear()
        self._entries = []
        self._seen = 0

    def alerts(self, *, only_unhandled: bool) -> list[AlertWithStatus]:
        """Return the alerts that are left, in the board's order.

        Args:
            only_unhandled: Whether pending and handled alerts are left out.
        """
        left = self._snapshot.active
        if only_unhandled:
            left = [held for held in left if held.status is AlertStatus.FIRING]
        if self._wanted:
            self._texts_before = self._texts
            self._texts = {}
            left = [held for held in left if self._keeps(held)]
        return left

    def silences(self) -> list[Silence]:
        """Return the matching silences: active ones first, then by their end."""
        now_ns = self._snapshot.now_ns
        known = self._snapshot.alerts.silences.known
        left = [silence for silence in known if self._wanted.keeps(SilenceRow(silence))]
        return sorted(
            left, key=lambda silence: (_RANK[silence.span(now_ns)], silence.ends_ns, silence.id)
        )

    def history(self) -> list[HistoryEntry]:
        """Return the matching transitions, newest first.

        Only those since the last call are evaluated.
        """
        alerts = self._snapshot.alerts
        fresh: list[HistoryEntry] = []
        number = alerts.happened
        for transition in reversed(alerts.history):
            if number <= self._seen:
                break
            if self._keeps_transition(transition):
                fresh.append(HistoryEntry(number, transition))
            number -= 1
        oldest = alerts.happened - len(alerts.history)
        self._entries = [*fresh, *(entry for entry in self._entries if entry.number > oldest)]
        self._seen = alerts.happened
        return self._entries

    def _keeps(self, item: AlertWithStatus) -> bool:
        alert, now_ns = item.alert, self._snapshot.now_ns
        owner = owner_of(alert, self._snapshot) if "owner" in self._wanted.columns else ""
        return self._wanted.keeps(
            AlertRow(alert, lambda: self._text_of(item), now_ns, item.status.value, owner)
        )

    def _keeps_transition(self, transition: AlertTransition) -> bool:
        if not self._wanted:
            return True
        alert = transition.alert
        words = lambda: alert_text(alert, transition.kind, transition.summary)  # noqa: E731  a text that is made when it is asked for
        return self._wanted.keeps(AlertRow(alert, words, self._snapshot.now_ns, transition.kind))

    def _text_of(self, item: AlertWithStatus) -> str:
        """Return the whole text of an alert, cached until it changes."""
        alert = item.alert
        alerts = self._snapshot.alerts
        key = (self._snapshot.source, alert.revision, item.status, alerts.silences.revision)
        known = self._texts_before.get(alert.fingerprint)
        if known is None or known[0] != key:
            status = f"{item.status.value} {status_text(item, alerts, self._snapshot.now_ns)}"
            known = key, alert_text(alert, status, summary(alert))
        self._texts[alert.fingerprint] = known
        return known[1]


def matched_by_silences(snapshot: AlertSnapshot) -> dict[str, list[Alert]]:
    """Return the active alerts matched by each silence, by silence id.

    Includes pending and inhibited alerts; omits silences that are over.
    """
    matched: dict[str, list[Alert]] = defaultdict(list)
    for held in snapshot.active:
        for silence in snapshot.alerts.silences.matching(held.alert):
            if silence.span(snapshot.now_ns) is not Span.OVER:
                matched[silence.id].append(held.alert)
    return matched


def owner_of(alert: Alert, snapshot: AlertSnapshot) -> str:
    """Return the operator that acknowledged or silenced an alert; empty if none."""
    silences = snapshot.alerts.silences
    ack = silences.ack_of(alert, snapshot.now_ns)
    hiding = silences.silences_of(alert, snapshot.now_ns)
    return ack.owner if ack is not None else hiding[0].who if hiding else ""


def alert_text(alert: Alert, status: str, words: str) -> str:
    """Return the whole text of an alert, in lower case, for a filter."""
    labels = " ".join(f"{name}={value}" for name, value in alert.labels.items())
    said = [
        alert.severity.value,
        alert.name,
        alert.target,
        alert.place,
        alert.worst,
        alert.job,
        alert.names.job(alert.job),
        alert.names.address(alert.place),
        status,
        words,
        labels,
    ]
    return " ".join(said).lower()
