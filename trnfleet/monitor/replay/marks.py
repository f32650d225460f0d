"""The index of a recording: marks to jump to, snapshots to begin from, and the times of the fleet's clock.

It is filled pass by pass by a monitor that follows the recording from its beginning: the live one, or the survey of a file.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.severity import Severity
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.packed_rows import PackedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from trnfleet.monitor.monitor import Monitor

Kind = Literal["alert", "resolved", "event"]

MOST_MARKS = 20_000
"""Marks that are kept; the oldest make room."""
MOST_SNAPSHOTS = 48
"""2 MB for a fleet of 192 chips, reached after a quarter of an hour; between 48 and 128 a seek gains little."""
SNAPSHOT_BYTES = 64 * 2**20
"""Memory for all snapshots; a fleet of whose columns not even two fit has none."""
TOPIC_BYTES, PUBLISHER_BYTES = 500, 2_000
"""What a topic, and a publisher with its clock, add to one (measured with 10,000 and 30,000 hosts)."""
SNAPSHOT_SHARE = 0.0005
"""Share of time that snapshots may take: a snapshot is taken in one go, and no key is served meanwhile."""
CLOSE = 2.5
"""Of the shortest distance: two such distances, and what a pass comes late."""
MOST_TIMES = 200_000
"""Two days, at one a second, of 7 bytes each."""
TIMES_DROPPED = 4_096
"""Of those the oldest that make room at once."""
_LEAST = -(2**63)
"""Least time that there is; times are kept as what they are above it."""
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
        self.snapshots: list[tuple[int, PackedSnapshot]] = []
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
        self._times = PackedRows(2)
        """The recording's time and the fleet's at that moment, at most a pair a second."""
        self._noted_ns: int | None = None
        """The recording's time of the last pair."""

    def take(self, monitor: Monitor, now_ns: int) -> None:
        """Add what a pass has found; to be called after every pass, or after the last of a few.

        Args:
            monitor: The one that follows the recording.
            now_ns: The recording's time.
        """
        self.surveyed_ns = max(self.surveyed_ns, now_ns)
        if self._noted_ns is None or now_ns - self._noted_ns >= NS_PER_S:
            self._note_time(monitor.moment().time_ns, now_ns)
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

    def backfill(self, times: Sequence[tuple[int, int]], first: tuple[int, PackedSnapshot]) -> None:
        """Add what lies before all that is known: there is nothing to mark.

        Args:
            times: Fleet time and the recording's at it, in order, at most a pair a second.
            first: A snapshot at its begin, from which the exact past is played.
        """
        earlier = ((time_ns - _LEAST, fleet_ns - _LEAST) for fleet_ns, time_ns in times)
        self._times = PackedRows(2, itertools.chain(earlier, self._times))
        if self.snapshots:
            self.snapshots.insert(0, first)
        self.revision += 1

    def drop_before(self, time_ns: int) -> None:
        """Forget what lies before a time, because the recording has been cut there."""
        if self.marks and self.marks[0].time_ns < time_ns:
            self.marks = [mark for mark in self.marks if mark.time_ns >= time_ns]
            self.revision += 1
        if self.snapshots and self.snapshots[0][0] < time_ns:
            self.snapshots = [each for each in self.snapshots if each[0] >= time_ns]
        self._times.drop(self._times.bisect_right(0, time_ns - 1 - _LEAST))

    def snapshot(self, at_ns: int) -> tuple[int, PackedSnapshot] | None:
        """Return the newest snapshot at or before a time."""
        place = bisect.bisect_right(self.snapshots, at_ns, key=lambda each: each[0])
        return self.snapshots[place - 1] if place else None

    def moment_of(self, fleet_ns: int) -> int | None:
        """Return the recording's time at which the fleet's clock showed a time; None where that is not known."""
        if not self._times:
            return None
        wanted = fleet_ns - _LEAST
        if not self._times[0][1] - NS_PER_S <= wanted <= self._times[-1][1] + NS_PER_S:
            return None
        # A fleet's time may jump back; the last such moment is meant.
        found = next((each for each in reversed(self._times) if each[1] <= wanted), self._times[0])
        return found[0] + _LEAST

    def next_mark(self, from_ns: int, direction: int, kinds: Container[str]) -> Mark | None:
        """Return the nearest mark of some kinds after a time, or before it where the direction is negative."""
        if direction >= 0:
            return next((m for m in self.marks if m.time_ns > from_ns and m.kind in kinds), None)
        return next(
            (m for m in reversed(self.marks) if m.time_ns < from_ns and m.kind in kinds), None
        )

    def _note_time(self, fleet_ns: int, recorded_ns: int) -> None:
        if len(self._times) >= MOST_TIMES + TIMES_DROPPED:
            self._times.drop(TIMES_DROPPED)
        self._times.append((recorded_ns - _LEAST, fleet_ns - _LEAST))
        self._noted_ns = recorded_ns

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
                Mark(
                    now_ns, kind, alert.severity, each.summary, address_of(alert), alert.fingerprint
                )
            )
        return found

    def _event_marks(self, monitor: Monitor) -> list[Mark]:
        fresh = monitor.events.since(self._events)
        self._events = monitor.events.received
        return [
            Mark(
                self._position_of(each.received_s), "event", each.severity, each.text, each.path, ""
            )
            for each in fresh
            if each.severity is not Severity.INFO
        ]

    def _take_snapshot(self, monitor: Monitor, place_ns: int) -> None:
        ingest = monitor.ingest
        size = monitor.store.nbytes + monitor.averages.nbytes
        size += TOPIC_BYTES * len(ingest.topics.states) + PUBLISHER_BYTES * len(ingest.publishers)
        if 2 * size > SNAPSHOT_BYTES:
            # Only one would fit, and packing it takes a third of a second for 10,000 hosts (measured).
            return
        begun_s = self._real_s()
        snapshot = PackedSnapshot.of(monitor)
        spent_s = self._real_s() - begun_s
        self._due_ns = place_ns + max(self._every_ns, round(spent_s / SNAPSHOT_SHARE * NS_PER_S))
        most = min(MOST_SNAPSHOTS, SNAPSHOT_BYTES // snapshot.nbytes)
        while self.snapshots and len(self.snapshots) >= most:
            self._drop_one()
        if most > 1:
            self.snapshots.append((place_ns, snapshot))

    def _drop_one(self) -> None:
        """Drop the oldest snapshot, but the first, that lies between two close ones.

        One at a time, so that memory stays level; when none are close, the next ones are taken twice as far apart. A long
        recording has them farther apart, but none only near its end.
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
