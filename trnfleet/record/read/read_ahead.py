"""Read-ahead in a thread: playing never waits for reading and decompressing."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from trnfleet.wire.ports import Stored

BATCH = 64
"""Messages per batch."""
MOST_MESSAGES = 8_192
MOST_BYTES = 32 * 2**20
"""Most payload bytes waiting, plus one batch."""


class ReadAhead:
    """One reading of a stretch of a recording.

    The recording must have no other reader meanwhile.
    """

    def __init__(self, messages: Iterator[Stored]) -> None:
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._changed = threading.Condition()
        self._batches: deque[list[Stored]] = deque()
        self._waiting = 0
        self._waiting_bytes = 0
        self._is_over = False
        self._is_closed = False
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="read-ahead", daemon=True)

    async def batches(self) -> AsyncGenerator[list[Stored], None]:
        """Yield the messages in order, in batches.

        Reading ends when the iteration is closed.

        Raises:
            TrnfleetError: reading failed.
        """
        self._thread.start()
        try:
            while True:
                await self._filled.wait()
                with self._changed:
                    batch = self._batches.popleft() if self._batches else None
                    if batch is not None:
                        self._waiting -= len(batch)
                        self._waiting_bytes -= _size(batch)
                        self._changed.notify()
                    is_over = self._is_over
                    if not self._batches and not is_over:
                        self._filled.clear()
                if batch is not None:
                    yield batch
                elif is_over:
                    break
            if self._problem is not None:
                raise self._problem
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify()

    def _read(self) -> None:
        """Read to the end or until closed; the thread's main function."""
        batch: list[Stored] = []
        try:
            for stored in self._messages:
                batch.append(stored)
                if len(batch) >= BATCH:
                    if not self._hand_over(batch):
                        return
                    batch = []
            self._hand_over(batch)
        except BaseException as error:  # noqa: BLE001  it is raised where the messages are awaited
            self._problem = error
        finally:
            with self._changed:
                self._is_over = True
            self._wake()

    def _hand_over(self, batch: list[Stored]) -> bool:
        """Wait for room and put a batch; return whether the reader goes on."""
        with self._changed:
            while not self._is_closed and (
                self._waiting >= MOST_MESSAGES or self._waiting_bytes >= MOST_BYTES
            ):
                self._changed.wait()
            if self._is_closed:
                return False
            if batch:
                self._batches.append(batch)
                self._waiting += len(batch)
                self._waiting_bytes += _size(batch)
        self._wake()
        return True

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._filled.set)
        except RuntimeError:
            # The loop has ended, and nobody waits any more.
            return


def _size(batch: list[Stored]) -> int:
    return sum(len(stored.envelope.payload) for stored in batch)
