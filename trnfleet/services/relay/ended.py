"""Jobs and reservations of a cell that are left only on the top broker.

They were cleared in the cell while none of its relays ran. They name their cell of origin. A relay
from before that field did not name it. Then their places decide: all must be among the cell's
descriptors, and none may be a whole cluster or its standalone instances, because other cells may
have a part of them.
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
from trnfleet.wire.messages import JobMessage, cell_of, decode_message
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
"""Time for which the top broker is read. Retained messages come first."""
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
        """Whether state left only on the top broker is over."""

    async def clear_ended_of(self, found: Iterable[Envelope]) -> None:
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
        await top.clock.sleep(LOOK_EVERY_S)
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
    size = 0
    try:
        async with asyncio.timeout(READ_S):
            while size < MOST_READ_BYTES:
                for envelope in await source.take():
                    newest.pop(envelope.topic, None)
                    if envelope.retain:
                        newest[envelope.topic] = envelope
                        size += len(envelope.payload)
    except TimeoutError:
        pass
    return list(newest.values())


def ended_of(
    found: Iterable[Envelope], known: Iterable[str], layout: Layout, cell: str, root: str
) -> list[Envelope]:
    """Return messages that clear a cell's retained messages missing among its own.

    Args:
        found: Jobs and reservations on the top broker.
        known: Topics of the cell's own state.
        layout: The cell's described hardware.
        cell: Name of the cell.
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
