"""Going back in time on the screen: the seek bar's words, the keys, and that nothing of another moment stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from support.deck import START_NS, FakeDeck
from support.feed import Feed, standalone, ultraservers
from textual.widgets import Input

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.rules import Rule
from trnfleet.monitor.alerting.alerts import Alerts, Counts
from trnfleet.monitor.alerting.desk import Desk
from trnfleet.monitor.findings import Severity
from trnfleet.monitor.replay.deck import Deck, Mode
from trnfleet.monitor.replay.timeline import Mark
from trnfleet.tui.alerts import PAST, RECORDED, AlertsView
from trnfleet.tui.app import FleetApp
from trnfleet.tui.bars import Bar, text_of, width_of
from trnfleet.tui.events import EventsView
from trnfleet.tui.help import HelpScreen, HelpText
from trnfleet.tui.hierarchy import HierarchyView
from trnfleet.tui.pastwords import past_banner
from trnfleet.tui.seekbar import SeekBar
from trnfleet.tui.seektrack import (
    HERE,
    KNOWN,
    NOT_YET,
    SIGNS,
    UNKNOWN,
    Seek,
    cell_of,
    marked_cells,
    time_at,
    track,
)
from trnfleet.tui.seekwords import back_text, rate_text, seek_line
from trnfleet.tui.timeinput import parse_time
from trnfleet.tui.timekeys import LEAD_S, default_name

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

MIN = 60 * NS_PER_S
HOUR = 60 * MIN
SIZES = [(80, 24), (120, 40), (240, 70)]
HOT = Rule.model_validate(
    {
        "name": "overheated", "scope": "chip", "severity": "critical", "figure": "temperature_c", "above": 90.0,
        "summary": "{worst} is at {value}",
    }
)  # fmt: skip  # a rule read as a row


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


def seek(**rest: Any) -> Seek:
    """Return the place 14:03:10 of a ten-minute window that ends at 14:08:21."""
    end_ns = START_NS + 14 * HOUR + 8 * MIN + 21 * NS_PER_S
    fields: dict[str, Any] = {
        "mode": Mode.PLAYING,
        "is_live_possible": True,
        "rate": 1.0,
        "reached_rate": 1.0,
        "loops": False,
        "seeking": False,
        "is_exact": True,
        "alerts_since_ns": None,
        "position_ns": end_ns - 311 * NS_PER_S,
        "start_ns": end_ns - 600 * NS_PER_S,
        "end_ns": end_ns,
        "surveyed_ns": end_ns,
    }
    return Seek(**(fields | rest))


def mark(at_ns: int, kind: Any, severity: Severity, text: str = "it is hot") -> Mark:
    return Mark(at_ns, kind, severity, text, "uc1/us-0001", "f")


class TestSeekLine:
    """The bar's words at widths."""

    @pytest.mark.parametrize("width", range(20, 260, 7))
    def test_it_fills_the_line_and_always_tells_the_time(self, width: int) -> None:
        """Whatever else goes, the time of the place stays, and nothing is cut."""
        worst = seek(rate=1000.0, reached_rate=312.0, loops=True, is_exact=False, alerts_since_ns=START_NS)
        for each in (seek(), worst, seek(mode=Mode.PAUSED, is_live_possible=False)):
            line = seek_line(each, width)
            text = text_of(line.parts)
            assert "14:03:10" in text
            if width >= 48:
                assert width_of(line.parts) == width
                assert text[line.track.start - 1] == "├"
                assert text[line.track.stop] == "┤"
                assert len(line.track) >= 8

    def test_eighty_columns(self) -> None:
        """Where one is, how far back and how fast fit a narrow screen, with a bar to look at."""
        line = seek_line(seek(), 80)
        text = text_of(line.parts)
        assert text.startswith(" ▶ playing x1 14:03:10 ")
        assert "5 min 11 s back" in text
        assert len(line.track) >= 24

    def test_a_wide_line_is_rich(self) -> None:
        """Date, both ends and what just happened are told where there is room."""
        each = seek()
        marks = [mark(each.position_ns - NS_PER_S, "alert", Severity.CRITICAL)]
        text = text_of(seek_line(each, 240, marks).parts)
        assert "2026-01-05 14:03:10" in text
        assert "13:58:21 ├" in text
        assert "┤ 14:08:21" in text
        assert "✖ uc1/us-0001: it is hot" in text

    def test_paused_differs_without_colour(self) -> None:
        """Sign and word say that it stands."""
        text = text_of(seek_line(seek(mode=Mode.PAUSED), 120).parts)
        assert text.startswith(" ‖ paused")

    def test_the_machine_that_cannot_keep_up(self) -> None:
        """Less than the chosen rate is told, in playing alone."""
        slow = {"rate": 1000.0, "reached_rate": 312.4}
        assert "x1000 (reaches x310)" in text_of(seek_line(seek(**slow), 160).parts)
        assert "reaches" not in text_of(seek_line(seek(**slow, mode=Mode.PAUSED), 160).parts)
        assert "reaches" not in text_of(seek_line(seek(rate=8.0, reached_rate=7.9), 160).parts)

    def test_alerts_that_are_not_exact_yet(self) -> None:
        """Since when they have been followed is said."""
        each = seek(is_exact=False, alerts_since_ns=START_NS + 14 * HOUR)
        assert "≈ alerts since 14:00" in text_of(seek_line(each, 160).parts)
        assert "≈" in text_of(seek_line(each, 60).parts)

    def test_a_file(self) -> None:
        """How far into it one is stands there instead of how far back."""
        assert back_text(seek(is_live_possible=False)) == "4:49 of 10:00"
        assert back_text(seek(position_ns=seek().end_ns)) == "now"

    def test_ends_on_other_days_have_their_date(self) -> None:
        """A recording of a night names both days."""
        text = text_of(seek_line(seek(start_ns=START_NS - HOUR), 200).parts)
        assert "01-04 23:00:00 ├" in text

    def test_wire_text_is_made_plain(self) -> None:
        """An alert's text cannot act on the terminal."""
        each = seek()
        nasty = mark(each.position_ns, "alert", Severity.CRITICAL, "\x1b]0;x\x07")
        assert "\x1b" not in text_of(seek_line(each, 240, [nasty]).parts)

    @pytest.mark.parametrize(("rate", "text"), [(0.125, "x1/8"), (0.5, "x1/2"), (1.0, "x1"), (250.0, "x250")])
    def test_rates(self, rate: float, text: str) -> None:
        """Slow motion is a fraction."""
        assert rate_text(rate) == text


