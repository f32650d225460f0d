"""Typed commands, sorting by letters and the help."""

from __future__ import annotations

import pytest
from support.tui.pilot import fleet_app, running
from tui.hands.test_filters import HOT, fed

from trnfleet.errors import ConfigError
from trnfleet.tui.app.commands import Action, TypedCommands
from trnfleet.tui.fleet.jobs import JobList
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.help import HelpScreen, HelpText
from trnfleet.tui.hierarchy.view import HierarchyView


def test_completion_and_the_nearest_command() -> None:
    """Names and arguments are completed from existing ones.

    A wrong name is answered with the nearest.
    """
    done: list[str] = []
    commands = TypedCommands(
        None,
        [
            Action(
                names=("theme",),
                run=lambda _app, text: done.append(text),
                choices=lambda _app: ("dark", "light"),
            ),
            Action(names=("quit", "q"), run=lambda _app, text: done.append(text)),
            Action("quit", "q", "quit"),
        ],
    )
    assert commands.complete("th") == "theme"
    assert commands.complete("theme L") == "theme light"
    assert (
        commands.complete("theme x") is commands.complete("") is commands.complete("quit x") is None
    )
    commands.run(":theme light")
    commands.run("q")
    assert done == ["light", ""]
    with pytest.raises(ConfigError, match="no command \"theem\": did you mean 'theme'"):
        commands.run("theem light")


