"""Keys that come in one burst, as over a slow connection or from a paste."""

from __future__ import annotations

import pytest
from support.tui.pilot import FleetPilot, fleet_app, running
from textual import events
from tui.hands.test_filters import HOT, fed

from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.hierarchy.view import HierarchyView

NAMES = {
    ":": "colon",
    "/": "slash",
    "@": "at",
    "-": "minus",
    "\r": "enter",
    "\x1b": "escape",
    ">": "greater_than_sign",
}


async def burst(pilot: FleetPilot, text: str) -> None:
    """Type all of a text before the app has its turn."""
    for char in text:
        pilot.app.post_message(events.Key(NAMES.get(char, char), char))
    await pilot.pause()


async def test_a_command_is_not_taken_for_keys() -> None:
    """Characters of a command are not run as keys; keys before it are.

    `q`, `a`, `z` and the digits have meanings of their own.
    """
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await burst(pilot, "2:chip 0002-1/07\r")
        assert (pilot.app.entry.title, pilot.app.page.place) == ("Chip", HOT)
        await burst(pilot, "1:quit")
        assert pilot.app.is_running
        assert pilot.app.entry.title == "Fleet"
        assert pilot.app.ask_line.is_open


@pytest.mark.parametrize("keys", ["2/power>450\r", "1jj2/power>450\r"])
async def test_a_filter_is_not_taken_for_keys(keys: str) -> None:
    """The view before has the keys until the next one is there."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await burst(pilot, keys)
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        assert page.pattern == "power>450"


async def test_an_opening_key_in_a_field_is_text() -> None:
    """`:`, `/` and `a` in a filter are part of it."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await burst(pilot, "2/a/z:\r")
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        assert page.prompt.value == "a/z:"


@pytest.mark.parametrize("keys", [":alerts\r2", ":alerts\x1b2", "@-5m\x1b2", ":alerts\r:\r2"])
async def test_what_follows_a_command_is_no_text(keys: str) -> None:
    """Enter and Escape close the line before the next key is read."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await burst(pilot, keys)
        assert pilot.app.entry.title == "Hierarchy"
        assert not pilot.app.ask_line.is_open


@pytest.mark.parametrize(
    ("keys", "pattern"), [("/power>450\r2", "power>450"), ("/power>450\x1b2", "")]
)
async def test_what_follows_a_filter_is_no_text(keys: str, pattern: str) -> None:
    """The filter is taken, or cleared, as it was typed up to there."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        page = pilot.app.page
        assert isinstance(page, FleetView)
        await burst(pilot, keys)
        assert (pilot.app.entry.title, page.pattern) == ("Hierarchy", pattern)
        assert not page.has_class("asking")
