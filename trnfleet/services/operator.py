"""Connections of an operator, for acks, silences and requests to relays on a top broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import BrokerError
from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.services.read_back import ReadBackPublisher
from trnfleet.services.session import CONNECT_LIMIT_S, LONGEST_USER, BrokerSession, user_name
from trnfleet.tasks import GOODBYE_S, POLL_S, background, preserve_cancellation
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.sources.leases import Leases
    from trnfleet.services.brokers import FleetSession, RunningPublisher, RunningSource


class OperatorConnection(NamedTuple):
    """The writer of acknowledgements and silences, and its connection, to be run with it."""

    operator: OperatorActions
    publisher: RunningPublisher


def connect_operator(
    session: FleetSession,
    fleet: str,
    *,
    owner: str | None,
    reads_back_from: BrokerSession | None = None,
) -> OperatorConnection:
    """Return the writer of a fleet's acknowledgements and silences.

    The caller runs its connection.

    Args:
        session: The broker, or the brokers; all of them are written to.
        fleet: The fleet's name.
        owner: The operator's name; by default the user's.
        reads_back_from: The broker from which to read back what is written, where it cannot refuse
            it; None for an app, which has a monitor that shows it.
    """
    publisher = session.publisher(f"trnfleet-desk-{os.urandom(6).hex()}")
    writer = ReadBackPublisher(reads_back_from, publisher) if reads_back_from else publisher
    operator = OperatorActions(
        fleet, publisher=writer, owner=operator_name(owner), root=session.root
    )
    return OperatorConnection(operator, publisher)


def operator_name(owner: str | None) -> str:
    """Return the operator's name: the given one, or the user's."""
    return (owner or user_name("somebody"))[:LONGEST_USER]


async def hold_leases(session: FleetSession, monitor: Monitor, leases: Leases) -> None:
    """Request leases, renew them and return them until cancelled.

    Connections are made only once a lease is wanted.

    Args:
        session: The broker, or the brokers.
        monitor: The fleet's monitor, for the chips received.
        leases: The wanted leases.
    """
    await leases.wanted.wait()
    publisher = session.publisher(leases.client)
    path = build_topic(monitor.fleet_name, TopicClass.REPLY, f"{leases.client}/#", session.root)
    replies = session.source([(path, 1)])
    async with background(lease_commands=publisher.run(), lease_replies=replies.run()):
        await _wait_connected(publisher, replies, leases, monitor.clock)
        async with background(read_replies=_read(replies, leases)):
            try:
                while True:
                    await _send(publisher, monitor, leases)
                    with contextlib.suppress(TimeoutError):
                        await preserve_cancellation(asyncio.wait_for(leases.wanted.wait(), POLL_S))
            finally:
                goodbye = leases.leave_all(monitor.clock.wall_ns())
                if goodbye:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(GOODBYE_S):
                            await publisher.publish(goodbye)


async def _wait_connected(
    publisher: RunningPublisher, replies: RunningSource, leases: Leases, clock: Clock
) -> None:
    """Wait until both connections are up.

    Report to the leases why they are not.
    """
    while True:
        try:
            await replies.wait_connected(CONNECT_LIMIT_S)
            await publisher.wait_connected(CONNECT_LIMIT_S)
        except BrokerError as error:
            leases.fail(str(error))
            await clock.sleep(POLL_S)
        else:
            return


async def _send(publisher: RunningPublisher, monitor: Monitor, leases: Leases) -> None:
    def has_chips(row: str) -> bool:
        layout = monitor.store.layout
        node = layout.find(row)
        return node is not None and not layout.is_rolled_up(node)

    commands = leases.due(monitor.clock.monotonic_s(), monitor.clock.wall_ns(), has_chips)
    if commands:
        result = await publisher.publish(commands)
        if result.unsent:
            leases.fail(result.error)


async def _read(replies: RunningSource, leases: Leases) -> None:
    while batch := await replies.take():
        for envelope in batch:
            leases.take(envelope)
