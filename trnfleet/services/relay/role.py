"""The role of a relay in its cell: one is active, others are on standby.

The active relay publishes. A standby relay receives the same messages. The election is that of
`watch`, on the top broker, by presence messages below `publisher/{cell}`. The relay that began
first is active. One without a connection to its cell ranks behind one with it.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from trnfleet import logs
from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.relays import DOUBT_S, GONE_S, HEARTBEAT_S
from trnfleet.domain.quantities import duration
from trnfleet.errors import BrokerError
from trnfleet.export.election import LISTEN_S, UNHEARD_S, Attendance, Election, since_of
from trnfleet.services.publishing import cleared
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import (
    MOST_BEHIND,
    REPEAT_S,
    WatchMessage,
    decode_message,
    message_envelope,
)
from trnfleet.wire.topics import TopicClass, build_topic, presence_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.wire.ports import Envelope, LinkStatus

log = logs.get_logger(__name__)

PERIOD_S = 1.0
"""Time between two publications of roll-ups."""


class Role(enum.StrEnum):
    """Role of a relay."""

    LISTENING = "listening"
    """Not connected to the top broker, or too briefly to know other relays."""
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
        behind: tuple[str, ...] = (),
    ) -> Envelope:
        """Return the presence message.

        A heartbeat has its time in `wall_ns`; a last will has none.
        """
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
            behind=behind,
        )
        topic = self.topic(TopicClass.PUBLISHER, presence_path(self.client, self.cell))
        return message_envelope(topic, message, retain=True)

    def cleared_presences(self, clients: Iterable[str]) -> list[Envelope]:
        """Return messages to clear the presence of relays or watches of the cell."""
        paths = (presence_path(client, self.cell) for client in clients)
        return list(cleared(self.topic(TopicClass.PUBLISHER, path) for path in paths))


class RelayRingError(BrokerError):
    """A relay's messages come back to its cell through other relays."""


