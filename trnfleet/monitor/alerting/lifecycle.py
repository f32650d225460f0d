"""The lifecycle of alerts, from pending over firing to resolved.

Two things delay an end: a flapping alert goes on until it has been quiet, and an alert published by
another `watch` goes on until its condition could be seen here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trnfleet.domain.alerts import flapping
from trnfleet.domain.alerts.flapping import Flaps
from trnfleet.domain.alerts.status import AlertState

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.inputs import Instant
    from trnfleet.monitor.alerting.published import PublishedAlerts
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.alerting.store import AlertStore

UNHEARD = "unheard_s"
"""The figure of rules about a lost connection."""


class AlertLifecycle:
    """Moves the alerts of one fleet through their states and records the transitions."""

    def __init__(
        self,
        store: AlertStore,
        published: PublishedAlerts,
        silences: Silences,
        *,
        detects_flapping: bool,
    ) -> None:
        """Start with the alerts of a store.

        Args:
            store: The alerts.
            published: Alerts published by another `watch`.
            silences: Silences and acknowledgements. An acknowledgement ends with its alert.
            detects_flapping: Whether recurring alerts are held until they have been quiet.
        """
        self._store = store
        self._published = published
        self._silences = silences
        self._detects_flapping = detects_flapping
        self._flaps = Flaps()
        self._quiet_since: dict[str, int] = {}
        """Flapping alerts held although nothing is wrong now. The value is the start of the quiet
        in passed time."""

    def fire(self, alert: Alert, since_ns: int, fired_ns: int, instant: Instant) -> None:
        """Update an active alert with a firing member.

        Args:
            alert: The alert.
            since_ns: Since when its condition has been fulfilled.
            fired_ns: When it fired; not later than now.
            instant: Now.
        """
        self._quiet_since.pop(alert.fingerprint, None)
        self._published.confirm(alert.fingerprint)
        if alert.state is AlertState.FIRING:
            return
        published = self._published.times(alert.fingerprint, fired_ns)
        if published is not None:
            since_ns, fired_ns = published
        alert.state = AlertState.FIRING
        alert.resolved_ns = None
        alert.since_ns = since_ns
        alert.fired_ns = fired_ns
        alert.times = self._flaps.begin(
            alert.fingerprint, instant.flow_ns - (instant.now_ns - fired_ns)
        )
        self._store.record("firing", alert, fired_ns)
        was = alert.is_flapping
        alert.is_flapping = self._detects_flapping and flapping.is_flapping(alert.times, was=was)
        if alert.is_flapping and not was:
            self._store.record("flapping", alert, fired_ns)

    def wait(self, alert: Alert, instant: Instant) -> None:
        """Update an active alert with pending members only.

        A fired one resolves and is pending again.
        """
        self._quiet_since.pop(alert.fingerprint, None)
        now_ns = instant.now_ns
        if alert.state is AlertState.FIRING:
            if self._is_held(alert, instant):
                return
            self._resolve(alert, now_ns)
            self._store.resolved.append(replace(alert))
            self._forget(alert)
            alert.state = AlertState.PENDING
            alert.since_ns = now_ns
            alert.fired_ns = None
            alert.resolved_ns = None
            return
        published = self._published.times(alert.fingerprint, now_ns)
        if published is not None:
            # Another watch has seen it for long enough.
            alert.state = AlertState.FIRING
            alert.since_ns, alert.fired_ns = published
            self._published.hold(alert.fingerprint)

    def end(self, alert: Alert, instant: Instant, *, is_gone: bool = False) -> bool:
        """Update an active alert without targets.

        Return whether it ended.

        Args:
            alert: The alert.
            instant: Now.
            is_gone: Whether its target is gone. Then nothing holds it.
        """
        if alert.state is AlertState.FIRING:
            if not is_gone and self._is_held(alert, instant):
                return False
            self._resolve(alert, instant.now_ns)
            self._store.resolved.append(alert)
        self._forget(alert)
        self._store.active.pop(alert.fingerprint, None)
        return True

    def _is_held(self, alert: Alert, instant: Instant) -> bool:
        """Return whether a firing alert goes on although nothing is wrong.

        A flapping alert goes on until it has been quiet, except about the connection. One that ends
        while inhibited does not count towards flapping.
        """
        if self._published.holds(alert.fingerprint):
            return True
        if alert.inhibited_by:
            # Its changes were not notified: a wider alert was.
            self._flaps.retract(alert.fingerprint)
            return False
        if alert.rule.figure == UNHEARD:
            # A connection that is back is back, however often it was lost.
            return False
        if alert.is_flapping:
            quiet_ns = self._quiet_since.setdefault(alert.fingerprint, instant.flow_ns)
            alert.is_flapping = instant.flow_ns - quiet_ns < flapping.QUIET_NS
        return alert.is_flapping

    def _resolve(self, alert: Alert, now_ns: int) -> None:
        alert.state = AlertState.RESOLVED
        alert.resolved_ns = now_ns
        alert.inhibited_by = ""
        alert.revision += 1
        self._store.record("resolved", alert, now_ns)
        self._silences.resolve(alert, now_ns)

    def _forget(self, alert: Alert) -> None:
        self._quiet_since.pop(alert.fingerprint, None)
        self._published.end(alert.fingerprint)
