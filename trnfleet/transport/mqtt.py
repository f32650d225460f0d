"""The ports over MQTT: a publisher and a source that outlive their broker.

Owns announcements, sending, drops and counters. `link` maintains the connection, `inbox` queues
messages.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from trnfleet import logs
from trnfleet.clock import Clock, SystemClock
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.transport.diagnosis import LinkDown
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import MAX_PAYLOAD_BYTES, Inbox, InboxLimits
from trnfleet.transport.link import Link
from trnfleet.transport.packets import BrokerLimits, batches, is_batched
from trnfleet.transport.retained_requests import RetainedRequests
from trnfleet.transport.security import KEEPALIVE_S, VERIFIED, Login, TlsSettings, TokenFile
from trnfleet.transport.writing import PENDING_MESSAGES, Unsent, WritingConnection
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult, RefusedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trnfleet.transport.connection import ClientName, Connection, ProtocolName
    from trnfleet.transport.url import BrokerUrl, Password

log = logs.get_logger(__name__)
_RETAIN = itemgetter(Envelope._fields.index("retain"))

READER_SUFFIX = "-r"
"""Suffix of a source's client id. A process that reads and writes has two connections, and with one
id they would end each other."""


class _MqttClient:
    """The connection of a publisher or a source."""

    _link: Link

    @property
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._link.status

    def hurry(self) -> None:
        """Reconnect at once if waiting, because another connection reached the broker."""
        self._link.hurry()

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until connected, and announced or subscribed.

        Raises:
            BrokerError: the first attempt failed or `timeout_s` passed; one line says where and
                why.
        """
        await self._link.wait_connected(timeout_s)


