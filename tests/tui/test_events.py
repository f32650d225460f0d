"""The Events view through its keys, and events in other views."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.pilot import SIZES, fleet_app, running

from trnfleet.tui.app.screen import NOTICE_S
from trnfleet.tui.events.view import BESIDE_FROM, EventsView
from trnfleet.tui.widgets.bar import Bar

if TYPE_CHECKING:
    from trnfleet.tui.app.app import FleetApp

CHIP = "uc1/us-0001/trn2u-0001-2/chip11"


def fed() -> Feed:
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.jobs = {"llama": ("uc1/us-0002/trn2u-0002-1..trn2u-0002-3",)}
    feed.describe()
    feed.tick()
    return feed


def told(feed: Feed, count: int) -> None:
    feed.monitor.apply([feed.event(CHIP, f"event {number:03d}") for number in range(count)])


def view(app: FleetApp) -> EventsView:
    assert isinstance(app.page, EventsView)
    return app.page


@pytest.mark.parametrize("size", SIZES)
async def test_newest_first_at_every_size(size: tuple[int, int]) -> None:
    """Key 9 opens the list, newest first below its titles.

    The chosen event is in full below. Everything is within the screen.
    """
    feed = fed()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.press("9")
        assert "No events since 00:00:00 UTC (start)" in pilot.text()
        told(feed, 3)
        long = "uncorrectable error in HBM, " * 4 + "at its end"
        feed.monitor.apply([feed.event(CHIP, long, severity="critical", job="llama", nrt=1201)])
        await pilot.tick(feed)
        lines = pilot.screen()
        assert "[9" in lines[2]
        titles = lines[5]
        assert titles.split()[:4] == ["time", "severity", "source", "where"]
        assert "✖ critical kernel" in lines[6]
        assert lines[6][titles.index("where") :].startswith(("trn2u-0001-2/chip11", CHIP))
        # Wide screens have the details beside the list.
        assert [
            line[titles.index("what") :].strip().partition("  ")[0] for line in lines[7:10]
        ] == [
            "event 002",
            "event 001",
            "event 000",
        ]
        foot = lines[-4:-1]
        if size[0] < BESIDE_FROM:
            assert " ".join(line.strip() for line in foot[:-1]).strip() == long
        else:
            assert any(line.rstrip().endswith("its end") for line in lines[5:10])
        assert f"{CHIP}  job llama  NRT 1201" in foot[-1]
        assert foot[-1].endswith(" 1/4 ")
        assert pilot.app.page.place == CHIP


async def test_the_cursor_stays_on_its_event() -> None:
    """At the newest event the cursor follows newer ones.

    Elsewhere the cursor and the window stay while events arrive.
    """
    feed = fed()
    told(feed, 60)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("9")
        events = view(pilot.app).list
        await pilot.tick(feed)
        assert events.picked is not None
        assert events.picked.text == "event 059"
        told(feed, 1)
        await pilot.tick(feed)
        assert events.picked.text == "event 000"
        await pilot.press(*["down"] * 30)
        assert events.picked.text == "event 030"
        row = events.row - events.top
        told(feed, 5)
        await pilot.tick(feed)
        assert events.picked.text == "event 030"
        assert events.row - events.top == row
        await pilot.press("end")
        assert (events.row, events.picked.text) == (65, "event 000")
        await pilot.press("home")
        assert events.row == 0


async def test_dropped_events_leave_the_list() -> None:
    """Events evicted from the ring leave the list and are counted.

    The cursor moves to the oldest remaining event.
    """
    feed = fed()
    feed.monitor.ingest.events = type(feed.monitor.events)(kept=10)
    told(feed, 10)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("9", "end")
        told(feed, 4)
        await pilot.tick(feed)
        events = view(pilot.app).list
        assert events.count == 10
        assert events.picked is not None
        assert events.picked.number == 5
        assert "4 older ones dropped" in pilot.text()


async def test_the_filter() -> None:
    """/ filters while typing, new events too.

    Esc shows all before it leaves the view.
    """
    feed = fed()
    told(feed, 5)
    feed.monitor.apply([feed.event("uc1/us-0002", "link down", severity="warning")])
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("9", "slash", *"WARN", "enter")
        events = view(pilot.app).list
        assert events.count == 1
        feed.monitor.apply(
            [feed.event(CHIP, "hot", severity="warning"), feed.event(CHIP, "mere information")]
        )
        await pilot.tick(feed)
        assert events.count == 2
        assert "/WARN 1/2" in pilot.text()
        await pilot.press("slash", *["backspace"] * 4, *"!warn", "enter")
        assert events.count == 6
        await pilot.press("slash", *["backspace"] * 5, "x", "y", "enter")
        assert 'No match for "xy" (8 events). Esc clears.' in pilot.text()
        await pilot.press("escape")
        assert events.count == 8
        assert isinstance(pilot.app.page, EventsView)
        await pilot.press("escape")
        assert pilot.app.entry.title == "Fleet"


async def test_enter_goes_to_the_place() -> None:
    """Enter opens the event's place.

    A chip's event opens the Chip view, an instance's the Hierarchy, a job's its place, the fleet's
    nothing.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for path, job, at in (
            (CHIP, None, ("Chip", CHIP)),
            ("uc1/us-0002/trn2u-0002-0", None, ("Hierarchy", "uc1/us-0002/trn2u-0002-0")),
            ("", "llama", ("Hierarchy", "uc1/us-0002/trn2u-0002-1")),
            ("", None, ("Events", "")),
        ):
            feed.monitor.apply([feed.event(path, job=job)])
            await pilot.press("9", "home")
            await pilot.tick(feed)
            await pilot.press("enter")
            assert (pilot.app.entry.title, pilot.app.page.place) == at
        await pilot.press("escape")
        assert pilot.app.entry.title != "Events"


