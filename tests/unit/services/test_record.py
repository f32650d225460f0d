"""Recording from a source, without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from support.monitor.queue_source import QueueSource

from trnfleet.clock import ManualClock
from trnfleet.record.read.recording import Recording
from trnfleet.services.record import RecordProgress, RecordRequest, record
from trnfleet.transport.url import parse_url
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Connection(QueueSource):
    """A working connection with messages from a test."""

    @property
    def waiting(self) -> int:
        return self.batches.qsize()

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait_connected(self, timeout_s: float) -> None:
        """Return at once."""

    def come(self, *payloads: bytes) -> None:
        batch = [Envelope("trnfleet/v1/demo/event/fleet", each, 1) for each in payloads]
        self.batches.put_nowait(batch)


class Ear:
    """A reporter that hears nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def test_what_has_come_when_a_recording_ends_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that came between the last look and the end are written, too, and counted."""
    monkeypatch.setattr("trnfleet.services.record.GATHER_S", 60.0)
    clock, source, file = ManualClock(), Connection(), tmp_path / "a.mcap"
    session: Any = SimpleNamespace(
        clock=clock,
        root="trnfleet",
        url=parse_url("mqtt://127.0.0.1"),
        source=lambda *_, **__: source,
    )
    source.come(b"first")
    request = RecordRequest(file, ("trnfleet/#",), duration_s=10.0)
    recording: asyncio.Task[RecordProgress] = asyncio.create_task(record(session, request, Ear()))
    await clock.advance(1.0)
    source.come(b"second")
    await clock.advance(8.0)
    source.come(b"third", b"last")
    assert source.waiting == 1
    await clock.advance(1.5)
    progress = await asyncio.wait_for(recording, 10.0)
    assert (progress.messages, progress.dropped) == (4, 0)
    read = Recording.open([file])
    try:
        assert [each.envelope.payload for each in read.all()] == [
            b"first",
            b"second",
            b"third",
            b"last",
        ]
    finally:
        read.close()
