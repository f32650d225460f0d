"""The session with a broker: its connections, its retained messages, and the choice of the fleet to read."""

from __future__ import annotations

import asyncio
import getpass
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.clock import SystemClock
from trnfleet.errors import BrokerError, ConfigError, WireError, nearest
from trnfleet.tasks import background
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.transport.connection import ProtocolName
    from trnfleet.transport.inbox import InboxLimits
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Envelope, Source

CONNECT_LIMIT_S = 10.0
"""Longest wait for a connection before a command gives up."""
RETAINED_S = 0.3
"""Wait for retained messages, which come at once after the subscription; long enough for a broker far away."""
TELEMETRY_S = 3.0
"""Wait for telemetry where no retained message names a fleet."""
QUIET_S = 0.5
"""Silence after which all retained messages have arrived."""
LONGEST_USER = 64
"""Characters of a user's name."""


@dataclass(frozen=True, slots=True)
class BrokerSession:
    """A broker, the credentials for it, and the topics under which this program reads and writes there."""

    url: BrokerUrl
    root: str = DEFAULT_ROOT
    """First part of every topic."""
    password: Password | None = None
    protocol: ProtocolName | None = None
    """Only version of MQTT to use; None for 5, and 3.1.1 where the broker refuses it."""
    clock: Clock = field(default_factory=SystemClock)

    def source(self, filters: Iterable[tuple[str, int]], *, limits: InboxLimits | None = None) -> MqttSource:
        """Return a subscription to topic filters, each with its QoS; the caller runs it."""
        return MqttSource(
            self.url,
            list(filters),
            password=self.password,
            clock=self.clock,
            protocol=self.protocol,
            limits=limits,
        )

    def publisher(self, client_id: str, *, will: Envelope | None = None) -> MqttPublisher:
        """Return a connection to publish on; the caller runs it."""
        return MqttPublisher(
            self.url,
            client_id=client_id,
            password=self.password,
            will=will,
            clock=self.clock,
            protocol=self.protocol,
        )


class BatchReader:
    """Batches of a source until a time limit, or until none has arrived for a while."""

    def __init__(self, source: Source, clock: Clock, *, limit_s: float, quiet_s: float = math.inf) -> None:
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
        """Bring the limit forward to `limit_s` from now, if it is later than that."""
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


async def find_fleet(session: BrokerSession, name: str | None, *, wait_s: float = TELEMETRY_S) -> str:
    """Return the name of the fleet to read: the given one, or the broker's only one.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: there are several fleets and no name.
    """
    if name is not None:
        return name
    for topic_class, limit_s in ((TopicClass.PUBLISHER, RETAINED_S), (TopicClass.TELEMETRY, wait_s)):
        fleets = await discover_fleets(session, topic_class, limit_s)
        if fleets:
            break
    return choose_fleet(fleets, str(session.url))


async def discover_fleets(session: BrokerSession, topic_class: TopicClass, limit_s: float) -> dict[str, bool]:
    """Return the fleets that a class of topics names, and whether each is live, that is, publishes telemetry.

    Args:
        session: The broker.
        topic_class: PUBLISHER, whose messages are retained, or TELEMETRY, of which the first batch is enough.
        limit_s: Time to listen.

    Raises:
        BrokerError: the broker cannot be reached.
    """
    fleets: dict[str, bool] = {}
    source = session.source([(build_filter("+", topic_class, session.root), 0)])
    async with background(discovery=source.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        reader = BatchReader(source, session.clock, limit_s=limit_s)
        while batch := await reader.next():
            for envelope in batch:
                try:
                    topic = parse_topic(envelope.topic, session.root)
                    is_live = topic_class is not TopicClass.PUBLISHER or _is_online(envelope.payload)
                except WireError:
                    continue
                fleets[topic.fleet] = fleets.get(topic.fleet, False) or is_live
            if topic_class is TopicClass.TELEMETRY:
                break
    return fleets


async def live_fleets(session: BrokerSession) -> set[str]:
    """Return the fleets that have a publisher of telemetry online."""
    fleets = await discover_fleets(session, TopicClass.PUBLISHER, RETAINED_S)
    return {fleet for fleet, is_live in fleets.items() if is_live}


def choose_fleet(fleets: dict[str, bool], broker: str) -> str:
    """Return the only fleet; a live fleet is preferred to those whose publishers are all offline.

    Raises:
        BrokerError: there is none.
        ConfigError: there are several.
    """
    names = [fleet for fleet, is_live in fleets.items() if is_live] or list(fleets)
    if not names:
        raise BrokerError(
            f"{broker} has no fleet yet; start `trnfleet simulate`, or name the fleet to wait for with --name"
        )
    if len(names) > 1:
        raise ConfigError(f"{broker} has several fleets: name one with --name; {nearest('', names)}")
    return names[0]


def user_name(default: str) -> str:
    """Return the system's name of the user, without characters that a terminal could act upon; `default` if unknown."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return default
    return "".join(char for char in name if char.isalnum() or char in "_.@-")[:LONGEST_USER] or default


def _is_online(payload: bytes) -> bool:
    """Return whether a message announces a publisher of telemetry; a watch of the fleet is none.

    Raises:
        WireError: the message is invalid.
    """
    message = decode_message(payload, PublisherMessage)
    return message.state == "online" and message.role == "telemetry"
