"""Keys from a settings file: they work, and everything that names keys names them."""

from __future__ import annotations

import pytest
from support.tui.fleet_scene import fleet_view, hot_feed
from support.tui.past_app import fed, made
from support.tui.pilot import fleet_app, running

from trnfleet.tui.app.actions import ACTIONS
from trnfleet.tui.app.app import checked_keys, keys_of_views
from trnfleet.tui.app.palette import Palette
from trnfleet.tui.help import HelpScreen
from trnfleet.tui.keys import KEYS, parsed

GIVEN = {"help": "F1", "quit": "ctrl+q", "next-metric": "Ctrl-f", "palette": "ctrl+o"}
MAPPED = checked_keys({name: ("my.toml", key) for name, key in GIVEN.items()})


async def test_a_mapped_key_works_and_the_shipped_one_does_not() -> None:
    """Only the new key acts, also in the help and the palette, and Ctrl-q above them."""
    app = fleet_app(hot_feed(), keys=MAPPED)
    async with running(app, size=(120, 40)) as pilot:
        shown = fleet_view(app).map.field
        await pilot.press("m")
        assert fleet_view(app).map.field == shown
        assert app.note == "m does nothing here; F1 shows keys"
        await pilot.press("ctrl+f")
        assert fleet_view(app).map.field != shown
        for key, kind in (("f1", HelpScreen), ("ctrl+o", Palette)):
            await pilot.press(key)
            assert isinstance(app.screen, kind)
            await pilot.press(key)
            assert not isinstance(app.screen, kind)
        await pilot.press("q")
        assert app.note == "q does nothing here; F1 shows keys"
        await pilot.press("f1", "ctrl+q")
    assert app.return_code == 0


@pytest.mark.parametrize(
    ("press", "words"),
    [
        ((), ("F1 help", "Ctrl-q quit", "Ctrl-f metric")),
        (("f1",), ("F1            Help", "Ctrl-q        Quit", "Ctrl-f        Next metric")),
        (("ctrl+o", *"next metric"), ("Ctrl-f      Next metric",)),
    ],
)
async def test_all_texts_name_the_mapped_key(
    press: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """The hints, the help and the palette name it, and never the shipped one."""
    async with running(fleet_app(hot_feed(), keys=MAPPED), size=(200, 90)) as pilot:
        await pilot.press(*("space" if key == " " else key for key in press))
        text = pilot.text()
        assert [part for part in words if part not in text] == [], text
        assert "? help" not in text


async def test_the_next_app_has_the_shipped_keys() -> None:
    """The keys of an app are not those of one before it."""
    async with running(fleet_app(hot_feed())) as pilot:
        assert "? help  q quit" in pilot.text()


def test_every_name_has_a_key_in_the_app() -> None:
    """No name does nothing, and no described key but the fixed ones is without a name."""
    bindings = [action.binding for action in ACTIONS if action.key]
    bindings += [binding for _, those in keys_of_views() for binding in those]
    fixed = {*map(str, range(1, 10)), "escape", "enter", "colon", "ctrl+c"}
    assert {binding.id for binding in bindings} == {*KEYS} | fixed


async def test_the_past_is_left_by_the_mapped_key() -> None:
    """The keys of time are mapped, too, and banner and hints name them."""
    app, playback = made(fed(), keys={"live": "f8", "pause": "f9"})
    async with running(app, size=(160, 40)) as pilot:
        await pilot.press("f9", "left_square_bracket")
        assert playback.shows_past
        text = pilot.text()
        assert "F8 = live" in text, text
        assert "F9 resume" in text, text
        await pilot.press("end")
        assert playback.shows_past
        await pilot.press("f8")
        assert not playback.shows_past


def test_keys_are_spelled_as_textual_or_as_the_help_does() -> None:
    """Several keys stand with commas between; a comma alone is a key."""
    for text, keys in (
        ("f9", "f9"),
        ("F9", "f9"),
        ("q, Ctrl-x", "q,ctrl+x"),
        ("?", "question_mark"),
    ):
        assert parsed(text) == keys
    assert parsed(",") == "comma"
