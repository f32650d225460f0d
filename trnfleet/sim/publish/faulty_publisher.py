"""A bad network between simulator and broker: late, lost, double or reordered telemetry.

Owns the transport faults, and wraps the port `Publisher`. Only telemetry (QoS 0, not retained) is
affected, except that a lost connection loses everything. The messages hit follow from the seed, the
topic and the count of earlier messages on it, so that batches and shards make no difference. It
knows no broker.
"""

from __future__ import annotations

import asyncio
import fnmatch
import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trnfleet.domain.faults.fault import check_use
from trnfleet.domain.faults.table import FAULTS, find_fault
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trnfleet.clock import Clock
    from trnfleet.sim.publish.commands import Control
    from trnfleet.sim.rng import Rng
    from trnfleet.wire.ports import Envelope, InterruptiblePublisher, LinkStatus, PublishResult

Kind = Literal["delay", "drop", "duplicate", "reorder", "late_reconnect"]

PREFIX = "transport_"
"""Prefix of a kind's name in the table of faults."""
_KINDS: tuple[Kind, ...] = ("delay", "drop", "duplicate", "reorder", "late_reconnect")
LONGEST_DELAY_S = 60.0
"""A monitor distinguishes late messages from duplicates within 64 ticks."""
MOST_HELD_BYTES = 128 * 2**20
"""Most delayed payload at a time, by delay and reorder together. Further messages are sent at once,
and counted."""
MOST_FAULTS = 100
"""Every message is compared with each."""
AFTER_ANSWER_S = 1e-6
"""Simulated seconds between a command and the loss of the connection that it asks for."""
_WAKE_S = 0.25
"""Period in which delayed messages are checked, since a later one may be due earlier."""


