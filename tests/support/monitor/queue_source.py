"""Sources without a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Iterable


class QueueSource:
    """A source of batches put in by a test, one a call.

    It waits for the next.
    """

    def __init__(self, *batches: list[Envelope]) -> None:
        self.status = LinkStatus(connected=True)
        self.batches: asyncio.Queue[list[Envelope]] = asyncio.Queue()
        for batch in batches:
            self.batches.put_nowait(batch)

    async def take(self) -> list[Envelope]:
        """Wait for the next batch."""
        return await self.batches.get()

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""
