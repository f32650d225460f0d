"""The ports over MQTT: a publisher and a source that outlive their broker.

Owns what is announced, sent, dropped and counted. How a connection is kept up is in `link`, what waits to be taken in
`inbox`.
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
from trnfleet.clock import SystemClock
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.transport.broker_limits import BrokerLimits
from trnfleet.transport.connection import (
    PENDING_ANNOUNCEMENTS,
    PENDING_PUBLISHES,
    ClientName,
    Connection,
    ProtocolName,
    Unsent,
)
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import MAX_PAYLOAD_BYTES, Inbox, InboxLimits
from trnfleet.transport.link import AnyConnection, Link
from trnfleet.transport.packets.batches import batches, is_batched
from trnfleet.transport.reasons import LinkDown
from trnfleet.transport.retained_requests import RetainedRequests
from trnfleet.transport.security.login import KEEPALIVE_S, Login
from trnfleet.transport.security.tls import VERIFIED
from trnfleet.wire.ports import Envelope, PublishResult, RefusedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trnfleet.clock import Clock
    from trnfleet.transport.security.secrets import TokenFile
    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import LinkStatus

log = logs.get_logger(__name__)
_RETAIN = itemgetter(Envelope._fields.index("retain"))

READER_SUFFIX = "-r"
"""End of a source's client id: a process that reads and writes has two connections, and with one id they would end each other."""


class MqttPublisher:
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
            url: where to.
            client_id: unique at the broker; a second client with the same one throws the first out.
            password: sent where the URL names a user.
            tls: for a URL with TLS; by default with the system's authorities.
            will: what the broker publishes when this process dies without a goodbye.
            clock: the machine's, if none is given.
            rng: spreads the attempts to reconnect.
            protocol: the only MQTT version to speak; None tries 5 and falls back to 3.1.1.
            max_payload_bytes: larger payloads are not sent, and counted as oversize.
            keepalive_s: a half-open connection is found after at most twice as much.
        """
        self._announcements: list[Callable[[], Iterable[Envelope]]] = []
        self._connection: Connection | None = None
        self._max_payload_bytes = max_payload_bytes
        # Held while anything is sent: it keeps announcements first, batches whole, and few calls under way.
        self._turn = asyncio.Lock()
        self.on_retained: Callable[[Envelope], None] | None = None
        """Called for each retained message that the broker has acknowledged, in order."""
        self._logged: set[str] = set()
        """Kinds of reasons of refused messages that are in the log."""
        self._link = Link(
            Login(url, client_id, password, will, keepalive_s, tls),
            clock=clock or SystemClock(),
            rng=rng or random.Random(),  # noqa: S311  it spreads attempts, nothing secret
            prepare=self._announce,
            protocol=protocol,
        )

    @property
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._link.status

    @property
    def limits(self) -> BrokerLimits:
        """What the broker says that it takes; what MQTT allows before the first connection, and in MQTT 3.1.1."""
        return BrokerLimits() if self._connection is None else self._connection.limits

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Name what is sent first after every connect, in the order of the calls; name it before `run` starts."""
        self._announcements.append(announce)

    async def run(self) -> None:
        """Keep the connection up until cancelled; publish `offline` before you cancel, the goodbye annuls the will."""
        await self._link.run()

    def interrupt(self, seconds: float) -> None:
        """Lose the connection without a goodbye, and connect again after `seconds`: an outage on purpose."""
        self._link.interrupt(seconds)

    def hurry(self) -> None:
        """Try to connect at once where it waits for that: another connection shows that the broker is back."""
        self._link.hurry()

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until connected and announced.

        Raises:
            BrokerError: the first attempt failed or `timeout_s` passed; one line says where and why.
        """
        await self._link.wait_connected(timeout_s)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch in order, waiting until the socket has taken it (QoS 0) or the broker has answered (QoS 1).

        What cannot be sent for want of a connection is dropped and counted, except retained state, which the
        announcements provide again. What the broker refuses is counted. It never raises for either.
        """
        async with self._turn:
            return await self._send_all(batch)

    async def _announce(self, connection: AnyConnection) -> None:
        # A caller that publishes from here on waits for its turn, so a change of state made while the state is announced
        # goes out after it, not before it or nowhere.
        async with self._turn:
            # A link that does not only read makes no other connections.
            self._connection = cast("Connection", connection)
            for announce in self._announcements:
                await self._send_all(announce())

    async def _send_all(self, batch: Iterable[Envelope]) -> PublishResult:
        sent, unsent, refused, error = 0, 0, 0, ""
        for chunk in _chunks(batch):
            left = await self._send(chunk)
            sent += len(chunk) - len(left)
            unsent += len(left)
            refused += sum(each.is_refused for each in left)
            if left and not error:
                error = self._error_of(left[0])
        return PublishResult(sent, unsent, refused, error)

    async def _send(self, chunk: list[Envelope]) -> list[Unsent]:
        """Send what may be under way at once and return, counted, what did not get through."""
        status, connection = self.status, self._connection
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
                topics=[each.envelope.topic for each in unsent],
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
                if self.on_retained is not None:
                    lost = {each.envelope.topic for each in left}
                    for envelope in chunk:
                        if envelope.retain and envelope.topic not in lost:
                            self.on_retained(envelope)
        for each in left:
            status.unacknowledged += each.is_unacknowledged
            if each.is_refused:
                self._note_refusal(RefusedMessage(each.envelope.topic, each.reason))
            elif not each.envelope.retain:
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
        topic, reason = unsent.envelope.topic, unsent.reason
        if unsent.is_refused:
            return str(RefusedMessage(topic, reason))
        return f"{plain(topic)}: {reason}" if reason else self.status.last_error or "no connection"


