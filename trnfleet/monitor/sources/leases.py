"""Leases of an app on a top broker: rows, replies, and messages to send.

Pure: it reads no clock and sends nothing. A row is requested when it is opened, renewed while it is
viewed, and released a moment later. `docs/scaling.md` describes the relay's side.
"""

from __future__ import annotations

import asyncio
import enum
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import WireError
from trnfleet.text import plain
from trnfleet.wire.commands.leases import FORWARD, LEASE_S, RENEW_S
from trnfleet.wire.messages import CommandMessage, ReplyMessage, decode_message, encode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, MessageProperties
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic, command_path, reply_path

if TYPE_CHECKING:
    from collections.abc import Callable

HOLD_S = 10.0
"""Seconds a row is retained after its last view. Returning to it shows its chips at once."""
MOST_HELD = 4
"""Most rows leased at once. The least recently viewed is released for another one."""
DWELL_S = 1.0
"""Seconds of viewing before a row leased elsewhere is leased here, too. The cursor may only pass
by."""
ANSWER_S = 3.0
"""Time in which a relay answers."""
AGAIN_S = 15.0
"""Seconds before a refused request is repeated while the row is viewed."""
SOON_S = 5.0
"""Seconds before an unanswered request is repeated. Another relay of the cell may take over
meanwhile."""
GONE_S = 1.0
"""Least time between two commands where the chips were there and are gone."""
EXPIRY_S = 10
"""Seconds before a command expires."""


class LeaseState(enum.Enum):
    """State of a request for chips."""

    ASKED = enum.auto()
    GRANTED = enum.auto()
    REFUSED = enum.auto()
    """By the relay, by the broker, or because this app only reads."""
    UNANSWERED = enum.auto()


@dataclass(slots=True)
class Lease:
    """The wish for the chips of a row."""

    row: str
    cell: str
    looked_s: float
    """Monotonic seconds of the last view."""
    state: LeaseState = LeaseState.ASKED
    reason: str = ""
    """Why there are no chips, as plain text; empty where there are, or may be."""
    asked_s: float = -float("inf")
    command_id: str = ""
    """Id of the last command about it."""
    had_chips: bool = False
    """Whether its chips were described since the command."""


