"""Charts of the row under the cursor.

Their rows on screen, their place, and agreement with the row's figures.
"""

from __future__ import annotations

import re

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import FleetPilot, fleet_app, running

from trnfleet.tui.hierarchy.view import HierarchyView


async def busy(seconds: int = 15) -> Feed:
    feed = Feed(ultraservers(2) + standalone(4))
    feed.scatter()
    feed.describe()
    for _ in range(seconds):
        await feed.clock.advance(1.0)
        feed.tick()
    return feed


def view_of(pilot: FleetPilot) -> HierarchyView:
    view = pilot.app.page
    assert isinstance(view, HierarchyView)
    return view


def charted(pilot: FleetPilot) -> str:
    """Return the charts' first line."""
    view = view_of(pilot)
    return view.charts.render_line(0).text.strip(" ─") if view.charts.display else ""


async def test_charts_are_of_the_row_under_the_cursor_with_its_figures() -> None:
    """From the cluster to a chip.

    A chip's values are present ones, like its row's.
    """
    feed = await busy()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("2")
        await pilot.tick(feed)
        assert charted(pilot) == "uc1  UltraCluster"
        seen = set()
        for path, level in (
            ("uc1/us-0001", "UltraServer"),
            ("uc1/standalone", "instances outside UltraServers"),
            ("uc1/us-0002/trn2u-0002-1", "instance"),
            ("uc1/us-0002/trn2u-0002-1/chip05", "chip"),
        ):
            view_of(pilot).show_place(path)
            await pilot.tick(feed)
            await pilot.tick(feed)
            assert charted(pilot) == f"{path}  {level}"
            view = view_of(pilot)
            row = view.table.render_line(view.table.row - view.table.top).text
            text = "\n".join(
                view.charts.render_line(y).text for y in range(view.charts.size.height)
            )
            (util,) = re.findall(r"NC util ([\d.]+) %", text)
            (power,) = re.findall(r"power ([\d.]+ k?W)", text)
            (temperature,) = re.findall(r"temp (?:max )?([\d.]+) °C", text)
            # Charts that have a line are no blank ones.
            assert re.search("[⠁-⣿]", text)
            cells = row.split()
            assert util in cells
            assert power in row
            assert temperature in cells
            assert (" °C now" in text) is (level == "chip")
            seen.add(util)
        assert len(seen) == 4
        assert " of 500 W" in text


@pytest.mark.parametrize(
    ("size", "shown"), [((80, 24), False), ((100, 60), False), ((120, 40), True)]
)
async def test_charts_have_the_rows_that_the_tree_leaves_empty(
    size: tuple[int, int], shown: bool
) -> None:
    """A tree that needs the screen gets it, below a height with room for both."""
    feed = await busy(3)
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.press("2")
        await pilot.tick(feed)
        assert bool(charted(pilot)) is shown
        view = view_of(pilot)
        assert view.table.size.height >= min(view.table.count, size[1] - 10)
        await pilot.press("x", "x")
        await pilot.tick(feed)
        assert view.table.count > size[1]
        assert not charted(pilot)
        await pilot.resize_terminal(240, 70)
        await pilot.tick(feed)
        assert charted(pilot) == "uc1  UltraCluster"
        assert view.table.size.height > 40


async def test_a_filter_that_finds_nothing_leaves_no_charts() -> None:
    feed = await busy(3)
    async with running(fleet_app(feed), size=(160, 70)) as pilot:
        await pilot.press("2", "slash", *"power>9999", "enter")
        await pilot.tick(feed)
        assert "Nothing matches" in pilot.text()
        assert not charted(pilot)
        await pilot.press("escape")
        await pilot.tick(feed)
        assert charted(pilot).endswith(f"{view_of(pilot).table.cursor}  chip")


async def test_the_foot_and_the_chips_head_say_what_they_cut() -> None:
    """An ellipsis marks the cut, followed by a blank before the place in the tree."""
    feed = await busy(1)
    feed.jobs = {"pretraining-with-a-long-name": ("uc1/us-0001",)}
    feed.describe()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("2")
        view_of(pilot).show_place("uc1/us-0001/trn2u-0001-2/chip05")
        await pilot.tick(feed)
        assert re.search(r"… \d+/\d+", view_of(pilot).foot.render_line(0).text)
        pilot.app.place = "uc1/us-0001/trn2u-0001-2/chip05"
        await pilot.press("4")
        await pilot.tick(feed)
        assert next(line for line in pilot.screen() if "Trainium2 " in line).rstrip().endswith("…")


async def test_charts_of_what_is_silent_say_so_and_have_no_present_values() -> None:
    """No title shows a last known value as if it were live."""
    feed = await busy()
    instance = "uc1/us-0002/trn2u-0002-1"
    others = [each for each in feed.layout.instances if each != instance]
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("2")
        await pilot.tick(feed)
        for path, level in ((instance, "instance"), (f"{instance}/chip05", "chip")):
            view_of(pilot).show_place(path)
            for _ in range(8):
                feed.tick(others)
                await feed.advance(1.0)
                await pilot.paint()
            assert re.match(rf"{path}  {level}  . stale \d+ s$", charted(pilot))
            view = view_of(pilot)
            text = "\n".join(
                view.charts.render_line(y).text for y in range(view.charts.size.height)
            )
            assert re.search(r"power n/a of \S+ k?W ─", text)
            assert re.search(r"temp\S*( max)? n/a ─", text)
            assert " now of " not in text
        view_of(pilot).show_place("uc1/us-0002")
        await pilot.paint()
        assert "stale" not in charted(pilot), "a part of it is live"
