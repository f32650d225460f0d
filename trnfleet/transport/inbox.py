"""Waiting messages of a source: bounded in messages and bytes; left-out messages are counted.

Decides which messages to leave out first. An `Inbox` has the messages that a client has handled; it
knows no client and no broker. A `Backlog` has packets read from the socket and not handled yet:
unread messages would wait in the system's buffers and in the broker's queue, where they grow old
and nothing newer can replace them. A flood is read some thirty times as fast as it is handled.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from operator import itemgetter
from sys import getsizeof
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.ports import (
    CONTENT_TYPE_CBOR,
    CONTENT_TYPE_JSON,
    Envelope,
    LinkStatus,
    MessageProperties,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from trnfleet.clock import Clock


MAX_PAYLOAD_BYTES = DEFAULT_LIMITS.payload_bytes
"""The largest payload of the protocol."""
MAX_QUEUED_MESSAGES = 8_192
"""Four seconds of 1,000,000 chips in frames of 512. Also a whole tick of 8,192 chips that publish
one by one."""
MAX_QUEUED_BYTES = 48 * 1024 * 1024
"""Limits a slow consumer to less than its 50 MB. 0.36 s of 1,000,000 chips in frames of 67 KB.

That is seven rounds of a consumer that reads at 20 Hz. A loop that stalls as a whole reads nothing,
and the broker's queue bridges that instead. Consumers that must not lose in longer pauses, such as
a recorder, ask for more.
"""
SHED_FROM_S = 1.5
"""Age of the oldest waiting message from which only the newest of each topic counts. More than one
tick of a usual source, so that a consumer that keeps up never loses a message to this, nor one that
joins 62,500 hosts: for a second, while it makes their layout, it applies none (measured)."""
BEHIND_FOR_S = 5.0
"""Seconds after a shed message during which a reader still counts as behind. It does not wait for a
whole `SHED_FROM_S`, nor leave messages with the broker, whose queue drops them without counting."""
TAKEN_AT_ONCE = 4_096
"""Messages read at once while others wait to be replaced. 20 ms of work on frames of hosts, 0.2 s
on messages of a chip, so that applied values are new. Measured with 62,500 hosts: with a quarter of
it an overload of the start did not end, because fewer were applied than arrived."""
FULL_FROM = 0.875
"""Share of a limit without room for another turn of the reader. A consumer that is behind gets only
the newest from it on."""
MOST_OWED = 65_536
"""Most topics with a count of messages dropped for lack of room."""
MAX_CACHED_BYTES = 16 * 1024 * 1024
"""Memory of the texts of cached telemetry topics: twice those of 62,500 hosts. Other topics come a
few times and are not cached, so that they evict none of these: each would be built again by the
codec."""
CACHED_FOR_S = 600.0
"""Age at which a new topic empties the caches, so that names that are gone take no memory."""
_PAYLOAD = itemgetter(Envelope._fields.index("payload"))
_SHED = Envelope._fields.index("shed")
CONTENT_TYPES = {name: name for name in (CONTENT_TYPE_JSON, CONTENT_TYPE_CBOR)}


class Reception(NamedTuple):
    """The destination of a connection's messages."""

    deliver: Callable[[Sequence[Envelope]], None] | None
    """Receives subscribed messages, in order; None without a subscription."""
    filters: re.Pattern[str]
    """The topics that were subscribed to. Brokers send others, too: amqtt greets every client with
    the retained messages of all subscriptions of all clients."""
    status: LinkStatus
    """Counts messages not subscribed to or too large; they are dropped."""
    newest_of: str = ""
    """Prefix of topics reduced to their newest message when behind; empty for none."""
    owed: dict[str, int] | None = None
    """Messages left out per topic since its last one."""
    is_full: Callable[[], bool] | None = None
    """Returns whether the next message pushes out one that counts. None if there is always room."""

    def note_shed(self, topic: str) -> None:
        """Count a message dropped before handling, for a newer one of its topic."""
        self.status.received += 1
        self.status.shed += 1
        if self.owed is not None and (topic in self.owed or len(self.owed) < MOST_OWED):
            self.owed[topic] = self.owed.get(topic, 0) + 1

    def note_oversize(self) -> None:
        """Count a message dropped for its size before it was read completely."""
        self.status.received += 1
        self.status.oversize += 1


