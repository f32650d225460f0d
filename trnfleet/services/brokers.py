"""A fleet on several brokers, behind the interface of a session with one.

Each broker has its own connection, independent of the others. Messages arrive in one stream, in
each broker's order. Writes go to every broker; an unreachable one receives them as soon as it is
back.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from trnfleet.errors import BrokerError
from trnfleet.tasks import background
from trnfleet.wire.ports import Envelope, LinkStatus, Publisher, PublishResult, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.services.session import BrokerSession
    from trnfleet.transport.inbox import InboxLimits
    from trnfleet.transport.url import BrokerUrl

ResultT = TypeVar("ResultT")

MOST_PENDING = 1_000
"""Topics whose newest retained message waits for an unreachable broker."""
_SUMMED = (
    "attempts",
    "received",
    "dropped",
    "shed",
    "oversize",
    "unsolicited",
    "retained",
    "withheld",
    "waiting",
    "waiting_bytes",
    "sent",
    "acknowledged",
    "unacknowledged",
    "refused",
)


class FleetSession(Protocol):
    """A fleet's connections to one or several brokers."""

    @property
    def root(self) -> str:
        """First part of every topic."""

    @property
    def clock(self) -> Clock:
        """The time to go by."""

    @property
    def url(self) -> object:
        """The broker, or the brokers, as text."""

    @property
    def urls(self) -> tuple[BrokerUrl, ...]:
        """The address of each broker."""

    def source(
        self,
        filters: Iterable[tuple[str, int]],
        *,
        limits: InboxLimits | None = None,
        reads_figures: bool = False,
    ) -> RunningSource:
        """Return a subscription to topic filters, each with its QoS; the caller runs it."""

    def publisher(self, client_id: str) -> RunningPublisher:
        """Return a connection to publish on; the caller runs it."""


class SeveralBrokers(NamedTuple):
    """The sessions with the brokers of one fleet."""

    sessions: tuple[BrokerSession, ...]

    @property
    def root(self) -> str:
        """First part of every topic."""
        return self.sessions[0].root

    @property
    def clock(self) -> Clock:
        """The time to go by."""
        return self.sessions[0].clock

    @property
    def url(self) -> str:
        """The brokers, in a line."""
        return ", ".join(str(session.url) for session in self.sessions)

    @property
    def urls(self) -> tuple[BrokerUrl, ...]:
        """The address of each broker."""
        return tuple(session.url for session in self.sessions)

    def source(
        self,
        filters: Iterable[tuple[str, int]],
        *,
        limits: InboxLimits | None = None,
        reads_figures: bool = False,
    ) -> MergedSource:
        """Return the subscriptions to topic filters on all brokers as one; the caller runs it."""
        subscriptions = list(filters)
        telemetry = limits.newest_of if limits else ""
        sources = [
            session.source(subscriptions, limits=limits, reads_figures=reads_figures)
            for session in self.sessions
        ]
        return MergedSource(sources, unmarked=telemetry)

    def publisher(self, client_id: str) -> FanOutPublisher:
        """Return connections to publish on at all brokers as one; the caller runs it."""
        return FanOutPublisher([session.publisher(client_id) for session in self.sessions])


def session_of(sessions: Sequence[BrokerSession]) -> BrokerSession | SeveralBrokers:
    """Return the session with one or more brokers."""
    return sessions[0] if len(sessions) == 1 else SeveralBrokers(tuple(sessions))


class RunningSource(Source, Protocol):
    """A source that has to be run."""

    @property
    def waiting(self) -> int:
        """Number of messages that wait to be taken."""

    async def run(self) -> None:
        """Keep the connection up until cancelled."""

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until connected.

        Raises:
            BrokerError: the first attempt failed or `timeout_s` passed.
        """


class RunningPublisher(Publisher, Protocol):
    """A publisher that has to be run."""

    async def run(self) -> None:
        """Keep the connection up until cancelled."""

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until connected.

        Raises:
            BrokerError: the first attempt failed or `timeout_s` passed.
        """


