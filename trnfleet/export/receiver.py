"""Interface of receivers: they queue notifications, deliver and confirm them.

The notification log decides what each receiver gets. A receiver never blocks its caller; it
delivers in its own time.
"""

from __future__ import annotations

import abc
import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverError, ReceiverErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Sequence

    from trnfleet.clock import Clock
    from trnfleet.export.notification import Notification

log = logs.get_logger(__name__)

MOST_WAITING = 10_000
"""Largest queue of one receiver."""
MOST_AT_ONCE = 500
"""Most alerts of a request."""
RESOLVED_FOR_S = 900.0
"""Seconds for which an end is repeated and stays published, for receivers that were unreachable."""
LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Tally:
    """Counts of a receiver's notifications by their outcome."""

    waiting: int = 0
    delivered: int = 0
    refused: int = 0
    """Rejected for good by the other side."""
    failed: int = 0
    """Given up after the last attempt."""
    dropped: int = 0
    """Left out because the queue was full."""
    last_error: str = ""


class Receiver(abc.ABC):
    """A receiver of notifications."""

    repeats = False
    """Whether it needs repeats of ongoing alerts."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        """Its name in retained messages: `webhook`, `webhook-2`, and so on."""
        self.clock = clock
        self.tally = Tally()
        self.confirm: Callable[[Notification], None] = lambda _notification: None
        """Called when a notification has been delivered."""

    @abc.abstractmethod
    def notify(self, notifications: Sequence[Notification]) -> int:
        """Queue notifications in order; return the number queued from the front."""

    def refresh(self, notification: Notification) -> None:  # noqa: B027  only those that repeat need it
        """Replace a delivered notification of an ongoing alert by a newer one.

        Used by receivers that repeat.
        """

    def errors(self) -> ReceiverErrors:
        """Return the alerts it refuses at present."""
        if not self.tally.last_error:
            return NO_ERRORS
        return ReceiverErrors.of(1, [ReceiverError(self.name, "alerts", "", self.tally.last_error)])

    def note_failure(self, why: str) -> None:
        """Note why nothing can be delivered; it is logged when it changes."""
        if self.tally.last_error != why:
            log.warning("receiver_failed", receiver=self.name, reason=why)
        self.tally.last_error = why

    def set_sure(self, is_sure: bool) -> None:  # noqa: B027  only those that repeat need it
        """Set whether this watch is sure to lead.

        While the broker is away, another may lead, and end alerts.
        """

    def end_leadership(self, own: Container[str] = ()) -> None:  # noqa: B027  only those that repeat need it
        """Stop repeating: another watch is the leader from now on.

        Args:
            own: Fingerprints of alerts unknown to other watches; their ends are still delivered.
        """

    @abc.abstractmethod
    async def run(self) -> None:
        """Deliver notifications until cancelled.

        It may raise anything. The queue remains, and the next call continues with it.
        """


def pause_s(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt, counted from 0: 1, 2, 4 ... 30."""
    return min(LONGEST_PAUSE_S, 2.0 ** min(attempt, 10))


async def finished_within(work: Coroutine[Any, Any, object], clock: Clock, seconds: float) -> bool:
    """Await `work` for `seconds` at most; return whether it has finished."""
    task = asyncio.create_task(work, name="work")
    timer = asyncio.create_task(clock.sleep(seconds), name="timer")
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        for pending in (task, timer):
            pending.cancel()
        await asyncio.wait({task, timer})
        if not task.cancelled():
            # asyncio would complain about an error that came too late and was never retrieved.
            task.exception()
