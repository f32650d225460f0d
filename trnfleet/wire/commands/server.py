"""Commands to a running program: permissions, rate limits and answers.

Owns every check between a topic and an action. It answers on `reply/` alone, and no input can stop
it, fill memory or reach a log raw. It knows no broker; the effect of a command is behind `Actions`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock, format_rfc3339, parse_rfc3339
from trnfleet.errors import ConfigError, WireError, nearest
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    CommandMessage,
    Name,
    ReplyMessage,
    decode_message,
    encode_message,
)
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, MessageProperties, Publisher, Source
from trnfleet.wire.topics import (
    DEFAULT_ROOT,
    TopicClass,
    build_filter,
    build_topic,
    covers,
    parse_topic,
    reply_path,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


CLIENT_RATE = (2.0, 20)
"""Commands a second of one client, and at once; users and scripts need less."""
TOTAL_RATE = (4.0, 60)
"""Commands a second of all clients, and at once. Rate refusals get answers at this rate, too;
further ones are only counted, so that a flood causes no flood of replies."""
MOST_CLIENTS = 1_024
"""Most buckets. The least recently used is dropped first; its client then begins with a full one.
"""
READ_RATE = (100.0, 200)
"""Payloads parsed a second to find the client, and at once. At 16 KiB each far below one percent of
a core."""


class TokenBucket:
    """Tokens refilled at a rate, up to a burst."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """Return the time until a token is there; 0 where one is."""
        if self._filled_s is not None:
            passed_s = max(0.0, now_s - self._filled_s)
            self._tokens = min(self._burst, self._tokens + passed_s * self._rate_per_s)
        self._filled_s = now_s
        return max(0.0, (1.0 - self._tokens) / self._rate_per_s)

    def take(self, now_s: float) -> bool:
        """Take a token; return whether there was one."""
        if self.wait_s(now_s) > 0.0:
            return False
        self._tokens -= 1.0
        return True


class CommandRates:
    """The rate limits of the commands to one program."""

    def __init__(self) -> None:
        self.read = TokenBucket(*READ_RATE)
        """Payloads parsed."""
        self.answered = TokenBucket(*TOTAL_RATE)
        """Refusals for the rate that are answered."""
        self._totals = {changes: TokenBucket(*TOTAL_RATE) for changes in (False, True)}
        self._clients: OrderedDict[str, TokenBucket] = OrderedDict()

    def refusal(self, client: str, now_s: float, *, changes: bool) -> str:
        """Use a token for a command; return the reason if there is none, else empty.

        Args:
            client: The sender named by the command.
            now_s: Monotonic seconds.
            changes: Whether the command may change something.
        """
        own = self._clients.get(client)
        if own is None:
            own = self._clients[client] = TokenBucket(*CLIENT_RATE)
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(client)
        total = self._totals[changes]
        own_wait_s = own.wait_s(now_s)
        total_wait_s = total.wait_s(now_s)
        if own_wait_s > 0.0:
            return _reason("one client", *CLIENT_RATE, own_wait_s)
        if total_wait_s > 0.0:
            return _reason("all clients together", *TOTAL_RATE, total_wait_s)
        own.take(now_s)
        total.take(now_s)
        return ""


def _reason(whose: str, rate_per_s: float, burst: int, wait_s: float) -> str:
    return (
        f"more than {rate_per_s:g} commands a second (bursts of {burst}) of {whose}; "
        f"try again in {wait_s:.1f} s"
    )


log = logs.get_logger(__name__)

MAX_COMMAND_BYTES = 16_384
"""Every field of a command at its longest fits into it."""
LONGEST_EXPIRY_S = 3_600.0
"""Longest validity of an accepted command. A recorded command could be sent again for as long."""
REMEMBERED = 16_384
"""Ids remembered. More than `TOTAL_RATE` allows within `LONGEST_EXPIRY_S`, so
that no changing command is forgotten before it has expired."""
LONGEST_REASON = 500
"""Characters of a reply's reason."""
LOGGED_OF_A_KIND = 20
"""Dropped commands of a kind logged singly; later, one in this number is logged."""


