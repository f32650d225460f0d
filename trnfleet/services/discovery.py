"""Discovery of the fleets on a broker, and the choice of the one to read.

It decodes messages and so loads pydantic and NumPy, which a recorder needs not: hence a module beside `session.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import BrokerError, ConfigError, WireError, nearest
from trnfleet.services.brokers.merged import reached
from trnfleet.services.brokers.session import session_of
from trnfleet.services.session import CONNECT_LIMIT_S, BatchReader
from trnfleet.tasks import background
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from trnfleet.services.brokers.session import FleetSession
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Source

MOST_NAMES = 1_000
"""Fleets that are told apart on a broker while it is followed; of further ones nothing is said."""
RETAINED_S = 0.3
"""Wait for retained messages, which come at once after the subscription; long enough for a broker far away."""
TELEMETRY_S = 3.0
"""Wait for telemetry where no retained message names a fleet."""


class FoundFleet(NamedTuple):
    """A fleet, and where it is heard."""

    name: str
    session: FleetSession


async def find_fleets(
    sessions: Sequence[BrokerSession],
    names: Sequence[str],
    *,
    takes_all: bool = False,
    most: int | None = None,
    wait_s: float = TELEMETRY_S,
) -> list[FoundFleet]:
    """Return the fleets to read, each on all brokers: parts of it may be on any of them, and may come there later.

    Args:
        sessions: The brokers, at least one.
        names: The fleets' names; none for the only one that there is. A fleet that is not there yet is awaited.
        takes_all: Whether all fleets are read that are there, besides those of the names.
        most: How many of all are read, the live ones first, where there are more than names; None for all.
        wait_s: Time to listen for telemetry where no retained message names a fleet.

    Raises:
        BrokerError: no broker can be reached, or none has a fleet.
        ConfigError: there are several fleets and no name.
    """
    wanted = list(dict.fromkeys(names))
    if takes_all or not wanted:
        looks = await asyncio.gather(
            *(_fleets_of(session, wait_s) for session in sessions), return_exceptions=True
        )
        is_live: dict[str, bool] = {}
        for look in reached(looks):
            for name, is_live_there in look.items():
                is_live[name] = is_live.get(name, False) or is_live_there
        if not takes_all or not is_live | dict.fromkeys(wanted):
            brokers = ", ".join(str(each.url) for each in sessions)
            wanted = [choose_fleet(is_live, brokers)]
        else:
            named = len(wanted)
            wanted = list(
                dict.fromkeys(
                    [*wanted, *sorted(is_live, key=lambda name: (not is_live[name], name))]
                )
            )
            if most is not None:
                wanted = wanted[: max(named, most)]
            wanted[named:] = sorted(wanted[named:])
    return [FoundFleet(name, session_of(sessions)) for name in wanted]


async def appearing_fleets(source: Source, root: str, known: Iterable[str]) -> AsyncIterator[str]:
    """Yield the name of each further fleet, once, as soon as a publisher of telemetry of it is online.

    Args:
        source: The messages of publishers about themselves, of all fleets; the caller runs it.
        root: First part of every topic.
        known: Fleets that are no news.
    """
    seen = set(known)
    while True:
        for envelope in await source.take():
            try:
                fleet = parse_topic(envelope.topic, root).fleet
                # A fleet may have thousands of publishers, of which nothing is to be decoded once it is known.
                is_news = fleet not in seen and _is_online(envelope.payload)
            except WireError:
                continue
            if is_news and len(seen) < MOST_NAMES:
                seen.add(fleet)
                yield fleet


async def _fleets_of(session: BrokerSession, wait_s: float) -> dict[str, bool]:
    """Return the fleets on a broker, and whether each is live; by telemetry where no retained message names one, if that may take time.

    Raises:
        BrokerError: the broker cannot be reached.
    """
    fleets = await discover_fleets(session, TopicClass.PUBLISHER, RETAINED_S)
    if not fleets and wait_s:
        fleets = await discover_fleets(session, TopicClass.TELEMETRY, wait_s)
    return fleets


async def find_fleet(
    session: BrokerSession, name: str | None, *, wait_s: float = TELEMETRY_S
) -> str:
    """Return the name of the fleet to read: the given one, or the broker's only one.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: there are several fleets and no name.
    """
    if name is not None:
        return name
    return choose_fleet(await _fleets_of(session, wait_s), str(session.url), has_several=False)


async def discover_fleets(
    session: BrokerSession, topic_class: TopicClass, limit_s: float
) -> dict[str, bool]:
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
                    is_live = topic_class is not TopicClass.PUBLISHER or _is_online(
                        envelope.payload
                    )
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


def choose_fleet(fleets: dict[str, bool], broker: str, *, has_several: bool = True) -> str:
    """Return the only fleet; a live fleet is preferred to those whose publishers are all offline.

    Args:
        fleets: The fleets, and whether each is live.
        broker: Where they are, for messages.
        has_several: Whether the command could read several.

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
        how = (
            "name those to read with --name, or read all with --all-fleets"
            if has_several
            else "name one with --name"
        )
        raise ConfigError(f"{broker} has several fleets: {how}; {nearest('', names)}")
    return names[0]


def _is_online(payload: bytes) -> bool:
    """Return whether a message announces a publisher of telemetry; a watch of the fleet is none.

    Raises:
        WireError: the message is invalid.
    """
    message = decode_message(payload, PublisherMessage)
    return message.state == "online" and message.role == "telemetry"
