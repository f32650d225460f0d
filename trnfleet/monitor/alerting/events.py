"""Events of alerts and operators: fired, resolved, acknowledged, silenced.

Shown beside the events of publishers.

They are stored apart from those: rules about events and the message counts do not see them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.alert import Alert, address_of
from trnfleet.domain.alerts.signals import LEVEL_OF
from trnfleet.domain.alerts.silences import Ack
from trnfleet.domain.alerts.templates import title
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import KEPT, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.silences import SilencesChange
    from trnfleet.monitor.alerting.store import AlertTransition

RULE = "rule"
OPERATOR = "operator"
"""Sources of these events."""


class AlertEvents:
    """The newest alert transitions and silence or acknowledgement changes, in order of arrival."""

    def __init__(self) -> None:
        self._ring: deque[Event] = deque(maxlen=KEPT)
        self.received = 0
        """Events so far, each counted once."""
        self._transitions = 0
        """Number of alert transitions read so far."""
        self._changes = 0
        """Number of changes of silences and acknowledgements read so far."""

    def __len__(self) -> int:
        """Return the number of stored events."""
        return len(self._ring)

    def __contains__(self, number: int) -> bool:
        """Return whether the event with a number is still stored."""
        return bool(self._ring) and number >= self._ring[0].number

    @property
    def dropped(self) -> int:
        """Events dropped for newer ones."""
        return self.received - len(self._ring)

    def newest_first(self) -> Iterator[Event]:
        """Yield the stored events."""
        return reversed(self._ring)

    def take(self, alerts: Alerts, now_s: float) -> None:
        """Add the changes since the last call.

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
        self._transitions = alerts.happened
        self._changes = silences.happened
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
        0,
        0.0,
        transition.at_ns,
        severity,
        RULE,
        transition.kind,
        address_of(alert),
        alert.job,
        None,
        text,
        rule=alert.name,
        alert=alert.fingerprint,
        subject=_subject_of(alert),
    )


def _of_change(change: SilencesChange, alerts: Alerts) -> Event | None:
    """Return the event of a change.

    None for a clear-up after the end: no operator did it.
    """
    now_ns = alerts.instant.now_ns
    subject = change.subject
    if change.kind == "cleared" and subject.ends_ns <= now_ns:
        return None
    path = job = rule = fingerprint = named = ""
    if isinstance(subject, Ack):
        alert = alerts.find(subject.fingerprint)
        about = change.about or subject.fingerprint
        fingerprint = subject.fingerprint
        if alert is not None:
            path = address_of(alert)
            job = alert.job
            about = alert.name
            rule = alert.name
            named = _subject_of(alert)
        names = ("acknowledged", "unacknowledged")
        began_ns = subject.at_ns
        note = subject.note
    else:
        about = " ".join(map(str, subject.matchers))
        names = ("silenced", "silence expired")
        began_ns = subject.starts_ns
        note = subject.why
    text = f"{about} by {change.who}"
    name = names[1]
    at_ns = now_ns or began_ns
    if change.kind == "set":
        text += f" until {format_rfc3339(subject.ends_ns)[11:16]} UTC" + (
            f": {note}" if note else ""
        )
        # One that begins later was written now.
        name = names[0]
        at_ns = min(began_ns, at_ns)
    return Event(
        0,
        0.0,
        at_ns,
        Severity.INFO,
        OPERATOR,
        name,
        path,
        job,
        None,
        f"{name}: {text}",
        rule=rule,
        alert=fingerprint,
        subject=named,
    )


def _subject_of(alert: Alert) -> str:
    """Return the name of an alert's subject.

    Empty if an address or job names it already.
    """
    return "" if alert.job or alert.rule.scope in LEVEL_OF else alert.target
