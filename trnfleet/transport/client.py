"""aiomqtt's client, extended. The only user of private names of aiomqtt 2.5 and paho 2.

It decides nothing about the connection's life. tests/unit/transport/test_client.py has a test for
each private name of paho.
"""

# ruff: noqa: SLF001  what has no public way is done here, and nowhere else

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import aiomqtt
from paho.mqtt.client import PUBLISH, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode

from trnfleet.transport.diagnosis import FIRST_BYTES, EndedEarlyError, look_at
from trnfleet.transport.inbox import READ_BYTES, Backlog, Delivery, Reception
from trnfleet.transport.packets import (
    MAX_PACKET_BYTES,
    BrokerLimits,
    ForbiddenPacketError,
    content_type_of,
    kept_properties,
    without_byte_order_marks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

    from trnfleet.clock import Clock
    from trnfleet.wire.ports import Envelope

PACKETS_AT_ONCE = 64
"""Packets handled per turn of the event loop. With one a turn a backlog builds up at the broker
whenever turns are long."""
QUICK_PACKETS = 4
"""Messages handed over past paho in less time than paho needs for one."""
# What paho logs comes back to us as errors and is shown in `LinkStatus`; printed, it would tear the
# screen.
PAHO_LOG = logging.getLogger("trnfleet.paho")
PAHO_LOG.addHandler(logging.NullHandler())
PAHO_LOG.propagate = False
PAHO_LOG.setLevel(logging.CRITICAL)


class Client(aiomqtt.Client):
    """aiomqtt's client with reason codes, bounded reading, and a clean end."""

    def __init__(
        self, delivery: Delivery, reception: Reception, clock: Clock, **options: Any
    ) -> None:
        """Describe a client; `delivery` receives its messages.

        Options are those of aiomqtt.
        """
        super().__init__(logger=PAHO_LOG, **options)
        self.heard = b""
        """The first bytes that came."""
        self.read_error: OSError | None = None
        """Error of the last read; paho does not pass it on."""
        self.end_code: ReasonCode | None = None
        """Reason code of the connection's end."""
        self.limits = BrokerLimits()
        """The broker's; known once connected."""
        self._delivery = delivery
        self._note_oversize = reception.note_oversize
        self._has_properties = options["protocol"] is aiomqtt.ProtocolVersion.V5
        self._paho = cast("Any", self._client)
        """paho's client with its insides."""
        # It has no public way to use another socket, and no limit on input.
        self._read_socket: Callable[[int], bytes] = self._paho._sock_recv
        self._paho._sock_recv = self._receive
        self._ahead = memoryview(b"")
        """Read from the socket and not asked for yet."""
        self._backlog: Backlog | None = None
        if reception.newest_of:
            self._backlog = Backlog(
                reception.newest_of.encode(),
                reception.note_shed,
                delivery,
                content_type_of if self._has_properties else None,
            )
        self._now_s = clock.monotonic_s
        self._is_reading_on = False
        self._paho._send_pubrec = _refuse_qos_2
        self._take_publish: Callable[[], MQTTErrorCode] = self._paho._handle_publish
        self._paho._handle_publish = self._handle_publish
        self._answers: dict[int, asyncio.Future[ReasonCode]] = {}
        """Of the messages under way, by packet identifier."""

    @property
    def is_open(self) -> bool:
        """Whether the socket is open."""
        return self._client.socket() is not None

    async def greet(self, connection: Any) -> None:
        """Send CONNECT on a socket, and wait for the broker's answer.

        aiomqtt's own way opens the socket in a thread that the process waits for at its end.

        Raises:
            aiomqtt.MqttCodeError: the broker refuses.
            EndedEarlyError: the connection ended before the answer.
            ValueError: no CONNECT can be made.
        """
        self._paho._create_socket = lambda: connection
        self._client_connect()
        await self._connected

    async def end(self) -> BaseException | None:
        """Wait for the connection's end; return its error."""
        await asyncio.wait((self._disconnected,))
        return self._disconnected.exception()

    async def send(
        self, envelope: Envelope, properties: Properties | None, timeout_s: float | None
    ) -> ReasonCode | None:
        """Publish a message and return the reason code of its PUBACK.

        At QoS 0, return once the socket has accepted it. aiomqtt's own `publish` discards the
        reason code.

        Raises:
            NoAnswerError: `timeout_s` passed without an answer.
            aiomqtt.MqttError: it could not be sent.
            ValueError: it does not fit a PUBLISH.
        """
        info = self._client.publish(
            envelope.topic, envelope.payload, envelope.qos, envelope.retain, properties
        )
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise aiomqtt.MqttCodeError(info.rc, "could not publish")
        if info.is_published():
            return None
        answer: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._answers[info.mid] = answer
        try:
            if timeout_s is None:
                return await answer
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NoAnswerError("no answer in time") from None
        finally:
            self._answers.pop(info.mid, None)

    def write(self, packets: bytes) -> Writing:
        """Queue packets with QoS 0 as one write, after all waiting ones.

        The socket is open.
        """
        number = self._paho._mid_generate()
        future = self._answers[number] = self._loop.create_future()
        future.add_done_callback(lambda _: self._answers.pop(number, None))
        self._paho._packet_queue(PUBLISH, packets, number, 0, MQTTMessageInfo(number))
        return Writing(future, self._paho._out_packet[-1])

    def drop(self) -> None:
        """End without DISCONNECT, and close the socket if still open.

        aiomqtt leaves it open when CONNECT fails, times out or is cancelled.
        """
        if not self._disconnected.done():
            self._disconnected.set_exception(aiomqtt.MqttError("connection cut"))
        # Not at once: paho may be calling, and closing calls it again.
        self._loop.call_soon(self._close_socket)
        look_at(self._connected)
        look_at(self._disconnected)

    def _receive(self, size: int) -> bytes:
        """Read for paho in small pieces.

        Of a packet over the limit keep only the beginning.

        Brokers of MQTT 3.1.1 do not know our limit, and others may ignore it. Reading on preserves
        the connection, and with it all the other messages.
        """
        if size > READ_BYTES:
            packet = self._paho._in_packet
            if packet["remaining_length"] > MAX_PACKET_BYTES and not isinstance(
                packet["packet"], _Beginning
            ):
                if packet["command"] & 0xF0 != PUBLISH:
                    raise ForbiddenPacketError(
                        "the broker sent a packet over the limit other than a message"
                    )
                packet["packet"] = _Beginning()
            size = READ_BYTES
        if not self._ahead:
            if self._backlog is not None:
                self._ahead = memoryview(self._backlog.read(self._receive_bytes, self._now_s()))
            elif size >= READ_BYTES:
                return self._receive_bytes(size)
            else:
                # paho would call the system five times for each small message.
                self._ahead = memoryview(self._receive_bytes(READ_BYTES))
        data = self._ahead[:size]
        self._ahead = self._ahead[size:]
        return bytes(data)

    def _receive_bytes(self, size: int) -> bytes:
        try:
            # A plain socket is read here: paho would ask for an error of TLS, which loads its
            # library.
            connection: Any = self._client.socket()
            is_plain = type(connection) is socket.socket
            data = connection.recv(size) if is_plain else self._read_socket(size)
        except BlockingIOError:
            raise
        except OSError as error:
            self.read_error = error
            raise
        if not self.heard:
            self.heard = data[:FIRST_BYTES]
        return data

    def _on_socket_open(self, client: Any, userdata: Any, sock: Any) -> None:  # noqa: ARG002  paho's
        """Begin to read, instead of aiomqtt's own reader of one packet a turn."""
        self._loop.add_reader(sock.fileno(), self._read)
        self._misc_task = self._loop.create_task(self._misc_loop())

    def _on_socket_close(self, client: Any, userdata: Any, sock: Any) -> None:
        super()._on_socket_close(client, userdata, sock)
        self._ahead = memoryview(b"")

    def _read(self) -> None:
        """Handle waiting packets, up to `PACKETS_AT_ONCE`, then yield to the loop."""
        backlog = self._backlog
        try:
            if backlog:
                # The rest of the former turn is behind: newer messages may replace it.
                backlog.drain(self._receive_bytes, self._now_s())
            left = PACKETS_AT_ONCE * QUICK_PACKETS
            while left > 0:
                # paho handles the first one, by which it knows that the connection stands.
                self._client.loop_read()
                left -= QUICK_PACKETS
                if (
                    backlog
                    and self.is_open
                    and not self._ahead
                    and not self._paho._in_packet["command"]
                ):
                    left -= backlog.hand_over(left)
                if not self._ahead and not backlog and not self._has_pending:
                    return
        except Exception as error:  # noqa: BLE001  as aiomqtt does: whatever it is, the connection is broken
            if not self._disconnected.done():
                self._disconnected.set_exception(error)
            return
        if not self._is_reading_on:
            # The system wakes nobody for bytes already read.
            self._is_reading_on = True
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_reading_on = False
        self._read()

    @property
    def _has_pending(self) -> bool:
        """Whether TLS has decrypted more than was read."""
        connection: Any = self._client.socket()
        return hasattr(connection, "pending") and connection.pending() > 0

    def _handle_publish(self) -> MQTTErrorCode:
        """Receive a message, even with U+FEFF in a property.

        paho would end the connection: a retained one would end every connection of every reader.
        """
        packet = self._paho._in_packet
        if self._has_properties:
            packet["packet"] = without_byte_order_marks(packet["packet"], packet["command"])
        return self._take_publish()

    def _on_message(self, client: Any, userdata: Any, message: MQTTMessage) -> None:  # noqa: ARG002  paho's
        """Hand a message over at once; aiomqtt's queue would need a task and a wake-up for each."""
        if isinstance(self._paho._in_packet["packet"], _Beginning):
            self._note_oversize()
            return
        # aiomqtt refuses topics with wildcards.
        topic = aiomqtt.Topic(message.topic).value
        try:
            properties = kept_properties(message.properties)
        except ValueError:
            self._note_oversize()
            return
        self._delivery.put(
            topic,
            cast("bytes", message.payload),
            message.qos,
            getattr(message.properties, "ContentType", None),
            retain=message.retain,
            properties=properties,
        )

    def _on_connect(
        self,
        client: Any,
        userdata: Any,
        flags: Any,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        self.limits = BrokerLimits.from_connack(properties)
        # paho knows no receive maximum; its public setter is for clients that are not connected.
        inflight = min(self._paho._max_inflight_messages, self.limits.under_way)
        self._paho._max_inflight_messages = inflight
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_disconnect(
        self,
        client: Any,
        userdata: Any,
        flags: Any,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        self.end_code = reason_code
        if self._connected.cancelled():
            return  # aiomqtt would read its error, and nobody waits for its end
        if not self._connected.done():
            # aiomqtt would go on waiting for an answer.
            self._connected.set_exception(EndedEarlyError)
            look_at(self._connected)
            return
        super()._on_disconnect(client, userdata, flags, reason_code, properties)
        look_at(self._disconnected)

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason_code: ReasonCode, properties: Properties
    ) -> None:
        answer = self._answers.get(mid)
        if answer is not None and not answer.done():
            answer.set_result(reason_code)
        super()._on_publish(client, userdata, mid, reason_code, properties)

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:  # noqa: ARG002  paho's
        # aiomqtt leaves this to the loop's next round, in which the socket may be closed or its
        # number another's.
        self._loop.add_writer(sock.fileno(), self._write)

    def _write(self) -> None:
        try:
            self._client.loop_write()
        except Exception as error:  # noqa: BLE001  as aiomqtt does: whatever it is, the connection is broken
            if not self._disconnected.done():
                self._disconnected.set_exception(error)

    def _close_socket(self) -> None:
        self._paho._sock_close()
        if self._misc_task is not None:
            self._misc_task.cancel()


class Writing(NamedTuple):
    """Packets in one write."""

    accepted: asyncio.Future[ReasonCode]
    """Done when the socket has accepted them all."""
    packet: dict[str, Any]

    @property
    def taken_bytes(self) -> int:
        """Bytes accepted by the socket so far."""
        return int(self.packet["pos"])


class NoAnswerError(aiomqtt.MqttError):
    """A message not acknowledged by the broker in time."""


class _Beginning(bytearray):
    """Packet over the limit, cut to its beginning: topic and packet identifier."""

    def __iadd__(self, data: Any) -> Self:  # type: ignore[misc]  # bytearray's own returns itself, too
        if len(self) < READ_BYTES:
            self.extend(data)
        return self


def _refuse_qos_2(_mid: int) -> MQTTErrorCode:
    # paho keeps such messages until the broker releases them, without a bound.
    raise ForbiddenPacketError("the broker sent a message with QoS 2, which nobody subscribed to")