class Leases:
    """Leases of an app in one fleet."""

    def __init__(
        self,
        fleet: str,
        *,
        root: str = DEFAULT_ROOT,
        client: str | None = None,
        by: str = "",
        why_not: str = "",
    ) -> None:
        """Begin without any.

        Args:
            fleet: The fleet's name.
            root: First part of the topics.
            client: Client id of who asks; by default a random one.
            by: The operator's name, for the relay's log.
            why_not: Why this app cannot ask for any; empty where it can.
        """
        self.client = client or f"trnfleet-view-{os.urandom(6).hex()}"
        self.revision = 0
        """Goes up with every change of a state."""
        self.wanted = asyncio.Event()
        """Set when there may be something to send."""
        self._fleet = fleet
        self._root = root
        self._by = by
        self.why_not = why_not
        """Why it cannot ask for any, as plain text; empty where it can."""
        self._held: dict[str, Lease] = {}
        self._passing = "", 0.0
        """The viewed row leased elsewhere, and the monotonic seconds since when."""
        self._left: list[Lease] = []
        """Leases to release."""

    @property
    def can_ask(self) -> bool:
        """Whether it can ask for any."""
        return not self.why_not

    @property
    def held(self) -> tuple[Lease, ...]:
        """All of them."""
        return tuple(self._held.values())

    def of(self, address: str) -> Lease | None:
        """Return the lease of the row at or above an address."""
        parts = address.split("/")
        rows = ("/".join(parts[:depth]) for depth in (2, 3))
        return next((self._held[row] for row in rows if row in self._held), None)

    def open(self, row: str, cell: str, now_s: float) -> None:
        """Request the chips of a row, or repeat a refused request."""
        known = self._held.get(row)
        if known is not None:
            known.looked_s = now_s
            if known.state in {LeaseState.REFUSED, LeaseState.UNANSWERED}:
                known.asked_s = -float("inf")
        else:
            if len(self._held) >= MOST_HELD:
                self._leave(min(self._held.values(), key=lambda lease: lease.looked_s))
            self._held[row] = Lease(row, cell, now_s)
            if self.why_not:
                self._held[row].state = LeaseState.REFUSED
                self._held[row].reason = self.why_not
        self.revision += 1
        self.wanted.set()

    def dwells(self, row: str, now_s: float) -> bool:
        """Return whether a row not leased here was viewed long enough for a lease."""
        if row != self._passing[0]:
            self._passing = row, now_s
        return now_s - self._passing[1] >= DWELL_S

    def look(self, address: str, now_s: float) -> None:
        """Record a view of an address.

        It renews the lease of the address's row.
        """
        lease = self.of(address) if self._held else None
        if lease is not None:
            lease.looked_s = now_s

    def due(self, now_s: float, wall_ns: int, has_chips: Callable[[str], bool]) -> list[Envelope]:
        """Return the commands to send now.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Wall clock for their expiry.
            has_chips: Returns whether the chips of a row are described.
        """
        self.wanted.clear()
        for lease in self.held:
            if now_s - lease.looked_s >= HOLD_S:
                self._leave(lease)
            elif (
                lease.state is LeaseState.ASKED
                and now_s - lease.asked_s >= ANSWER_S
                and lease.command_id
            ):
                self._turn(
                    lease,
                    LeaseState.UNANSWERED,
                    f"no relay of cell {lease.cell} has answered within {ANSWER_S:g} s",
                )
        commands = [self._command(lease, 0.0, wall_ns) for lease in self._left]
        self._left.clear()
        if self.can_ask:
            for lease in self._held.values():
                is_there = lease.state is LeaseState.GRANTED and has_chips(lease.row)
                if now_s - lease.asked_s >= _wait_s(lease, is_there=is_there):
                    if lease.state is LeaseState.GRANTED and not is_there:
                        self._turn(lease, LeaseState.ASKED, "")
                    lease.asked_s = now_s
                    lease.command_id = os.urandom(8).hex()
                    lease.had_chips = False
                    commands.append(self._command(lease, LEASE_S, wall_ns))
                lease.had_chips = lease.had_chips or is_there
        return commands

    def leave_all(self, wall_ns: int) -> list[Envelope]:
        """Return the commands to release all leases."""
        for lease in self.held:
            self._leave(lease)
        commands = [self._command(lease, 0.0, wall_ns) for lease in self._left]
        self._left.clear()
        return commands

    def fail(self, why: str) -> None:
        """Mark the last command, or all, as failed for lack of rights or connection."""
        for lease in self._held.values():
            if lease.state is not LeaseState.GRANTED:
                self._turn(lease, LeaseState.REFUSED, plain(why))

    def take(self, envelope: Envelope) -> None:
        """Apply a reply.

        Ignore it unless it answers the last command of a lease.
        """
        if envelope.retain:
            return
        for lease in self._held.values():
            if not lease.command_id or envelope.topic != self._reply_topic(lease):
                continue
            try:
                reply = decode_message(envelope.payload, ReplyMessage)
            except WireError:
                return
            if reply.id != lease.command_id:
                return
            if reply.ok:
                self._turn(lease, LeaseState.GRANTED, "")
            else:
                self._turn(lease, LeaseState.REFUSED, plain(reply.reason))
            return

    def _turn(self, lease: Lease, state: LeaseState, reason: str) -> None:
        if (lease.state, lease.reason) != (state, reason):
            lease.state = state
            lease.reason = reason
            self.revision += 1

    def _leave(self, lease: Lease) -> None:
        del self._held[lease.row]
        if lease.command_id and lease.state in {LeaseState.GRANTED, LeaseState.ASKED}:
            self._left.append(lease)
        self.revision += 1

    def _reply_topic(self, lease: Lease) -> str:
        path = reply_path(self.client, lease.command_id)
        return build_topic(self._fleet, TopicClass.REPLY, path, self._root)

    def _command(self, lease: Lease, lease_s: float, wall_ns: int) -> Envelope:
        """Return the command to request or release a lease."""
        if not lease_s:
            lease.command_id = os.urandom(8).hex()
        message = CommandMessage(
            id=lease.command_id,
            client=self.client,
            action=FORWARD,
            target=lease.row,
            args={"lease_s": lease_s},
            expires=format_rfc3339(wall_ns + EXPIRY_S * NS_PER_S),
            by=self._by,
        )
        topic = build_topic(self._fleet, TopicClass.COMMAND, command_path(lease.row), self._root)
        properties = MessageProperties(
            response_topic=self._reply_topic(lease),
            correlation=lease.command_id.encode(),
            expiry_s=EXPIRY_S,
        )
        payload = encode_message(message)
        return Envelope(
            topic, payload, qos=1, content_type=CONTENT_TYPE_JSON, properties=properties
        )


def _wait_s(lease: Lease, *, is_there: bool) -> float:
    """Return the time from the last command about a lease to the next.

    Args:
        lease: The lease.
        is_there: Whether it was granted, and its chips are described.
    """
    if lease.state is LeaseState.REFUSED:
        return AGAIN_S
    if lease.state is LeaseState.UNANSWERED:
        return SOON_S
    if lease.state is LeaseState.GRANTED and not is_there:
        # Chips that have gone: another relay has taken over, and knows nothing of the lease.
        return GONE_S if lease.had_chips else ANSWER_S
    return RENEW_S