class _Upstream(NamedTuple):
    """A relay that writes on the cell's broker."""

    cell: str
    rank: tuple[int, str]
    """When it began, and its client id."""
    behind: frozenset[str]
    """Itself, and the relays behind it."""
    until_s: float


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
        """Client id of the active relay. Empty while unknown."""
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
        self._beat: tuple[Role, bool, int, tuple[str, ...]] | None = None
        """Content of the last heartbeat."""
        self._gone: dict[str, float] = {}
        """Relays with a message that are not online, with the monotonic seconds of its clearing."""
        self._upstream: dict[str, _Upstream] = {}
        self._ring_since_s: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether it publishes."""
        return self.role is Role.ACTIVE

    @property
    def text(self) -> str:
        """The role in a few words."""
        return f"standby of {self.leader}" if self.role is Role.STANDBY else self.role.value

    def presence(self, state: Literal["online", "offline"], wall_ns: int | None = None) -> Envelope:
        """Return the presence message of a standby relay."""
        return self._identity.presence(state, self._election.since_ns, wall_ns)

    def note_relay(self, client: str, envelope: Envelope, now_s: float, wall_ns: int) -> None:
        """Note the presence of a relay of the cell.

        Raises:
            WireError: the message is invalid.
        """
        if client == self._identity.client:
            self._hears_itself = self._hears_itself or not envelope.retain
            return
        if self._election.hear(
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
        elif client in self._gone or len(self._gone) < DEFAULT_LIMITS.watches:
            # A silent relay without a last will is cleared, too.
            clear_s = now_s if message.state == "offline" else now_s + REPEAT_S
            self._gone[client] = min(clear_s, self._gone.get(client, math.inf))

    def note_upstream(self, client: str, envelope: Envelope, now_s: float) -> None:
        """Note the presence of a relay on the cell's broker.

        Raises:
            WireError: the message is invalid.
        """
        message = decode_message(envelope.payload, WatchMessage) if envelope.payload else None
        if message is None or message.role != "relay" or message.state == "offline":
            self._upstream.pop(client, None)
        elif not envelope.retain and (
            client in self._upstream or len(self._upstream) < MOST_BEHIND
        ):
            self._upstream[client] = _Upstream(
                message.cell or "",
                (since_of(message), client),
                frozenset((client, *message.behind)),
                now_s + GONE_S,
            )

    def _check_ring(self, now_s: float) -> tuple[str, ...]:
        """Return the relays behind this one.

        Raises:
            RelayRingError: this one is among them. A new relay refuses at once; an older one leaves
                it to a
                younger one for a while.
        """
        for client, relay in list(self._upstream.items()):
            if now_s >= relay.until_s:
                del self._upstream[client]
        own = self._identity.client
        back = [(client, relay) for client, relay in self._upstream.items() if own in relay.behind]
        if not back:
            self._ring_since_s = None
        elif self._ring_since_s is None:
            self._ring_since_s = now_s
        for client, relay in back:
            is_over = now_s - (self._ring_since_s or now_s) >= GONE_S + LISTEN_S
            is_younger = (self._election.since_ns, own) >= relay.rank
            if not self._has_taken_part or (is_over and is_younger):
                through = f" through relay {client} of cell {relay.cell}" if client != own else ""
                raise RelayRingError(
                    f"a ring of relays: what cell {self._identity.cell} sends to the top broker "
                    f"comes back to the cell's own broker{through}"
                )
        behind = frozenset[str]().union(*(relay.behind for relay in self._upstream.values()))
        return tuple(sorted(behind - {own})[:MOST_BEHIND])

    def step(self, now_s: float, wall_ns: int, links: LinksState, *, hears: bool) -> list[Envelope]:
        """Choose the role; return a heartbeat where one is due.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            links: The connections to the top broker.
            hears: Whether it hears its cell.

        Raises:
            BrokerError: its own heartbeat does not come back, so that it would hear no other relay,
                or it is part of a ring.
        """
        attendance = self._attendance
        election = self._election
        behind = self._check_ring(now_s)
        if attendance.was_away(now_s, is_up=links.is_up, connects=links.connects):
            self._stop(attendance.paused_s)
            if not links.is_up:
                return []
        if attendance.begins(now_s):
            election.listen(now_s)
            self._hears_itself = False
            self._beat_s = -math.inf
        if not self._hears_itself:
            self._complain(now_s)
        elif attendance.has_listened(now_s) and not links.waiting:
            self._choose(now_s, hears=hears)
        return self._beats(now_s, wall_ns, behind, hears=hears)

    def cleared(self, now_s: float) -> list[Envelope]:
        """Return messages to clear the presence of former relays.

        The active relay publishes them after its descriptors.
        """
        due = [client for client, clear_s in self._gone.items() if now_s >= clear_s]
        for client in due:
            del self._gone[client]
        return self._identity.cleared_presences(due)

    def _stop(self, paused_s: float) -> None:
        if self.role is Role.LISTENING:
            return
        self.role = Role.LISTENING
        self.leader = ""
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
            f"the relay's own heartbeat does not come back within {UNHEARD_S:g} s; on the top"
            f" broker it has to read {topics}"
        )

    def _choose(self, now_s: float, *, hears: bool) -> None:
        election = self._election
        client = self._identity.client
        if self.role is Role.LISTENING:
            self._has_taken_part = True
            election.take_part(now_s)
        reason = ""
        if self.role is Role.ACTIVE and not hears and election.retire(now_s):
            reason = ", which hears the cell; this relay does not"
        leader = election.leader(now_s)
        if leader == self.leader:
            return
        before = self.leader
        self.leader = leader
        self.role = Role.ACTIVE if leader == client else Role.STANDBY
        log.info("relay_role", role=self.role.value, client=client, leader=leader, before=before)
        if self.role is Role.STANDBY:
            self._report(f"standby: {leader} is active{reason}")
        else:
            after = f", takes over from {before}" if before else ""
            self._report(f"active: {client} publishes cell {self._identity.cell}{after}")

    def _beats(
        self, now_s: float, wall_ns: int, behind: tuple[str, ...], *, hears: bool
    ) -> list[Envelope]:
        said = (self.role, hears, self._election.since_ns, behind)
        is_news = said != self._beat or self._owes_answer
        if now_s - self._beat_s < HEARTBEAT_S and not is_news:
            return []
        self._beat_s = now_s
        self._beat = said
        self._owes_answer = False
        known = None if self.role is Role.LISTENING else hears
        since_ns = self._election.since_ns
        return [
            self._identity.presence(
                "online", since_ns, wall_ns, leads=self.is_active, hears=known, behind=behind
            )
        ]


class Link(Protocol):
    """One connection."""

    @property
    def status(self) -> LinkStatus:
        """Its state."""

    def hurry(self) -> None:
        """Try to connect at once if it waits for the next attempt."""


class LinksState(NamedTuple):
    """State of the needed connections at a moment."""

    is_up: bool
    """Whether all are up."""
    connects: int
    """Number of connects; it grows with each reconnect."""
    waiting: int
    """Received messages that wait to be read."""


class TopLinks:
    """The connections to the top broker: those needed for publishing, and others."""

    def __init__(self, *needed: Link, others: Sequence[Link] = ()) -> None:
        self._needed = needed
        self._all = (*needed, *others)
        self._connects = 0

    def look(self) -> LinksState:
        """Return the state of the needed connections.

        When one reconnects, the others also try at once.
        """
        connects = sum(link.status.connects for link in self._all)
        if connects > self._connects:
            for link in self._all:
                link.hurry()
        self._connects = connects
        states = [link.status for link in self._needed]
        return LinksState(
            all(state.connected for state in states),
            sum(state.connects for state in states),
            sum(state.waiting for state in states),
        )
