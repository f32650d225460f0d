"""Below the event list, if there is room: events over time, and charts.

The charts are of the place under the cursor.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.pilot import fleet_app, running

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.tui.events.rates import RATES, RATES_FROM, TALL_RATES, EventRates, EventSpace
from trnfleet.tui.events.view import EventsView
from trnfleet.tui.view import CHARTS_FROM

if TYPE_CHECKING:
    from trnfleet.tui.app.app import FleetApp

CHIP = "uc1/us-0001/trn2u-0001-2/chip11"
OTHER = "uc1/us-0002/trn2u-0002-1"


def fed() -> Feed:
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.jobs = {"llama": ("uc1/us-0002",)}
    feed.describe()
    feed.tick()
    return feed


def say(feed: Feed, ago_s: float, severity: str, path: str = CHIP, text: str = "it is so") -> None:
    ts = format_rfc3339(feed.clock.wall_ns() - round(ago_s * NS_PER_S))
    feed.monitor.apply([feed.event(path, text, severity=severity, ts=ts)])


def view(app: FleetApp) -> EventsView:
    assert isinstance(app.page, EventsView)
    return app.page


def lines_of(widget: EventRates) -> list[str]:
    return [widget.render_line(y).text for y in range(widget.size.height)]


def below(page: EventsView) -> tuple[bool, bool]:
    """Return whether time line and charts are shown."""
    return page.rates.display, page.charts.display


def bars(lines: list[str], severity: str) -> dict[int, str]:
    """Return the lower cells of a severity's line with something in them, by their places."""
    (line,) = (each for each in lines if severity in each)
    after = line.index("┤") + 1
    return {place: cell for place, cell in enumerate(line[after:]) if cell != " "}


async def test_events_stand_where_they_happened() -> None:
    """Each severity has a line with its number, and bars at the events' times.

    Heights are counts. The cursor's event is marked below.
    """
    feed = fed()
    for ago_s, severity in (
        (400.0, "warning"),
        (200.0, "critical"),
        (100.0, "info"),
        (100.0, "info"),
        (30.0, "info"),
    ):
        say(feed, ago_s, severity)
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("9", telemetry=feed)
        lines = lines_of(view(pilot.app).rates)
        assert re.search(r"Events by severity ─+ 5 min, 1\.4 s a cell", lines[1])
        assert re.search(r"✖ critical +1 +┤", "\n".join(lines))
        assert re.search(r"▲ warning +0 +┤", "\n".join(lines)), "it is further back than the span"
        assert re.search(r"• info +3 +┤", "\n".join(lines))
        assert [line.split("┤")[0].strip() for line in lines if "most" in line] == [
            "most 1",
            "most 2",
        ]
        cells = len(lines[3].rstrip("\n")) - lines[3].index("┤") - 3
        (critical,) = bars(lines, "critical")
        old, new = bars(lines, "info")
        for place, ago_s in ((critical, 200.0), (old, 100.0), (new, 30.0)):
            assert place == pytest.approx(cells * (1 - ago_s / 300), abs=3)
        # Two fill both of the rows, one a half of them.
        upper = lines[next(y for y, line in enumerate(lines) if "info" in line) - 1]
        assert upper[upper.index("┤") + 1 + old] == "█"
        assert upper[upper.index("┤") + 1 + new] == " "
        axis = lines[-1]
        assert not re.search(r"\.\d\d", axis), "no tick between halves of minutes"
        assert axis.index("◆") - lines[3].index("┤") - 1 == new, (
            "the newest that is there has the cursor"
        )
        say(feed, 0.0, "info")
        await pilot.telemetry(feed)
        axis = lines_of(view(pilot.app).rates)[-1]
        assert "◆" in axis
        assert set(axis.replace("◆", " ").split()) <= {
            "now",
            *(f"-{each / 2:g}m" for each in range(2, 10)),
            "-30s",
        }, "no label is cut"
        await pilot.press("V", telemetry=feed)
        lines = lines_of(view(pilot.app).rates)
        assert "1 min, 0.28 s a cell" in lines[1]
        assert re.search(r"✖ critical +0 +┤", "\n".join(lines))


async def test_the_time_line_counts_what_the_filter_leaves() -> None:
    feed = fed()
    for ago_s in range(10, 60, 10):
        say(feed, ago_s, "warning")
    say(feed, 5.0, "warning", OTHER, "quite another")
    async with running(fleet_app(feed), size=(200, 55)) as pilot:
        await pilot.press("9", telemetry=feed)
        assert re.search(r"▲ warning +6 +┤", pilot.text())
        await pilot.press("slash", *"another", "enter", telemetry=feed)
        assert re.search(r"▲ warning +1 +┤", pilot.text())
        await pilot.press("escape", telemetry=feed)
        assert re.search(r"▲ warning +6 +┤", pilot.text())
        say(feed, 1.0, "warning")
        await pilot.telemetry(feed)
        assert re.search(r"▲ warning +7 +┤", pilot.text())


async def test_charts_are_of_the_place_under_the_cursor() -> None:
    """Charts follow the cursor.

    Without an event or a place they are the fleet's.

    A publisher has charts of everything it publishes, a broker none.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("9", telemetry=feed)
        await pilot.telemetry(feed)
        page = view(pilot.app)
        assert page.charts.render_line(0).text.strip().startswith("demo  fleet")
        say(feed, 20.0, "info", OTHER)
        say(feed, 10.0, "warning", CHIP)
        await pilot.telemetry(feed)
        assert page.charts.render_line(0).text.strip().startswith(f"{CHIP}  chip")
        await pilot.press("down")
        assert page.charts.render_line(0).text.strip().startswith(f"{OTHER}  instance")
        assert "power" in pilot.text()
        await pilot.press("t", telemetry=feed)
        assert below(page) == (False, True)
        assert page.charts.render_line(0).text.strip().startswith("uc1  ")
        await pilot.press("t", telemetry=feed)
        assert below(page) == (False, False)
        await pilot.press("t", telemetry=feed)
        assert below(page) == (True, True)
        await pilot.resize_terminal(80, 24)
        await pilot.telemetry(feed)
        assert below(page) == (False, False)


@pytest.mark.parametrize(
    ("width", "rows", "listed", "wanted"),
    [
        (RATES_FROM - 1, 60, 0, EventSpace()),
        (RATES_FROM, 33, 3, EventSpace(TALL_RATES)),
        (RATES_FROM, 33, 24, EventSpace()),
        (RATES_FROM, 34, 24, EventSpace(RATES)),
        (CHARTS_FROM, 33, 3, EventSpace(TALL_RATES, 16)),
        (CHARTS_FROM, 33, 1_000, EventSpace()),
        (CHARTS_FROM, 60, 1_000, EventSpace(TALL_RATES, 21)),
        (CHARTS_FROM, 60, 3, EventSpace(TALL_RATES, 40)),
    ],
)
def test_the_list_has_its_rows_first(
    width: int, rows: int, listed: int, wanted: EventSpace
) -> None:
    assert EventSpace.share(width, rows, listed, is_beside=False) == wanted


def test_the_details_beside_the_list_keep_their_rows() -> None:
    assert EventSpace.share(240, 30, 0, is_beside=True) == EventSpace(TALL_RATES, 7)
    assert EventSpace.share(240, 19, 0, is_beside=True) == EventSpace()
