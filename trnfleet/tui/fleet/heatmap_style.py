"""Looks of pixel codes: glyph and style of a cell with two pixels.

A silent or missing pixel differs in glyph, never in colour alone. Without enough colours a cell
shows one pixel, as the digit of its step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_health import Health
from trnfleet.tui.fleet.heatmap_pixels import (
    CODES,
    CURSOR_CODE,
    GAP_CODE,
    HEALTH_CODE,
    HEALTH_OUTSIDE_CODE,
    HIGH_CODE,
    LOW_CODE,
    MISSING_CODE,
    OFFLINE_CODE,
    OUTSIDE_CODE,
    PARTLY_CODE,
    PLAIN_CODE,
    STALE_CODE,
)
from trnfleet.tui.theme import RAMP_STEPS, Tile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.tui.fleet.heatmap_grid import Rect

    Span = tuple[int, str, Style]

BRACKETS = "[]┌┐└┘│"
_MOST_RUNS = 20_000
_ROOMY = 4
"""Fewest cells per chip with room for a glyph between brackets."""
PAIRS = CODES * CODES
"""Codes from here on are brackets."""

LOW_GLYPH = "↓"
HIGH_GLYPH = "↑"
STALE_GLYPH = "░"
PARTLY_GLYPH = "▓"
OFFLINE_GLYPH = "✖"
MISSING_GLYPH = "·"

_DIMMED = 0.45
"""Share of the colour in a stale value."""
_OUTSIDE = 0.18
"""Share of the colour in a value outside the highlight."""
OUTSIDE_DIGIT = "-"


_TILES = {
    Health.MISSING: Tile.MISSING,
    Health.IDLE: Tile.IDLE,
    Health.RESERVED_IDLE: Tile.RESERVED_IDLE,
    Health.NORMAL: Tile.NORMAL,
    Health.HANDLED_WARNING: Tile.NORMAL,
    Health.HANDLED_CRITICAL: Tile.NORMAL,
    Health.STALE: Tile.STALE,
    Health.OFFLINE: Tile.OFFLINE,
    Health.WARNING: Tile.WARNING,
    Health.STALE_WARNING: Tile.WARNING,
    Health.OFFLINE_WARNING: Tile.WARNING,
    Health.CRITICAL: Tile.CRITICAL,
    Health.STALE_CRITICAL: Tile.CRITICAL,
    Health.OFFLINE_CRITICAL: Tile.CRITICAL,
}
"""Tile with the colours of each health."""
_GLYPH_OF = {
    Health.HANDLED_WARNING: Tile.WARNING,
    Health.HANDLED_CRITICAL: Tile.CRITICAL,
    Health.STALE_WARNING: Tile.STALE,
    Health.OFFLINE_WARNING: Tile.OFFLINE,
    Health.STALE_CRITICAL: Tile.STALE,
    Health.OFFLINE_CRITICAL: Tile.OFFLINE,
}
"""The tile with the glyph of a health, if not the one with its colours."""


def tile_of(health: Health) -> tuple[str, Style]:
    """Return glyph and style of a health."""
    tile = _TILES[health]
    return theme.TILE_GLYPH[_GLYPH_OF.get(health, tile)], theme.TILE_STYLE[tile]


def health_style(health: Health) -> Style:
    """Return the style of words about a health, as on any other line."""
    tile = _TILES.get(health)
    if tile is Tile.CRITICAL or tile is Tile.WARNING:
        return theme.SEVERITY_STYLE[
            Severity.CRITICAL if tile is Tile.CRITICAL else Severity.WARNING
        ]
    return theme.STATE_STYLE[Freshness.OFFLINE] if tile is Tile.OFFLINE else theme.QUIET


def tile_at(health: Health) -> Tile:
    """Return the tile with the colours of a health."""
    return _TILES[health]


def tiles_in(codes: NDArray[np.int16]) -> frozenset[Tile]:
    """Return the tiles of health codes: for their glyphs and for their colours."""
    counts = np.bincount(codes.ravel(), minlength=CODES)
    healths = [
        health for health in _TILES if counts[HEALTH_CODE + health] or counts[PLAIN_CODE + health]
    ]
    return frozenset(
        tile
        for health in healths
        for tile in (_TILES[health], _GLYPH_OF.get(health, _TILES[health]))
    )


def glyph_upon(rect: Rect, health: Health, cells: int) -> tuple[int, Span] | None:
    """Return row and text of the glyph on a chip's cursor.

    It has the colours of a problem if there is one. None without room or without a chip.

    Args:
        rect: Half cells of the cursor.
        health: Of the chip.
        cells: Width of a chip.
    """
    rows = rect.bottom - rect.top
    is_loud = health >= Health.WARNING
    if health is Health.NOTHING or rows < 2 or cells < (2 if is_loud else _ROOMY):
        return None
    glyph, style = tile_of(health)
    # If brackets leave no cell, the glyph of a problem replaces the second one.
    column = rect.left + ((cells - 1) // 2 if cells >= _ROOMY else cells - 1)
    return rect.top // 2 + (rows // 2 - 1) // 2, (
        column,
        glyph,
        style if is_loud else theme.MAP_CURSOR,
    )


def bracket(glyph: str) -> int:
    """Return the cell code of a bracket."""
    return PAIRS + BRACKETS.index(glyph)


class Ink:
    """Glyphs and styles of cells, made on first use and cached for the theme."""

    def __init__(self, *, digits: bool = False) -> None:
        self.digits = digits
        """Whether steps are digits instead of colours."""
        self._looks: dict[int, tuple[str, Style]] = {}
        self._runs_made: dict[tuple[int, int], Segment] = {}

    def look(self, cell: int) -> tuple[str, Style]:
        """Return glyph and style of a cell code.

        The code is upper pixel x `CODES` + lower pixel, or a bracket's code.
        """
        look = self._looks.get(cell)
        if look is None:
            if cell >= PAIRS:
                look = BRACKETS[cell - PAIRS], theme.MAP_CURSOR
            else:
                upper, lower = divmod(cell, CODES)
                look = _marked(upper) if upper == lower else None
                look = look or (_digit(upper) if self.digits else _mixed(upper, lower))
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
        for start, end, cell in zip(
            starts, [*starts[1:], len(cells)], cells[starts].tolist(), strict=True
        ):
            key = (cell, end - start)
            segment = runs.get(key)
            if segment is None:
                glyph, style = self.look(cell)
                segment = runs[key] = Segment(glyph * (end - start), style)
            made.append(segment)
        return made


def _marked(code: int) -> tuple[str, Style] | None:
    """Return the look of a cell for a health or an outlier.

    None for any other code.
    """
    if code == LOW_CODE:
        return LOW_GLYPH, theme.SEVERITY_STYLE[Severity.WARNING]
    if code == HIGH_CODE:
        return HIGH_GLYPH, theme.TILE_STYLE[Tile.WARNING]
    if code < HEALTH_OUTSIDE_CODE:
        return None
    if code == HEALTH_OUTSIDE_CODE:
        return theme.TILE_GLYPH[Tile.OUTSIDE], theme.TILE_STYLE[Tile.OUTSIDE]
    is_plain = code >= PLAIN_CODE
    health = Health(code - (PLAIN_CODE if is_plain else HEALTH_CODE))
    if health is Health.NOTHING:
        return " ", theme.BASE
    glyph, style = tile_of(health)
    return (" " if is_plain else glyph), style


def _mixed(upper: int, lower: int) -> tuple[str, Style]:
    both = (upper, lower)
    if OFFLINE_CODE in both:
        return OFFLINE_GLYPH, _style(theme.RED, _under(both))
    if any(STALE_CODE <= code < OFFLINE_CODE for code in both):
        silent = next(code for code in both if STALE_CODE <= code < OFFLINE_CODE)
        return STALE_GLYPH, _style(_color(silent), _under(both))
    if any(PARTLY_CODE <= code < STALE_CODE for code in both):
        partly = next(code for code in both if PARTLY_CODE <= code < STALE_CODE)
        return PARTLY_GLYPH, _style(_color(partly), _under(both))
    for code in (HIGH_CODE, LOW_CODE):
        if code in both:
            return (HIGH_GLYPH if code == HIGH_CODE else LOW_GLYPH), _style(
                _color(code), theme.BACKGROUND
            )
    if upper == lower:
        if upper == MISSING_CODE:
            return MISSING_GLYPH, theme.GHOST
        return " ", _style(_color(upper), _color(upper))
    if set(both) == {MISSING_CODE, GAP_CODE}:
        return MISSING_GLYPH, theme.GHOST
    return "▀", _style(_color(upper), _color(lower))


def _under(both: tuple[int, int]) -> Color:
    """Return the background for a marked cell: its other pixel's colour if that is live."""
    for code in both:
        if code < RAMP_STEPS or code >= CURSOR_CODE:
            return _color(code)
    return theme.BACKGROUND


