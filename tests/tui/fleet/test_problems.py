"""The list of problems through its keys.

Its window and cursor while problems come and go, and the target of Enter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, SilentSource, ultraservers
from support.tui.pilot import fleet_app, running

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, Problems
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.fleet.view import LEAST_LATEST, MOST_JOBS, FleetView
from trnfleet.tui.widgets.bar import Bar
from trnfleet.wire.alerts import SilenceMessage

if TYPE_CHECKING:
    from trnfleet.tui.fleet.problems import ProblemList


def fed(count: int = 1) -> Feed:
    feed = Feed(ultraservers(count))
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed


def listed(app: FleetApp) -> ProblemList:
    assert isinstance(app.page, FleetView)
    return app.page.problems


def lines(app: FleetApp) -> list[str]:
    """Return the list's non-empty visible lines."""
    shown = listed(app)
    texts = (
        shown.render_line(y).text.rstrip() for y in range(shown.scrollable_content_region.height)
    )
    return [text for text in texts if text]


@pytest.mark.parametrize("left", [0, 1, 3, 16])
async def test_a_list_that_shrinks_above_its_window(left: int) -> None:
    """Scrolled to the end of 64 problems, the list shows the last remaining ones.

    The cursor is on one of them.
    """
    feed = fed(16)
    feed.set("health", 1, slice(0, None, 16))
    feed.tick()
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11"), size=(80, 24)
    ) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("w", "end")
        assert "trn2u-0016-3/chip00" in lines(pilot.app)[-1] + lines(pilot.app)[-2]
        assert listed(pilot.app).top > 16
        feed.set("health", 0)
        feed.set("health", 1, slice(0, 16 * left, 16))
        await pilot.telemetry(feed)
        assert len(feed.monitor.findings.shown) == left
        if not left:
            assert lines(pilot.app) == [" No problems"]
            return
        last = f"trn2u-{(left - 1) // 4 + 1:04d}-{(left - 1) % 4}/chip00"
        assert last in "".join(lines(pilot.app)[-2:])
        assert [line[0] for line in lines(pilot.app)].count(">") == 1
        await pilot.press("home")
        assert lines(pilot.app)[0].startswith(">")
        assert "trn2u-0001-0/chip00" in lines(pilot.app)[0]


def under_cursor(app: FleetApp) -> tuple[str, str]:
    problem = listed(app).picked
    assert problem is not None
    return problem.place.name or problem.place.address.rpartition("/")[2], problem.text


async def test_the_cursor_stays_while_a_count_grows() -> None:
    """The cursor stays on its problem while others appear above and its count grows."""
    feed = fed()
    feed.set("mem_ecc_uncorrected", 2, 21)
    feed.set("sram_ecc_uncorrected", 2, 41)
    feed.tick()
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11"), size=(80, 24)
    ) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("w", "down")
        assert under_cursor(pilot.app) == ("chip09", "2 uncorrected SRAM errors")
        for errors in (3, 10, 9):
            feed.set("mem_ecc_uncorrected", errors - 1, slice(0, 22))
            feed.set("sram_ecc_uncorrected", errors, 41)
            await pilot.telemetry(feed)
            assert under_cursor(pilot.app) == ("chip09", f"{errors} uncorrected SRAM errors")


async def test_the_cursor_stays_when_stale_becomes_offline() -> None:
    """A silent publisher's problem remains the same when its last will arrives.

    Three problems above it become one meanwhile.
    """
    feed = fed(3)
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11"), size=(80, 24)
    ) as pilot:
        await feed.advance(10)
        feed.tick(["uc1/us-0001/trn2u-0001-0"])
        await pilot.paint()
        await pilot.press("w", "home")
        await pilot.press(
            *["down"]
            * next(
                n
                for n, each in enumerate(listed(pilot.app).rows)
                if each.place.address == "uc1/us-0002"
            )
        )
        assert under_cursor(pilot.app) == ("us-0002", "stale")
        feed.monitor.apply([feed.publisher_envelope("offline")])
        feed.monitor.compute()
        await feed.advance(1)
        feed.monitor.compute()
        await pilot.paint()
        assert under_cursor(pilot.app) == ("us-0002", "offline")


async def test_the_cursor_tells_jobs_at_one_place_apart() -> None:
    """Jobs at one place are separate problems in any state."""
    feed = fed()
    feed.jobs = dict.fromkeys(("a-job", "a-task"), ("uc1/us-0001/trn2u-0001-1",))
    feed.states = {"a-job": "failed", "a-task": "failed"}
    feed.describe()
    feed.tick()
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11"), size=(80, 24)
    ) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("w", "end")
        assert under_cursor(pilot.app) == ("a-task", "job failed")
        feed.states["a-task"] = "hung"
        feed.describe()
        await pilot.telemetry(feed)
        assert under_cursor(pilot.app)[1].startswith("job hung")


CHIP = "uc1/us-0001/trn2u-0001-2/chip05"


