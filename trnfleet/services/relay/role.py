"""The role of a relay among the relays of its cell: one is active and publishes, the others are on standby and hear all that it hears.

The election is that of `watch`, on the top broker, by presence messages below `publisher/{cell}`. The active one is the one that began
first. One that does not hear its cell, while another does, ranks behind that.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trnfleet import logs
from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.relays import DOUBT_S, GONE_S, HEARTBEAT_S
from trnfleet.domain.quantities import duration
from trnfleet.errors import BrokerError
from trnfleet.export.election import Attendance, Election
from trnfleet.wire.messages import WatchMessage, decode_message, message_envelope
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic, presence_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.services.relay.links import LinksState

log = logs.get_logger(__name__)

CHECK_EVERY_S = 0.1
"""Time between two elections."""
ANSWER_EVERY_S = 0.2
"""Shortest time between two heartbeats, however many newcomers there are."""
UNHEARD_S = 15.0
"""Time after which a relay that does not hear its own heartbeat ends: it would hear no other relay either."""
FORGOTTEN_AFTER_S = 60.0
"""Time after which the presence message of a relay is cleared that left no last will and is not heard."""
MOST_GONE = 1_000


class Role(enum.StrEnum):
    """Role of a relay."""

    LISTENING = "listening"
    """It has no connection to the top broker, or has had one for too short a time to know others."""
    STANDBY = "standby"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class RelayIdentity:
    """Identity of a relay on the top broker."""

    fleet: str
    root: str
    cell: str
    client: str
    boot: str

    def topic(self, topic_class: TopicClass, path: str) -> str:
        """Return a topic of the fleet."""
        return build_topic(self.fleet, topic_class, path, self.root)

    def presence(
        self,
        state: Literal["online", "offline"],
        since_ns: int,
        wall_ns: int | None = None,
        *,
        leads: bool = False,
        hears: bool | None = None,
    ) -> Envelope:
        """Return the presence message; a heartbeat has its time in `wall_ns`, a last will has none."""
        message = WatchMessage(
            client=self.client,
            state=state,
            boot=self.boot,
            role="relay",
            since=format_rfc3339(since_ns),
            ts=None if wall_ns is None else format_rfc3339(wall_ns),
            leads=leads,
            cell=self.cell,
            hears=hears,
        )
        topic = self.topic(TopicClass.PUBLISHER, presence_path(self.client, self.cell))
        return message_envelope(topic, message, retain=True)


class RelayRole:
    """The role of one relay; it reads no clock."""

    def __init__(
        self, identity: RelayIdentity, since_ns: int, report: Callable[[str], None]
    ) -> None:
        """Begin to listen.

        Args:
            identity: This relay.
            since_ns: Wall clock at its start, by which it ranks.
            report: Receives a line for each change of role.
        """
        self.role = Role.LISTENING
        self.leader = ""
        """Client id of the active one; empty while that is not known."""
        self._identity = identity
        self._report = report
        self._election = Election(
            identity.client,
            since_ns,
            role="relay",
            cell=identity.cell,
            gone_s=GONE_S,
            doubt_s=DOUBT_S,
        )
        self._attendance = Attendance(GONE_S)
        self._hears_itself = self._has_taken_part = False
        self._owes_answer = False
        self._beat_s = -math.inf
        self._beat: tuple[Role, bool, int] | None = None
        """What the last heartbeat said."""
        self._gone: dict[str, float] = {}
        """Relays that left a message and are not online, with the monotonic seconds from which on it is cleared."""

    @property
    def is_active(self) -> bool:
        """Whether it publishes."""
        return self.role is Role.ACTIVE

    @property
    def text(self) -> str:
        """The role in a few words."""
        return f"standby of {self.leader}" if self.role is Role.STANDBY else self.role.value

    def presence(self, state: Literal["online", "offline"], wall_ns: int | None = None) -> Envelope:
        """Return the presence message of a relay that does not publish."""
        return self._identity.presence(state, self._election.since_ns, wall_ns)

    def take(self, client: str, envelope: Envelope, now_s: float, wall_ns: int) -> None:
        """Take the presence message of a relay of the cell.

        Raises:
            WireError: the message is invalid.
        """
        if client == self._identity.client:
            self._hears_itself = self._hears_itself or not envelope.retain
            return
        if self._election.take(
            client, envelope.payload, now_s, wall_ns, is_retained=envelope.retain
        ):
            self._owes_answer = True
        message = decode_message(envelope.payload, WatchMessage) if envelope.payload else None
        if (
            message is None
            or message.role != "relay"
            or (message.state == "online" and not envelope.retain)
        ):
            self._gone.pop(client, None)
        elif client in self._gone or len(self._gone) < MOST_GONE:
            clear_s = now_s if message.state == "offline" else now_s + FORGOTTEN_AFTER_S
            self._gone[client] = min(clear_s, self._gone.get(client, math.inf))

    def step(self, now_s: float, wall_ns: int, links: LinksState, *, hears: bool) -> list[Envelope]:
        """Choose the role; return a heartbeat where one is due.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            links: The connections to the top broker.
            hears: Whether it hears its cell.

        Raises:
            BrokerError: its own heartbeat does not come back, so that it would hear no other relay.
        """
        attendance, election = self._attendance, self._election
        if attendance.was_away(now_s, is_up=links.is_up, connects=links.connects):
            self._stop(attendance.paused_s)
            if not links.is_up:
                return []
        if attendance.begins(now_s):
            election.listen(now_s)
            self._hears_itself, self._beat_s = False, -math.inf
        if not self._hears_itself:
            self._complain(now_s)
        elif attendance.has_listened(now_s) and not links.waiting:
            self._choose(now_s, hears=hears)
        return self._beats(now_s, wall_ns, hears=hears)

    def cleared(self, now_s: float) -> list[Envelope]:
        """Return what clears the presence messages of relays that have gone; the active one publishes it after its descriptors."""
        due = [client for client, clear_s in self._gone.items() if now_s >= clear_s]
        for client in due:
            del self._gone[client]
        cell, topic = self._identity.cell, self._identity.topic
        topics = [topic(TopicClass.PUBLISHER, presence_path(client, cell)) for client in due]
        return [Envelope(each, b"", qos=1, retain=True) for each in topics]

    def _stop(self, paused_s: float) -> None:
        if self.role is Role.LISTENING:
            return
        self.role, self.leader = Role.LISTENING, ""
        reason = (
            f"did not run for {duration(paused_s)}"
            if paused_s
            else "lost its connection to the top broker"
        )
        log.info("relay_role", role=self.role.value, client=self._identity.client, reason=reason)
        self._report(f"{reason}: publishes nothing until it knows the other relays of its cell")

    def _complain(self, now_s: float) -> None:
        since_s = self._attendance.listening_since_s
        if self._has_taken_part or since_s is None or now_s - since_s < UNHEARD_S:
            return
        topics = self._identity.topic(TopicClass.PUBLISHER, f"{self._identity.cell}/#")
        raise BrokerError(
            f"the relay's own heartbeat does not come back within {UNHEARD_S:g} s; on the top broker it has to read {topics}"
        )

    def _choose(self, now_s: float, *, hears: bool) -> None:
        election, client = self._election, self._identity.client
        if self.role is Role.LISTENING:
            self._has_taken_part = True
            election.take_part(now_s)
        reason = ""
        if self.role is Role.ACTIVE and not hears and election.retire(now_s):
            reason = ", which hears the cell; this relay does not"
        leader = election.leader(now_s)
        if leader == self.leader:
            return
        before, self.leader = self.leader, leader
        self.role = Role.ACTIVE if leader == client else Role.STANDBY
        log.info("relay_role", role=self.role.value, client=client, leader=leader, before=before)
        if self.role is Role.STANDBY:
            self._report(f"standby: {leader} is active{reason}")
        else:
            after = f", takes over from {before}" if before else ""
            self._report(f"active: {client} publishes cell {self._identity.cell}{after}")

    def _beats(self, now_s: float, wall_ns: int, *, hears: bool) -> list[Envelope]:
        passed_s, said = now_s - self._beat_s, (self.role, hears, self._election.since_ns)
        is_news = said != self._beat or self._owes_answer
        if passed_s < HEARTBEAT_S and not (is_news and passed_s >= ANSWER_EVERY_S):
            return []
        self._beat_s, self._beat, self._owes_answer = now_s, said, False
        known = None if self.role is Role.LISTENING else hears
        since_ns = self._election.since_ns
        return [
            self._identity.presence("online", since_ns, wall_ns, leads=self.is_active, hears=known)
        ]
