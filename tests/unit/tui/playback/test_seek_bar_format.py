from __future__ import annotations

from typing import Any

import pytest
from support.tui.fake_playback import START_NS
from support.tui.past_app import HOUR, MIN, seek

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Names
from trnfleet.domain.severity import Severity
from trnfleet.monitor.replay.controls import Mode
from trnfleet.monitor.replay.marks import Mark
from trnfleet.tui.playback.seek_bar import (
    HERE,
    KNOWN,
    NOT_YET,
    UNKNOWN,
    back_text,
    cell_of,
    marked_cells,
    rate_text,
    seek_line,
    time_at,
    track,
)
from trnfleet.tui.widgets.cells import text_of, width_of


def mark(at_ns: int, kind: Any, severity: Severity, text: str = "it is hot") -> Mark:
    return Mark(at_ns, kind, severity, text, "uc1/us-0001", "f")


class TestSeekLine:
    """The line at every width."""

    @pytest.mark.parametrize("width", range(20, 260, 7))
    def test_it_fills_the_line_and_always_tells_the_time(self, width: int) -> None:
        """The time of the position stays at every width, and nothing is cut."""
        worst = seek(rate=1000.0, reached_rate=312.0, loops=True, incomplete="since 00:00")
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
        """80 columns show position, distance back, rate and a usable bar."""
        line = seek_line(seek(), 80)
        text = text_of(line.parts)
        assert text.startswith(" ▶ playing x1 14:03:10 ")
        assert "5 min 11 s back" in text
        assert len(line.track) >= 24

    def test_eighty_columns_tell_that_alerts_are_approximate(self) -> None:
        """80 columns mark approximate alerts.

        Loop, thinning and reached rate are shortened before they are dropped.
        """
        worst = seek(rate=60.0, reached_rate=22.0, loops=True, incomplete="since 00:00", one_in=4)
        text = text_of(seek_line(worst, 80).parts)
        for part in ("x60 (x22)", "thinned 1/4", "≈", "↻"):
            assert part in text

    def test_the_end_of_a_file_is_told(self) -> None:
        """A recording that grows has none."""
        at_end = seek(mode=Mode.PAUSED, is_live_possible=False)
        at_end = at_end._replace(position_ns=at_end.end_ns)
        assert text_of(seek_line(at_end, 80).parts).startswith(" ‖ at end  x1 ")
        assert " paused " in text_of(seek_line(at_end._replace(is_live_possible=True), 80).parts)

    def test_a_wide_line_is_rich(self) -> None:
        """A wide line shows the date, both ends and the last mark."""
        each = seek()
        marks = [mark(each.position_ns - NS_PER_S, "alert", Severity.CRITICAL)]
        text = text_of(seek_line(each, 240, marks).parts)
        assert "2026-01-05 14:03:10" in text
        assert "13:58:21 ├" in text
        assert "┤ 14:08:21" in text
        assert "✖ uc1/us-0001: it is hot" in text

    def test_a_mark_has_the_display_name_of_its_instance(self) -> None:
        marks = [mark(seek().position_ns, "alert", Severity.CRITICAL)]
        place = marks[0].target + "/i-0123"
        names = Names({place: "rack7.node2"}, {}, {})
        line = seek_line(seek(), 240, [marks[0]._replace(target=place)], names)
        assert "✖ us-0001/rack7.node2: it is hot" in text_of(line.parts)

    @pytest.mark.parametrize(
        ("state", "width", "words"),
        [
            pytest.param({"mode": Mode.PAUSED}, 120, " ‖ paused", id="paused without colour"),
            pytest.param(
                {"rate": 1000.0, "reached_rate": 312.4},
                160,
                "x1000 (reaches x310)",
                id="a machine that cannot keep up",
            ),
            pytest.param(
                {"incomplete": "since 14:00"}, 160, "≈ alerts since 14:00", id="not exact yet"
            ),
            pytest.param({"incomplete": "since 14:00"}, 60, "≈", id="not exact, in short"),
            pytest.param({"incomplete": "loading"}, 160, "≈ loading", id="not loaded yet"),
            pytest.param(
                {"start_ns": START_NS - HOUR}, 200, "01-04 23:00:00 ├", id="the date of another day"
            ),
            pytest.param({"one_in": 4}, 120, "thinned: 1 of 4 messages", id="a thinned past"),
        ],
    )
    def test_what_it_says(self, state: dict[str, Any], width: int, words: str) -> None:
        assert words in text_of(seek_line(seek(**state), width).parts)

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            pytest.param(
                {"rate": 1000.0, "reached_rate": 312.4, "mode": Mode.PAUSED},
                "reaches",
                id="a lower rate while paused",
            ),
            pytest.param({"rate": 8.0, "reached_rate": 7.9}, "reaches", id="nearly the rate"),
            pytest.param({}, "1 of", id="a full recording"),
        ],
    )
    def test_what_it_does_not_say(self, state: dict[str, Any], words: str) -> None:
        assert words not in text_of(seek_line(seek(**state), 200).parts)

    def test_a_file(self) -> None:
        """How far into it one is stands there instead of how far back."""
        assert back_text(seek(is_live_possible=False)) == "4:49 of 10:00"
        assert back_text(seek(position_ns=seek().end_ns)) == "now"

    def test_wire_text_is_made_plain(self) -> None:
        """An alert's text cannot act on the terminal."""
        each = seek()
        nasty = mark(each.position_ns, "alert", Severity.CRITICAL, "\x1b]0;x\x07")
        assert "\x1b" not in text_of(seek_line(each, 240, [nasty]).parts)

    @pytest.mark.parametrize(
        ("rate", "text"), [(0.125, "x1/8"), (0.5, "x1/2"), (1.0, "x1"), (250.0, "x250")]
    )
    def test_rates(self, rate: float, text: str) -> None:
        """Slow motion is a fraction."""
        assert rate_text(rate) == text


