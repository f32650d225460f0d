"""What is not taken: why a message is refused, and how that is counted and logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import WireError

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.sequence import Pipeline
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

LOGGED_OF_A_KIND = 100
"""So many refused messages of a kind are logged one by one, later ones each time that many more have come."""
_TOPIC_CHARS = 200
"""So much of a topic is said."""


class MisplacedError(WireError):
    """A payload's identity is not its topic's."""


class RejectedError(WireError):
    """A limit is reached, or a broker kept what it should have passed on."""


_KINDS: dict[type[Exception], str] = {MisplacedError: "misplaced", RejectedError: "rejected"}
"""What is counted for an error; for any other it is `undecodable`."""


def refuse(counts: Pipeline, envelope: Envelope, error: Exception) -> None:
    """Count a message that is not taken, and log it with its topic.

    Args:
        counts: Where it is counted, by the kind of the error.
        envelope: The message.
        error: Why it is not taken; anything but a `WireError` is a bug, and is logged with its traceback.
    """
    kind = _KINDS.get(type(error), "undecodable")
    count = getattr(counts, kind) + 1
    setattr(counts, kind, count)
    is_expected = isinstance(error, WireError)
    said = str(error) if is_expected else type(error).__name__
    topic = envelope.topic[:_TOPIC_CHARS]
    counts.last_problem = f"{topic}: {said}"
    if count <= LOGGED_OF_A_KIND or count % LOGGED_OF_A_KIND == 0:
        # A flood of refused messages must not become a flood of log lines.
        log.warning(
            "message_refused",
            kind=kind,
            count=count,
            topic=topic,
            error=said,
            exc_info=None if is_expected else error,
        )
