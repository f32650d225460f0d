"""The alerts of one fleet by what identifies them: those that are active, those that resolved lately, and what happened.

It keeps alerts and takes them through no states; that is `course`'s.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.templates import summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.alerts.rules import Rule

KEPT_HISTORY = 10_000
KEPT_RESOLVED = 1_000


class Happening(NamedTuple):
    """One line of the history."""

    at_ns: int
    kind: str
    """firing, resolved, or flapping."""
    alert: Alert
    summary: str
    """The alert in one line, as it was then."""


class Book:
    """Alerts, and their history."""

    def __init__(self, fleet: str) -> None:
        """Begin an empty book.

        Args:
            fleet: The fleet's name, part of every fingerprint.
        """
        self.fleet = fleet
        self.active: dict[str, Alert] = {}
        """Pending and firing alerts by fingerprint."""
        self.resolved: deque[Alert] = deque(maxlen=KEPT_RESOLVED)
        """The one that resolved last is the last."""
        self.history: deque[Happening] = deque(maxlen=KEPT_HISTORY)
        """What happened, oldest first."""
        self.happened = 0
        """Everything that ever went into the history."""
        self.news: list[Happening] = []
        """What happened and was not passed on yet."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Book:
        """Return a copy that goes on on its own; of what is over, which may be much and never changes, it has the same."""
        twin = copy.copy(self)
        memo[id(self)] = twin
        twin.active = {name: copy.deepcopy(alert, memo) for name, alert in self.active.items()}
        twin.resolved = self.resolved.copy()
        twin.history = deque(_retold(self.history, memo), self.history.maxlen)
        twin.news = list(_retold(self.news, memo))
        return twin

    def find(self, fingerprint: str) -> Alert | None:
        """Return an alert that is active, or that has resolved lately."""
        found = self.active.get(fingerprint)
        if found is not None:
            return found
        return next((each for each in reversed(self.resolved) if each.fingerprint == fingerprint), None)

    def all(self) -> Iterator[Alert]:
        """Yield all alerts, active ones first."""
        yield from self.active.values()
        yield from self.resolved

    def open(self, rule: Rule, target: str, since_ns: int) -> Alert:
        """Return the active alert of a rule about a target: a new one, pending since then, where there is none."""
        fingerprint = fingerprint_of(self.fleet, rule.name, target)
        alert = self.active.get(fingerprint)
        if alert is None:
            labels = labels_of(self.fleet, rule, target)
            alert = Alert(rule, target, fingerprint, since_ns=since_ns, labels=labels)
            self.active[fingerprint] = alert
        return alert

    def relabel(self, alert: Alert) -> None:
        """Give an alert its labels again, because another job runs there."""
        alert.labels = labels_of(self.fleet, alert.rule, alert.target, alert.job)

    def tell(self, kind: str, alert: Alert, at_ns: int) -> None:
        """Write down what has just happened to an alert."""
        happening = Happening(at_ns, kind, alert, summary(alert))
        self.history.append(happening)
        self.news.append(happening)
        self.happened += 1


def _retold(told: deque[Happening] | list[Happening], memo: dict[int, Any]) -> Iterator[Happening]:
    """Yield what happened with the copies of alerts that have been copied; what is over is its own copy."""
    for each in told:
        twin = memo.get(id(each.alert))
        yield each if twin is None else Happening(each.at_ns, each.kind, twin, each.summary)
