"""The store of alerts by fingerprint, with recently resolved ones and a transition history."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import NO_NAMES
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.subsystems import subsystem_of
from trnfleet.domain.alerts.templates import summary
from trnfleet.monitor.store.events import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.alerts.status import AlertStatus
    from trnfleet.domain.severity import Severity

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
    """An alert and its status for operators."""

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
        self.names = NO_NAMES
        """Display names for the texts of alerts."""
        self.active: dict[str, Alert] = {}
        """Pending and firing alerts by fingerprint."""
        self.resolved: deque[Alert] = deque(maxlen=KEPT_RESOLVED)
        """In order of resolution."""
        self.history: deque[AlertTransition] = deque(maxlen=KEPT)
        """Transitions, oldest first."""
        self.happened = 0
        """Number of all transitions so far, including dropped ones."""
        self.news: list[AlertTransition] = []
        """Transitions that no listener has got yet."""

    def find(self, fingerprint: str) -> Alert | None:
        """Return an active or recently resolved alert.

        None if unknown.
        """
        alert = self.active.get(fingerprint)
        if alert is not None:
            return alert
        return next(
            (
                resolved
                for resolved in reversed(self.resolved)
                if resolved.fingerprint == fingerprint
            ),
            None,
        )

    def all(self) -> Iterator[Alert]:
        """Yield all alerts, active ones first."""
        yield from self.active.values()
        yield from self.resolved

    def open(self, rule: Rule, target: str, since_ns: int) -> Alert:
        """Return the active alert of a rule and target.

        Without one, open a pending alert with this start.
        """
        fingerprint = fingerprint_of(self.fleet, rule.name, target)
        alert = self.active.get(fingerprint)
        if alert is None:
            labels = labels_of(self.fleet, rule, target)
            alert = Alert(
                rule,
                target,
                fingerprint,
                since_ns=since_ns,
                names=self.names,
                labels=labels,
                subsystem=subsystem_of(rule),
                figure=rule.figure or "",
            )
            self.active[fingerprint] = alert
        return alert

    def relabel(self, alert: Alert) -> None:
        """Renew an alert's labels after a change of its job or rack."""
        alert.labels = labels_of(self.fleet, alert.rule, alert.target, alert.job, alert.rack)

    def record(self, kind: str, alert: Alert, at_ns: int) -> None:
        """Add a transition to the history."""
        transition = AlertTransition(at_ns, kind, alert, summary(alert))
        self.history.append(transition)
        self.news.append(transition)
        self.happened += 1