class TestTrack:
    """The bar itself."""

    def test_cells_and_times_are_inverse(self) -> None:
        """A click goes to the time of the cell that is drawn there, the ends included."""
        each = seek(is_live_possible=False)
        for cells in (2, 30, 199):
            assert [cell_of(time_at(cell, each, cells), each, cells) for cell in range(cells)] == list(
                range(cells)
            )
            assert (time_at(0, each, cells), time_at(cells - 1, each, cells)) == (each.start_ns, each.end_ns)
            assert time_at(-5, each, cells) == each.start_ns
            assert time_at(cells + 5, each, cells) == each.end_ns

    def test_the_scale_of_a_present_that_goes_on_stands_for_a_while(self) -> None:
        """Marks stay in their cells for many seconds; what lies beyond the present is blank and means the present."""
        begin, marked_ns = seek().start_ns, seek().start_ns + 4 * MIN
        later = [seek(end_ns=begin + 10 * MIN + second * NS_PER_S) for second in range(1, 7)]
        assert len({cell_of(marked_ns, each, 199) for each in later}) == 1
        for each in later:
            last = cell_of(each.end_ns, each, 199)
            assert 184 <= last < 198
            assert time_at(last, each, 199) == time_at(198, each, 199) == each.end_ns
            assert [cell_of(time_at(cell, each, 199), each, 199) for cell in range(last)] == list(range(last))
            assert text_of(track(each, 199, {}))[last + 1 :] == (198 - last) * NOT_YET

    @pytest.mark.parametrize("span_s", [0, 1, 7, 15, 16, 17, 31, 32, 33, 599, 86_399])
    def test_the_scale_has_room_for_all(self, span_s: int) -> None:
        """It is never shorter than what there is, and hardly longer."""
        each = seek(end_ns=seek().start_ns + span_s * NS_PER_S)
        assert each.span_ns <= each.scale_ns <= each.span_ns * 17 // 16 + NS_PER_S

    def test_nothing_recorded_yet(self) -> None:
        """A tape without any length has its place at the begin."""
        each = seek(start_ns=seek().end_ns, position_ns=seek().end_ns)
        assert cell_of(each.end_ns, each, 40) == 0
        assert time_at(30, each, 40) == each.start_ns
        assert text_of(track(each, 5, {})).startswith(HERE)

    def test_what_has_not_been_looked_through_differs(self) -> None:
        """Beyond the surveyed part the bar has another shape."""
        begin = seek().start_ns
        each = seek(is_live_possible=False, position_ns=begin, surveyed_ns=begin + 5 * MIN)
        text = text_of(track(each, 41, {}))
        assert text == HERE + 20 * KNOWN + 20 * UNKNOWN
        assert UNKNOWN not in text_of(track(seek(surveyed_ns=seek().end_ns - NS_PER_S), 41, {}))

    def test_the_worst_of_a_cell_is_seen(self) -> None:
        """Alerts go before events, severe ones before others, and what resolved comes last but information."""
        each = seek()
        at_ns = each.start_ns + MIN
        kinds: list[tuple[Any, Severity, str]] = [
            ("alert", Severity.CRITICAL, "✖"),
            ("alert", Severity.WARNING, "▲"),
            ("event", Severity.CRITICAL, "!"),
            ("event", Severity.WARNING, "▵"),
            ("resolved", Severity.CRITICAL, "○"),
            ("alert", Severity.INFO, "•"),
        ]
        marks = [mark(at_ns, kind, severity) for kind, severity, _ in kinds]
        for number, (_, _, glyph) in enumerate(kinds):
            for order in (marks[number:], marks[number:][::-1]):
                assert {found[0] for found in marked_cells(order, each, 61).values()} == {glyph}
        assert list(marked_cells(marks, each, 61)) == [6]

    def test_marks_that_are_gone_are_not_drawn(self) -> None:
        """What lies before the begin is not pressed into the first cell."""
        each = seek()
        assert marked_cells([mark(each.start_ns - 1, "alert", Severity.CRITICAL)], each, 61) == {}


