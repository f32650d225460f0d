"""Notifications as lines of JSON on a file descriptor, such as stdout.

Each write has a thread of its own, so a blocked reader delays nothing else.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from trnfleet.export.notification import Notification, facts
from trnfleet.export.receiver import MOST_WAITING, Receiver, finished_within
from trnfleet.tasks import POLL_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.clock import Clock


class LineReceiver(Receiver):
    """Writes a line for each notification, at once."""

    def __init__(self, name: str, descriptor: int, clock: Clock) -> None:
        """Describe the receiver.

        Args:
            name: Its name.
            descriptor: The file descriptor to write to.
            clock: The time to go by.
        """
        super().__init__(name, clock)
        self._descriptor = descriptor
        self._waiting: deque[Notification] = deque()
        self._changed = asyncio.Event()
        self._left = b""
        """Rest of a partly written line."""

    def notify(self, notifications: Sequence[Notification]) -> int:
        accepted = notifications[: max(0, MOST_WAITING - self.tally.waiting)]
        self._waiting += accepted
        self.tally.waiting = len(self._waiting)
        self._changed.set()
        return len(accepted)

    async def run(self) -> None:
        """Write queued notifications until cancelled.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
            OSError: it cannot be written to, such as a full disk. The line is written by the next
                run.
        """
        while True:
            # A closed pipe shows at the next line only, which may be a night away; a pipe can be
            # asked.
            if _is_closed(self._descriptor):
                raise BrokenPipeError(errno.EPIPE, "the reader has closed the pipe")
            if not self._waiting:
                self.tally.last_error = ""
                self._changed.clear()
                await finished_within(self._changed.wait(), self.clock, POLL_S)
                continue
            notification = self._waiting[0]
            self._left = self._left or line(notification)
            while self._left:
                written = await in_thread(partial(os.write, self._descriptor, self._left))
                self._left = self._left[written:]
            self._waiting.popleft()
            self.tally.waiting = len(self._waiting)
            self.tally.delivered += 1
            self.tally.last_error = ""
            self.confirm(notification)


def line(notification: Notification) -> bytes:
    """Return a notification as one line of ASCII."""
    return json.dumps(facts(notification), ensure_ascii=True).encode() + b"\n"


def _is_closed(descriptor: int) -> bool:
    """Return whether the reader of a pipe or a socket has closed it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in poll.poll(0))
