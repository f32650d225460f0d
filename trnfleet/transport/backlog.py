"""Packets that were read from the socket and not handled yet: of a reader that is behind, the newest telemetry of each topic.

A flood is read some thirty times as fast as it is handled. What nobody reads waits in the buffers of the system and in the broker's queue,
where it grows old and nothing newer can take its place; what is here can be replaced.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.transport.inbox import Delivery

BEHIND_FROM_S = 1.0
"""Age of the oldest packet that waits from which only the newest telemetry of each topic is kept, as in the inbox."""
CHUNK_BYTES = 256 * 1024
"""Read at once: two frames of the largest size, or some hundred small messages."""
DRAINED_BYTES = 1024 * 1024
"""Read in one turn of the loop by a reader that is behind: 5 ms of work on small messages."""
MOST_BYTES = 32 * 1024 * 1024
"""Memory from which nothing more is read, so that the broker holds the rest: the newest of 40,000 topics of one chip each."""
PACKET_BYTES = 384
"""Memory that a packet takes beside its bytes; it counts as well, so that a flood of the smallest packets is as bounded."""
LARGEST_BYTES = 256 * 1024
"""Packets above this size are handed on as they come, because their length may be a lie."""
_PUBLISH_QOS_0 = 0x30
"""The first byte of a message with QoS 0 that is not retained."""
_WHOLE_LENGTH = 5
"""Bytes of the longest beginning of a packet: its kind and its length."""


class _Packet(NamedTuple):
    data: bytes
    came_s: float


class Backlog:
    """The packets of one connection that wait to be handled, in order; a newer message takes the place of what it replaces."""

    def __init__(
        self,
        newest_of: bytes,
        note_shed: Callable[[str], None],
        delivery: Delivery,
        content_type: Callable[[bytes], str | None] | None = None,
    ) -> None:
        """Begin empty.

        Args:
            newest_of: Beginning of the topics of which only the newest message counts.
            note_shed: Called with the topic of each message that is left out for a newer one.
            delivery: The destination of messages that are handed over from here.
            content_type: Returns the content type among the properties of a message, which have their length before them; it
                raises for what is not well-formed, and where there are others that are kept. None where messages have no properties, before MQTT 5.
        """
        self.size_bytes = 0
        """Memory of all that waits."""
        self._newest_of = newest_of
        self._note_shed = note_shed
        self._delivery = delivery
        self._content_type = content_type
        self._waiting: OrderedDict[bytes | int, _Packet] = OrderedDict()
        """By topic for what can be replaced, by a number for all else; a negative one for what is no whole packet.
        Of a plain dict, to take the first of many takes as long as all that was taken before."""
        self._number = 0
        self._is_sorted = True
        """Whether all that can be replaced is there by its topic."""
        self._rest = b""
        """Beginning of a packet that has not come as a whole."""
        self._through = 0
        """Bytes to come of a packet that is handed on as it comes."""

    def __bool__(self) -> bool:
        """Return whether anything waits that can be handled."""
        return bool(self._waiting)

    def drain(self, receive: Callable[[int], bytes], now_s: float) -> None:
        """Read what the socket has, within bounds.

        Args:
            receive: Reads at most a number of bytes; raises BlockingIOError where there are none.
            now_s: Monotonic seconds.
        """
        left = DRAINED_BYTES
        while left > 0 and self.size_bytes < MOST_BYTES:
            try:
                data = receive(CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                # The next read shows the end again.
                return
            self.feed(data, now_s)
            left -= len(data)

    def read(self, receive: Callable[[int], bytes], now_s: float) -> bytes:
        """Return the next packet or a part of one, reading until there is one; empty at the connection's end.

        Raises:
            BlockingIOError: none has come as a whole.
        """
        while not self._waiting:
            data = receive(CHUNK_BYTES)
            if not data:
                return b""
            self.feed(data, now_s)
        _, (data, _) = self._waiting.popitem(last=False)
        self.size_bytes -= PACKET_BYTES + len(data)
        return data

    def hand_over(self, most: int) -> int:
        """Hand over the messages that come next, with QoS 0 and on topics of which one has come; return their number.

        A client makes some twenty objects of each message, which takes longer than all that is done with it afterwards.
        """
        waiting, delivery, content_type = self._waiting, self._delivery, None
        count = min(most, len(waiting))
        for number in range(count):
            key = next(iter(waiting))
            data = waiting[key].data
            if data[0] != _PUBLISH_QOS_0 or (isinstance(key, int) and key < 0):
                return number
            head = _head(data, 0)[0]
            begin = head + 2
            end = begin + int.from_bytes(data[head:begin], "big")
            topic = delivery.known(data[begin:end])
            if topic is None or end > len(data):
                return number
            if self._content_type is not None:
                # The properties' length is in one byte if it is below 128.
                begin, end = end, end + 1 + data[end] if end < len(data) else len(data) + 1
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
        """Take in what was read."""
        if self._through:
            self._append(data[: self._through], now_s, is_part=True)
            data, self._through = data[self._through :], max(0, self._through - len(data))
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, end = 0, len(data)
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
            if head + size > LARGEST_BYTES or (not head and end - at >= _WHOLE_LENGTH):
                # Also what is no packet at all: who handles it ends the connection.
                self._through = after - end if head else 0
                self._append(data[at:], now_s, is_part=True)
            else:
                self._rest = data[at:]
            return

    def _is_behind(self, now_s: float) -> bool:
        oldest = next(iter(self._waiting.values()), None)
        return oldest is not None and now_s - oldest.came_s >= BEHIND_FROM_S

    def _replaceable(self, packet: bytes, head: int) -> bytes:
        """Return the topic of a message that a newer one replaces; empty for all else."""
        if packet[0] != _PUBLISH_QOS_0:
            return b""
        begin = head + 2
        topic = packet[begin : begin + int.from_bytes(packet[head:begin], "big")]
        return topic if topic.startswith(self._newest_of) else b""

    def _sort(self) -> None:
        """Let newer messages take the places of older ones among all that waits."""
        waiting, self._waiting, self.size_bytes = self._waiting, OrderedDict(), 0
        self._is_sorted = True
        for key, each in waiting.items():
            is_packet = isinstance(key, int) and key > 0
            topic = self._replaceable(each.data, _head(each.data, 0)[0]) if is_packet else b""
            if topic:
                self._put_newest(topic, each)
            else:
                self._waiting[key] = each
                self.size_bytes += PACKET_BYTES + len(each.data)

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
    """Return the bytes of a packet's kind and length, and how many bytes follow; 0 and 0 where that is not known."""
    size, end = 0, len(data)
    for place in range(1, _WHOLE_LENGTH):
        if at + place >= end:
            return 0, 0
        byte = data[at + place]
        size |= (byte & 0x7F) << 7 * (place - 1)
        if byte < 0x80:
            return place + 1, size
    return 0, 0
