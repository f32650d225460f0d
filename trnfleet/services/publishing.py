"""Messages that a broker refuses or does not acknowledge: a failure, at once where nothing is taken, else at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError
from trnfleet.transport.connection import UNACKNOWLEDGED

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.wire.ports import LinkStatus

CHECK_EVERY_S = 0.1
"""Time between two looks at the counts."""
ALL_REFUSED = 2
"""Refused messages after which a publisher of which nothing was taken ends: its presence, and what it is there for."""


async def fail_if_all_refused(status: LinkStatus, clock: Clock) -> None:
    """Wait until cancelled, or until it shows that the broker takes nothing. What it refuses is in the log at once.

    Raises:
        BrokerError: the broker has acknowledged nothing, and refused messages or let the time for an answer pass.
    """
    while status.acknowledged or (status.refused < ALL_REFUSED and not status.unacknowledged):
        await clock.sleep(CHECK_EVERY_S)
    if status.refused < ALL_REFUSED:
        raise BrokerError(f"{status.broker}: nothing is published: {UNACKNOWLEDGED}")
    raise BrokerError(f"{status.broker}: nothing is published: {status.last_refusal}")


def raise_if_refused(status: LinkStatus) -> None:
    """Raise where any message was refused.

    Raises:
        BrokerError: the number of refused messages, and the last with its reason.
    """
    if status.refused:
        messages = "1 message was" if status.refused == 1 else f"{status.refused:,} messages were"
        raise BrokerError(f"{status.broker}: {messages} refused; the last: {status.last_refusal}")
