"""Comparing two rows: `c` on one, `c` on another, in every view with rows."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import fleet_app, running

from trnfleet.monitor.goodput_report import NO_JOB
from trnfleet.tui.app.rows import Mark, difference

SERVERS = ("uc1/us-0001", "uc1/us-0002")


def fed() -> Feed:
    """Return a fleet of two jobs on two UltraServers, the second with more power."""
    feed = Feed(ultraservers(2) + standalone(1))
    feed.set("power_w", 300.0)
    rows = feed.layout.chips_at(SERVERS[1])
    feed.set("power_w", 375.0, list(rows))
    feed.jobs = {"pretrain": SERVERS[:1], "serve": SERVERS[1:]}
    feed.describe()
    feed.tick()
    feed.monitor.apply([feed.reservation("cr-1", SERVERS[0]), feed.reservation("cr-2", SERVERS[1])])
    feed.monitor.compute()
    return feed


def line_of(screen: list[str], name: str) -> list[str]:
    """Return the words of a figure's line in the panel."""
    line = next(line for line in screen if line.strip(" │").startswith(f"{name} "))
    return line.strip(" │").split()


async def test_two_ultraservers_side_by_side() -> None:
    """The panel has the tree's figures, follows them, and names what neither has."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("colon", *"list ultraservers", "enter", "c", "c")
        assert "no longer marked" in pilot.text()
        await pilot.press("c")
        assert "marked us-0001: c on another row compares the two" in pilot.text()
        await pilot.press("down", "c")
        await pilot.paint()
        screen = pilot.screen()
        assert " ".join(line_of(screen, "power")) == "power 19.2 kW 24.0 kW +4.80 kW +25 %"
        assert line_of(screen, "chips")[-1] == "same"
        assert line_of(screen, "job") == ["job", "pretrain", "serve", "differs"]
        assert any("not known: " in line for line in screen)
        feed.set("power_w", 450.0, list(feed.layout.chips_at(SERVERS[1])))
        for _ in range(12):
            await pilot.telemetry(feed)
        assert line_of(pilot.screen(), "power")[3:5] == ["28.8", "kW"]
        await pilot.press("escape")
        assert "Compare" not in pilot.text()
        await pilot.press("Y")
        assert pilot.app.clipboard.startswith("us-0002")
        assert "28.8 kW" in pilot.app.clipboard
        await pilot.press("1", "Y")
        assert "no row here; y copies the address" in pilot.text()
        await pilot.press("colon", *"compare us-0002 us-0001", "enter")
        await pilot.paint()
        assert "-9.60 kW  -33 %" in pilot.text()
        await pilot.press("escape", "colon", *"compare us-0002 nowhere", "enter")
        assert "no place is called 'nowhere'" in pilot.text()


@pytest.mark.parametrize(
    ("keys", "names", "figure"),
    [
        (("5",), ("pretrain", "serve"), "chips"),
        (("6", "down"), ("us-0001/rack-a", "us-0001/rack-b"), "power"),
        (("6", "g", "g", "down"), ("pretrain", "serve"), "power"),
        (("7",), ("cr-1", "cr-2"), "id"),
    ],
    ids=["jobs", "racks", "jobs by power", "blocks"],
)
async def test_rows_of_other_views(
    keys: tuple[str, ...], names: tuple[str, str], figure: str
) -> None:
    """Jobs, racks and blocks are compared; a row of another kind replaces the mark."""
    feed = fed()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("2", "c", keys[0], "N", "home", *keys[1:], "c")
        assert "marked " in pilot.text()
        await pilot.press("down", "c")
        await pilot.paint()
        head = next(line for line in pilot.screen() if "difference" in line)
        assert all(name in head for name in names), head
        assert line_of(pilot.screen(), figure)


async def test_an_empty_list_has_no_row_to_compare() -> None:
    """The key of instances without a job is empty, and yet theirs is a row."""
    async with running(fleet_app(fed()), size=(80, 24)) as pilot:
        await pilot.press("5", "slash", *"zzz", "enter", "c")
        assert "nothing to compare here" in pilot.text()
    assert Mark("demo", "job", NO_JOB).name == "no job"


@pytest.mark.parametrize(
    ("one", "other", "unit", "text"),
    [
        (None, 3.0, "W", "n/a"),
        (2.0, float("nan"), "W", "n/a"),
        (0.0, 2.0, "W", "+2.00 W"),
        (80.0, 60.0, "%", "-20.0 points"),
        (2.0, 2.0, "W", "same"),
        ("a", "b", "", "differs"),
        ("a", None, "", "n/a"),
    ],
)
def test_differences(one: float | None, other: float | None, unit: str, text: str) -> None:
    """What is not known differs by n/a, never by 0."""
    assert difference(one, other, unit) == text
