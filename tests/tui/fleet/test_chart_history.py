"""Charts that reach into the files of months."""

from __future__ import annotations

import numpy as np
from support.tui.past_app import fed
from support.tui.pilot import running

from trnfleet.domain.minutes import KeptColumn, KeptSeries, Reach, Wanted
from trnfleet.monitor.store.fields import FIELDS
from trnfleet.tui.app import FleetApp

HOUR_NS = 3_600 * 10**9


class Files:
    """History of two days, which answers when a test says."""

    def __init__(self, now_ns: int) -> None:
        self.revision = 0
        self.problem = ""
        self.reach: Reach | None = Reach(now_ns - 48 * HOUR_NS, now_ns)
        self.asked: list[Wanted] = []
        self.answers = False

    def ask(self, wanted: Wanted) -> KeptSeries | None:
        """Return 40 of everything in each step that it reaches."""
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
    """First that they are read, then the line with its resolution; a week has nothing before the two days that there are."""
    feed = fed()
    files = Files(feed.monitor.moment().time_ns)
    app = FleetApp(feed.monitor, clock=feed.clock, history=files)
    async with running(app, size=(200, 55)) as pilot:
        await pilot.tick(feed)
        assert "charts 2 d" in pilot.screen()[-1]
        assert files.asked == []
        await pilot.press(*"vvvv")
        assert "charts show 24 h" in pilot.text()
        assert "reading history" in pilot.text()
        files.answers, files.revision = True, 1
        await pilot.tick(feed)
        assert "reading history" not in pilot.text()
        assert "24 h, 10 s mean, 10 min of history" in pilot.text()
        assert {each.step_ns for each in files.asked} == {600 * 10**9}
        await pilot.press("v")
        assert "before history" in pilot.text()
        await pilot.press("4")
        assert "10 min of history" in pilot.text()
        files.problem, files.revision = "history: no such folder", 2
        await pilot.tick(feed)
        assert "no such folder" in pilot.screen()[-1]