class Actions(Protocol):
    """Actions of a program available to commands."""

    @property
    def arguments(self) -> Mapping[str, tuple[str, ...]]:
        """Every action with the names of its arguments."""

    @property
    def harmless(self) -> Collection[str]:
        """Actions that change nothing, carried out without permission."""

    @property
    def how_to_allow(self) -> str:
        """Answer to a changing command if none is allowed."""

    def concerns(self, action: object, target: object) -> bool:
        """Return whether a command is for this program.

        Other commands are neither counted nor answered.

        Args:
            action: The command's value of this field, of any type.
            target: Likewise.
        """

    def carry_out(self, command: CommandMessage) -> tuple[str, dict[str, Any]]:
        """Carry out a checked command, and return at once.

        Return an answer of one line, and the result as JSON values.

        Raises:
            ConfigError: it cannot be done; the message is the answer.
        """


@dataclass(slots=True)
class CommandCounts:
    """Outcomes of commands; all only grow."""

    carried_out: int = 0
    refused: int = 0
    """Answered with a reason why nothing was done."""
    failed: int = 0
    """Ended by a bug; the log has the error."""
    retained: int = 0
    """Retained messages: their age is unknown, so they are no requests any more."""
    repeated: int = 0
    """Had been dealt with before; neither carried out nor answered again."""
    flooded: int = 0
    """Above the rate limit; answered with the reason, within the rate of answers."""
    oversize: int = 0
    undecodable: int = 0
    """Sender unknown from both topic and payload."""


class CommandSender(msgspec.Struct, frozen=True):
    """The sender of a command: enough to answer an otherwise invalid command."""

    id: Name
    client: Name
    action: Any = None
    target: Any = ""


class _ReplyTo(NamedTuple):
    """The topic of a reply, and its properties."""

    topic: str
    properties: MessageProperties | None = None


class _CommandRefused(Exception):  # noqa: N818  it is an answer more than an error
    """A refused command; its text is the reason."""


