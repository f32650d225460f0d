"""The command palette: entries, effects, and hostile names.

Also its look in every theme and size.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from support.tui.alerts import held, rule
from support.tui.fake_playback import START_NS
from support.tui.past_app import MIN, made
from support.tui.past_app import fed as past_fed
from support.tui.pilot import FleetPilot, fleet_app, running
from textual import events
from textual.command import CommandList
from tui.hands.test_filters import HOT, fed

from trnfleet.monitor.alerting.operator import READ_ONLY
from trnfleet.tui import theme
from trnfleet.tui.alerts.view import AlertsView
from trnfleet.tui.app.palette import NOTHING, Palette
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.help import HelpScreen
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.power.view import PowerView
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from trnfleet.tui.app.app import FleetApp

HOSTILE = (
    "x[/",
    "[bold]x",
    "x[@click=app.quit]",
    "x\x1b[2Jy",
    "x\u202egnp",
    "x" + "w" * 199,
    "x\u0301",
    "x東京",
)


async def opened(pilot: FleetPilot, typed: str = "") -> list[str]:
    """Open the palette, type, and return the lines of its hits."""
    await pilot.press("ctrl+p")
    await pilot.pause()
    await pilot.press(*typed)
    await pilot.pause()
    return hits(pilot)


def hits(pilot: FleetPilot) -> list[str]:
    """Return the lines of the hits."""
    palette = pilot.app.screen
    assert isinstance(palette, Palette), palette
    shown = palette.query_one(CommandList)
    return [str(option.prompt).strip() for option in shown.options]


async def choose(pilot: FleetPilot, typed: str) -> None:
    """Open the palette, type, and choose the first hit."""
    await opened(pilot, typed)
    await pilot.press("enter")
    await pilot.pause()
    await pilot.pause()
    assert not isinstance(pilot.app.screen, Palette)


def words(line: str) -> str:
    return " ".join(line.split())


async def test_views_and_this_views_actions_come_first() -> None:
    """General actions come after views and this view's actions.

    Keys of the cursor and of other views are left out, as are Textual's own commands.
    """
    async with running(fleet_app(fed())) as pilot:
        await pilot.press("8")
        shown = [words(line) for line in await opened(pilot)]
        assert shown[: len(VIEWS)] == [
            "1 Fleet",
            "2 Hierarchy",
            "3 Topology",
            "4 Chip",
            "5 Jobs",
            "6 Power",
            "7 Reservations",
            "8 Alerts is on the screen",
            "9 Events",
        ]
        assert shown[len(VIEWS)] == "t Next of: active, all, silences, history"
        assert shown.index("a Acknowledge") < shown.index("? Help")
        assert not any(line.startswith(("P Sort by power", "↑")) for line in shown)
        assert not any("screenshot" in line.lower() or "Maximize" in line for line in shown)
        for key in ("escape", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause()
            assert not isinstance(pilot.app.screen, Palette)
            await pilot.press("ctrl+p")
            await pilot.pause()


async def test_choosing_does_what_the_key_does() -> None:
    """Views, actions of the view, refusals, and command names for keys."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await choose(pilot, "alerts")
        assert pilot.app.entry.title == "Alerts"
        await choose(pilot, "tree")
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        await choose(pilot, "sort by pow")
        assert page.table.sorting == ("power_w", True)
        await choose(pilot, "T")
        assert page.table.sorting == ("temperature_c", True)
        await pilot.press("1")
        await choose(pilot, "sort by pow")
        assert pilot.app.note == "P is a key of Hierarchy (2): Sort by power"
        await pilot.press("8")
        assert "M in Fleet: heat map: Previous metric" in map(
            words, await opened(pilot, "previous metric")
        )
        await pilot.press("escape", "1")
        for name in ("a", "ack"):
            await choose(pilot, name)
            assert READ_ONLY in pilot.text()
            await pilot.press("escape")
            assert READ_ONLY not in pilot.text()
        await choose(pilot, "help")
        assert isinstance(pilot.app.screen, HelpScreen)


