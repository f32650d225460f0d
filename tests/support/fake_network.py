"""A broker made of answers, in the place of connections: for tests of a link."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from trnfleet.transport.diagnosis import LinkDown
from trnfleet.transport.link import Link
from trnfleet.transport.security import Login
from trnfleet.transport.url import BrokerUrl
from trnfleet.transport.writing import Unsent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trnfleet.clock import ManualClock
    from trnfleet.transport.connection import Connection
    from trnfleet.transport.mqtt import MqttPublisher
    from trnfleet.wire.ports import Envelope

REFUSED = LinkDown("connection refused", unreached=True)
SILENT = LinkDown("no answer to CONNECT within 3 s", silent=True)
ENDED_EARLY = LinkDown(
    "the broker ends the connection instead of an answer to CONNECT", ended_early=True
)
FOREIGN = LinkDown("port 8883 speaks TLS: write mqtts://broker.example:8883", foreign=True)
NOT_AUTHORISED = LinkDown("not authorised: the broker asks for a user", answered=True)
WRONG_VERSION = LinkDown("the broker does not speak this MQTT version", wrong_version=True)


@dataclass
class Network:
    """A scripted broker: the results of connection attempts, in order.

    Later attempts succeed.
    """

    answers: list[LinkDown | None] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    passwords: list[bool] = field(default_factory=list)
    """Whether each attempt had a password."""
    connections: list[FakeConnection] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons by topic."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Sending waits while it is not set."""


class FakeConnection:
    """A connection ended by the test."""

    def __init__(self, network: Network, protocol: str, login: Login) -> None:
        self.protocol = protocol
        self.has_password = login.password is not None
        self.closed = False
        self.cut_short = False
        self._network = network
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.ended = self._end

    async def open(self) -> None:
        """Take the network's next answer."""
        self._network.tried.append(self.protocol)
        self._network.passwords.append(self.has_password)
        answer = self._network.answers.pop(0) if self._network.answers else None
        if answer is not None:
            raise answer
        self._network.connections.append(self)

    async def send(self, chunk: Sequence[Envelope]) -> list[Unsent]:
        """Send through the gate; nothing gets through when the connection ends before it opens."""
        assert len(chunk) <= (64 if chunk[0].qos else 8)
        waiting = asyncio.create_task(self._network.gate.wait())
        await asyncio.wait((waiting, self._end), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._end.done():
            return [
                Unsent(envelope, "the connection ended", is_refused=False) for envelope in chunk
            ]
        refused = [each for each in chunk if each.qos and each.topic in self._network.refused]
        self._network.sent += [each.topic for each in chunk if each not in refused]
        return [
            Unsent(each, self._network.refused[each.topic], is_refused=True) for each in refused
        ]

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True
        self._end.cancel()

    def cut(self) -> None:
        """End without a goodbye."""
        self.cut_short = True
        if not self._end.done():
            self.end("connection lost")

    def end(self, why: str) -> None:
        """Break the connection."""
        self._end.set_result(why)


async def _ready(_connection: Connection) -> None:
    """Be ready at once."""


def make(clock: ManualClock, login: Login | None = None, **options: Any) -> Link:
    login = login or Login(BrokerUrl("broker.example"), "client")
    return Link(login, clock=clock, rng=random.Random(1), prepare=_ready, **options)  # noqa: S311  spreads attempts


@contextlib.asynccontextmanager
async def running(link: Link | MqttPublisher) -> AsyncIterator[None]:
    task = asyncio.create_task(link.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
