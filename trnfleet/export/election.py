"""Leader election among the `watch` processes of a fleet.

The watch that began first leads, the others are on standby. The relays of a cell have the same
election: everything here applies to them, too.

A watch is present while its heartbeats arrive. A retained message is not a heartbeat: it only marks
its watch as in doubt for a while, long enough for an online watch to answer a newcomer's first
heartbeat with its own. Times of others are their own claims, so:

- A watch absent while this one listened ranks by its first heartbeat heard here. The same applies
  to one that was gone and is back without leading.
- A watch that finds a leader ranks behind all watches it hears, whatever their clocks say. Also if
  that leader's first heartbeat arrives after listening ended, but before the leader's retained
  message was out of doubt.
- A leader that does not publish the alerts firing here is replaced. It is not accepted as leader
  here until it starts again, or ranks itself last because its successor publishes its alerts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trnfleet.clock import NS_PER_MS, parse_rfc3339
from trnfleet.domain.alerts.watches import DOUBT_S, GONE_S
from trnfleet.errors import WireError
from trnfleet.wire.messages import WatchMessage, decode_message
from trnfleet.wire.values import LATEST_NS

MOST = 1_000
"""Watches that are tracked at most."""
LISTEN_S = 2.0
"""Time to listen before the first election: for others, and for their retained messages."""
UNHEARD_S = 15.0
"""Time without its own heartbeat after which a watch or relay ends: it would hear no other. One
and a half heartbeats of a watch, on a connection that is not busy."""


class _Participant(NamedTuple):
    since_ns: int
    client: str
    boot: str
    until_s: float
    """Monotonic seconds until which it counts as present."""
    is_heard: bool
    """Whether a heartbeat has come in, and not only a retained message."""
    leads: bool | None
    hears: bool | None
    is_replaced: bool


class Election:
    """The watches of one fleet, or the relays of one cell, this one among them."""

    def __init__(
        self,
        client: str,
        since_ns: int,
        *,
        role: str = "watch",
        cell: str | None = None,
        gone_s: float = GONE_S,
        doubt_s: float = DOUBT_S,
    ) -> None:
        """Prepare an election.

        Args:
            client: Client id of this watch.
            since_ns: Wall clock at its start.
            role: Role of the participants.
            cell: Their cell; None without one.
            gone_s: Seconds without a heartbeat before a watch is gone.
            doubt_s: Seconds for which a retained message alone marks a watch as present.
        """
        self._client = client
        self._role = role
        self._cell = cell
        self._gone_s = gone_s
        self._doubt_s = doubt_s
        # Times are written in milliseconds.
        self.since_ns = since_ns - since_ns % NS_PER_MS
        """Start of this watch as read by others; it ranks by it."""
        self._others: dict[str, _Participant] = {}
        self._is_listening = True

    def hear(
        self, client: str, payload: bytes, now_s: float, wall_ns: int, *, is_retained: bool
    ) -> bool:
        """Read the presence message of a publisher; only watches count.

        Args:
            client: Its name, from the topic.
            payload: The message; empty if cleared.
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            is_retained: Whether the broker had retained it: then it is no heartbeat.

        Returns:
            Whether this watch answers with a heartbeat. It answers the first heartbeat of a watch,
                and
            every one of a watch still listening: it may have missed the first answer.

        Raises:
            WireError: the message is invalid.
        """
        if client == self._client:
            return False
        message = decode_message(payload, WatchMessage) if payload else None
        if (
            message is None
            or message.role != self._role
            or message.cell != self._cell
            or message.state != "online"
            or message.client != client
        ):
            self._others.pop(client, None)
            return False
        since_ns = since_of(message)
        known = self._others.get(client)
        if known is not None and known.boot != message.boot:
            known = None
        if known is not None and now_s >= known.until_s and not message.leads:
            # It was gone, and the one that took over from it stays.
            known = None
        if known is None and client not in self._others and len(self._others) >= MOST:
            return False
        if known is not None:
            # A rank that was bounded stays so; nobody gets older.
            since_ns = max(since_ns, known.since_ns)
        elif not self._is_listening and not is_retained:
            # Where this one ranks behind a leader whose clock was ahead, one that comes later does,
            # too.
            since_ns = max(since_ns, wall_ns, _behind(self.since_ns))
        is_heard = not is_retained or (known is not None and known.is_heard)
        until_s = now_s + (self._doubt_s if is_retained else self._gone_s)
        if known is not None:
            until_s = max(until_s, known.until_s)
        is_first = not is_retained and (known is None or not known.is_heard)
        watch = _Participant(
            since_ns,
            client,
            message.boot,
            until_s,
            is_heard,
            message.leads,
            message.hears,
            # One that has stepped back ranks behind this watch, and may lead when this one is away.
            is_replaced=known is not None
            and known.is_replaced
            and (since_ns, client) < (self.since_ns, self._client),
        )
        if is_first and known is not None and now_s < known.until_s and not self._is_listening:
            self._rank_behind(watch)
        self._others[client] = watch
        says_nothing = message.firing is None and message.hears is None
        listens = not is_retained and message.leads is False and says_nothing
        return is_first or (listens and not self._is_listening)

    def _rank_behind(self, late: _Participant) -> None:
        """Rank behind a leader that was in doubt when this watch joined: it already led."""
        if late.leads and not late.is_replaced:
            self.since_ns = max(self.since_ns, _behind(late.since_ns))

    def listen(self, now_s: float) -> None:
        """Begin to listen; all watches are in doubt again.

        Without a connection no heartbeat could arrive.
        """
        self._is_listening = True
        self._others = {
            client: watch._replace(until_s=now_s + self._doubt_s, is_heard=False)
            for client, watch in self._others.items()
        }

    def take_part(self, now_s: float) -> bool:
        """End listening; return whether this watch now ranks behind an existing leader."""
        self._is_listening = False
        heard = [
            watch for watch in self._present(now_s) if watch.is_heard and not watch.is_replaced
        ]
        behind_ns = _behind(max((watch.since_ns for watch in heard), default=-1))
        if not any(watch.leads for watch in heard) or self.since_ns >= behind_ns:
            return False
        self.since_ns = behind_ns
        return True

    def retire(self, now_s: float) -> bool:
        """Rank behind the relays that hear their cell; return whether there are any.

        This relay does not hear it.
        """
        hearing = [watch for watch in self._present(now_s) if watch.is_heard and watch.hears]
        if hearing:
            self.since_ns = max(self.since_ns, _behind(max(watch.since_ns for watch in hearing)))
        return bool(hearing)

    def replace(self, client: str) -> None:
        """Leave a watch out as leader until it starts again."""
        self._others[client] = self._others[client]._replace(is_replaced=True)

    def step_back(self, now_s: float) -> None:
        """Rank behind all other watches: a successor leads."""
        for client in self.successors(now_s):
            self._others[client] = self._others[client]._replace(is_replaced=False)
        self.take_part(now_s)

    def rivals(self, now_s: float) -> list[str]:
        """Return the other watches that claim to lead."""
        return [
            watch.client for watch in sorted(self._present(now_s)) if watch.leads and watch.is_heard
        ]

    def successors(self, now_s: float) -> set[str]:
        """Return the watches that claim to lead although they rank behind this one."""
        own = (self.since_ns, self._client)
        return {client for client in self.rivals(now_s) if self._others[client][:2] > own}

    def leader(self, now_s: float) -> str:
        """Return the client id of the leader."""
        present = [watch[:2] for watch in self._present(now_s) if not watch.is_replaced]
        return min([*present, (self.since_ns, self._client)])[1]

    def _present(self, now_s: float) -> list[_Participant]:
        return [watch for watch in self._others.values() if now_s < watch.until_s]


def _behind(since_ns: int) -> int:
    """Return a time just behind that of another watch, as late as a message can say."""
    return min(since_ns + NS_PER_MS, LATEST_NS - LATEST_NS % NS_PER_MS)


def since_of(message: WatchMessage) -> int:
    """Return when a watch or relay began, by its own claim.

    Raises:
        WireError: it states no time.
    """
    try:
        return parse_rfc3339(message.since or "")
    except (ValueError, OverflowError):
        raise WireError("PublisherMessage: since is not a time with its zone") from None


class Attendance:
    """Decides when a process joins its election: after `LISTEN_S` with all connections up.

    A process that did not run for so long that others marked it as gone was away, as without a
    connection: another may have become leader.
    """

    def __init__(self, gone_s: float = GONE_S) -> None:
        """Begin away.

        Args:
            gone_s: Seconds without a heartbeat before others mark this one as gone.
        """
        self._gone_s = gone_s
        self._connects = 0
        self._seen_s = math.inf
        self.listening_since_s: float | None = None
        """Monotonic seconds since it listens; None if not listening."""
        self.paused_s = 0.0
        """Seconds without running before the last absence; 0 for another cause."""

    def was_away(self, now_s: float, *, is_up: bool, connects: int) -> bool:
        """Return whether it is away, or was since the last call.

        It listens again from the next `begins` on.

        Args:
            now_s: Monotonic seconds.
            is_up: Whether all connections are up.
            connects: Number of connects; it grows with each reconnect.
        """
        passed_s = now_s - self._seen_s
        self._seen_s = now_s
        if is_up and connects == self._connects and passed_s < self._gone_s:
            return False
        self.paused_s = passed_s if passed_s >= self._gone_s else 0.0
        self._connects = connects
        self.listening_since_s = None
        return True

    def begins(self, now_s: float) -> bool:
        """Return whether it begins to listen now."""
        if self.listening_since_s is not None:
            return False
        self.listening_since_s = now_s
        return True

    def has_listened(self, now_s: float) -> bool:
        """Return whether it has listened for long enough."""
        return self.listening_since_s is not None and now_s - self.listening_since_s >= LISTEN_S
