"""Whatever looks as if it could be clicked: tabs, figures of the header, breadcrumbs, jobs, charts, keys in the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.tui.fleet_scene import hot_feed
from support.tui.pilot import fleet_app, running

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.layout import Node
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, Problems
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.help import HelpScreen
from trnfleet.tui.views import TABS

if TYPE_CHECKING:
    from support.tui.pilot import FleetPilot


async def click(pilot: FleetPilot, text: str, *, row: int | None = None) -> None:
    """Click on the first text of its kind on the screen, or in a row of it."""
    lines = pilot.screen()
    rows = range(len(lines)) if row is None else [row % len(lines)]
    y = next((each for each in rows if text in lines[each]), None)
    assert y is not None, (text, pilot.text())
    await pilot.click(offset=(lines[y].index(text), y))
    await pilot.paint()


async def test_every_tab_opens_its_view_or_says_that_there_is_none() -> None:
    """A click does what the key does, also for views that are not built yet."""
    app = fleet_app(hot_feed())
    async with running(app, size=(80, 24)) as pilot:
        for tab in reversed(TABS):
            before = app.entry.title
            await click(pilot, f"{tab.key} {tab.short}", row=2)
            assert app.entry.title == (tab.title if tab.is_built else before)
            said = f"{tab.key} {tab.title} is not built yet"
            assert (said in pilot.screen()[-1]) is not tab.is_built
            await pilot.press(tab.key)
            assert app.entry.title == (tab.title if tab.is_built else before)
            app.clear_note()


async def test_the_header_leads_to_alerts_and_to_the_hottest_chip() -> None:
    feed = hot_feed()
    app = fleet_app(feed)
    hot = feed.monitor.findings.shown[0].path
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        await click(pilot, "95.0 °C", row=1)
        assert (app.entry.title, app.page.place) == ("Chip", hot)
        await click(pilot, "▲ 1 warning", row=0)
        assert app.entry.title == "Alerts"


async def test_breadcrumbs_lead_up_and_say_what_is_shown() -> None:
    """The chip view has one chip, whatever was asked for, and the path is the chip's; views that follow stay there."""
    feed = hot_feed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        app.go("uc1/us-0002", "Fleet")
        await pilot.press("4")
        shown = app.page.place
        assert shown.startswith("uc1/us-0002/")
        assert pilot.screen()[3].strip() == " > ".join(["fleet", *shown.split("/")])
        await pilot.press("1")
        assert app.page.place == shown
        assert pilot.screen()[3].strip() == " > ".join(["fleet", *shown.split("/")])
        await click(pilot, "us-0002", row=3)
        assert (app.entry.title, app.page.place) == ("Hierarchy", "uc1/us-0002")
        await click(pilot, "fleet", row=3)
        assert (app.entry.title, app.place) == ("Fleet", "")


async def test_a_job_leads_to_what_hurts_it() -> None:
    """Where nothing does, to where it begins."""
    feed = hot_feed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        y = next(y for y, line in enumerate(pilot.screen()) if " Jobs 1" in line) + 1
        await click(pilot, "llm-70b  ", row=y)
        assert app.place == "uc1/us-0001"
        await pilot.press("1")
        cause = feed.layout.path(Node(Level.CHIP, 70))
        impact = JobImpact("llm-70b", "running", 21.0)
        problem = Problem(
            "k", Severity.WARNING, AlertStatus.FIRING, "", Place(cause), "link down", 1, (impact,)
        )
        app.context.alerts.problems = Problems((problem,))
        assert isinstance(app.page, FleetView)
        app.page.jobs.tick()
        await click(pilot, "llm-70b  ", row=y)
        assert (app.entry.title, app.place) == ("Chip", cause)


async def test_keys_in_the_status_line_and_spans_of_charts() -> None:
    """A click on a key is the key; on the line above a chart it is `v`."""
    feed = hot_feed()
    app = fleet_app(feed)
    async with running(app, size=(160, 60)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        span_s = app.context.window.span_s(feed.monitor.history.end)
        await click(pilot, "5 min")
        assert app.context.window.span_s(feed.monitor.history.end) > span_s
        app.clear_note()
        await pilot.paint()
        await click(pilot, "? help", row=-1)
        assert isinstance(app.screen, HelpScreen)