async def test_enter_goes_to_the_cause_and_silenced_ones_can_be_shown() -> None:
    """A slow job opens its alert's chip.

    Silenced problems are counted, and S lists them.
    """
    feed = Feed(ultraservers(1))
    feed.monitor = Monitor(SilentSource(), "demo", clock=feed.clock, rules=load_rules())
    feed.scatter()
    feed.jobs = {"pretrain": ("uc1/us-0001",)}
    feed.states = {"pretrain": "failed"}
    feed.monitor.apply(
        [feed.event(CHIP, "crashed", name="runtime_crash", job="pretrain", severity="critical")]
    )
    feed.describe()
    feed.tick()
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11"), size=(120, 40)
    ) as pilot:
        for _ in range(3):
            await pilot.telemetry(feed)
        head = pilot.app.query_one("#problems-head", Bar)
        assert "Problems 1" in head.text
        first, second = lines(pilot.app)[:2]
        assert "trn2u-0001-2/chip05  job failed" in first
        assert first.rstrip().endswith("s")
        assert "stopped pretrain (failed" in second
        alert = listed(pilot.app).rows[0].alerts[0].alert
        await pilot.press("w", "enter")
        assert pilot.app.entry.title == "Chip"
        assert pilot.app.place == CHIP
        await pilot.press("escape", "8", "enter")
        assert pilot.app.place == CHIP
        await pilot.press("1")
        now_ns = feed.monitor.alerts.instant.now_ns
        feed.monitor.alerts.silences.put_silence(
            SilenceMessage(
                id="s1",
                matchers=(f'alertname="{alert.name}"',),
                starts=format_rfc3339(now_ns - NS_PER_S),
                until=format_rfc3339(now_ns + 3_600 * NS_PER_S),
                who="bo",
            )
        )
        await pilot.telemetry(feed)
        assert lines(pilot.app)[0] == " No problems"
        assert "1 silenced" in head.text
        await pilot.press("S")
        assert "silenced bo" in " ".join(lines(pilot.app)[1:3])


async def test_nothing_is_cut_while_lines_are_blank() -> None:
    """At 120x40 a text too long for its place's line has its own lines.

    A full list has two lines per problem, as before.
    """
    feed = fed()
    app = fleet_app(feed)
    words = "overheated: 32 chips, 88.1 °C and throttled by more than they should be"
    impact = (
        JobImpact("pretrain-70b-with-a-long-name", "running", 21.0),
        JobImpact("another-long-job-name", "failed"),
    )
    problem = Problem(
        "k",
        Severity.WARNING,
        AlertStatus.FIRING,
        "",
        Place("uc1/us-0001", "rack-b"),
        words,
        32,
        impact,
        owner="ann",
    )
    async with running(app, size=(120, 40)) as pilot:
        app.context.alerts.problems = Problems((problem,))
        listed(app).tick()
        await pilot.pause()
        shown = " ".join(" ".join(line[73:].split()) for line in pilot.screen()[4:20])
        for each in (
            words,
            "another-long-job-name (failed)",
            "pretrain-70b-with-a-long-name step +21 %",
            "32 chips",
        ):
            assert each in shown, each
        assert "…" not in shown
        place = Place("uc1/us-0001/trn2u-0001-1/chip06", "", "south")
        link = problem._replace(
            place=place, text="link at 40 % of its peers", jobs=(), owner="", chips=1
        )
        app.context.alerts.problems = Problems((link,))
        listed(app).tick()
        await pilot.pause()
        assert listed(app).lines_per_row == 2
        assert [" ".join(line[73:].split()) for line in pilot.screen()[5:7]] == [
            "▲ trn2u-0001-1/chip06:south",
            "link at 40 % of its peers",
        ]
        down = (JobImpact("pretrain-of-a-name", "failed"),)
        app.context.alerts.problems = Problems((problem._replace(jobs=down, text="hot", owner=""),))
        listed(app).tick()
        await pilot.pause()
        # A number is not apart from its noun.
        assert "32 chips" in {line[73:].strip() for line in pilot.screen()[5:9]}
        app.context.alerts.problems = Problems((problem._replace(jobs=(), text="hot"),))
        listed(app).tick()
        await pilot.pause()
        assert "└ acknowledged ann  32 chips" in {line[73:].strip() for line in pilot.screen()}
        app.context.alerts.problems = Problems(
            tuple(problem._replace(key=str(n)) for n in range(9))
        )
        for _ in range(2):
            app.page.renew()
            app.page.tick()
            await pilot.pause()
        assert listed(app).lines_per_row == 2


async def test_figures_at_the_right_end_below_their_titles() -> None:
    """Ages and alerts leave the last column to a scroll bar, like their titles."""
    feed = fed()
    feed.monitor.ingest.alerts = Alerts(feed.fleet, load_rules())
    feed.jobs = {"llm-70b": ("uc1/us-0001",)}
    feed.states = {"llm-70b": "failed"}
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for _ in range(5):
            await pilot.telemetry(feed)
        lines = pilot.screen()
        (title,) = [line for line in lines if " Jobs 1 " in line]
        (job,) = [line for line in lines if "✖ llm-70b   failed" in line]
        (problem,) = [line for line in lines if "llm-70b  job failed" in line]
        assert {len(line.rstrip()) for line in (title, job, problem)} == {119}


