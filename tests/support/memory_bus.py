"""A broker in memory with the semantics of the ports `Publisher` and `Source`.

Owns retained messages and last wills as a broker would. It imports no MQTT client and opens no
socket.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet.clock import Clock, SystemClock
from trnfleet.errors import BrokerError
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import Inbox, InboxLimits
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult, RefusedMessage

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence


_PROTOCOL = "5"
_BROKER = "memory"


class MemoryBus:
    """Hands envelopes from publishers to sources in one process, at once and in order."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._retained: dict[str, Envelope] = {}
        self._publishers: list[MemoryPublisher] = []
        self._sources: list[MemorySource] = []
        self._refused: list[tuple[re.Pattern[str], str]] = []
        self.withholds_retained = False
        """Whether subscriptions with wildcards get no retained messages, as of RabbitMQ."""

    @property
    def retained(self) -> dict[str, Envelope]:
        """Retained messages by topic."""
        return dict(self._retained)

    def publisher(
        self, client_id: str = "memory", *, will: Envelope | None = None
    ) -> MemoryPublisher:
        """Return a publisher; it connects by `connect` or by `run`."""
        publisher = MemoryPublisher(self, client_id, will)
        self._publishers.append(publisher)
        return publisher

    def source(
        self, topics: Sequence[tuple[str, int]], *, limits: InboxLimits | None = None
    ) -> MemorySource:
        """Return a source for (filter, QoS) pairs; it connects by `connect` or by `run`."""
        source = MemorySource(self, topics, limits or InboxLimits())
        self._sources.append(source)
        return source

    def refuse(self, topic_filter: str, reason: str = "not authorised") -> None:
        """From now on refuse messages with QoS 1 on matching topics.

        As an access list does.
        """
        self._refused.append((topic_pattern(topic_filter), reason))

    def refusal_of(self, envelope: Envelope) -> RefusedMessage | None:
        """Return why a message is refused; None where it is not. At QoS 0 it would go unsaid."""
        if envelope.qos:
            for pattern, reason in self._refused:
                if pattern.fullmatch(envelope.topic):
                    return RefusedMessage(envelope.topic, reason)
        return None

    def disconnect(self) -> None:
        """End every connection and forget retained messages.

        As a killed broker without persistence does.
        """
        for client in (*self._publishers, *self._sources):
            client.disconnect()
        self._retained.clear()

    def reconnect(self) -> None:
        """Bring every client back: sources subscribe and publishers announce."""
        for client in (*self._sources, *self._publishers):
            client.connect()

    def deliver(self, envelope: Envelope) -> None:
        """Handle one message as the broker: retain it if asked, and pass it to subscribers."""
        if envelope.retain:
            if envelope.payload:
                self._retained[envelope.topic] = envelope
            else:
                self._retained.pop(envelope.topic, None)
        for source in self._sources:
            # Only messages retained before a subscription carry the flag; live ones do not.
            source.offer(envelope._replace(retain=False))


class _MemoryClient:
    """Common part of publisher and source: a status, and a run that lasts until cancelled."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self.status = LinkStatus(broker=_BROKER, changed_s=bus.clock.monotonic_s())
        self._up = asyncio.Event()

    async def run(self) -> None:
        """Stay connected until cancelled."""
        self.connect()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.disconnect("stopped")

    async def wait_connected(self, timeout_s: float) -> None:
        """Return as soon as connected.

        Raises:
            BrokerError: `timeout_s` passed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._up.wait()
        except TimeoutError:
            raise BrokerError(
                f"broker {self.status.broker}: no answer within {timeout_s:g} s"
            ) from None

    def connect(self) -> None:
        """Connect; nothing happens if connected."""
        if self.status.connected:
            return
        self.status.connected = True
        self.status.changed_s = self._bus.clock.monotonic_s()
        self.status.connects += 1
        self.status.protocol = _PROTOCOL
        self._up.set()
        self._connected()

    def disconnect(self, why: str = "connection lost") -> None:
        """End the connection without a last will."""
        if self.status.connected:
            self._up.clear()
            self.status.connected = False
            self.status.changed_s = self._bus.clock.monotonic_s()
            self.status.last_error = why

    def reconnect(self) -> None:
        """End the connection, if connected, and connect again."""
        self.disconnect()
        self.connect()

    def _connected(self) -> None:
        """React to a new connection; each kind of client does its own."""


