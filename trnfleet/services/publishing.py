"""Results of publishing: refused messages are a failure, and retained ones can be cleared."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, BinaryIO

from trnfleet.errors import BrokerError
from trnfleet.tasks import GOODBYE_S, POLL_S
from trnfleet.transport.writing import UNACKNOWLEDGED
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trnfleet.clock import Clock
    from trnfleet.transport.mqtt import MqttPublisher

AT_ONCE = 64
"""Messages sent before the broker must answer."""
ALL_REFUSED = 2
"""Refused messages, with none accepted, that end a publisher: presence and first data."""


async def fail_if_all_refused(status: LinkStatus, clock: Clock) -> None:
    """Wait until cancelled, or until the broker is known to accept nothing.

    Refusals are logged at once.

    Raises:
        BrokerError: the broker has acknowledged nothing, and refused messages or let the time for
            an answer pass.
    """
    while not status.acknowledged:
        if status.refused >= ALL_REFUSED:
            raise BrokerError(f"{status.broker}: nothing is published: {status.last_refusal}")
        if status.unacknowledged:
            raise BrokerError(f"{status.broker}: nothing is published: {UNACKNOWLEDGED}")
        await clock.sleep(POLL_S)
    # Something was accepted, and that stays so.
    await asyncio.get_running_loop().create_future()


def raise_if_refused(status: LinkStatus) -> None:
    """Raise where any message was refused.

    Raises:
        BrokerError: the number of refused messages, and the last with its reason.
    """
    if status.refused:
        messages = "1 message was" if status.refused == 1 else f"{status.refused:,} messages were"
        raise BrokerError(f"{status.broker}: {messages} refused; the last: {status.last_refusal}")


class OwnRetained:
    """The topics with retained messages of one publisher."""

    def __init__(self, publisher: MqttPublisher) -> None:
        self._publisher = publisher
        self._topics: dict[str, None] = {}
        publisher.on_retained.append(self._note)

    async def clear(self) -> None:
        """Clear them, the newest first, so that the presence goes last.

        If the broker does not answer, stop: the command must be able to end.
        """
        topics = reversed(list(self._topics))
        with contextlib.suppress(TimeoutError):
            while some := list(itertools.islice(topics, AT_ONCE)):
                async with asyncio.timeout(GOODBYE_S):
                    await self._publisher.publish(cleared(some))

    def _note(self, message: Envelope) -> None:
        if message.payload:
            self._topics.setdefault(message.topic)
        else:
            self._topics.pop(message.topic, None)


class LinePublisher:
    """Payloads as NDJSON; the port `Publisher`."""

    def __init__(self, output: BinaryIO, root: str) -> None:
        self._output = output
        self._root = root
        self.status = LinkStatus(broker="stdout", connected=True)

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Do nothing: a written line needs no repetition."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Write a batch, without presence and without cleared messages."""
        written = 0
        for envelope in batch:
            is_presence = (
                parse_topic(envelope.topic, self._root).topic_class is TopicClass.PUBLISHER
            )
            if envelope.payload and not is_presence:
                self._output.write(envelope.payload + b"\n")
                written += 1
        self._output.flush()
        return PublishResult(written)


def cleared(topics: Iterable[str]) -> Iterator[Envelope]:
    """Yield the messages that clear topics."""
    for topic in topics:
        yield Envelope(topic, b"", qos=1, retain=True)
