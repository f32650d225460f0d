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
from trnfleet.tui.alerts.lists import HistoryEntry
from trnfleet.tui.format.alerts import status_text
from trnfleet.tui.state.alerts import touches
from trnfleet.tui.widgets.text_filter import TextFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.store import AlertTransition, AlertWithStatus
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
    """The error in it, in a line; such a filter leaves what the rest of it leaves."""

    def keeps(self, alert: Alert, text: Callable[[], str]) -> bool:
        """Return whether an alert is left.

        Args:
            alert: The alert.
            text: Returns its whole text, in lower case.
        """
        if self.place and not touches(address_of(alert), self.place):
            return False
        if self.matchers and not all_match(self.matchers, alert.labels):
            return False
        return self.text.is_empty or self.text.keeps_lower(text())


def read_filter(pattern: str) -> AlertFilter:
    """Return the filter that was typed."""
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


MOST_TEXTS = 50_000
"""Alerts whose texts are cached; beyond that the cache starts over."""
_RANK = {Span.ACTIVE: 0, Span.TO_COME: 1, Span.OVER: 2}
"""Order of silences: what hides something first."""


class AlertQuery:
    """A filter, and what it leaves of what a snapshot and its monitor know."""

    def __init__(self, snapshot: AlertSnapshot) -> None:
        self._snapshot = snapshot
        self._pattern = ""
        self._filter = AlertFilter()
        self._texts: dict[str, tuple[tuple[int, int, AlertStatus, int], str]] = {}
        """By fingerprint: what an alert says, and what of it that was made of."""
        self._entries: list[HistoryEntry] = []
        """The entries that the filter leaves, the newest first."""
        self._seen = 0
        """Number of the newest transition that has been looked at."""

    @property
    def pattern(self) -> str:
        """The filter as it was typed; empty where everything is left."""
        return self._pattern

    @property
    def problem(self) -> str:
        """The error in it, in a line; empty for none."""
        return self._filter.problem

    def filter(self, pattern: str) -> None:
        if pattern != self._pattern:
            self._pattern, self._filter = pattern, read_filter(pattern)
            self._entries, self._seen = [], 0

    def renew(self) -> None:
        """Drop caches: another monitor is shown; the filter stays."""
        self._texts.clear()
        self._entries, self._seen = [], 0

    def alerts(self, *, only_unhandled: bool) -> list[AlertWithStatus]:
        """Return the alerts that are left, in the board's order.

        Args:
            only_unhandled: Whether pending and handled alerts are left out.
        """
        left = self._snapshot.active
        if only_unhandled:
            left = [each for each in left if each.status is AlertStatus.FIRING]
        if self._pattern:
            left = [each for each in left if self._keeps(each)]
        return left

    def silences(self) -> list[Silence]:
        """Return the silences that are left: active ones first, and of these what ends first."""
        now_ns = self._snapshot.now_ns
        text = TextFilter.of(self._pattern)
        left = [
            each for each in self._snapshot.alerts.silences.known if text.keeps_lower(silence_text_of(each))
        ]
        return sorted(left, key=lambda each: (_RANK[each.span(now_ns)], each.ends_ns, each.id))

    def hidden(self) -> dict[str, int]:
        """Return how many alerts each silence hides now, by its id; whether the filter leaves them does not matter."""
        silences, now_ns = self._snapshot.alerts.silences, self._snapshot.now_ns
        hidden: dict[str, int] = {}
        for each in self._snapshot.active:
            if each.status is AlertStatus.SILENCED:
                for silence in silences.silences_of(each.alert, now_ns):
                    hidden[silence.id] = hidden.get(silence.id, 0) + 1
        return hidden

    def history(self) -> list[HistoryEntry]:
        """Return the transitions that are left, the newest first; only those since the last time are looked at."""
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
        self._entries = [*fresh, *(each for each in self._entries if each.number > oldest)]
        self._seen = alerts.happened
        return self._entries

    def _keeps(self, item: AlertWithStatus) -> bool:
        return self._filter.keeps(item.alert, lambda: self._text_of(item))

    def _keeps_transition(self, transition: AlertTransition) -> bool:
        return self._filter.keeps(
            transition.alert, lambda: alert_text(transition.alert, transition.kind, transition.summary)
        )

    def _text_of(self, item: AlertWithStatus) -> str:
        """Return the whole text of an alert, cached until it changes."""
        alert, alerts = item.alert, self._snapshot.alerts
        of = (self._snapshot.source, alert.revision, item.status, alerts.silences.revision)
        known = self._texts.get(alert.fingerprint)
        if known is None or known[0] != of:
            if len(self._texts) > MOST_TEXTS:
                self._texts.clear()
            status = f"{item.status.value} {status_text(item, alerts, self._snapshot.now_ns)}"
            known = self._texts[alert.fingerprint] = of, alert_text(alert, status, summary(alert))
        return known[1]


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
        status,
        words,
        labels,
    ]
    return " ".join(said).lower()


def silence_text_of(silence: Silence) -> str:
    """Return the whole text of a silence, in lower case, for a filter."""
    return " ".join((*map(str, silence.matchers), silence.whose, silence.why, silence.not_applied)).lower()
