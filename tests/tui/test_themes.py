"""Themes in the app: changed by a key, by an option, and by the terminal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rich.color import Color
from rich.style import Style
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import FleetPilot, fleet_app, running
from textual.widget import Widget

from trnfleet.tui import theme
from trnfleet.tui.theme.palettes import PALETTES, styles_of
from trnfleet.tui.view import NOTE_S
from trnfleet.tui.views import VIEWS
from trnfleet.tui.widgets.selection import SelectableWidget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest


def fed() -> Feed:
    """Return a small fleet with values."""
    feed = Feed(ultraservers(1) + standalone(2))
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed


def colors_of(name: str) -> set[Color]:
    """Return every colour of a theme."""

    def inside(value: Any) -> Iterator[Color]:
        if isinstance(value, Style):
            yield from (part for part in (value.color, value.bgcolor) if part is not None)
        elif isinstance(value, Color):
            yield value
        elif isinstance(value, dict | tuple):
            for each in value.values() if isinstance(value, dict) else value:
                yield from inside(each)

    made = styles_of(PALETTES[name])
    sheets = (value for value in made.pop("VARIABLES").values() if value.startswith("#"))
    return {*inside(made), *map(Color.parse, sheets)}


def drawn(pilot: FleetPilot) -> set[Color]:
    """Return every colour on the screen."""
    strips = pilot.app.screen._compositor.render_strips()
    styles = (segment.style for strip in strips for segment in strip if segment.style is not None)
    return {part for style in styles for part in (style.color, style.bgcolor) if part is not None}


def short(colors: set[Color]) -> set[object]:
    """Return colours in a comparable form."""
    return {color.triplet or color.number for color in colors}


async def test_no_view_keeps_a_colour_of_another_theme() -> None:
    """Light after dark, in which every view was drawn before; and dark again."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        for name in ("dark", "light", "dark"):
            pilot.app.theme = name
            await pilot.pause()
            for entry in VIEWS:
                await pilot.press(entry.key)
                await pilot.paint()
                strange = short(drawn(pilot)) - short(colors_of(name)) - {None}
                assert strange == set(), (name, entry.title)


async def test_a_key_goes_through_the_themes() -> None:
    """It names each for a moment and comes round to the first."""
    feed = fed()
    app = fleet_app(feed, theme_name="light")
    async with running(app, size=(120, 40)) as pilot:
        seen = [theme.NAME]
        for _ in theme.NAMES:
            await pilot.press("ctrl+t")
            seen.append(app.theme)
            assert f"theme {app.theme}" in pilot.screen()[-1]
            assert app.theme == theme.NAME
        await pilot.tick(feed, NOTE_S + 0.5)
        assert "theme light" not in pilot.screen()[-1]
    first = theme.NAMES.index("light")
    assert seen == [*theme.NAMES[first:], *theme.NAMES[:first], "light"]


async def test_no_color_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR overrides the chosen theme and the key."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(fleet_app(fed(), theme_name="light"), size=(120, 40)) as pilot:
        await pilot.press("ctrl+t")
        assert pilot.app.theme == theme.NAME == "monochrome"
        assert "NO_COLOR is set" in pilot.screen()[-1]


def beside_the_map(
    lines: Sequence[Sequence[tuple[str, Style | None]]],
) -> Iterator[list[tuple[str, Style | None]]]:
    """Yield the parts of lines right of the map at 120 columns."""
    for line in lines:
        ends = itertools.accumulate(len(text) for text, _ in line)
        yield [part for part, end in zip(line, ends, strict=True) if end > 72]


async def test_without_colour_words_stand_out_and_not_the_room_around_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failed job's sign, state and alerts are reversed; their padding is not."""
    monkeypatch.setenv("NO_COLOR", "1")
    feed = fed()
    feed.jobs = {"train": ("uc1/us-0001",)}
    feed.states = {"train": "failed"}
    feed.describe()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.tick(feed)
        # Tiles of the map beside the list are reversed as a whole.
        lines = [
            [text for text, style in line if style is not None and style.reverse]
            for line in beside_the_map(pilot.styled())
        ]
        reversed_texts = next(texts for texts in lines if "failed" in texts)
        assert all(text == text.strip() for text in reversed_texts)


async def test_only_our_themes_are_offered() -> None:
    app = fleet_app(fed())
    async with running(app):
        assert list(app.available_themes) == list(theme.NAMES)


async def test_every_line_has_one_background_to_the_right_edge() -> None:
    """The selected line reaches the edge, or the scrollbar.

    No head or list has a last cell of another shade.
    """
    feed = fed()
    feed.monitor.apply(
        [
            feed.reservation("cb-one", "uc1/us-0001"),
            *(feed.event("uc1/us-0001", f"event {n}", severity="warning") for n in range(4)),
        ]
    )
    async with running(fleet_app(feed, theme_name="dark"), size=(120, 40)) as pilot:
        for key in "12789":
            await pilot.press(key, telemetry=feed)
            selected = 0
            for (*_, before, last), line in zip(
                map(backgrounds, pilot.styled()), pilot.screen(), strict=True
            ):
                # The shade of a chart ends beside its margin.
                assert last == before or "┤" in line, (key, line)
                selected += before == theme.SELECTED_QUIET.bgcolor
            assert selected == (key in "279"), (key, pilot.text())


def backgrounds(line: list[tuple[str, Style | None]]) -> list[Color | None]:
    """Return the colour behind each cell of a line."""
    return [None if style is None else style.bgcolor for text, style in line for _ in text]


async def test_lines_are_drawn_as_textual_would_draw_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipping Textual's borders and paddings changes no cell, with and without colours."""
    feed = fed()
    async with running(fleet_app(feed, theme_name="dark"), size=(120, 40)) as pilot:
        for key in "123456789":
            await pilot.press(key, telemetry=feed)
            ours = cells(pilot)
            with monkeypatch.context() as patch:
                patch.setattr(SelectableWidget, "render_lines", Widget.render_lines)
                for widget in pilot.app.screen.query(SelectableWidget):
                    widget._styles_cache.clear()
                assert cells(pilot) == ours, key


def cells(pilot: FleetPilot) -> list[list[tuple[str, Style | None]]]:
    """Return each cell of the screen with its style, however it was cut into segments."""
    return [
        [(character, style or None) for text, style in line for character in text]
        for line in pilot.styled()
    ]


async def test_scroll_bars_have_whole_cells_in_ascii() -> None:
    """At every scroll position the tree's bar has no partial-cell substitutes."""
    for ascii_only in (True, False):
        app = fleet_app(fed(), ascii_only=ascii_only)
        seen = set()
        async with running(app, size=(80, 24)) as pilot:
            await pilot.press("2", "x", "x")
            for _ in range(12):
                await pilot.press("down")
                seen |= {line[-1] for line in pilot.screen()[6:20]}
            for _ in range(5):
                await pilot.press("pagedown")
                seen |= {line[-1] for line in pilot.screen()[6:20]}
        assert (seen == {" "}) is ascii_only, seen
