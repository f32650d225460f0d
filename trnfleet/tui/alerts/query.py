"""What each tab of the Alerts view lists: what the filter leaves of alerts, of silences and of what happened, in order.

It keeps what alerts say, and follows the history, so that a filter costs little while nothing changes. It knows no widget's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.alerts.silences import Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import summary
from trnfleet.tui.alerts.filter import AlertFilter, read_filter
from trnfleet.tui.alerts.lists import Told
from trnfleet.tui.format.alerts import status_text
from trnfleet.tui.widgets.text_filter import TextFilter

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.lifecycle import AlertTransition, AlertWithStatus
    from trnfleet.tui.state.alerts import AlertSnapshot

MOST_SAID = 50_000
"""Alerts of which it is kept what they say; beyond that all are read anew."""
_RANK = {Span.ACTIVE: 0, Span.TO_COME: 1, Span.OVER: 2}
"""Order of silences: what hides something first."""


class AlertQuery:
    """A filter, and what it leaves of what a board and its monitor know."""

    def __init__(self, board: AlertSnapshot) -> None:
        self._board = board
        self._pattern = ""
        self._filter = AlertFilter()
        self._said: dict[str, tuple[tuple[int, int, AlertStatus, int], str]] = {}
        """By fingerprint: what an alert says, and what of it that was made of."""
        self._told: list[Told] = []
        """What happened and the filter leaves, the newest first."""
        self._seen = 0
        """Number of what happened last, of what has been looked at."""

    @property
    def pattern(self) -> str:
        """The filter as somebody typed it; empty where everything is left."""
        return self._pattern

    @property
    def problem(self) -> str:
        """What is wrong with it, in a line; empty for nothing."""
        return self._filter.problem

    def filter(self, pattern: str) -> None:
        """Leave what matches a pattern."""
        if pattern != self._pattern:
            self._pattern, self._filter = pattern, read_filter(pattern)
            self._told, self._seen = [], 0

    def renew(self) -> None:
        """Drop what is kept: another monitor is shown; the filter stays."""
        self._said.clear()
        self._told, self._seen = [], 0

    def held(self, *, only_firing: bool) -> list[AlertWithStatus]:
        """Return the alerts that are left, in the board's order.

        Args:
            only_firing: Whether those are left out that are pending or that somebody has in hand.
        """
        held = self._board.held
        if only_firing:
            held = [each for each in held if each.status is AlertStatus.FIRING]
        if self._pattern:
            held = [each for each in held if self._keeps(each)]
        return held

    def silences(self) -> list[Silence]:
        """Return the silences that are left: active ones first, and of these what ends first."""
        now_ns = self._board.now_ns
        text = TextFilter.of(self._pattern)
        left = [each for each in self._board.alerts.silences.known if text.keeps_lower(silence_said(each))]
        return sorted(left, key=lambda each: (_RANK[each.span(now_ns)], each.ends_ns, each.id))

    def hidden(self) -> dict[str, int]:
        """Return how many alerts each silence hides now, by its id; whether the filter leaves them does not matter."""
        silences, now_ns = self._board.alerts.silences, self._board.now_ns
        hidden: dict[str, int] = {}
        for each in self._board.held:
            if each.status is AlertStatus.SILENCED:
                for silence in silences.silences_of(each.alert, now_ns):
                    hidden[silence.id] = hidden.get(silence.id, 0) + 1
        return hidden

    def history(self) -> list[Told]:
        """Return what happened and is left, the newest first; what happened since the last time is looked at, no more."""
        alerts = self._board.alerts
        fresh: list[Told] = []
        number = alerts.happened
        for happening in reversed(alerts.history):
            if number <= self._seen:
                break
            if self._keeps_happening(happening):
                fresh.append(Told(number, happening))
            number -= 1
        oldest = alerts.happened - len(alerts.history)
        self._told = [*fresh, *(each for each in self._told if each.number > oldest)]
        self._seen = alerts.happened
        return self._told

    def _keeps(self, held: AlertWithStatus) -> bool:
        return self._filter.keeps(held.alert, lambda: self._all_said(held))

    def _keeps_happening(self, happening: AlertTransition) -> bool:
        return self._filter.keeps(
            happening.alert, lambda: alert_said(happening.alert, happening.kind, happening.summary)
        )

    def _all_said(self, held: AlertWithStatus) -> str:
        """Return what an alert says, kept until it says something else."""
        alert, alerts = held.alert, self._board.alerts
        of = (self._board.source, alert.revision, held.status, alerts.silences.revision)
        known = self._said.get(alert.fingerprint)
        if known is None or known[0] != of:
            if len(self._said) > MOST_SAID:
                self._said.clear()
            status = f"{held.status.value} {status_text(held, alerts, self._board.now_ns)}"
            known = self._said[alert.fingerprint] = of, alert_said(alert, status, summary(alert))
        return known[1]


def alert_said(alert: Alert, status: str, told: str) -> str:
    """Return all that an alert says, in lower case, for a filter."""
    labels = " ".join(f"{name}={value}" for name, value in alert.labels.items())
    said = [
        alert.severity.value,
        alert.name,
        alert.target,
        alert.place,
        alert.worst,
        alert.job,
        status,
        told,
        labels,
    ]
    return " ".join(said).lower()


def silence_said(silence: Silence) -> str:
    """Return all that a silence says, in lower case, for a filter."""
    return " ".join((*map(str, silence.matchers), silence.who, silence.why)).lower()
