"""Leader election among the `watch` processes of a fleet: the one that began first leads, the others are on standby.

The relays of a cell have the same election: what is said of watches here holds for them, too.

A watch is present while its heartbeats come in. A retained message is none: it only keeps its watch in doubt for a while, within
which an online watch has answered a newcomer's first heartbeat with its own. Times of others are their own word, so that

- a watch that was not there while this one listened ranks by when it was first heard, and so does one that was gone and is back
  without leading;
- a watch that finds a leader ranks behind all that it hears, whatever their clocks say; also where that leader's first heartbeat comes
  after it stopped listening, but before the leader's retained message was out of doubt;
- a leader that does not publish what fires here is distrusted, and leads nobody here until it publishes that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.alerts.watches import DOUBT_S, GONE_S
from trnfleet.errors import WireError
from trnfleet.wire.messages import WatchMessage, decode_message

MOST = 1_000
"""Watches that are tracked at most."""
LISTEN_S = 2.0
"""Time to listen before the first election: for others, and for their retained messages."""
_TICK_NS = 1_000_000
"""Least difference of two times as they are written."""


class _Watch(NamedTuple):
    since_ns: int
    client: str
    boot: str
    until_s: float
    """Monotonic seconds until which it counts as present."""
    is_heard: bool
    """Whether a heartbeat has come in, and not only a retained message."""
    leads: bool | None
    hears: bool | None


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
            role: Role of those who take part.
            cell: Their cell; None for what belongs to none.
            gone_s: Time without a heartbeat after which one counts as gone.
            doubt_s: Time for which one counts as present by a retained message alone.
        """
        self._client = client
        self._role, self._cell = role, cell
        self._gone_s, self._doubt_s = gone_s, doubt_s
        self.since_ns = since_ns - since_ns % _TICK_NS
        """Begin of this watch, by which it ranks; as others read it."""
        self._others: dict[str, _Watch] = {}
        self._distrusted: set[str] = set()
        self._is_listening = True

    def take(
        self, client: str, payload: bytes, now_s: float, wall_ns: int, *, is_retained: bool
    ) -> bool:
        """Take the presence message of a publisher; only watches count.

        Args:
            client: Its name, from the topic.
            payload: The message; empty where it has been cleared.
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            is_retained: Whether the broker had retained it: then it is no heartbeat.

        Returns:
            Whether a heartbeat of this one answers it: the first one of a watch, and those of one that still listens, which may have
            missed the answer to its first.

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
            if message is None or message.state == "offline":
                self._distrusted.discard(client)
            return False
        try:
            since_ns = parse_rfc3339(message.since or "")
        except (ValueError, OverflowError):
            raise WireError("PublisherMessage: since is not a time with its zone") from None
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
            # Where this one ranks behind a leader whose clock was ahead, one that comes later does, too.
            since_ns = max(since_ns, wall_ns, self.since_ns + _TICK_NS)
        is_heard = not is_retained or (known is not None and known.is_heard)
        until_s = now_s + (self._doubt_s if is_retained else self._gone_s)
        if known is not None:
            until_s = max(until_s, known.until_s)
        is_first = not is_retained and (known is None or not known.is_heard)
        found = _Watch(
            since_ns, client, message.boot, until_s, is_heard, message.leads, message.hears
        )
        if is_first and known is not None and now_s < known.until_s and not self._is_listening:
            self._rank_behind(found)
        self._others[client] = found
        says_nothing = message.firing is None and message.hears is None
        listens = not is_retained and message.leads is False and says_nothing
        return is_first or (listens and not self._is_listening)

    def _rank_behind(self, late: _Watch) -> None:
        """Rank behind a leader that was in doubt when this watch took part: it led already then."""
        if late.leads and self._trusts(late):
            self.since_ns = max(self.since_ns, late.since_ns + _TICK_NS)

    def listen(self, now_s: float) -> None:
        """Begin to listen: without a connection no heartbeat could be received, so that all are in doubt again."""
        self._is_listening = True
        self._others = {
            client: each._replace(until_s=now_s + self._doubt_s, is_heard=False)
            for client, each in self._others.items()
        }

    def take_part(self, now_s: float) -> bool:
        """End listening; return whether this watch now ranks behind others, one of which leads already."""
        self._is_listening = False
        heard = [each for each in self._present(now_s) if each.is_heard and self._trusts(each)]
        behind_ns = max((each.since_ns for each in heard), default=-1) + _TICK_NS
        if not any(each.leads for each in heard) or self.since_ns >= behind_ns:
            return False
        self.since_ns = behind_ns
        return True

    def retire(self, now_s: float) -> bool:
        """Rank behind those that hear their cell, which this relay does not; return whether there are any."""
        hearing = [each for each in self._present(now_s) if each.is_heard and each.hears]
        if hearing:
            self.since_ns = max(self.since_ns, max(each.since_ns for each in hearing) + _TICK_NS)
        return bool(hearing)

    def distrust(self, client: str) -> None:
        """Leave a watch out as leader."""
        self._distrusted.add(client)

    def trust(self, client: str) -> None:
        """Let a watch lead again."""
        self._distrusted.discard(client)

    def others(self, now_s: float) -> list[str]:
        """Return the other watches that are present, the one that leads first if this one were gone in front."""
        return [each.client for each in sorted(self._present(now_s))]

    def rivals(self, now_s: float) -> list[str]:
        """Return the other watches that say that they lead."""
        return [
            each.client for each in sorted(self._present(now_s)) if each.leads and each.is_heard
        ]

    def leader(self, now_s: float) -> str:
        """Return the client id of the leader."""
        present = [each[:2] for each in self._present(now_s) if self._trusts(each)]
        return min([*present, (self.since_ns, self._client)])[1]

    def _trusts(self, watch: _Watch) -> bool:
        return watch.client not in self._distrusted

    def _present(self, now_s: float) -> list[_Watch]:
        return [each for each in self._others.values() if now_s < each.until_s]


class Attendance:
    """When a process takes part in its election: once it has listened for `LISTEN_S` on connections that are up.

    One that did not run for so long that others took it for gone was away as one without a connection: another may lead since.
    """

    def __init__(self, gone_s: float = GONE_S) -> None:
        """Begin away.

        Args:
            gone_s: Time without a heartbeat after which others count this one as gone.
        """
        self._gone_s = gone_s
        self._connects = 0
        self._seen_s = math.inf
        self.listening_since_s: float | None = None
        """Monotonic seconds since which it listens; None while it does not."""
        self.paused_s = 0.0
        """Time for which it did not run, if that was why it was away last; else 0."""

    def was_away(self, now_s: float, *, is_up: bool, connects: int) -> bool:
        """Return whether it is away, or has been since the last call: it listens again from the next `begins` on.

        Args:
            now_s: Monotonic seconds.
            is_up: Whether all connections are up.
            connects: Number of connects; it grows with each reconnect.
        """
        passed_s, self._seen_s = now_s - self._seen_s, now_s
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
