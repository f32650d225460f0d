"""A fleet with a hot chip, and the Fleet view over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import Feed, standalone, ultraservers
from trnfleet.tui.fleet.view import FleetView

if TYPE_CHECKING:
    from trnfleet.tui.app.app import FleetApp


def hot_feed(count: int = 2, alone: int = 4) -> Feed:
    """Return a fleet with values.

    One chip is hot and one has lost a link.
    """
    feed = Feed(ultraservers(count) + standalone(alone))
    feed.scatter()
    feed.set("hbm_used_bytes", 40e9)
    hot = feed.layout.chips - 7
    feed.set("temperature_c", 95.0, [hot])
    feed.jobs = {"llm-70b": ("uc1/us-0001",)}
    feed.describe()
    feed.tick()
    return feed


def fleet_view(app: FleetApp) -> FleetView:
    """Return the Fleet view, which is shown."""
    assert isinstance(app.page, FleetView)
    return app.page