class TestBanner:
    """The line that says that it is the past."""

    def test_it_says_when_and_how_to_return(self) -> None:
        """In whole sentences where there is room; End and the time are told at any width."""
        text = text_of(past_banner(seek(), None, None, "the present is recorded", 120))
        assert (
            text.strip()
            == "◀ you are looking at 14:03:10, 5 min 11 s ago; the present is recorded; End returns"
        )
        for width in (30, 50, 80):
            parts = past_banner(seek(), None, None, "the present is recorded", width)
            assert width_of(parts) <= width
            assert "14:03:10" in text_of(parts)
            assert "End returns" in text_of(parts)

    def test_it_tells_of_the_present_where_that_changed(self) -> None:
        """New alerts of the present are counted; those that were there are no news."""
        before, now = Counts(0, 2, 0, 0, 0, 0, 0), Counts(1, 2, 0, 0, 0, 0, 0)
        assert "now firing: ✖ 1 ▲ 2" in text_of(past_banner(seek(), before, now, "", 80))
        assert "firing" not in text_of(past_banner(seek(), before, before, "", 80))
        assert "now nothing fires" in text_of(
            past_banner(seek(), before, Counts(0, 0, 0, 0, 0, 0, 0), "", 80)
        )


class TestParseTime:
    """Times as people type them."""

    START, END = START_NS + 23 * HOUR, START_NS + 26 * HOUR
    HERE = START_NS + 24 * HOUR + 30 * MIN

    @pytest.mark.parametrize(
        ("text", "after_start_s"),
        [
            ("23:30", 1_800),
            ("00:40:05", 6_005),
            ("1:59", 2 * 3_600 + 59 * 60),
            ("-5m", 5_400 - 300),
            ("- 5 min", 5_400 - 300),
            ("+30s", 5_430),
            ("-1h10m", 5_400 - 4_200),
            ("-9h", 0),
            ("+9h", 3 * 3_600),
            ("2026-01-06T00:00:30Z", 3_630),
            ("2026-01-06T01:00:30+01:00", 3_630),
            ("2026-01-06 00:00:30", 3_630),
        ],
    )
    def test_understood(self, text: str, after_start_s: float) -> None:
        """A time of day is the one that is there, on whichever side of midnight."""
        assert parse_time(text, self.HERE, self.START, self.END) == self.START + round(
            after_start_s * NS_PER_S
        )

    def test_the_day_of_the_place_goes_first(self) -> None:
        """Where a time of day is there twice, it is that of the day that one looks at."""
        start, end = START_NS, START_NS + 48 * HOUR
        assert parse_time("12:00", start + 25 * HOUR, start, end) == start + 36 * HOUR
        assert parse_time("12:00", start + 2 * HOUR, start, end) == start + 12 * HOUR

    def test_the_minute_that_has_begun(self) -> None:
        """The time of an end of the bar, as it is read there, can be gone to."""
        start = START_NS + 10 * HOUR + 30 * NS_PER_S + 400_000_000
        assert parse_time("10:00:30", start + MIN, start, start + HOUR) == start
        assert parse_time("10:00", start + MIN, start, start + HOUR) == start

    @pytest.mark.parametrize(
        "text", ["soon", "", "24:00", "12:60", "14:03:61", "-5x", "+", "2026-01-06", "2026-13-01T00:00:00Z"]
    )
    def test_not_understood(self, text: str) -> None:
        """The error says what is."""
        with pytest.raises(ValueError, match=r"14:03, 14:03:10, -5m|write the jump as -5m"):
            parse_time(text, self.HERE, self.START, self.END)

    @pytest.mark.parametrize("text", ["14:03", "2026-01-07T00:00:00Z"])
    def test_not_there(self, text: str) -> None:
        """The error says from when to when there is something."""
        with pytest.raises(
            ValueError, match=r"is not there; it goes from 2026-01-05 23:00:00 to 2026-01-06 02:00:00 UTC"
        ):
            parse_time(text, self.HERE, self.START, self.END)


