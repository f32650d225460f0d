"""Looks of pixel codes: glyph and style of a cell that shows two pixels, in colours or without.

A silent or missing pixel differs in glyph, never in colour alone. Without enough colours a cell shows one pixel, by the
digit of its step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_pixels import (
    CODES,
    CURSOR_CODE,
    GAP_CODE,
    MISSING_CODE,
    OFFLINE_CODE,
    OUTSIDE_CODE,
    PARTLY_CODE,
    STALE_CODE,
)
from trnfleet.tui.theme import RAMP, RAMP_STEPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Span = tuple[int, str, Style]

CURSOR_STYLE = Style(color=theme.BACKGROUND, bgcolor=theme.BRIGHT, bold=True)
"""White is not on the ramp, so the cursor stands out everywhere."""
BRACKETS = "[]┌┐└┘│"
_MOST_RUNS = 20_000
PAIRS = CODES * CODES
"""Codes from here on are brackets."""

STALE_GLYPH, PARTLY_GLYPH, OFFLINE_GLYPH, MISSING_GLYPH = "░", "▓", "✖", "·"

_BACKGROUND = Color.parse(theme.BACKGROUND)
_DIMMED = 0.45
"""Share of its colour that a stale value keeps."""
_OUTSIDE = 0.18
"""Share of its colour that a value keeps which lies outside of what is picked out."""
OUTSIDE_DIGIT = "-"


def bracket(glyph: str) -> int:
    """Return the cell code of a bracket."""
    return PAIRS + BRACKETS.index(glyph)


def ramp_style(step: int) -> Style:
    """Return the style of text on a step of the ramp: dark on light steps, light on dark ones."""
    return Style(color=theme.BACKGROUND if step >= RAMP_STEPS // 2 else theme.BRIGHT, bgcolor=RAMP[step])


RAMP_TEXT = tuple(ramp_style(step) for step in range(RAMP_STEPS))


class Ink:
    """Glyphs and styles of cells; made when first asked for, kept for good."""

    def __init__(self, *, digits: bool = False) -> None:
        self.digits = digits
        """Whether steps are digits instead of colours."""
        self._looks: dict[int, tuple[str, Style]] = {}
        self._runs_made: dict[tuple[int, int], Segment] = {}

    def look(self, cell: int) -> tuple[str, Style]:
        """Return glyph and style of a cell code: upper pixel's x `CODES` + lower pixel's, or a bracket's."""
        look = self._looks.get(cell)
        if look is None:
            if cell >= PAIRS:
                look = BRACKETS[cell - PAIRS], CURSOR_STYLE
            else:
                upper, lower = divmod(cell, CODES)
                look = _digit(upper) if self.digits else _mixed(upper, lower)
            self._looks[cell] = look
        return look

    def segments(self, cells: NDArray[np.int16], spans: list[Span]) -> list[Segment]:
        """Return a row of cells as segments, with texts over them (in order, not overlapping)."""
        made: list[Segment] = []
        done = 0
        for at, text, style in spans:
            start, shown = (at, text) if at >= 0 else (0, text[-at:])
            shown = shown[: len(cells) - start]
            if not shown or start < done:
                continue
            made.extend(self._runs(cells[done:start]))
            made.append(Segment(shown, style))
            done = start + len(shown)
        made.extend(self._runs(cells[done:]))
        return made

    def _runs(self, cells: NDArray[np.int16]) -> list[Segment]:
        if not len(cells):
            return []
        if len(self._runs_made) > _MOST_RUNS:
            self._runs_made.clear()
        starts = [0, *(np.flatnonzero(cells[1:] != cells[:-1]) + 1).tolist()]
        runs = self._runs_made
        made: list[Segment] = []
        for start, end, cell in zip(starts, [*starts[1:], len(cells)], cells[starts].tolist(), strict=True):
            key = (cell, end - start)
            segment = runs.get(key)
            if segment is None:
                glyph, style = self.look(cell)
                segment = runs[key] = Segment(glyph * (end - start), style)
            made.append(segment)
        return made


def _mixed(upper: int, lower: int) -> tuple[str, Style]:
    both = (upper, lower)
    if OFFLINE_CODE in both:
        return OFFLINE_GLYPH, _style(Color.parse(theme.RED), _under(both))
    if any(STALE_CODE <= code < OFFLINE_CODE for code in both):
        silent = next(code for code in both if STALE_CODE <= code < OFFLINE_CODE)
        return STALE_GLYPH, _style(_color(silent), _under(both))
    if any(PARTLY_CODE <= code < STALE_CODE for code in both):
        partly = next(code for code in both if PARTLY_CODE <= code < STALE_CODE)
        return PARTLY_GLYPH, _style(_color(partly), _under(both))
    if upper == lower:
        if upper == MISSING_CODE:
            return MISSING_GLYPH, theme.GHOST
        return " ", _style(_color(upper), _color(upper))
    if set(both) == {MISSING_CODE, GAP_CODE}:
        return MISSING_GLYPH, theme.GHOST
    return "▀", _style(_color(upper), _color(lower))


def _under(both: tuple[int, int]) -> Color:
    """Return the background for a marked cell: the live pixel's beside the marked one, if there is one."""
    for code in both:
        if code < RAMP_STEPS or code >= CURSOR_CODE:
            return _color(code)
    return _BACKGROUND


def _digit(code: int) -> tuple[str, Style]:
    if code >= OUTSIDE_CODE:
        return OUTSIDE_DIGIT, theme.GHOST
    if code < RAMP_STEPS:
        return str(code), theme.BASE
    if code < STALE_CODE:
        return PARTLY_GLYPH, theme.BASE
    if code < OFFLINE_CODE:
        return STALE_GLYPH, theme.QUIET
    glyph = {OFFLINE_CODE: OFFLINE_GLYPH, MISSING_CODE: MISSING_GLYPH}.get(code, " ")
    return glyph, theme.BASE


def _color(code: int) -> Color:
    if code < STALE_CODE:
        return RAMP[code % RAMP_STEPS]
    if code < OFFLINE_CODE:
        return _dim(RAMP[code - STALE_CODE])
    if code >= OUTSIDE_CODE:
        return _towards(RAMP[code - OUTSIDE_CODE], _BACKGROUND, _OUTSIDE)
    if code == MISSING_CODE:
        return theme.MISSING_COLOR
    return Color.parse(theme.BRIGHT) if code == CURSOR_CODE else _BACKGROUND


def _dim(color: Color) -> Color:
    # A stale value of the lowest step would vanish in the background, so some grey goes in.
    return _towards(color, Color.parse(theme.MUTED), _DIMMED)


def _towards(color: Color, other: Color, share: float) -> Color:
    """Return a mixture: `share` of a colour, the rest of the other."""
    pairs = zip(color.get_truecolor(), other.get_truecolor(), strict=True)
    return Color.from_rgb(*(round(share * own + (1 - share) * rest) for own, rest in pairs))


def _style(color: Color, background: Color) -> Style:
    return Style(color=color, bgcolor=background)
