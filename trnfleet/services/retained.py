"""The retained state of fleets on a broker, and their live publishers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import BrokerError, WireError
from trnfleet.services.session import (
    CONNECT_LIMIT_S,
    QUIET_S,
    READ_S,
    TELEMETRY_S,
    BatchReader,
    BrokerSession,
)
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.wire.messages import Descriptor, PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.wire.ports import Envelope

MOST_NAMED = 3
"""Publishers that a message names."""
WHO = (TopicClass.PUBLISHER, TopicClass.NODE)
"""Classes that name their publisher."""


class RetainedFleet:
    """The retained messages of one fleet, by publisher where they name one."""

    def __init__(self) -> None:
        self.topics: dict[TopicClass, dict[str, str]] = {}
        """Topics of each class, with the publisher of a descriptor or a presence, else empty."""
        self.presences: dict[str, PublisherMessage] = {}
        """Newest presence by client id."""
        self.descriptors: dict[str, list[Descriptor]] = {}
        """Descriptors by the client id of their publisher."""

    def add(self, envelope: Envelope, topic_class: TopicClass) -> None:
        """Note a retained message.

        An invalid one has no publisher.
        """
        client = ""
        try:
            if topic_class is TopicClass.NODE:
                descriptor = decode_message(envelope.payload, Descriptor)
                client = descriptor.publisher
                self.descriptors.setdefault(client, []).append(descriptor)
            elif topic_class is TopicClass.PUBLISHER:
                presence = decode_message(envelope.payload, PublisherMessage)
                client = presence.client
                self.presences[client] = presence
        except WireError:
            pass
        self.topics.setdefault(topic_class, {})[envelope.topic] = client

    def online(self) -> list[str]:
        """Return the publishers and relays that are online."""
        return sorted(
            client
            for client, presence in self.presences.items()
            if presence.state == "online" and presence.role != "watch"
        )

    def watches(self) -> list[str]:
        """Return the online watches.

        They own the fleet's alerts.
        """
        return sorted(
            client
            for client, presence in self.presences.items()
            if presence.state == "online" and presence.role == "watch"
        )

    def unannounced(self) -> list[str]:
        """Return the publishers with descriptors and no presence."""
        return sorted(self.descriptors.keys() - self.presences.keys())


class Retained(NamedTuple):
    """A broker's retained state, as readable by this user."""

    fleets: dict[str, RetainedFleet]
    refused: dict[TopicClass, str]
    """Classes refused to this user, with the broker's reason."""


async def read_retained(
    session: BrokerSession, fleet: str, classes: Sequence[TopicClass] = WHO
) -> Retained:
    """Return a broker's retained messages of one fleet, or of all.

    Each class has its own connection: brokers queue a limited number of messages for a client, and
    drop the rest. A dropped presence is requested once more.

    Args:
        session: The broker.
        fleet: The fleet's name; `+` for all fleets.
        classes: Classes to read.

    Raises:
        BrokerError: the broker cannot be reached, or lets this user read none of the classes.
    """
    reads = await asyncio.gather(
        *(
            _newest(session, [build_filter(fleet, topic_class, session.root)])
            for topic_class in classes
        ),
        return_exceptions=True,
    )
    fleets: dict[str, RetainedFleet] = {}
    refused: dict[TopicClass, str] = {}
    for topic_class, read in zip(classes, reads, strict=True):
        if isinstance(read, BrokerError) and len(refused) < len(classes) - 1:
            refused[topic_class] = str(read)
        elif isinstance(read, BaseException):
            raise read
        else:
            _sort(fleets, read, session.root)
    if TopicClass.PUBLISHER in classes and TopicClass.PUBLISHER not in refused:
        missing = [
            build_filter(name, TopicClass.PUBLISHER, session.root).removesuffix("#")
            + place
            + client
            for name, retained in fleets.items()
            for client in retained.unannounced()
            # A relay's presence is below its cell's name.
            for place in ("", "+/")
        ]
        if missing:
            _sort(fleets, await _newest(session, missing), session.root)
    return Retained(fleets, refused)


async def _newest(session: BrokerSession, filters: Iterable[str]) -> list[Envelope]:
    """Return the newest message of each topic sent at once by a broker."""
    newest: dict[str, Envelope] = {}
    await _listen(
        session,
        filters,
        READ_S,
        QUIET_S,
        lambda envelope: newest.update({envelope.topic: envelope}),
    )
    return [envelope for envelope in newest.values() if envelope.payload]


