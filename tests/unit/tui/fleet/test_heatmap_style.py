from __future__ import annotations

import numpy as np
import pytest

from trnfleet.domain.quantities import in_three
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_pixels import (
    CODES,
    PixelCode,
)
from trnfleet.tui.fleet.heatmap_style import Ink, bracket
from trnfleet.tui.theme import BASE


def cell(upper: int, lower: int | None = None) -> int:
    return upper * CODES + (upper if lower is None else lower)


def test_two_live_pixels_share_a_cell() -> None:
    """The upper one is the glyph's colour, the lower one the background's."""
    glyph, style = Ink().look(cell(7, 2))
    assert (glyph, style.color, style.bgcolor) == ("▀", theme.RAMPS[""][7], theme.RAMPS[""][2])
    assert Ink().look(cell(3))[1].bgcolor == theme.RAMPS[""][3]


@pytest.mark.parametrize("digits", [False, True])
def test_states_differ_in_glyph(*, digits: bool) -> None:
    """Stale, partly silent, offline and missing pixels differ without colour."""
    ink = Ink(digits=digits)
    glyphs = [
        ink.look(cell(code))[0]
        for code in (PixelCode.PARTLY, PixelCode.STALE, PixelCode.OFFLINE, PixelCode.MISSING)
    ]
    assert glyphs == ["▓", "░", "✖", "·"]
    assert ink.look(cell(PixelCode.GAP))[0] == " "


def test_a_silent_pixel_marks_a_cell_that_it_shares() -> None:
    """A silent pixel marks its shared cell: offline before stale before partly silent."""
    ink = Ink()
    assert (
        ink.look(cell(7, PixelCode.OFFLINE))[0]
        == ink.look(cell(PixelCode.OFFLINE, PixelCode.STALE))[0]
        == "✖"
    )
    assert (
        ink.look(cell(7, PixelCode.STALE + 3))[0]
        == ink.look(cell(PixelCode.STALE, PixelCode.PARTLY))[0]
        == "░"
    )
    assert ink.look(cell(PixelCode.PARTLY, 7))[0] == "▓"
    assert ink.look(cell(7, PixelCode.STALE + 3))[1].bgcolor == theme.RAMPS[""][7]


def test_every_cell_has_a_look() -> None:
    """No pair of codes is without glyph and style."""
    for digits in (False, True):
        ink = Ink(digits=digits)
        for pair in range(CODES * CODES):
            glyph, style = ink.look(pair)
            assert len(glyph) == 1
            assert style is not None


def test_runs_and_texts_fill_a_row() -> None:
    """Equal cells are one segment, texts lie over them and are cut at both ends."""
    cells = np.array([cell(1)] * 4 + [bracket("[")] + [cell(2)] * 5, np.int16)
    plain_row = Ink().segments(cells, [])
    assert [segment.text for segment in plain_row] == ["    ", "[", "     "]
    assert plain_row[1].style == theme.MAP_CURSOR
    row = Ink().segments(cells, [(-2, "abc", BASE), (3, "de", BASE), (8, "fghi", BASE)])
    assert "".join(segment.text for segment in row) == "c  de   fg"


def test_values_in_three_characters() -> None:
    """A value fits a chip's block."""
    for value, unit, text in (
        (87.4, "%", "87"),
        (412.0, "W", "412"),
        (240e9, "bytes/s", "240G"),
        (61.6, "degC", "62"),
        (0.53, "TFLOP/s/W", ".53"),
        (1.04, "TFLOP/s/W", "1.0"),
        (12.0, "events", "12"),
        (1_234.0, "events", "1.2k"),
        (70 * 2**30, "bytes", "70G"),
        (float("nan"), "%", ""),
    ):
        assert in_three(value, unit) == text
        assert len(text) <= 4
