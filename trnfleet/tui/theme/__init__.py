"""Colours, styles and glyphs of the app: one theme at a time, whose tokens are attributes of this module.

No other module names a colour. Take styles as `theme.QUIET` at the time of painting and never keep them in a constant: `use` replaces
all of them. `SEVERITY_GLYPH` and the like are the same in all themes: no colour alone says anything.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui.theme.glyphs import has_utf8 as has_utf8
from trnfleet.tui.theme.glyphs import to_ascii as to_ascii
from trnfleet.tui.theme.palettes import ANSI, DARK, HUES, MONOCHROME, PALETTES
from trnfleet.tui.theme.palettes import Tile as Tile
from trnfleet.tui.theme.styles import RAMP_STEPS as RAMP_STEPS
from trnfleet.tui.theme.styles import styles_of, textual_theme

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.color import Color
    from rich.style import Style
    from textual.theme import Theme

NAMES = tuple(PALETTES)
"""All themes, in the order in which a key goes through them."""
DEFAULT = DARK.name

# The tokens of the present theme, which `use` sets.
NAME: str
HAS_COLOR: bool
"""Whether there are colours at all; without, only glyphs, bold, dim and reverse tell things apart."""
HAS_RAMP: bool
"""Whether the colours of `RAMP` show values."""
VARIABLES: dict[str, str]
"""The colours that style sheets use, by the names of Textual's variables."""
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
"""Of the seek bar: of the past's hue, but as quiet as the bars around it."""
SELECTED: Style
SELECTED_QUIET: Style
CURSOR_FILL: Style
"""Only the background of the selected line, to be added to another style."""
SURFACE_FILL: Style
"""Only the background of heads, to be added to another style."""
SEVERITY_STYLE: dict[Severity, Style]
SEEK_SEVERITY: dict[Severity, Style]
STATE_STYLE: dict[Freshness, Style]
RAMP: tuple[Color, ...]
"""From low to high: `RAMP_STEPS` colours."""
RAMP_TEXT: tuple[Style, ...]
"""Text on each step of the ramp."""
MISSING_COLOR: Color
"""Of a heat map's cell whose value is not available."""
BACKGROUND: Color
BRIGHT: Color
MUTED: Color
RED: Color
MAP_CURSOR: Style
TILE_STYLE: dict[Tile, Style]
"""Of a tile of the health map that shows a glyph or a value."""
TILE_COLOR: dict[Tile, Color]
"""Of a tile of the health map that is a pixel without a glyph; only where `HAS_COLOR`."""
JOB_STYLES: tuple[Style, ...]
CHART: Style
"""Of charts and sparklines: quieter than text, because they cover more."""
SPARK: Style
CHART_CAP: Style
CHART_THRESHOLD: Style
"""Of an alert's limit in a chart."""
CHART_AXIS: Style
CHART_GAP: Style
"""Of what marks samples that are not there."""
FILL: Style
"""Of a bar's filled part; the rest is its track."""
FILL_WARNING: Style
FILL_DIM: Style

revision = 0
"""Number of changes of the theme so far, for caches."""
is_ascii = False
"""Whether the terminal gets ASCII only. What glyphs alone cannot show there, such as half blocks and braille, is drawn otherwise."""

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
    Tile.OUTSIDE: " ",
}
JOB_MARKS = "*+ox#%"
"""A mark for each of `JOB_STYLES`, where lines are told apart without colours."""


def use(name: str, *, ascii_only: bool | None = None) -> None:
    """Make a theme the present one.

    Args:
        name: One of `NAMES`.
        ascii_only: Whether the terminal gets ASCII only; None to leave that as it is.
    """
    if ascii_only is not None:
        globals()["is_ascii"] = ascii_only
    globals().update(styles_of(PALETTES[name]), revision=revision + 1)


def textual_themes() -> list[Theme]:
    """Return the themes for Textual's registry, which carries the variables of style sheets."""
    return [textual_theme(palette) for palette in PALETTES.values()]


def following(name: str) -> str:
    """Return the theme after one, and the first after the last."""
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)]


def default_for(color_system: str | None, *, no_color: bool) -> str:
    """Return the theme for a terminal for which none was chosen.

    Args:
        color_system: Its colours, in Rich's words; None for none.
        no_color: Whether NO_COLOR is set.
    """
    if no_color or color_system is None:
        return MONOCHROME.name
    return ANSI.name if color_system in {"standard", "windows"} else DEFAULT


def job_slots(names: Iterable[str]) -> dict[str, int]:
    """Return the places in `JOB_STYLES` of jobs that are shown together: that of the name's hash, or the next free one.

    A job keeps its colour while others come and go, unless two share a hash; more jobs than colours share them.
    """
    slots: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        if len(taken) == HUES:
            taken.clear()
        slot = job_slot(name)
        while slot in taken:
            slot = (slot + 1) % HUES
        slots[name] = slot
        taken.add(slot)
    return slots


def job_slot(name: str) -> int:
    """Return the place in `JOB_STYLES` of a job by itself, by the hash of its name."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % HUES


def ramp_step(value: float, low: float, high: float) -> int:
    """Return the step of the ramp for a value: 0 to `RAMP_STEPS` - 1; the ends take what lies beyond them."""
    if not value > low:
        return 0
    return min(RAMP_STEPS - 1, int((value - low) / (high - low) * RAMP_STEPS))


use(DEFAULT)
