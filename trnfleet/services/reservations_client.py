"""Published reservations of a fleet, and the offerings in a simulator's reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from trnfleet.errors import BrokerError, WireError
from trnfleet.services.discovery import find_fleet
from trnfleet.services.session import QUIET_S, BatchReader
from trnfleet.tasks import background
from trnfleet.wire.messages import decode_message
from trnfleet.wire.reservations import OfferingSpec, ReservationMessage
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from trnfleet.services.session import BrokerSession
    from trnfleet.services.simulator.client import Reply

MOST_WAIT_S = 5.0
"""Longest wait for retained messages."""


async def read_reservations(
    session: BrokerSession, name: str | None, *, timeout_s: float
) -> list[ReservationMessage]:
    """Return the retained reservations of a fleet, by their end.

    Args:
        session: The broker.
        name: The fleet's name; None for the broker's only one.
        timeout_s: Longest wait for the connection.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: the broker has several fleets and none is named.
    """
    fleet = await find_fleet(session, name)
    source = session.source([(build_filter(fleet, TopicClass.RESERVATION, session.root), 1)])
    newest: dict[str, ReservationMessage] = {}
    async with background(reservations=source.run()):
        await source.wait_connected(timeout_s)
        reader = BatchReader(source, session.clock, limit_s=MOST_WAIT_S, quiet_s=QUIET_S)
        while batch := await reader.next():
            for envelope in batch:
                try:
                    message = decode_message(envelope.payload, ReservationMessage)
                except WireError:
                    continue
                if envelope.topic.endswith(f"/{message.id}"):
                    newest[message.id] = message
    return sorted(
        newest.values(), key=lambda message: (message.end or "9", message.start, message.id)
    )


def offerings_of(reply: Reply) -> list[OfferingSpec]:
    """Return the offerings in a reply.

    Raises:
        BrokerError: it has none, or an invalid one.
    """
    try:
        offerings = [
            OfferingSpec.model_validate(offering)
            for offering in reply.result.get("offerings") or ()
        ]
    except (ValidationError, TypeError) as error:
        raise BrokerError(f"{reply.simulator}: its answer has invalid offerings") from error
    if not offerings:
        raise BrokerError(f"{reply.simulator}: its answer has no offerings")
    return offerings
