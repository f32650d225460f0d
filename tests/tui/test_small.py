"""The app in terminals too small for anything.

Every view is drawn in the available room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.rules import HOT, rules_of
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import FleetPilot, fleet_app, running
from textual.widget import Widget

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from support.monitor.feed import Feed
    from textual.geometry import Region


SIZES = [(1, 1), (2, 2), (1, 40), (5, 1), (10, 2), (20, 5), (200, 1)]
KEYS = (
    "down",
    "up",
    "right",
    "left",
    "plus",
    "underscore",
    "m",
    "end",
    "home",
    "tab",
    "w",
    "enter",
    "escape",
)
"""Keys that move or zoom in most views."""


def full() -> Feed:
    """Return a fleet with jobs, findings, an alert, an event and a reservation."""
    feed = hot_feed()
    feed.monitor.ingest.alerts = Alerts("demo", rules_of(HOT))
    feed.monitor.apply([feed.reservation("cr-1", "uc1/us-0001"), feed.event(severity="critical")])
    return feed


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_view_is_drawn_at_every_size(size: tuple[int, int]) -> None:
    """Views open, move and zoom at a size with hardly any of them visible."""
    feed = full()
    async with running(fleet_app(feed), size=size) as pilot:
        for entry in VIEWS:
            await pilot.press(entry.key)
            await pilot.telemetry(feed, 0.5)
            await pilot.press(*KEYS)
            await pilot.telemetry(feed, 0.5)
            pilot.app.go("uc1/us-0001/trn2u-0001-0/chip05", entry.title)
            await pilot.telemetry(feed, 0.5)
        await pilot.press("question_mark", "escape")
        assert pilot.crash is None
        assert feed.monitor.alerts.active()


async def test_a_view_follows_a_terminal_that_shrinks_and_grows() -> None:
    """Every view survives a terminal that shrinks to the minimum and grows again."""
    feed = full()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for title in [entry.title for entry in VIEWS]:
            pilot.app.go("", title)
            for size in ((1, 1), (3, 3), (120, 40), (2, 1), (1, 3), (20, 5), (3, 1), (120, 40)):
                await pilot.resize_terminal(*size)
                await pilot.telemetry(feed, 0.5)
            assert pilot.crash is None
            assert pilot.app.entry.title == title


async def test_a_view_that_was_not_on_the_screen_has_the_size_of_now() -> None:
    """A view is laid out for the present size when it opens.

    Styles of hidden views are not updated.
    """
    feed = full()
    resized = fleet_app(feed)
    fresh = fleet_app(feed)
    async with running(resized, size=(160, 50)) as pilot:
        await pilot.press("9")
        await pilot.resize_terminal(80, 18)
        seen = {entry.title: await _regions(pilot, entry.title) for entry in VIEWS}
    async with running(fresh, size=(80, 18)) as pilot:
        for title, regions in seen.items():
            assert regions == await _regions(pilot, title), title


async def _regions(pilot: FleetPilot, title: str) -> list[tuple[str, Region]]:
    """Return the regions of a view's widgets."""
    assert isinstance(pilot.app, FleetApp)
    pilot.app.go("", title)
    await pilot.paint()
    await pilot.paint()
    widgets = [each for each in pilot.app.page.walk_children(Widget) if each.is_on_screen]
    return [(str(each), each.region) for each in widgets]
