"""What the app leaves to the collector."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import fleet_app, running
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _only_asked_collections() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("_only_asked_collections")
async def test_lines_that_are_painted_again_leave_nothing_to_the_collector() -> None:
    """Strips are freed with their last reader, so that memory stays what it is between two collections."""
    feed = hot_feed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        for key in "1245":
            await pilot.press(key)
            await pilot.telemetry(feed)
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)
            for seed in (2, 3):
                feed.scatter(seed)
                await pilot.telemetry(feed)
            gc.collect()
            gc.set_debug(0)
            strips = [strip.text for strip in gc.garbage if isinstance(strip, Strip)]
            gc.garbage.clear()
            assert strips == [], f"view {key}"
