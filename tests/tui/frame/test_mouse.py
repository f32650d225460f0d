"""Everything that looks clickable.

Tabs, figures of the header, breadcrumbs, jobs, charts, keys in the status line.
"""

from __future__ import annotations

from support.tui.fleet_scene import hot_feed
from support.tui.pilot import FleetPilot, fleet_app, running

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.layout import Node
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, Problems
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.help import HelpScreen
from trnfleet.tui.views import TABS


async def click(pilot: FleetPilot, text: str, *, row: int | None = None) -> None:
    """Click on the first such text on screen, or in a row of it."""
    lines = pilot.screen()
    rows = range(len(lines)) if row is None else [row % len(lines)]
    y = next((each for each in rows if text in lines[each]), None)
    assert y is not None, (text, pilot.text())
    await pilot.click(offset=(lines[y].index(text), y))
    await pilot.paint()


async def test_every_tab_opens_its_view() -> None:
    """A click has the effect of the key."""
    async with running(fleet_app(hot_feed()), size=(80, 24)) as pilot:
        for tab in reversed(TABS):
            await click(pilot, f"{tab.key} {tab.short}", row=2)
            assert pilot.app.entry.title == tab.title
            await pilot.press(tab.key)
            assert pilot.app.entry.title == tab.title


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
    """The chip view shows one chip for any address, and the path is the chip's.

    Later views stay there.
    """
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        pilot.app.go("uc1/us-0002", "Fleet")
        await pilot.press("4")
        shown = pilot.app.page.place
        assert shown.startswith("uc1/us-0002/")
        assert pilot.screen()[3].strip() == " > ".join(["fleet", *shown.split("/")])
        await pilot.press("1")
        assert pilot.app.page.place == shown
        assert pilot.screen()[3].strip() == " > ".join(["fleet", *shown.split("/")])
        await click(pilot, "us-0002", row=3)
        assert (pilot.app.entry.title, pilot.app.page.place) == ("Hierarchy", "uc1/us-0002")
        await click(pilot, "fleet", row=3)
        assert (pilot.app.entry.title, pilot.app.place) == ("Fleet", "")


async def test_a_job_leads_to_what_hurts_it() -> None:
    """Without a problem, a job opens its first place."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        y = next(y for y, line in enumerate(pilot.screen()) if " Jobs 1" in line) + 1
        await click(pilot, "llm-70b  ", row=y)
        assert pilot.app.place == "uc1/us-0001"
        await pilot.press("1")
        cause = feed.layout.path(Node(Level.CHIP, 70))
        impact = JobImpact("llm-70b", "running", 21.0)
        problem = Problem(
            "k", Severity.WARNING, AlertStatus.FIRING, "", Place(cause), "link down", 1, (impact,)
        )
        pilot.app.context.alerts.problems = Problems((problem,))
        assert isinstance(pilot.app.page, FleetView)
        pilot.app.page.jobs.tick()
        await click(pilot, "llm-70b  ", row=y)
        assert (pilot.app.entry.title, pilot.app.place) == ("Chip", cause)


async def test_keys_in_the_status_line_and_spans_of_charts() -> None:
    """A click on a key presses it; a click above a chart is `v`."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(160, 60)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        span_s = pilot.app.context.window.span_s(feed.monitor.history.end)
        await click(pilot, "5 min")
        assert pilot.app.context.window.span_s(feed.monitor.history.end) > span_s
        pilot.app.clear_note()
        await pilot.paint()
        await click(pilot, "? help", row=-1)
        assert isinstance(pilot.app.screen, HelpScreen)
