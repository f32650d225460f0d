"""Flat lists in Hierarchy: `:list chips`, `:top 10 METRIC`."""

from __future__ import annotations

import numpy as np
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import fleet_app, running

from trnfleet.tui.hierarchy.view import HierarchyView

SERVER = "uc1/us-0002"


def fed() -> Feed:
    """Return a fleet whose chips draw 300 W and more, and one that does not say."""
    feed = Feed(ultraservers(2) + standalone(1))
    chips = feed.layout.chips
    feed.set("power_w", np.arange(chips) / 10 + 300.0)
    feed.set("power_w", np.nan, [chips - 1])
    feed.jobs = {"pretrain": (SERVER,)}
    feed.describe()
    feed.tick()
    return feed


def names(page: HierarchyView) -> list[str]:
    """Return the addresses of the rows, without the cluster."""
    table = page.table
    return [table.row_key(row).removeprefix("uc1/") for row in range(table.count)]


async def test_the_first_few_chips_of_a_job_by_a_metric() -> None:
    """The list is sorted, follows the values, opens a chip, and Esc leads back to the tree."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("colon", *"bottom 3 power job=pretrain", "enter")
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        first = feed.layout.chips_at(SERVER).start
        assert [name[-6:] for name in names(page)] == ["chip00", "chip01", "chip02"]
        assert "trn2u-0002-0/chip00" in pilot.text()
        assert "3 chips of 64, Esc shows the tree" in pilot.text()
        # The second goes to the end of the list, and the cursor goes on to what comes after it.
        await pilot.press("down")
        feed.set("power_w", 400.0, [first + 1])
        await pilot.telemetry(feed)
        await pilot.tick(feed, 1.0)
        assert [name[-2:] for name in names(page)] == ["00", "02", "03"]
        assert page.place == f"{SERVER}/trn2u-0002-0/chip02"
        await pilot.press("S")
        assert names(page)[0] == "us-0002/trn2u-0002-0/chip01"
        await pilot.press("enter")
        assert (pilot.app.view_title, pilot.app.place) == (
            "Chip",
            f"{SERVER}/trn2u-0002-0/chip01",
        )
        await pilot.press("escape")
        assert page.table.count == 3
        await pilot.press("escape", "escape")
        assert "us-0001" in names(page)
        assert page.place == f"{SERVER}/trn2u-0002-0/chip01"


async def test_lists_of_levels_and_views() -> None:
    """Values that are not known come last; a wrong name gets the right ones."""
    feed = fed()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("colon", *"list chips", "enter", "P")
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        assert page.table.count == feed.layout.chips
        assert names(page)[-1] == "us-0002/trn2u-0002-3/chip15"
        await pilot.press("colon", *"list instances !us-0001", "enter")
        assert len(names(page)) == 5
        await pilot.press("right")
        assert "us-0001" not in names(page)
        assert len(names(page)) > 5
        await pilot.press("colon", *"list ultraservers", "enter")
        assert sorted(names(page)) == ["us-0001", "us-0002"]
        await pilot.press("colon", *"list jobs", "enter")
        assert pilot.app.view_title == "Jobs"
        for text, said in (
            ("top ten power", "write how many"),
            ("top 10 powr", "did you mean 'power'?"),
            ("top 10 job", "metric 'job': choose from"),
            ("top 10 HBM", "which HBM? hbm_"),
            ("list chip", "did you mean 'chips'?"),
            ("list chips powr>3", "did you mean 'power'?"),
        ):
            await pilot.press("colon", *text, "enter")
            assert said in pilot.text(), text
            await pilot.press("escape")
        assert pilot.app.view_title == "Jobs"