class MemoryPublisher(_MemoryClient):
    """The port `Publisher` on a bus in memory."""

    def __init__(self, bus: MemoryBus, client_id: str, will: Envelope | None) -> None:
        super().__init__(bus)
        self.client_id = client_id
        self._will = will
        self._announcements: list[Callable[[], Iterable[Envelope]]] = []
        self._cut = asyncio.Event()
        self._away_until_s = 0.0

    async def run(self) -> None:
        """Stay connected, but for interruptions, until cancelled."""
        try:
            while True:
                self.connect()
                await self._cut.wait()
                self._cut.clear()
                while (away_s := self._away_until_s - self._bus.clock.monotonic_s()) > 0.0:
                    await self._bus.clock.sleep(away_s)
        finally:
            self.disconnect("stopped")

    def interrupt(self, seconds: float) -> None:
        """Lose the connection, with the last will, and have `run` connect again after `seconds`."""
        self._away_until_s = max(self._away_until_s, self._bus.clock.monotonic_s() + seconds)
        self.die()
        self._cut.set()

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set messages to send first after every connect, in the order of the calls."""
        self._announcements.append(announce)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Deliver a batch.

        Without a connection it is dropped and counted, except retained state.
        """
        sent = 0
        refused = 0
        errors = list[str]()
        for envelope in batch:
            error = self._send(envelope)
            if error is None:
                sent += 1
            else:
                refused += isinstance(error, RefusedMessage)
                errors.append(str(error))
        return PublishResult(sent, len(errors), refused, errors[0] if errors else "")

    def die(self) -> None:
        """End as a killed process does: the bus publishes the last will."""
        if self.status.connected:
            self.disconnect()
            if self._will is not None:
                self._bus.deliver(self._will)

    def _connected(self) -> None:
        for announce in self._announcements:
            for envelope in announce():
                self._send(envelope)

    def _send(self, envelope: Envelope) -> RefusedMessage | str | None:
        """Deliver a message; return why it was not."""
        status = self.status
        if not status.connected:
            if not envelope.retain:
                status.dropped += 1
            return status.last_error or "no connection"
        refusal = self._bus.refusal_of(envelope)
        if refusal is not None:
            status.refused += 1
            status.last_refusal = refusal
            return refusal
        status.sent += 1
        status.acknowledged += envelope.qos > 0
        self._bus.deliver(envelope)
        return None


class MemorySource(_MemoryClient):
    """The port `Source` on a bus in memory."""

    def __init__(
        self, bus: MemoryBus, topics: Sequence[tuple[str, int]], limits: InboxLimits
    ) -> None:
        super().__init__(bus)
        self._filters = [(topic_pattern(topic_filter), qos) for topic_filter, qos in topics]
        self._exact = {topic_filter for topic_filter, _ in topics}
        self.requested: list[str] = []
        """Exact topics requested, in order."""
        self._inbox = Inbox(limits, self.status)

    @property
    def waiting(self) -> int:
        """Number of waiting messages."""
        return len(self._inbox)

    async def take(self) -> list[Envelope]:
        """Return all messages since the last call, waiting for the first."""
        return await self._inbox.take()

    def offer(self, envelope: Envelope) -> None:
        """Add a message if connected and a filter matches.

        Its QoS is the lower of the two.
        """
        if not self.status.connected:
            return
        granted = [qos for pattern, qos in self._filters if pattern.fullmatch(envelope.topic)]
        if granted:
            qos = min(max(granted), envelope.qos)
            self._inbox.put(envelope._replace(qos=qos, received_s=self._bus.clock.monotonic_s()))

    def request_retained(self, topics: Iterable[str]) -> None:
        """Add the retained messages of exact topics."""
        for topic in topics:
            self.requested.append(topic)
            retained = self._bus.retained.get(topic)
            if retained is not None and self.status.connected:
                self.status.withheld += self._bus.withholds_retained
                self.offer(retained)

    def _connected(self) -> None:
        for envelope in self._bus.retained.values():
            if not self._bus.withholds_retained or envelope.topic in self._exact:
                self.status.retained += 1
                self.offer(envelope)
