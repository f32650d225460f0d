"""Which fleets a broker has: readers take the only one, or the one that `--name` names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError, ConfigError, WireError, nearest
from trnfleet.tasks import background
from trnfleet.transport.mqtt import MqttSource
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.transport.url import BrokerUrl, Password

CONNECT_LIMIT_S = 10.0
RETAINED_S = 0.3
"""Retained messages come at once after the subscription; this is long enough for a broker far away."""
TELEMETRY_S = 3.0
"""How long telemetry is waited for where no retained message tells of a fleet."""


async def find_fleet(
    url: BrokerUrl,
    *,
    name: str | None,
    root: str,
    password: Password | None,
    clock: Clock,
    wait_s: float = TELEMETRY_S,
) -> str:
    """Return the name of the fleet to read.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: there are several fleets and no name.
    """
    if name is not None:
        return name
    for topic_class, limit_s in ((TopicClass.PUBLISHER, RETAINED_S), (TopicClass.TELEMETRY, wait_s)):
        online = await seen_fleets(url, topic_class, limit_s, root=root, password=password, clock=clock)
        if online:
            break
    return choose(online, str(url))


async def seen_fleets(
    url: BrokerUrl,
    topic_class: TopicClass,
    limit_s: float,
    *,
    root: str,
    password: Password | None,
    clock: Clock,
) -> dict[str, bool]:
    """Return the fleets that a class of topics tells of, and whether each is live: publishes telemetry.

    Args:
        url: The broker.
        topic_class: PUBLISHER, whose messages are retained, or TELEMETRY, of which the first messages are enough.
        limit_s: How long is listened.
        root: First part of the topics.
        password: The user's.
        clock: The time to go by.

    Raises:
        BrokerError: the broker cannot be reached.
    """
    online: dict[str, bool] = {}
    source = MqttSource(url, [(build_filter("+", topic_class, root), 0)], password=password, clock=clock)
    async with background(discovery=source.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        deadline_s = clock.monotonic_s() + limit_s
        while (left_s := deadline_s - clock.monotonic_s()) > 0:
            try:
                batch = await asyncio.wait_for(source.take(), left_s)
            except TimeoutError:
                break
            for envelope in batch:
                try:
                    topic = parse_topic(envelope.topic, root)
                    live = topic_class is not TopicClass.PUBLISHER or _is_online(envelope.payload)
                except WireError:
                    continue
                online[topic.fleet] = online.get(topic.fleet, False) or live
            if topic_class is TopicClass.TELEMETRY:
                break
    return online


def _is_online(payload: bytes) -> bool:
    """Say whether a publisher of telemetry is there; a watch of a fleet does not make it one.

    Raises:
        WireError: the message is none.
    """
    message = decode_message(payload, PublisherMessage)
    return message.state == "online" and message.role == "telemetry"


def choose(online: dict[str, bool], broker: str) -> str:
    """Return the only fleet, preferring one that is online to those whose publishers are all gone.

    Raises:
        BrokerError: there is none.
        ConfigError: the choice is not clear.
    """
    names = [fleet for fleet, is_online in online.items() if is_online] or list(online)
    if not names:
        raise BrokerError(
            f"{broker} has no fleet yet; start `trnfleet simulate`, or name the fleet to wait for with --name"
        )
    if len(names) > 1:
        raise ConfigError(f"{broker} has several fleets: name one with --name; {nearest('', names)}")
    return names[0]
