"""Connection of an operator, who acknowledges and silences alerts."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.services.read_back import ReadBackPublisher
from trnfleet.services.session import LONGEST_USER, user_name

if TYPE_CHECKING:
    from trnfleet.services.brokers.merged import RunningPublisher
    from trnfleet.services.brokers.session import FleetSession
    from trnfleet.services.session import BrokerSession


class OperatorConnection(NamedTuple):
    """The writer of acknowledgements and silences, and the connection that must run for it."""

    operator: OperatorActions
    publisher: RunningPublisher


def connect_operator(
    session: FleetSession, fleet: str, *, owner: str | None, reads_back_from: BrokerSession | None = None
) -> OperatorConnection:
    """Return the writer of acknowledgements and silences of a fleet; the caller runs its connection.

    Args:
        session: The broker, or the brokers, to all of which is written.
        fleet: The fleet's name.
        owner: The operator's name; by default the user's.
        reads_back_from: The broker from which to read back what is written, where it cannot refuse it; None for an app, which
            has a monitor that shows it.
    """
    publisher = session.publisher(f"trnfleet-desk-{secrets.token_hex(6)}")
    writer = ReadBackPublisher(reads_back_from, publisher) if reads_back_from else publisher
    operator = OperatorActions(fleet, publisher=writer, owner=operator_name(owner), root=session.root)
    return OperatorConnection(operator, publisher)


def operator_name(owner: str | None) -> str:
    """Return the name under which an operator writes: the given one, or the user's."""
    return (owner or user_name("somebody"))[:LONGEST_USER]
