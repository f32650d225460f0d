"""The index of a recording: marks to jump to, snapshots to begin from, and the times of the fleet's clock.

It is filled pass by pass by a monitor that follows the recording from its beginning: the live one, or the survey of a file.
"""

from __future__ import annotations

import bisect
import math
import operator
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from trnfleet.monitor.monitor import Monitor, Snapshot

Kind = Literal["alert", "resolved", "event"]

MOST_MARKS = 20_000
"""Marks that are kept; the oldest make room."""
MOST_SNAPSHOTS = 128
SNAPSHOT_BYTES = 64 * 2**20
"""Memory for all snapshots, as far as it can be estimated; a fleet that does not fit has none."""
SNAPSHOT_BASE_BYTES = 200_000
SNAPSHOT_INSTANCE_BYTES = 1_500
SNAPSHOT_EVENT_BYTES = 70
"""Memory of a snapshot beside the store's columns, measured at 192 and 10,240 chips with the shipped rules, rounded up."""
SNAPSHOT_SHARE = 0.001
"""Share of time that snapshots may take: a snapshot is taken in one go, and no key is served meanwhile."""
MOST_TIMES = 200_000
"""Two days, at one a second."""
_TIME_OF = operator.attrgetter("time_ns")


class Mark(NamedTuple):
    """Something that happened, at a place of the recording."""

    time_ns: int
    """The recording's time."""
    kind: Kind
    severity: Severity
    text: str
    """In one line, as it came from the wire: readers sanitise it."""
    target: str
    """Address that it is about; empty for the fleet, and for what has none."""
    fingerprint: str
    """Of the alert; empty for an event."""


class RecordingIndex:
    """Marks, snapshots and times of one recording, in the order of its time."""

    def __init__(
        self, position_of: Callable[[float], int], real_s: Callable[[], float], *, every_s: float
    ) -> None:
        """Begin with nothing.

        Args:
            position_of: Returns the recording's time of a monitor's monotonic seconds.
            real_s: Returns real monotonic seconds, by which work is timed.
            every_s: Seconds between two snapshots, at the least.
        """
        self.marks: list[Mark] = []
        self.snapshots: list[tuple[int, Snapshot]] = []
        """With the recording's time of the last message in each."""
        self.surveyed_ns = 0
        """Everything up to here is known."""
        self.revision = 0
        self._position_of = position_of
        self._real_s = real_s
        self._every_ns = round(every_s * NS_PER_S)
        self._due_ns = 0
        """Place from which on the next snapshot is taken."""
        self._happened = 0
        self._events = 0
        self._times: deque[tuple[int, int]] = deque(maxlen=MOST_TIMES)
        """Fleet time and the recording's, at most a pair a second."""

    def take(self, monitor: Monitor, now_ns: int) -> None:
        """Add what a pass has found; to be called after every pass, or after the last of a few.

        Args:
            monitor: The one that follows the recording.
            now_ns: The recording's time.
        """
        self.surveyed_ns = max(self.surveyed_ns, now_ns)
        if not self._times or now_ns - self._times[-1][1] >= NS_PER_S:
            self._times.append((monitor.moment().time_ns, now_ns))
        marks = [*self._alert_marks(monitor, now_ns), *self._event_marks(monitor)]
        if marks:
            # Readers tell a new list from the old one.
            self.marks = sorted([*self.marks, *marks], key=_TIME_OF)[-MOST_MARKS:]
            self.revision += 1
        if monitor.store.layout.instances and math.isfinite(monitor.applied_s):
            # While nothing comes, this place stays and evaluations go on: a snapshot would have what is later.
            place_ns = self._position_of(monitor.applied_s)
            if place_ns >= self._due_ns:
                self._take_snapshot(monitor, place_ns)

    def drop_before(self, time_ns: int) -> None:
        """Forget what lies before a time, because the recording has been cut there."""
        if self.marks and self.marks[0].time_ns < time_ns:
            self.marks = [mark for mark in self.marks if mark.time_ns >= time_ns]
            self.revision += 1
        if self.snapshots and self.snapshots[0][0] < time_ns:
            self.snapshots = [each for each in self.snapshots if each[0] >= time_ns]
        while self._times and self._times[0][1] < time_ns:
            self._times.popleft()

    def snapshot(self, at_ns: int) -> tuple[int, Snapshot] | None:
        """Return the newest snapshot at or before a time."""
        place = bisect.bisect_right(self.snapshots, at_ns, key=lambda each: each[0])
        return self.snapshots[place - 1] if place else None

    def moment_of(self, fleet_ns: int) -> int | None:
        """Return the recording's time at which the fleet's clock showed a time; None where that is not known."""
        times = self._times
        if not times or not times[0][0] - NS_PER_S <= fleet_ns <= times[-1][0] + NS_PER_S:
            return None
        # A fleet's time may jump back; the last such moment is meant.
        for fleet, recorded in reversed(times):
            if fleet <= fleet_ns:
                return recorded
        return times[0][1]

    def next_mark(self, from_ns: int, direction: int, kinds: Container[str]) -> Mark | None:
        """Return the nearest mark of some kinds after a time, or before it where the direction is negative."""
        if direction >= 0:
            return next((m for m in self.marks if m.time_ns > from_ns and m.kind in kinds), None)
        return next((m for m in reversed(self.marks) if m.time_ns < from_ns and m.kind in kinds), None)

    def _alert_marks(self, monitor: Monitor, now_ns: int) -> list[Mark]:
        alerts = monitor.alerts
        fresh = min(alerts.happened - self._happened, len(alerts.history))
        self._happened = alerts.happened
        found: list[Mark] = []
        for number in range(len(alerts.history) - fresh, len(alerts.history)):
            each = alerts.history[number]
            if each.kind not in {"firing", "resolved"}:
                continue
            kind: Kind = "alert" if each.kind == "firing" else "resolved"
            alert = each.alert
            found.append(
                Mark(now_ns, kind, alert.severity, each.summary, address_of(alert), alert.fingerprint)
            )
        return found

    def _event_marks(self, monitor: Monitor) -> list[Mark]:
        fresh = monitor.events.since(self._events)
        self._events = monitor.events.received
        return [
            Mark(self._position_of(each.received_s), "event", each.severity, each.text, each.path, "")
            for each in fresh
            if each.severity is not Severity.INFO
        ]

    def _take_snapshot(self, monitor: Monitor, place_ns: int) -> None:
        size = (
            SNAPSHOT_BASE_BYTES
            + SNAPSHOT_INSTANCE_BYTES * len(monitor.store.layout.instances)
            + SNAPSHOT_EVENT_BYTES * len(monitor.events)
            + monitor.store.nbytes
        )
        most = min(MOST_SNAPSHOTS, SNAPSHOT_BYTES // size)
        if most < 2:
            return
        if len(self.snapshots) >= most:
            # Every other one goes, so that a long recording has them farther apart and none only near its end.
            self.snapshots = self.snapshots[::2]
            self._every_ns *= 2
            self._due_ns = self.snapshots[-1][0] + self._every_ns
            if self._due_ns > place_ns:
                return
        begun_s = self._real_s()
        snapshot = monitor.snapshot()
        spent_s = self._real_s() - begun_s
        self._due_ns = place_ns + max(self._every_ns, round(spent_s / SNAPSHOT_SHARE * NS_PER_S))
        self.snapshots.append((place_ns, snapshot))