async def test_commands_and_what_may_follow_them() -> None:
    """A command with an argument opens `:` with its name.

    Possible arguments are offered with it.
    """
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await choose(pilot, ":filter")
        assert "command: filter " in pilot.text()
        await pilot.press(*"us-0002", "enter")
        assert isinstance(pilot.app.page, FleetView)
        assert pilot.app.page.pattern == "us-0002"
        await choose(pilot, "metric temp")
        assert pilot.app.page.map.field.key == "temperature_c"
        await choose(pilot, ":theme li")
        assert pilot.app.theme == "light"
        assert "command" in (await opened(pilot, "high-con"))[0]


async def test_names_of_the_fleet_lead_there() -> None:
    """A chip by its short name, an instance, an UltraServer, a job and an alert."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        assert words((await opened(pilot, "0002-1/07"))[0]) == f"chip {HOT}"
        await pilot.press("enter")
        await pilot.pause()
        assert (pilot.app.entry.title, pilot.app.page.place) == ("Chip", HOT)
        await choose(pilot, "trn2u-0002-1")
        assert (pilot.app.entry.title, pilot.app.page.place) == (
            "Hierarchy",
            HOT.rpartition("/")[0],
        )
        await choose(pilot, "us-0001")
        assert pilot.app.page.place == "uc1/us-0001"
        await choose(pilot, "PRETRAIN")
        assert isinstance(pilot.app.page, HierarchyView)
        assert pilot.app.page.pattern == 'job="pretrain-70b"'
        pilot.app.context.alerts.active = [held(HOT, of=rule("too-hot"))]
        assert words((await opened(pilot, "too-hot"))[0]) == f"alert too-hot {HOT} critical, firing"
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.page, AlertsView)
        assert pilot.app.page.pattern == f'rule="too-hot" & at="{HOT}"'
        (alert,) = pilot.app.context.alerts.active
        assert (
            words((await opened(pilot, alert.alert.fingerprint[:5]))[0])
            == f"alert too-hot {HOT} critical, firing"
        )
        await pilot.press("escape")
        assert (await opened(pilot, "nothing-of-the-kind")) == [NOTHING]


async def test_a_rack_leads_to_its_row_in_power() -> None:
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        shown = await opened(pilot, "rack-b")
        assert words(shown[1]) == "rack uc1/us-0002/rack-b a rack in Power"
        assert len(shown) == 2
        await pilot.press("down", "enter")
        await pilot.pause()
        page = pilot.app.page
        assert isinstance(page, PowerView)
        assert [*map(page.list.name_of, page.list.rows)] == ["us-0002/rack-b"]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_names(*, ascii_only: bool) -> None:
    """Hostile names are shown cut and escaped, never as markup, and open their node."""
    feed = fed()
    # The wire's pattern for names rejects all of these, but display must not rely on that.
    job = feed.monitor.ingest.jobs["pretrain-70b"]
    feed.monitor.ingest.jobs.update(dict.fromkeys(HOSTILE, job))
    async with running(fleet_app(feed, ascii_only=ascii_only), size=(60, 20)) as pilot:
        shown = [line for line in await opened(pilot, "x") if line.startswith("job")]
        assert len(shown) == len(HOSTILE)
        assert any(words(line).startswith("job x[/ ") for line in shown)
        for _ in shown:
            await pilot.press("down")
        text = pilot.text()
        assert not set(text) & set("\x00\x1b\u202e\u0301")
        assert pilot.crash is None
        await pilot.press("escape")
        for typed in ("x[/", "[bold", "[/]", "\\["):
            await opened(pilot, typed)
            assert pilot.crash is None
            await pilot.press("escape")
        await choose(pilot, "x[/")
        assert pilot.app.entry.title == "Hierarchy"
        assert pilot.crash is None


async def test_it_is_drawn_in_every_theme() -> None:
    """Its frame is whole, and the selected hit stands out.

    All non-ASCII glyphs have an ASCII twin.
    """
    async with running(fleet_app(fed()), size=(60, 20)) as pilot:
        for name, size in itertools.product(theme.NAMES, ((60, 20), (80, 24))):
            pilot.app.theme = name
            await pilot.resize_terminal(*size)
            await opened(pilot)
            _drawn(pilot)
            await pilot.press("escape")


def _drawn(pilot: FleetPilot) -> None:
    """Check how the palette looks."""
    lines = pilot.screen()
    assert lines[1].startswith("╭")
    assert any(line.startswith("╰") for line in lines[2:])
    strips = pilot.app.screen._compositor.render_strips()
    one, other = (
        next(segment.style for segment in strips[y] if segment.text.strip().startswith(text))
        for y, text in ((3, "1"), (4, "2"))
    )
    assert one is not None
    assert other is not None
    assert (one.bgcolor, bool(one.reverse)) != (other.bgcolor, bool(other.reverse)), (one, other)
    assert theme.to_ascii(pilot.text()).count("?") == pilot.text().count("?")


async def test_a_click_chooses_and_a_click_beside_it_closes() -> None:
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await opened(pilot)
        y = next(
            y
            for y, line in enumerate(pilot.screen())
            if " Events" in line and "9 " in line and y > 2
        )
        await pilot.click(offset=(30, y))
        await pilot.pause()
        await pilot.pause()
        assert pilot.app.entry.title == "Events"
        await opened(pilot)
        await pilot.click(offset=(1, 35))
        await pilot.pause()
        assert not isinstance(pilot.app.screen, Palette)


async def test_time_stays_where_it_is() -> None:
    """Keys of time are typed as letters in the palette.

    Afterwards, and when chosen, they have their usual effect.
    """
    feed = past_fed()
    app, playback = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        playback.show(feed.monitor, START_NS + 5 * MIN)
        await opened(pilot, "[")
        await pilot.press("space", "]", "<", "end", "ctrl+home", "escape")
        await pilot.pause()
        assert playback.wishes == []
        await pilot.press("left_square_bracket")
        assert playback.wishes == [("step", -10)]
        await choose(pilot, "pause or")
        assert playback.wishes == [("step", -10), ("toggle",)]


async def test_enter_chooses_of_what_is_typed() -> None:
    """Enter never chooses a hit for an earlier text.

    Not even if all keys arrive at once, as over a slow connection.
    """
    async with running(fleet_app(fed())) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause()
        for name in (*"events", "enter"):
            pilot.app.simulate_key(name) if name == "enter" else pilot.app.post_message(
                events.Key(name, name)
            )
        await pilot.pause()
        await pilot.pause()
        assert pilot.app.entry.title == "Events"


@pytest.mark.parametrize("enters", [2, 3])
async def test_enter_pressed_again_at_once_chooses_once(enters: int) -> None:
    """Such as by somebody impatient, over a slow connection."""
    app, playback = made(fed())
    async with running(app) as pilot:
        await opened(pilot, "pause or")
        for _ in range(enters):
            app.post_message(events.Key("enter", "\r"))
        await pilot.pause()
        await pilot.pause()
        assert pilot.crash is None
        assert not isinstance(app.screen, Palette)
        assert playback.wishes == [("toggle",)]


async def test_a_field_is_left_first_and_other_dialogues_keep_their_keys() -> None:
    """No key of a choice may be written into a filter or a silence's comment."""
    app: FleetApp = fleet_app(fed())
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("slash", "u", "ctrl+p")
        assert not isinstance(app.screen, Palette)
        assert "leave this field first" in app.note
        await pilot.press("escape", "question_mark", "ctrl+p")
        assert isinstance(app.screen, HelpScreen)
