"""Notifications as lines of JSON on a file descriptor, such as stdout.

A thread of its own writes them, so that a reader that blocks delays nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import select
import threading
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.export.notification import facts
from trnfleet.export.receiver import MOST_WAITING, Receiver, finished_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.clock import Clock
    from trnfleet.export.notification import Notification

log = logs.get_logger(__name__)

CHECK_EVERY_S = 0.5
"""Time between two checks of whether the reader is still there."""
_KEYS = (
    "ts", "state", "alertname", "severity", "target", "labels", "summary", "value", "fingerprint", "since", "fired",
    "resolved", "cause",
)  # fmt: skip  # a list of names


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
        self._waiting: queue.SimpleQueue[Notification | None] = queue.SimpleQueue()

    def notify(self, notifications: Sequence[Notification]) -> int:
        taken = notifications[: max(0, MOST_WAITING - self.tally.waiting)]
        self.tally.waiting += len(taken)
        for notification in taken:
            self._waiting.put(notification)
        return len(taken)

    async def run(self) -> None:
        """Write queued notifications until cancelled.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
            OSError: it cannot be written to, such as a full disk.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        # A daemon: a write that never ends must not keep the process from ending.
        threading.Thread(
            target=self._write, args=(loop, ended), name=self.name, daemon=True
        ).start()
        try:
            while not ended.done():
                # A reader that leaves shows at the next line only, which may be a night away; a pipe can be asked.
                if await finished_within(
                    asyncio.wait({ended}), self.clock, CHECK_EVERY_S
                ) or not _is_closed(self._descriptor):
                    continue
                raise BrokenPipeError
            ended.result()
        finally:
            self._waiting.put(None)
            if not ended.cancel():
                # asyncio would complain about an error that nothing retrieves.
                ended.exception()

    def _write(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while (notification := self._waiting.get()) is not None:
                try:
                    left = line(notification)
                    while left:
                        left = left[os.write(self._descriptor, left) :]
                except OSError as error:
                    loop.call_soon_threadsafe(_fail, ended, error)
                    return
                loop.call_soon_threadsafe(self._wrote, notification)

    def _wrote(self, notification: Notification) -> None:
        self.tally.waiting -= 1
        self.tally.delivered += 1
        self.confirm(notification)


def line(notification: Notification) -> bytes:
    """Return a notification as one line of ASCII."""
    parts = facts(notification)
    return json.dumps({name: parts[name] for name in _KEYS}, ensure_ascii=True).encode() + b"\n"


def _is_closed(descriptor: int) -> bool:
    """Return whether the reader of a pipe or a socket has closed it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in poll.poll(0))


def _fail(ended: asyncio.Future[None], error: OSError) -> None:
    if not ended.done():
        ended.set_exception(error)