def test_what_the_machine_manages_does_not_move_the_bar() -> None:
    """The bar has the same cells whatever it is, and less than once is told as it is."""
    lines = [seek_line(seek(rate=64.0, reached_rate=rate), 120) for rate in (24.3, 9.5, 0.7, 1.0, 31.6)]
    assert len({line.track for line in lines}) == 1
    assert "(reaches x0.7)" in text_of(lines[2].parts)


def test_a_fleet_s_name_becomes_a_file_s() -> None:
    """What a file system may not like is left out."""
    assert default_name("prod/../x y", START_NS) == "trnfleet-prod-..-x-y-20260105T000000Z.mcap"


# The app


def fed(
    instances: list[tuple[str, str]] | None = None, *, util: float = 40.0, hot: int | None = None
) -> Feed:
    """Return a fleet on which every chip is as busy as said."""
    feed = Feed(ultraservers(2) if instances is None else instances)
    feed.monitor.ingest.alerts = Alerts("demo", (HOT,))
    feed.scatter()
    feed.set("nc_util_pct", util)
    feed.set("temperature_c", 50.0)
    if hot is not None:
        feed.set("temperature_c", 95.0, [hot])
    feed.describe()
    feed.tick()
    return feed


async def burning(chip: int) -> Feed:
    """Return a fleet of which a chip's alert fires."""
    feed = fed(hot=chip)
    await burn(feed, chip)
    return feed


async def burn(feed: Feed, chip: int) -> None:
    """Let a chip get too hot, and its alert fire."""
    feed.set("temperature_c", 95.0, [chip])
    await feed.clock.advance(1.0)
    feed.tick()


def made(feed: Feed, *, is_file: bool = False, **rest: Any) -> tuple[FleetApp, FakeDeck]:
    deck = FakeDeck(feed.monitor, is_file=is_file)
    return FleetApp(deck.shown, clock=feed.clock, deck=cast("Deck", deck), **rest), deck


def text(app: FleetApp) -> str:
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line)[:width] for line in lines[:height])


async def tick(app: FleetApp, pilot: Pilot[None], feed: Feed, seconds: float = 0.6) -> None:
    """Let time pass for the present, and the app paint."""
    await feed.clock.advance(seconds)
    app._tick()
    await pilot.pause()


@pytest.mark.parametrize(
    ("key", "wishes"),
    [
        ("left_square_bracket", [("step", -10)]),
        ("right_square_bracket", [("step", 10)]),
        ("left_curly_bracket", [("step", -60)]),
        ("right_curly_bracket", [("step", 60)]),
        ("comma", [("pause",), ("step", -1)]),
        ("full_stop", [("pause",), ("step", 1)]),
        ("space", [("toggle",)]),
        ("less_than_sign", [("slower",)]),
        ("greater_than_sign", [("faster",)]),
        ("left_parenthesis", [("mark", ("alert",), -1)]),
        ("right_parenthesis", [("mark", ("alert",), 1)]),
        ("ctrl+left", [("mark", ("alert", "resolved", "event"), -1)]),
        ("ctrl+right", [("mark", ("alert", "resolved", "event"), 1)]),
        ("end", [("end",)]),
        ("ctrl+home", [("start",)]),
        ("L", [("loop",)]),
    ],
)
@pytest.mark.parametrize("view", ["1", "2", "4", "7", "8", "9"])
async def test_keys_wish_of_the_deck_in_every_view(
    key: str, wishes: list[tuple[object, ...]], view: str
) -> None:
    """No view keeps a key of time for itself."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(view)
        deck.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press(key)
        assert deck.wishes == wishes


async def test_the_bar_is_there_in_the_past_alone() -> None:
    """In the present the status line says how much is kept; back in time the bar and the banner appear at once."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await tick(app, pilot, feed)
        assert "kept 10 min" in app.query_one("#status", Bar).text
        assert "├" not in text(app)
        await pilot.press("left_curly_bracket")
        shown = text(app)
        assert "00:09:00" in app.query_one("#seek", SeekBar).text
        assert "1 min 00 s back" in shown
        assert "you are looking at 00:09:00, 1 min 00 s ago; the present is recorded; End returns" in shown
        await pilot.press("end")
        assert deck.mode is Mode.LIVE
        assert "├" not in text(app)
        assert "you are looking at" not in text(app)


