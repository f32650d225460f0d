"""The course of alerts: pending, firing, resolved, and what holds them on their way.

An alert that flaps is held until it has been quiet, and one that fires on somebody's word until it could be seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trnfleet.domain.alerts import flapping
from trnfleet.domain.alerts.flapping import Flaps
from trnfleet.domain.alerts.states import AlertState

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.book import Book
    from trnfleet.monitor.alerting.published import Hearsay
    from trnfleet.monitor.alerting.silences import Quieting


class Course:
    """Takes the alerts of one fleet through their states, and tells the book."""

    def __init__(self, book: Book, hearsay: Hearsay, quieting: Quieting, *, detects_flapping: bool) -> None:
        """Make a course.

        Args:
            book: The alerts.
            hearsay: What a `watch` says of them.
            quieting: What people say of them: an acknowledgement ends with its alert.
            detects_flapping: Whether alerts that come and go are held until they have been quiet.
        """
        self._book = book
        self._hearsay = hearsay
        self._quieting = quieting
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
        self._hearsay.confirm(alert.fingerprint)
        if alert.state is AlertState.FIRING:
            return
        said = self._hearsay.times(alert.fingerprint, fired_ns)
        if said is not None:
            since_ns, fired_ns = said
        alert.state, alert.resolved_ns = AlertState.FIRING, None
        alert.since_ns, alert.fired_ns = since_ns, fired_ns
        alert.times = self._flaps.begin(alert.fingerprint, fired_ns)
        self._book.tell("firing", alert, fired_ns)
        was = alert.is_flapping
        alert.is_flapping = self._detects_flapping and flapping.is_flapping(alert.times, was=was)
        if alert.is_flapping and not was:
            self._book.tell("flapping", alert, fired_ns)

    def wait(self, alert: Alert, now_ns: int) -> None:
        """Take an active alert that has only pending members: one that has fired resolves, and is pending again."""
        self._quiet_since.pop(alert.fingerprint, None)
        if alert.state is AlertState.FIRING:
            if self._is_held(alert, now_ns):
                return
            self._resolve(alert, now_ns)
            self._book.resolved.append(replace(alert))
            self._forget(alert)
            alert.state, alert.since_ns, alert.fired_ns = AlertState.PENDING, now_ns, None
            alert.resolved_ns = None
            return
        said = self._hearsay.times(alert.fingerprint, now_ns)
        if said is not None:
            # Somebody has seen it for long enough.
            alert.state = AlertState.FIRING
            alert.since_ns, alert.fired_ns = said
            self._hearsay.hold(alert.fingerprint)

    def end(self, alert: Alert, now_ns: int, *, is_gone: bool = False) -> bool:
        """Take an active alert of which nothing is seen any more; say whether that ended it.

        Args:
            alert: The alert.
            now_ns: Monitor time.
            is_gone: Whether what it is about is gone: then nothing holds it.
        """
        if alert.state is AlertState.FIRING:
            if not is_gone and self._is_held(alert, now_ns):
                return False
            self._resolve(alert, now_ns)
            self._book.resolved.append(alert)
        self._forget(alert)
        self._book.active.pop(alert.fingerprint, None)
        return True

    def _is_held(self, alert: Alert, now_ns: int) -> bool:
        """Say whether a firing alert goes on although nothing is wrong; what flaps does so until it has been quiet."""
        if self._hearsay.holds(alert.fingerprint):
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
        self._book.tell("resolved", alert, now_ns)
        self._quieting.resolve(alert, now_ns)

    def _forget(self, alert: Alert) -> None:
        self._quiet_since.pop(alert.fingerprint, None)
        self._hearsay.end(alert.fingerprint)
