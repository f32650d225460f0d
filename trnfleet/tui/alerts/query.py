"""The filter of the Alerts view, and what each tab lists by it: alerts, silences and history, in order.

`at=ADDRESS` leaves what is at, below or above an address; `severity=critical` and the like are matchers as in a silence; anything else is
part of an alert's texts. Texts are cached and the history is followed, so that a filter costs little while nothing changes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.matchers import Matcher, all_match
from trnfleet.domain.alerts.silences import Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import summary
from trnfleet.errors import ConfigError
from trnfleet.tui.alerts.lists import Told
from trnfleet.tui.format.alerts import status_text
from trnfleet.tui.state.alerts import touches
from trnfleet.tui.widgets.text_filter import TextFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.lifecycle import AlertTransition, AlertWithStatus
    from trnfleet.tui.state.alerts import AlertSnapshot


AT = "at"
"""What stands before `=` and an address."""
_TOKEN = re.compile(r"""[A-Za-z_]\w*(?:=~|!~|!=|=)(?:"(?:[^"\\]|\\.)*"|[^\s,]+)""")
_BETWEEN = re.compile(r"[\s,]*")


class AlertFilter(NamedTuple):
    """What is left of alerts; everything for an empty one."""

    matchers: tuple[Matcher, ...] = ()
    place: str = ""
    text: TextFilter = TextFilter()
    problem: str = ""
    """What is wrong with it, in a line; such a filter leaves what the rest of it leaves."""

    def keeps(self, alert: Alert, said: Callable[[], str]) -> bool:
        """Say whether an alert is left.

        Args:
            alert: The alert.
            said: Returns all that it says, in lower case.
        """
        if self.place and not touches(address_of(alert), self.place):
            return False
        if self.matchers and not all_match(self.matchers, alert.labels):
            return False
        return self.text.is_empty or self.text.keeps_lower(said())


def read_filter(pattern: str) -> AlertFilter:
    """Return the filter that somebody typed."""
    tokens, place, problem = [], "", ""
    rest = pattern
    while found := _TOKEN.match(rest):
        token, rest = found[0], rest[found.end() :].lstrip()
        label, equals, value = token.partition("=")
        if label == AT and equals:
            place = value.strip('"')
            continue
        try:
            tokens.append(Matcher.parse(token))
        except ConfigError as error:
            problem = str(error)
    return AlertFilter(tuple(tokens), place, TextFilter.of(rest.strip()), problem)


def split_matchers(text: str) -> list[str]:
    """Return the matchers that stand in a line, divided by spaces or commas.

    Raises:
        ConfigError: something among them is no matcher.
    """
    found: list[str] = []
    position = _skip(text, 0)
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            rest = text[position : position + 60]
            raise ConfigError(f'{rest!r}: write matchers as label="value", with =, !=, =~ or !~')
        found.append(token[0])
        position = _skip(text, token.end())
    return found


def _skip(text: str, position: int) -> int:
    between = _BETWEEN.match(text, position)
    return position if between is None else between.end()


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
