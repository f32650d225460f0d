"""Leader election among the `watch` processes of a fleet: the longest-running one leads, the others are on standby.

A watch is present while its retained message says so. Its last will takes that back when it dies; where the broker died with it
and has kept the message, the missing heartbeat does.
"""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.wire.messages import PublisherMessage, decode_message

HEARTBEAT_S = 10.0
"""Time between two presence messages of a watch; with each it clears outdated retained messages."""
GONE_S = 35.0
"""Time without a heartbeat after which a watch counts as gone: three heartbeats and a little."""
MOST = 1_000
"""Watches that are tracked at most."""


class _Watch(NamedTuple):
    since_ns: int
    client: str
    heartbeat_s: float


class Election:
    """The watches of one fleet, this one among them."""

    def __init__(self, client: str, since_ns: int) -> None:
        """Prepare an election.

        Args:
            client: Client id of this watch.
            since_ns: Wall clock at its start.
        """
        self._own = (since_ns, client)
        self._others: dict[str, _Watch] = {}

    def take(self, client: str, payload: bytes, now_s: float) -> None:
        """Take the presence message of a publisher; only watches count.

        Args:
            client: Its name, from the topic.
            payload: The message; empty where it has been cleared.
            now_s: Monotonic seconds.

        Raises:
            WireError: the message is invalid.
        """
        if client == self._own[1]:
            return
        message = decode_message(payload, PublisherMessage) if payload else None
        if (
            message is None
            or message.role != "watch"
            or message.state != "online"
            or message.client != client
        ):
            self._others.pop(client, None)
            return
        try:
            since_ns = parse_rfc3339(message.since or "")
        except (ValueError, OverflowError):
            raise WireError("PublisherMessage: since is not a time with its zone") from None
        if client in self._others or len(self._others) < MOST:
            self._others[client] = _Watch(since_ns, client, now_s)

    def reset_heartbeats(self, now_s: float) -> None:
        """Restart the time since each heartbeat: without a connection none could be received."""
        self._others = {client: each._replace(heartbeat_s=now_s) for client, each in self._others.items()}

    def others(self, now_s: float) -> list[str]:
        """Return the other watches that are present, the longest-running one first."""
        present = [each for each in self._others.values() if now_s - each.heartbeat_s < GONE_S]
        return [each.client for each in sorted(present)]

    def leader(self, now_s: float) -> str:
        """Return the client id of the leader."""
        present = [each[:2] for each in self._others.values() if now_s - each.heartbeat_s < GONE_S]
        return min([*present, self._own])[1]