class MergedStatus:
    """The state of several connections as one.

    It is connected while any of them is.
    """

    def __init__(self, parts: Sequence[Source | Publisher]) -> None:
        self._parts = parts
        self._whole = LinkStatus(broker=_named([part.status.broker for part in parts]))

    def now(self) -> LinkStatus:
        """Return the state, brought up to date: the same object each time."""
        whole = self._whole
        parts = tuple([part.status for part in self._parts])
        connected = [part for part in parts if part.connected]
        if bool(connected) != whole.connected:
            whole.connected = bool(connected)
            whole.connects += whole.connected
            whole.changed_s = max(part.changed_s for part in parts)
        whole.parts = parts
        whole.last_error = next((part.last_error for part in parts if not part.connected), "")
        protocols = {part.protocol for part in connected}
        whole.protocol = protocols.pop() if len(protocols) == 1 else ""
        whole.queue_peak = max(part.queue_peak for part in parts)
        whole.last_refusal = next((part.last_refusal for part in parts if part.last_refusal), None)
        for name in _SUMMED:
            setattr(whole, name, sum([getattr(part, name) for part in parts]))
        return whole


class MergedSource:
    """The messages of several sources; the port `Source`.

    A source that waits or fails does not delay the others.
    """

    def __init__(self, sources: Sequence[RunningSource], *, unmarked: str) -> None:
        """Merge sources.

        Args:
            sources: The sources, one per broker; run by `run`.
            unmarked: Prefix of topics, those of telemetry, whose messages do not name their
                connection.
        """
        self._sources = sources
        self._unmarked = unmarked
        self._status = MergedStatus(sources)
        self._taking: dict[asyncio.Task[list[Envelope]], int] = {}
        """Pending reads of each source. They survive between calls, so a cancelled call loses no
        message."""

    @property
    def status(self) -> LinkStatus:
        """State of the connections together, with `parts`."""
        return self._status.now()

    @property
    def waiting(self) -> int:
        """Number of messages that wait to be taken."""
        return sum(source.waiting for source in self._sources)

    async def run(self) -> None:
        """Keep all connections up until cancelled."""
        try:
            async with background(
                **{f"source_{n}": source.run() for n, source in enumerate(self._sources)}
            ):
                await asyncio.Event().wait()
        finally:
            for task in self._taking:
                task.cancel()

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until every source is connected or has failed; one that is connected is enough.

        Raises:
            BrokerError: none is.
        """
        await _wait_any_connected(self._sources, timeout_s)

    async def take(self) -> list[Envelope]:
        """Return the messages of all sources since the last call.

        Wait for the first.
        """
        waiting = set(self._taking.values())
        for number, source in enumerate(self._sources):
            if number not in waiting:
                self._taking[asyncio.create_task(source.take(), name=f"take_{number}")] = number
        await asyncio.wait(self._taking, return_when=asyncio.FIRST_COMPLETED)
        batch: list[Envelope] = []
        for task in [task for task in self._taking if task.done()]:
            batch += self._marked(task.result(), self._taking.pop(task) + 1)
        return batch

    def request_retained(self, topics: Iterable[str]) -> None:
        """Request topics from every broker, as their broker is unknown."""
        asked = list(topics)
        for source in self._sources:
            source.request_retained(asked)

    def _marked(self, batch: list[Envelope], link: int) -> list[Envelope]:
        unmarked = self._unmarked
        return [
            envelope if envelope.topic.startswith(unmarked) else envelope._replace(link=link)
            for envelope in batch
        ]


class FanOutPublisher:
    """Writes to several brokers; the port `Publisher`.

    A message counts as sent where one of them has taken it.

    The newest retained message of a topic that a broker has not taken, because it was away, is
    written when it is back.
    """

    def __init__(self, publishers: Sequence[RunningPublisher]) -> None:
        self.chosen: Callable[[], int] = lambda: 0
        """Returns a bit for each broker to write to; 0 for all."""
        self._publishers = publishers
        self._status = MergedStatus(publishers)
        self._pending: list[dict[str, Envelope]] = [{} for _ in publishers]
        self._is_back = [asyncio.Event() for _ in publishers]
        for publisher, is_back in zip(publishers, self._is_back, strict=True):
            publisher.on_connect(functools.partial(_note_connect, is_back))

    @property
    def status(self) -> LinkStatus:
        """State of the connections together, with `parts`."""
        return self._status.now()

    async def run(self) -> None:
        """Keep all connections up until cancelled."""
        connections = {
            f"publisher_{n}": publisher.run() for n, publisher in enumerate(self._publishers)
        }
        followers = {f"catch_up_{n}": self._catch_up(n) for n in range(len(self._publishers))}
        async with background(**connections, **followers):
            await asyncio.Event().wait()

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait until every publisher is connected or has failed; one that is connected is enough.

        Raises:
            BrokerError: none is.
        """
        await _wait_any_connected(self._publishers, timeout_s)

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set the messages to send first after every connect to each broker."""
        for publisher in self._publishers:
            publisher.on_connect(announce)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch to the brokers, and return the result of the best one.

        It is the broker that accepted most. A message is refused if any broker refuses it.
        """
        envelopes = list(batch)
        chosen = self.chosen()
        results = await asyncio.gather(
            *(
                self._send(publisher, pending, envelopes)
                for number, (publisher, pending) in enumerate(
                    zip(self._publishers, self._pending, strict=True)
                )
                if not chosen or chosen >> number & 1
            )
        )
        best = max(results)
        refusing = max(results, key=lambda result: result.refused)
        if best.sent and refusing.refused:
            return PublishResult(best.sent, refusing.refused, refusing.refused, refusing.error)
        return best

    async def _catch_up(self, number: int) -> None:
        """Write waiting messages whenever a broker is back.

        Unsent ones wait on.
        """
        publisher = self._publishers[number]
        pending = self._pending[number]
        is_back = self._is_back[number]
        while True:
            await is_back.wait()
            is_back.clear()
            if pending:
                await self._send(publisher, pending, list(pending.values()))

    async def _send(
        self, publisher: RunningPublisher, pending: dict[str, Envelope], envelopes: list[Envelope]
    ) -> PublishResult:
        for envelope in envelopes:
            pending.pop(envelope.topic, None)
        result = await publisher.publish(envelopes)
        if result.unsent > result.refused:
            for envelope in envelopes:
                if envelope.retain and len(pending) < MOST_PENDING:
                    pending[envelope.topic] = envelope
        return result


def _note_connect(is_back: asyncio.Event) -> tuple[Envelope, ...]:
    """Signal a broker's return, and announce nothing."""
    is_back.set()
    return ()


async def _wait_any_connected(
    links: Sequence[RunningSource] | Sequence[RunningPublisher], timeout_s: float
) -> None:
    """Wait until every connection is up or has failed.

    Raises:
        BrokerError: none stands.
    """
    reached(
        await asyncio.gather(
            *(link.wait_connected(timeout_s) for link in links), return_exceptions=True
        )
    )


def reached(results: Sequence[ResultT | BaseException]) -> list[ResultT]:
    """Return the results of the reachable brokers.

    An unreachable one does not block the rest.

    Args:
        results: A result or an error of each.

    Raises:
        BrokerError: no broker could be reached; the line has the reason of each.
        BaseException: an error of another kind.
    """
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, BrokerError):
            raise result
    answers = [result for result in results if not isinstance(result, BaseException)]
    if not answers:
        raise BrokerError("; ".join(map(str, results)))
    return answers


def _named(brokers: Sequence[str]) -> str:
    return " and ".join(brokers) if len(brokers) == 2 else f"{len(brokers)} brokers"
