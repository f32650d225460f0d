"""Connection that only reads, in MQTT 5 over TCP and TLS: the `mqtt5` codec on a socket.

A message costs a quarter or less of its cost in `writing` (measured), because it becomes only an
envelope.

The socket is read in the event loop itself, not through asyncio's transports: those do not accept a
socket with TLS, and only `dialing` knows why TLS failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any

import mqtt5
from paho.mqtt.packettypes import PacketTypes

from trnfleet import logs
from trnfleet.transport.connection import ANSWER_S, Connection
from trnfleet.transport.diagnosis import (
    FIRST_BYTES,
    FIRST_FAILURE,
    LOST,
    EndedEarlyError,
    LinkDown,
    look_at,
    reason_words,
    tls_words,
    why_ended,
)
from trnfleet.transport.dialing import not_now_errors
from trnfleet.transport.inbox import READ_BYTES, TURN_BYTES, Delivery, Reception
from trnfleet.transport.packets import (
    ForbiddenPacketError,
    MalformedPacketError,
    OlderVersionError,
    PacketReader,
    connect_packet,
)
from trnfleet.wire.ports import LARGEST_TWO_BYTES

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.transport.security import Login

log = logs.get_logger(__name__)

TURN_MESSAGES = 512
"""Messages per turn of the event loop. A millisecond of work on frames of hosts; more would delay
keys."""
PAUSE_S = 1.0
"""Longest pause of reading for a full inbox. Messages wait in the system's and the broker's buffers
meanwhile. A longer pause would make the broker drop uncounted messages; after it the inbox drops
and counts."""
LOOK_FOR_ROOM_S = 0.02
ASK_AGAIN_S = 2.0
"""Seconds until an unanswered request is repeated. Mosquitto drops answers, too, while its queue is
full."""
MOST_UNSENT_BYTES = 1024 * 1024
"""Most unsent acknowledgements in bytes; above it the broker is given up. A broker may ignore our
receive maximum."""
SILENT = "no answer within twice the keepalive"


class ReadingConnection(Connection):
    """One connection that only reads, in MQTT 5; see `Connection` for its life."""

    def __init__(self, login: Login, clock: Clock, reception: Reception) -> None:
        """Describe a connection; nothing is connected yet.

        Raises:
            LinkDown: the token cannot be read.
        """
        super().__init__(login, "5")
        self._clock = clock
        self._is_full = reception.is_full
        self._packets = PacketReader(reception, Delivery(reception, clock), self._handle)
        self._not_now = not_now_errors(login.url)
        self._is_registered = False
        self._heard = b""
        """The first bytes that came."""
        self._has_heard = False
        """Whether anything has come since the last ping, or could not because reading was paused.
        """
        self._outgoing = bytearray()
        self._is_writing = False
        self._is_reading_on = False
        self._paused_since_s: float | None = None
        self._may_pause = True
        self._number = 0
        self._answers: dict[int, asyncio.Future[list[int]]] = {}
        self._timers: list[asyncio.Task[None]] = []

    def cut(self, why: str = "") -> None:
        """End without DISCONNECT, with our own reason if set."""
        self._end(why or LOST)
        self._drop()

    async def close(self) -> None:
        """Send DISCONNECT if the socket accepts it, and close; at once if it has ended."""
        if not self.ended.done():
            self._outgoing += mqtt5.DisconnectPacket().write()
            self._flush()
            self.ended.cancel()
            # Requests that wait for an answer get none any more.
            self._end("")
        self._drop()
        await asyncio.gather(*self._timers, return_exceptions=True)

    async def _greet(self) -> int:
        self._loop = asyncio.get_running_loop()
        self.ended = self._loop.create_future()
        self._connack: asyncio.Future[Any] = self._loop.create_future()
        self._loop.add_reader(self._socket.fileno(), self._read)
        self._is_registered = True
        self._outgoing += connect_packet(self._login, self._password)
        self._flush()
        connack = await self._connack
        code = int(connack.reason_code)
        if code >= FIRST_FAILURE:
            raise self._refusal(code)
        # A broker that wants a longer one, or none, is asked as often: else a half-open connection
        # would be found late or never.
        wanted_s = [
            interval_s
            for interval_s in (self._login.keepalive_s, connack.server_keep_alive)
            if interval_s
        ]
        if wanted_s:
            ping = self._ping(float(min(wanted_s)))
            self._timers.append(
                asyncio.create_task(ping, name=f"mqtt-ping-{self._login.client_id}")
            )
        return int(connack.max_qos)

    async def _subscribe(self, chunk: list[tuple[str, int]]) -> list[int]:
        filters = [
            # As in 3.1.1: messages published after the subscription are not marked as retained.
            mqtt5.TopicFilter(topic, max_qos=mqtt5.QoS(qos), retain_as_published=False)
            for topic, qos in chunk
        ]
        return await self._answer_to(mqtt5.SubscribePacket, filters)

    async def _unsubscribe(self, chunk: list[str]) -> None:
        await self._answer_to(mqtt5.UnsubscribePacket, chunk)

    def _first_bytes(self) -> bytes:
        return self._heard

    async def _answer_to(self, packet: Any, filters: list[Any]) -> list[int]:
        """Send a request and return the reason codes of its answer.

        A repeated request has another packet identifier, because the first is in use.

        Raises:
            LinkDown: the connection ended meanwhile, or the broker did not answer.
        """
        if self.ended.done():
            raise LinkDown(why_ended(self.ended))
        answer: asyncio.Future[list[int]] = self._loop.create_future()
        answer.add_done_callback(look_at)
        numbers = []
        try:
            for _ in range(round(ANSWER_S / ASK_AGAIN_S)):
                number = self._number = self._number % LARGEST_TWO_BYTES + 1
                numbers.append(number)
                self._answers[number] = answer
                self._outgoing += packet(number, filters).write()
                self._flush()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ASK_AGAIN_S):
                        return await asyncio.shield(answer)
            raise LinkDown("the broker did not answer the subscription")
        finally:
            for number in numbers:
                self._answers.pop(number, None)

    def _read(self) -> None:
        """Handle received packets, then yield to the loop."""
        left = TURN_BYTES
        most = self._packets.count + TURN_MESSAGES
        is_tls = self._login.url.is_tls
        try:
            while left > 0 and self._packets.count < most and not self.ended.done():
                try:
                    data = self._socket.recv(READ_BYTES)
                except self._not_now as error:
                    if is_tls and isinstance(error, ssl.SSLWantWriteError):
                        self._begin_writing()
                    break
                if not data:
                    self._end("")
                    return
                self._has_heard = True
                if not self._heard:
                    self._heard = data[:FIRST_BYTES]
                self._packets.feed(data, self._clock.monotonic_s())
                left -= len(data)
                if not is_tls and len(data) < READ_BYTES:
                    break
        except OSError as error:
            self._end(tls_words(error, self._login.tls) or "")
        except OlderVersionError:
            self._refuse(
                LinkDown("the broker answers in MQTT 3.1.1", answered=True, wrong_version=True)
            )
        except (ForbiddenPacketError, MalformedPacketError) as error:
            # What is no packet at all before the first one is another protocol's.
            self._end(str(error) if self._connack.done() else "")
        except Exception:
            # Whatever the error, later bytes cannot be parsed.
            log.exception("reading_failed", broker=str(self._login.url))
            self._end("reading failed")
        self._acknowledge()
        if self._may_pause and self._is_full is not None and self._is_full():
            self._pause()
        elif (
            is_tls and not self.ended.done() and not self._is_reading_on and self._socket.pending()
        ):
            # The system wakes nobody for bytes already decrypted by TLS.
            self._is_reading_on = True
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_reading_on = False
        if self._is_registered and self._paused_since_s is None and not self.ended.done():
            self._read()

    def _handle(self, packet: Any) -> None:
        """Handle a packet other than a message."""
        if isinstance(packet, mqtt5.ConnAckPacket):
            if not self._connack.done():
                self._connack.set_result(packet)
        elif isinstance(packet, mqtt5.SubAckPacket | mqtt5.UnsubAckPacket):
            answer = self._answers.get(packet.packet_id)
            if answer is not None and not answer.done():
                answer.set_result([int(code) for code in packet.reason_codes])
        elif isinstance(packet, mqtt5.DisconnectPacket):
            self._end(reason_words(PacketTypes.DISCONNECT, int(packet.reason_code)))

    def _acknowledge(self) -> None:
        acknowledgements = self._packets.acknowledgements
        self._outgoing += acknowledgements
        acknowledgements.clear()
        if self._outgoing and not self._is_writing and not self.ended.done():
            self._flush()

    def _flush(self) -> None:
        """Send waiting bytes, as many as the socket accepts; the rest when it accepts more."""
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]
        except self._not_now as error:
            if len(self._outgoing) > MOST_UNSENT_BYTES:
                self._end("the broker does not read our acknowledgements")
            elif self._login.url.is_tls and isinstance(error, ssl.SSLWantReadError):
                # The socket has room; TLS has to read first, after which the rest is sent.
                self._stop_writing()
            else:
                self._begin_writing()
            return
        except OSError as error:
            self._end(tls_words(error, self._login.tls) or "")
            return
        self._stop_writing()

    def _begin_writing(self) -> None:
        if not self._is_writing and self._is_registered:
            self._is_writing = True
            self._loop.add_writer(self._socket.fileno(), self._write_on)

    def _write_on(self) -> None:
        self._flush()
        # Reading may have waited for room, too: TLS answers a change of keys before it reads on.
        self._read_on()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _pause(self) -> None:
        """Stop reading until the consumer has room, for `PAUSE_S` at most.

        Meanwhile messages wait in the system's and the broker's buffers.
        """
        if self.ended.done() or not self._is_registered:
            return
        self._may_pause = False
        self._paused_since_s = self._clock.monotonic_s()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(LOOK_FOR_ROOM_S, self._look_for_room)

    def _look_for_room(self) -> None:
        if self.ended.done() or not self._is_registered:
            return
        is_full = self._is_full is not None and self._is_full()
        if (since_s := self._paused_since_s) is not None:
            self._has_heard = True
            if not is_full or self._clock.monotonic_s() - since_s >= PAUSE_S:
                self._paused_since_s = None
                self._loop.add_reader(self._socket.fileno(), self._read)
                self._read_on()
        self._may_pause = not is_full
        if is_full:
            self._loop.call_later(LOOK_FOR_ROOM_S, self._look_for_room)

    async def _ping(self, keepalive_s: float) -> None:
        """Ping the broker repeatedly; end the connection if no answer comes."""
        is_asked = False
        while not self.ended.done():
            await self._clock.sleep(keepalive_s)
            if is_asked and not self._has_heard:
                self._end(SILENT)
                return
            is_asked = True
            self._has_heard = False
            self._outgoing += mqtt5.PingReqPacket().write()
            self._flush()

    def _refuse(self, down: LinkDown) -> None:
        if not self._connack.done():
            self._connack.set_exception(down)
            look_at(self._connack)
        self._end(str(down))

    def _end(self, why: str) -> None:
        """Record the end of the connection and its reason, and stop reading and writing.

        The reason is empty if unknown.
        """
        if not self._connack.done():
            self._connack.set_exception(EndedEarlyError(why))
            look_at(self._connack)
        if not self.ended.done():
            self.ended.set_result(why or LOST)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LinkDown(why or LOST))
        self._unregister()

    def _unregister(self) -> None:
        if self._is_registered:
            self._is_registered = False
            self._loop.remove_reader(self._socket.fileno())
            self._stop_writing()

    def _drop(self) -> None:
        self._unregister()
        for timer in self._timers:
            timer.cancel()
        super()._drop()
