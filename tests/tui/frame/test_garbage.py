"""What the app leaves to the collector."""

from __future__ import annotations

import gc
import runpy
from typing import TYPE_CHECKING

import pytest
from rich import cells
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import fleet_app, running
from textual.strip import Strip

from trnfleet.tui.app import terminal
from trnfleet.tui.app.terminal import CACHES, empty_caches

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
    """Strips are freed with their last reader.

    Memory does not grow between two collections.
    """
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


async def test_what_libraries_remember_of_former_pictures_is_dropped() -> None:
    """Widths and regions of earlier paints are dropped, and the same views come again."""
    feed = hot_feed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        for key in "12481":
            await pilot.press(key)
            await pilot.telemetry(feed)
        before = pilot.screen()
        sizes = [cache.cache_info().currsize for cache in CACHES]
        assert sum(sizes) > 300
        assert sum(size > 0 for size in sizes) > 4
        empty_caches()
        assert [cache.cache_info().currsize for cache in CACHES] == [0] * len(CACHES)
        for key in "21":
            await pilot.press(key)
        assert pilot.screen() == before


def test_another_rich_may_remember_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache missing in another Rich version is skipped, and the app starts."""
    monkeypatch.delattr(cells, "cached_cell_len")
    loaded = runpy.run_path(terminal.__file__)
    assert len(loaded["CACHES"]) == len(CACHES) - 1
    loaded["empty_caches"]()
