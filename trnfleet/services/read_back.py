"""Retained messages read back from a broker that cannot refuse them: one of MQTT 3.1.1.

Such a broker acknowledges what its access list forbids, and drops it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError, NotConfirmedError
from trnfleet.services.session import CONNECT_LIMIT_S, QUIET_S, BatchReader
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.transport.mqtt import FIRST_RETAINED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.services.session import BrokerSession
    from trnfleet.tasks import Ending
    from trnfleet.transport.connection import ProtocolName
    from trnfleet.transport.mqtt import MqttPublisher
    from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult

READ_BACK_S = 2.0
"""Longest wait for a message that the broker keeps; it sends such at once."""
CHECK_EVERY_S = 0.1
"""Time between two looks whether anything was acknowledged."""
SILENT: ProtocolName = "3.1.1"
"""The version of MQTT whose acknowledgements have no reason."""


class ReadBackPublisher:
    """A publisher of retained messages that reads each back where the broker cannot refuse it; the port `Publisher`."""

    def __init__(self, session: BrokerSession, publisher: MqttPublisher) -> None:
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
        """Send a batch, and return once the broker gives its retained messages back.

        Raises:
            NotConfirmedError: it does not.
        """
        messages = list(batch)
        result = await self._publisher.publish(messages)
        if not result.unsent and self.status.protocol == SILENT:
            for message in messages:
                if message.retain:
                    await confirm(self._session, message)
        return result


class StateCheck:
    """The check, once, that a broker keeps the state of a program that publishes for long."""

    def __init__(
        self, session: BrokerSession, publisher: MqttPublisher, report: Callable[[str], None]
    ) -> None:
        """Prepare the check.

        Args:
            session: The broker.
            publisher: The connection.
            report: Receives the line that says that it does not.
        """
        self._session = session
        self._publisher = publisher
        self._report = report
        self._is_over = False
        self._error: NotConfirmedError | None = None

    async def run(self) -> None:
        """Wait until the first state has been published, and read one message of it back."""
        while len(self._publisher.first_retained) < FIRST_RETAINED:
            await self._session.clock.sleep(CHECK_EVERY_S)
        await self._check()

    async def finish(self, ending: Ending) -> None:
        """Raise what was found; where there was no time for the check and no signal asks for the end, check first.

        Raises:
            NotConfirmedError: the broker does not give back what it was sent.
        """
        if not ending.asked:
            await self._check()
        if self._error is not None:
            raise self._error

    async def _check(self) -> None:
        # Of the two the presence message changes at the end.
        retained = self._publisher.first_retained[1:]
        if self._is_over or not retained or self._publisher.status.protocol != SILENT:
            return
        try:
            await confirm(self._session, retained[0])
        except NotConfirmedError as error:
            self._error = error
            self._report(str(error))
        self._is_over = True


async def confirm(session: BrokerSession, message: Envelope) -> None:
    """Return once a broker gives a retained message back, or has none where the message clears the topic.

    Raises:
        NotConfirmedError: it does not.
    """
    why = await _reason_against(dataclasses.replace(session, protocol=SILENT), message)
    if why:
        raise NotConfirmedError(f"not confirmed: {plain(message.topic)} at {session.url}: {why}")


async def _reason_against(session: BrokerSession, message: Envelope) -> str:
    source = session.source([(message.topic, 1)])
    async with background(read_back=source.run()):
        try:
            await source.wait_connected(CONNECT_LIMIT_S)
        except BrokerError as error:
            return str(error)
        limit_s = READ_BACK_S if message.payload else QUIET_S
        reader = BatchReader(source, session.clock, limit_s=limit_s)
        received: list[bytes] = []
        while message.payload not in received and (batch := await reader.next()):
            received += [each.payload for each in batch if each.topic == message.topic]
    if message.payload in received or not (received or message.payload):
        return ""
    if received:
        return "another message is there"
    return (
        f"not given back within {limit_s:g} s; in MQTT 3.1.1 brokers do not report what they refuse: "
        "may this user write it, and read it?"
    )
