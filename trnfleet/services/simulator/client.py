"""Requests to a running simulator: commands with their replies, and its reservations.

The topics of commands are `command/` and `reply/`. The text of a reply comes from the wire and is
made plain here.
"""

from __future__ import annotations

import math
import secrets
from typing import Any, NamedTuple

import msgspec

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import BrokerError, WireError
from trnfleet.services.discovery import find_fleet
from trnfleet.services.session import (
    CONNECT_LIMIT_S,
    QUIET_S,
    READ_S,
    BatchReader,
    BrokerSession,
    user_name,
)
from trnfleet.tasks import background
from trnfleet.text import LONGEST_LINE, plain
from trnfleet.wire.messages import CommandMessage, ReplyMessage, decode_message, encode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, MessageProperties
from trnfleet.wire.reservations import OfferingSpec, ReservationMessage
from trnfleet.wire.topics import TopicClass, build_filter, build_topic, command_path, reply_path

Arguments = dict[str, str | float | bool | None]


class Reply(NamedTuple):
    """The reply of one simulator to a command; all text is plain."""

    simulator: str
    """The simulator's client id; `unnamed` where the reply lacks it."""
    ok: bool
    reason: str
    """The action carried out, or the reason for none."""
    result: dict[str, Any]
    """As received: its strings are not for the screen before they have been through `plain`."""


class Command(NamedTuple):
    """A command to a simulator."""

    action: str
    target: str = ""
    args: Arguments = {}  # noqa: RUF012  it is never written to


async def send_command(
    session: BrokerSession, name: str | None, command: Command, *, timeout_s: float
) -> list[Reply]:
    """Send a command to the simulators of a fleet and return their replies.

    There is at least one reply. The command expires with the wait for replies, so it is not carried
    out after its failure was reported.

    Args:
        session: The broker.
        name: The fleet's name; None for the broker's only one.
        command: The command.
        timeout_s: Longest wait for the first reply.

    Raises:
        BrokerError: the broker cannot be reached or refuses command or subscription, or there is no
            reply in time.
        ConfigError: the broker has several fleets and none is named.
    """
    clock = session.clock
    root = session.root
    fleet = await find_fleet(session, name)
    client = f"trnfleet-ask-{secrets.token_hex(6)}"
    command_id = secrets.token_hex(8)
    reply_topic = build_topic(fleet, TopicClass.REPLY, reply_path(client, command_id), root)
    source = session.source([(reply_topic, 1)])
    publisher = session.publisher(client)
    async with background(replies=source.run(), command=publisher.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        await publisher.wait_connected(CONNECT_LIMIT_S)
        message = CommandMessage(
            id=command_id,
            client=client,
            action=command.action,
            target=command.target,
            args=command.args,
            expires=format_rfc3339(clock.wall_ns() + round(timeout_s * NS_PER_S)),
            # For the simulator's log; empty where the system has no name.
            by=user_name(""),
        )
        topic = build_topic(fleet, TopicClass.COMMAND, command_path(command.target), root)
        payload = encode_message(message)
        # A broker that holds the command back lets it go with its time.
        properties = MessageProperties(
            response_topic=reply_topic,
            correlation=command_id.encode(),
            expiry_s=math.ceil(timeout_s),
        )
        command_message = Envelope(
            topic, payload, qos=1, content_type=CONTENT_TYPE_JSON, properties=properties
        )
        result = await publisher.publish([command_message])
        if result.unsent:
            raise BrokerError(f"broker {session.url}: {result.error}")
        reader = BatchReader(source, clock, limit_s=timeout_s)
        replies = await collect_replies(reader, reply_topic, command_id)
    if not replies:
        raise BrokerError(
            f"{session.url}: no simulator of fleet {fleet!r} answered within {timeout_s:g} s; "
            "is `trnfleet simulate` running there?"
        )
    return replies


async def collect_replies(reader: BatchReader, topic: str, command_id: str) -> list[Reply]:
    """Return the first reply to a command and the ones right after it."""
    replies: list[Reply] = []
    while batch := await reader.next():
        for envelope in batch:
            reply = read_reply(envelope, topic, command_id)
            if reply is not None:
                if not replies:
                    reader.shorten(QUIET_S)
                replies.append(reply)
    return replies


def read_reply(envelope: Envelope, topic: str, command_id: str) -> Reply | None:
    """Return the reply in an envelope, or None where it is none to this command."""
    if envelope.topic != topic or envelope.retain:
        return None
    try:
        message = decode_message(envelope.payload, ReplyMessage)
    except WireError:
        return None
    if message.id != command_id:
        return None
    simulator = message.result.get("simulator")
    name = plain(simulator, 64) if isinstance(simulator, str) else "unnamed"
    return Reply(name, message.ok, plain(message.reason, LONGEST_LINE), message.result)


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
        reader = BatchReader(source, session.clock, limit_s=READ_S, quiet_s=QUIET_S)
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
        offerings = msgspec.convert(reply.result.get("offerings") or [], list[OfferingSpec])
    except msgspec.ValidationError as error:
        raise BrokerError(f"{reply.simulator}: its answer has invalid offerings") from error
    if not offerings:
        raise BrokerError(f"{reply.simulator}: its answer has no offerings")
    return offerings
