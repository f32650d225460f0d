"""The inbox of a source: bounded in messages and bytes, with what is left out counted.

Owns the policy of what is left out first. It knows no client and no broker: the MQTT source and the memory bus share it.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.wire.ports import LinkStatus, MessageProperties

MAX_PAYLOAD_BYTES = DEFAULT_LIMITS.payload_bytes
"""The largest payload of the protocol."""
MAX_QUEUED_MESSAGES = 8_192
"""Four seconds of 1,000,000 chips in frames of 512, and a whole tick of 8,192 chips that publish one by one."""
MAX_QUEUED_BYTES = 48 * 1024 * 1024
"""Keeps a slow consumer under the 50 MB that it may cost: 0.36 s of 1,000,000 chips in frames of 67 KB.

That is seven rounds of a consumer that takes at 20 Hz. A loop that stalls as a whole reads nothing, and is bridged by
the broker's queue instead. Who must not lose in longer pauses, such as a recorder, asks for more.
"""
SHED_FROM_S = 1.5
"""Age of the oldest message that waits from which only the newest one of each topic counts: more than one tick of a usual source, so that
a consumer that keeps up never loses a message to this, nor one that joins 62,500 hosts, whose layout takes a second in which none is applied (measured)."""
BEHIND_FOR_S = 5.0
"""Time after a message was left out in which a reader is taken to be behind still: it does not wait for a whole `SHED_FROM_S`, nor leave
anything with the broker, whose queue drops what nobody counts as shed."""
CROWDED_FROM = 0.5
"""Part of a limit from which on only the newest counts for such a reader."""
TAKEN_AT_ONCE = 4_096
"""Messages that are taken at once while others wait to be replaced: 20 ms of work on frames of hosts, 0.2 s on messages of a chip, so that what is
applied is new. Measured with 62,500 hosts: with a quarter of it an overload of the start did not end, for fewer were applied than came."""
FULL_FROM = 0.875
"""Part of a limit from which on there is no room for a turn of the reader: 1,024 small messages, or 6 MiB."""
MOST_OWED = 65_536
"""Topics of which is known how many messages were left out for want of room."""
MAX_CACHED_TOPICS = 131_072
"""Topics of telemetry whose strings are kept: twice those of 62,500 hosts. All others come a few times and are looked at each time, so that
they push out none of these, which would be built again, each by the codec."""
MAX_CACHED_BYTES = 16 * 1024 * 1024
"""Characters of these topics, which may have 65,535 each: twice what 131,072 of the usual length have."""
_PAYLOAD = itemgetter(Envelope._fields.index("payload"))
_SHED = Envelope._fields.index("shed")
_CONTENT_TYPES = {name: name for name in (CONTENT_TYPE_JSON, CONTENT_TYPE_CBOR)}


class Reception(NamedTuple):
    """The destination of a connection's messages."""

    deliver: Callable[[Sequence[Envelope]], None] | None
    """Takes what was subscribed to, in order; None where nothing was."""
    filters: re.Pattern[str]
    """The topics that were subscribed to. Brokers send others, too: amqtt greets every client with the retained messages
    of all subscriptions of all clients."""
    status: LinkStatus
    """Counts what was not subscribed to or is too large, and goes nowhere."""
    newest_of: str = ""
    """Beginning of the topics of which only the newest message counts for a reader that is behind; empty for none."""
    owed: dict[str, int] | None = None
    """Messages that were left out since the last of their topic."""
    is_full: Callable[[], bool] | None = None
    """Returns whether what comes next pushes out something that counts; None where there is always room."""
    is_behind: Callable[[], bool] | None = None
    """Returns whether newer messages replace what waits, so that all that has come is worth reading; None where they never do."""

    def note_shed(self, topic: str) -> None:
        """Count a message that was left out before it was handled, for a newer one of its topic."""
        self.status.received += 1
        self.status.shed += 1
        if self.owed is not None and (topic in self.owed or len(self.owed) < MOST_OWED):
            self.owed[topic] = self.owed.get(topic, 0) + 1

    def note_oversize(self) -> None:
        """Count a message that was dropped for its size before it was read as a whole."""
        self.status.received += 1
        self.status.oversize += 1