async def test_a_problem_of_the_recording_is_told() -> None:
    """That nothing more is kept, and why, stands in the status line at any width."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        deck.recording_problem, deck.is_recording = "No space left on device", False
        await tick(app, pilot, feed)
        assert "not recording: No space left on device" in app.query_one("#status", Bar).text


async def test_a_file_has_its_bar_and_no_banner() -> None:
    """There is no present to return to, so nothing says so."""
    feed = fed()
    app, deck = made(feed, is_file=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await tick(app, pilot, feed)
        assert "0:00 of 10:00" in text(app)
        assert "you are looking" not in text(app)
        await pilot.press("W")
        assert "a recording already" in app.query_one("#status", Bar).text
        await pilot.press("end")
        assert deck.wishes == [("end",)]
        await pilot.press("2", "end")
        assert deck.wishes == [("end",)], "at a file's end, End is the list's"
        assert isinstance(app.page, HierarchyView)
        assert app.page.table.row == app.page.table.index.rows - 1


async def test_end_is_the_lists_in_the_present() -> None:
    """It goes to the last row, and wishes nothing."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "end")
        assert isinstance(app.page, HierarchyView)
        assert app.page.table.row == app.page.table.index.rows - 1
        assert not deck.wishes


async def test_keys_of_time_are_letters_in_a_filter() -> None:
    """What is typed is typed, and End goes to the end of the line."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        deck.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press("2", "slash", *"[L", "space", "home", "end", *",")
        assert isinstance(app.page, HierarchyView)
        assert app.page.prompt.value == "[L ,"
        assert not deck.wishes


@pytest.mark.parametrize(
    "key",
    [
        "left_square_bracket",
        "comma",
        "space",
        "less_than_sign",
        "left_parenthesis",
        "ctrl+left",
        "at",
        "L",
        "W",
    ],
)
async def test_without_a_deck_the_keys_say_so(key: str) -> None:
    """Whoever was told of these keys learns why they do nothing here."""
    feed = fed()
    app = FleetApp(feed.monitor, clock=feed.clock)
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press(key)
        assert "nothing is recorded here (--past 0)" in app.query_one("#status", Bar).text
        assert not asks(app)


async def test_without_a_deck_the_help_has_no_time() -> None:
    """Neither its keys nor its signs, and End stays with the lists."""
    feed = fed()
    app = FleetApp(feed.monitor, clock=feed.clock)
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press("end")
        assert "nothing is recorded" not in app.query_one("#status", Bar).text
        await pilot.press("question_mark")
        titles = [section.title for section in app.screen.query_one(HelpText)._sections]
        assert isinstance(app.screen, HelpScreen)
        assert "Time" not in titles
        assert "On the time bar" not in titles


async def test_the_help_says_where_it_is_cut() -> None:
    """No column runs into the next, and what has no room ends in an ellipsis."""
    feed = fed()
    app, _ = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("question_mark")
        shown = app.screen.query_one(HelpText)
        lines = [line.make().text for line in shown.lines(0, 60, 104)]
        long = next(line for line in lines if "The reservation that holds what" in line)
        assert "…" in long
        assert all(line[51] == " " for line in lines)


async def test_a_note_ends_with_the_next_wish() -> None:
    """An answer that was not understood is not held against the one that was."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        deck.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press("at", *"99:00", "enter")
        assert "no time of day" in app.query_one("#status", Bar).text
        await pilot.press(*["backspace"] * 5, *"-30s", "enter")
        assert "no time of day" not in app.query_one("#status", Bar).text
        assert "Space" in app.query_one("#status", Bar).text


async def test_a_replay_says_that_it_is_one() -> None:
    """What a broker carries of the past is not taken for the present; a live fleet is not called so."""
    for is_replay in (False, True):
        feed = Feed(standalone(1))
        feed.replay = is_replay
        feed.describe()
        feed.tick()
        app = FleetApp(feed.monitor, clock=feed.clock)
        async with app.run_test(size=(80, 24)):
            assert ("a replay" in app.query_one("#header", Bar).text) is is_replay


