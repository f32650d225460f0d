"""The interface of receivers: they queue notifications at once, deliver them in their own time, and confirm deliveries.

The notification log decides what is sent to which receiver. A receiver never blocks its caller.
"""

from __future__ import annotations

import abc
import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverError, ReceiverErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Sequence
    from typing import Any

    from trnfleet.clock import Clock
    from trnfleet.export.notification import Notification

MOST_WAITING = 10_000
"""Largest queue of one receiver."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Tally:
    """Counts of a receiver's notifications by their outcome."""

    waiting: int = 0
    delivered: int = 0
    retried: int = 0
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
    """Whether it needs alerts that go on to be repeated."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        """Its name in retained messages: `webhook`, `webhook-2`, and so on."""
        self.clock = clock
        self.tally = Tally()
        self.confirm: Callable[[Notification], None] = _ignore
        """Called when a notification has been delivered."""

    @abc.abstractmethod
    def notify(self, notifications: Sequence[Notification]) -> int:
        """Queue notifications, in order, and return the number queued: those at the front."""

    def refresh(self, notification: Notification) -> None:  # noqa: B027  only those that repeat need it
        """Replace a delivered notification of an alert that goes on by a newer one; of use where it repeats."""

    def errors(self) -> ReceiverErrors:
        """Return what it does not take at present."""
        if not self.tally.last_error:
            return NO_ERRORS
        return ReceiverErrors.of(1, [ReceiverError(self.name, "alerts", "", self.tally.last_error)])

    def set_sure(self, is_sure: bool) -> None:  # noqa: B027  only those that repeat need it
        """Take whether this watch knows that it leads: while the broker is away, another may, and end alerts."""

    def end_leadership(self, own: Container[str] = ()) -> None:  # noqa: B027  only those that repeat need it
        """Stop repeating: another watch is the leader from here on.

        Args:
            own: Fingerprints of alerts that no other watch knows, so that their ends are still to be delivered.
        """

    @abc.abstractmethod
    async def run(self) -> None:
        """Deliver notifications until cancelled."""


def _ignore(_notification: Notification) -> None:
    """Do nothing."""


def pause_s(attempt: int) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0): 1, 2, 4 and so on up to 30."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * float(1 << min(attempt, 10)))


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
        for each in (task, timer):
            each.cancel()
        await asyncio.wait({task, timer})
        if not task.cancelled():
            # asyncio would complain about an error that came too late and was never retrieved.
            task.exception()