@dataclass(frozen=True, slots=True)
class TransportFault:
    """One fault of the way to the broker, active in `[from_s, until_s)`."""

    kind: Kind
    from_s: float
    """Simulated seconds since the start."""
    until_s: float
    """Simulated seconds since the start."""
    magnitude: float = 1.0
    """Wall-clock seconds (delay), or share of messages (drop, duplicate, reorder). A share is above
    0 and at most 1. Unused for a lost connection."""
    topics: str = "*"
    """Pattern of affected topics, including all below them. `*` matches anything, `/` included. A
    lost connection affects all."""

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ConfigError: a field is out of its range; the message names it, its value and the limit.
        """
        if self.kind not in _KINDS:
            raise ConfigError(f"transport fault {self.kind!r}: {nearest(self.kind, _KINDS)}")
        if not 0.0 <= self.from_s < self.until_s < float("inf"):
            raise ConfigError(
                f"transport fault {self.kind}: from {self.from_s!r} until {self.until_s!r} s: must"
                " be times, the second later"
            )
        most = LONGEST_DELAY_S if self.kind == "delay" else 1.0
        if not 0.0 < self.magnitude <= most:
            raise ConfigError(
                f"transport fault {self.kind}: magnitude {self.magnitude!r}: must be above 0 and at"
                f" most {most:g}"
            )

    @staticmethod
    def from_row(
        name: str,
        target: str,
        from_s: float,
        *,
        lasts_s: float | None = None,
        magnitude: float | None = None,
    ) -> TransportFault:
        """Return the fault that a row names.

        Args:
            name: A transport fault of the table of faults.
            target: Address of a publisher, or a pattern of addresses, with all below; `*` for
                everything.
            from_s: Simulated seconds since the start.
            lasts_s: Simulated seconds; the table's if not given.
            magnitude: Seconds or a share; the table's if not given.

        Raises:
            ConfigError: there is no such fault, or a value is out of its range.
        """
        row = find_fault(name)
        if not row.is_transport:
            raise ConfigError(f"{name} is not a fault of the connection to the broker")
        check_use(row, lasts_s, magnitude)
        kind = next(kind for kind in _KINDS if PREFIX + kind == name)
        if kind == "late_reconnect" and target != "*":
            raise ConfigError(
                f"{name} takes the publisher's whole connection; its target is '*', not {target!r}"
            )
        until_s = from_s + (row.lasts_s if lasts_s is None else lasts_s)
        size = row.magnitude if magnitude is None else magnitude
        return TransportFault(kind, from_s, until_s, size, f"*/telemetry/{target}")

    def is_active(self, now_s: float) -> bool:
        """Return whether it is active at a simulated instant."""
        return self.from_s <= now_s < self.until_s

    def hits(self, topic: str) -> bool:
        """Return whether it concerns a topic."""
        return fnmatch.fnmatchcase(topic, self.topics) or fnmatch.fnmatchcase(
            topic, self.topics + "/*"
        )


@dataclass(slots=True)
class TransportCounts:
    """Telemetry messages that were touched; all only grow."""

    delayed: int = 0
    dropped: int = 0
    duplicated: int = 0
    reordered: int = 0
    interruptions: int = 0
    """Interruptions of the connection, and extensions of one."""
    unheld: int = 0
    """Messages sent at once because the delay buffer was full."""


class _Delayed(NamedTuple):
    due_s: float
    """Monotonic seconds."""
    number: int
    """Orders messages due at the same instant."""
    envelope: Envelope


class FaultyPublisher:
    """The port `Publisher` around another one, with faults on the way."""

    def __init__(
        self,
        publisher: InterruptiblePublisher,
        faults: Iterable[TransportFault] = (),
        *,
        clock: Clock,
        rng: Rng,
        now_s: Callable[[], float],
        speed: float = 1.0,
    ) -> None:
        """Wrap a publisher; run `run` beside the publisher's own.

        Args:
            publisher: Sends the messages.
            faults: Known from the start; `add` takes more.
            clock: Times the delays.
            rng: Decides which messages are hit.
            now_s: Returns simulated seconds since the start.
            speed: Simulated seconds a second of the clock.
        """
        self.counts = TransportCounts()
        self._publisher = publisher
        self.faults: list[TransportFault] = []
        """Active and future faults."""
        self._clock = clock
        self._rng = rng
        self._now_s = now_s
        self._speed = speed
        self._came: dict[str, int] = {}
        """Number of telemetry messages so far on each topic."""
        self._overtaken: dict[str, list[Envelope]] = {}
        """By topic, the message (or it and its double) that waits for the next one."""
        self._delayed: list[_Delayed] = []
        self.held_bytes = 0
        """Payload held back."""
        self._away_until_s = 0.0
        self._filled = asyncio.Event()
        self._tie = itertools.count()
        for fault in faults:
            self.add(fault)

    @property
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._publisher.status

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self._now_s()

    @property
    def held(self) -> int:
        """Number of messages held back."""
        return len(self._delayed) + sum(map(len, self._overtaken.values()))

    def active(self) -> list[TransportFault]:
        """Return the faults active now, the smallest magnitude first."""
        now_s = self._now_s()
        there = [fault for fault in self.faults if fault.is_active(now_s)]
        return sorted(there, key=lambda fault: fault.magnitude)

    def add(self, fault: TransportFault) -> None:
        """Add a fault, effective at once if its time has come; remove ended faults.

        Raises:
            ConfigError: there are `MOST_FAULTS` already.
        """
        now_s = self._now_s()
        self.faults = [fault for fault in self.faults if fault.until_s > now_s]
        if len(self.faults) >= MOST_FAULTS:
            raise ConfigError(
                f"{MOST_FAULTS} transport faults are there or to come; more make no sense"
            )
        self.faults.append(fault)

    def inject(
        self,
        name: str,
        target: str,
        *,
        lasts_s: float | None = None,
        magnitude: float | None = None,
    ) -> str:
        """Begin a fault at once; return an answer of one line.

        Raises:
            ConfigError: there is no such fault, nothing publishes at the target, a value is out of
                its range, or there are too many already.
        """
        # A lost connection begins with the next tick: the answer goes out before.
        begins_s = self._now_s() + (AFTER_ANSWER_S if name == f"{PREFIX}late_reconnect" else 0.0)
        fault = TransportFault.from_row(
            name, target, begins_s, lasts_s=lasts_s, magnitude=magnitude
        )
        if self._came and not any(map(fault.hits, self._came)):
            raise ConfigError(
                f"target {target!r}: nothing publishes there:"
                f" {nearest(target, self._addresses(target))}"
            )
        self.add(fault)
        how = {"delay": f" of {fault.magnitude:g} s", "late_reconnect": ""}
        which = how.get(fault.kind, f" of {100 * fault.magnitude:g} % of the messages")
        return f"{name}{which} on {target} for {fault.until_s - fault.from_s:g} s of simulated time"

    def _addresses(self, target: str) -> set[str]:
        """Return published addresses at a target's level."""
        level = target.count("/") + 1
        return {
            "/".join(topic.partition("/telemetry/")[2].split("/")[:level]) for topic in self._came
        }

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set the first messages after every connect; faults never affect them."""
        self._publisher.on_connect(announce)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch through the active faults, after the delayed messages now due."""
        faults = self.active()
        self._interrupt(
            max((fault.until_s for fault in faults if fault.kind == "late_reconnect"), default=0.0)
        )
        return await self._publisher.publish(
            itertools.chain(self._due(), self._let_through(batch, faults))
        )

    async def run(self) -> None:
        """Send delayed messages when they are due, until cancelled."""
        while True:
            if not self._delayed:
                self._filled.clear()
                await self._filled.wait()
            left_s = self._delayed[0].due_s - self._clock.monotonic_s()
            if left_s > 0.0:
                await self._clock.sleep(min(left_s, _WAKE_S))
            else:
                await self._publisher.publish(self._due())

    def _interrupt(self, until_s: float) -> None:
        """Interrupt the connection until a simulated instant.

        No change if it is interrupted until then already.
        """
        if until_s > self._away_until_s:
            self._away_until_s = until_s
            self.counts.interruptions += 1
            self._publisher.interrupt((until_s - self._now_s()) / self._speed)

    def _due(self) -> Iterable[Envelope]:
        """Yield the delayed messages due now, in order."""
        now_s = self._clock.monotonic_s()
        while self._delayed and self._delayed[0].due_s <= now_s:
            envelope = heapq.heappop(self._delayed).envelope
            self.held_bytes -= len(envelope.payload)
            yield envelope

    def _let_through(
        self, batch: Iterable[Envelope], faults: list[TransportFault]
    ) -> Iterable[Envelope]:
        for envelope in batch:
            if envelope.qos or envelope.retain:
                yield envelope
            elif faults or self._overtaken:
                yield from self._touch(envelope, faults)
            else:
                self._came[envelope.topic] = self._came.get(envelope.topic, 0) + 1
                yield envelope

    def _touch(self, envelope: Envelope, faults: list[TransportFault]) -> Iterable[Envelope]:
        """Yield the messages sent now for one telemetry message."""
        topic = envelope.topic
        counts = self.counts
        ordinal = self._came.get(topic, 0)
        self._came[topic] = ordinal + 1
        hits = {
            fault.kind: fault
            for fault in faults
            if fault.hits(topic)
            and (
                fault.kind == "delay"
                or self._rng.chance(fault.kind, ordinal, topic) < fault.magnitude
            )
        }
        if "drop" in hits:
            counts.dropped += 1
            return
        outgoing = [envelope]
        if "duplicate" in hits:
            counts.duplicated += 1
            outgoing.append(envelope)
        overtaken = self._overtaken.pop(topic, None)
        if overtaken is not None:
            self.held_bytes -= _size(overtaken)
            outgoing += overtaken
        elif "reorder" in hits and self._hold(outgoing):
            counts.reordered += 1
            self._overtaken[topic] = outgoing
            return
        if "delay" in hits and self._hold(outgoing):
            counts.delayed += len(outgoing)
            due_s = self._clock.monotonic_s() + hits["delay"].magnitude
            for delayed in outgoing:
                heapq.heappush(self._delayed, _Delayed(due_s, next(self._tie), delayed))
            self._filled.set()
            return
        yield from outgoing

    def _hold(self, envelopes: list[Envelope]) -> bool:
        """Reserve room for delayed messages; return False, and count them, if full."""
        size = _size(envelopes)
        if self.held_bytes + size > MOST_HELD_BYTES:
            self.counts.unheld += len(envelopes)
            return False
        self.held_bytes += size
        return True


