"""Which `watch` of a fleet speaks: of those that are there, the one that began first. The others stand by.

A watch is there while its retained message says so. Its last will takes that back when it dies; where a broker died with it
and has kept the message, its heartbeat is what is missed.
"""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.wire.messages import PublisherMessage, decode_message

HEARTBEAT_S = 10.0
"""How often a watch says that it is there."""
GONE_S = 35.0
"""One that has not said so for so long is not, whatever is retained: three heartbeats and a little."""
MOST = 1_000
"""Watches that are known at most."""


class _Watch(NamedTuple):
    since_ns: int
    client: str
    heard_s: float


class Election:
    """The watches of one fleet, ourselves among them."""

    def __init__(self, client: str, since_ns: int) -> None:
        """Stand for election.

        Args:
            client: Our client id.
            since_ns: Wall clock at which we began.
        """
        self._own = (since_ns, client)
        self._others: dict[str, _Watch] = {}

    def take(self, client: str, payload: bytes, now_s: float) -> None:
        """Take what a publisher says of itself; those that are no watch do not count.

        Args:
            client: Its name, from the topic.
            payload: The message; empty where it has been cleared.
            now_s: Monotonic seconds.

        Raises:
            WireError: the message is none.
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

    def hear_again(self, now_s: float) -> None:
        """Take note that we could not hear for a while: nobody has missed a heartbeat meanwhile."""
        self._others = {client: each._replace(heard_s=now_s) for client, each in self._others.items()}

    def others(self, now_s: float) -> list[str]:
        """Return the other watches that are there, the one that began first in front."""
        there = [each for each in self._others.values() if now_s - each.heard_s < GONE_S]
        return [each.client for each in sorted(there)]

    def speaker(self, now_s: float) -> str:
        """Return the client id of the watch that speaks."""
        there = [each[:2] for each in self._others.values() if now_s - each.heard_s < GONE_S]
        return min([*there, self._own])[1]
