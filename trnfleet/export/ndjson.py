"""Notices as lines of JSON on a file descriptor, such as stdout.

A thread of its own writes them: whoever reads may hold still for as long as they like, and nothing else waits for that.
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
    from trnfleet.export.notification import Notice

log = logs.get_logger(__name__)

LOOK_S = 0.5
"""Time between two looks at whether somebody still reads."""
_KEYS = (
    "ts", "state", "alertname", "severity", "target", "labels", "summary", "value", "fingerprint", "since", "fired",
    "resolved", "cause",
)  # fmt: skip  # a list of names


class LineReceiver(Receiver):
    """Writes a line for each notice, at once."""

    def __init__(self, name: str, descriptor: int, clock: Clock) -> None:
        """Describe the receiver.

        Args:
            name: What it is called.
            descriptor: The file descriptor to write to.
            clock: The time to go by.
        """
        super().__init__(name, clock)
        self._descriptor = descriptor
        self._waiting: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()

    def tell(self, notices: Sequence[Notice]) -> int:
        """Take what has changed, as far as there is room."""
        taken = notices[: max(0, MOST_WAITING - self.tally.waiting)]
        self.tally.waiting += len(taken)
        for notice in taken:
            self._waiting.put(notice)
        return len(taken)

    async def run(self) -> None:
        """Write what waits, until cancelled.

        Raises:
            BrokenPipeError: whoever reads has enough.
            OSError: it cannot be written to, such as a full disk.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        # A daemon: a write that never ends must not keep the process from ending.
        threading.Thread(target=self._write, args=(loop, ended), name=self.name, daemon=True).start()
        try:
            while not ended.done():
                # A reader that leaves shows at the next line only, which may be a night away; a pipe can be asked.
                if await finished_within(_wait(ended), self.clock, LOOK_S) or not _is_left(self._descriptor):
                    continue
                raise BrokenPipeError
            ended.result()
        finally:
            self._waiting.put(None)

    def _write(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody wants to know
            while (notice := self._waiting.get()) is not None:
                try:
                    left = line(notice)
                    while left:
                        left = left[os.write(self._descriptor, left) :]
                except OSError as error:
                    loop.call_soon_threadsafe(_fail, ended, error)
                    return
                loop.call_soon_threadsafe(self._wrote, notice)

    def _wrote(self, notice: Notice) -> None:
        self.tally.waiting -= 1
        self.tally.told += 1
        self.confirm(notice)


def line(notice: Notice) -> bytes:
    """Return a notice as one line of ASCII."""
    told = facts(notice)
    return json.dumps({name: told[name] for name in _KEYS}, ensure_ascii=True).encode() + b"\n"


def _is_left(descriptor: int) -> bool:
    """Say whether nobody reads any more what is written to a pipe or a socket."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in poll.poll(0))


async def _wait(ended: asyncio.Future[None]) -> None:
    await asyncio.wait({ended})


def _fail(ended: asyncio.Future[None], error: OSError) -> None:
    if not ended.done():
        ended.set_exception(error)
