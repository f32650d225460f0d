"""Commands to a running simulator: sent once, and waited for until somebody answers.

Owns the asking side of `command/` and `reply/`. What an answer says comes from the wire, and is made plain text here.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.cli.options import user_name
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import BrokerError, WireError
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.messages import CommandMessage, ReplyMessage, decode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import TopicClass, build_topic, command_path, reply_path

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Source

CONNECT_LIMIT_S = 10.0
OTHERS_S = 0.3
"""How long other simulators of the fleet are waited for after the first answer; they got the command at the same time."""
MOST_ANSWERS = 64
LONGEST_REASON = 500


class Answer(NamedTuple):
    """What one simulator says to a command; all text is plain."""

    simulator: str
    """The simulator's client id; `unnamed` where it does not tell."""
    ok: bool
    reason: str
    """What was done, or why nothing was."""
    result: dict[str, Any]
    """As it came: its strings are not for the screen before they have been through `plain`."""


class Request(NamedTuple):
    """What is asked for."""

    action: str
    target: str = ""
    args: dict[str, str | float | bool | None] = {}  # noqa: RUF012  nobody writes to it


async def ask(
    url: BrokerUrl,
    fleet: str,
    request: Request,
    *,
    root: str,
    password: Password | None,
    timeout_s: float,
    clock: Clock,
) -> list[Answer]:
    """Send a command to the simulators of a fleet and return what they answer: one answer or more.

    The command expires when nobody waits for it any more, so that it is not carried out after its failure was told.

    Raises:
        BrokerError: the broker cannot be reached or refuses the subscription, or nobody answers in time.
    """
    client, command_id = f"trnfleet-ask-{secrets.token_hex(6)}", secrets.token_hex(8)
    reply = build_topic(fleet, TopicClass.REPLY, reply_path(client, command_id), root)
    source = MqttSource(url, [(reply, 1)], password=password, clock=clock)
    publisher = MqttPublisher(url, client_id=client, password=password, clock=clock)
    async with background(replies=source.run(), command=publisher.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        await publisher.wait_connected(CONNECT_LIMIT_S)
        command = CommandMessage(
            id=command_id,
            client=client,
            action=request.action,
            target=request.target,
            args=request.args,
            expires=format_rfc3339(clock.wall_ns() + round(timeout_s * NS_PER_S)),
            # For the simulator's log; empty where the system knows none.
            by=user_name(""),
        )
        topic = build_topic(fleet, TopicClass.COMMAND, command_path(request.target), root)
        payload = command.model_dump_json().encode()
        await publisher.publish([Envelope(topic, payload, qos=1, content_type=CONTENT_TYPE_JSON)])
        if not publisher.status.sent:
            why = publisher.status.last_error or "the broker did not take the command"
            raise BrokerError(f"broker {url}: {why}")
        answers = await _collect(source, reply, command_id, timeout_s, clock)
    if not answers:
        raise BrokerError(
            f"{url}: no simulator of fleet {fleet!r} answered within {timeout_s:g} s; is `trnfleet simulate` running there?"
        )
    return answers


async def _collect(
    source: Source, topic: str, command_id: str, timeout_s: float, clock: Clock
) -> list[Answer]:
    """Return the answers of all who answer at about the same time as the first."""
    answers: list[Answer] = []
    deadline_s = clock.monotonic_s() + timeout_s
    while len(answers) < MOST_ANSWERS and (left_s := deadline_s - clock.monotonic_s()) > 0:
        try:
            batch = await asyncio.wait_for(source.take(), left_s)
        except TimeoutError:
            break
        for envelope in batch:
            answer = read_answer(envelope, topic, command_id)
            if answer is not None and len(answers) < MOST_ANSWERS:
                if not answers:
                    deadline_s = min(deadline_s, clock.monotonic_s() + OTHERS_S)
                answers.append(answer)
    return answers


def read_answer(envelope: Envelope, topic: str, command_id: str) -> Answer | None:
    """Return the answer in an envelope, or None where it is none to this command."""
    if envelope.topic != topic or envelope.retain:
        return None
    try:
        reply = decode_message(envelope.payload, ReplyMessage)
    except WireError:
        return None
    if reply.id != command_id:
        return None
    simulator = reply.result.get("simulator")
    name = plain(simulator, 64) if isinstance(simulator, str) else "unnamed"
    return Answer(name, reply.ok, plain(reply.reason, LONGEST_REASON), reply.result)
