"""The filter of every view, by its keys, on one fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import fleet_app, running

from trnfleet.tui.chip.view import ChipView
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.widgets.bar import Bar

if TYPE_CHECKING:
    from trnfleet.tui.view import View

HOT = "uc1/us-0002/trn2u-0002-1/chip07"


def fed() -> Feed:
    """Return a fleet with two chips above 450 W.

    One of them is hot and belongs to a job.
    """
    feed = Feed(ultraservers(2) + standalone(2))
    feed.set("power_w", 300.0)
    feed.set("nc_util_pct", 80.0)
    hot = feed.layout.find(HOT)
    assert hot is not None
    feed.set("power_w", 480.0, [3, hot.number])
    feed.set("temperature_c", 95.0, [hot.number])
    feed.jobs = {"pretrain-70b": ("uc1/us-0002",)}
    feed.describe()
    feed.tick()
    return feed


async def test_a_tree_shows_matching_chips_with_what_they_are_in() -> None:
    """Task k: `/power>450` in Hierarchy; changed values are followed within a second."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("2", "slash", *"power>450")
        page: View = pilot.app.page
        assert isinstance(page, HierarchyView)
        table = page.table
        names = [table.row_key(number).rpartition("/")[2] for number in range(table.count)]
        assert names == [
            "uc1",
            "standalone",
            "trn2-0001",
            "chip03",
            "us-0002",
            "trn2u-0002-1",
            "chip07",
        ]
        assert page.prompt.said.strip() == "2 chips"
        await pilot.press(*" & job=pretrain-70b", "enter")
        assert page.place == HOT
        assert table.matches == 1
        feed.set("power_w", 480.0, [100])
        await pilot.telemetry(feed)
        await pilot.tick(feed, 1.0)
        assert table.matches == 2
        await pilot.press("escape", "slash", *"power", "enter")
        assert "Nothing matches power; power is a column; write power>450" in pilot.text()


async def test_a_mistake_keeps_what_was_left() -> None:
    """The line above the field shows the error and the columns.

    Enter does not close the prompt.
    """
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await pilot.press("2", "slash")
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        assert page.prompt.said.startswith(" columns: nc_util power temp sev job")
        await pilot.press(*"power>450")
        assert page.table.matches == 2
        await pilot.press(*"V & powr>3")
        assert "▲ power: 'V' is another unit; write it in W, such as power>450" in page.prompt.said
        assert page.table.matches == 2
        await pilot.press("home", *["delete"] * 13, "enter")
        assert "▲ 'powr' is not a column: did you mean 'power'?" in page.prompt.said
        assert page.has_class("asking")
        assert page.table.matches == 2
        await pilot.press("escape")
        assert not page.has_class("asking")
        assert page.pattern == ""


def stand_out(page: FleetView) -> int | None:
    return None if page.map.filtered is None else int(page.map.filtered.sum())


async def test_the_map_and_its_problems() -> None:
    """In Fleet, matching chips stand out and the cursor moves to a match.

    Problems are filtered by words or by their chips.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        assert page.problems.count == 1
        await pilot.press("slash", *"power>450 & us-0002", "enter")
        assert stand_out(page) == 1
        assert page.place == pilot.app.place == HOT
        assert page.problems.count == 1
        assert "/power>450" in pilot.text()
        assert "1 chip, 1 problem" in pilot.text()
        await pilot.press("slash", "end", *" & standalone", "enter")
        assert page.pattern == "power>450 & us-0002 & standalone"
        assert page.problems.count == 0
        assert "No problem matches" in pilot.text()
        await pilot.press("escape")
        assert stand_out(page) is None
        assert page.problems.count == 1
        await pilot.press("slash", *"failed", "enter", "slash", *"power>450", "enter")
        assert page.pattern == "power>450"
        # The head counts what the list shows, from the first key on.
        await pilot.press("slash", "q", "enter")
        assert page.problems.count == 0
        assert "1 problem" not in next(line for line in pilot.screen() if " /q " in line)
        await pilot.press("escape")
        await pilot.press("slash", *"hot", "enter")
        assert stand_out(page) == 1


async def test_alternatives_on_the_map_and_filters_of_before() -> None:
    """`or`, `not` and brackets select chips and problems alike; ↑ brings back earlier filters."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        either = "power>450 & (job=pretrain-70b or standalone)"
        for text, chips, problems in (
            (either, 2, 1),
            ("power>450 & (job=none or standalone)", 1, 0),
            ("not (power<450 or us-0002)", 1, 0),
            ("standalone or hot", 33, 1),
        ):
            await pilot.press("slash", *text, "enter")
            assert (stand_out(page), page.problems.count) == (chips, problems), text
        await pilot.press("slash", *["up"] * 3)
        assert (page.prompt.value, stand_out(page)) == (either, 2)
        await pilot.press("down", "down", "enter")
        assert page.pattern == "not (power<450 or us-0002)"
        await pilot.press("escape", "slash", "up", "enter")
        assert page.pattern == "not (power<450 or us-0002)"


async def test_a_chip_view_goes_through_what_is_left() -> None:
    """In Chip, → steps through matching chips.

    A text without a matching chip marks the lines that contain it.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("4", "slash", *"power>450", "enter")
        page = pilot.app.page
        assert isinstance(page, ChipView)
        first = "uc1/standalone/trn2-0001/chip03"
        assert page.place == pilot.app.place == first
        await pilot.press("right")
        assert page.place == HOT
        await pilot.press("n")
        assert page.place == first
        await pilot.press("left")
        assert page.place == HOT
        await pilot.press("escape", "slash", *"neuronlink")
        assert "line" in page.prompt.said
        assert page.board.lines_found >= 1


async def test_the_other_lists() -> None:
    """Reservations, alerts and events have a filter and report its count or error."""
    feed = fed()
    app = fleet_app(feed)
    feed.monitor.apply([feed.event(HOT, "it happened"), feed.reservation("cr-1", "uc1/us-0001")])
    feed.monitor.compute()
    async with running(app, size=(120, 40)) as pilot:
        for key, text, said in (
            ("7", "zone=nowhere", "Nothing that is reserved matches"),
            ("8", "severty=x", "did you mean 'severity'?"),
            ("9", "sev>=warning", "No event matches"),
            ("9", "age<1m", "1 event"),
        ):
            await pilot.press(key, "slash")
            assert said not in pilot.text()
            await pilot.press(*text)
            assert said in pilot.text(), text
            await pilot.press("escape")


async def test_a_filter_of_the_map_is_told_where_there_is_no_list() -> None:
    """The filter replaces the map's head, with the key that clears it.

    Without a fleet the map has no head.
    """
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(60, 20)) as pilot:
        legend = app.query_one("#legend", Bar)
        assert legend.text.startswith(" health ")
        await pilot.press("slash", *"chip05", "enter")
        await pilot.paint()
        assert legend.text.startswith(" /chip05  10 chips, 0 problems  Esc shows all")
        await pilot.press("escape")
        assert legend.text.startswith(" health ")
    empty = Feed(ultraservers(1))
    app = fleet_app(empty)
    async with running(app, size=(120, 40)) as pilot:
        assert app.query_one("#legend", Bar).text.strip() == ""
        empty.describe()
        empty.tick()
        await pilot.tick(empty)
        assert app.query_one("#legend", Bar).text.startswith(" health ")
