"""Watches of a fleet by presence message: the claimed leader, and the last heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.alerts.watches import (
    DOUBT_S,
    GONE_S,
    ReceiverError,
    ReceiverErrors,
    WatchPresence,
)
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from trnfleet.wire.messages import WatchMessage


class _Watch(NamedTuple):
    message: WatchMessage
    came_s: float
    heard_s: float | None
    """Monotonic seconds of its last heartbeat; None where only a retained message has come."""


def presence_of(message: WatchMessage, heard_s: float | None) -> WatchPresence:
    """Return a watch as described by its message, `heard_s` after its last heartbeat.

    None for `heard_s` if no heartbeat has arrived.
    """
    return WatchPresence(
        message.client,
        parse_rfc3339(message.since) if message.since else None,
        heard_s,
        message.leads,
        message.firing,
        ReceiverErrors.of(
            max(message.errors or 0, len(message.receiver_errors)),
            (
                ReceiverError(error.receiver, error.kind, error.id, error.reason)
                for error in message.receiver_errors
            ),
        ),
        message.hears,
    )


class Watches:
    """The watches of one fleet, or the relays of one cell."""

    def __init__(
        self,
        most: int = DEFAULT_LIMITS.watches,
        *,
        gone_s: float = GONE_S,
        doubt_s: float = DOUBT_S,
    ) -> None:
        """Create an empty table.

        Args:
            most: Most watches.
            gone_s: Seconds without a heartbeat before a watch is gone.
            doubt_s: Seconds a watch counts as present by a retained message alone.
        """
        self._most = most
        self._gone_s = gone_s
        self._doubt_s = doubt_s
        self._known: dict[str, _Watch] = {}

    def put(self, message: WatchMessage, now_s: float, *, is_retained: bool) -> bool:
        """Apply a presence message.

        Return whether there was room.

        A message retained by the broker is no heartbeat.
        """
        client = message.client
        known = self._known.pop(client, None)
        if known is None and len(self._known) >= self._most:
            # Each message puts its watch last.
            oldest = next(iter(self._known))
            if self._is_present(self._known[oldest], now_s):
                return False
            del self._known[oldest]
        heard_s = None if known is None else known.heard_s
        if message.state == "offline":
            heard_s = None
        elif not is_retained:
            heard_s = now_s
        self._known[client] = _Watch(message, now_s, heard_s)
        return True

    def clear(self, client: str) -> None:
        """Remove a watch after its message was cleared."""
        self._known.pop(client, None)

    def __len__(self) -> int:
        """Return the number of watches with a message, online or offline."""
        return len(self._known)

    def __contains__(self, client: str) -> bool:
        return client in self._known

    def present(self, now_s: float) -> list[WatchPresence]:
        """Return the watches that are present."""
        return [
            presence_of(watch.message, None if watch.heard_s is None else now_s - watch.heard_s)
            for watch in self._known.values()
            if self._is_present(watch, now_s)
        ]

    def has_present(self, now_s: float) -> bool:
        """Return whether any is present."""
        return any(self._is_present(watch, now_s) for watch in self._known.values())

    def _is_present(self, watch: _Watch, now_s: float) -> bool:
        if watch.message.state == "offline":
            return False
        if watch.heard_s is None:
            return now_s - watch.came_s < self._doubt_s
        return now_s - watch.heard_s < self._gone_s
