"""Telemetry that came before the layout of its descriptor stands: held back, within bounds, until it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope

MOST_MESSAGES = 10_000
MOST_BYTES = 64 * 2**20
"""Payload bytes of all that is held back."""


class Waiting:
    """Messages that are held back, in the order in which they came."""

    def __init__(self) -> None:
        self._messages: list[Envelope] = []
        self._bytes = 0

    def hold(self, envelope: Envelope) -> bool:
        """Hold a message back; say whether there was room for it."""
        size = len(envelope.payload)
        if self._bytes + size > MOST_BYTES or len(self._messages) >= MOST_MESSAGES:
            return False
        self._messages.append(envelope)
        self._bytes += size
        return True

    def release(self) -> list[Envelope]:
        """Return what was held back, and hold it no longer."""
        messages, self._messages, self._bytes = self._messages, [], 0
        return messages