async def test_the_help_has_a_section_of_time() -> None:
    """Every key of time stands there once, as it is on a keyboard; those of everywhere stay apart."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(200, 70)) as pilot:
        deck.show(feed.monitor, START_NS + 5 * MIN)
        await pilot.press("question_mark")
        titles = {section.title: section.keys for section in app.screen.query_one(HelpText)._sections}
        assert list(titles)[1:3] == ["Everywhere", "Time"]
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
        assert not deck.wishes, "under the help, End is the help's"


def asks(app: FleetApp) -> bool:
    return app.ask_line.is_open


async def test_asking_for_a_time() -> None:
    """It is gone to; what is not understood is said, and the line stays open."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("at", *"noon", "enter")
        assert "'noon' is no time; write it as 14:03" in app.query_one("#status", Bar).text
        assert asks(app)
        await pilot.press(*["backspace"] * 4, *"00:04", "enter")
        assert deck.wishes == [("seek", START_NS + 4 * MIN)]
        assert not asks(app)
        assert not isinstance(app.focused, Input)
        await pilot.press("at", "escape", "left_square_bracket")
        assert deck.wishes[-1] == ("step", -10)


async def test_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is proposed; nothing is overwritten, and what came of it is said."""
    monkeypatch.chdir(tmp_path)
    feed = fed()
    app, deck = made(feed)
    proposed = tmp_path / "trnfleet-demo-20260105T001000Z.mcap"
    proposed.touch()
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("W", "enter")
        assert "is there already, and nothing is overwritten" in app.query_one("#status", Bar).text
        assert not deck.wishes
        await pilot.press(*["backspace"] * 5, *"-b.mcap", "enter")
        await pilot.pause()
        assert deck.wishes == [("save", "trnfleet-demo-20260105T001000Z-b.mcap")]
        assert "saved 12 messages" in app.query_one("#status", Bar).text


async def test_nothing_earlier_is_said() -> None:
    """The deck's word on a wish stands in the status line for a while."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        deck.show(feed.monitor, START_NS)
        await pilot.press("left_square_bracket")
        assert "nothing earlier is kept" in app.query_one("#status", Bar).text
        await tick(app, pilot, feed, 9.0)
        assert "nothing earlier" not in app.query_one("#status", Bar).text


async def test_no_further_alert_is_said() -> None:
    """That a file is still being looked through is no less than the truth."""
    feed = fed()
    app, deck = made(feed, is_file=True)
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("left_parenthesis")
        assert app.query_one("#status", Bar).text == " • no earlier alert is known"
        await pilot.press("ctrl+right")
        assert app.query_one("#status", Bar).text == " • no later mark is known"
        deck.surveyed_ns = START_NS + MIN
        await pilot.press("right_parenthesis")
        assert "no later alert is known so far" in app.query_one("#status", Bar).text


async def test_what_the_deck_says_by_itself() -> None:
    """It is told once, and not for ever."""
    feed = fed()
    app, deck = made(feed, is_file=True)
    async with app.run_test(size=(120, 24)) as pilot:
        deck.note = "a part is damaged"
        deck.revision += 1
        await tick(app, pilot, feed)
        assert "a part is damaged" in app.query_one("#status", Bar).text
        await tick(app, pilot, feed, 9.0)
        assert "damaged" not in app.query_one("#status", Bar).text