class Delivery:
    """Hands over the subscribed messages of one connection."""

    def __init__(self, reception: Reception, clock: Clock) -> None:
        self._reception = reception
        self._clock = clock
        self._topics: dict[str, str] = {}
        """One string per topic of messages with QoS 0. A client builds a new one for every message.
        An empty one, never a valid topic, marks a topic without a subscription."""
        self._cached_bytes = 0
        self._emptied_s = clock.monotonic_s()
        self.by_bytes: dict[bytes, str] = {}
        """Subscribed topics with earlier messages, by encoded form; emptied now and then."""

    def put(
        self,
        name: str,
        payload: bytes,
        qos: int,
        content_type: str | None,
        *,
        retain: bool,
        properties: MessageProperties | None = None,
    ) -> None:
        """Hand a message over; one without a subscription is counted."""
        envelope = self.envelope(
            name, payload, qos, content_type, retain=retain, properties=properties
        )
        if envelope is not None:
            self.put_all((envelope,))

    def put_all(self, batch: Sequence[Envelope]) -> None:
        """Hand over messages from `envelope`, or like them, in order."""
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
        properties: MessageProperties | None = None,
        received_s: float | None = None,
    ) -> Envelope | None:
        """Return a message in the form handed over; None without a subscription, counted."""
        reception = self._reception
        topics = self._topics
        topic = topics.get(name)
        if topic is None and (qos or retain):
            topic = name if reception.filters.fullmatch(name) else ""
        elif topic is None:
            self._cached_bytes += getsizeof(name)
            now_s = self._clock.monotonic_s()
            if self._cached_bytes > MAX_CACHED_BYTES or now_s - self._emptied_s >= CACHED_FOR_S:
                self._emptied_s = now_s
                self._cached_bytes = getsizeof(name)
                topics.clear()
                self.by_bytes.clear()
            topic = topics[name] = name if reception.filters.fullmatch(name) else ""
            if topic:
                self.by_bytes[name.encode()] = topic
        if reception.deliver is None or not topic:
            reception.status.unsolicited += 1
            return None
        if content_type is not None:
            content_type = CONTENT_TYPES.get(content_type, content_type)
        pending = reception.owed
        shed = pending.pop(topic, 0) if pending else 0
        if received_s is None:
            received_s = self._clock.monotonic_s()
        return Envelope(topic, payload, qos, retain, content_type, received_s, shed, 0, properties)


@dataclass(frozen=True, slots=True)
class InboxLimits:
    """Bounds of an inbox."""

    messages: int = MAX_QUEUED_MESSAGES
    size_bytes: int = MAX_QUEUED_BYTES
    """Payload bytes of all that waits."""
    payload_bytes: int = MAX_PAYLOAD_BYTES
    """Largest accepted payload."""
    newest_of: str = ""
    """Prefix of topics reduced to their newest message when behind; empty for none."""

    def __post_init__(self) -> None:
        if min(self.messages, self.size_bytes, self.payload_bytes) < 1:
            raise ValueError(f"every limit of an inbox must be at least 1: {self}")


