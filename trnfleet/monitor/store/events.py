"""Events: the newest of those that publishers sent, each once, in the order in which they came.

Their texts are as they came from the wire: they are sanitised where they are shown.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.monitor.copies import copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.messages import EventMessage

KEPT = 10_000
"""Events that are kept; older ones make room and are counted."""


class Event(NamedTuple):
    """Something that happened."""

    number: int
    """Counts the events that came, from 1."""
    received_s: float
    """Monotonic seconds at which it came."""
    ts_ns: int
    """Source time, ns since 1970."""
    severity: Severity
    source: str
    """The part of the system that reported it, such as `kernel`."""
    name: str
    path: str
    """Address of what it is about; empty for the fleet."""
    job: str
    """Name of the job that it is about; empty for none."""
    nrt: int | None
    """NRT status of the execution that ended with it."""
    text: str


class Events:
    """A ring of events."""

    def __init__(self, kept: int = KEPT) -> None:
        self._ring: deque[tuple[str, Event]] = deque(maxlen=kept)
        self._ids: set[str] = set()
        self.received = 0
        """Events that came, each counted once."""
        self.duplicates = 0
        """Deliveries of an event that was there already, as QoS 1 allows."""

    def copy(self) -> Events:
        """Return a copy; events themselves never change."""
        return copied(
            self,
            _ring=self._ring.copy(),
            _ids=self._ids.copy(),
        )

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._ring)

    @property
    def dropped(self) -> int:
        """Events that had to make room for newer ones."""
        return self.received - len(self._ring)

    def add(self, message: EventMessage, now_s: float) -> None:
        """Add an event that came at monotonic `now_s`."""
        if message.id in self._ids:
            self.duplicates += 1
            return
        self.received += 1
        if len(self._ring) == self._ring.maxlen:
            self._ids.discard(self._ring[0][0])
        self._ids.add(message.id)
        event = Event(
            self.received,
            now_s,
            parse_rfc3339(message.ts),
            message.severity,
            message.source,
            message.name,
            message.path,
            message.job or "",
            message.nrt,
            message.text,
        )
        self._ring.append((message.id, event))

    def newest_first(self) -> Iterator[Event]:
        """Yield what is kept."""
        for _, event in reversed(self._ring):
            yield event

    def since(self, number: int) -> list[Event]:
        """Return the events after the one with a number, oldest first, as far as they are kept."""
        fresh = itertools.takewhile(lambda event: event.number > number, self.newest_first())
        return list(fresh)[::-1]

    def notable(self, now_s: float, within_s: float) -> Event | None:
        """Return the newest of the most severe events that came within the last seconds; None for mere information."""
        found: Event | None = None
        for event in self.newest_first():
            if now_s - event.received_s > within_s:
                break
            if event.severity < (Severity.INFO if found is None else found.severity):
                found = event
            if event.severity is Severity.CRITICAL:
                break
        return found