class TransportControl:
    """The port `Control` of a simulation whose publisher has transport faults.

    Transport faults are injected here.
    """

    def __init__(self, control: Control, publisher: FaultyPublisher) -> None:
        self._control = control
        self._publisher = publisher

    def inject(
        self, fault: str, target: str, *, lasts_s: float | None, magnitude: float | None, by: str
    ) -> str:
        """Begin a fault of the connection or of the fleet."""
        if fault in FAULTS and FAULTS[fault].is_transport:
            return self._publisher.inject(fault, target, lasts_s=lasts_s, magnitude=magnitude)
        return self._control.inject(fault, target, lasts_s=lasts_s, magnitude=magnitude, by=by)

    def jump(self, by_s: float) -> str:
        return self._control.jump(by_s)

    def rebirth(self) -> str:
        return self._control.rebirth()

    def reserve(self, action: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Look for, buy or extend Capacity Blocks.

        Raises:
            ConfigError: a rule forbids it, or an argument is wrong.
        """
        return self._control.reserve(action, args)

    def faults(self) -> dict[str, Any]:
        """Return the active faults of the fleet and of the connection."""
        here = [
            {
                "fault": PREFIX + fault.kind,
                "target": fault.topics.removeprefix("*/telemetry/"),
                "left_s": fault.until_s - self._publisher.now_s,
            }
            for fault in self._publisher.active()
        ]
        faults = self._control.faults()
        return faults | {"active": [*faults.get("active", []), *here]}


def _size(envelopes: list[Envelope]) -> int:
    return sum(len(envelope.payload) for envelope in envelopes)
