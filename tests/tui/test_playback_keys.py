"""The keys of time: their requests to the playback, prompts and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone
from support.tui.fake_playback import START_NS
from support.tui.past_app import MIN, fed, made
from support.tui.pilot import running
from textual.widgets import Input

from trnfleet.monitor.replay.controls import Mode
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.app.time_keys import free_path
from trnfleet.tui.help import HelpScreen, HelpText
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.playback.seek_bar import SIGNS, Seek, SeekBar
from trnfleet.tui.view import NOTE_S
from trnfleet.tui.views import VIEWS
from trnfleet.tui.widgets.bar import Bar

if TYPE_CHECKING:
    from pathlib import Path


WISHES: dict[str, list[tuple[object, ...]]] = {
    "left_square_bracket": [("step", -10)],
    "right_square_bracket": [("step", 10)],
    "left_curly_bracket": [("step", -60)],
    "right_curly_bracket": [("step", 60)],
    "comma": [("pause",), ("step", -1)],
    "full_stop": [("pause",), ("step", 1)],
    "space": [("toggle",)],
    "less_than_sign": [("slower",)],
    "greater_than_sign": [("faster",)],
    "left_parenthesis": [("mark", ("alert",), -1)],
    "right_parenthesis": [("mark", ("alert",), 1)],
    "ctrl+left": [("mark", ("alert", "resolved", "event"), -1)],
    "ctrl+right": [("mark", ("alert", "resolved", "event"), 1)],
    "end": [("end",)],
    "ctrl+home": [("start",)],
}
"""What each key of time wishes."""


async def test_keys_wish_of_playback_in_every_view() -> None:
    """No view keeps a key of time for itself."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        for view in ("1", "2", "4", "7", "8", "9"):
            await pilot.press(view)
            for key, wishes in WISHES.items():
                playback.show(feed.monitor, START_NS + 5 * MIN)
                playback.wishes.clear()
                await pilot.press(key)
                assert playback.wishes == wishes, (view, key)


async def test_the_bar_is_there_in_the_past_alone() -> None:
    """In the present the status line shows the recorded span.

    Back in time the bar and the banner appear at once.
    """
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.tick(feed, 0.6)
        assert "history 10 min" in app.query_one("#status", Bar).text
        assert "├" not in pilot.text()
        await pilot.press("left_curly_bracket")
        shown = pilot.text()
        assert "00:09:00" in app.query_one("#seek", SeekBar).text
        assert "1 min 00 s back" in shown
        assert "Viewing 00:09:00, 1 min 00 s ago. LIVE continues. End = live" in shown
        await pilot.press("end")
        assert playback.mode is Mode.LIVE
        assert "├" not in pilot.text()
        assert "Viewing" not in pilot.text()


async def test_a_problem_of_the_recording_is_told() -> None:
    """The status line shows that recording has ended, and why, at any width."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        playback.recording_problem = "No space left on device"
        playback.is_recording = False
        await pilot.tick(feed, 0.6)
        assert "not recording: No space left on" in app.query_one("#status", Bar).text


async def test_a_file_has_its_bar_and_no_banner() -> None:
    """A file has no present to return to, and no note about one."""
    feed = fed()
    app, playback = made(feed, is_file=True)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.tick(feed, 0.6)
        assert "0:00 of 10:00" in pilot.text()
        assert "you are looking" not in pilot.text()
        await pilot.press("W")
        assert "a recording already" in app.query_one("#status", Bar).text
        await pilot.press("end")
        assert playback.wishes == [("end",)]
        await pilot.press("2", "end")
        assert playback.wishes == [("end",)], "at a file's end, End is the list's"
        assert isinstance(app.page, HierarchyView)
        assert app.page.table.row == app.page.table.index.rows - 1


async def test_end_is_the_lists_in_the_present() -> None:
    """It goes to the last row, and wishes nothing."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("2", "end")
        assert isinstance(app.page, HierarchyView)
        assert app.page.table.row == app.page.table.index.rows - 1
        assert not playback.wishes


