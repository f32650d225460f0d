"""The Fleet view through its keys: map, cursor, zoom, fields, lists and trends."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.fleet_scene import fleet_view, hot_feed
from support.tui.pilot import fleet_app, running

from trnfleet.tui.fleet.heatmap import FIELDS
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.metric_display import HEAT_MAP
from trnfleet.tui.widgets.bar import Bar


async def test_arrows_move_and_breadcrumbs_follow() -> None:
    """The cursor moves from chip to chip; its name and value are shown."""
    feed = hot_feed(1, 0)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("right", "down")
        assert pilot.app.place == "uc1/us-0001/trn2u-0001-0/chip05"
        assert "chip05" in pilot.app.query_one("#crumbs", Bar).text
        await pilot.press("l", "l", "l")
        assert pilot.app.place == "uc1/us-0001/trn2u-0001-1/chip04"
        await pilot.press("j", "j", "j")
        assert pilot.app.place == "uc1/us-0001/trn2u-0001-3/chip00"
        await pilot.press("k", "h")
        assert pilot.app.place == "uc1/us-0001/trn2u-0001-0/chip15"
        value = feed.monitor.store.columns["nc_util_pct"][15].mean() / 2
        assert f"NC util {value:.1f} %" in pilot.app.query_one("#selection", Bar).text


async def test_the_cursor_is_seen_without_colour() -> None:
    """Brackets surround the selection."""
    feed = hot_feed(2, 0)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.pause()
        row = pilot.text().splitlines()[7]
        assert row.startswith(" []")
        await pilot.press("underscore", "underscore")
        text = pilot.text().splitlines()
        assert (text[6][0], text[6][5], text[7][0]) == ("┌", "┐", "└")


async def test_zoom_keeps_the_place() -> None:
    """From chip to UltraServer and back, the cursor is where it was."""
    feed = hot_feed(3, 0)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        heat = fleet_view(pilot.app).map
        nearest = heat.level
        await pilot.press("right", "right", "down")
        chip = pilot.app.place
        for level in range(nearest + 1, len(heat.zooms)):
            await pilot.press("underscore")
            assert heat.level == level
            assert chip.startswith(heat.place)
        await pilot.press("underscore")
        await pilot.press(*["plus"] * (len(heat.zooms) - 1 - nearest))
        assert pilot.app.place == chip
        await pilot.press("underscore", "0")
        assert heat.level == nearest


async def test_from_afar_enter_zooms_in() -> None:
    """A pixel of several UltraServers cannot be opened, so it comes nearer."""
    feed = hot_feed(9, 0)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        heat = fleet_view(pilot.app).map
        await pilot.press(*["underscore"] * 8)
        assert heat.zoom.unit is None
        await pilot.press("enter", "enter")
        assert fleet_view(pilot.app).map.zoom.chips == 8
        assert isinstance(pilot.app.page, FleetView)


async def test_m_walks_through_the_fields() -> None:
    """The legend names field and scale; M goes back."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.pause()
        legend = pilot.app.query_one("#legend", Bar)
        assert legend.text.startswith(" health  ▲ warning  ▅ NC util")
        await pilot.press("m")
        assert "NC util" in legend.text
        assert "p5-p95 of busy" in legend.text
        await pilot.press("F")
        assert "full range" in legend.text
        assert "100 %" in legend.text
        await pilot.press("m")
        assert "power" in legend.text
        assert "500 W" in legend.text
        await pilot.press("M", "M", "M")
        assert fleet_view(pilot.app).map.field is HEAT_MAP[-1]
        for _ in FIELDS:
            await pilot.press("m")
            assert fleet_view(pilot.app).map.field.title in legend.text


