"""The lifecycle of alerts, from pending over firing to resolved.

Two things delay an end: an alert that flaps goes on until it has been quiet, and one that another `watch` published goes on
until its condition could be seen here.
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


class AlertLifecycle:
    """Takes the alerts of one fleet through their states, and records the transitions."""

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
        """Flapping alerts that are held although nothing is wrong at present, and since when, in time that passed."""

    def fire(self, alert: Alert, since_ns: int, fired_ns: int, instant: Instant) -> None:
        """Take an active alert that is seen firing.

        Args:
            alert: The alert.
            since_ns: Since when its condition holds.
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
        alert.state, alert.resolved_ns = AlertState.FIRING, None
        alert.since_ns, alert.fired_ns = since_ns, fired_ns
        alert.times = self._flaps.begin(
            alert.fingerprint, instant.flow_ns - (instant.now_ns - fired_ns)
        )
        self._store.record("firing", alert, fired_ns)
        was = alert.is_flapping
        alert.is_flapping = self._detects_flapping and flapping.is_flapping(alert.times, was=was)
        if alert.is_flapping and not was:
            self._store.record("flapping", alert, fired_ns)

    def wait(self, alert: Alert, instant: Instant) -> None:
        """Take an active alert that has only pending members: one that has fired resolves, and is pending again."""
        self._quiet_since.pop(alert.fingerprint, None)
        now_ns = instant.now_ns
        if alert.state is AlertState.FIRING:
            if self._is_held(alert, instant):
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

    def end(self, alert: Alert, instant: Instant, *, is_gone: bool = False) -> bool:
        """Take an active alert of which nothing is seen any more; return whether that ended it.

        Args:
            alert: The alert.
            instant: Now.
            is_gone: Whether what it is about is gone: then nothing holds it.
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
        """Return whether a firing alert goes on although nothing is wrong; a flapping one does until it has been quiet.

        One that ends while it is inhibited does not count towards flapping.
        """
        if self._published.holds(alert.fingerprint):
            return True
        if alert.inhibited_by:
            # Nobody was told that it came and goes: a wider alert did.
            self._flaps.retract(alert.fingerprint)
            return False
        if alert.is_flapping:
            quiet_ns = self._quiet_since.setdefault(alert.fingerprint, instant.flow_ns)
            alert.is_flapping = instant.flow_ns - quiet_ns < flapping.QUIET_NS
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
