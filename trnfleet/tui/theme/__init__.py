"""Colours, styles and glyphs of the app.

One theme is active at a time; its tokens are attributes of this module. No other module names a
colour. Read styles as `theme.QUIET` at the time of painting and never store them in a constant:
`use` replaces all of them. `SEVERITY_GLYPH` and the like are the same in all themes: no information
depends on colour alone.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.tui.theme.glyphs import shows_glyphs as shows_glyphs
from trnfleet.tui.theme.glyphs import to_ascii as to_ascii
from trnfleet.tui.theme.palettes import (
    ANSI,
    DARK,
    HUES,
    MONOCHROME,
    PALETTES,
    styles_of,
    textual_theme,
)
from trnfleet.tui.theme.palettes import RAMP_STEPS as RAMP_STEPS
from trnfleet.tui.theme.palettes import Tile as Tile
from trnfleet.tui.theme.palettes import mixed as mixed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.color import Color
    from rich.style import Style
    from textual.theme import Theme

NAMES = tuple(PALETTES)
"""All themes, in the order cycled by a key."""
DEFAULT = DARK.name

# The tokens of the present theme, which `use` sets.
NAME: str
HAS_COLOR: bool
"""Whether there are colours at all. Without them, only glyphs, bold, dim and reverse differ."""
HAS_RAMP: bool
"""Whether the colours of `RAMPS` show values."""
VARIABLES: dict[str, str]
"""The colours of style sheets, by the names of Textual's variables."""
BASE: Style
STRONG: Style
QUIET: Style
GHOST: Style
"""Text of the least weight; as easy to read as `QUIET`."""
RULE: Style
"""Decoration: lines only, never text."""
LINK: Style
"""Focus and links."""
HEAD: Style
HEAD_STRONG: Style
HEAD_ACCENT: Style
BAR: Style
BAR_STRONG: Style
BAR_ALERT: Style
BAR_DOWN: Style
BAR_PAST: Style
"""Of the banner of the past: not the colour of a problem."""
BAR_SEEK: Style
BAR_SEEK_STRONG: Style
BAR_SEEK_QUIET: Style
BAR_SEEK_DONE: Style
"""Played part of the seek bar: the past's hue, but quiet."""
SELECTED: Style
SELECTED_QUIET: Style
CURSOR_FILL: Style
"""Only the background of the selected line, to be added to another style."""
SURFACE_FILL: Style
"""Only the background of heads, to be added to another style."""
SEVERITY_STYLE: dict[Severity, Style]
SEEK_SEVERITY: dict[Severity, Style]
STATE_STYLE: dict[Freshness, Style]
RAMPS: dict[str, tuple[Color, ...]]
"""From low to high, `RAMP_STEPS` colours each: `busy` for utilisation, `heat` for temperature."""
RAMP_TEXTS: dict[str, tuple[Style, ...]]
"""Text on each step of the ramps."""
AREAS: dict[str, tuple[Style, ...]]
"""Areas of charts from low to high, on the shade of their bands, by ramp."""
MISSING_COLOR: Color
"""A heat map's cell without a value."""
BACKGROUND: Color
BRIGHT: Color
MUTED: Color
RED: Color
MAP_CURSOR: Style
TILE_STYLE: dict[Tile, Style]
"""A tile of the health map with a glyph or a value."""
TILE_COLOR: dict[Tile, Color]
"""A tile of the health map drawn as a pixel; only with `HAS_COLOR`."""
LOADS: tuple[Color, ...]
"""Chips in normal health, from idle to busy; empty without `HAS_RAMP`."""
JOB_STYLES: tuple[Style, ...]
LAYERS: tuple[Style, ...]
"""Names on the layers of a stack: one for each of `JOB_STYLES`, and one for what is left."""
CHART: Style
"""Of charts and sparklines: quieter than text, because they cover more."""
SPARK: Style
CHART_CAP: Style
CHART_THRESHOLD: Style
"""Of an alert's limit in a chart."""
CHART_AXIS: Style
CHART_GAP: Style
"""Marks of missing samples."""
FILL: Style
"""Of a bar's filled part; the rest is its track."""
FILL_WARNING: Style
FILL_DIM: Style

is_ascii = False
"""Whether the terminal gets ASCII only. Half blocks and braille have no twin as glyphs alone and
are drawn differently."""

SEVERITY_GLYPH = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "•"}
"""Severity is never shown by colour alone."""
STATE_GLYPH = {
    Freshness.LIVE: "●",
    Freshness.STALE: "◌",
    Freshness.OFFLINE: "✖",
    Freshness.UNKNOWN: "·",
    Freshness.UNOBSERVED: "◌",
}
TILE_GLYPH = {
    Tile.NORMAL: "·",
    Tile.WARNING: "▲",
    Tile.CRITICAL: "✖",
    Tile.IDLE: "◦",
    Tile.RESERVED_IDLE: "$",
    Tile.PARTLY: "▓",
    Tile.STALE: "░",
    Tile.OFFLINE: "×",  # noqa: RUF001  the sign, which is lighter than the one of a critical tile
    Tile.MISSING: "?",
    Tile.VICTIM: "╱",  # noqa: RUF001  a hatch
    Tile.OUTSIDE: " ",
}


def use(name: str, *, ascii_only: bool | None = None) -> None:
    """Make a theme the present one.

    Args:
        name: One of `NAMES`.
        ascii_only: Whether the terminal gets ASCII only; None to leave that as it is.
    """
    if ascii_only is not None:
        globals()["is_ascii"] = ascii_only
    globals().update(styles_of(PALETTES[name]))


def sort_mark(*, is_descending: bool) -> str:
    """Return the mark before the title of the sorted column."""
    return ("+-" if is_ascii else "↑↓")[is_descending]


def textual_themes() -> list[Theme]:
    """Return the themes for Textual's registry, with the variables of style sheets."""
    return [textual_theme(palette) for palette in PALETTES.values()]


def following(name: str) -> str:
    """Return the theme after one, and the first after the last."""
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)]


def default_for(color_system: str | None, *, no_color: bool) -> str:
    """Return the default theme for a terminal.

    Args:
        color_system: Its colours, in Rich's words; None for none.
        no_color: Whether NO_COLOR is set.
    """
    if no_color or color_system is None:
        return MONOCHROME.name
    return ANSI.name if color_system in {"standard", "windows"} else DEFAULT


def job_slots(names: Iterable[str]) -> dict[str, int]:
    """Return the places in `JOB_STYLES` of jobs shown together.

    A job's place is that of its name's hash, or the next free one. A job's colour stays while
    others come and go, unless two share a hash. More jobs than colours share them.
    """
    slots: dict[str, int] = {}
    used_slots: set[int] = set()
    for name in sorted(names):
        if len(used_slots) == HUES:
            used_slots.clear()
        slot = job_slot(name)
        while slot in used_slots:
            slot = (slot + 1) % HUES
        slots[name] = slot
        used_slots.add(slot)
    return slots


def job_slot(name: str) -> int:
    """Return the place in `JOB_STYLES` of a single job, by its name's hash."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % HUES


use(DEFAULT)
