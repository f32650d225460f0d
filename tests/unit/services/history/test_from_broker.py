"""History written from a broker, and the wait at its end."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from support.memory_bus import MemoryBus, MemorySource

from trnfleet.services.history.write import (
    HistoryProgress,
    HistoryRequest,
    PendingWrites,
    write_from_broker,
)
from trnfleet.services.session import BrokerSession
from trnfleet.transport.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest


BUS = MemoryBus()


class InMemory(BrokerSession):
    """A session with a broker in memory."""

    def source(self, filters: Iterable[tuple[str, int]], **rest: Any) -> MemorySource:  # type: ignore[override]  # as far as it is used
        return BUS.source(list(filters), limits=rest.get("limits"))


class Silent:
    """A reporter that says nothing."""

    def began(self, fleet: str) -> None:
        """Take the beginning."""

    def progressed(self, progress: HistoryProgress, elapsed_s: float) -> None:
        """Take the totals."""

    def failed(self, problem: str) -> None:
        """Take a problem."""


async def test_the_loop_goes_on_while_the_last_minutes_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the disk is, signals are taken: a second one ends it at once."""
    loop, went_on = asyncio.get_running_loop(), threading.Event()
    ended_with: list[bool] = []

    def flush(_self: PendingWrites, *, at_end: bool = False) -> None:
        if at_end:
            loop.call_soon_threadsafe(went_on.set)
            ended_with.append(went_on.wait(5.0))

    monkeypatch.setattr(PendingWrites, "flush", flush)
    session = InMemory(parse_url("mqtt://127.0.0.1:1"))
    request = HistoryRequest(tmp_path, "main", "host-a", (), duration_s=0.0)
    total = await write_from_broker(session, "demo", request, Silent())
    assert (ended_with, total.fleet) == ([True], "demo")