class Delivery:
    """Hands the messages of one connection over, of the topics that were subscribed to."""

    def __init__(self, reception: Reception, clock: Clock) -> None:
        self._reception = reception
        self._clock = clock
        self._topics: dict[str, str] = {}
        """One string for each topic of messages with QoS 0, of which a client builds a new one for every message; an empty one, which
        no topic is, stands for a topic without a subscription."""
        self._cached_bytes = 0
        self._by_bytes: dict[bytes, str] = {}
        """Those that were subscribed to, by their encoded form."""

    def known(self, encoded: bytes) -> str | None:
        """Return a topic that was subscribed to and of which a message has come; None for any other."""
        return self._by_bytes.get(encoded)

    @property
    def by_bytes(self) -> dict[bytes, str]:
        """The topics that were subscribed to and of which a message has come, by their encoded form; it is emptied now and then."""
        return self._by_bytes

    def put(
        self,
        name: str,
        payload: bytes,
        qos: int,
        content_type: str | None,
        *,
        retain: bool,
        kept: MessageProperties | None = None,
    ) -> None:
        """Hand a message over; one that nobody subscribed to is counted."""
        envelope = self.envelope(name, payload, qos, content_type, retain=retain, kept=kept)
        if envelope is not None:
            self.put_all((envelope,))

    def put_all(self, batch: Sequence[Envelope]) -> None:
        """Hand messages over, in order, which `envelope` has returned, or which are like one."""
        if self._reception.deliver is not None:
            self._reception.deliver(batch)

    def envelope(
        self,
        name: str,
        payload: bytes,
        qos: int,
        content_type: str | None,
        *,
        retain: bool,
        kept: MessageProperties | None = None,
        received_s: float | None = None,
    ) -> Envelope | None:
        """Return a message as it is handed over; of one that nobody subscribed to None, and it is counted."""
        reception, topics = self._reception, self._topics
        topic = topics.get(name)
        if topic is None and (qos or retain):
            topic = name if reception.filters.fullmatch(name) else ""
        elif topic is None:
            self._cached_bytes += len(name)
            if len(topics) >= MAX_CACHED_TOPICS or self._cached_bytes > MAX_CACHED_BYTES:
                self._cached_bytes = len(name)
                topics.clear()
                self._by_bytes.clear()
            topic = topics[name] = name if reception.filters.fullmatch(name) else ""
            if topic:
                self._by_bytes[name.encode()] = topic
        if reception.deliver is None or not topic:
            reception.status.unsolicited += 1
            return None
        if content_type is not None:
            content_type = _CONTENT_TYPES.get(content_type, content_type)
        owed = reception.owed
        shed = owed.pop(topic, 0) if owed else 0
        if received_s is None:
            received_s = self._clock.monotonic_s()
        return Envelope(topic, payload, qos, retain, content_type, received_s, shed, 0, kept)


@dataclass(frozen=True, slots=True)
class InboxLimits:
    """Bounds of an inbox."""

    messages: int = MAX_QUEUED_MESSAGES
    size_bytes: int = MAX_QUEUED_BYTES
    """Payload bytes of all that waits."""
    payload_bytes: int = MAX_PAYLOAD_BYTES
    """The largest payload that is let in at all."""
    newest_of: str = ""
    """Beginning of the topics of which only the newest message counts once the reader is behind; empty for none."""

    def __post_init__(self) -> None:
        if min(self.messages, self.size_bytes, self.payload_bytes) < 1:
            raise ValueError(f"every limit of an inbox must be at least 1: {self}")