class MqttSource:
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
            url: where from.
            topics: pairs of topic filter and QoS; 0 for telemetry, 1 for what must not be lost.
            client_id: unique at the broker, and another than that of a publisher beside it; a random one if none is given.
            password: sent where the URL names a user.
            tls: for a URL with TLS; by default with the system's authorities.
            clock: the machine's, if none is given.
            rng: spreads the attempts to reconnect.
            protocol: the only MQTT version to speak; None tries 5 and falls back to 3.1.1.
            limits: how much may wait to be taken.
            keepalive_s: a half-open connection is found after at most twice as much.
            client: what reads in MQTT 5 over TCP and TLS; in 3.1.1 and over websockets it is aiomqtt in any case.
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
            is_behind=lambda: self._inbox.is_behind,
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
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._link.status

    @property
    def waiting(self) -> int:
        """Number of messages that wait to be taken."""
        return len(self._inbox)

    async def run(self) -> None:
        """Keep the connection and its subscriptions up until cancelled."""
        async with background(retained_requests=self._requests.run()):
            await self._link.run()

    def hurry(self) -> None:
        """Try to connect at once where it waits for that: another connection shows that the broker is back."""
        self._link.hurry()

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until connected and subscribed.

        Raises:
            BrokerError: the first attempt failed or `timeout_s` passed; one line says where and why.
        """
        await self._link.wait_connected(timeout_s)

    async def take(self) -> list[Envelope]:
        """Return all that has come in since the last call, waiting until there is something."""
        return await self._inbox.take()

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask the broker for what it retains on exact topics, as far as the subscriptions cover them, at a pace."""
        self._requests.add(each for each in topics if self._filters.fullmatch(each))

    def _take_in(self, batch: Sequence[Envelope]) -> None:
        if self._requests.is_asking or any(map(_RETAIN, batch)):
            is_asking = self._requests.is_asking
            for envelope in batch:
                if envelope.retain or is_asking:
                    self._requests.note(envelope)
        self._inbox.put_all(batch)

    async def _subscribe(self, connection: AnyConnection) -> None:
        refused = await connection.subscribe(self._topics)
        if refused:
            why = f"not authorised: the broker refuses the subscription to {', '.join(refused)}"
            if len(refused) == len(self._topics):
                raise LinkDown(why)
            self.status.last_error = why
            self._warn("subscription_refused", broker=self.status.broker, topics=refused)
        self._requests.use(connection)


def _chunks(envelopes: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """Cut envelopes, in order, into what may be under way at once."""
    for (acknowledged, batched), run in itertools.groupby(envelopes, key=_kind):
        if batched:
            yield from batches(run)
            continue
        size = PENDING_ANNOUNCEMENTS if acknowledged else PENDING_PUBLISHES
        while chunk := list(itertools.islice(run, size)):
            yield chunk


def _kind(envelope: Envelope) -> tuple[bool, bool]:
    """Return whether a message is acknowledged, and whether it goes in batches."""
    return envelope.qos > 0, is_batched(envelope)
