"""The session with a broker: its connections, and the batches from them."""

from __future__ import annotations

import asyncio
import getpass
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.clock import SystemClock
from trnfleet.services.broker_figures import FiguresSource
from trnfleet.transport.mqtt import READER_SUFFIX, MqttPublisher, MqttSource
from trnfleet.transport.security.tls import VERIFIED
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.transport.connection import ClientName, ProtocolName
    from trnfleet.transport.inbox import InboxLimits
    from trnfleet.transport.security.secrets import TokenFile
    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Envelope, Source

CONNECT_LIMIT_S = 10.0
"""Longest wait for a connection before a command gives up."""
QUIET_S = 0.5
"""Silence after which all retained messages have arrived."""
LONGEST_USER = 64
"""Characters of a user's name."""


@dataclass(frozen=True, slots=True)
class BrokerSession:
    """A broker, its credentials, and the root of this program's topics there."""

    url: BrokerUrl
    root: str = DEFAULT_ROOT
    """First part of every topic."""
    password: Password | TokenFile | None = None
    protocol: ProtocolName | None = None
    """The only MQTT version to use. None for 5 first, then 3.1.1 if the broker refuses it."""
    clock: Clock = field(default_factory=SystemClock)
    tls: TlsSettings = VERIFIED
    client: ClientName = "mqtt5"
    """MQTT 5 reader over TCP and TLS."""

    @property
    def urls(self) -> tuple[BrokerUrl, ...]:
        """The broker's address, as a tuple because other sessions have several."""
        return (self.url,)

    def source(
        self,
        filters: Iterable[tuple[str, int]],
        *,
        limits: InboxLimits | None = None,
        reads_figures: bool = False,
        beside: str = "",
    ) -> MqttSource:
        """Return a subscription to topic filters, each with its QoS; the caller runs it.

        Args:
            filters: The topic filters.
            limits: How much may wait to be taken.
            reads_figures: Whether its status is to have what the broker says of itself, where that
                can be read.
            beside: Client id of the publisher to which it belongs; its own has `-r` behind it.
                Empty for a random one.
        """
        kind = FiguresSource if reads_figures else MqttSource
        return kind(
            self.url,
            list(filters),
            client_id=f"{beside}{READER_SUFFIX}" if beside else None,
            password=self.password,
            tls=self.tls,
            clock=self.clock,
            protocol=self.protocol,
            limits=limits,
            client=self.client,
        )

    def publisher(self, client_id: str, *, will: Envelope | None = None) -> MqttPublisher:
        """Return a connection to publish on; the caller runs it."""
        return MqttPublisher(
            self.url,
            client_id=client_id,
            password=self.password,
            tls=self.tls,
            will=will,
            clock=self.clock,
            protocol=self.protocol,
        )


class BatchReader:
    """Batches of a source until a time limit, or until none arrives for a while."""

    def __init__(
        self, source: Source, clock: Clock, *, limit_s: float, quiet_s: float = math.inf
    ) -> None:
        """Start the time limit.

        Args:
            source: A source that runs.
            clock: The time to go by.
            limit_s: Longest time in all.
            quiet_s: Longest time without a batch.
        """
        self._source = source
        self._clock = clock
        self._quiet_s = quiet_s
        self._deadline_s = clock.monotonic_s() + limit_s

    @property
    def remaining_s(self) -> float:
        """Time until the limit; zero or less once it has passed."""
        return self._deadline_s - self._clock.monotonic_s()

    def shorten(self, limit_s: float) -> None:
        """Bring the limit forward to `limit_s` from now if it is later."""
        self._deadline_s = min(self._deadline_s, self._clock.monotonic_s() + limit_s)

    async def next(self) -> Sequence[Envelope]:
        """Return the next batch; an empty one at the limit or after the quiet time."""
        wait_s = min(self.remaining_s, self._quiet_s)
        if wait_s <= 0:
            return ()
        try:
            return await asyncio.wait_for(self._source.take(), wait_s)
        except TimeoutError:
            return ()


def user_name(default: str) -> str:
    """Return the user's system name without control characters; `default` if unknown."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return default
    return (
        "".join(char for char in name if char.isalnum() or char in "_.@-")[:LONGEST_USER] or default
    )
