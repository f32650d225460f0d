"""The list of findings through its keys: where its window and its cursor are while findings come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.pilot import running

from trnfleet.tui.app import FleetApp
from trnfleet.tui.fleet.view import FleetView

if TYPE_CHECKING:
    from trnfleet.tui.fleet.findings import FindingsList


def fed(count: int = 1) -> Feed:
    feed = Feed(ultraservers(count))
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed


def listed(app: FleetApp) -> FindingsList:
    assert isinstance(app.page, FleetView)
    return app.page.findings


def lines(app: FleetApp) -> list[str]:
    """Return the list's visible lines that are not empty."""
    shown = listed(app)
    texts = (shown.render_line(y).text.rstrip() for y in range(shown.scrollable_content_region.height))
    return [text for text in texts if text]


@pytest.mark.parametrize("left", [0, 1, 3, 16])
async def test_a_list_that_shrinks_above_its_window(left: int) -> None:
    """Scrolled to the end of 64 findings, the list shows the last of those that are left, with the cursor on one."""
    feed = fed()
    feed.set("health", 1)
    feed.tick()
    app = FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11")
    async with running(app, size=(80, 24)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("w", "end")
        assert "trn2u-0001-3/chip15" in lines(app)[-1]
        assert listed(app).top > 16
        feed.set("health", 0)
        feed.set("health", 1, slice(0, left))
        await pilot.telemetry(feed)
        assert len(feed.monitor.findings.shown) == left
        if not left:
            assert lines(app) == [" nothing needs a look"]
            return
        assert f"trn2u-0001-0/chip{left - 1:02d}" in lines(app)[-1]
        assert [line[0] for line in lines(app)].count(">") == 1
        await pilot.press("home")
        assert lines(app)[0].startswith(">")
        assert "trn2u-0001-0/chip00" in lines(app)[0]


def under_cursor(app: FleetApp) -> tuple[str, str]:
    finding = listed(app).picked
    assert finding is not None
    return finding.path.rpartition("/")[2], finding.what


async def test_the_cursor_stays_while_a_count_grows() -> None:
    """Of two findings at one chip, it stays on the chosen one, whatever comes above and whatever its count is."""
    feed = fed()
    feed.set("mem_ecc_uncorrected", 2, 21)
    feed.set("sram_ecc_uncorrected", 2, 21)
    feed.tick()
    app = FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11")
    async with running(app, size=(80, 24)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("w", "down")
        assert under_cursor(app) == ("chip05", "2 uncorrected SRAM errors")
        for errors in (3, 10, 9):
            feed.set("mem_ecc_uncorrected", errors - 1, slice(12, 22))
            feed.set("sram_ecc_uncorrected", errors, 21)
            await pilot.telemetry(feed)
            assert under_cursor(app) == ("chip05", f"{errors} uncorrected SRAM errors")


async def test_the_cursor_stays_when_stale_becomes_offline() -> None:
    """What is silent is the same finding when its last will comes, though three above it become one."""
    feed = fed(3)
    app = FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11")
    async with running(app, size=(80, 24)) as pilot:
        await feed.advance(10)
        feed.tick(["uc1/us-0001/trn2u-0001-0"])
        await pilot.paint()
        await pilot.press("w", "end", "up")
        assert under_cursor(app) == ("us-0002", "stale")
        feed.monitor.apply([feed.publisher_envelope("offline")])
        feed.monitor.compute()
        await pilot.paint()
        assert under_cursor(app) == ("us-0002", "offline")


async def test_the_cursor_tells_jobs_at_one_place_apart() -> None:
    """Jobs at one place are findings of their own, whatever state each is in."""
    feed = fed()
    feed.jobs = dict.fromkeys(("a-job", "a-task"), ("uc1/us-0001/trn2u-0001-1",))
    feed.states = {"a-job": "failed", "a-task": "failed"}
    feed.describe()
    feed.tick()
    app = FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11")
    async with running(app, size=(80, 24)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("w", "end")
        assert under_cursor(app)[1] == "a-task: job failed"
        feed.states["a-task"] = "hung"
        feed.describe()
        await pilot.telemetry(feed)
        assert under_cursor(app)[1].startswith("a-task: job hung")