async def test_keys_of_time_are_letters_in_a_filter() -> None:
    """Keys of time are characters there, and End goes to the end of the line."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        playback.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press("2", "slash", *"[L", "space", "home", "end", *",")
        assert isinstance(app.page, HierarchyView)
        assert app.page.prompt.value == "[L ,"
        assert not playback.wishes


async def test_without_playback_the_keys_say_so() -> None:
    """Each key shows why it does nothing here.

    The help has neither keys nor signs of time, and End remains with the lists.
    """
    feed = fed()
    async with running(FleetApp(feed.monitor, clock=feed.clock), size=(120, 60)) as pilot:
        for key in [*WISHES, "at", "L", "W"]:
            if key == "end":
                # The lists' own in the present.
                continue
            await pilot.press(key)
            assert "nothing is recorded (--past 0)" in pilot.app.query_one("#status", Bar).text, key
            assert not asks(pilot.app)
            await pilot.tick(feed, NOTE_S + 1)
            assert "nothing is recorded" not in pilot.app.query_one("#status", Bar).text
        await pilot.press("end")
        assert "nothing is recorded" not in pilot.app.query_one("#status", Bar).text
        await pilot.press("question_mark")
        titles = [section.title for section in pilot.app.screen.query_one(HelpText)._sections]
        assert isinstance(pilot.app.screen, HelpScreen)
        assert "Time" not in titles
        assert "On the time bar" not in titles


async def test_the_help_cuts_nothing() -> None:
    """Columns do not overlap, and long text continues on the next line."""
    feed = fed()
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("question_mark")
        shown = app.screen.query_one(HelpText)
        lines = [line.make().text for line in shown.lines(0, 60, 104)]
        begun = next(n for n, line in enumerate(lines) if "Acknowledge the alerts of what" in line)
        assert "cursor is on" in lines[begun + 1]
        assert not any("…" in line for line in lines)
        assert all(line[51] == " " for line in lines)


async def test_a_note_ends_with_the_next_request() -> None:
    """The error of one answer goes when the next is understood."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        playback.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press("at", *"99:00", "enter")
        assert "not a time of day" in pilot.text()
        await pilot.press(*"-30s", "enter")
        assert "not a time of day" not in pilot.text()
        assert "Space" in app.query_one("#status", Bar).text


async def test_no_list_is_calm_while_it_loads() -> None:
    """Header, tabs, problems, events and alerts show that they load, at every width.

    Once loaded they show their content.
    """
    for size in ((80, 24), (120, 40), (240, 70)):
        feed = fed()
        app, playback = made(feed, is_file=True)
        async with running(app, size=size) as pilot:
            playback.state.read_incomplete = lambda: "loading"
            playback.revision += 1
            await pilot.paint()
            for key, said in (
                ("1", "Loading problems …"),
                ("8", "Loading alerts …"),
                ("9", "Loading events before"),
            ):
                await pilot.press(key)
                await pilot.paint()
                text = pilot.text()
                assert said in text
                assert "Loading problems …" in pilot.screen()[0]
                assert "No problems" not in text
                assert "8 Aler" not in text or ":?" in text
            assert "[events loading]" in text
            playback.state.read_incomplete = str
            playback.revision += 1
            await pilot.paint()
            assert "No events before 00:00:0" in pilot.text()
            assert "No problems" in pilot.screen()[0]
            await pilot.press("1")
            await pilot.paint()
            assert "oading" not in pilot.text()


async def test_a_mark_that_is_not_known_yet() -> None:
    """Between the last scanned place and the one shown there may be more marks."""
    feed = fed()
    app, playback = made(feed, is_file=True)
    async with running(app, size=(120, 40)) as pilot:
        playback.position_ns = START_NS + 5 * MIN
        playback.surveyed_ns = START_NS + MIN
        await pilot.press("left_parenthesis")
        assert "known so far: the recording is still being scanned" in pilot.screen()[-1]
        playback.surveyed_ns = START_NS + 6 * MIN
        await pilot.press("left_parenthesis")
        assert "known so far" not in pilot.screen()[-1]


async def test_a_replay_says_that_it_is_one() -> None:
    """A replay through a broker is not mistaken for the present.

    A live fleet is not called a replay.
    """
    for is_replay in (False, True):
        feed = Feed(standalone(1))
        feed.replay = is_replay
        feed.describe()
        feed.tick()
        app = FleetApp(feed.monitor, clock=feed.clock)
        async with running(app, size=(80, 24)):
            assert ("a replay" in app.query_one("#header", Bar).text) is is_replay


async def test_the_help_has_a_section_of_time() -> None:
    """Every key of time is listed once, by its name on a keyboard.

    General keys have their own section.
    """
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(200, 70)) as pilot:
        playback.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press("question_mark")
        titles = {
            section.title: section.keys for section in app.screen.query_one(HelpText)._sections
        }
        assert next(iter(titles)).startswith("Fleet"), "what is on the screen comes first"
        assert list(titles).index("Time") > list(titles).index("Everywhere")
        assert [sign for sign, _ in SIGNS] == [key.keys for key in titles["On the time bar"]]
        keys = [key.keys for key in titles["Time"]]
        assert keys == [
            "[",
            "]",
            "{",
            "}",
            ",",
            ".",
            "Space",
            "<",
            ">",
            "(",
            ")",
            "Ctrl-←",
            "Ctrl-→",
            "@",
            "End",
            "Ctrl-Home",
            "L",
            "W",
        ]
        assert not {key.keys for key in titles["Everywhere"]} & set(keys)
        await pilot.press("end")
        assert not playback.wishes, "under the help, End is the help's"


def asks(app: FleetApp) -> bool:
    return app.ask_line.is_open