class MqttPublisher(_MqttClient):
    """Publishes to a broker while `run` runs; the port `Publisher`."""

    def __init__(
        self,
        url: BrokerUrl,
        *,
        client_id: str,
        password: Password | TokenFile | None = None,
        tls: TlsSettings = VERIFIED,
        will: Envelope | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        protocol: ProtocolName | None = None,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        keepalive_s: int = KEEPALIVE_S,
    ) -> None:
        """Describe a publisher; it connects when `run` starts.

        Args:
            url: the broker.
            client_id: unique at the broker; a second client with the same one ends the first.
            password: sent if the URL has a user.
            tls: for a URL with TLS; by default with the system's authorities.
            will: published by the broker when this process dies without DISCONNECT.
            clock: the machine's by default.
            rng: spreads the attempts to reconnect.
            protocol: the only MQTT version to speak; None tries 5 and falls back to 3.1.1.
            max_payload_bytes: larger payloads are not sent, and counted as oversize.
            keepalive_s: a half-open connection is found after at most twice as much.
        """
        self._announcements: list[Callable[[], Iterable[Envelope]]] = []
        self._connection: WritingConnection | None = None
        self._max_payload_bytes = max_payload_bytes
        # Held while anything is sent: it keeps announcements first, batches whole, and few calls
        # under way.
        self._turn = asyncio.Lock()
        self.on_retained: list[Callable[[Envelope], None]] = []
        """Called for each retained message acknowledged by the broker, in order."""
        self._logged: set[str] = set()
        """Kinds of refusals already in the log."""
        self._link = Link(
            Login(url, client_id, password, will, keepalive_s, tls),
            clock=clock or SystemClock(),
            rng=rng or random.Random(),  # noqa: S311  it spreads attempts, nothing secret
            prepare=self._announce,
            protocol=protocol,
        )

    @property
    def limits(self) -> BrokerLimits:
        """Limits of the broker; MQTT's own before the first connection and in MQTT 3.1.1."""
        return BrokerLimits() if self._connection is None else self._connection.limits

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set messages to send first after every connect, in the order of the calls.

        Call it before `run` starts.
        """
        self._announcements.append(announce)

    async def run(self) -> None:
        """Maintain the connection until cancelled.

        Publish `offline` before you cancel: the DISCONNECT annuls the will.
        """
        await self._link.run()

    def interrupt(self, seconds: float) -> None:
        """Drop the connection without DISCONNECT and reconnect after `seconds`.

        A deliberate outage.
        """
        self._link.interrupt(seconds)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch in order, and wait until it is sent or acknowledged.

        QoS 0 waits for the socket, QoS 1 for the broker's answer. Without a connection messages are
        dropped and counted, except retained state: the announcements provide it again. Messages
        refused by the broker are counted. It never raises for either.
        """
        async with self._turn:
            return await self._send_all(batch)

    async def _announce(self, connection: Connection) -> None:
        # A caller that publishes from here on waits for its turn, so a change of state made while
        # the state is announced goes out after it, not before it or nowhere.
        async with self._turn:
            # A link that does not only read makes no other connections.
            self._connection = cast("WritingConnection", connection)
            for announce in self._announcements:
                await self._send_all(announce())

    async def _send_all(self, batch: Iterable[Envelope]) -> PublishResult:
        sent = 0
        unsent = 0
        refused = 0
        error = ""
        for chunk in _chunks(batch):
            left = await self._send(chunk)
            sent += len(chunk) - len(left)
            unsent += len(left)
            refused += sum(message.is_refused for message in left)
            if left and not error:
                error = self._error_of(left[0])
        return PublishResult(sent, unsent, refused, error)

    async def _send(self, chunk: list[Envelope]) -> list[Unsent]:
        """Send messages in flight at once; return the undelivered ones, counted."""
        status = self.status
        connection = self._connection
        limit = self._max_payload_bytes
        unsent = [
            Unsent(
                envelope,
                f"{len(envelope.payload):,} bytes, over the limit of {limit:,}",
                is_refused=False,
            )
            for envelope in chunk
            if len(envelope.payload) > limit
        ]
        if unsent:
            status.oversize += len(unsent)
            log.warning(
                "publish_oversize",
                limit_bytes=limit,
                topics=[message.envelope.topic for message in unsent],
            )
            chunk = [envelope for envelope in chunk if len(envelope.payload) <= limit]
        if connection is None or connection.ended.done():
            left = [Unsent(envelope, "", is_refused=False) for envelope in chunk]
        else:
            left = await connection.send(chunk)
            status.sent += len(chunk) - len(left)
            # Chunks are of one kind.
            if chunk and chunk[0].qos:
                status.acknowledged += len(chunk) - len(left)
                if self.on_retained:
                    lost = {message.envelope.topic for message in left}
                    for envelope in chunk:
                        if envelope.retain and envelope.topic not in lost:
                            for note in self.on_retained:
                                note(envelope)
        for message in left:
            status.unacknowledged += message.is_unacknowledged
            if message.is_refused:
                self._note_refusal(RefusedMessage(message.envelope.topic, message.reason))
            elif not message.envelope.retain:
                status.dropped += 1
        return unsent + left

    def _note_refusal(self, refusal: RefusedMessage) -> None:
        status = self.status
        status.refused += 1
        status.last_refusal = refusal
        # Sizes differ from message to message.
        kind = re.sub(r"[\d,]+", "", refusal.reason)
        if kind not in self._logged:
            self._logged.add(kind)
            log.warning(
                "publish_refused", broker=status.broker, topic=refusal.topic, reason=refusal.reason
            )

    def _error_of(self, unsent: Unsent) -> str:
        topic = unsent.envelope.topic
        reason = unsent.reason
        if unsent.is_refused:
            return str(RefusedMessage(topic, reason))
        return f"{plain(topic)}: {reason}" if reason else self.status.last_error or "no connection"


