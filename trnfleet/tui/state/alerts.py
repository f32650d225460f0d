"""The alerts of the moment with their status, counted and marked: read once for all that the screen tells of them.

Every view asks here, so that header, lists and marks say the same. It reads the monitor and draws nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of, is_below
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.engine import Counts
from trnfleet.monitor.alerting.lifecycle import AlertWithStatus
from trnfleet.tui.state.alert_marks import NO_MARKS, Marks, mark

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.fleet_state import FleetState

EVERY_S = 0.5
"""Seconds between two readings: rules are held against whole seconds."""
NO_COUNTS = Counts(0, 0, 0, 0, 0, 0, 0)


class AlertSnapshot:
    """What there is of alerts, as of the last reading."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self.held: list[AlertWithStatus] = []
        """Pending and firing alerts: firing ones first, then by severity, the newest first."""
        self.counts = NO_COUNTS
        self.marks: Marks = NO_MARKS
        """Of what fires and nobody has in hand."""
        self.revision = 0
        """Goes up with every reading."""
        self.source = 0
        """Which monitor was read last, as its `MonitorRevision` tells."""
        self._read_s = -math.inf
        self._of: tuple[int, ...] = ()
        self._nodes: dict[str, Node | None] = {}
        self._layout: Layout | None = None
        self._by_name: dict[tuple[str, str], list[AlertWithStatus]] = {}
        self._touching: tuple[int, str, list[AlertWithStatus]] = (-1, "", [])
        self._on_instances: tuple[int, tuple[range, ...], list[AlertWithStatus]] = (-1, (), [])

    @property
    def alerts(self) -> Alerts:
        """The monitor's."""
        return self._monitor.alerts

    @property
    def has_rules(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._monitor.alerts.rules)

    @property
    def now_ns(self) -> int:
        """Monitor time of the last evaluation, by which everything is told."""
        return self._monitor.alerts.instant.now_ns

    def refresh(self, now_s: float) -> bool:
        """Read anew if anything changed, at most twice a second; say whether that was done.

        Args:
            now_s: Monotonic seconds.
        """
        alerts, store = self._monitor.alerts, self._monitor.store
        revision = self._monitor.revision
        of = (revision.source, revision.layout, revision.alerts, revision.silences)
        if of == self._of or now_s - self._read_s < EVERY_S:
            return False
        self._of, self._read_s = of, now_s
        self.held = [AlertWithStatus(alert, alerts.status(alert)) for alert in alerts.active()]
        self.counts = _counted(self.held)
        loud = [each for each in self.held if each.status is AlertStatus.FIRING]
        layout = store.layout
        if layout is not self._layout:
            self._layout, self._nodes = layout, {}
        self.marks = mark(layout, ((self._node(each.alert, layout), each.severity) for each in loud))
        self._by_name = {}
        for each in loud:
            labels = each.alert.labels
            for label in ("job", "reservation"):
                if label in labels:
                    self._by_name.setdefault((label, labels[label]), []).append(each)
        self.source = revision.source
        self.revision += 1
        return True

    def renew(self) -> None:
        """Read anew at the next chance, whenever the last reading was: another monitor is shown."""
        self._read_s = -math.inf

    def touching(self, place: str) -> list[AlertWithStatus]:
        """Return what fires, and nobody has in hand, at an address, below it or above it; the fleet's own only there."""
        if self._touching[:2] != (self.revision, place):
            found = [
                each
                for each in self.held
                if each.status is AlertStatus.FIRING and touches(address_of(each.alert), place)
            ]
            self._touching = (self.revision, place, found)
        return self._touching[2]

    def of_job(self, job: str) -> list[AlertWithStatus]:
        """Return what fires, and nobody has in hand, of a job or where it runs."""
        return self._by_name.get(("job", job), [])

    def of_reservation(self, reservation_id: str) -> list[AlertWithStatus]:
        """Return what fires, and nobody has in hand, of a reservation itself."""
        return self._by_name.get(("reservation", reservation_id), [])

    def on_instances(self, rows: tuple[range, ...]) -> list[AlertWithStatus]:
        """Return what fires, and nobody has in hand, at some instances or below one of them.

        Args:
            rows: Numbers of instances in the present layout.
        """
        if not rows or self._layout is None or self._layout is not self._monitor.store.layout:
            return []
        if self._on_instances[:2] != (self.revision, rows):
            found: list[AlertWithStatus] = []
            for each in self.held:
                node = self._node(each.alert, self._layout) if each.status is AlertStatus.FIRING else None
                if node is None or node.level < Level.INSTANCE:
                    continue
                first = self._layout.instance_range(node).start
                if any(first in run for run in rows):
                    found.append(each)
            self._on_instances = (self.revision, rows, found)
        return self._on_instances[2]

    def _node(self, alert: Alert, layout: Layout) -> Node | None:
        place = address_of(alert)
        if not place:
            return None
        if place not in self._nodes:
            self._nodes[place] = layout.find(place)
        return self._nodes[place]


def touches(address: str, place: str) -> bool:
    """Say whether an alert's address is at, below or above a place; what has no address is at the fleet alone."""
    return is_below(address, place) or (bool(address) and is_below(place, address))


def _counted(held: list[AlertWithStatus]) -> Counts:
    by_status = dict.fromkeys(AlertStatus, 0)
    by_severity = {severity.value: 0 for severity in Severity}
    for each in held:
        by_status[each.status] += 1
        if each.status is AlertStatus.FIRING:
            by_severity[each.severity.value] += 1
    return Counts(
        **by_severity,
        acked=by_status[AlertStatus.ACKED],
        silenced=by_status[AlertStatus.SILENCED],
        inhibited=by_status[AlertStatus.INHIBITED],
        pending=by_status[AlertStatus.PENDING],
    )
