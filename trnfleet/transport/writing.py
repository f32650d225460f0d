"""Connection that publishes: aiomqtt. It reads, too, in MQTT 3.1.1 and over websockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import aiomqtt
from paho.mqtt.reasoncodes import ReasonCode

from trnfleet.tasks import GOODBYE_S, preserve_cancellation
from trnfleet.transport.client import Client, NoAnswerError
from trnfleet.transport.connection import ANSWER_S, Connection, ProtocolName
from trnfleet.transport.diagnosis import (
    FIRST_FAILURE,
    LOST,
    EndedEarlyError,
    LinkDown,
    WebSocketLimitError,
    connection_words,
    look_at,
    refusal_words,
    tls_words,
    why_ended,
)
from trnfleet.transport.inbox import Delivery, Reception
from trnfleet.transport.packets import (
    BrokerLimits,
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
    from trnfleet.transport.security import Login
    from trnfleet.wire.ports import Envelope

Answer = TypeVar("Answer")

PENDING_MESSAGES = 64
"""Unbatched messages in flight at once. A broker without TCP_NODELAY needs 40 ms for each round of
acknowledgements, and a large fleet announces thousands."""
UNACKNOWLEDGED = f"the broker acknowledges nothing: no PUBACK within {ANSWER_S:g} s"
"""Reason for giving up a connection."""

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


class WritingConnection(Connection):
    """One connection that publishes; see `Connection` for its life."""

    def __init__(
        self, login: Login, protocol: ProtocolName, clock: Clock, reception: Reception
    ) -> None:
        """Describe a connection; nothing is connected yet.

        Raises:
            LinkDown: the token cannot be read.
        """
        super().__init__(login, protocol)
        self._acknowledgements = 0
        self._why_cut = ""
        version5 = protocol == "5"
        self._client = Client(
            Delivery(reception, clock),
            reception,
            clock,
            hostname=login.url.host,
            port=login.url.port,
            identifier=login.client_id,
            username=login.url.user,
            password=self._password,
            protocol=_VERSIONS[protocol],
            will=make_will(login.will, version5=version5) if login.will else None,
            keepalive=login.keepalive_s,
            properties=connect_properties() if version5 else None,
            max_inflight_messages=PENDING_MESSAGES,
        )

    @property
    def limits(self) -> BrokerLimits:
        """Limits of the broker; MQTT's own before its answer and in MQTT 3.1.1."""
        return self._client.limits

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
        """End without DISCONNECT, with our own reason if set."""
        self._why_cut = why
        self._client.drop()

    async def close(self) -> None:
        """Send DISCONNECT and close; at once if it has ended."""
        self._client.timeout = GOODBYE_S
        self.ended.cancel()
        try:
            await preserve_cancellation(self._client.__aexit__(None, None, None))
        except Exception:  # noqa: BLE001, S110  or what the broker's last bytes were refused for
            pass  # the goodbye did not get through; the socket is closed all the same
        finally:
            self._client.drop()

    async def _greet(self) -> int:
        try:
            await self._client.greet(self._socket)
        except EndedEarlyError as error:
            raise EndedEarlyError(self._read_words() or "") from error
        except aiomqtt.MqttCodeError as error:
            raise self._refusal(cast("ReasonCode", error.rc).value) from error
        if not self._client.is_open:
            # aiomqtt forgets an end that came before it was done with the beginning.
            code = self._client.end_code
            raise LinkDown(LOST if code is None else connection_words(code))
        self.ended = asyncio.create_task(self._watch(), name=f"mqtt-watch-{self._login.client_id}")
        return self._client.limits.qos

    async def _subscribe(self, chunk: list[tuple[str, int]]) -> list[int]:
        codes = await self._answer_of(self._client.subscribe(chunk, timeout=ANSWER_S))
        return [code.value if isinstance(code, ReasonCode) else code for code in codes]

    async def _unsubscribe(self, chunk: list[str]) -> None:
        await self._answer_of(self._client.unsubscribe(chunk, timeout=ANSWER_S))

    def _first_bytes(self) -> bytes:
        return self._client.heard

    def _drop(self) -> None:
        self._client.drop()
        if not self._client.is_open:
            super()._drop()

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

    async def _send_batch(self, chunk: Sequence[Envelope], unsent: list[Unsent]) -> list[Envelope]:
        """Publish messages as one write; return the ones unsuitable for it."""
        batch = make_batch(
            chunk, self._client.limits.packet_bytes, has_properties=self.protocol == "5"
        )
        left = batch.envelopes
        if left and self._client.is_open:
            writing = self._client.write(batch.data)
            is_accepted = await self._done_before_end(writing.accepted)
            left = [] if is_accepted else batch.after(writing.taken_bytes)
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
            code = await self._client.send(envelope, properties, ANSWER_S if envelope.qos else None)
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
        """Wait for the end and return its reason."""
        error = await self._client.end()
        if self._why_cut:
            return self._why_cut
        if isinstance(error, ForbiddenPacketError):
            return str(error)
        return self._read_words() or _words(error) or LOST

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


def _words(error: BaseException | None) -> str | None:
    """Return the text of an error's MQTT reason code; None without one."""
    code = error.rc if isinstance(error, aiomqtt.MqttCodeError) else None
    return connection_words(code) if isinstance(code, ReasonCode) else None
