"""Charts that reach into the files of months."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from support.monitor.feed import Feed, ultraservers
from support.processes.programs import environment
from support.tui.past_app import burning, fed, made
from support.tui.pilot import running

from trnfleet.clock import format_rfc3339
from trnfleet.domain.minutes import KeptColumn, KeptSeries, Reach, Wanted
from trnfleet.monitor.store.fields import FIELDS
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.app.time_keys import CHARTS_ALONE
from trnfleet.tui.charts.history import FROM_S

HOUR_NS = 3_600 * 10**9


class Files:
    """Two days of history.

    The test decides when it answers.
    """

    def __init__(self, now_ns: int) -> None:
        self.revision = 0
        self.problem = ""
        self.reach: Reach | None = Reach(now_ns - 48 * HOUR_NS, now_ns)
        self.asked: list[Wanted] = []
        self.answers = False

    def ask(self, wanted: Wanted) -> KeptSeries | None:
        """Return 40 for everything, in each step within reach."""
        self.asked.append(wanted)
        if not self.answers:
            return None
        steps = (wanted.to_ns - wanted.from_ns) // wanted.step_ns
        times = wanted.from_ns + wanted.step_ns * np.arange(steps)
        is_there = self.reach is not None and times >= self.reach.first_ns
        values = np.where(is_there, 40.0, np.nan).astype(np.float32)
        column = KeptColumn(values, values, values)
        columns = {name: column for field in FIELDS for name in field.parts}
        return KeptSeries(wanted, columns, values)


async def test_longer_spans_are_drawn_from_the_files_and_gaps_say_why() -> None:
    """A long span first shows that files are read, then the line with its resolution.

    A week is empty before the two days.
    """
    feed = fed()
    files = Files(feed.monitor.moment().time_ns)
    async with running(
        FleetApp(feed.monitor, clock=feed.clock, history=files), size=(200, 55)
    ) as pilot:
        await pilot.tick(feed)
        assert "charts 2 d" in pilot.screen()[-1]
        assert files.asked == []
        await pilot.press(*"vvvv")
        assert "charts show 24 h" in pilot.text()
        assert "reading history" in pilot.text()
        files.answers = True
        files.revision = 1
        await pilot.tick(feed)
        assert "reading history" not in pilot.text()
        assert "24 h, 10 s mean, 10 min of history" in pilot.text()
        fleet = [each for each in files.asked if not each.address]
        assert {each.step_ns for each in fleet} == {600 * 10**9}, (
            "those of the place have their own"
        )
        await pilot.press("v")
        assert "before history" in pilot.text()
        await pilot.press("4")
        assert "10 min of history" in pilot.text()
        files.problem = "history: no such folder"
        files.revision = 2
        await pilot.tick(feed)
        assert "no such folder" in pilot.screen()[-1]


async def test_a_time_that_only_history_has_widens_the_charts() -> None:
    """Asked for with `@`; a time before all that there is is refused as ever."""
    feed = fed()
    now_ns = feed.monitor.moment().time_ns
    files = Files(now_ns)
    files.answers = True
    app, playback = made(feed, history=files)
    playback.start_ns = now_ns - HOUR_NS
    playback.end_ns = now_ns
    playback.position_ns = now_ns
    async with running(app, size=(160, 50)) as pilot:
        await pilot.press("at", *typed(now_ns - 60 * HOUR_NS), "enter")
        assert CHARTS_ALONE not in pilot.text()
        assert app.context.window.span_s(0) == 300
        await pilot.press("escape", "at", *typed(now_ns - 30 * HOUR_NS), "enter")
        assert CHARTS_ALONE in pilot.text()
        assert app.context.window.span_s(0) == 7 * 86_400
        assert playback.wishes == []


async def test_history_is_asked_by_the_fleets_own_time() -> None:
    """History is read by fleet time, at 20 times the clock and on another date.

    Seconds of charts are the wall clock's.
    """
    feed = Feed(ultraservers(1))
    feed.speed = 20.0
    feed.epoch = "2026-03-01T00:00:00Z"
    feed.describe()
    feed.tick()
    moment = feed.monitor.moment()
    assert moment.speed == 20.0
    files = Files(moment.time_ns)
    files.answers = True
    app, playback = made(feed, history=files)
    wall_ns = feed.clock.wall_ns()
    playback.start_ns = wall_ns - HOUR_NS // 6
    playback.end_ns = wall_ns
    playback.position_ns = wall_ns
    async with running(app, size=(160, 50)) as pilot:
        await pilot.press("at", *typed(moment.time_ns - 60 * HOUR_NS), "enter")
        assert CHARTS_ALONE not in pilot.text()
        await pilot.press("escape", "at", *typed(moment.time_ns - 30 * HOUR_NS), "enter")
        assert CHARTS_ALONE in pilot.text()
        # 30 hours of its time are an hour and a half.
        assert app.context.window.span_s(0) == 6 * 3_600
        assert playback.wishes == []


async def test_the_moment_of_an_alert_that_only_history_has_widens_the_charts() -> None:
    """`o` widens the charts to a moment that no playback reaches.

    Without history `o` is refused.
    """
    for has_history in (True, False):
        feed = await burning(3)
        files = Files(feed.monitor.moment().time_ns)
        app, playback = made(feed, history=files if has_history else None)
        async with running(app, size=(160, 50)) as pilot:
            await feed.clock.advance(400.0)
            await pilot.tick(feed)
            await pilot.press("8", "o")
            assert (CHARTS_ALONE in pilot.text()) is has_history
            # A shorter span would reach so far, but is not drawn from the files.
            assert (app.context.window.span_s(0) == FROM_S) is has_history
            assert playback.wishes == []


def typed(time_ns: int) -> str:
    """Return a time as it is typed."""
    return f"{format_rfc3339(time_ns)[:19]}Z"


APP = """
import asyncio, sys
import trnfleet.cli.commands.monitor, trnfleet.services.viewing, trnfleet.tui.run
from support.tui.past_app import burning, fed, made
from support.tui.pilot import running

async def show():
    feed = fed()
    async with running(made(feed)[0], size=(120, 40)) as pilot:
        await pilot.press("v", "v", "v", "4")
        await pilot.tick(feed)

asyncio.run(show())
print([each for each in sys.modules if each.split(".")[0] == "duckdb" or each.startswith("trnfleet.export.history")])
"""  # noqa: E501


def test_an_app_without_history_imports_no_duckdb() -> None:
    """Nor does it import the modules that read it."""
    done = subprocess.run(
        [sys.executable, "-c", APP],
        capture_output=True,
        text=True,
        check=False,
        env=environment(PYTHONPATH=os.pathsep.join(sys.path)),
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