async def test_the_mouse_selects_and_opens() -> None:
    """A click puts the cursor on an event, a second one goes there."""
    feed = fed()
    feed.monitor.apply([feed.event(CHIP), feed.event("uc1/us-0002")])
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("9")
        await pilot.click(view(pilot.app).list, offset=(5, 1))
        assert pilot.app.place == CHIP
        await pilot.click(view(pilot.app).list, offset=(5, 1), times=2)
        assert pilot.app.entry.title == "Chip"


@pytest.mark.parametrize("size", SIZES)
async def test_a_fault_is_noticed_in_the_fleet_view(size: tuple[int, int]) -> None:
    """A critical event is shown for a while beside the place, without an extra line.

    Information is not shown.
    """
    feed = fed()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.tick(feed)
        crumbs = pilot.app.query_one("#crumbs", Bar)
        before = pilot.screen()
        told(feed, 1)
        await pilot.tick(feed)
        assert "event" not in crumbs.text
        feed.monitor.apply([feed.event(CHIP, "uncorrectable error in HBM", severity="critical")])
        await pilot.tick(feed)
        if size[0] >= 120:
            # What the newest events beside the map say is not said twice.
            assert "uncorrectable" not in crumbs.text
            assert pilot.text().count("uncorrectable") == 1
            return
        assert "✖ trn2u-0001-2/chip11: uncorrectable" in crumbs.text
        after = pilot.screen()
        assert [line for number, line in enumerate(after) if number != 3] == [
            line for number, line in enumerate(before) if number != 3
        ]
        await pilot.tick(feed, NOTICE_S)
        assert "uncorrectable" not in crumbs.text


async def test_help_knows_the_view() -> None:
    """? lists the view and its keys."""
    async with running(fleet_app(fed()), size=(160, 60)) as pilot:
        await pilot.press("9", "question_mark")
        text = pilot.text()
        assert re.search(r"9 +Events", text)
        for part in ("Next line", "Filter: part of anything", "Go to the event"):
            assert part in text


async def test_remote_text_is_shown_plainly() -> None:
    """Markup is not interpreted, and no terminal control leaves the app."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for text in ("[@click=app.quit]x[/]", "[/nope]", "\x1b]0;x\x07", "a\u202eb", "\x9b31m"):
            feed.monitor.apply([feed.event(CHIP, text, severity="critical")])
            await pilot.tick(feed)
            assert all(line.isprintable() for line in pilot.screen())
            await pilot.press("9", "home")
            await pilot.tick(feed)
            assert all(line.isprintable() for line in pilot.screen())
            if text.isprintable():
                assert text in pilot.text()
            await pilot.press("1")
