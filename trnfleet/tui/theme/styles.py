"""The styles of a palette: every Rich style of the app, made once a theme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from trnfleet.tui.theme.palettes import Palette

RAMP_STEPS = 8
"""Steps of the ramp. More would not stay distinct and monotone in luminance in 256 colours."""
_CSS_DEFAULT = "ansi_default"


def styles_of(palette: Palette) -> dict[str, Any]:
    """Return a palette's attributes for the module `theme`, by name."""

    def on(background: str, text: str) -> Style:
        return Style.parse(background) + Style.parse(text)

    page, surface, raised, seek = palette.page, palette.surface, palette.raised, palette.seek
    cursor = palette.cursor
    severities = {
        Severity.CRITICAL: palette.critical,
        Severity.WARNING: palette.warning,
        Severity.INFO: palette.info,
    }
    states = {
        Freshness.LIVE: palette.body,
        Freshness.STALE: palette.stale,
        Freshness.OFFLINE: palette.offline,
        Freshness.UNKNOWN: palette.stale,
        Freshness.UNOBSERVED: palette.stale,
    }
    ramp = tuple(Color.parse(color) for color in palette.ramp)
    background = _background(page)
    tiles = {tile: on(page, text) for tile, text in palette.tiles.items()}
    return {
        "NAME": palette.name,
        "HAS_COLOR": palette.has_color,
        "HAS_RAMP": bool(ramp),
        "VARIABLES": variables_of(palette),
        "BASE": on(page, palette.body),
        "STRONG": on(page, palette.value),
        "QUIET": on(page, palette.label),
        "GHOST": on(page, palette.label),
        "RULE": on(page, palette.rule),
        "LINK": on(page, palette.accent),
        "HEAD": on(surface, palette.label),
        "HEAD_STRONG": on(surface, palette.value),
        "HEAD_ACCENT": on(surface, palette.accent) + Style(bold=True),
        "BAR": on(raised, palette.body),
        "BAR_STRONG": on(raised, palette.value),
        "BAR_ALERT": Style.parse(palette.alert_bar),
        "BAR_DOWN": Style.parse(palette.down_bar),
        "BAR_PAST": Style.parse(palette.past_bar),
        "BAR_SEEK": on(seek, palette.body),
        "BAR_SEEK_STRONG": on(seek, palette.value),
        "BAR_SEEK_QUIET": on(seek, palette.label),
        "BAR_SEEK_DONE": on(seek, palette.seek_done),
        "SELECTED": on(cursor, palette.value),
        "SELECTED_QUIET": on(cursor, palette.body),
        "CURSOR_FILL": Style.parse(cursor),
        "SURFACE_FILL": Style.parse(surface),
        "SEVERITY_STYLE": {severity: on(page, text) for severity, text in severities.items()},
        "SEEK_SEVERITY": {severity: on(seek, text) for severity, text in severities.items()},
        "STATE_STYLE": {state: on(page, text) for state, text in states.items()},
        "RAMP": ramp or (Color.default(),) * RAMP_STEPS,
        "RAMP_TEXT": tuple(_text_on(color, palette) for color in ramp)
        or (Style.parse(palette.body),) * RAMP_STEPS,
        "MISSING_COLOR": _foreground(palette.missing),
        "BACKGROUND": background,
        "BRIGHT": _foreground(palette.value),
        "MUTED": _foreground(palette.label),
        "RED": _foreground(palette.critical),
        "MAP_CURSOR": Style.parse(palette.map_cursor),
        "TILE_STYLE": tiles,
        "TILE_COLOR": {tile: _tile_color(style, background) for tile, style in tiles.items()},
        "JOB_STYLES": tuple(on(page, text) for text in palette.jobs),
        "CHART": on(page, palette.chart),
        "SPARK": on(page, palette.spark),
        "CHART_CAP": on(page, palette.cap),
        "CHART_THRESHOLD": on(page, palette.threshold),
        "CHART_AXIS": on(page, palette.label),
        "CHART_GAP": on(page, palette.gap),
        "FILL": on(page, palette.fill),
        "FILL_WARNING": on(page, palette.warning),
        "FILL_DIM": on(page, palette.stale),
    }


def textual_theme(palette: Palette) -> Theme:
    """Return Textual's theme for a palette, with the part used by style sheets."""
    variables = variables_of(palette)
    page = variables["bg"]
    return Theme(
        name=palette.name,
        primary=variables["fg-accent"],
        foreground=variables["fg"],
        background=page,
        surface=variables["bg-surface"],
        panel=variables["bg-raised"],
        boost=page,
        warning=_css(_foreground(palette.warning)),
        error=_css(_foreground(palette.critical)),
        dark=palette.is_dark,
        variables=variables,
        ansi=page == _CSS_DEFAULT,
    )


def variables_of(palette: Palette) -> dict[str, str]:
    """Return the colours of style sheets, by the names of Textual's variables.

    They differ from Textual's own themes.
    """
    page = _css(_background(palette.page))
    value = _css(_foreground(palette.value))
    return {
        "bg": page,
        "bg-surface": _css(_background(palette.surface)),
        "bg-raised": _css(_background(palette.raised)),
        "fg": _css(_foreground(palette.body)),
        "ansi-background": page,
        "ansi-foreground": _css(_foreground(palette.body)),
        "fg-bright": value,
        "fg-muted": _css(_foreground(palette.label)),
        "fg-faint": _css(_foreground(palette.rule)),
        "fg-accent": _css(_foreground(palette.accent)),
        "scroll-thumb": _css(_background(palette.thumb)),
        "input-cursor-background": value,
        "input-cursor-foreground": page,
        "input-cursor-text-style": "reverse" if value == _CSS_DEFAULT else "none",
        "input-selection-background": _css(_background(palette.cursor)),
    }


def _text_on(color: Color, palette: Palette) -> Style:
    """Return a style for text on a colour: the page's or the figures', by contrast."""
    texts = (_background(palette.page), _foreground(palette.value))
    return Style(color=max(texts, key=lambda text: contrast(text, color)), bgcolor=color)


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours after WCAG: 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    """Return a colour's relative luminance after WCAG."""
    shares = [channel / 255 for channel in color.get_truecolor()]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _tile_color(style: Style, page: Color) -> Color:
    """Return the colour of a tile drawn as one pixel.

    It is the background's, or the glyph's if the background is the page's.
    """
    if style.bgcolor is not None and style.bgcolor != page:
        return style.bgcolor
    return style.color or Color.default()


def _foreground(token: str) -> Color:
    return Style.parse(token).color or Color.default()


def _background(token: str) -> Color:
    return Style.parse(token).bgcolor or Color.default()


def _css(color: Color) -> str:
    """Return a colour in the words of style sheets."""
    if color.is_default:
        return _CSS_DEFAULT
    return color.name if color.triplet else f"ansi_{color.name}"
