"""Events of alerts and operators: what fired, resolved, was acknowledged or silenced, as lines beside the events of publishers.

They are kept apart from those of publishers: rules that look at events, and the counts of what came, know nothing of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.signals import LEVEL_OF
from trnfleet.domain.alerts.silences import Ack
from trnfleet.domain.alerts.templates import title
from trnfleet.domain.severity import Severity
from trnfleet.monitor.copies import copied
from trnfleet.monitor.store.events import KEPT, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.silences import SilencesChange
    from trnfleet.monitor.alerting.store import AlertTransition

RULE, OPERATOR = "rule", "operator"
"""Sources of these events."""


class AlertEvents:
    """The newest transitions of alerts and changes of silences and acknowledgements, in the order in which they were seen."""

    def __init__(self) -> None:
        self._ring: deque[Event] = deque(maxlen=KEPT)
        self.received = 0
        """Events so far, each counted once."""
        self._transitions = 0
        """Transitions of alerts that have been taken."""
        self._changes = 0
        """Changes of silences and acknowledgements that have been taken."""

    def copy(self) -> AlertEvents:
        """Return a copy; events themselves never change."""
        return copied(self, _ring=self._ring.copy())

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._ring)

    def __contains__(self, number: int) -> bool:
        """Return whether the event with a number is still kept."""
        return bool(self._ring) and number >= self._ring[0].number

    @property
    def dropped(self) -> int:
        """Events that had to make room for newer ones."""
        return self.received - len(self._ring)

    def newest_first(self) -> Iterator[Event]:
        """Yield what is kept."""
        return reversed(self._ring)

    def take(self, alerts: Alerts, now_s: float) -> None:
        """Add what has happened since the last call.

        Args:
            alerts: The alerts.
            now_s: Monotonic seconds.
        """
        silences = alerts.silences
        fresh = min(alerts.happened - self._transitions, len(alerts.history))
        changes = silences.take_changes()
        # What made room before it was seen counts as dropped.
        self.received += alerts.happened - self._transitions - fresh
        self.received += silences.happened - self._changes - len(changes)
        self._transitions, self._changes = alerts.happened, silences.happened
        for number in range(len(alerts.history) - fresh, len(alerts.history)):
            self._add(_of_transition(alerts.history[number]), now_s)
        for change in changes:
            event = _of_change(change, alerts)
            if event is not None:
                self._add(event, now_s)

    def _add(self, event: Event, now_s: float) -> None:
        self.received += 1
        self._ring.append(event._replace(number=self.received, received_s=now_s, is_own=True))


def _of_transition(transition: AlertTransition) -> Event:
    alert = transition.alert
    severity = alert.severity if transition.kind == "firing" else Severity.INFO
    text = f"{transition.kind}: {title(alert)}"
    if alert.cause:
        text += f"; cause: {alert.cause}"
    return Event(
        0, 0.0, transition.at_ns, severity, RULE, transition.kind, address_of(alert), alert.job, None, text,
        rule=alert.name, alert=alert.fingerprint, subject=_subject_of(alert),
    )  # fmt: skip  # the fields in their order


def _of_change(change: SilencesChange, alerts: Alerts) -> Event | None:
    """Return the event of a change; None for what was cleared after its end, which no operator did."""
    now_ns, subject = alerts.instant.now_ns, change.subject
    if change.kind == "cleared" and subject.ends_ns <= now_ns:
        return None
    path = job = rule = fingerprint = named = ""
    if isinstance(subject, Ack):
        alert = alerts.find(subject.fingerprint)
        about, fingerprint = change.about or subject.fingerprint, subject.fingerprint
        if alert is not None:
            path, job, about, rule = address_of(alert), alert.job, alert.name, alert.name
            named = _subject_of(alert)
        names, began_ns, note = ("acknowledged", "unacknowledged"), subject.at_ns, subject.note
    else:
        about = " ".join(map(str, subject.matchers))
        names, began_ns, note = ("silenced", "silence expired"), subject.starts_ns, subject.why
    text = f"{about} by {change.who}"
    name, at_ns = names[1], now_ns or began_ns
    if change.kind == "set":
        text += f" until {format_rfc3339(subject.ends_ns)[11:16]} UTC" + (
            f": {note}" if note else ""
        )
        # One that begins later was written now.
        name, at_ns = names[0], min(began_ns, at_ns)
    return Event(
        0, 0.0, at_ns, Severity.INFO, OPERATOR, name, path, job, None, f"{name}: {text}",
        rule=rule, alert=fingerprint, subject=named,
    )  # fmt: skip  # the fields in their order


def _subject_of(alert: Alert) -> str:
    """Return the name of what an alert is about; empty where an address or a job says it."""
    return "" if alert.job or alert.rule.scope in LEVEL_OF else alert.target
