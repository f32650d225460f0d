"""The tour of a first run: one line beside the breadcrumbs.

It moves nothing and ends by itself.
"""

from __future__ import annotations

import pytest
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import SIZES, fleet_app, running
from tui.frame.test_mouse import click

from trnfleet.tui import theme
from trnfleet.tui.app.screen import NOTICE_S
from trnfleet.tui.bars.tour import TOUR_KEYS, TOUR_S
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.view import FLEET

TOUR = "w Enter open a problem  m what the map shows  ? all keys  1-9 views"
CRUMBS = 3
"""The row of the breadcrumbs."""


async def test_a_first_run_has_one_line_more_to_read_and_nothing_else_moves() -> None:
    screens: dict[bool, list[list[str]]] = {False: [], True: []}
    for is_first_run, shown in screens.items():
        feed = hot_feed()
        async with running(fleet_app(feed, is_first_run=is_first_run), size=SIZES[0]) as pilot:
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await pilot.telemetry(feed)
                shown.append(pilot.screen())
    for usual, first in zip(screens[False], screens[True], strict=True):
        assert usual[CRUMBS].strip() == "fleet"
        assert first[CRUMBS].strip() == f"fleet  {TOUR}"
        assert first[:CRUMBS] + first[CRUMBS + 1 :] == usual[:CRUMBS] + usual[CRUMBS + 1 :]


@pytest.mark.parametrize("keys", ["lml", "wjS", "w?j"])
async def test_a_few_keys_end_it(keys: str) -> None:
    """Keys count wherever they go: the map, the app, a list or the help."""
    feed = hot_feed()
    async with running(fleet_app(feed, is_first_run=True)) as pilot:
        await pilot.telemetry(feed)
        assert len(keys) == TOUR_KEYS
        for number, key in enumerate(keys):
            assert "w Enter open a problem" in pilot.text() or "?" in keys[:number]
            await pilot.press(key)
            await pilot.paint()
        await pilot.press("escape")
        await pilot.paint()
        assert "open a problem" not in pilot.text()


async def test_a_minute_ends_it_and_news_come_first() -> None:
    """News are shown for as long as ever; the tour's minute goes on meanwhile."""
    feed = hot_feed()
    async with running(fleet_app(feed, is_first_run=True)) as pilot:
        await pilot.telemetry(feed)
        assert TOUR in pilot.text()
        feed.monitor.apply([feed.event("uc1/us-0002", "link down", severity="critical")])
        await pilot.telemetry(feed)
        assert "us-0002: link down" in pilot.screen()[CRUMBS]
        await pilot.telemetry(feed, NOTICE_S)
        assert TOUR in pilot.screen()[CRUMBS]
        await pilot.telemetry(feed, TOUR_S - NOTICE_S - 2)
        assert TOUR in pilot.screen()[CRUMBS]
        await pilot.telemetry(feed, 2)
        assert pilot.screen()[CRUMBS].strip() == "fleet"


async def test_its_keys_can_be_clicked() -> None:
    """`w` focuses the problems, with Enter as the next step; `?` opens the help."""
    feed = hot_feed()
    async with running(fleet_app(feed, is_first_run=True), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        assert isinstance(pilot.app.page, FleetView)
        await click(pilot, "w Enter", row=CRUMBS)
        assert pilot.app.page.problems.has_focus
        await click(pilot, "all keys", row=CRUMBS)
        assert "Keys" in pilot.text()


async def test_where_one_is_comes_first() -> None:
    """A place gets the room it needs, at the cost of the last keys.

    All of it has the theme's colours.
    """
    feed = hot_feed()
    async with running(fleet_app(feed, is_first_run=True)) as pilot:
        await pilot.telemetry(feed)
        pilot.app.go("uc1/us-0001/trn2u-0001-0/chip05", FLEET)
        await pilot.paint()
        crumbs = pilot.screen()[CRUMBS]
        assert crumbs.startswith(" … > ")
        assert "chip05  w Enter open a problem" in crumbs
        await pilot.press("ctrl+t")
        await pilot.paint()
        style = pilot.app.screen.get_style_at(crumbs.index("w Enter"), CRUMBS)
        assert style.color == theme.STRONG.color


@pytest.mark.parametrize("key", ["2", "enter"])
async def test_another_view_ends_it(key: str) -> None:
    """The tour's keys are for the first view."""
    feed = hot_feed()
    async with running(fleet_app(feed, is_first_run=True), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press(key)
        assert pilot.app.entry.title != FLEET
        assert "open a problem" not in pilot.text()
        await pilot.press("1")
        await pilot.paint()
        assert "open a problem" not in pilot.text()
