"""Removal of a former fleet's or publisher's messages on a broker."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError, nearest
from trnfleet.services.publishing import cleared
from trnfleet.services.retained import RetainedFleet, find_live, names_of, read_retained
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.wire.topics import RETAINED, TopicClass, parse_topic

if TYPE_CHECKING:
    from trnfleet.transport.mqtt import MqttPublisher

WATCHS = (TopicClass.ALERT, TopicClass.ACK, TopicClass.SILENCE)
"""Classes owned by a watch. An online watch writes them again."""
CLASSES = (
    *(
        topic_class
        for topic_class in TopicClass
        if topic_class in RETAINED and topic_class not in (*WATCHS, TopicClass.PUBLISHER)
    ),
    TopicClass.PUBLISHER,
    *WATCHS,
)
"""Classes to clear, in this order: presences show who published the descriptors."""
EXACT_ONLY = (
    "some brokers, such as RabbitMQ, give retained messages to exact topics only: what is left"
    " there cannot be listed"
)


@dataclass
class Leftovers:
    """A former fleet's messages on a broker."""

    fleet: str
    publishers: list[str] = field(default_factory=list)
    """Former publishers with a descriptor or presence left."""
    unannounced: list[str] = field(default_factory=list)
    """Publishers among them without presence or telemetry."""
    topics: dict[TopicClass, list[str]] = field(default_factory=dict)
    """Topics to clear, by class in the order of `CLASSES`."""
    unclearable: list[str] = field(default_factory=list)
    """State neither cleared nor known, with the reason."""

    @property
    def count(self) -> int:
        """Number of topics to clear."""
        return sum(map(len, self.topics.values()))


async def find_leftovers(
    session: BrokerSession,
    fleet: str,
    publisher: str | None = None,
    gone: frozenset[str] = frozenset(),
) -> Leftovers:
    """Return the messages that a former fleet left on a broker.

    Args:
        session: The broker.
        fleet: The fleet.
        publisher: The only publisher whose descriptors and presence are meant; None for all that is
            left.
        gone: Publishers that were offline before their presence was cleared.

    Raises:
        BrokerError: the broker cannot be reached or read, or the publishers are online.
    """
    classes = (
        CLASSES if publisher is None else (TopicClass.CLAIM, TopicClass.NODE, TopicClass.PUBLISHER)
    )
    fleets, refused = await read_retained(session, fleet, classes)
    for topic_class in (TopicClass.PUBLISHER, TopicClass.NODE):
        if topic_class in refused:
            raise BrokerError(f"{refused[topic_class]}; {_role(topic_class)}")
    retained = fleets.get(fleet)
    left = Leftovers(fleet)
    left.unclearable = [
        f"{topic_class}/: not known: {plain(why)}" for topic_class, why in refused.items()
    ]
    if retained is None:
        return left
    publishers = {
        descriptor.path: client
        for client, descriptors in retained.descriptors.items()
        for descriptor in descriptors
    }
    claims = retained.topics.get(TopicClass.CLAIM, {})
    for topic in claims:
        claims[topic] = publishers.get(parse_topic(topic, session.root).path, "")
    left.publishers = sorted(retained.descriptors.keys() | retained.presences.keys())
    left.unannounced = retained.unannounced()
    if publisher is not None:
        if publisher not in left.publishers:
            if publisher in gone:
                return left
            raise BrokerError(
                f"{session.url} has nothing of a publisher {publisher!r} of fleet {fleet!r}: "
                f"{nearest(publisher, left.publishers)}"
            )
        left.publishers = [publisher]
    live = await find_live(
        session,
        fleet,
        retained,
        lambda client, _: client in gone or publisher not in {None, client},
    )
    if live:
        hint = (
            ""
            if publisher or len(live) == len(left.publishers)
            else ("; --publisher clears what one publisher has left")
        )
        raise BrokerError(
            f"{session.url}: fleet {fleet!r} is live, published by {names_of(live)}{hint}"
        )
    watches = [] if publisher else retained.watches()
    left.publishers = [client for client in left.publishers if client not in watches]
    left.topics = _topics(retained, classes, publisher, watches)
    if watches:
        left_count = sum(len(retained.topics.get(topic_class, ())) for topic_class in WATCHS)
        left.unclearable.append(
            f"{names_of(watches)}: a watch that is online clears its alerts itself; stop it to"
            f" clear its presence and the {left_count:,} alerts, acknowledgements and silences that are"  # noqa: E501
            " left"
        )
    return left


def _topics(
    retained: RetainedFleet,
    classes: tuple[TopicClass, ...],
    publisher: str | None,
    watches: list[str],
) -> dict[TopicClass, list[str]]:
    topics = {
        topic_class: sorted(
            topic
            for topic, client in retained.topics.get(topic_class, {}).items()
            if publisher in {None, client} and client not in watches
        )
        for topic_class in classes
        if not (watches and topic_class in WATCHS)
    }
    return {topic_class: of_class for topic_class, of_class in topics.items() if of_class}


async def clear_leftovers(
    session: BrokerSession, left: Leftovers, publisher: str | None = None
) -> dict[str, int]:
    """Clear the leftovers, and return the number of cleared topics per class.

    It repeats until a reading shows nothing more: brokers send a limited number of messages at
    once.

    Args:
        session: The broker.
        left: The leftovers found.
        publisher: The only publisher to clear; None for all.

    Raises:
        BrokerError: the broker refused it or still has it, or a publisher has come online.
    """
    done: Counter[str] = Counter()
    gone: set[str] = set()
    connection = session.publisher(f"trnfleet-forget-{secrets.token_hex(4)}")
    async with background(forget=connection.run()):
        await connection.wait_connected(CONNECT_LIMIT_S)
        while left.topics:
            gone.update(left.publishers)
            for topic_class, topics in left.topics.items():
                await _clear(connection, session, topic_class, topics, done)
                done[topic_class.value] += len(topics)
            before = left
            left = await find_leftovers(session, left.fleet, publisher, frozenset(gone))
            for topic_class, topics in left.topics.items():
                still = set(topics) & set(before.topics.get(topic_class, ()))
                done[topic_class.value] -= len(still)
                if still:
                    raise BrokerError(
                        f"{session.url}: {plain(min(still))} is still there after it was cleared,"
                        " and in MQTT 3.1.1 brokers do not report what they refuse;"
                        f" {_role(topic_class)}{_so_far(done)}"
                    )
    return dict(done)


async def _clear(
    connection: MqttPublisher,
    session: BrokerSession,
    topic_class: TopicClass,
    topics: list[str],
    done: Counter[str],
) -> None:
    result = await connection.publish(cleared(topics))
    if result.unsent:
        role = f"; {_role(topic_class)}" if result.refused else ""
        done[topic_class.value] += len(topics) - result.unsent
        raise BrokerError(f"{session.url}: {result.error}{role}{_so_far(done)}")


def _role(topic_class: TopicClass) -> str:
    """Return the role of the shipped access lists for clearing a class."""
    role = "watch" if topic_class in WATCHS else "publisher"
    return f"forget {topic_class}/ as the user of the role {role}"


def _so_far(done: Counter[str]) -> str:
    """Return the topics cleared before a failure."""
    parts = [f"{number:,} {name}" for name, number in done.items() if number]
    return f"; cleared before: {', '.join(parts)}" if parts else "; nothing was cleared"
