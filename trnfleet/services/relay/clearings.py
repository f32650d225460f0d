"""State that a cell has cleared and the top broker still has.

A broker sends nothing for a topic without a retained message. So after a reconnect to its cell a
relay requests each topic exactly that has not come again, and one without an answer counts as
cleared. Requests go out in order: a topic known to be retained is requested last, and until its
answer nothing is decided. A topic with a refused subscription is not decided either.

Jobs and reservations cleared while none of the cell's relays ran are left on the top broker. They
name their cell of origin. A relay from before that field did not name it. Then their places decide:
all must be among the cell's descriptors, and none may be a whole cluster or its standalone
instances, because other cells may have a part of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from trnfleet import logs
from trnfleet.domain.address import STANDALONE, Level
from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError, WireError
from trnfleet.services.relay.passed import MOST_AT_ONCE, MOST_TOPICS, SETTLED_S, memory_bytes
from trnfleet.services.relay.role import PERIOD_S
from trnfleet.services.session import CONNECT_LIMIT_S, READ_S, BrokerSession
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.wire.messages import REPEAT_S, JobMessage, cell_of, decode_message
from trnfleet.wire.ports import MOST_REFUSED_TOPICS, Envelope, LinkStatus, Source
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import RETAINED, TopicClass, build_filter, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.layout import Layout
    from trnfleet.record.write.tapped_source import Taker

log = logs.get_logger(__name__)

_MESSAGES: dict[TopicClass, type[JobMessage | ReservationMessage]] = {
    TopicClass.JOB: JobMessage,
    TopicClass.RESERVATION: ReservationMessage,
}
MOST_READ_BYTES = 64 * 2**20
"""Most memory of the messages read of the top broker."""
ROUNDS = 2
"""Requests for each topic. A broker with a full queue may lose an answer."""
ANSWER_S = 120.0
"""Longest wait for the answer to the last request. A thousand unanswered ones include pauses of 20
s in all."""


class MissedClearings:
    """The retained topics of a source, and when each has come last."""

    def __init__(self, fleet: str, root: str, clock: Clock) -> None:
        """Begin with none.

        Args:
            fleet: The fleet's name.
            root: First part of the topics.
            clock: The time to go by.
        """
        self._root = root
        self._clock = clock
        self._telemetry = build_topic(fleet, TopicClass.TELEMETRY, "", root)
        self._heard: dict[str, float] = {}
        """Monotonic seconds of each topic's last message."""
        self._proof = ""
        """Topic whose next retained message proves that earlier requests were answered."""
        self._attempts = 0
        self._connects = 0
        """Number of the connection since which nothing was missed."""
        self._told = 0
        """Number of the connection with the last report of unknown topics."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Note received messages."""
        telemetry = self._telemetry
        heard = self._heard
        for envelope in batch:
            topic = envelope.topic
            if topic.startswith(telemetry):
                continue
            if not envelope.payload:
                heard.pop(topic, None)
            elif topic in heard or (len(heard) < MOST_TOPICS and self._is_retained(topic)):
                heard[topic] = envelope.received_s
            if topic == self._proof and envelope.retain:
                self._proof = ""

    def _is_retained(self, topic: str) -> bool:
        try:
            return parse_topic(topic, self._root).topic_class in RETAINED
        except WireError:
            return False

    async def run(
        self,
        source: Source,
        clear: Callable[[list[Envelope]], Awaitable[None]],
        report: Callable[[str], None],
    ) -> None:
        """Look after each reconnect, until cancelled.

        Args:
            source: The source whose batches are taken here.
            clear: Takes an empty message for each topic that was cleared meanwhile, as if it had
                come.
            report: Receives a line, once a connection, where the broker refuses to say what became
                of topics.
        """
        due_s = 0.0
        while True:
            await self._clock.sleep(PERIOD_S)
            status = source.status
            now_s = self._clock.monotonic_s()
            if self._connects == 0:
                self._connects = status.connects
            is_heard = status.connected and now_s - status.changed_s >= SETTLED_S
            if not is_heard or self._connects == status.connects or now_s < due_s:
                continue
            connects = status.connects
            since_s = status.changed_s
            gone = await self._gone(source, since_s)
            self._tell_unknown(source.status, connects, since_s, report)
            if gone is None:
                due_s = self._clock.monotonic_s() + REPEAT_S
                continue
            self._connects = connects
            if gone:
                log.info("relay_missed_clearings", topics=gone[:3], count=len(gone))
            for first in range(0, len(gone), MOST_AT_ONCE):
                # While a part goes out, some of the next may have come again.
                part = [
                    topic
                    for topic in gone[first : first + MOST_AT_ONCE]
                    if self._is_unheard(topic, since_s)
                ]
                for topic in part:
                    del self._heard[topic]
                now_s = self._clock.monotonic_s()
                if part:
                    await clear(
                        [
                            Envelope(topic, b"", qos=1, retain=True, received_s=now_s)
                            for topic in part
                        ]
                    )

    async def _gone(self, source: Source, since_s: float) -> list[str] | None:
        """Return the topics no longer retained by the broker.

        None if unknown.
        """
        unheard = [topic for topic, at_s in self._heard.items() if at_s < since_s]
        gone: list[str] = []
        if unheard and not self._heard_since(since_s):
            # A broker may give nothing to wildcards: what it has it answers now. Of one that came
            # back empty nothing is answered, and all of a large fleet would be in the way of other
            # requests for an hour: of some each, others the next time.
            step = -(-len(unheard) // MOST_AT_ONCE)
            source.request_retained(unheard[self._attempts % step :: step])
            self._attempts += 1
            await self._wait(source, lambda: bool(self._heard_since(since_s)))
        for first in range(0, len(unheard), MOST_AT_ONCE):
            left = unheard[first : first + MOST_AT_ONCE]
            for _ in range(ROUNDS):
                left = self._unheard(left, since_s)
                left = _without(left, source.status)
                if left and not await self._ask(source, left, since_s):
                    return None
            gone += left
        if any(
            len(connection.refused_topics) >= MOST_REFUSED_TOPICS
            for connection in _connections(source.status)
        ):
            # Some may be missing there.
            return None
        return _without(self._unheard(gone, since_s), source.status)

    def _tell_unknown(
        self, status: LinkStatus, connects: int, since_s: float, report: Callable[[str], None]
    ) -> None:
        """Report and log, once a connection, the number of topics with unknown state."""
        refused = set[str]().union(
            *(connection.refused_topics for connection in _connections(status))
        )
        unknown = self._unheard(refused, since_s)
        if not unknown or self._told == connects:
            return
        self._told = connects
        first = min(unknown)
        log.warning("relay_retained_unknown", topics=sorted(unknown)[:3], count=len(unknown))
        report(
            f"{status.broker} refuses the subscription to {counted(len(unknown), 'retained topic')}"
            f" that did not come again, such as {plain(first)}: what was cleared there meanwhile"
            " stays as last known"
        )

    async def _ask(self, source: Source, topics: list[str], since_s: float) -> bool:
        """Request topics, and return whether the broker has answered them."""
        known = _without(self._heard_since(since_s), source.status)
        if not known:
            return False
        self._attempts += 1
        proof = self._proof = known[self._attempts % len(known)]
        left = self._unheard(topics, since_s)
        source.request_retained([*left, proof])
        is_over = await self._wait(
            source, lambda: not self._proof or not _without([proof], source.status)
        )
        is_proved = is_over and not self._proof
        self._proof = ""
        return is_proved

    async def _wait(self, source: Source, is_so: Callable[[], bool]) -> bool:
        """Wait for a condition on the present connection, for a limited time.

        Return whether it is met.
        """
        connects = source.status.connects
        for _ in range(round(ANSWER_S / PERIOD_S)):
            await self._clock.sleep(PERIOD_S)
            if source.status.connects != connects or is_so():
                break
        return source.status.connects == connects and is_so()

    def _heard_since(self, since_s: float) -> list[str]:
        return [topic for topic, at_s in self._heard.items() if at_s >= since_s]

    def _unheard(self, topics: Iterable[str], since_s: float) -> list[str]:
        return [topic for topic in topics if self._is_unheard(topic, since_s)]

    def _is_unheard(self, topic: str, since_s: float) -> bool:
        return self._heard.get(topic, since_s) < since_s


def _connections(status: LinkStatus) -> tuple[LinkStatus, ...]:
    return status.parts or (status,)


def _without(topics: list[str], status: LinkStatus) -> list[str]:
    """Return the topics without refused subscriptions."""
    refused = set[str]().union(*(connection.refused_topics for connection in _connections(status)))
    return [topic for topic in topics if topic not in refused] if refused else topics


class Taps:
    """Several consumers of a source's batches."""

    def __init__(self, *takers: Taker) -> None:
        self._takers = takers

    def take(self, batch: Sequence[Envelope]) -> None:
        """Pass a batch on to each."""
        for taker in self._takers:
            taker.take(batch)


class Relay(Protocol):
    """A relay, as far as it matters here."""

    @property
    def turn(self) -> int:
        """How often it has become active."""

    @property
    def knows_cell(self) -> bool:
        """Whether state left only on the top broker is over."""

    async def clear_ended_of(self, retained: Iterable[Envelope]) -> None:
        """Clear messages on the top broker missing in its cell."""


async def clear_ended(service: Relay, top: BrokerSession, fleet: str, hearing: LinkStatus) -> None:
    """Clear the cell's former state on the top broker until cancelled.

    It is compared each time the relay becomes active.

    Args:
        service: The relay.
        top: The top broker.
        fleet: The fleet's name.
        hearing: Status of the connection for the cell's jobs and reservations.
    """
    turn = 0
    while True:
        await top.clock.sleep(PERIOD_S)
        is_heard = hearing.connected and top.clock.monotonic_s() - hearing.changed_s >= SETTLED_S
        if service.turn == turn or not is_heard or not service.knows_cell:
            continue
        turn = service.turn
        source = top.source(
            [(build_filter(fleet, topic_class, top.root), 1) for topic_class in _MESSAGES]
        )
        try:
            async with background(retained=source.run()):
                await source.wait_connected(CONNECT_LIMIT_S)
                retained = await retained_of(source)
        except BrokerError as error:
            log.warning("relay_top_unread", error=str(error))
            continue
        await service.clear_ended_of(retained)


async def retained_of(source: Source) -> list[Envelope]:
    """Return the retained messages of a new connection.

    Messages published meanwhile are left out, as they go on.
    """
    newest: dict[str, Envelope] = {}
    size_bytes = 0
    try:
        async with asyncio.timeout(READ_S):
            while size_bytes < MOST_READ_BYTES:
                for envelope in await source.take():
                    newest.pop(envelope.topic, None)
                    if envelope.retain:
                        newest[envelope.topic] = envelope
                        size_bytes += memory_bytes(envelope)
    except TimeoutError:
        pass
    return list(newest.values())


def ended_of(
    retained: Iterable[Envelope], known: Iterable[str], layout: Layout, cell: str, root: str
) -> list[Envelope]:
    """Return messages that clear a cell's retained messages missing among its own.

    Args:
        retained: Jobs and reservations on the top broker.
        known: Topics of the cell's own state.
        layout: The cell's described hardware.
        cell: Name of the cell.
        root: First part of the topics.
    """
    own = frozenset(known)
    cleared = []
    for envelope in retained:
        if envelope.topic in own:
            continue
        try:
            kind = _MESSAGES[parse_topic(envelope.topic, root).topic_class]
            places = decode_message(envelope.payload, kind).on
        except (WireError, KeyError):
            continue
        origin = cell_of(envelope.payload)
        if origin == cell or (
            not origin and places and all(_is_of_cell(place, layout) for place in places)
        ):
            cleared.append(Envelope(envelope.topic, b"", qos=1, retain=True))
    return cleared


def _is_of_cell(place: str, layout: Layout) -> bool:
    """Return whether a place is the cell's alone.

    Other cells may have a part of a cluster, and of its standalone instances.
    """
    begin = place.partition("..")[0]
    is_shared = begin.count("/") + 1 < Level.ULTRASERVER or begin.endswith(f"/{STANDALONE}")
    return not is_shared and layout.find_instances(place) is not None