async def test_asking_for_a_time() -> None:
    """A valid time is reached; an invalid one is reported, and the prompt remains open."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("at", *"noon", "enter")
        assert "'noon' is not a time; write it as 14:03" in pilot.text()
        assert asks(app)
        await pilot.press(*"00:04", "enter")
        assert playback.wishes == [("seek", START_NS + 4 * MIN)]
        assert not asks(app)
        assert not isinstance(app.focused, Input)
        await pilot.press("at", "escape", "left_square_bracket")
        assert playback.wishes[-1] == ("step", -10)


async def test_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving proposes a name, overwrites nothing, and reports the result.

    After a refused name the prompt remains open.
    """
    monkeypatch.chdir(tmp_path)
    feed = fed()
    app, playback = made(feed)
    proposed = tmp_path / "trnfleet-demo-20260105T001000Z.mcap"
    proposed.touch()
    async with running(app, size=(160, 40)) as pilot:
        await pilot.press("W", "enter")
        assert "is there already, and nothing is overwritten" in pilot.text()
        assert not playback.wishes
        await pilot.press(*["backspace"] * 5, *"-b.mcap", "enter")
        await pilot.pause()
        assert playback.wishes == [("save", "trnfleet-demo-20260105T001000Z-b.mcap")]
        assert "saved 12 messages" in app.query_one("#status", Bar).text
        playback.wishes.clear()
        await pilot.press("W", "home", *"~nobody-of-that-name/", "enter")
        assert "Could not determine home directory" in pilot.text()
        assert asks(app)
        assert not playback.wishes
        await pilot.press("escape")
        proposed.unlink()
        playback.refuses = "the disk is full"
        await pilot.press("W", "enter")
        await pilot.pause()
        assert "▲ not saved: the disk is full" in app.query_one("#status", Bar).text


async def test_only_a_recording_loops() -> None:
    """The recorded present has no end to loop at."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("L")
        assert "only a recording can loop" in app.query_one("#status", Bar).text
        assert not playback.wishes
    app, playback = made(feed, is_file=True)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("L")
        assert "loops at the end" in app.query_one("#status", Bar).text
        assert playback.wishes == [("loop",)]
        await pilot.press("L")
        assert "stops at the end" in app.query_one("#status", Bar).text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("n" * 300, "File name too long"),
        ("~nobody-of-that-name/x.mcap", "Could not determine home directory"),
        ("file/x.mcap", "Not a directory"),
        ("\0x.mcap", "null byte"),
        ("file", "is there already"),
    ],
)
def test_names_that_no_new_file_can_have(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is shown, and no exception ends the app."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=reason):
        free_path(name)


async def test_nothing_earlier_is_said() -> None:
    """The playback's answer to a request is in the status line for a while."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        playback.show(feed.monitor, START_NS)
        await pilot.press("left_square_bracket")
        assert "start of history: nothing earlier" in app.query_one("#status", Bar).text
        await pilot.tick(feed, 9.0)
        assert "nothing earlier" not in app.query_one("#status", Bar).text


async def test_no_further_alert_is_said() -> None:
    """While a file is still being scanned, the note says so."""
    feed = fed()
    app, playback = made(feed, is_file=True)
    async with running(app, size=(120, 24)) as pilot:
        await pilot.press("left_parenthesis")
        assert app.query_one("#status", Bar).text.startswith(" • no earlier alert is known  ")
        await pilot.press("ctrl+right")
        assert app.query_one("#status", Bar).text.startswith(" • no later mark is known  ")
        playback.surveyed_ns = START_NS + MIN
        await pilot.press("right_parenthesis")
        assert "no later alert is known so far" in app.query_one("#status", Bar).text


async def test_what_playback_says_by_itself() -> None:
    """It is shown once, and not for ever."""
    feed = fed()
    app, playback = made(feed, is_file=True)
    async with running(app, size=(120, 24)) as pilot:
        playback.note = "a part is damaged"
        playback.revision += 1
        await pilot.tick(feed, 0.6)
        assert "a part is damaged" in app.query_one("#status", Bar).text
        await pilot.tick(feed, 9.0)
        assert "damaged" not in app.query_one("#status", Bar).text


async def test_the_pointer_goes_to_a_place() -> None:
    """A click goes there, a drag follows, and the last cell is the present."""
    feed = fed()
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        playback.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.tick(feed, 0.6)
        bar = app.query_one("#seek", SeekBar)
        first = bar.track.start
        last = bar.track.stop - 1
        await pilot.mouse_down(bar, offset=(first, 0))
        await pilot.hover(bar, offset=(first + 10, 0))
        await pilot.hover(bar, offset=(first + 10, 0))
        await pilot.mouse_up(bar, offset=(first + 10, 0))
        await pilot.hover(bar, offset=(first + 20, 0))
        wished = [wish[1] for wish in playback.wishes]
        drawn = Seek.from_playback(playback)
        assert wished == [START_NS, START_NS + 10 * drawn.scale_ns // (last - first)]
        await pilot.click(bar, offset=(last, 0))
        assert playback.mode is Mode.LIVE


async def test_at_asks_for_a_time_in_every_view() -> None:
    """@ belongs to the app, in every list.

    Textual would call a widget's method `key_at` if there were one.
    """
    feed = fed()
    app, _ = made(feed)
    async with running(app) as pilot:
        for entry in VIEWS:
            await pilot.press(entry.key)
            await pilot.tick(feed)
            assert not asks(app), entry.title
            await pilot.press("at")
            assert asks(app), entry.title
            await pilot.press("escape")