async def test_the_keys_reach_jobs() -> None:
    """Tab moves from problems to jobs, and keys apply to the job there.

    Place, `a` and `z` are the job's, and Enter opens its place.
    """
    feed = fed()
    feed.jobs = {"llm-70b": ("uc1/us-0001/trn2u-0001-1",)}
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        await pilot.press("tab", "tab")
        assert page.jobs.has_focus
        assert page.place == "uc1/us-0001/trn2u-0001-1"
        assert page.subject.matchers == 'job="llm-70b"'
        assert any(
            ">" in line.partition("llm-70b")[0][-4:] for line in pilot.screen() if "llm-70b" in line
        )
        await pilot.press("tab")
        assert page.map.has_focus
        await pilot.press("tab", "tab", "enter")
        assert (pilot.app.entry.title, pilot.app.place) == ("Hierarchy", "uc1/us-0001/trn2u-0001-1")


async def test_a_job_leads_to_its_own_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a problem elsewhere picked, the cursor on a job shows the job's place on the map."""
    feed = fed()
    feed.jobs = {"llm-70b": ("uc1/us-0001/trn2u-0001-1",)}
    feed.set("health", 1, slice(0, 1))
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        await pilot.press("tab", "home")
        assert page.problems.picked_here is not None
        shown: list[str] = []
        monkeypatch.setattr(page.map, "show_place", shown.append)
        await pilot.press("tab")
        assert page.jobs.has_focus
        assert shown == ["uc1/us-0001/trn2u-0001-1"]


async def test_the_newest_events_fill_a_large_screen() -> None:
    """Events are below the jobs, newest first, not below the map.

    Events of alerts and operators are included.
    """
    feed = fed()
    feed.monitor.apply([feed.event("uc1/us-0001/trn2u-0001-1", "began")])
    feed.monitor.apply([feed.event("uc1/us-0001/trn2u-0001-1", "went on")])
    for size, is_there in (((200, 55), True), ((120, 40), True), ((80, 24), False)):
        async with running(fleet_app(feed), size=size) as pilot:
            await pilot.telemetry(feed)
            await pilot.telemetry(feed)
            lines = pilot.screen()
            assert any(" Latest " in line for line in lines) == is_there, size
            at = [
                next((y for y, line in enumerate(lines) if word in line), 0)
                for word in ("went on", "began")
            ]
            assert not is_there or 0 < at[0] < at[1]


async def test_a_job_that_hurts_by_itself_is_not_named_twice() -> None:
    """Below a job without another place of trouble is the trouble or its own place.

    Its name is not repeated.
    """
    feed = fed()
    feed.jobs = {"a-job": ("uc1/us-0001/trn2u-0001-1",)}
    feed.states = {"a-job": "failed"}
    feed.describe()
    feed.tick()
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, broker_kind="mosquitto 2.0.11"), size=(120, 40)
    ) as pilot:
        await pilot.telemetry(feed)
        named = [number for number, line in enumerate(pilot.screen()) if "✖ a-job" in line]
        assert pilot.screen()[named[-1] + 1].rstrip().endswith("  └ job failed")


async def test_many_jobs_are_not_scrolled_beside_blank_rows() -> None:
    """At 120x40, too, they have all but the least rows of the newest events."""
    feed = fed()
    feed.jobs = {f"job-{number:02d}": ("uc1/us-0001/trn2u-0001-1",) for number in range(40)}
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        assert page.jobs.size.height > 14
        assert page.latest.size.height == LEAST_LATEST


async def test_charts_of_the_place_have_the_rows_that_all_lists_leave() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        lists = page.latest.region.bottom
        assert page.charts.region.y == lists
        assert page.charts.size.height > 20
        assert f" {page.place}  chip ─" in pilot.text()
        assert re.search(r" NC \d+ %", pilot.text()), "shares beside a tile have a name"
        await pilot.press("right")
        assert f" {page.place}  chip ─" in pilot.text()
        feed.monitor.apply([feed.event("uc1/us-0001", f"event {number}") for number in range(60)])
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert not page.charts.display, "events need the rows"


async def test_jobs_have_the_rows_that_events_leave() -> None:
    """Dozens of jobs do not scroll beside blank rows.

    As events arrive, they reclaim the rows in steps.
    """
    feed = fed()
    feed.jobs = {f"job-{number:02d}": ("uc1/us-0001/trn2u-0001-1",) for number in range(40)}
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(200, 55)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        page = pilot.app.page
        assert isinstance(page, FleetView)
        few = page.jobs.size.height, page.latest.size.height
        assert few[0] > 2 * MOST_JOBS
        assert few[1] < 2 * LEAST_LATEST
        feed.monitor.apply([feed.event("uc1/us-0001", f"event {number}") for number in range(40)])
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert page.jobs.size.height == 2 * MOST_JOBS
        assert page.jobs.size.height + page.latest.size.height == sum(few)
