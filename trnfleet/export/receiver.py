"""What all receivers have in common: they take notices at once, tell them in their own time, and say what has arrived.

What they are told twice, or not at all, is the ledger's to decide. A receiver never holds up whoever tells it.
"""

from __future__ import annotations

import abc
import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from trnfleet.clock import Clock
    from trnfleet.export.notification import Notice

MOST_WAITING = 10_000
"""Notices that wait for one receiver at most."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Tally:
    """What became of a receiver's notices."""

    waiting: int = 0
    told: int = 0
    retried: int = 0
    refused: int = 0
    """What the other side does not want, now or later."""
    failed: int = 0
    """What was given up after so many attempts."""
    dropped: int = 0
    """What there was no room for."""
    last_error: str = ""


class Receiver(abc.ABC):
    """Somebody who is told of alerts."""

    repeats = False
    """Whether it must be told again and again of what goes on."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        """What the retained messages call it: `webhook`, `webhook-2`, and so on."""
        self.clock = clock
        self.tally = Tally()
        self.confirm: Callable[[Notice], None] = _nobody
        """Called when a notice has arrived."""

    @abc.abstractmethod
    def tell(self, notices: Sequence[Notice]) -> int:
        """Take what has just changed, in order, and return of how many notices it took note: those at the front."""

    def keep(self, notice: Notice) -> None:  # noqa: B027  only those that repeat need it
        """Take what it has been told of before and goes on, with newer figures; of use where it repeats."""

    def stand_by(self) -> None:  # noqa: B027  only those that repeat need it
        """Stop repeating: somebody else speaks from here on."""

    @abc.abstractmethod
    async def run(self) -> None:
        """Tell what was taken, until cancelled."""


def _nobody(_notice: Notice) -> None:
    """Do nothing."""


def pause_s(attempt: int) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0): 1, 2, 4 and so on up to 30."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * float(1 << min(attempt, 10)))


async def finished_within(work: Coroutine[Any, Any, None], clock: Clock, seconds: float) -> bool:
    """Await `work` for so many seconds at most; say whether it came to its end."""
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
            # asyncio would complain that nobody looked at an error that came too late.
            task.exception()