async def test_typed_commands() -> None:
    """`:` goes to views, places and jobs, filters, sorts, and changes metric, theme and span."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:

        async def typed(command: str) -> None:
            await pilot.press("colon", *command, "enter")
            await pilot.pause()

        await typed("chip 0002-1/07")
        assert (app.entry.title, app.page.place) == ("Chip", HOT)
        await typed("alerts")
        assert app.entry.title == "Alerts"
        await typed("go us-0001")
        await typed("job pretrain-70b")
        assert isinstance(app.page, HierarchyView)
        assert app.page.pattern == 'job="pretrain-70b"'
        await typed("go us-0002")
        assert (app.entry.title, app.page.place) == ("Hierarchy", "uc1/us-0002")
        await typed("job pretrain-70b")
        page = app.page
        assert isinstance(page, HierarchyView)
        assert page.table.matches == 4
        await typed("sort power_w")
        assert page.table.sorting == ("power_w", True)
        await typed("filter power>450")
        assert page.table.matches == 2
        await typed("metric temp")
        assert isinstance(app.page, FleetView)
        assert app.page.map.field.key == "temperature_c"
        await typed("window 1h")
        assert app.context.window.title(0) == "1 h"
        await typed("theme light")
        assert app.theme == "light"
        await typed("theme dark")
        await typed("chip nothere")
        assert "nothing here is called 'nothere'" in pilot.text()
        await pilot.press("escape")
        await pilot.press("colon", *"alrts", "enter")
        assert "no command \"alrts\": did you mean 'alerts'?" in pilot.text()
        # What is wrong is selected: the next command takes its place, be it with a colon or
        # without.
        await pilot.press(*"first 10 hbm_bw", "enter", "colon", *"window 15m", "enter")
        assert app.context.window.title(0) == "15 min"
        await pilot.press("colon", *"top 10", "enter", *"alerts", "enter")
        assert app.entry.title == "Alerts"
        await pilot.press("colon", "up")
        assert "command: alerts" in pilot.text()
        await pilot.press("escape", "colon", *"reserv", "tab", "enter")
        assert app.entry.title == "Reservations"
        await typed("q")
    assert app.return_code == 0


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_list_of_commands_is_whole(size: tuple[int, int]) -> None:
    """The list above the field has as many lines as needed.

    Errors are above it.
    """
    async with running(fleet_app(fed()), size=size) as pilot:
        await pilot.press("colon", *"describe", "enter")
        text = pilot.text()
        assert 'no command "describe"' in text
        words = text[text.index("Commands: ") : text.index(" command: ")].split()
        assert words[1:] == [each.names[0] for each in pilot.app.commands.all]


async def test_letters_sort() -> None:
    """A capital sorts by its column at once, and again the other way round."""
    async with running(fleet_app(fed()), size=(120, 40)) as pilot:
        await pilot.press("2", "P")
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        assert page.table.sorting == ("power_w", True)
        await pilot.press("P")
        assert page.table.sorting == ("power_w", False)
        await pilot.press("T")
        assert page.table.sorting == ("temperature_c", True)
        # The cursor is where the highest stands, and not where it was.
        await pilot.press("down", "down", "T")
        assert page.table.row == 0
        assert page.place == "uc1"
        await pilot.press("8", "D")
        assert "sort: age" in pilot.text()
        await pilot.press("7", "C")
        assert "idle cost" in pilot.text()


async def test_the_help_of_this_view_first_and_searchable() -> None:
    """At 80x24 nothing is cut; typing filters the keys."""
    async with running(fleet_app(fed()), size=(80, 24)) as pilot:
        await pilot.press("2", "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        text = pilot.app.screen.query_one(HelpText)
        lines = [text.render_line(y).text for y in range(text.size.height)]
        assert lines[0].strip() == "Hierarchy"
        for top in range(0, int(text.virtual_size.height), text.size.height):
            text.scroll_to(y=top, animate=False, force=True, immediate=True)
            assert not any("…" in text.render_line(y).text for y in range(text.size.height))
        await pilot.press(*"silence")
        shown = "\n".join(text.render_line(y).text for y in range(text.size.height))
        assert "Silence what the cursor is on" in shown
        assert "Sort by power" not in shown
        await pilot.press(*"zzz")
        assert "No key" in text.render_line(0).text
        await pilot.press("question_mark")
        assert not isinstance(pilot.app.screen, HelpScreen)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ((), "job lost is waiting and names no instance"),
        (
            ("uc1/us-0009/trn2u-0009-0", "uc1/us-0008"),
            (
                "no instance of job lost is known: nothing has described uc1/us-0009/trn2u-0009-0"
                " and 1 more"
            ),
        ),
    ],
)
async def test_a_job_of_which_no_instance_is_known(places: tuple[str, ...], said: str) -> None:
    """`:job`, Enter and a click on it show a note and change nothing.

    Otherwise they would show a tree without a filter.
    """
    feed = fed()
    feed.jobs["lost"] = places
    feed.states["lost"] = "waiting"
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(160, 40)) as pilot:
        await pilot.press("2", "slash", *"power>450", "enter")
        await pilot.press("colon", *"job lost", "enter")
        assert said in pilot.text()
        page = pilot.app.page
        assert isinstance(page, HierarchyView)
        await pilot.press("escape")
        assert page.pattern == "power>450"
        await pilot.press("1")
        await pilot.paint()
        jobs = pilot.app.page.query_one(JobList)
        jobs.focus()
        pilot.app.clear_note()
        await pilot.press("home", "enter")
        await pilot.pause()
        assert (pilot.app.entry.title, said in pilot.app.note) == ("Fleet", True)
        pilot.app.clear_note()
        await pilot.click(jobs, offset=(4, 0))
        await pilot.pause()
        assert (pilot.app.entry.title, said in pilot.app.note) == ("Fleet", True)


PLACES = [
    ("go us-0002", "uc1/us-0002", ""),
    ("go uc1/us-0002/trn2u-0002-1", "uc1/us-0002/trn2u-0002-1", ""),
    ("chip 0002-1/07", HOT, ""),
    ("go us-000", "uc1/us-0001", "2 places match 'us-000': this is uc1/us-0001"),
    ("go 0001", "uc1/us-0001", "2 places match '0001': this is uc1/us-0001"),
    (
        "chip chip07",
        "uc1/standalone/trn2-0001/chip07",
        "10 places match 'chip07': this is uc1/standalone/trn2-0001/chip07",
    ),
    (
        "chip 0002-1",
        "uc1/us-0002/trn2u-0002-1/chip00",
        "16 chips match '0002-1': this is uc1/us-0002/trn2u-0002-1/chip00",
    ),
    (
        "go train",
        "uc1/us-0002/trn2u-0002-0",
        "2 jobs match 'train': this is uc1/us-0002/trn2u-0002-0",
    ),
]
"""Commands, their places, and the notes shown."""


async def test_a_part_that_more_than_one_place_has() -> None:
    """The status line shows the number of matches and the one chosen.

    A whole address, or a part in one place, shows no note.
    """
    feed = fed()
    feed.jobs["train-2"] = ()
    feed.describe()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for command, place, said in PLACES:
            pilot.app.go("", "Fleet")
            pilot.app.clear_note()
            await pilot.press("colon", *command, "enter")
            await pilot.pause()
            assert pilot.app.page.place == place, command
            assert pilot.app.note == said, command
            assert said in pilot.screen()[-1]
