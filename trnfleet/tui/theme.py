"""Colours and styles: one dark palette, a ramp that colour-blind people can read, and meanings that glyphs share.

No other module names a colour: widgets take styles from here, and style sheets take `VARIABLES`. Every style is a Rich style
made once. The terminal's colour system (true colour, 256, 16) is Rich's business; the ramp has eight steps because these stay
distinct and monotone in luminance in 256 colours.
"""

from __future__ import annotations

import numpy as np
from rich.color import Color
from rich.style import Style

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.store import Freshness

BACKGROUND = "#0e1116"
SURFACE = "#151a21"
RAISED = "#1c232d"
TEXT = "#c9d1d9"
BRIGHT = "#f0f4f8"
MUTED = "#7d8590"
FAINT = "#4b535d"
ACCENT = "#6cb6ff"
CURSOR = "#1d4a7a"
RED = "#ff7b72"
AMBER = "#e3b341"
CHART_BLUE, FILL_BLUE = "#4d85b8", "#5b93c9"
SCROLL_THUMB = "#30363f"
PAST = "#3a3163"
SEEK, SEEK_DONE = "#1a1830", "#8f83d6"
MISSING = "#23282f"

VARIABLES = {
    "bg": BACKGROUND,
    "bg-surface": SURFACE,
    "bg-raised": RAISED,
    "fg": TEXT,
    "fg-bright": BRIGHT,
    "fg-muted": MUTED,
    "fg-faint": FAINT,
    "fg-accent": ACCENT,
    "scroll-thumb": SCROLL_THUMB,
}
"""The colours that style sheets use, by the names of Textual's variables; unlike those of its own themes."""


def _style(color: str, background: str = BACKGROUND, *, bold: bool = False, dim: bool = False) -> Style:
    return Style(color=color, bgcolor=background, bold=bold or None, dim=dim or None)


BASE = _style(TEXT)
STRONG = _style(BRIGHT, bold=True)
QUIET = _style(MUTED)
GHOST = _style(FAINT)
LINK = _style(ACCENT)
HEAD = _style(MUTED, SURFACE)
HEAD_STRONG = _style(BRIGHT, SURFACE, bold=True)
HEAD_ACCENT = _style(ACCENT, SURFACE, bold=True)
BAR = _style(TEXT, RAISED)
BAR_STRONG = _style(BRIGHT, RAISED, bold=True)
BAR_ALERT = _style(BACKGROUND, AMBER, bold=True)
BAR_DOWN = _style(BACKGROUND, RED, bold=True)
BAR_PAST = _style(BRIGHT, PAST, bold=True)
"""Of the banner of the past: not the colour of a problem."""
BAR_SEEK = _style(TEXT, SEEK)
BAR_SEEK_STRONG = _style(BRIGHT, SEEK, bold=True)
BAR_SEEK_QUIET = _style(MUTED, SEEK)
BAR_SEEK_DONE = _style(SEEK_DONE, SEEK)
"""Of the seek bar: of the past's hue, but as dark as the bars around it."""
SELECTED = _style(BRIGHT, CURSOR, bold=True)
SELECTED_QUIET = _style(TEXT, CURSOR)

SEVERITY_STYLE = {
    Severity.CRITICAL: _style(RED, bold=True),
    Severity.WARNING: _style(AMBER),
    Severity.INFO: _style(ACCENT),
}
SEEK_SEVERITY = {
    Severity.CRITICAL: _style(RED, SEEK, bold=True),
    Severity.WARNING: _style(AMBER, SEEK),
    Severity.INFO: _style(ACCENT, SEEK),
}
SEVERITY_GLYPH = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "•"}
"""Severity is never shown by colour alone."""

STATE_STYLE = {
    Freshness.LIVE: BASE,
    Freshness.STALE: _style(MUTED, dim=True),
    Freshness.OFFLINE: _style(RED, dim=True),
    Freshness.UNKNOWN: GHOST,
}
STATE_GLYPH = {Freshness.LIVE: "●", Freshness.STALE: "◌", Freshness.OFFLINE: "✖", Freshness.UNKNOWN: "·"}

RAMP_STEPS = 8
_CIVIDIS = (
    "00204d",
    "00336f",
    "39486b",
    "575c6d",
    "707173",
    "8a8779",
    "a69d75",
    "c4b56c",
    "e4cf5b",
    "ffea46",
)
"""Ten points of the cividis colour map (Nunez, Anderton, Renslow 2018)."""


def _ramp(steps: int) -> list[tuple[int, int, int]]:
    points = np.array([[int(point[at : at + 2], 16) for at in (0, 2, 4)] for point in _CIVIDIS], dtype=float)
    places = np.linspace(0, len(points) - 1, steps)
    channels = [np.interp(places, np.arange(len(points)), points[:, channel]) for channel in range(3)]
    return [tuple(round(value) for value in rgb) for rgb in zip(*channels, strict=True)]


RAMP = tuple(Color.from_rgb(*rgb) for rgb in _ramp(RAMP_STEPS))
"""From low to high."""
RAMP_STYLE = tuple(Style(color=color, bgcolor=Color.parse(BACKGROUND)) for color in RAMP)
MISSING_COLOR = Color.parse(MISSING)
"""Of a heat map's cell whose value is not available."""


def ramp_step(value: float, low: float, high: float) -> int:
    """Return the step of the ramp for a value: 0 to `RAMP_STEPS` - 1; the ends take what lies beyond them."""
    if not value > low:
        return 0
    return min(RAMP_STEPS - 1, int((value - low) / (high - low) * RAMP_STEPS))