async def test_the_pointer_goes_to_a_place() -> None:
    """A click goes there, a drag follows, and the last cell is the present."""
    feed = fed()
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        deck.show(feed.monitor, START_NS + 5 * MIN)
        await tick(app, pilot, feed)
        bar = app.query_one("#seek", SeekBar)
        first, last = bar._track.start, bar._track.stop - 1
        await pilot.mouse_down(bar, offset=(first, 0))
        await pilot.hover(bar, offset=(first + 10, 0))
        await pilot.hover(bar, offset=(first + 10, 0))
        await pilot.mouse_up(bar, offset=(first + 10, 0))
        await pilot.hover(bar, offset=(first + 20, 0))
        wished = [wish[1] for wish in deck.wishes]
        drawn = Seek.of(cast("Deck", deck))
        assert wished == [START_NS, START_NS + 10 * drawn.scale_ns // (last - first)]
        await pilot.click(bar, offset=(last, 0))
        assert deck.mode is Mode.LIVE


# Another monitor under the app


@pytest.mark.parametrize(("size", "count"), [*((size, 2) for size in SIZES), (SIZES[1], 5)])
@pytest.mark.parametrize("view", ["1", "2", "4", "8", "9"])
async def test_nothing_of_another_moment_stays(size: tuple[int, int], count: int, view: str) -> None:
    """What is on the screen after an exchange is what an app shows that never knew the other monitor."""
    feed, then = await burning(3), fed(ultraservers(count), util=75.0)
    feed.monitor.apply([feed.event("uc1/us-0001", "the present", severity="warning")])
    then.monitor.apply([then.event("uc1/us-0001", "the past", severity="warning")])
    fresh, _ = made(then, is_file=True)
    async with fresh.run_test(size=size) as pilot:
        await pilot.press(view)
        await tick(fresh, pilot, then, 0.0)
        fresh.alert_board.renew()
        await tick(fresh, pilot, then, 0.0)
        wanted = text(fresh)
    app, deck = made(feed, is_file=True)
    async with app.run_test(size=size) as pilot:
        await pilot.press(view)
        await tick(app, pilot, feed)
        assert text(app) != wanted
        deck.show(then.monitor, deck.start_ns)
        app._tick()
        await pilot.pause()
        app._tick()
        await pilot.pause()
        assert text(app).splitlines() == wanted.splitlines()


@pytest.mark.parametrize("view", ["1", "2", "4", "7", "8", "9"])
async def test_a_fleet_of_another_shape(view: str) -> None:
    """A moment before half of the fleet was there is shown, and the keys work at once; so does the way back."""
    feed, then = fed(ultraservers(3) + standalone(3)), fed(ultraservers(1))
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(view, "end", "down", "s")
        for monitor in (then.monitor, feed.monitor, then.monitor):
            deck.show(monitor, START_NS + MIN)
            await pilot.press("down", "right", "up", "s", "left")
            app._tick()
            await pilot.pause()
            chips = monitor.store.layout.chips
            assert f"{chips} chips" in app.query_one("#header", Bar).text
        await pilot.press("end")
        app._tick()
        assert "240 chips" in app.query_one("#header", Bar).text


async def test_the_cursor_stays_where_it_is() -> None:
    """Place, order and filter outlive an exchange, even through a moment that has nothing of them."""
    feed, then = fed(ultraservers(3)), fed(ultraservers(1))
    app, deck = made(feed)
    address = "uc1/us-0003/trn2u-0003-1"
    async with app.run_test(size=(120, 40)) as pilot:
        app.go(address, "Hierarchy")
        await pilot.pause()
        page = app.page
        assert isinstance(page, HierarchyView)
        page.table.sort_by("nc_util_pct")
        deck.show(then.monitor, START_NS + MIN)
        await tick(app, pilot, feed)
        await pilot.press("end")
        await tick(app, pilot, feed)
        assert (page.place, page.table.sorting.key) == (address, "nc_util_pct")
        assert page.table.index.at(page.table.row) == page.table.index.at(page.table.index.nearest(address))


async def test_the_cursor_stays_on_its_event() -> None:
    """Other numbers for the same events do not move it; before it happened, it is on what happened before."""
    feed = fed()
    told = [("first", 1), ("second", 2), ("third", 3), ("fourth", 4)]
    stamps = {
        "first": "2026-01-05T00:00:01Z",
        "second": "2026-01-05T00:00:02Z",
        "third": "2026-01-05T00:00:03Z",
        "fourth": "2026-01-05T00:00:04Z",
    }

    def tell(other: Feed, names: list[str]) -> None:
        other.monitor.apply([other.event("uc1/us-0001", name, ts=stamps[name]) for name in names])

    later, earlier = fed(), fed()
    tell(feed, [name for name, _ in told])
    tell(later, ["second", "third", "fourth"])
    tell(earlier, ["first", "second"])
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("9", "down")
        assert isinstance(app.page, EventsView)
        chosen = app.page.list
        assert chosen.event is not None
        assert chosen.event.text == "third"
        for monitor, wanted in (
            (later.monitor, "third"),
            (earlier.monitor, "second"),
            (feed.monitor, "third"),
        ):
            deck.show(monitor, START_NS + MIN)
            await tick(app, pilot, feed)
            assert chosen.event is not None
            assert chosen.event.text == wanted


async def test_ages_stand_while_the_past_does() -> None:
    """Ages go by the clock of what is shown, not by the real one."""
    feed, then = fed(), fed()
    then.monitor.apply(then.telemetry())
    await then.clock.advance(40.0)
    then.monitor.compute()
    app, deck = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        deck.show(then.monitor, START_NS + MIN, Mode.PAUSED)
        await tick(app, pilot, feed)
        assert "stale 40 s" in text(app)
        await tick(app, pilot, feed, 30.0)
        assert "stale 40 s" in text(app)


# Alerts


async def test_the_past_is_not_written_to() -> None:
    """Acknowledging and silencing say why not; in the present they open their forms."""
    feed = await burning(3)
    desk = Desk("demo", publisher=None, owner="ann")
    for is_file, words in ((False, PAST), (True, RECORDED)):
        app, deck = made(feed, is_file=is_file, desk=desk)
        async with app.run_test(size=(120, 40)) as pilot:
            deck.show(feed.monitor, START_NS + MIN)
            await pilot.press("8")
            for key in ("a", "z", "x"):
                await pilot.press(key)
                assert isinstance(app.page, AlertsView)
                assert app.page.note == words
                assert not app.page.ack_form.is_open
                app.page.note = ""


async def test_the_bell_is_the_present_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alert of the past does not ring, one of the present does while one looks at the past, and only once."""
    feed, then = fed(), await burning(5)
    app, deck = made(feed, bell=True)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    async with app.run_test(size=(120, 40)) as pilot:
        await tick(app, pilot, feed)
        deck.show(then.monitor, START_NS + MIN)
        await tick(app, pilot, feed)
        assert "1 critical" in app.query_one("#header", Bar).text
        assert not rung
        await burn(feed, 3)
        await tick(app, pilot, feed)
        assert rung == [1]
        assert "now firing: ✖ 1" in app.query_one("#past", Bar).text
        await pilot.press("end")
        await tick(app, pilot, feed, 15.0)
        assert rung == [1]


async def test_a_file_does_not_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fires in a recording fired long ago."""
    feed = fed()
    app, _ = made(feed, is_file=True, bell=True)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    async with app.run_test(size=(120, 40)) as pilot:
        await tick(app, pilot, feed)
        await burn(feed, 3)
        await tick(app, pilot, feed)
        assert "1 critical" in app.query_one("#header", Bar).text
        assert "overheated" in app.query_one("#crumbs", Bar).text, "that it fires now is told all the same"
        assert not rung


async def test_from_an_alert_to_its_moment() -> None:
    """`o` goes to a little before it fired, from the list and from the history, and plays."""
    feed = await burning(3)
    app, deck = made(feed)
    fired_ns = next(iter(feed.monitor.alerts.active())).fired_ns
    assert fired_ns is not None
    lead_ns = round(LEAD_S * NS_PER_S)
    async with app.run_test(size=(120, 40)) as pilot:
        await tick(app, pilot, feed)
        await pilot.press("8", "o")
        assert "that moment is not kept" in app.query_one("#status", Bar).text
        deck.moments[fired_ns] = START_NS + 5 * MIN
        await pilot.press("o")
        assert deck.wishes == [("seek", START_NS + 5 * MIN - lead_ns)]
        await pilot.press("space", "T", "o")
        assert deck.wishes[-2:] == [("seek", START_NS + 5 * MIN - lead_ns), ("play",)]


async def test_the_cursor_waits_for_its_alert() -> None:
    """A little before it fires it is not there; when it is, the cursor is on it, unless somebody has moved it."""
    feed, before, other = await burning(3), fed(), await burning(40)
    fired_ns = next(iter(feed.monitor.alerts.active())).fired_ns
    assert fired_ns is not None
    app, deck = made(feed)
    deck.moments[fired_ns] = START_NS + 5 * MIN
    async with app.run_test(size=(120, 40)) as pilot:
        await tick(app, pilot, feed)
        await pilot.press("8")
        page = app.page
        assert isinstance(page, AlertsView)
        wanted = page.place
        await pilot.press("o")
        for monitor in (before.monitor, other.monitor):
            deck.show(monitor, START_NS + 5 * MIN)
            await tick(app, pilot, feed)
            assert page.place != wanted
        await burn(other, 3)
        await tick(app, pilot, feed)
        assert len(page.list.rows) == 2
        assert page.place == wanted
        deck.show(before.monitor, START_NS + 5 * MIN)
        await tick(app, pilot, feed)
        deck.show(other.monitor, START_NS + 6 * MIN)
        await tick(app, pilot, feed)
        assert page.place == wanted


async def test_from_an_event_to_its_moment() -> None:
    """`o` goes to a little before it, and never before the begin."""
    feed = fed()
    feed.monitor.apply([feed.event("uc1/us-0001", "it broke")])
    app, deck = made(feed)
    deck.moments[feed.clock.wall_ns()] = START_NS + NS_PER_S
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("9", "o")
        assert deck.wishes == [("seek", START_NS)]


async def test_without_a_deck_o_says_so() -> None:
    """Nothing is recorded, so there is nowhere to go."""
    feed = fed()
    feed.monitor.apply([feed.event("uc1/us-0001", "it broke")])
    app = FleetApp(feed.monitor, clock=feed.clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("9", "o")
        assert "nothing is recorded here" in app.query_one("#status", Bar).text