class Inbox:
    """Envelopes in order of arrival.

    At a limit the oldest telemetry (QoS 0, not retained) is dropped first, because a newer one
    replaces it; events and state (QoS 1 or retained) are dropped only when nothing else is left.
    All counts are in the given `LinkStatus`: `received` counts all arrivals; `oversize`, `dropped`
    and `shed` the parts refused or dropped.

    With `newest_of`, a reader that is behind by `SHED_FROM_S` gets only the newest telemetry of
    each topic, each topic in its turn, and all events and state before it. Messages left out are
    `shed`, and the next message of the topic has their number.
    """

    def __init__(self, limits: InboxLimits, status: LinkStatus) -> None:
        self._limits = limits
        self._status = status
        self._recent: deque[Envelope] = deque()
        # Transitions that were met while looking for telemetry to leave out; all of them are older
        # than `_recent`.
        self._kept: deque[Envelope] = deque()
        # While the reader is behind: the newest telemetry by topic, in the order in which topics
        # have their turn. Of a plain dict, to take the first of many takes as long as all that was
        # taken before.
        self._newest: OrderedDict[str, Envelope] = OrderedDict()
        self._owed: dict[str, int] = {}
        self._size_bytes = self._kept_bytes = 0
        self._came_s = self._behind_s = -math.inf
        """Monotonic seconds of the last message, and of the reader's last delay."""
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._recent) + len(self._kept) + len(self._newest)

    @property
    def size_bytes(self) -> int:
        """Bytes of payloads and properties of all waiting messages."""
        return self._size_bytes

    def keeps(self, messages: int) -> bool:
        """Return whether at least that many waiting messages cannot be replaced.

        All of them if nothing is ever replaced.
        """
        if not self._limits.newest_of:
            return len(self) >= messages
        # For a reader that keeps up both kinds wait together; they are counted separately only if
        # they may be enough.
        irreplaceable = len(self._kept)
        recent = self._recent
        if irreplaceable + len(recent) < messages:
            return False
        return irreplaceable + len(recent) - sum(map(self._is_replaceable, recent)) >= messages

    @property
    def is_full(self) -> bool:
        """Whether the next messages may push out irreplaceable ones."""
        if not self.is_behind:
            return self._is_filled(FULL_FROM)
        limits = self._limits
        return (
            len(self._kept) >= FULL_FROM * limits.messages
            or self._kept_bytes >= FULL_FROM * limits.size_bytes
        )

    @property
    def is_behind(self) -> bool:
        """Whether the reader is behind, or was recently: newer messages replace waiting ones."""
        return bool(self._newest) or self._came_s - self._behind_s < BEHIND_FOR_S

    def put_all(self, batch: Sequence[Envelope]) -> None:
        """Add envelopes of the same arrival time, in order."""
        limits = self._limits
        recent = self._recent
        if self._newest and batch:
            batch = self._put_behind(batch)
        sizes = [*map(len, map(_PAYLOAD, batch))]
        properties = [envelope.properties for envelope in batch if envelope.properties is not None]
        size_bytes = (
            self._size_bytes
            + sum(sizes)
            + sum(message_properties.memory_bytes for message_properties in properties)
        )
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
        """Add one envelope.

        It never waits and never raises, because it runs inside the client's own callback.
        """
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
        """Add envelopes while behind, as fast as otherwise; return those to add one by one."""
        newest = self._newest
        limits = self._limits
        first = self._limits.newest_of
        lasting = [
            envelope
            for envelope in batch
            if envelope.qos or envelope.retain or not envelope.topic.startswith(first)
        ]
        telemetry = (
            [envelope for envelope in batch if self._is_replaceable(envelope)] if lasting else batch
        )
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
        self._size_bytes += sum(sizes) + sum(
            message_properties.memory_bytes for message_properties in properties
        )
        self._came_s = self._behind_s = batch[-1].received_s
        self._count(len(batch), self._drop_to_limits(len(self)))
        return ()

    def _count(self, came: int, waiting: int) -> None:
        """Update the status with arrived and waiting messages, and wake the reader."""
        status = self._status
        status.received += came
        status.waiting, status.waiting_bytes = waiting, self._size_bytes
        status.queue_peak = max(status.queue_peak, waiting)
        self._filled.set()

    def _drop_to_limits(self, waiting: int) -> int:
        """Drop messages beyond the limits; return the number still waiting."""
        limits = self._limits
        newest = self._newest
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
        """Return all waiting messages in order, waiting for the first; a part when behind."""
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
        """Return whether from this message on only each topic's newest telemetry counts."""
        if not self._limits.newest_of:
            return False
        if self._newest or self._came_s - self._recent[0].received_s >= SHED_FROM_S:
            return True
        return self.is_behind and self._is_filled(FULL_FROM)

    def _is_filled(self, share: float) -> bool:
        """Return whether waiting messages use a share of either limit."""
        limits = self._limits
        return len(self) >= share * limits.messages or self._size_bytes >= share * limits.size_bytes

    def _keep_newest(self) -> None:
        """Sort the latest messages into each topic's newest telemetry, and the rest."""
        self._behind_s = self._came_s
        for envelope in self._recent:
            self._sort_in(envelope)
        self._recent.clear()

    def _sort_in(self, envelope: Envelope) -> None:
        """Replace the waiting message of the topic, or append if it is not replaceable."""
        if not self._is_replaceable(envelope):
            self._keep(envelope)
            return
        former = self._newest.get(envelope.topic)
        self._newest[envelope.topic] = (
            envelope if former is None else self._in_place_of(former, envelope)
        )

    def _in_place_of(self, former: Envelope, envelope: Envelope) -> Envelope:
        """Return the replacement of a former message of its topic.

        A topic keeps its turn, so each topic has one.
        """
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
        """Record the messages that a topic's next one stands for; return whether there is room."""
        pending = self._owed
        if topic not in pending and len(pending) >= MOST_OWED:
            return False
        pending[topic] = pending.get(topic, 0) + messages
        return True

    def _with_owed(self, batch: list[Envelope]) -> list[Envelope]:
        """Return a batch whose first message of a topic stands for dropped ones before it."""
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
    """Return the bytes of a message for the limit.

    Few have properties, which may use more memory than many payloads.
    """
    properties = envelope.properties
    return len(envelope.payload) + (0 if properties is None else properties.memory_bytes)


