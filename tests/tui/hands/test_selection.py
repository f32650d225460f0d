"""Text selection with the mouse: marking, copying by `ctrl+c`, and clicks.

A click selects nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.tui.alerts_scene import alerts_feed, chips_at
from support.tui.handled import CHIP, INSTANCE
from support.tui.pilot import FleetPilot, fleet_app, running
from textual import events

from trnfleet.tui.app.actions import AGAIN
from trnfleet.tui.help import HelpScreen, HelpText

if TYPE_CHECKING:
    from support.monitor.feed import Feed


def burning() -> Feed:
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    feed.set("throttle_pct", 20.0, chips_at(feed, f"{INSTANCE}/chip01"))
    feed.tick()
    return feed


async def mouse(
    pilot: FleetPilot, kind: type[events.MouseEvent], x: int, y: int, button: int = 1
) -> None:
    """Do something with the mouse as a terminal reports it."""
    app = pilot.app
    app.post_message(
        kind(None, x, y, 0, 0, button, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y)
    )
    await pilot.pause()


async def drag(
    pilot: FleetPilot, begin: tuple[int, int], end: tuple[int, int], button: int = 1
) -> None:
    await mouse(pilot, events.MouseDown, *begin, button)
    await mouse(pilot, events.MouseMove, *end, button)
    await mouse(pilot, events.MouseUp, *end, button)


def reversed_text(pilot: FleetPilot) -> str:
    """Return the reversed text on screen."""
    lines = [
        "".join(text for text, style in line if style and style.reverse) for line in pilot.styled()
    ]
    return "\n".join(line for line in lines if line)


@pytest.mark.parametrize("backwards", [False, True])
async def test_ctrl_c_copies_what_is_selected(*, backwards: bool) -> None:
    """Cells from end to end are copied, with whole lines of the widget between.

    Then a click selects nothing again.
    """
    feed = burning()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("8", telemetry=feed)
        lines = pilot.screen()
        y = next(number for number, line in enumerate(lines) if line.startswith(">✖ crit"))
        x = lines[y].index("overheated")
        assert "warn" in lines[y + 1]
        ends = (x, y), (9, y + 1)
        place = pilot.app.page.place
        await drag(pilot, *(reversed(ends) if backwards else ends))
        wanted = f"{lines[y][x:79].rstrip()}\n{lines[y + 1][:10].rstrip()}".rstrip()
        assert (
            "\n".join(line.rstrip() for line in reversed_text(pilot).splitlines()).rstrip()
            == wanted
        )
        await pilot.press("ctrl+c")
        assert pilot.app.clipboard.rstrip() == wanted
        assert pilot.app.note.startswith("copied ")
        assert (pilot.app.page.place, pilot.app.entry.title) == (place, "Alerts")
        await mouse(pilot, events.MouseDown, 3, y)
        await mouse(pilot, events.MouseUp, 3, y)
        assert not reversed_text(pilot)
        await pilot.press("ctrl+c")
        assert pilot.app.note == AGAIN


async def test_a_drag_is_no_click() -> None:
    """A selected tab or breadcrumb is not opened; a bar's text is copied unchanged."""
    async with running(fleet_app(burning()), size=(120, 40)) as pilot:
        await pilot.paint()
        tabs = pilot.screen()[2]
        begin = tabs.index("8 Alerts")
        end = tabs.index("8 Alerts") + len("8 Alerts") - 1
        await drag(pilot, (begin, 2), (end, 2))
        assert pilot.app.entry.title == "Fleet"
        await pilot.press("ctrl+c")
        assert pilot.app.clipboard == "8 Alerts"
        await mouse(pilot, events.MouseDown, begin, 2)
        await mouse(pilot, events.MouseUp, begin, 2)
        assert pilot.app.entry.title == "Alerts"


async def test_what_ends_a_selection() -> None:
    """A key or leaving the view ends it; the other buttons select nothing."""
    async with running(fleet_app(burning()), size=(80, 24)) as pilot:
        await pilot.paint()
        await drag(pilot, (2, 0), (5, 0))
        assert reversed_text(pilot)
        await pilot.press("down")
        pilot.app.post_message(events.Key("down", None))
        await pilot.pause()
        assert not reversed_text(pilot)
        await drag(pilot, (2, 0), (5, 0), button=3)
        assert not reversed_text(pilot)
        await pilot.press("ctrl+c")
        assert pilot.app.note == AGAIN


async def test_the_help_can_be_copied() -> None:
    async with running(fleet_app(burning()), size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        y = pilot.app.screen.query_one(HelpText).region.y
        await drag(pilot, (6, y), (60, y + 1))
        assert pilot.app.selected_text.splitlines()[0].strip() == "Fleet"