class MqttSource(_MqttClient):
    """Receives from a broker while `run` runs; the port `Source`."""

    def __init__(
        self,
        url: BrokerUrl,
        topics: Sequence[tuple[str, int]],
        *,
        client_id: str | None = None,
        password: Password | TokenFile | None = None,
        tls: TlsSettings = VERIFIED,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        protocol: ProtocolName | None = None,
        limits: InboxLimits | None = None,
        keepalive_s: int = KEEPALIVE_S,
        client: ClientName = "mqtt5",
        is_needed: bool = True,
    ) -> None:
        """Describe a source; it connects and subscribes when `run` starts.

        Args:
            url: the broker.
            topics: pairs of topic filter and QoS; 0 for telemetry, 1 for messages that must not be
                lost.
            client_id: unique at the broker, different from that of a publisher beside it; a random
                one
                if None.
            password: sent if the URL has a user.
            tls: for a URL with TLS; by default with the system's authorities.
            clock: the machine's by default.
            rng: spreads the attempts to reconnect.
            protocol: the only MQTT version to speak; None tries 5 and falls back to 3.1.1.
            limits: limits of the inbox.
            keepalive_s: a half-open connection is found after at most twice as much.
            client: MQTT 5 reader over TCP and TLS; in 3.1.1 and over websockets always aiomqtt.
            is_needed: whether a refusal or an outage is worth a warning in the log.
        """
        if not topics:
            raise ValueError("a source needs at least one topic filter")
        self._topics = tuple(topics)
        self.client: ClientName = client
        self.clock = clock or SystemClock()
        self.login = Login(
            url,
            client_id or f"trnfleet-{os.urandom(6).hex()}{READER_SUFFIX}",
            password,
            keepalive_s=keepalive_s,
            tls=tls,
        )
        self._link = Link(
            self.login,
            clock=self.clock,
            rng=rng or random.Random(),  # noqa: S311  it spreads attempts, nothing secret
            prepare=self._subscribe,
            deliver=self._take_in,
            is_full=lambda: self._inbox.is_full,
            filters=[topic_filter for topic_filter, _ in topics],
            newest_of=limits.newest_of if limits else "",
            protocol=protocol,
            only_reads=client == "mqtt5" and not url.is_websocket,
            is_needed=is_needed,
        )
        self._warn = log.warning if is_needed else log.debug
        self._inbox = Inbox(limits or InboxLimits(), self._link.status)
        self._filters = topic_pattern(*(topic_filter for topic_filter, _ in topics))
        self._requests = RetainedRequests(self.clock, self._link.status, self._inbox.keeps)

    @property
    def waiting(self) -> int:
        """Number of waiting messages."""
        return len(self._inbox)

    async def run(self) -> None:
        """Keep the connection and its subscriptions up until cancelled."""
        async with background(retained_requests=self._requests.run()):
            await self._link.run()

    async def take(self) -> list[Envelope]:
        """Return all messages since the last call, waiting for the first."""
        return await self._inbox.take()

    def request_retained(self, topics: Iterable[str]) -> None:
        """Request the broker's retained messages on exact topics, at a limited rate.

        Only topics covered by the subscriptions.
        """
        self._requests.add(topic for topic in topics if self._filters.fullmatch(topic))

    def _take_in(self, batch: Sequence[Envelope]) -> None:
        if self._requests.is_asking or any(map(_RETAIN, batch)):
            is_asking = self._requests.is_asking
            for envelope in batch:
                if envelope.retain or is_asking:
                    self._requests.note(envelope)
        self._inbox.put_all(batch)

    async def _subscribe(self, connection: Connection) -> None:
        refused = await connection.subscribe(self._topics)
        self.status.refused_filters = tuple(refused)
        if refused:
            why = f"not authorised: the broker refuses the subscription to {', '.join(refused)}"
            if len(refused) == len(self._topics):
                raise LinkDown(why)
            self.status.last_error = why
            self._warn("subscription_refused", broker=self.status.broker, topics=refused)
        self._requests.use(connection)


def _chunks(envelopes: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """Split envelopes, in order, into chunks small enough to be in flight at once."""
    for (_, batched), run in itertools.groupby(envelopes, key=_kind):
        if batched:
            yield from batches(run)
            continue
        while chunk := list(itertools.islice(run, PENDING_MESSAGES)):
            yield chunk


def _kind(envelope: Envelope) -> tuple[bool, bool]:
    """Return whether a message is acknowledged, and whether it goes in batches."""
    return envelope.qos > 0, is_batched(envelope)
