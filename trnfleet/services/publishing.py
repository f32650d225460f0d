"""Results of publishing: refused messages are a failure, and retained ones can be cleared."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from trnfleet.errors import BrokerError
from trnfleet.services.read_back import StateCheck
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.systemd import ServiceManager, Work, link_works
from trnfleet.tasks import GOODBYE_S, POLL_S, Ending, background, run_until
from trnfleet.transport.writing import UNACKNOWLEDGED
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from trnfleet.clock import Clock
    from trnfleet.services.session import BrokerSession
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


class PublisherRun:
    """The run of a publisher until a signal: its connection, its checks, reports to systemd.

    Make it before any child process: these must not report to systemd.
    """

    def __init__(self, session: BrokerSession, report: Callable[[str], None]) -> None:
        """Prepare the run.

        Args:
            session: The broker.
            report: Receives lines for people.
        """
        self.ending = Ending()
        self._session = session
        self._report = report
        self._manager = ServiceManager(session.clock)

    async def run(
        self,
        publisher: MqttPublisher,
        work: Callable[[], Coroutine[Any, Any, None]],
        status: Callable[[], str],
        *,
        works: Sequence[Work] = (),
        summary: Callable[[], str] | None = None,
        waits: bool = True,
        clears: bool = False,
        root: str = "",
        beside: Mapping[str, Coroutine[Any, Any, None]] = MappingProxyType({}),
    ) -> None:
        """Connect, and work until its end or a signal.

        Args:
            publisher: The connection.
            work: Starts what publishes, once there is a connection.
            status: Returns a line for systemd about the work.
            works: Loops required to make progress, besides the connection.
            summary: Returns the last line for people.
            waits: Whether the work needs a connection; otherwise it begins without one after a
                while.
            clears: Whether to clear the retained messages at the end.
            root: Root of the topics; empty for the session's.
            beside: Further background tasks by name.

        Raises:
            BrokerError: the broker cannot be reached, or refused messages: at once where it refused
                all, else at the end.
            NotConfirmedError: in MQTT 3.1.1, at the end: the broker does not give back what it was
                sent.
        """
        link = publisher.status
        check = StateCheck(self._session, publisher, self._report, root)
        own = OwnRetained(publisher) if clears else None
        async with background(
            publisher=publisher.run(),
            refused=fail_if_all_refused(link, self._session.clock),
            check=check.run(),
            **beside,
        ):
            try:
                await publisher.wait_connected(CONNECT_LIMIT_S)
            except BrokerError as error:
                if waits:
                    raise
                self._report(f"{error}; messages wait for it")

            def line() -> str:
                return ("" if link.connected else f"no connection: {link.last_error}; ") + status()

            works = [*works, *link_works("connection", link.parts or (link,))]
            async with background(service_manager=self._manager.run(works, line)):
                await run_until(self.ending, work())
            await check.finish(self.ending)
            if own is not None:
                await own.clear()
        if summary is not None:
            self._report(summary())
        raise_if_refused(link)
        check.raise_if_lost()


async def write_lines(
    output: BinaryIO, root: str, work: Callable[[LinePublisher], Coroutine[Any, Any, None]]
) -> None:
    """Write what a work publishes as NDJSON, until its end or a signal.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
    """
    ending = Ending()
    with ending.on_signals():
        await run_until(ending, work(LinePublisher(output, root)))


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