async def test_problems_lead_to_their_place() -> None:
    """W focuses the list, the map follows its cursor, Enter opens, Esc returns."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("w")
        hot = feed.monitor.findings.shown[0].path
        assert pilot.app.place == hot
        assert fleet_view(pilot.app).map.place == hot
        await pilot.press("enter")
        assert pilot.app.entry.title == "Chip"
        assert pilot.app.page.place == hot
        assert "chip" in pilot.app.query_one("#crumbs", Bar).text
        await pilot.press("escape")
        assert isinstance(pilot.app.page, FleetView)
        assert pilot.app.place == hot


async def test_enter_opens_what_is_selected() -> None:
    """A chip opens in the Chip view, an instance in the Hierarchy."""
    feed = hot_feed(1, 0)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("enter")
        assert pilot.app.entry.title == "Chip"
        await pilot.press("escape")
        while fleet_view(pilot.app).map.place.count("/") > 2:
            await pilot.press("underscore")
        await pilot.press("enter")
        assert (pilot.app.entry.title, pilot.app.page.place) == (
            "Hierarchy",
            "uc1/us-0001/trn2u-0001-0",
        )


async def test_the_mouse_selects_and_opens() -> None:
    """A click selects the chip under it, a second one opens it."""
    feed = hot_feed(1, 0)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        heat = fleet_view(pilot.app).map
        rect = heat.zoom.rect(2, 1)
        at = (rect.left, rect.top // 2)
        await pilot.click(heat, offset=at)
        assert pilot.app.place == "uc1/us-0001/trn2u-0001-0/chip06"
        await pilot.click(heat, offset=at, times=2)
        assert pilot.app.entry.title == "Chip"


async def test_silence_is_never_drawn_as_live() -> None:
    """Stale tiles are hatched and counted; if all chips are silent, a banner shows it."""
    feed = hot_feed(1, 0)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.pause()
        assert "░" not in pilot.text().replace("░ stale", "")
        await feed.advance(5)
        feed.tick(list(feed.layout.instances[1:]))
        await pilot.tick(feed)
        await pilot.pause()
        assert pilot.text().count("░") >= 15
        assert "48 live, 16 stale" in pilot.text()
        await feed.advance(5)
        await pilot.tick(feed)
        await pilot.pause()
        assert "all 64 chips are stale; values are the last known" in pilot.text()


@pytest.mark.parametrize("size", [(79, 24), (80, 19)])
async def test_small_screens_leave_the_lists_out(size: tuple[int, int]) -> None:
    """Below 80 x 20 the map has all the room, and w stays there."""
    async with running(fleet_app(hot_feed()), size=size) as pilot:
        assert "Problems" not in pilot.text()
        await pilot.press("w")
        assert fleet_view(pilot.app).map.has_focus


async def test_no_color_is_read_as_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without colours the ramp's steps are digits, and the legend explains them."""
    monkeypatch.setenv("NO_COLOR", "1")
    feed = hot_feed(1, 0)
    feed.set("nc_util_pct", 99.0)
    feed.tick()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("m", "F")
        text = pilot.text()
        assert "01234567" in text
        assert "77 77 77 77 77 77 77 77" in text
        assert "▀" not in text


async def test_small_fleets_leave_room_for_trends() -> None:
    """Below the map of a small fleet are trends; zooming in reclaims the room."""
    feed = hot_feed(2, 4)
    feed.tick()
    app = fleet_app(feed)

    def rows() -> int:
        trends = fleet_view(app).trends
        return trends.size.height if trends.display else 0

    async with running(app, size=(120, 28)) as pilot:
        await pilot.pause(0.2)
        assert rows() >= 6
        text = pilot.text()
        assert "power" in text.lower()
        before = fleet_view(app).map.zoom
        await pilot.press("plus")
        await pilot.pause(0.2)
        assert rows() == 0
        await pilot.press("0")
        await pilot.pause(0.2)
        assert rows() >= 6
        assert fleet_view(app).map.zoom == before


async def test_no_trends_without_history_or_room() -> None:
    """Before the first second, and where the map needs the room, there are no trends."""
    async with running(fleet_app(hot_feed(2, 4)), size=(80, 24)) as pilot:
        await pilot.pause(0.2)
        assert not fleet_view(pilot.app).trends.display


async def test_trends_of_a_sped_up_fleet_say_wall() -> None:
    """In a sped-up fleet the trends' seconds are labelled as wall time."""
    for speed, said in ((1.0, False), (3_600.0, True)):
        feed = Feed(ultraservers(2))
        feed.speed = speed
        feed.scatter()
        feed.describe()
        feed.tick()
        async with running(fleet_app(feed), size=(120, 40)) as pilot:
            await pilot.tick(feed)
            await pilot.pause(0.2)
            assert "5 min" in pilot.text()
            assert ("5 min wall" in pilot.text()) is said


@pytest.mark.parametrize("size", [(120, 40), (240, 70)])
async def test_jobs_are_told_with_their_state(size: tuple[int, int]) -> None:
    """A hanging job has its sign and word in the list and among the problems.

    The list has titles.
    """
    feed = hot_feed()
    feed.states = {"llm-70b": "hung"}
    feed.describe()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.tick(feed)
        text = pilot.text()
        assert "‖ llm-70b" in text
        assert "✖ " in text
        assert "job hung" in text
        lines = text.splitlines()
        head, told = next(
            (line, lines[row + 1]) for row, line in enumerate(lines) if " Jobs 1" in line
        )
        assert told[head.rindex("state") :].startswith("hung ")
        assert told[: head.rindex("MFU") + 3].endswith(" 40.0 %")


async def test_jobs_in_trouble_come_first() -> None:
    """Jobs in trouble come first, regardless of name: the list may exceed the screen."""
    feed = hot_feed()
    feed.jobs = {"a-job": ("uc1/us-0001",), "z-job": ("uc1/us-0002",)}
    feed.describe()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.tick(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        assert [each.job for each in page.jobs.rows] == ["a-job", "llm-70b", "z-job"]
        feed.states = {"z-job": "failed"}
        feed.describe()
        await pilot.tick(feed)
        assert [each.job for each in page.jobs.rows] == ["z-job", "a-job", "llm-70b"]