READ_BYTES = 128 * 1024
"""Bytes read from a socket at once: a frame of the largest size, or some thousand small messages.
Packets above it are passed on as they arrive: their stated length may be wrong."""
TURN_BYTES = 1024 * 1024
"""Most bytes read per turn of the event loop. More would delay keys."""
MOST_BYTES = 32 * 1024 * 1024
"""Memory at which reading stops; the broker queues the rest. The newest of 40,000 topics of one
chip each."""
PACKET_BYTES = 384
"""Memory of a packet beside its bytes. It counts as well, so that a flood of the smallest packets
is bounded, too."""
PUBLISH_QOS_0 = 0x30
"""First byte of an unretained message with QoS 0."""
_WHOLE_LENGTH = 5
"""Bytes of the longest beginning of a packet: its kind and its length."""


class _Packet(NamedTuple):
    data: bytes
    came_s: float


class Backlog:
    """Waiting packets of one connection, in order.

    A newer message takes the place of the one it replaces.
    """

    def __init__(
        self,
        newest_of: bytes,
        note_shed: Callable[[str], None],
        delivery: Delivery,
        content_type: Callable[[bytes], str | None] | None = None,
    ) -> None:
        """Begin empty.

        Args:
            newest_of: Prefix of topics reduced to their newest message.
            note_shed: Called with the topic of each message shed for a newer one.
            delivery: The destination of messages handed over from here.
            content_type: Returns the content type from properties with leading length. Raises if
                they
                are malformed or have others worth keeping. None before MQTT 5, where messages have
                    no
                properties.
        """
        self.size_bytes = 0
        """Memory of all that waits."""
        self._newest_of = newest_of
        self._note_shed = note_shed
        self._delivery = delivery
        self._content_type = content_type
        self._waiting: OrderedDict[bytes | int, _Packet] = OrderedDict()
        """Replaceable packets by topic, all others by a number; negative for an incomplete packet.
        An OrderedDict, because removing the first entries of a plain dict costs as much as all
        removed before."""
        self._number = 0
        self._is_sorted = True
        """Whether all replaceable packets are stored by topic."""
        self._rest = b""
        """Beginning of an incomplete packet."""
        self._through = 0
        """Remaining bytes of a packet passed on as it arrives."""

    def __bool__(self) -> bool:
        """Return whether a waiting packet can be handled."""
        return bool(self._waiting)

    def drain(self, receive: Callable[[int], bytes], now_s: float) -> None:
        """Read from the socket, within bounds.

        Args:
            receive: Reads at most a number of bytes; raises BlockingIOError without any.
            now_s: Monotonic seconds.
        """
        left = TURN_BYTES
        while left > 0 and self.size_bytes < MOST_BYTES:
            try:
                data = receive(READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                # The next read shows the end again.
                return
            self.feed(data, now_s)
            left -= len(data)

    def read(self, receive: Callable[[int], bytes], now_s: float) -> bytes:
        """Return the next packet or a part of one, reading until one is there.

        Empty at the connection's end.

        Raises:
            BlockingIOError: none has come as a whole.
        """
        while not self._waiting:
            data = receive(READ_BYTES)
            if not data:
                return b""
            self.feed(data, now_s)
        _, (data, _) = self._waiting.popitem(last=False)
        self.size_bytes -= PACKET_BYTES + len(data)
        return data

    def hand_over(self, most: int) -> int:
        """Hand over the next messages with QoS 0 on known topics; return their number.

        A topic is known once one of its messages arrived. A client makes some twenty objects of
        each message, and that takes longer than all later work on it.
        """
        waiting = self._waiting
        delivery = self._delivery
        content_type = None
        count = min(most, len(waiting))
        for number in range(count):
            key = next(iter(waiting))
            data = waiting[key].data
            if data[0] != PUBLISH_QOS_0 or (isinstance(key, int) and key < 0):
                return number
            head = _head(data, 0)[0]
            begin = head + 2
            end = begin + int.from_bytes(data[head:begin], "big")
            topic = delivery.by_bytes.get(data[begin:end])
            if topic is None or end > len(data):
                return number
            if self._content_type is not None:
                # The properties' length is in one byte if it is below 128.
                begin = end
                end = end + 1 + data[end] if end < len(data) else len(data) + 1
                if end > min(len(data), begin + 128):
                    return number
                try:
                    content_type = self._content_type(data[begin:end])
                except Exception:  # noqa: BLE001  the client ends the connection for it
                    return number
            waiting.popitem(last=False)
            self.size_bytes -= PACKET_BYTES + len(data)
            delivery.put(topic, data[end:], 0, content_type, retain=False)
        return count

    def feed(self, data: bytes, now_s: float) -> None:
        """Add bytes read from the socket."""
        if self._through:
            self._append(data[: self._through], now_s, is_part=True)
            data, self._through = data[self._through :], max(0, self._through - len(data))
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at = 0
        end = len(data)
        is_behind = self._is_behind(now_s)
        if is_behind and not self._is_sorted:
            self._sort()
        self._is_sorted = is_behind
        while at < end:
            head, size = _head(data, at)
            after = at + head + size
            if head and after <= end:
                packet = data[at:after]
                topic = self._replaceable(packet, head) if is_behind else b""
                if topic:
                    self._put_newest(topic, _Packet(packet, now_s))
                else:
                    self._append(packet, now_s)
                at = after
                continue
            if head + size > READ_BYTES or (not head and end - at >= _WHOLE_LENGTH):
                # Also bytes that are no packet: their handler ends the connection.
                self._through = after - end if head else 0
                self._append(data[at:], now_s, is_part=True)
            else:
                self._rest = data[at:]
            return

    def _is_behind(self, now_s: float) -> bool:
        oldest = next(iter(self._waiting.values()), None)
        return oldest is not None and now_s - oldest.came_s >= SHED_FROM_S

    def _replaceable(self, packet: bytes, head: int) -> bytes:
        """Return the topic of a replaceable message; empty for all other packets."""
        if packet[0] != PUBLISH_QOS_0:
            return b""
        begin = head + 2
        topic = packet[begin : begin + int.from_bytes(packet[head:begin], "big")]
        return topic if topic.startswith(self._newest_of) else b""

    def _sort(self) -> None:
        """Replace older waiting messages by newer ones of their topics."""
        waiting = self._waiting
        self._waiting = OrderedDict()
        self.size_bytes = 0
        self._is_sorted = True
        for key, packet in waiting.items():
            is_packet = isinstance(key, int) and key > 0
            topic = self._replaceable(packet.data, _head(packet.data, 0)[0]) if is_packet else b""
            if topic:
                self._put_newest(topic, packet)
            else:
                self._waiting[key] = packet
                self.size_bytes += PACKET_BYTES + len(packet.data)

    def _put_newest(self, topic: bytes, new: _Packet) -> None:
        former = self._waiting.get(topic)
        if former is not None:
            # A topic keeps its turn, so that all have one.
            self.size_bytes -= PACKET_BYTES + len(former.data)
            self._note_shed(topic.decode("utf-8", "replace"))
        self._waiting[topic] = new if former is None else new._replace(came_s=former.came_s)
        self.size_bytes += PACKET_BYTES + len(new.data)

    def _append(self, data: bytes, now_s: float, *, is_part: bool = False) -> None:
        if data:
            self._number += 1
            self._waiting[-self._number if is_part else self._number] = _Packet(data, now_s)
            self.size_bytes += PACKET_BYTES + len(data)


def _head(data: bytes, at: int) -> tuple[int, int]:
    """Return the size of a packet's kind and length, and the bytes that follow.

    0 and 0 if not known yet.
    """
    size = 0
    end = len(data)
    for place in range(1, _WHOLE_LENGTH):
        if at + place >= end:
            return 0, 0
        byte = data[at + place]
        size |= (byte & 0x7F) << 7 * (place - 1)
        if byte < 0x80:
            return place + 1, size
    return 0, 0
