"""The inbox of a source: bounded in messages and bytes, with drops counted.

Owns the policy of what is dropped first. It knows no client and no broker: the MQTT source and the memory bus share it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope, LinkStatus

MAX_PAYLOAD_BYTES = DEFAULT_LIMITS.payload_bytes
"""The largest payload of the protocol."""
MAX_QUEUED_MESSAGES = 8_192
"""Four seconds of 1,000,000 chips in frames of 512, and a whole tick of 8,192 chips that publish one by one."""
MAX_QUEUED_BYTES = 48 * 1024 * 1024
"""Keeps a slow consumer under the 50 MB that it may cost: 0.36 s of 1,000,000 chips in frames of 67 KB.

That is seven rounds of a consumer that takes at 20 Hz. A loop that stalls as a whole reads nothing, and is bridged by
the broker's queue instead. Who must not lose in longer pauses, such as a recorder, asks for more.
"""


@dataclass(frozen=True, slots=True)
class InboxLimits:
    """Bounds of an inbox."""

    messages: int = MAX_QUEUED_MESSAGES
    size_bytes: int = MAX_QUEUED_BYTES
    """Payload bytes of all that waits."""
    payload_bytes: int = MAX_PAYLOAD_BYTES
    """The largest payload that is let in at all."""

    def __post_init__(self) -> None:
        if min(self.messages, self.size_bytes, self.payload_bytes) < 1:
            raise ValueError(f"every limit of an inbox must be at least 1: {self}")


class Inbox:
    """Envelopes in the order in which they came.

    When a limit is reached the oldest telemetry (QoS 0, not retained) goes first, because a newer one replaces it;
    events and state (QoS 1 or retained) go only when there is nothing else left to drop. All counts are kept in the
    `LinkStatus` that was given: `received` counts everything that came, `oversize` and `dropped` the parts of it that
    were not let in or not kept.
    """

    def __init__(self, limits: InboxLimits, status: LinkStatus) -> None:
        self._limits = limits
        self._status = status
        self._recent: deque[Envelope] = deque()
        # Transitions that were met while looking for telemetry to drop; all of them are older than `_recent`.
        self._kept: deque[Envelope] = deque()
        self._size_bytes = 0
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._recent) + len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Payload bytes of all that waits."""
        return self._size_bytes

    def put(self, envelope: Envelope) -> None:
        """Take in one envelope; it never waits and never raises, because it runs inside the client's own callback."""
        status, limits = self._status, self._limits
        status.received += 1
        size = len(envelope.payload)
        if size > limits.payload_bytes:
            status.oversize += 1
            return
        self._recent.append(envelope)
        self._size_bytes += size
        while len(self._recent) + len(self._kept) > limits.messages or self._size_bytes > limits.size_bytes:
            self._drop_one()
        status.queue_peak = max(status.queue_peak, len(self._recent) + len(self._kept))
        self._filled.set()

    async def take(self) -> list[Envelope]:
        """Return all that waits, in order, waiting until there is something."""
        while not self._recent and not self._kept:
            self._filled.clear()
            await self._filled.wait()
        batch = [*self._kept, *self._recent] if self._kept else list(self._recent)
        self._kept.clear()
        self._recent.clear()
        self._size_bytes = 0
        return batch

    def _drop_one(self) -> None:
        while self._recent:
            oldest = self._recent.popleft()
            if oldest.qos == 0 and not oldest.retain:
                break
            self._kept.append(oldest)
        else:
            oldest = self._kept.popleft()
        self._size_bytes -= len(oldest.payload)
        self._status.dropped += 1
