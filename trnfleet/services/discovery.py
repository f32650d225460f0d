"""Discovery of the fleets on a broker, and the choice of the one to read.

It decodes messages and so loads pydantic and NumPy. A recorder does not need them: hence a module
beside `session.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from trnfleet import logs
from trnfleet.errors import BrokerError, ConfigError, WireError, nearest
from trnfleet.services.brokers import FleetSession, reached, session_of
from trnfleet.services.session import (
    ANSWER_S,
    CONNECT_LIMIT_S,
    QUIET_S,
    TELEMETRY_S,
    BatchReader,
    BrokerSession,
)
from trnfleet.tasks import background
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from trnfleet.wire.ports import Source

log = logs.get_logger(__name__)

MOST_NAMES = 1_000
"""Most fleets followed on a broker. Further ones are not reported."""


class FoundFleet(NamedTuple):
    """A fleet and its brokers."""

    name: str
    session: FleetSession
    unknown: str = ""
    """Message about a name missing from all brokers while they have other fleets."""


async def find_fleets(
    sessions: Sequence[BrokerSession],
    names: Sequence[str],
    *,
    takes_all: bool = False,
    most: int | None = None,
    wait_s: float = TELEMETRY_S,
) -> list[FoundFleet]:
    """Return the fleets to read, each on all brokers.

    Parts of a fleet may be on any broker, and may come there later.

    Args:
        sessions: The brokers, at least one.
        names: The fleets' names; empty for the only fleet. A missing fleet is waited for.
        takes_all: Whether to read all existing fleets, besides the named ones.
        most: Most fleets to read, live ones first, if there are more than names; None for all.
        wait_s: Time to listen for telemetry if no retained message names a fleet.

    Raises:
        BrokerError: no broker can be reached, or none has a fleet.
        ConfigError: there are several fleets and no name.
    """
    requested = list(dict.fromkeys(names))
    unknown = await asyncio.gather(*(_unknown_fleet(sessions, name) for name in requested))
    hints = dict(zip(requested, unknown, strict=True))
    if takes_all or not requested:
        looks = await asyncio.gather(
            *(_fleets_of(session, wait_s) for session in sessions), return_exceptions=True
        )
        is_live: dict[str, bool] = {}
        for look in reached(looks):
            for name, is_live_there in look.items():
                is_live[name] = is_live.get(name, False) or is_live_there
        if not takes_all or not is_live | dict.fromkeys(requested):
            brokers = ", ".join(str(session.url) for session in sessions)
            requested = [choose_fleet(is_live, brokers)]
        else:
            named = len(requested)
            requested = list(
                dict.fromkeys(
                    [*requested, *sorted(is_live, key=lambda name: (not is_live[name], name))]
                )
            )
            if most is not None:
                requested = requested[: max(named, most)]
            requested[named:] = sorted(requested[named:])
    return [FoundFleet(name, session_of(sessions), hints.get(name, "")) for name in requested]


async def appearing_fleets(source: Source, root: str, known: Iterable[str]) -> AsyncIterator[str]:
    """Yield each further fleet's name once a publisher of its telemetry is online.

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
                # A known fleet may have thousands of publishers: decode none of their messages.
                is_news = fleet not in seen and _is_online(envelope.payload)
            except WireError:
                continue
            if is_news and len(seen) < MOST_NAMES:
                seen.add(fleet)
                yield fleet


async def _fleets_of(session: BrokerSession, wait_s: float) -> dict[str, bool]:
    """Return the fleets on a broker, and whether each is live.

    If no retained message names one, telemetry is read, provided that there is time for it.

    Raises:
        BrokerError: the broker cannot be reached.
    """
    fleets = await discover_fleets(session, TopicClass.PUBLISHER, QUIET_S)
    if not fleets and wait_s:
        fleets = await discover_fleets(session, TopicClass.TELEMETRY, wait_s)
    return fleets


async def find_fleet(
    session: BrokerSession, name: str | None, *, wait_s: float = TELEMETRY_S
) -> str:
    """Return the fleet to read: the given name, or the broker's only fleet.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: there are several fleets and no name.
    """
    if name is not None:
        await _unknown_fleet([session], name)
        return name
    return choose_fleet(await _fleets_of(session, wait_s), str(session.url), has_several=False)


async def _unknown_fleet(sessions: Sequence[BrokerSession], name: str) -> str:
    """Return and log a warning that no broker has a fleet, with the nearest name.

    Empty if a broker has it. It is only a warning because the fleet may come later.
    """
    there = await asyncio.gather(
        *(_is_there(session, name) for session in sessions), return_exceptions=True
    )
    if any(answer is not False for answer in there):
        return ""
    hint = await nearest_fleet(sessions, name)
    if hint:
        log.warning("fleet_unknown", fleet=name, hint=hint)
    return hint


async def _is_there(session: BrokerSession, name: str) -> bool:
    """Return whether anything of a fleet comes: a presence, a descriptor or telemetry.

    Raises:
        BrokerError: the broker cannot be reached, or refuses all of it.
        TimeoutError: it does not answer.
    """
    classes = (TopicClass.PUBLISHER, TopicClass.NODE, TopicClass.TELEMETRY)
    source = session.source(
        [(build_filter(name, topic_class, session.root), 0) for topic_class in classes]
    )
    async with asyncio.timeout(ANSWER_S), background(discovery=source.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        return bool(await BatchReader(source, session.clock, limit_s=QUIET_S).next())


async def nearest_fleet(sessions: Sequence[BrokerSession], name: str) -> str:
    """Return a clause with the fleet nearest to an unknown name.

    Empty if a broker has the name, none has a fleet, or none can be reached.
    """
    looks = await asyncio.gather(
        *(_fleets_of(session, 0.0) for session in sessions), return_exceptions=True
    )
    names = {fleet for look in looks if isinstance(look, dict) for fleet in look}
    return f"no fleet {name!r}: {nearest(name, names)}" if names and name not in names else ""


async def discover_fleets(
    session: BrokerSession, topic_class: TopicClass, limit_s: float
) -> dict[str, bool]:
    """Return the fleets named in a class of topics, and whether each is live.

    A live fleet publishes telemetry.

    Args:
        session: The broker.
        topic_class: PUBLISHER for its retained messages, or TELEMETRY for its first batch.
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


def choose_fleet(fleets: dict[str, bool], broker: str, *, has_several: bool = True) -> str:
    """Return the only fleet.

    A live one comes before fleets whose publishers are offline.

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
            f"{broker} has no fleet yet; start `trnfleet simulate`, or name the fleet to wait for"
            " with --name"
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
    """Return whether a message announces a telemetry publisher.

    A watch is not one.

    Raises:
        WireError: the message is invalid.
    """
    message = decode_message(payload, PublisherMessage)
    return message.state == "online" and message.role == "telemetry"
