"""Messages not applied: reasons for a rejection, and the buffer for pending telemetry."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import WireError
from trnfleet.monitor.slices import SLICE
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.topics import DEFAULT_ROOT, parse_topic

if TYPE_CHECKING:
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

MOST_PENDING = 10_000
MOST_PENDING_BYTES = 64 * 2**20
"""Most messages, and bytes of payload, waiting for a descriptor."""


class RejectReason(enum.StrEnum):
    """Reasons for a rejection, each with a counter of its name in `PipelineCounts`."""

    UNDECODABLE = "undecodable"
    """It violates the protocol."""
    MISPLACED = "misplaced"
    """Its payload names another identity than its topic."""
    REJECTED = "rejected"
    """It exceeds a limit, or was retained in a class without retained messages."""


class MisplacedError(WireError):
    """A payload's identity is not its topic's."""


class RejectedError(WireError):
    """A limit is reached, or a broker retained a message it should only forward."""


_REASONS: dict[type[Exception], RejectReason] = {
    MisplacedError: RejectReason.MISPLACED,
    RejectedError: RejectReason.REJECTED,
}
"""For any other error it is `UNDECODABLE`."""


def reject(
    counts: PipelineCounts, envelope: Envelope, error: Exception, *, root: str = DEFAULT_ROOT
) -> None:
    """Count a message that is not applied, and log it with its topic.

    Args:
        counts: The counters.
        envelope: The message.
        error: The reason; anything but a `WireError` is a bug, and is logged with its traceback.
        root: First part of the topics.
    """
    try:
        what = parse_topic(envelope.topic, root).topic_class.value
    except WireError:
        what = "other"
    counts.refused[what] = counts.refused.get(what, 0) + 1
    reason = _REASONS.get(type(error), RejectReason.UNDECODABLE)
    count = getattr(counts, reason) + 1
    setattr(counts, reason, count)
    is_expected = isinstance(error, WireError)
    text = str(error) if is_expected else type(error).__name__
    topic = envelope.topic[: DEFAULT_LIMITS.text_chars]
    counts.last_problem = f"{topic}: {text}"
    log.warning(
        "message_rejected",
        reason=reason.value,
        count=count,
        topic=topic,
        error=text,
        exc_info=None if is_expected else error,
    )


class PendingTelemetry:
    """Telemetry received before its layout: a bounded buffer in order of arrival."""

    def __init__(
        self, most_messages: int = MOST_PENDING, most_bytes: int = MOST_PENDING_BYTES
    ) -> None:
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._messages: list[Envelope] = []
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._messages)

    def hold(self, envelope: Envelope, *, is_described: bool = True) -> bool:
        """Append a message; return False, and leave it out, where there is no room.

        Args:
            envelope: The message.
            is_described: Whether its descriptor has come. A half of the room is for such alone.
        """
        size = len(envelope.payload)
        parts = 1 if is_described else 2
        if (self._bytes + size) * parts > self._most_bytes or (
            len(self._messages) + 1
        ) * parts > self._most_messages:
            return False
        self._messages.append(envelope)
        self._bytes += size
        return True

    def take(self) -> list[Envelope]:
        """Remove and return the oldest messages, as many as fit one slice."""
        messages = self._messages[:SLICE]
        del self._messages[:SLICE]
        self._bytes -= sum(len(message.payload) for message in messages)
        return messages
