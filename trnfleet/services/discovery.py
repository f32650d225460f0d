"""Discovery of the fleets on a broker, and the choice of the one to read.

It decodes messages and so loads pydantic and NumPy, which a recorder needs not: hence a module beside `session.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError, ConfigError, WireError, nearest
from trnfleet.services.session import CONNECT_LIMIT_S, BatchReader
from trnfleet.tasks import background
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from trnfleet.services.session import BrokerSession

RETAINED_S = 0.3
"""Wait for retained messages, which come at once after the subscription; long enough for a broker far away."""
TELEMETRY_S = 3.0
"""Wait for telemetry where no retained message names a fleet."""


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


def _is_online(payload: bytes) -> bool:
    """Return whether a message announces a publisher of telemetry; a watch of the fleet is none.

    Raises:
        WireError: the message is invalid.
    """
    message = decode_message(payload, PublisherMessage)
    return message.state == "online" and message.role == "telemetry"