def _digit(code: int) -> tuple[str, Style]:
    if OUTSIDE_CODE <= code < LOW_CODE:
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
    if code >= HEALTH_OUTSIDE_CODE:
        health = (code - HEALTH_CODE) % len(Health)
        if code == HEALTH_OUTSIDE_CODE or health == Health.NOTHING:
            return theme.BACKGROUND
        return theme.TILE_COLOR[_TILES[Health(health)]]
    if code >= LOW_CODE:
        return theme.TILE_COLOR[Tile.WARNING]
    if code < STALE_CODE:
        return theme.RAMP[code % RAMP_STEPS]
    if code < OFFLINE_CODE:
        return _dim(theme.RAMP[code - STALE_CODE])
    if code >= OUTSIDE_CODE:
        return _towards(theme.RAMP[code - OUTSIDE_CODE], theme.BACKGROUND, _OUTSIDE)
    if code == MISSING_CODE:
        return theme.MISSING_COLOR
    return theme.BRIGHT if code == CURSOR_CODE else theme.BACKGROUND


def _dim(color: Color) -> Color:
    # A stale value of the lowest step would vanish in the background, so some grey goes in.
    return _towards(color, theme.MUTED, _DIMMED)


def _towards(color: Color, other: Color, share: float) -> Color:
    """Return a mixture: `share` of a colour, the rest of the other."""
    pairs = zip(color.get_truecolor(), other.get_truecolor(), strict=True)
    return Color.from_rgb(*(round(share * own + (1 - share) * rest) for own, rest in pairs))


def _style(color: Color, background: Color) -> Style:
    return Style(color=color, bgcolor=background)
