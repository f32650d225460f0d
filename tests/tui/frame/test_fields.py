"""Text fields: their keys, readable words, and errors.

An error is loud only once it is submitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.tui.alerts_scene import alerts_app, alerts_feed, chips_at
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import FleetPilot, fleet_app, running
from textual.color import Color

from trnfleet.tui import theme
from trnfleet.tui.help import HelpText
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.form import KEYS

if TYPE_CHECKING:
    from rich.style import Style

SIZES = [(80, 24), (120, 40), (200, 55)]


def style_of(pilot: FleetPilot, text: str) -> Style:
    """Return the style of a text on screen."""
    return next(
        style
        for line in pilot.styled()
        for said, style in line
        if text in said and style is not None
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", [("2", "slash"), ("colon",)])
async def test_the_status_line_names_the_keys_of_a_field(
    keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    """Other keys are characters there.

    A click on one of the two presses it.

    Then all is as before.
    """
    async with running(fleet_app(hot_feed()), size=size) as pilot:
        status = pilot.app.query_one("#status", Bar)
        await pilot.press(*keys)
        assert status.text.endswith("Enter ok  Esc cancel")
        assert "? help" not in status.text
        place = status.text.index("Esc cancel")
        await pilot.click("#status", offset=(place, 0))
        assert "? help  q quit" in status.text
        assert "cancel" not in status.text


@pytest.mark.parametrize("size", SIZES)
async def test_a_form_names_its_keys_at_every_size(size: tuple[int, int]) -> None:
    """Keys are named once: beside the title if there is room, else below the fields.

    A message comes before them.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 96.0, [chips_at(feed, "uc1/us-0001/trn2u-0001-2").start])
    app, _ = alerts_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("8", "a")
        assert pilot.text().count(KEYS) == 1
        await pilot.press(*"x", "tab", "end", *"nonsense", "enter")
        assert "▲" in pilot.screen()[-2]


async def test_a_filter_is_no_mistake_before_it_is_submitted() -> None:
    """While typing, an incomplete filter is reported quietly.

    Enter makes it an error, and the next character ends that.
    """
    async with running(fleet_app(hot_feed()), size=(120, 40)) as pilot:
        await pilot.press("2", "slash", *"temp>")
        assert any(line.startswith(" /temp>") for line in pilot.screen())
        assert style_of(pilot, "a value is missing").bgcolor == theme.BAR_STRONG.bgcolor
        await pilot.press("enter")
        assert style_of(pilot, "a value is missing").bgcolor == theme.BAR_ALERT.bgcolor
        await pilot.press("backspace")
        assert theme.BAR_ALERT.bgcolor not in {
            style.bgcolor for _, style in pilot.styled()[-3] if style
        }


@pytest.mark.parametrize("name", ["dark", "light", "high-contrast", "colour-blind"])
async def test_what_may_be_typed_can_be_read(name: str) -> None:
    """4.5:1 at least, as all text."""
    app = fleet_app(hot_feed(), theme_name=name)
    try:
        async with running(app, size=(120, 40)) as pilot:
            await pilot.press("colon")
            style = style_of(pilot, "fleet hierarchy")
            assert style.color is not None
            assert style.bgcolor is not None
            ink = Color.from_rich_color(style.color)
            paper = Color.from_rich_color(style.bgcolor)
            assert _contrast(ink, paper) >= 4.5
    finally:
        theme.use(theme.DEFAULT)


def _contrast(one: Color, other: Color) -> float:
    low, high = sorted(_luminance(each) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in color.normalized
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("size", [*SIZES, (240, 70)])
async def test_the_help_says_what_words_mean(size: tuple[int, int]) -> None:
    """Words of header and status line are found like keys, and none is cut."""
    async with running(fleet_app(hot_feed()), size=size) as pilot:
        await pilot.press("question_mark")
        text = pilot.app.screen.query_one(HelpText)
        assert text.size.height > size[1] * 0.7
        await pilot.press(*"in the header")
        shown = pilot.text()
        for word in ("stale ", "not heard yet ", "pending "):
            assert word in shown
        assert "…" not in shown
        await pilot.press(*["backspace"] * len("header"), *"status")
        assert "shed " in pilot.text()