async def _listen(
    session: BrokerSession,
    filters: Iterable[str],
    limit_s: float,
    quiet_s: float,
    note: Callable[[Envelope], None],
) -> None:
    source = session.source([(topic_filter, 1) for topic_filter in filters])
    async with background(retained=source.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        reader = BatchReader(source, session.clock, limit_s=limit_s, quiet_s=quiet_s)
        while batch := await reader.next():
            for envelope in batch:
                note(envelope)


def _sort(fleets: dict[str, RetainedFleet], envelopes: Iterable[Envelope], root: str) -> None:
    for envelope in envelopes:
        try:
            topic = parse_topic(envelope.topic, root)
        except WireError:
            continue
        fleets.setdefault(topic.fleet, RetainedFleet()).add(envelope, topic.topic_class)


class LiveFleets(NamedTuple):
    """The fleets of a broker with live publishers."""

    publishers: dict[str, list[str]]
    """Live publishers by fleet."""
    unknown: str
    """Why the live fleets are unknown. Empty if they are known."""

    def refuse(self, broker: str, fleet: str, remedy: str) -> None:
        """Refuse to publish under the name of a live fleet.

        Args:
            broker: The broker.
            fleet: The name.
            remedy: What to do instead.

        Raises:
            BrokerError: the fleet is live.
        """
        clients = self.publishers.get(fleet)
        if clients:
            raise BrokerError(
                f"{broker} has a live fleet {fleet!r}, published by {names_of(clients)}: {remedy}"
            )


def _nobody(_client: str, _descriptors: Sequence[Descriptor]) -> bool:
    return False


async def find_live_fleets(
    session: BrokerSession,
    fleet: str = "+",
    is_own: Callable[[str, Sequence[Descriptor]], bool] = _nobody,
) -> LiveFleets:
    """Return the live publishers of one fleet, or of all.

    Args:
        session: The broker.
        fleet: The fleet's name; `+` for all fleets.
        is_own: Whether a publisher, with its descriptors, belongs to the one that asks.

    Raises:
        BrokerError: the broker cannot be reached.
    """
    fleets, refused = await read_retained(session, fleet)
    live = await asyncio.gather(
        *(find_live(session, name, retained, is_own) for name, retained in fleets.items())
    )
    return LiveFleets(dict(zip(fleets, live, strict=True)), "; ".join(refused.values()))


async def find_live(
    session: BrokerSession,
    fleet: str,
    retained: RetainedFleet,
    is_own: Callable[[str, Sequence[Descriptor]], bool] = _nobody,
) -> list[str]:
    """Return the live publishers of a fleet.

    A publisher is live while its presence is online; without a presence, while its telemetry
    arrives.

    Args:
        session: The broker.
        fleet: The fleet's name.
        retained: What the broker retains of it.
        is_own: Whether a publisher, with its descriptors, belongs to the one that asks.
    """
    live = [
        client
        for client in retained.online()
        if not is_own(client, retained.descriptors.get(client, ()))
    ]
    silent = {
        descriptor.path: client
        for client in retained.unannounced()
        if not is_own(client, retained.descriptors[client])
        for descriptor in retained.descriptors[client]
    }
    if silent:
        live += sorted(await _heard(session, fleet, silent))
    return live


async def _heard(session: BrokerSession, fleet: str, publishers: dict[str, str]) -> set[str]:
    """Return the publishers whose telemetry arrives, by described path."""
    heard: set[str] = set()

    def note(envelope: Envelope) -> None:
        with contextlib.suppress(WireError):
            path = parse_topic(envelope.topic, session.root).path
            # JSON has a topic for each chip, below the described path.
            client = publishers.get(path) or publishers.get(path.rpartition("/")[0])
            if client is not None:
                heard.add(client)

    telemetry = [build_filter(fleet, TopicClass.TELEMETRY, session.root)]
    # Without the right to read telemetry nothing is heard.
    with contextlib.suppress(BrokerError):
        await _listen(session, telemetry, TELEMETRY_S, TELEMETRY_S, note)
    return heard


def names_of(clients: Sequence[str]) -> str:
    """Return the first few of some publishers, and how many more there are."""
    more = f" and {len(clients) - MOST_NAMED:,} more" if len(clients) > MOST_NAMED else ""
    return ", ".join(plain(client) for client in clients[:MOST_NAMED]) + more
