"""Alerts from pending over firing to resolved: the store that holds them and the transitions between their states.

`AlertStore` holds the alerts of one fleet by fingerprint, with those that resolved lately and the history of transitions.
`AlertLifecycle` takes them through their states. Two things delay an end: an alert that flaps goes on until it has been quiet,
and one that another `watch` published goes on until its condition could be seen here.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.alerts import flapping
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.flapping import Flaps
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.domain.alerts.templates import summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.severity import Severity
    from trnfleet.monitor.alerting.published import PublishedAlerts
    from trnfleet.monitor.alerting.silences import Silences

KEPT_HISTORY = 10_000
KEPT_RESOLVED = 1_000


class AlertTransition(NamedTuple):
    """A transition of an alert: one line of the history."""

    at_ns: int
    kind: str
    """firing, resolved, or flapping."""
    alert: Alert
    summary: str
    """The alert in one line, as it was then."""


class AlertWithStatus(NamedTuple):
    """An alert and what is to be done about it."""

    alert: Alert
    status: AlertStatus

    @property
    def severity(self) -> Severity:
        """The severity of its rule."""
        return self.alert.severity


class AlertStore:
    """The alerts of one fleet by fingerprint, and the history of their transitions."""

    def __init__(self, fleet: str) -> None:
        """Start empty.

        Args:
            fleet: The fleet's name, part of every fingerprint.
        """
        self.fleet = fleet
        self.active: dict[str, Alert] = {}
        """Pending and firing alerts by fingerprint."""
        self.resolved: deque[Alert] = deque(maxlen=KEPT_RESOLVED)
        """In the order in which they resolved."""
        self.history: deque[AlertTransition] = deque(maxlen=KEPT_HISTORY)
        """Transitions, oldest first."""
        self.happened = 0
        """Number of all transitions so far, also of those that the history has dropped."""
        self.news: list[AlertTransition] = []
        """Transitions that no listener has got yet."""

    def copy(self, memo: dict[int, Any]) -> AlertStore:
        """Return a copy; of what is over, which may be much and never changes, it has the same objects.

        Args:
            memo: Gets the copy of each active alert by the alert's identity, as `copy.deepcopy` has it.
        """
        twin = copy.copy(self)
        twin.active = {}
        for fingerprint, alert in self.active.items():
            twin.active[fingerprint] = memo[id(alert)] = replace(alert, labels=dict(alert.labels))
        twin.resolved = self.resolved.copy()
        for alert in self.resolved:
            memo.setdefault(id(alert), alert)
        twin.history = deque(_with_copies(self.history, memo), self.history.maxlen)
        twin.news = list(_with_copies(self.news, memo))
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

    def record(self, kind: str, alert: Alert, at_ns: int) -> None:
        """Add a transition to the history."""
        transition = AlertTransition(at_ns, kind, alert, summary(alert))
        self.history.append(transition)
        self.news.append(transition)
        self.happened += 1


class AlertLifecycle:
    """Takes the alerts of one fleet through their states, and records the transitions."""

    def __init__(
        self, store: AlertStore, published: PublishedAlerts, silences: Silences, *, detects_flapping: bool
    ) -> None:
        """Start with the alerts of a store.

        Args:
            store: The alerts.
            published: Alerts that another `watch` published.
            silences: Silences and acknowledgements: an acknowledgement ends with its alert.
            detects_flapping: Whether alerts that come and go are held until they have been quiet.
        """
        self._store = store
        self._published = published
        self._silences = silences
        self._detects_flapping = detects_flapping
        self._flaps = Flaps()
        self._quiet_since: dict[str, int] = {}
        """Flapping alerts that are held although nothing is wrong at present, and since when."""

    def fire(self, alert: Alert, since_ns: int, fired_ns: int) -> None:
        """Take an active alert that is seen firing.

        Args:
            alert: The alert.
            since_ns: Since when its condition holds.
            fired_ns: When it fired; not later than now.
        """
        self._quiet_since.pop(alert.fingerprint, None)
        self._published.confirm(alert.fingerprint)
        if alert.state is AlertState.FIRING:
            return
        published = self._published.times(alert.fingerprint, fired_ns)
        if published is not None:
            since_ns, fired_ns = published
        alert.state, alert.resolved_ns = AlertState.FIRING, None
        alert.since_ns, alert.fired_ns = since_ns, fired_ns
        alert.times = self._flaps.begin(alert.fingerprint, fired_ns)
        self._store.record("firing", alert, fired_ns)
        was = alert.is_flapping
        alert.is_flapping = self._detects_flapping and flapping.is_flapping(alert.times, was=was)
        if alert.is_flapping and not was:
            self._store.record("flapping", alert, fired_ns)

    def wait(self, alert: Alert, now_ns: int) -> None:
        """Take an active alert that has only pending members: one that has fired resolves, and is pending again."""
        self._quiet_since.pop(alert.fingerprint, None)
        if alert.state is AlertState.FIRING:
            if self._is_held(alert, now_ns):
                return
            self._resolve(alert, now_ns)
            self._store.resolved.append(replace(alert))
            self._forget(alert)
            alert.state, alert.since_ns, alert.fired_ns = AlertState.PENDING, now_ns, None
            alert.resolved_ns = None
            return
        published = self._published.times(alert.fingerprint, now_ns)
        if published is not None:
            # Another watch has seen it for long enough.
            alert.state = AlertState.FIRING
            alert.since_ns, alert.fired_ns = published
            self._published.hold(alert.fingerprint)

    def end(self, alert: Alert, now_ns: int, *, is_gone: bool = False) -> bool:
        """Take an active alert of which nothing is seen any more; return whether that ended it.

        Args:
            alert: The alert.
            now_ns: Monitor time.
            is_gone: Whether what it is about is gone: then nothing holds it.
        """
        if alert.state is AlertState.FIRING:
            if not is_gone and self._is_held(alert, now_ns):
                return False
            self._resolve(alert, now_ns)
            self._store.resolved.append(alert)
        self._forget(alert)
        self._store.active.pop(alert.fingerprint, None)
        return True

    def _is_held(self, alert: Alert, now_ns: int) -> bool:
        """Return whether a firing alert goes on although nothing is wrong; a flapping one does until it has been quiet."""
        if self._published.holds(alert.fingerprint):
            return True
        if alert.is_flapping:
            quiet_ns = min(self._quiet_since.get(alert.fingerprint, now_ns), now_ns)
            self._quiet_since[alert.fingerprint] = quiet_ns
            alert.is_flapping = now_ns - quiet_ns < flapping.QUIET_NS
        return alert.is_flapping

    def _resolve(self, alert: Alert, now_ns: int) -> None:
        alert.state, alert.resolved_ns = AlertState.RESOLVED, now_ns
        alert.inhibited_by = ""
        alert.revision += 1
        self._store.record("resolved", alert, now_ns)
        self._silences.resolve(alert, now_ns)

    def _forget(self, alert: Alert) -> None:
        self._quiet_since.pop(alert.fingerprint, None)
        self._published.end(alert.fingerprint)


def _with_copies(
    transitions: deque[AlertTransition] | list[AlertTransition], memo: dict[int, Any]
) -> Iterator[AlertTransition]:
    """Yield what happened with the copies of alerts that have been copied; what is over is its own copy."""
    for each in transitions:
        twin = memo.get(id(each.alert))
        yield each if twin is None else AlertTransition(each.at_ns, each.kind, twin, each.summary)
