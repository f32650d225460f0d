"""The index of a recording: marks, snapshots, and times of the fleet's clock.

Viewers jump to marks, and seeking starts from snapshots. It is filled pass by pass by a monitor
following the recording from its start: the live one, or the survey of a file.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.severity import Severity
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.store.events import KEPT
from trnfleet.packed_rows import PackedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from trnfleet.monitor.monitor import Monitor

Kind = Literal["alert", "resolved", "event"]

MOST_SNAPSHOTS = 48
"""2 MB for a fleet of 192 chips, reached after a quarter of an hour. Between 48 and 128, seeks gain
little."""
SNAPSHOT_BYTES = 64 * 2**20
"""Memory for all snapshots. A fleet too large for two snapshots has none."""
HOST_BYTES = 2_500
"""Bytes in a snapshot per topic, with publisher and clock. Measured with 10,000 hosts."""
SNAPSHOT_SHARE = 0.0005
"""Largest share of time for snapshots. A snapshot runs without a break, and no key is served
meanwhile."""
CLOSE = 2.5
"""In shortest distances: two of them, and the delay of a pass."""
MOST_TIMES = 200_000
"""Two days, at one a second."""
_LEAST = int(np.iinfo(np.int64).min)
"""Earliest possible time. Times are stored relative to it."""
_TIME_OF = operator.attrgetter("time_ns")


class Mark(NamedTuple):
    """An event or alert at a position of the recording."""

    time_ns: int
    """The recording's time."""
    kind: Kind
    severity: Severity
    text: str
    """One line, unchanged from the wire: readers sanitise it."""
    target: str
    """Address of its subject. Empty for the fleet, or without an address."""
    fingerprint: str
    """Of the alert; empty for an event."""


