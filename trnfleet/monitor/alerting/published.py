"""Alerts published by another `watch`: their times, and alerts firing only because of them.

An inherited alert fires as last known until its condition is seen here, or until its target was
visible long enough to know it is over. If its rule has a window, this takes the window, unless the
other `watch` reports it resolved. It inhibits like an alert seen here. A published inhibition lasts
until the evaluation here can have found it: until the inhibiting alert has been seen here for
`SETTLED_AFTER_NS`, or is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import Alert, fingerprint_of
from trnfleet.domain.alerts.signals import LEVEL_OF
from trnfleet.domain.alerts.status import AlertState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.alerting.rule_state import RuleState
    from trnfleet.monitor.alerting.store import AlertStore
    from trnfleet.wire.alerts import AlertMessage

GONE_AFTER_NS = 60 * NS_PER_S
"""Time after which a published alert with an undescribed target resolves."""
SETTLED_AFTER_NS = 10 * NS_PER_S
"""Time for which an inhibition lasts on the former watch's word alone. It begins when the alert
fires here, and also applies while it is unknown. The members of a group are seen within two
publisher periods, and retained alerts arrive within seconds."""


class PublishedAlerts:
    """The published alerts of one fleet."""

    def __init__(self, store: AlertStore, adopted: Sequence[Rule] = ()) -> None:
        """Start without alerts.

        Args:
            store: The fleet's alerts.
            adopted: Rules whose alerts are inherited before their condition is seen.
        """
        self._store = store
        self._adopted = {rule.name: rule for rule in adopted}
        self._times: dict[str, tuple[int, int]] = {}
        """`since` and `fired` of the alerts published as firing."""
        self._held: dict[str, int | None] = {}
        """Active alerts firing only because they were published. The value is the time since which
        their target has been visible here (None: not yet)."""
        self._inhibitors: dict[str, str] = {}
        """The published inhibitor of each published alert, while it still counts."""
        self._over: set[str] = set()
        """Alerts that have ended since the last evaluation."""
        self._begun_ns: int | None = None
        """Instant of the first evaluation, in passed time."""
        self._is_settled = False
        """Whether the evaluation here has gone on for `SETTLED_AFTER_NS`."""
        self._settling: dict[str, int] = {}
        """Alerts with a published inhibitor. The value is the time since which the inhibitor counts
        by the evaluation here or is unknown."""

    # Messages

    def take(self, message: AlertMessage) -> bool:
        """Add a published alert.

        Return whether it was inherited.
        """
        since_ns = parse_rfc3339(message.since)
        fired_ns = parse_rfc3339(message.fired)
        fingerprint = message.fingerprint
        if message.state != "firing":
            self.forget(fingerprint)
            return False
        known = self._store.find(fingerprint)
        if known is not None and known.state is AlertState.RESOLVED and known.fired_ns == fired_ns:
            # A late message, such as our own returned by the broker: the alert is over.
            return False
        self._times[fingerprint] = since_ns, fired_ns
        self._note_inhibitor(message)
        rule = self._adopted.get(message.rule)
        if rule is None or fingerprint in self._store.active:
            return False
        if fingerprint_of(self._store.fleet, message.rule, message.target) != fingerprint:
            return False
        alert = self._store.open(rule, message.target, since_ns)
        alert.state = AlertState.FIRING
        alert.fired_ns = fired_ns
        alert.is_silent = True
        alert.value = message.value
        alert.members = message.members
        alert.chips = message.chips
        alert.place = message.place
        alert.cause = message.cause
        alert.times = message.times
        alert.worst = message.worst
        alert.rack = message.rack
        alert.job = message.labels.get("job", "")
        self._store.relabel(alert)
        alert.is_flapping = message.flapping
        alert.inhibited_by = self._inhibitors.get(fingerprint, "")
        self.hold(fingerprint)
        return True

    def _note_inhibitor(self, message: AlertMessage) -> None:
        fingerprint = message.fingerprint
        inhibitor = message.inhibited_by
        known = self._store.active.get(fingerprint)
        if (
            self._is_settled
            and known is not None
            and known.fired_ns is not None
            and not self.holds(fingerprint)
        ):
            # It fires by the evaluation here, which knows its inhibitor; nobody's word mutes it.
            return
        if not inhibitor or message.rule not in self._adopted:
            self._release(fingerprint)
        elif self._inhibitors.get(fingerprint) != inhibitor:
            self._inhibitors[fingerprint] = inhibitor
            self._settling.pop(fingerprint, None)

    def _release(self, fingerprint: str) -> None:
        self._inhibitors.pop(fingerprint, None)
        self._settling.pop(fingerprint, None)

    def forget(self, fingerprint: str) -> None:
        """Remove a published alert."""
        self._times.pop(fingerprint, None)
        if not self.holds(fingerprint):
            self._release(fingerprint)

    def times(self, fingerprint: str, until_ns: int) -> tuple[int, int] | None:
        """Return the published `since` and `fired` of an alert.

        None if it did not fire by `until_ns`.
        """
        times = self._times.get(fingerprint)
        return times if times is not None and times[1] <= until_ns else None

    # Alerts that fire only because they were published

    def hold(self, fingerprint: str) -> None:
        """Let an active alert fire although it has not been seen for long enough here."""
        self._held[fingerprint] = None

    def holds(self, fingerprint: str) -> bool:
        """Return whether an alert fires only because it was published."""
        return fingerprint in self._held

    def held_alerts(self) -> dict[str, list[Alert]]:
        """Return the alerts firing only because they were published, by rule name."""
        by_rule: dict[str, list[Alert]] = {}
        for fingerprint in self._held:
            alert = self._store.active[fingerprint]
            by_rule.setdefault(alert.name, []).append(alert)
        return by_rule

    def lose(self, fingerprint: str, flow_ns: int) -> None:
        """Record when a held alert stopped being seen."""
        self._held[fingerprint] = flow_ns

    def confirm(self, fingerprint: str) -> None:
        """Record that an alert's condition is seen here."""
        self._held.pop(fingerprint, None)

    def end(self, fingerprint: str) -> None:
        """Forget a resolved alert and its inhibitions."""
        self._held.pop(fingerprint, None)
        self._times.pop(fingerprint, None)
        self._release(fingerprint)
        if self._inhibitors:
            self._over.add(fingerprint)

    def inhibitors(self, flow_ns: int) -> dict[str, str]:
        """Return the published inhibitors that still count, by inhibited alert.

        Args:
            flow_ns: The instant, in passed time.
        """
        if self._begun_ns is None:
            self._begun_ns = flow_ns
        self._is_settled = flow_ns - self._begun_ns >= SETTLED_AFTER_NS
        for fingerprint, inhibitor in list(self._inhibitors.items()):
            source = self._store.active.get(inhibitor)
            if inhibitor in self._over:
                self._release(fingerprint)
            elif source is not None and source.fired_ns is not None and self.holds(inhibitor):
                # It fires on the former watch's word, too.
                self._settling.pop(fingerprint, None)
            elif flow_ns - self._settling.setdefault(fingerprint, flow_ns) >= SETTLED_AFTER_NS:
                self._release(fingerprint)
        self._over.clear()
        return self._inhibitors

    def settle(self, rules: Sequence[RuleState], readings: Readings) -> list[Alert]:
        """Release and return held alerts whose condition was not seen here in time.

        Their targets were visible for long enough.

        Args:
            rules: The states of all rules.
            readings: The instant.
        """
        if not self._held:
            return []
        flow_ns = readings.instant.flow_ns
        seen = {alert.fingerprint for state in rules for alert in state.alerts.values()}
        over = []
        for fingerprint, lost_ns in list(self._held.items()):
            if fingerprint in seen:
                continue
            alert = self._store.active[fingerprint]
            is_known = _is_known(alert, readings)
            if lost_ns is None or is_known is False:
                self._held[fingerprint] = flow_ns
                continue
            needed_ns = GONE_AFTER_NS if is_known is None else self._needed_ns(alert)
            if flow_ns - lost_ns >= needed_ns:
                del self._held[fingerprint]
                over.append(alert)
        return over

    def _needed_ns(self, alert: Alert) -> int:
        """Return how long an alert's target must be visible before the alert can end.

        While it is published, add the window of its rule. An error counted while this monitor was
        cut off is in no window here: its alert goes on as long as one counted just before.
        """
        rule = alert.rule
        looks_back_s = (rule.window_s or 0.0) if alert.fingerprint in self._times else 0.0
        return round((rule.keep_firing_for_s + looks_back_s) * NS_PER_S)


def _is_known(alert: Alert, readings: Readings) -> bool | None:
    """Return whether anything is known of an alert's target.

    None if not described.
    """
    rule = alert.rule
    if rule.scope not in LEVEL_OF:
        table = readings.tables.get(rule.scope)
        return True if table is not None and alert.target in table.names else None
    node = readings.layout.find(alert.target.partition(":")[0])
    if node is None or node.level is Level.CORE:
        return None
    chips = readings.layout.chip_range(node)
    if rule.absent:
        return readings.unsettled is None
    return bool(readings.live[chips.start : chips.stop].any())
