"""The newest events from publishers, without duplicates, in order of arrival.

When full, the oldest event is dropped. If one instance has more than its share, the oldest event of
the instance with the most is dropped instead, so an instance that reports without end replaces its
own events. An event does not name its publisher; access lists can bind a publisher to a path.

Texts are stored as received: they are sanitised for display.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.address import Level, Names
from trnfleet.domain.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.messages import EventMessage

KEPT = 10_000
"""Most stored events, and transitions of alerts. Older ones are dropped and counted."""
SHARE = 16
"""Each instance is guaranteed 1/16 of the room. At most fifteen instances can crowd out the rest.
"""


class Event(NamedTuple):
    """Something that happened."""

    number: int
    """Sequence number within its kind, from 1."""
    received_s: float
    """Monotonic seconds of arrival."""
    ts_ns: int
    """Source time, ns since 1970."""
    severity: Severity
    source: str
    """Reporting part of the system, such as `kernel`."""
    name: str
    path: str
    """Address of the affected node; empty for the fleet."""
    job: str
    """Name of the affected job; empty for none."""
    nrt: int | None
    """NRT status of the failed execution."""
    text: str
    is_own: bool = False
    """Whether the monitor created it, for an alert or an operator's action."""
    rule: str = ""
    """Rule name of the related alert; empty for none."""
    alert: str = ""
    """Fingerprint of that alert; empty for none."""
    subject: str = ""
    """Subject of an alert without an address: a reservation or a publisher; empty for none."""

    @property
    def order(self) -> tuple[float, bool, int]:
        """Sort key: by arrival, the monitor's own events after their possible causes."""
        return self.received_s, self.is_own, self.number

    def shown(self, names: Names) -> Event:
        """Return the event with display names of its instance and job."""
        path = names.address(self.path)
        job = names.jobs.get(self.job, self.job)
        return self if (path, job) == (self.path, self.job) else self._replace(path=path, job=job)


class Events:
    """The stored events."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._by_number: OrderedDict[int, tuple[str, Event]] = OrderedDict()
        """Id and event. In a plain dict, finding the first entry costs time for every entry dropped
        before."""
        self._ids: set[str] = set()
        self._numbers_of: dict[str, deque[int]] = {}
        """Numbers of stored events by instance, oldest first."""
        self._busiest = ""
        """The instance with the most of them."""
        self.received = 0
        """Events received, each counted once."""
        self.duplicates = 0
        """Repeated deliveries of a stored event, as QoS 1 allows."""

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._by_number)

    def __contains__(self, number: int) -> bool:
        """Return whether the event with a number is still kept."""
        return number in self._by_number

    @property
    def dropped(self) -> int:
        """Events dropped for newer ones."""
        return self.received - len(self._by_number)

    def add(self, message: EventMessage, now_s: float) -> None:
        """Add an event received at monotonic `now_s`."""
        if message.id in self._ids:
            self.duplicates += 1
            return
        self.received += 1
        if len(self._by_number) >= self._kept:
            self._make_room()
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
        self._ids.add(message.id)
        self._by_number[event.number] = message.id, event
        owner = _instance_of(event.path)
        numbers = self._numbers_of.setdefault(owner, deque())
        numbers.append(event.number)
        if len(numbers) > self._count(self._busiest):
            self._busiest = owner

    def _count(self, owner: str) -> int:
        return len(self._numbers_of.get(owner, ()))

    def _make_room(self) -> None:
        """Drop the oldest event, or that of the largest instance if it exceeds its share."""
        owner = self._busiest
        if self._count(owner) * SHARE <= self._kept:
            _, oldest = next(iter(self._by_number.values()))
            owner = _instance_of(oldest.path)
        numbers = self._numbers_of[owner]
        gone, _ = self._by_number.pop(numbers.popleft())
        self._ids.discard(gone)
        if not numbers:
            del self._numbers_of[owner]

    def newest_first(self) -> Iterator[Event]:
        """Yield the stored events."""
        for _, event in reversed(self._by_number.values()):
            yield event

    def since(self, number: int) -> list[Event]:
        """Return the stored events after a number, oldest first."""
        fresh = itertools.takewhile(lambda event: event.number > number, self.newest_first())
        return list(fresh)[::-1]

    def notable(self, now_s: float, within_s: float) -> Event | None:
        """Return the newest of the most severe events within the last seconds.

        None if they are only informational.
        """
        worst: Event | None = None
        for event in self.newest_first():
            if now_s - event.received_s > within_s:
                break
            if event.severity < (Severity.INFO if worst is None else worst.severity):
                worst = event
            if event.severity is Severity.CRITICAL:
                break
        return worst


def _instance_of(path: str) -> str:
    """Return the instance address of a path.

    Above an instance, return the path itself. Empty for the fleet.
    """
    return "/".join(path.split("/", Level.INSTANCE)[: Level.INSTANCE])