class RecordingIndex:
    """Marks, snapshots and times of one recording, in the order of its time."""

    def __init__(
        self, position_of: Callable[[float], int], real_s: Callable[[], float], *, every_s: float
    ) -> None:
        """Start empty.

        Args:
            position_of: Returns the recording's time of a monitor's monotonic seconds.
            real_s: Returns real monotonic seconds, for timing work.
            every_s: Least seconds between two snapshots.
        """
        self.marks: list[Mark] = []
        self.snapshots: list[tuple[int, PackedSnapshot]] = []
        """With the recording's time of the last message in each."""
        self.surveyed_ns = 0
        """Everything up to here is known."""
        self.revision = 0
        self._position_of = position_of
        self._real_s = real_s
        self._every_ns = round(every_s * NS_PER_S)
        self._due_ns = 0
        """Position from which the next snapshot is due."""
        self._happened = 0
        self._events = 0
        self._times = PackedRows()
        """The recording's time and the fleet's at that moment, at most a pair a second."""
        self._noted_ns: int | None = None
        """The recording's time of the last pair."""

    def take(self, monitor: Monitor, now_ns: int) -> None:
        """Add the results of a pass.

        Call it after every pass, or the last of a few.

        Args:
            monitor: The monitor following the recording.
            now_ns: The recording's time.
        """
        self.surveyed_ns = max(self.surveyed_ns, now_ns)
        if self._noted_ns is None or now_ns - self._noted_ns >= NS_PER_S:
            self._note_time(monitor.moment().time_ns, now_ns)
        marks = [*self._alert_marks(monitor, now_ns), *self._event_marks(monitor)]
        if marks:
            # Readers tell a new list from the old one.
            self.marks = sorted([*self.marks, *marks], key=_TIME_OF)[-KEPT:]
            self.revision += 1
        if monitor.store.layout.instances and math.isfinite(monitor.applied_s):
            # While nothing comes, this place stays and evaluations go on: a snapshot would have
            # what is later.
            place_ns = self._position_of(monitor.applied_s)
            if place_ns >= self._due_ns:
                self._take_snapshot(monitor, place_ns)

    def backfill(self, times: Sequence[tuple[int, int]], first: tuple[int, PackedSnapshot]) -> None:
        """Add the time before all known times.

        There are no marks in it.

        Args:
            times: Fleet time and the recording's time, in order, at most one pair per second.
            first: A snapshot at its start. The exact past is played from there.
        """
        earlier = ((time_ns - _LEAST, fleet_ns - _LEAST) for fleet_ns, time_ns in times)
        self._times = PackedRows(itertools.chain(earlier, self._times))
        if self.snapshots:
            self.snapshots.insert(0, first)
        self.revision += 1

    def drop_before(self, time_ns: int) -> None:
        """Forget everything before a time: the recording was cut there."""
        if self.marks and self.marks[0].time_ns < time_ns:
            self.marks = [mark for mark in self.marks if mark.time_ns >= time_ns]
            self.revision += 1
        if self.snapshots and self.snapshots[0][0] < time_ns:
            self.snapshots = [snapshot for snapshot in self.snapshots if snapshot[0] >= time_ns]
        self._times.drop(self._times.bisect_right(0, time_ns - 1 - _LEAST))

    def snapshot(self, at_ns: int) -> tuple[int, PackedSnapshot] | None:
        """Return the newest snapshot at or before a time."""
        place = bisect.bisect_right(self.snapshots, at_ns, key=lambda snapshot: snapshot[0])
        return self.snapshots[place - 1] if place else None

    def moment_of(self, fleet_ns: int) -> int | None:
        """Return the recording's time for a time of the fleet's clock.

        None if unknown.
        """
        if not self._times:
            return None
        sought_ns = fleet_ns - _LEAST
        if not self._times[0][1] - NS_PER_S <= sought_ns <= self._times[-1][1] + NS_PER_S:
            return None
        # A fleet's time may jump back; the last such moment is meant.
        moment = next(
            (pair for pair in reversed(self._times) if pair[1] <= sought_ns), self._times[0]
        )
        return moment[0] + _LEAST

    def next_mark(self, from_ns: int, direction: int, kinds: Container[str]) -> Mark | None:
        """Return the nearest mark of some kinds after a time.

        None without one.

        With a negative direction, search before it.
        """
        if direction >= 0:
            return next((m for m in self.marks if m.time_ns > from_ns and m.kind in kinds), None)
        return next(
            (m for m in reversed(self.marks) if m.time_ns < from_ns and m.kind in kinds), None
        )

    def _note_time(self, fleet_ns: int, recorded_ns: int) -> None:
        if len(self._times) >= MOST_TIMES:
            self._times.drop(1)
        self._times.append((recorded_ns - _LEAST, fleet_ns - _LEAST))
        self._noted_ns = recorded_ns

    def _alert_marks(self, monitor: Monitor, now_ns: int) -> list[Mark]:
        alerts = monitor.alerts
        fresh = min(alerts.happened - self._happened, len(alerts.history))
        self._happened = alerts.happened
        marks: list[Mark] = []
        for number in range(len(alerts.history) - fresh, len(alerts.history)):
            transition = alerts.history[number]
            if transition.kind not in {"firing", "resolved"}:
                continue
            kind: Kind = "alert" if transition.kind == "firing" else "resolved"
            alert = transition.alert
            marks.append(
                Mark(
                    now_ns,
                    kind,
                    alert.severity,
                    transition.summary,
                    address_of(alert),
                    alert.fingerprint,
                )
            )
        return marks

    def _event_marks(self, monitor: Monitor) -> list[Mark]:
        fresh = monitor.events.since(self._events)
        self._events = monitor.events.received
        return [
            Mark(
                self._position_of(event.received_s),
                "event",
                event.severity,
                event.text,
                event.path,
                "",
            )
            for event in fresh
            if event.severity is not Severity.INFO
        ]

    def _take_snapshot(self, monitor: Monitor, place_ns: int) -> None:
        ingest = monitor.ingest
        size = monitor.store.nbytes + monitor.averages.nbytes
        size += HOST_BYTES * max(len(ingest.topics.states), len(ingest.publishers))
        if 2 * size > SNAPSHOT_BYTES:
            # Only one would fit, and packing it takes a third of a second for 10,000 hosts
            # (measured).
            return
        begun_s = self._real_s()
        snapshot = PackedSnapshot(monitor)
        spent_s = self._real_s() - begun_s
        self._due_ns = place_ns + max(self._every_ns, round(spent_s / SNAPSHOT_SHARE * NS_PER_S))
        most = min(MOST_SNAPSHOTS, SNAPSHOT_BYTES // snapshot.nbytes)
        while self.snapshots and len(self.snapshots) >= most:
            self._drop_one()
        # The monitor has dropped the events of that time, but a snapshot still holds them.
        while self.snapshots and snapshot.events - self.snapshots[0][1].events > KEPT:
            del self.snapshots[0]
        if most > 1:
            self.snapshots.append((place_ns, snapshot))

    def _drop_one(self) -> None:
        """Drop the oldest snapshot between two close ones.

        Never drop the first.

        One at a time, so memory use stays level. If none are close, the next ones are made twice as
        far apart. A long recording has them farther apart everywhere, not only near its end.
        """
        times = [time_ns for time_ns, _ in self.snapshots]
        for i in range(1, len(times) - 1):
            if times[i + 1] - times[i - 1] <= CLOSE * self._every_ns:
                del self.snapshots[i]
                return
        if len(times) < 3:
            del self.snapshots[0]
        else:
            self._every_ns *= 2