class Inbox:
    """Envelopes in the order in which they came.

    When a limit is reached the oldest telemetry (QoS 0, not retained) goes first, because a newer one replaces it;
    events and state (QoS 1 or retained) go only when there is nothing else left to drop. All counts are kept in the
    `LinkStatus` that was given: `received` counts everything that came, `oversize`, `dropped` and `shed` the parts of it
    that were not let in or not kept.

    With `newest_of`, a reader that is behind by `SHED_FROM_S` gets only the newest telemetry of each topic, each topic in its
    turn, and all events and state before it. What is left out for it is `shed`, and the message that comes after it says how
    much of its topic that was.
    """

    def __init__(self, limits: InboxLimits, status: LinkStatus) -> None:
        self._limits = limits
        self._status = status
        self._recent: deque[Envelope] = deque()
        # Transitions that were met while looking for telemetry to leave out; all of them are older than `_recent`.
        self._kept: deque[Envelope] = deque()
        # While the reader is behind: the newest telemetry by topic, in the order in which topics have their turn. Of a plain dict, to take
        # the first of many takes as long as all that was taken before.
        self._newest: OrderedDict[str, Envelope] = OrderedDict()
        self._owed: dict[str, int] = {}
        self._size_bytes = self._kept_bytes = 0
        self._came_s = self._behind_s = -math.inf
        """Monotonic seconds at which the last message came, and at which the reader was behind last."""
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._recent) + len(self._kept) + len(self._newest)

    @property
    def size_bytes(self) -> int:
        """Bytes of the payloads and properties of all that waits."""
        return self._size_bytes

    def keeps(self, messages: int) -> bool:
        """Return whether at least that many wait of which no newer one takes the place: of all where nothing does."""
        if not self._limits.newest_of:
            return len(self) >= messages
        # Of a reader that keeps up both kinds wait together, which are told apart only where they may be enough.
        kept, recent = len(self._kept), self._recent
        if kept + len(recent) < messages:
            return False
        return kept + len(recent) - sum(map(self._is_replaceable, recent)) >= messages

    @property
    def is_full(self) -> bool:
        """Whether what comes next may push out what no newer message replaces."""
        if not self.is_behind:
            return self._is_filled(FULL_FROM)
        limits = self._limits
        return (
            len(self._kept) >= FULL_FROM * limits.messages
            or self._kept_bytes >= FULL_FROM * limits.size_bytes
        )

    @property
    def is_behind(self) -> bool:
        """Whether the reader is behind, or was a moment ago: newer messages replace what waits."""
        return bool(self._newest) or self._came_s - self._behind_s < BEHIND_FOR_S

    def put_all(self, batch: Sequence[Envelope]) -> None:
        """Take in envelopes that came at the same time, in order."""
        limits, recent = self._limits, self._recent
        if self._newest and batch:
            batch = self._put_behind(batch)
        sizes = [*map(len, map(_PAYLOAD, batch))]
        properties = [envelope.properties for envelope in batch if envelope.properties is not None]
        size_bytes = self._size_bytes + sum(sizes) + sum(each.memory_bytes for each in properties)
        waiting = len(batch) + len(recent) + len(self._kept)
        has_room = waiting <= limits.messages and size_bytes <= limits.size_bytes
        if not batch or self._newest or not has_room or max(sizes) > limits.payload_bytes:
            for envelope in batch:
                self.put(envelope)
            return
        recent.extend(batch)
        self._size_bytes = size_bytes
        self._came_s = batch[-1].received_s
        if self._is_late():
            self._keep_newest()
            waiting = len(self)
        self._count(len(batch), waiting)

    def put(self, envelope: Envelope) -> None:
        """Take in one envelope; it never waits and never raises, because it runs inside the client's own callback."""
        if len(envelope.payload) > self._limits.payload_bytes:
            self._status.received += 1
            self._status.oversize += 1
            return
        self._recent.append(envelope)
        self._size_bytes += _size_bytes(envelope)
        self._came_s = envelope.received_s
        if self._is_late():
            self._keep_newest()
        self._count(1, self._drop_to_limits(len(self)))

    def _put_behind(self, batch: Sequence[Envelope]) -> Sequence[Envelope]:
        """Take in envelopes while the reader is behind, in no more time than those of one that keeps up; return what goes one by one."""
        newest, limits, first = self._newest, self._limits, self._limits.newest_of
        lasting = [
            each for each in batch if each.qos or each.retain or not each.topic.startswith(first)
        ]
        telemetry = [each for each in batch if self._is_replaceable(each)] if lasting else batch
        fresh = {envelope.topic: envelope for envelope in telemetry}
        sizes = [*map(len, map(_PAYLOAD, batch))]
        if len(fresh) < len(telemetry) or max(sizes) > limits.payload_bytes:
            return batch
        for envelope in lasting:
            self._keep(envelope)
        for topic in newest.keys() & fresh.keys():
            fresh[topic] = self._in_place_of(newest[topic], fresh[topic])
        newest.update(fresh)
        properties = [envelope.properties for envelope in batch if envelope.properties is not None]
        self._size_bytes += sum(sizes) + sum(each.memory_bytes for each in properties)
        self._came_s = self._behind_s = batch[-1].received_s
        self._count(len(batch), self._drop_to_limits(len(self)))
        return ()

    def _count(self, came: int, waiting: int) -> None:
        """Write into the status what came and what waits, and wake the reader."""
        status = self._status
        status.received += came
        status.waiting, status.waiting_bytes = waiting, self._size_bytes
        status.queue_peak = max(status.queue_peak, waiting)
        self._filled.set()

    def _drop_to_limits(self, waiting: int) -> int:
        """Drop what is more than the limits; return how many messages wait then."""
        limits, newest = self._limits, self._newest
        while waiting > limits.messages or self._size_bytes > limits.size_bytes:
            if newest:
                topic, oldest = newest.popitem(last=False)
                self._size_bytes -= _size_bytes(oldest)
                if self._owe(topic, oldest.shed + 1):
                    self._status.shed += 1
                else:
                    self._status.dropped += 1
            else:
                self._drop_one()
            waiting -= 1
        return waiting

    async def take(self) -> list[Envelope]:
        """Return all that waits, in order, waiting until there is something; of a reader that is behind, a part of it."""
        while not len(self):
            self._filled.clear()
            await self._filled.wait()
        batch = [*self._kept, *self._recent] if self._kept else list(self._recent)
        self._kept.clear()
        self._recent.clear()
        self._kept_bytes = 0
        status = self._status
        if not self._newest:
            self._size_bytes = status.waiting = status.waiting_bytes = 0
            return self._with_owed(batch)
        turn = min(TAKEN_AT_ONCE, len(self._newest))
        batch += [self._newest.popitem(last=False)[1] for _ in range(turn)]
        self._size_bytes -= sum(map(_size_bytes, batch))
        status.waiting, status.waiting_bytes = len(self), self._size_bytes
        return self._with_owed(batch)

    def _is_late(self) -> bool:
        """Return whether only the newest telemetry of each topic counts, now that a message has come."""
        if not self._limits.newest_of:
            return False
        if self._newest or self._came_s - self._recent[0].received_s >= SHED_FROM_S:
            return True
        return self.is_behind and self._is_filled(CROWDED_FROM)

    def _is_filled(self, share: float) -> bool:
        """Return whether what waits takes a share of either limit."""
        limits = self._limits
        return len(self) >= share * limits.messages or self._size_bytes >= share * limits.size_bytes

    def _keep_newest(self) -> None:
        """Sort what has come last into the newest telemetry of each topic, and the rest."""
        self._behind_s = self._came_s
        for envelope in self._recent:
            self._sort_in(envelope)
        self._recent.clear()

    def _sort_in(self, envelope: Envelope) -> None:
        """Let a message replace what waits of its topic, or keep it where none replaces it."""
        if not self._is_replaceable(envelope):
            self._keep(envelope)
            return
        former = self._newest.get(envelope.topic)
        self._newest[envelope.topic] = (
            envelope if former is None else self._in_place_of(former, envelope)
        )

    def _in_place_of(self, former: Envelope, envelope: Envelope) -> Envelope:
        """Return a message that takes the place of a former one of its topic: a topic keeps its turn, so that all have one."""
        self._status.shed += 1
        self._size_bytes -= _size_bytes(former)
        if self._owe(envelope.topic, former.shed + 1):
            return envelope
        return envelope._replace(shed=envelope.shed + former.shed + 1)

    def _keep(self, envelope: Envelope) -> None:
        self._kept.append(envelope)
        self._kept_bytes += _size_bytes(envelope)

    def _is_replaceable(self, envelope: Envelope) -> bool:
        return (
            envelope.qos == 0
            and not envelope.retain
            and envelope.topic.startswith(self._limits.newest_of)
        )

    def _owe(self, topic: str, messages: int) -> bool:
        """Note how many messages of a topic the next one that is taken stands for; return whether there is room for it."""
        owed = self._owed
        if topic not in owed and len(owed) >= MOST_OWED:
            return False
        owed[topic] = owed.get(topic, 0) + messages
        return True

    def _with_owed(self, batch: list[Envelope]) -> list[Envelope]:
        """Return a batch in which the first message of a topic stands for those that had no room before it."""
        if not self._owed:
            return batch
        return [
            Envelope._make(
                (
                    *envelope[:_SHED],
                    envelope.shed + self._owed.pop(envelope.topic),
                    *envelope[_SHED + 1 :],
                )
            )
            if envelope.topic in self._owed and self._is_replaceable(envelope)
            else envelope
            for envelope in batch
        ]

    def _drop_one(self) -> None:
        while self._recent:
            oldest = self._recent.popleft()
            if oldest.qos == 0 and not oldest.retain:
                break
            self._keep(oldest)
        else:
            oldest = self._kept.popleft()
            self._kept_bytes -= _size_bytes(oldest)
        self._size_bytes -= _size_bytes(oldest)
        replaceable = self._limits.newest_of and self._is_replaceable(oldest)
        if replaceable and self._owe(oldest.topic, oldest.shed + 1):
            self._status.shed += 1
        else:
            self._status.dropped += 1


def _size_bytes(envelope: Envelope) -> int:
    """Return what a message counts of the limit in bytes; few have properties, which may take more memory than many payloads."""
    properties = envelope.properties
    return len(envelope.payload) + (0 if properties is None else properties.memory_bytes)
