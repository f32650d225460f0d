"""One connection to a broker, from CONNECT to its end, with failures in plain words.

Beside `client` the only module that knows aiomqtt and paho. It does not reconnect; `link` does.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import aiomqtt
from paho.mqtt.reasoncodes import ReasonCode

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.tasks import GOODBYE_S, preserve_cancellation
from trnfleet.transport.client import (
    PAHO_LOG,
    Client,
    ClosedEarlyError,
    NoAnswerError,
    delivering_queue,
)
from trnfleet.transport.diagnosis import (
    FIRST_FAILURE,
    NOT_AUTHORISED,
    QOS_REFUSED,
    VERSION_REFUSED,
    DialError,
    LinkDown,
    WebSocketLimitError,
    connect_and_look,
    connection_words,
    look_at,
    refusal_words,
    tls_words,
    what_it_speaks,
    why_ended,
)
from trnfleet.transport.dialing import TCP_CONNECT_S, dial
from trnfleet.transport.inbox import Delivery
from trnfleet.transport.packets import (
    ForbiddenPacketError,
    connect_properties,
    is_batched,
    make_batch,
    make_will,
    properties_bytes,
    publish_properties,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from trnfleet.clock import Clock
    from trnfleet.transport.inbox import Reception
    from trnfleet.transport.packets import BrokerLimits
    from trnfleet.transport.security import Login
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

ProtocolName = Literal["5", "3.1.1"]
ClientName = Literal["mqtt5", "aiomqtt"]
"""MQTT 5 reader: mqtt5 or aiomqtt. aiomqtt does everything else."""
Answer = TypeVar("Answer")

PENDING_PUBLISHES = 8
"""Unbatched messages with QoS 0 in flight at once; more is not faster."""
PENDING_ANNOUNCEMENTS = 64
"""Acknowledged messages of an announcement in flight at once. A broker without TCP_NODELAY needs 40
ms for each round of acknowledgements, and a large fleet announces thousands."""
CONNACK_S: dict[ProtocolName, float] = {"5": 2.0, "3.1.1": 3.0}
"""Longest wait for the answer to CONNECT. A broker without MQTT 5 may just stay silent."""
SUBSCRIBE_S = 10.0
SUBSCRIBED_AT_ONCE = 8
"""Filters per SUBSCRIBE accepted by every broker. AWS IoT Core ends a connection over more
(published)."""
ACKNOWLEDGE_S = 10.0
"""Longest wait for a PUBACK on an open connection. As long as for the answer to a subscription, and
above the longest fsync of a broker that persists. A connection without any PUBACK within it is
given up."""
UNACKNOWLEDGED = f"the broker acknowledges nothing: no PUBACK within {ACKNOWLEDGE_S:g} s"
"""Reason for giving it up."""

_VERSIONS = {"5": aiomqtt.ProtocolVersion.V5, "3.1.1": aiomqtt.ProtocolVersion.V311}


class Unsent(NamedTuple):
    """An undelivered message."""

    envelope: Envelope
    reason: str
    """In plain words."""
    is_refused: bool
    """Whether the broker refused it; else no connection stood, or its answer did not come."""
    is_unacknowledged: bool = False
    """Whether it was sent, and its answer did not come in time."""


class Connection:
    """One connection, for one use.

    Call `open`, then `subscribe` or `send`, wait for `ended`, and `close` in any case.
    """

    ended: asyncio.Task[str]
    """Done when the connection has ended; its result is the reason."""

    def __init__(
        self, login: Login, protocol: ProtocolName, clock: Clock, reception: Reception
    ) -> None:
        """Describe a connection; nothing is connected yet.

        Raises:
            LinkDown: the token cannot be read.
        """
        self.protocol = protocol
        self._login = login
        self._acknowledgements = 0
        self._why_cut = ""
        version5 = protocol == "5"
        delivery = Delivery(reception, clock)
        self._client = Client(
            login.url.host,
            login.url.port,
            identifier=login.client_id,
            username=login.url.user,
            password=revealed(login),
            open_socket=functools.partial(dial, login.url, login.tls),
            protocol=_VERSIONS[protocol],
            will=make_will(login.will, version5=version5) if login.will else None,
            keepalive=login.keepalive_s,
            timeout=CONNACK_S[protocol],
            properties=connect_properties() if version5 else None,
            max_inflight_messages=PENDING_ANNOUNCEMENTS,
            queue_type=delivering_queue(delivery, reception.note_oversize),
            logger=PAHO_LOG,
        )
        self._client.oversize = reception.note_oversize
        self._client.keep_newest(reception, delivery, clock)

    @property
    def limits(self) -> BrokerLimits:
        """Limits of the broker; MQTT's own before its answer and in MQTT 3.1.1."""
        return self._client.limits

    async def open(self) -> None:
        """Connect.

        Raises:
            LinkDown: it cannot be done; nothing is left behind.
        """
        try:
            await connect_and_look(self._client.connect(), self._look_if_silent)
        except DialError as error:
            self._client.drop()
            looks = error.is_foreign and not self._login.is_known
            foreign = await self._look(has_tls=error.has_tls) if looks else ""
            raise LinkDown(foreign or str(error)) from error
        except aiomqtt.MqttError as error:
            self._client.drop()
            raise await self._explained(error) from error
        except UnicodeError as error:
            self._client.drop()
            raise LinkDown("name not found") from error
        except BaseException:
            self._client.drop()
            raise
        if not self._client.is_open:
            # aiomqtt forgets an end that came before it was done with the beginning.
            self._client.drop()
            code = self._client.end_code
            raise LinkDown("connection lost" if code is None else connection_words(code))
        warn_of(self._login, self._client.limits.qos)
        self.ended = asyncio.create_task(self._watch(), name=f"mqtt-watch-{self._login.client_id}")

    async def subscribe(
        self, topics: Sequence[tuple[str, int]], at_once: int = SUBSCRIBED_AT_ONCE
    ) -> list[str]:
        """Subscribe to (filter, QoS) pairs, `at_once` in a packet; return refused filters.

        Raises:
            LinkDown: the connection ended meanwhile, or the broker did not answer.
        """
        refused: list[str] = []
        for begin in range(0, len(topics), at_once):
            chunk = list(topics[begin : begin + at_once])
            codes = await self._answer_of(self._client.subscribe(chunk, timeout=SUBSCRIBE_S))
            granted = [code.value if isinstance(code, ReasonCode) else code for code in codes]
            if len(granted) != len(chunk):
                raise LinkDown(f"the broker answers {len(granted)} of {len(chunk)} subscriptions")
            refused += [
                topic
                for (topic, _), code in zip(chunk, granted, strict=True)
                if code >= FIRST_FAILURE
            ]
        return refused

    async def unsubscribe(self, topics: Sequence[str], at_once: int = SUBSCRIBED_AT_ONCE) -> None:
        """Unsubscribe from filters, `at_once` in a packet.

        Raises:
            LinkDown: the connection ended meanwhile, or the broker did not answer.
        """
        for begin in range(0, len(topics), at_once):
            chunk = list(topics[begin : begin + at_once])
            await self._answer_of(self._client.unsubscribe(chunk, timeout=SUBSCRIBE_S))

    async def _answer_of(self, request: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the answer to a subscription.

        Raises:
            LinkDown: the connection ended meanwhile, or the broker did not answer.
        """
        answer = asyncio.create_task(request, name="mqtt-subscribe")
        if not await self._done_before_end(answer):
            raise LinkDown(why_ended(self.ended))
        try:
            return answer.result()
        except aiomqtt.MqttError as error:
            raise LinkDown(_words(error) or "the broker did not answer the subscription") from error

    async def send(self, chunk: Sequence[Envelope]) -> list[Unsent]:
        """Publish a chunk of messages at once and return the undelivered ones.

        A broker that acknowledges none of them in time loses the connection: outstanding
        acknowledgements would pile up with every chunk.
        """
        unsent: list[Unsent] = []
        # A frame of a websocket keeps to one message: brokers have limits for it, and say them
        # nowhere.
        if not self._login.url.is_websocket and all(map(is_batched, chunk)):
            chunk = await self._send_batch(chunk, unsent)
        before = self._acknowledgements
        sending = asyncio.gather(*(self._send_one(envelope, unsent) for envelope in chunk))
        if await self._done_before_end(sending):
            sending.result()
            if self._acknowledgements == before and any(
                message.is_unacknowledged for message in unsent
            ):
                self.cut(UNACKNOWLEDGED)
        return unsent

    def cut(self, why: str = "") -> None:
        """End without DISCONNECT, with our own reason if set.

        The broker publishes the last will.
        """
        self._why_cut = why
        self._client.cut()

    async def close(self) -> None:
        """Send DISCONNECT and close; at once if it has ended.

        The broker then discards the last will.
        """
        self._client.timeout = GOODBYE_S
        self.ended.cancel()
        try:
            await preserve_cancellation(self._client.__aexit__(None, None, None))
        except aiomqtt.MqttError:
            pass  # the goodbye did not get through; the socket is closed all the same
        finally:
            self._client.drop()

    async def _look(self, *, has_tls: bool) -> str:
        return await what_it_speaks(
            self._login.url, self._login.tls, self._client.heard, has_tls=has_tls
        )

    async def _look_if_silent(self) -> str:
        """Return the protocol of a silent port after TCP connected.

        Empty if a broker was there before.
        """
        if not self._client.tcp_stood or self._login.is_known:
            return ""
        return await self._look(has_tls=self._login.url.is_tls)

    async def _explained(self, error: aiomqtt.MqttError) -> LinkDown:
        """Return why CONNECT failed, after a probe of the port if necessary."""
        words = self._read_words()
        if words:
            return LinkDown(words)
        if not isinstance(error, ClosedEarlyError):
            return self._refusal(error)
        has_tls = self._login.url.is_tls
        problem = await self._look(has_tls=has_tls) if has_tls or not self._login.is_known else ""
        if problem:
            return LinkDown(problem, foreign=True)
        return LinkDown(
            "the broker ends the connection instead of an answer to CONNECT", ended_early=True
        )

    async def _send_batch(self, chunk: Sequence[Envelope], unsent: list[Unsent]) -> list[Envelope]:
        """Publish messages as one write; return the ones unsuitable for it."""
        batch = make_batch(
            chunk, self._client.limits.packet_bytes, has_properties=self.protocol == "5"
        )
        left = batch.envelopes
        if left and self._client.is_open:
            writing = self._client.write(batch.data)
            is_taken = await self._done_before_end(writing.taken)
            left = [] if is_taken else batch.after(writing.taken_bytes)
        unsent += [Unsent(envelope, "the connection ended", is_refused=False) for envelope in left]
        return batch.others

    async def _send_one(self, envelope: Envelope, unsent: list[Unsent]) -> None:
        try:
            properties = publish_properties(envelope) if self.protocol == "5" else None
        except ValueError as error:
            unsent.append(Unsent(envelope, str(error).rstrip(".").lower(), is_refused=True))
            return
        limits = self._client.limits
        if limits.restrict_messages:
            reason = limits.reason_against(envelope, properties_bytes(properties))
            if reason:
                unsent.append(Unsent(envelope, reason, is_refused=True))
                return
        if envelope.qos > limits.qos:
            envelope = envelope._replace(qos=limits.qos)
        try:
            # QoS 0 waits for the socket alone, for as long as the connection stands.
            code = await self._client.send(
                envelope, properties, ACKNOWLEDGE_S if envelope.qos else None
            )
        except NoAnswerError:
            why = "the broker did not acknowledge it"
            unsent.append(Unsent(envelope, why, is_refused=False, is_unacknowledged=True))
        except aiomqtt.MqttError:
            unsent.append(Unsent(envelope, "the connection ended", is_refused=False))
        except ValueError as error:
            # No PUBLISH can be made of it, such as of a topic with a wildcard.
            unsent.append(Unsent(envelope, str(error).rstrip(".").lower(), is_refused=True))
        except asyncio.CancelledError:
            unsent.append(Unsent(envelope, "the connection ended", is_refused=False))
            raise
        else:
            self._acknowledgements += envelope.qos > 0
            if code is not None and code.value >= FIRST_FAILURE:
                unsent.append(Unsent(envelope, refusal_words(code), is_refused=True))

    async def _done_before_end(self, work: asyncio.Future[Any]) -> bool:
        """Wait for `work`; if the connection ends first, cancel it and return False.

        aiomqtt does not wake it.
        """
        try:
            await asyncio.wait((work, self.ended), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.add_done_callback(look_at)
            work.cancel()
            raise
        if work.done():
            return True
        work.add_done_callback(look_at)
        work.cancel()
        await asyncio.wait((work,))
        return False

    async def _watch(self) -> str:
        """Wait for the end.

        A delivering queue is always empty, so only a disconnect wakes this.
        """
        try:
            await anext(self._client.messages)
        except aiomqtt.MqttError as error:
            if self._why_cut:
                return self._why_cut
            cause = error.__cause__
            return (
                str(cause)
                if isinstance(cause, ForbiddenPacketError)
                else self._read_words() or _words(cause) or "connection lost"
            )
        return "connection lost"

    def _read_words(self) -> str | None:
        """Return why reading failed, where it was TLS or the websocket."""
        error = self._client.read_error
        if error is None:
            return None
        return (
            str(error)
            if isinstance(error, WebSocketLimitError)
            else tls_words(error, self._login.tls)
        )

    def _refusal(self, error: aiomqtt.MqttError) -> LinkDown:
        if isinstance(error, aiomqtt.MqttCodeError) and isinstance(error.rc, ReasonCode):
            code = error.rc.value
            if code in NOT_AUTHORISED:
                return LinkDown(
                    f"not authorised: {self._login.why_not_authorised()}", answered=True
                )
            return LinkDown(
                _words(error) or "connection refused",
                answered=True,
                wrong_version=code == VERSION_REFUSED,
                wrong_qos=code == QOS_REFUSED,
            )
        if self._client.tcp_stood:
            return LinkDown(f"no answer to CONNECT within {self._client.timeout:g} s", silent=True)
        # aiomqtt keeps only the text of the system's error, but Python keeps the error.
        words = why_unreachable(error.__context__) or str(error).lower() or "connection failed"
        return LinkDown(words, unreached=True)


def revealed(login: Login) -> str | None:
    """Return the password to send, read where it is a file.

    Raises:
        LinkDown: it cannot be read.
    """
    try:
        return login.reveal()
    except ConfigError as error:
        raise LinkDown(str(error)) from None


def warn_of(login: Login, highest_qos: int) -> None:
    """Log the shortcomings of a new connection."""
    if highest_qos < 1:
        log.warning("qos_lowered", broker=str(login.url), highest=highest_qos)
    if login.is_unverified:
        log.warning("broker_not_verified", broker=str(login.url), reason="--insecure")


def why_unreachable(error: BaseException | None) -> str | None:
    """Return the reason for a failed TCP connection; None for another kind of error."""
    if isinstance(error, socket.gaierror):
        return "name not found"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return f"no answer within {TCP_CONNECT_S:g} s"
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else None


def _words(error: BaseException | None) -> str | None:
    """Return the text of an error's MQTT reason code; None without one."""
    code = error.rc if isinstance(error, aiomqtt.MqttCodeError) else None
    return connection_words(code) if isinstance(code, ReasonCode) else None
