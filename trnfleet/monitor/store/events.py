"""Events: the newest of those that publishers sent, each once, in the order in which they came.

Where there is no more room, the oldest of all makes room, unless one instance has more than its share: then it is the oldest of
the one that has most. So the events of an instance that reports without end replace its own. An event does not name its publisher;
its path is what access lists can hold a publisher to.

Their texts are as they came from the wire: they are sanitised where they are shown.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.monitor.copies import copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.messages import EventMessage

KEPT = 10_000
"""Events that are kept; older ones make room and are counted."""
SHARE = 16
"""Of this many parts one is kept for each instance, however many events others have; so at most fifteen can crowd out the rest."""
_INSTANCE_SEGMENTS = 3
"""Cluster, UltraServer and instance."""


class Event(NamedTuple):
    """Something that happened."""

    number: int
    """Counts the events of its kind that came, from 1."""
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
    is_own: bool = False
    """Whether the monitor made it itself, of an alert or of what operators did."""
    rule: str = ""
    """Name of the rule whose alert it tells of; empty for none."""
    alert: str = ""
    """Fingerprint of that alert; empty for none."""
    subject: str = ""
    """Name of what that alert is about where it has no address: a reservation, a publisher; empty for none."""

    @property
    def order(self) -> tuple[float, bool, int]:
        """Place among all: by arrival, the monitor's own after what they may follow from."""
        return self.received_s, self.is_own, self.number


class Events:
    """The events that are kept."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._by_number: OrderedDict[int, tuple[str, Event]] = OrderedDict()
        """Id and event; of a plain dict, to find the first of many takes as long as all that was dropped before."""
        self._ids: set[str] = set()
        self._numbers_of: dict[str, deque[int]] = {}
        """Numbers of what is kept, oldest first, by instance."""
        self._busiest = ""
        """The instance with the most of them."""
        self.received = 0
        """Events that came, each counted once."""
        self.duplicates = 0
        """Deliveries of an event that was there already, as QoS 1 allows."""

    def copy(self) -> Events:
        """Return a copy; events themselves never change."""
        return copied(
            self,
            _by_number=self._by_number.copy(),
            _ids=self._ids.copy(),
            _numbers_of={owner: numbers.copy() for owner, numbers in self._numbers_of.items()},
        )

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._by_number)

    def __contains__(self, number: int) -> bool:
        """Return whether the event with a number is still kept."""
        return number in self._by_number

    @property
    def dropped(self) -> int:
        """Events that had to make room for newer ones."""
        return self.received - len(self._by_number)

    def add(self, message: EventMessage, now_s: float) -> None:
        """Add an event that came at monotonic `now_s`."""
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
        """Drop the oldest event, of the instance that has most where that is more than its share."""
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
        """Yield what is kept."""
        for _, event in reversed(self._by_number.values()):
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


def _instance_of(path: str) -> str:
    """Return the address of the instance that a path is in, or the path where it is above that; empty for the fleet."""
    return "/".join(path.split("/", _INSTANCE_SEGMENTS)[:_INSTANCE_SEGMENTS])
