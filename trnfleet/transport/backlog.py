"""Packets read from the socket and not handled yet.

When the reader is behind, only the newest telemetry of each topic. A flood is read some thirty
times as fast as it is handled. Unread messages wait in the system's buffers and in the broker's
queue, where they grow old and nothing newer can replace them; messages here can be replaced.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.transport.inbox import Delivery

BEHIND_FROM_S = 1.0
"""Age of the oldest waiting packet from which only each topic's newest telemetry is kept. As in the
inbox."""
CHUNK_BYTES = 256 * 1024
"""Read at once: two frames of the largest size, or some hundred small messages."""
DRAINED_BYTES = 1024 * 1024
"""Bytes read per turn of the loop when behind. 5 ms of work on small messages."""
MOST_BYTES = 32 * 1024 * 1024
"""Memory at which reading stops; the broker queues the rest. The newest of 40,000 topics of one
chip each."""
PACKET_BYTES = 384
"""Memory of a packet beside its bytes. It counts as well, so that a flood of the smallest packets
is bounded, too."""
LARGEST_BYTES = 256 * 1024
"""Larger packets are passed on as they arrive: their stated length may be wrong."""
_PUBLISH_QOS_0 = 0x30
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
        """Return the next packet or a part of one, reading until one is there.

        Empty at the connection's end.

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
            if head + size > LARGEST_BYTES or (not head and end - at >= _WHOLE_LENGTH):
                # Also bytes that are no packet: their handler ends the connection.
                self._through = after - end if head else 0
                self._append(data[at:], now_s, is_part=True)
            else:
                self._rest = data[at:]
            return

    def _is_behind(self, now_s: float) -> bool:
        oldest = next(iter(self._waiting.values()), None)
        return oldest is not None and now_s - oldest.came_s >= BEHIND_FROM_S

    def _replaceable(self, packet: bytes, head: int) -> bytes:
        """Return the topic of a replaceable message; empty for all other packets."""
        if packet[0] != _PUBLISH_QOS_0:
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
