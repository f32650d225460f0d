"""The watches of a fleet by their presence messages: who says that it leads, and when it was heard."""

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
from trnfleet.monitor.copies import copied
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from trnfleet.wire.messages import WatchMessage


class _Watch(NamedTuple):
    message: WatchMessage
    came_s: float
    heard_s: float | None
    """Monotonic seconds of its last heartbeat; None where only a retained message has come."""


def presence_of(message: WatchMessage, heard_s: float | None) -> WatchPresence:
    """Return a watch as its message describes it, `heard_s` after its last heartbeat; None where none has come."""
    return WatchPresence(
        message.client,
        parse_rfc3339(message.since) if message.since else None,
        heard_s,
        message.leads,
        message.firing,
        ReceiverErrors.of(
            max(message.errors or 0, len(message.receiver_errors)),
            (
                ReceiverError(each.receiver, each.kind, each.id, each.reason)
                for each in message.receiver_errors
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
        """Begin without any.

        Args:
            most: How many are kept.
            gone_s: Time without a heartbeat after which one counts as gone.
            doubt_s: Time for which one counts as present by a retained message alone.
        """
        self._most, self._gone_s, self._doubt_s = most, gone_s, doubt_s
        self._known: dict[str, _Watch] = {}

    def put(self, message: WatchMessage, now_s: float, *, is_retained: bool) -> bool:
        """Take a presence message, and return whether there was room; one that the broker had retained is no heartbeat."""
        client = message.client
        if message.state == "offline":
            self._known.pop(client, None)
            return True
        known = self._known.pop(client, None)
        if known is None and len(self._known) >= self._most:
            # Each message puts its watch last.
            oldest = next(iter(self._known))
            if self._is_present(self._known[oldest], now_s):
                return False
            del self._known[oldest]
        heard_s = now_s if not is_retained else known.heard_s if known is not None else None
        self._known[client] = _Watch(message, now_s, heard_s)
        return True

    def clear(self, client: str) -> None:
        """Forget a watch whose message was cleared."""
        self._known.pop(client, None)

    def present(self, now_s: float) -> list[WatchPresence]:
        """Return the watches that are present."""
        return [
            presence_of(each.message, None if each.heard_s is None else now_s - each.heard_s)
            for each in self._known.values()
            if self._is_present(each, now_s)
        ]

    def has_present(self, now_s: float) -> bool:
        """Return whether any is present."""
        return any(self._is_present(each, now_s) for each in self._known.values())

    def copy(self) -> Watches:
        """Return a copy; messages never change."""
        return copied(self, _known=self._known.copy())

    def _is_present(self, watch: _Watch, now_s: float) -> bool:
        if watch.heard_s is None:
            return now_s - watch.came_s < self._doubt_s
        return now_s - watch.heard_s < self._gone_s
