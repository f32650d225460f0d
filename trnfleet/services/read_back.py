"""Retained messages read back from an MQTT 3.1.1 broker, where a refusal is not visible.

Such a broker acknowledges messages forbidden by its access list, and drops them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import deque
from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError, NotConfirmedError, WireError
from trnfleet.services.session import ANSWER_S, CONNECT_LIMIT_S, BatchReader, BrokerSession
from trnfleet.tasks import Ending, background
from trnfleet.text import plain
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult, Source
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator

    from trnfleet.services.brokers import RunningPublisher
    from trnfleet.transport.connection import ProtocolName
    from trnfleet.transport.mqtt import MqttPublisher

MOST_OWN = 8
"""Own messages expected back on a topic."""
READABLE = frozenset({TopicClass.NODE, TopicClass.RESERVATION})
"""Classes of state readable by their publishers."""
SILENT: ProtocolName = "3.1.1"
"""MQTT version without reasons in acknowledgements."""


class ReadBackPublisher:
    """A publisher that reads retained messages back if the broker cannot refuse them.

    It implements the port `Publisher`. It subscribes before it writes, so another publisher's
    message on the same topic at the same time hides nothing.
    """

    def __init__(self, session: BrokerSession, publisher: RunningPublisher) -> None:
        self._session = session
        self._publisher = publisher

    @property
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._publisher.status

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set the messages that are sent first after every connect; they are not read back."""
        self._publisher.on_connect(announce)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch, and return once the broker sends its retained messages back.

        Raises:
            NotConfirmedError: the broker does not.
        """
        messages = list(batch)
        retained = [message for message in messages if message.retain]
        if self.status.protocol != SILENT or not retained:
            return await self._publisher.publish(messages)
        result = PublishResult(0)
        why = ""
        async with _listening(self._session, [message.topic for message in retained]) as given_back:
            result = await self._publisher.publish(messages)
            for message in retained if not result.unsent else ():
                why = await given_back.reason_against(message.topic, [message.payload])
                if why:
                    raise _not_confirmed(self._session, message.topic, why)
        return result


class StateCheck:
    """A single check that a broker stores the state of a long-running publisher.

    It reads back one descriptor or reservation, which publishers may read. If another publisher
    writes the topic, too, the own message is sent again while the topic is subscribed to: an
    accepted message comes back then.
    """

    def __init__(
        self,
        session: BrokerSession,
        publisher: MqttPublisher,
        report: Callable[[str], None],
        root: str = "",
    ) -> None:
        """Prepare the check.

        Args:
            session: The broker.
            publisher: The connection.
            report: Receives the line that says that it does not.
            root: Root of the topics; empty for the session's.
        """
        self._session = session
        self._publisher = publisher
        self._report = report
        self._root = root or session.root
        self._topic = ""
        self._own: deque[Envelope] = deque(maxlen=MOST_OWN)
        """The newest acknowledged messages of that topic."""
        self._has_own = asyncio.Event()
        self._is_over = False
        self._error: NotConfirmedError | None = None
        publisher.on_retained.append(self._note)

    def _note(self, message: Envelope) -> None:
        if message.topic == self._topic and not message.payload:
            # What is withdrawn cannot be read back; there will be another.
            self._topic = ""
            self._own.clear()
            self._has_own.clear()
        elif message.topic == self._topic or (
            not self._topic and message.payload and self._is_state(message)
        ):
            self._topic = message.topic
            self._own.append(message)
            self._has_own.set()

    def _is_state(self, message: Envelope) -> bool:
        try:
            return parse_topic(message.topic, self._root).topic_class in READABLE
        except WireError:
            return False

    async def run(self) -> None:
        """Wait until the first state has been acknowledged, and read it back."""
        await self._has_own.wait()
        await self._check()

    async def finish(self, ending: Ending) -> None:
        """Check at the end if there was no time before, while the connection is up.

        After a signal, skip the check.
        """
        if not ending.asked:
            await self._check()

    def raise_if_lost(self) -> None:
        """Raise the error that was found.

        Raises:
            NotConfirmedError: the broker does not return the messages sent to it.
        """
        if self._error is not None:
            raise self._error

    async def _check(self) -> None:
        if self._is_over or not self._own or self._publisher.status.protocol != SILENT:
            return
        topic = self._topic
        async with _listening(self._session, [topic]) as given_back:
            why = await given_back.reason_against(topic, self._payloads())
            if why and given_back.has_any and topic == self._topic:
                # Taken at its turn, so that nothing newer of ours is replaced.
                await self._publisher.publish(self._newest())
                why = await given_back.reason_against(topic, self._payloads())
        if why and topic == self._topic:
            self._error = _not_confirmed(self._session, topic, why)
            self._report(str(self._error))
        self._is_over = True

    def _newest(self) -> Iterator[Envelope]:
        """Yield the newest own message at the time of the request."""
        yield from list(self._own)[-1:]

    def _payloads(self) -> list[bytes]:
        return [envelope.payload for envelope in self._own]


class _GivenBack:
    """Messages received from a broker on some topics."""

    def __init__(self, session: BrokerSession, source: Source) -> None:
        self._session = session
        self._source = source
        self._given: dict[str, set[int]] = {}
        """Hashes of payloads by topic."""
        self.failure = ""
        """Reason why nothing can be read."""

    @property
    def has_any(self) -> bool:
        """Whether anything has come."""
        return any(self._given.values())

    async def reason_against(self, topic: str, payloads: Collection[bytes]) -> str:
        """Return why no payload has come back on a topic.

        Empty if one has.
        """
        if self.failure:
            return self.failure
        expected = {hash(payload) for payload in payloads}
        given = self._given.setdefault(topic, set())
        reader = BatchReader(self._source, self._session.clock, limit_s=ANSWER_S)
        while given.isdisjoint(expected) and (batch := await reader.next()):
            for envelope in batch:
                self._given.setdefault(envelope.topic, set()).add(hash(envelope.payload))
        if not given.isdisjoint(expected) or (b"" in payloads and not given):
            # Where there was nothing to clear, some brokers pass that on to nobody.
            return ""
        if given:
            return (
                "another message is there, and stays there; in MQTT 3.1.1 brokers do not report"
                " what they refuse"
            )
        return (
            f"not given back within {ANSWER_S:g} s; in MQTT 3.1.1 brokers do not report what"
            " they refuse: may this user write it, and read it?"
        )


@contextlib.asynccontextmanager
async def _listening(session: BrokerSession, topics: Iterable[str]) -> AsyncIterator[_GivenBack]:
    """Yield the messages of some topics from now on, and their retained ones."""
    session = dataclasses.replace(session, protocol=SILENT)
    source = session.source([(topic, 1) for topic in dict.fromkeys(topics)])
    given_back = _GivenBack(session, source)
    async with background(read_back=source.run()):
        try:
            await source.wait_connected(CONNECT_LIMIT_S)
        except BrokerError as error:
            given_back.failure = str(error)
        yield given_back


def _not_confirmed(session: BrokerSession, topic: str, why: str) -> NotConfirmedError:
    return NotConfirmedError(f"not confirmed: {plain(topic)} at {session.url}: {why}")
