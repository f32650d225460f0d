"""The app in terminals that are too small for anything: whatever the view, it is drawn as far as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.rules import HOT, rules_of
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import FleetPilot, fleet_app, running
from textual.widget import Widget

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.tui.app import FleetApp
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from support.monitor.feed import Feed
    from textual.geometry import Region


SIZES = [
    (1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 3), (1, 40), (5, 1), (5, 5), (10, 2), (20, 5), (200, 1),
]  # fmt: skip  # a table
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
    """Return a fleet with something of everything: jobs, findings, an alert, an event, a reservation."""
    feed = hot_feed()
    feed.monitor.ingest.alerts = Alerts("demo", rules_of(HOT))
    feed.monitor.apply([feed.reservation("cr-1", "uc1/us-0001"), feed.event(severity="critical")])
    return feed


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_view_is_drawn_at_every_size(size: tuple[int, int]) -> None:
    """Views open, move and zoom at a size at which next to nothing of them is seen."""
    feed = full()
    app = fleet_app(feed)
    async with running(app, size=size) as pilot:
        for entry in VIEWS:
            await pilot.press(entry.key)
            await pilot.telemetry(feed, 0.5)
            await pilot.press(*KEYS)
            await pilot.telemetry(feed, 0.5)
            app.go("uc1/us-0001/trn2u-0001-0/chip05", entry.title)
            await pilot.telemetry(feed, 0.5)
        await pilot.press("question_mark", "escape")
        assert pilot.crash is None
        assert feed.monitor.alerts.active()


async def test_a_view_follows_a_terminal_that_shrinks_and_grows() -> None:
    """A terminal is made as small as can be and large again, while a view is on the screen, whichever it is."""
    feed = full()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        for title in [entry.title for entry in VIEWS]:
            app.go("", title)
            for size in ((1, 1), (3, 3), (120, 40), (2, 1), (1, 3), (20, 5), (3, 1), (120, 40)):
                await pilot.resize_terminal(*size)
                await pilot.telemetry(feed, 0.5)
            assert pilot.crash is None
            assert app.entry.title == title


async def test_a_view_that_was_not_on_the_screen_has_the_size_of_now() -> None:
    """Styles of hidden views are not kept up to date; what opens is laid out as if the terminal had always had its size."""
    feed = full()
    resized, fresh = fleet_app(feed), fleet_app(feed)
    async with running(resized, size=(160, 50)) as pilot:
        await pilot.press("9")
        await pilot.resize_terminal(80, 18)
        seen = {entry.title: await _regions(pilot, entry.title) for entry in VIEWS}
    async with running(fresh, size=(80, 18)) as pilot:
        for title, regions in seen.items():
            assert regions == await _regions(pilot, title), title


async def _regions(pilot: FleetPilot, title: str) -> list[tuple[str, Region]]:
    """Return where the widgets of a view stand."""
    assert isinstance(pilot.app, FleetApp)
    pilot.app.go("", title)
    await pilot.paint()
    await pilot.paint()
    widgets = [each for each in pilot.app.page.walk_children(Widget) if each.is_on_screen]
    return [(str(each), each.region) for each in widgets]