class TestTrack:
    """The bar itself."""

    def test_cells_and_times_are_inverse(self) -> None:
        """A click seeks to the time of the drawn cell, ends included."""
        each = seek(is_live_possible=False)
        for cells in (2, 30, 199):
            assert [
                cell_of(time_at(cell, each, cells), each, cells) for cell in range(cells)
            ] == list(range(cells))
            assert (time_at(0, each, cells), time_at(cells - 1, each, cells)) == (
                each.start_ns,
                each.end_ns,
            )
            assert time_at(-5, each, cells) == each.start_ns
            assert time_at(cells + 5, each, cells) == each.end_ns

    def test_the_scale_of_a_present_that_goes_on_stands_for_a_while(self) -> None:
        """Marks stay in their cells for many seconds.

        Cells beyond the present are blank and seek to the present.
        """
        begin = seek().start_ns
        marked_ns = seek().start_ns + 4 * MIN
        later = [seek(end_ns=begin + 10 * MIN + second * NS_PER_S) for second in range(1, 7)]
        assert len({cell_of(marked_ns, each, 199) for each in later}) == 1
        for each in later:
            last = cell_of(each.end_ns, each, 199)
            assert 184 <= last < 198
            assert time_at(last, each, 199) == time_at(198, each, 199) == each.end_ns
            assert [cell_of(time_at(cell, each, 199), each, 199) for cell in range(last)] == list(
                range(last)
            )
            assert text_of(track(each, 199, {}))[last + 1 :] == (198 - last) * NOT_YET

    @pytest.mark.parametrize("span_s", [0, 1, 7, 15, 16, 17, 31, 32, 33, 599, 86_399])
    def test_the_scale_has_room_for_all(self, span_s: int) -> None:
        """The scale is never shorter than the recording, and hardly longer."""
        each = seek(end_ns=seek().start_ns + span_s * NS_PER_S)
        assert each.span_ns <= each.scale_ns <= each.span_ns * 17 // 16 + NS_PER_S

    def test_nothing_recorded_yet(self) -> None:
        """A recording without any length has its place at the begin."""
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
        """Alerts precede events, and severe marks others.

        Resolved ones come last but for info.
        """
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
        """Marks before the begin are not drawn in the first cell."""
        each = seek()
        assert marked_cells([mark(each.start_ns - 1, "alert", Severity.CRITICAL)], each, 61) == {}


def test_what_the_machine_manages_does_not_move_the_bar() -> None:
    """The bar has the same cells at any reached rate.

    A rate below 1 is shown as it is.
    """
    lines = [
        seek_line(seek(rate=64.0, reached_rate=rate), 120) for rate in (24.3, 9.5, 0.7, 1.0, 31.6)
    ]
    assert len({line.track for line in lines}) == 1
    assert "(reaches x0.7)" in text_of(lines[2].parts)


def test_the_bar_says_where_the_past_was_thinned() -> None:
    """On a narrow screen thinning is shown in short."""
    short = seek_line(seek(one_in=4), 40)
    assert "thinned 1/4" in text_of(short.parts)
    assert width_of(short.parts) == 40


def test_the_bar_says_how_far_charts_reach_beyond_it() -> None:
    """History beyond the bar is shown if there is room.

    The meaning of the bar's cells stays.
    """
    line = seek_line(seek(kept_s=2 * 86_400), 200)
    assert "◂ charts 2 d 0 h" in text_of(line.parts)
    assert width_of(line.parts) == 200
    assert text_of(line.parts)[line.track.start - 1] == "├"
    for each, width in ((seek(kept_s=2 * 86_400), 80), (seek(kept_s=300), 200), (seek(), 200)):
        assert "charts" not in text_of(seek_line(each, width).parts)
