"""The session with a broker: its connections, the batches from them, and the broker's own figures.

Figures below `$SYS/broker/` are never needed, and read over a separate connection. Access lists
refuse them, many brokers have none, and some (AWS IoT Core) end a connection that subscribes to a
forbidden topic. Reading them ends for good, without a warning in the log, once all topics are
refused or nothing arrives. NATS Server refuses only topics with spaces.
"""

from __future__ import annotations

import asyncio
import getpass
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import Clock, SystemClock
from trnfleet.errors import BrokerError
from trnfleet.monitor.pipeline.brokers import SYS_PREFIX, SYS_TOPICS
from trnfleet.tasks import POLL_S, background, preserve_cancellation
from trnfleet.text import LONGEST_LINE
from trnfleet.transport.mqtt import READER_SUFFIX, MqttPublisher, MqttSource
from trnfleet.transport.security import VERIFIED, TlsSettings, TokenFile
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.transport.connection import ClientName, ProtocolName
    from trnfleet.transport.inbox import InboxLimits
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Envelope, LinkStatus, Source

log = logs.get_logger(__name__)

CONNECT_LIMIT_S = 10.0
"""Longest wait for a connection before a command gives up."""
QUIET_S = 0.3
"""Silence after which all retained messages have arrived. They follow a subscription at once."""
ANSWER_S = 2.0
"""Longest wait for a message that a broker sends at once."""
READ_S = 5.0
"""Longest time to read retained messages: a live fleet goes on publishing."""
TELEMETRY_S = 3.0
"""Time to listen for telemetry where no retained message names its fleet or publisher."""
LONGEST_USER = 64
"""Characters of a user's name."""
SAID_WITHIN_S = 25.0
"""Silence after which a broker publishes no figures. Mosquitto repeats changed ones every 10 s."""


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


class FiguresSource(MqttSource):
    """A source with its broker's figures in its status while they arrive."""

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        login = self.login
        clock = self.clock

        def of_figures() -> MqttSource:
            return MqttSource(
                login.url,
                [(topic, 0) for topic in SYS_TOPICS],
                client_id=f"{login.client_id.removesuffix(READER_SUFFIX)}-s",
                password=login.password,
                tls=login.tls,
                clock=clock,
                protocol="3.1.1" if self.status.protocol == "3.1.1" else None,
                client=self.client,
                is_needed=False,
            )

        async with background(broker_figures=read_figures(of_figures, self.status, clock)):
            await super().run()


async def read_figures(make: Callable[[], MqttSource], status: LinkStatus, clock: Clock) -> None:
    """Read figures into a status once its connection is up, until no more arrive.

    Args:
        make: Makes a source of `SYS_TOPICS`.
        status: Receives them.
        clock: The time to go by.
    """
    while not status.connected:
        await clock.sleep(POLL_S)
    source = make()
    async with background(figures_source=source.run()):
        try:
            await source.wait_connected(CONNECT_LIMIT_S)
        except BrokerError as error:
            log.debug("broker_figures_refused", broker=status.broker, reason=str(error))
            return
        while True:
            try:
                batch = await preserve_cancellation(asyncio.wait_for(source.take(), SAID_WITHIN_S))
            except TimeoutError:
                status.broker_says.clear()
                if source.status.connected:
                    log.debug("broker_figures_none", broker=status.broker)
                    return
                continue
            for envelope in batch:
                text = envelope.payload[:LONGEST_LINE].decode(errors="replace")
                status.broker_says[envelope.topic.removeprefix(SYS_PREFIX)] = text
