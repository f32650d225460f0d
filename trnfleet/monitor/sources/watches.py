"""The watches of a fleet by their presence messages: who says that it leads, and when it was heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.alerts.watches import DOUBT_S, GONE_S, WatchPresence

if TYPE_CHECKING:
    from trnfleet.wire.messages import WatchMessage

MOST = 1_000
"""Watches that are kept."""


class _Watch(NamedTuple):
    message: WatchMessage
    came_s: float
    heard_s: float | None
    """Monotonic seconds of its last heartbeat; None where only a retained message has come."""


class Watches:
    """The watches of one fleet."""

    def __init__(self) -> None:
        self._known: dict[str, _Watch] = {}

    def put(self, message: WatchMessage, now_s: float, *, is_retained: bool) -> None:
        """Take a presence message; one that the broker had retained is no heartbeat."""
        client = message.client
        if message.state == "offline":
            self._known.pop(client, None)
        elif client in self._known or len(self._known) < MOST:
            known = self._known.get(client)
            heard_s = now_s if not is_retained else known.heard_s if known is not None else None
            self._known[client] = _Watch(message, now_s, heard_s)

    def clear(self, client: str) -> None:
        """Forget a watch whose message was cleared."""
        self._known.pop(client, None)

    def present(self, now_s: float) -> list[WatchPresence]:
        """Return the watches that are present."""
        return [
            WatchPresence(
                client,
                parse_rfc3339(each.message.since) if each.message.since else None,
                None if each.heard_s is None else now_s - each.heard_s,
                each.message.leads,
                each.message.firing,
            )
            for client, each in self._known.items()
            if (now_s - each.came_s < DOUBT_S if each.heard_s is None else now_s - each.heard_s < GONE_S)
        ]

    def copy(self) -> Watches:
        """Return a copy; messages never change."""
        twin = Watches()
        twin._known = self._known.copy()
        return twin
