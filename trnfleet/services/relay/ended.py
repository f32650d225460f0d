"""Jobs and reservations of a cell that only the top broker has, because they were cleared in the cell while none of its relays ran.

Their topics do not say of which cell they are, so that their places do: all have to be among what the cell describes,
and none a whole cluster or the standalone instances of one, of which other cells may have a part.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from trnfleet import logs
from trnfleet.domain.address import STANDALONE, Level
from trnfleet.errors import BrokerError, WireError
from trnfleet.services.relay.alerts import SETTLED_S
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.tasks import background
from trnfleet.wire.messages import JobMessage, decode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.layout import Layout
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import LinkStatus, Source

log = logs.get_logger(__name__)

READ_S = 5.0
"""Time for which the top broker is read: what it retains comes first."""
LOOK_EVERY_S = 1.0
MOST_READ_BYTES = 64 * 2**20
"""Payload that is read of it at most."""
_MESSAGES: dict[TopicClass, type[JobMessage | ReservationMessage]] = {
    TopicClass.JOB: JobMessage,
    TopicClass.RESERVATION: ReservationMessage,
}


class Relay(Protocol):
    """A relay, as far as it matters here."""

    @property
    def turn(self) -> int:
        """How often it has become active."""

    @property
    def knows_cell(self) -> bool:
        """Whether what only the top broker has is over."""

    async def clear_ended_of(self, found: Iterable[Envelope]) -> None:
        """Clear those of some messages on the top broker that are of its cell, and that this does not have."""


async def clear_ended(service: Relay, top: BrokerSession, fleet: str, hearing: LinkStatus) -> None:
    """Look on the top broker, each time that the relay has become active, and clear what its cell does not have any more, until cancelled.

    Args:
        service: The relay.
        top: The top broker.
        fleet: The fleet's name.
        hearing: Of the connection over which jobs and reservations of the cell come.
    """
    turn = 0
    while True:
        await top.clock.sleep(LOOK_EVERY_S)
        is_heard = hearing.connected and top.clock.monotonic_s() - hearing.changed_s >= SETTLED_S
        if service.turn == turn or not is_heard or not service.knows_cell:
            continue
        turn = service.turn
        source = top.source([(build_filter(fleet, each, top.root), 1) for each in _MESSAGES])
        try:
            async with background(retained=source.run()):
                await source.wait_connected(CONNECT_LIMIT_S)
                found = await retained_of(source)
        except BrokerError as error:
            log.warning("relay_top_unread", error=str(error))
            continue
        await service.clear_ended_of(found)


async def retained_of(source: Source) -> list[Envelope]:
    """Return what a broker retains on a connection that has just been made, without what is published meanwhile: that goes on."""
    found: dict[str, Envelope] = {}
    size = 0
    try:
        async with asyncio.timeout(READ_S):
            while size < MOST_READ_BYTES:
                for envelope in await source.take():
                    found.pop(envelope.topic, None)
                    if envelope.retain:
                        found[envelope.topic] = envelope
                        size += len(envelope.payload)
    except TimeoutError:
        pass
    return list(found.values())


def ended_of(
    found: Iterable[Envelope], known: Iterable[str], layout: Layout, root: str
) -> list[Envelope]:
    """Return what clears those of some retained messages that are of a cell and not among its own.

    Args:
        found: Jobs and reservations on the top broker.
        known: Topics of what the cell has.
        layout: What the cell describes.
        root: First part of the topics.
    """
    own = frozenset(known)
    cleared = []
    for envelope in found:
        if envelope.topic in own:
            continue
        try:
            kind = _MESSAGES[parse_topic(envelope.topic, root).topic_class]
            places = decode_message(envelope.payload, kind).on
        except (WireError, KeyError):
            continue
        if places and all(_is_of_cell(each, layout) for each in places):
            cleared.append(Envelope(envelope.topic, b"", qos=1, retain=True))
    return cleared


def _is_of_cell(place: str, layout: Layout) -> bool:
    """Return whether a place is the cell's alone: of a cluster, and of its standalone instances, other cells may have a part."""
    begin = place.partition("..")[0]
    is_shared = begin.count("/") + 1 < Level.ULTRASERVER or begin.endswith(f"/{STANDALONE}")
    return not is_shared and layout.find_instances(place) is not None
