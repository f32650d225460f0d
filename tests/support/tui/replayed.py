"""The app over a recording, stopped at instants."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from support.tui.pilot import FleetPilot, running
from trnfleet.clock import SystemClock
from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.services.files.rules import load_rules
from trnfleet.services.viewing import Viewing, view_recording
from trnfleet.tui.app.app import FleetApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trnfleet.monitor.replay.playback import RecordingPlayback
    from trnfleet.record.read.recording import Recording


@contextlib.asynccontextmanager
async def replayed(
    recording: Recording, fleet: str, from_ns: int, to_ns: int, site: Site = DEFAULT_SITE
) -> AsyncIterator[Viewing]:
    """Play a part of a recording."""
    viewing = view_recording(
        recording,
        fleet,
        from_ns=from_ns,
        to_ns=to_ns,
        speed=1.0,
        loops=False,
        rules=load_rules(),
        site=site,
        clock=SystemClock(),
    )
    tasks = [asyncio.ensure_future(task) for task in viewing.running.values()]
    try:
        yield viewing
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def showing(viewing: Viewing, size: tuple[int, int]) -> AsyncIterator[FleetPilot]:
    """Run its app in a terminal of a size."""
    app = FleetApp(viewing.state, clock=SystemClock(), playback=viewing.playback)
    async with running(app, size=size) as pilot:
        yield pilot


def is_at(playback: RecordingPlayback, time_ns: int) -> bool:
    """Return whether playback shows a moment exactly, with all consequences of the past."""
    seeker = playback.seeker
    past = seeker.past
    is_there = past is not None and past.position_ns == time_ns and not playback.seeking
    return is_there and seeker.is_exact and seeker.is_settled


async def reach(pilot: FleetPilot, viewing: Viewing, time_ns: int) -> None:
    """Stand at an instant, exactly."""
    playback = viewing.playback
    assert playback is not None
    playback.pause()
    playback.seek(time_ns)
    # Nothing tells that a place is reached, because the app looks ten times a second.
    while not is_at(playback, time_ns):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await pilot.paint()