class CommandServer:
    """The commands of one fleet to one program: checks, rate limits and answers."""

    def __init__(
        self,
        actions: Actions,
        fleet: str,
        *,
        allowed: bool,
        names: Mapping[str, str],
        root: str = DEFAULT_ROOT,
        limits: Limits = DEFAULT_LIMITS,
        answers: bool = True,
    ) -> None:
        """Prepare for the commands of one fleet.

        Args:
            actions: Carries them out.
            fleet: Its name.
            allowed: Whether any is carried out that changes something.
            names: Who answers, as every reply's result has it.
            root: First part of the topics.
            limits: Of replies.
            answers: Whether replies are sent; of several programs that do the same one answers for
                all.
        """
        self.counts = CommandCounts()
        self._actions = actions
        self._fleet = fleet
        self._allowed = allowed
        self._names = dict(names)
        self._root = root
        self._limits = limits
        self._command_limits = replace(
            limits, payload_bytes=min(MAX_COMMAND_BYTES, limits.payload_bytes)
        )
        self._answers = answers
        self.seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Clients and ids of the latest possibly changing commands, `REMEMBERED` at most."""
        self._rates = CommandRates()

    def filters(self) -> list[tuple[str, int]]:
        """Return the (filter, QoS) pairs of a source for these commands."""
        return [(build_filter(self._fleet, TopicClass.COMMAND, self._root), 1)]

    def handle(self, envelope: Envelope, wall_ns: int) -> list[Envelope]:
        """Handle one message: carry out an allowed command, and return the replies to publish.

        Args:
            envelope: As received; `received_s` is the clock of the rate.
            wall_ns: Wall clock, for expiry.
        """
        if envelope.retain:
            self._drop("retained", envelope, "retained commands are ignored")
            return []
        if len(envelope.payload) > self._command_limits.payload_bytes:
            self._drop("oversize", envelope, f"{len(envelope.payload)} bytes")
            return []
        if not self._rates.read.take(envelope.received_s):
            self._drop("flooded", envelope, f"more than {READ_RATE[0]:g} messages a second")
            return []
        try:
            path = self._path(envelope.topic)
            asker = decode_message(envelope.payload, CommandSender, self._command_limits)
        except WireError as error:
            self._drop("undecodable", envelope, str(error))
            return []
        if not self._actions.concerns(asker.action, asker.target):
            return []
        changes = not (isinstance(asker.action, str) and asker.action in self._actions.harmless)
        to = self._usual_reply(asker)
        wrong = ""
        try:
            to = self._reply_to(asker, envelope.properties)
        except WireError as error:
            wrong = str(error)
        refusal = self._rates.refusal(asker.client, envelope.received_s, changes=changes)
        if refusal:
            self._drop("flooded", envelope, f"client {asker.client}: {refusal}")
            return (
                self._answer(to, asker, False, refusal, {})
                if self._rates.answered.take(envelope.received_s)
                else []
            )
        key = (asker.client, asker.id)
        if key in self.seen:
            self._drop("repeated", envelope, f"id {asker.id} of {asker.client}")
            return []
        if changes:
            self.seen[key] = None
            if len(self.seen) > REMEMBERED:
                self.seen.popitem(last=False)
        if wrong:
            self.counts.refused += 1
            log.warning("command_refused", reason=wrong, client=asker.client, id=asker.id)
            return self._answer(to, asker, False, wrong, {})
        return self._answer(to, asker, *self._deal_with(envelope.payload, path, asker, wall_ns))

    def _usual_reply(self, asker: CommandSender) -> _ReplyTo:
        path = reply_path(asker.client, asker.id)
        return _ReplyTo(build_topic(self._fleet, TopicClass.REPLY, path, self._root))

    def _reply_to(self, asker: CommandSender, properties: MessageProperties | None) -> _ReplyTo:
        """Return where to answer a command.

        Its response topic with its correlation data, if present.

        Raises:
            WireError: the response topic is not one of this fleet's replies. Any client allowed to
                send
                commands could write anywhere with it.
        """
        if properties is None:
            return self._usual_reply(asker)
        correlation = (
            MessageProperties(correlation=properties.correlation)
            if properties.correlation
            else None
        )
        if properties.response_topic is None:
            return self._usual_reply(asker)._replace(properties=correlation)
        try:
            fleet, topic_class, _ = parse_topic(properties.response_topic, self._root)
        except WireError:
            fleet = ""
            topic_class = TopicClass.COMMAND
        if fleet != self._fleet or topic_class is not TopicClass.REPLY:
            where = build_topic(self._fleet, TopicClass.REPLY, "", self._root)
            raise WireError(f"its response topic is not below {where}")
        return _ReplyTo(properties.response_topic, correlation)

    def _path(self, topic: str) -> str:
        """Return the path that a topic names.

        Raises:
            WireError: it is no topic of this fleet's commands.
        """
        fleet, topic_class, path = parse_topic(topic, self._root)
        if fleet != self._fleet or topic_class is not TopicClass.COMMAND:
            raise WireError("not a topic of this fleet's commands")
        return path

    def _deal_with(
        self, payload: bytes, path: str, asker: CommandSender, wall_ns: int
    ) -> tuple[bool, str, dict[str, Any]]:
        """Carry a command out if allowed.

        Return whether it was, an answer of one line, and the result.
        """
        audit = {"client": asker.client, "id": asker.id}
        try:
            command = decode_message(payload, CommandMessage, self._command_limits)
            audit |= {"action": command.action, "target": command.target, "by": command.by}
            self._check(command, path, wall_ns)
            reason, result = self._actions.carry_out(command)
        except (_CommandRefused, ConfigError, WireError) as error:
            self.counts.refused += 1
            log.warning("command_refused", reason=one_line(str(error)), **audit)
            return False, str(error), {}
        except Exception:
            # No command, not even one that finds a bug, stops the program.
            self.counts.failed += 1
            log.exception("command_failed", **audit)
            return False, f"it failed; the reason is in the {next(iter(self._names))}'s log", {}
        self.counts.carried_out += 1
        log.audit("command_carried_out", done=one_line(reason), **audit)
        return True, reason, result

    def _check(self, command: CommandMessage, path: str, wall_ns: int) -> None:
        """Raise if a command is not allowed.

        Raises:
            _CommandRefused: it is not.
        """
        try:
            expires_ns = parse_rfc3339(command.expires)
        except (ValueError, OverflowError):
            raise _CommandRefused(
                "expires is not a time with its zone, such as 2026-01-31T23:59:58Z"
            ) from None
        if expires_ns <= wall_ns:
            raise _CommandRefused(
                f"it expired at {format_rfc3339(expires_ns)}, and here it is"
                f" {format_rfc3339(wall_ns)}; compare the clocks of both machines"
            )
        if expires_ns - wall_ns > LONGEST_EXPIRY_S * NS_PER_S:
            raise _CommandRefused(f"it expires more than {LONGEST_EXPIRY_S / 60:g} min from now")
        arguments = self._actions.arguments.get(command.action)
        if arguments is None:
            raise _CommandRefused(
                f"unknown action {command.action!r}:"
                f" {nearest(command.action, self._actions.arguments)}"
            )
        for name in command.args:
            if name not in arguments:
                raise _CommandRefused(
                    f"{command.action} has no argument {name!r}: {nearest(name, arguments)}"
                )
        if not covers(path, command.target):
            raise _CommandRefused(
                f"target {command.target!r} is not below the topic's path {path!r}"
            )
        if not self._allowed and command.action not in self._actions.harmless:
            raise _CommandRefused(self._actions.how_to_allow)

    def _answer(
        self, to: _ReplyTo, asker: CommandSender, ok: bool, reason: str, result: dict[str, Any]
    ) -> list[Envelope]:
        if not self._answers:
            return []
        who = self._names
        reply = ReplyMessage(id=asker.id, ok=ok, reason=one_line(reason), result=result | who)
        payload = encode_message(reply)
        if len(payload) > self._limits.payload_bytes:
            short = one_line(f"{reason}; the result is too long for a message")
            payload = encode_message(msgspec.structs.replace(reply, reason=short, result=who))
        return [
            Envelope(
                to.topic, payload, qos=1, content_type=CONTENT_TYPE_JSON, properties=to.properties
            )
        ]

    def _drop(self, kind: str, envelope: Envelope, why: str) -> None:
        """Count a message that is not carried out, and log it unless many have been."""
        count = getattr(self.counts, kind) + 1
        setattr(self.counts, kind, count)
        if count <= LOGGED_OF_A_KIND or count % LOGGED_OF_A_KIND == 0:
            log.warning(
                "command_dropped",
                kind=kind,
                count=count,
                topic=one_line(envelope.topic),
                why=one_line(why),
            )


async def serve(
    commands: CommandServer, source: Source, publisher: Publisher, clock: Clock
) -> None:
    """Carry out commands from a source and publish the answers.

    Ends with the source, or when cancelled.

    Args:
        commands: Checks and carries them out.
        source: Subscribed to `commands.filters()`.
        publisher: Receives the answers.
        clock: Decides whether a command has expired.
    """
    while batch := await source.take():
        for envelope in batch:
            replies = commands.handle(envelope, clock.wall_ns())
            if replies:
                await publisher.publish(replies)


def one_line(text: str) -> str:
    """Return `text` as printable ASCII on one line, cut to `LONGEST_REASON` characters."""
    shown = "".join(char if " " <= char <= "~" else "?" for char in text[: LONGEST_REASON + 1])
    return shown if len(shown) <= LONGEST_REASON else shown[: LONGEST_REASON - 3] + "..."
