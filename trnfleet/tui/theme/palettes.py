"""The themes' colours: one palette each, as Rich style definitions.

A token may be a colour, an attribute or both. Only this module names colours. Contrasts follow
WCAG: text has at least 4.5:1 on every background used, 7:1 in `high-contrast`; urgent tiles of the
map and lines of charts have at least 3:1. Tests compute them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness


class Tile(Enum):
    """Kinds of tiles of the health map."""

    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"
    IDLE = "idle"
    RESERVED_IDLE = "reserved, idle"
    PARTLY = "partial"
    STALE = "stale"
    OFFLINE = "offline"
    MISSING = "n/a"
    VICTIM = "stopped by a problem elsewhere"
    OUTSIDE = "not highlighted"


@dataclass(frozen=True)
class ThemePalette:
    """The tokens of a theme, each a Rich style definition.

    An empty one uses the terminal's own style.
    """

    name: str
    is_dark: bool

    page: str
    """Background of the page; the next ones lie upon it."""
    surface: str
    raised: str
    cursor: str
    past: str
    seek: str

    value: str
    """The first of four levels of text: figures and names."""
    body: str
    label: str
    rule: str
    """Decoration: lines only, never text."""
    accent: str
    """Focus and links, and nothing else."""

    critical: str
    warning: str
    info: str
    stale: str
    offline: str
    alert_bar: str
    down_bar: str
    past_bar: str
    seek_done: str
    map_cursor: str

    jobs: tuple[str, ...]
    """Six hues distinct under the common colour deficiencies, none of them amber or red."""
    tiles: dict[Tile, str]
    load: tuple[str, ...]
    """Colours of an idle and of a busy chip in normal health; both are calm."""
    ramp: tuple[str, ...]
    """Colours from low to high; empty where the terminal has too few for one."""
    busy_ramp: tuple[str, ...]
    """The same of utilisation."""
    heat_ramp: tuple[str, ...]
    """The same of temperature and throttle."""
    missing: str
    chart: str
    spark: str
    """Areas of sparklines; they fill whole columns of a table."""
    cap: str
    threshold: str
    gap: str
    fill: str
    """A bar's filled part; `rule` is its track."""
    thumb: str
    """Background of a scroll bar's thumb."""
    has_color: bool = True


DARK = ThemePalette(
    name="dark",
    is_dark=True,
    page="on #0e1116",
    surface="on #151a21",
    raised="on #1c232d",
    cursor="on #173d66",
    past="on #3a3163",
    seek="on #1a1830",
    value="bold #f0f4f8",
    body="#c9d1d9",
    label="#8b949e",
    rule="#3d4652",
    accent="#6cb6ff",
    critical="bold #ff8a82",
    warning="#e3b341",
    info="#6cb6ff",
    stale="#a8b1bb",
    offline="#ff8a82",
    alert_bar="bold #0e1116 on #e3b341",
    down_bar="bold #0e1116 on #ff7b72",
    past_bar="bold #f0f4f8 on #3a3163",
    seek_done="#9a8fe0",
    map_cursor="bold #0e1116 on #f0f4f8",
    jobs=("#5c7bd9", "#4fc3b5", "#d69dff", "#9ccc65", "#5f8fae", "#bcc6ef"),
    tiles={
        Tile.NORMAL: "#8b949e on #1b2530",
        Tile.WARNING: "bold #0e1116 on #e3b341",
        Tile.CRITICAL: "bold #0e1116 on #ff6b62",
        Tile.IDLE: "#8b949e on #0e1116",
        Tile.RESERVED_IDLE: "#6aa3a0 on #0e1116",
        Tile.PARTLY: "#c9d1d9 on #1b2530",
        Tile.VICTIM: "#cf6a64 on #2c1619",
        Tile.STALE: "#a7b0ba on #30363f",
        Tile.OFFLINE: "#ff8a82 on #0e1116",
        Tile.MISSING: "#7d8590 on #0e1116",
        Tile.OUTSIDE: "#3d4652 on #0e1116",
    },
    # One hue, which is nobody's alarm; eight steps stay distinct and monotone in luminance in 256
    # colours.
    load=("#23364b", "#2d4d70"),
    ramp=("#3a6ea5", "#3d81b7", "#4494c8", "#56a9d6", "#73bee2", "#88d0f4", "#a5dcf6", "#c6e7f5"),
    busy_ramp=(
        "#1f7a6e",
        "#268b79",
        "#2f9a84",
        "#45b394",
        "#5dd0a7",
        "#84e1bb",
        "#aaedce",
        "#c8f7dc",
    ),
    heat_ramp=(
        "#7a4fb0",
        "#8e57b8",
        "#b56fc4",
        "#c880c8",
        "#d993c4",
        "#e9a9bb",
        "#f5cbc3",
        "#fbe0cc",
    ),
    missing="#23282f",
    chart="#5b93c9",
    spark="#456e9a",
    cap="#8b949e",
    threshold="#e3b341",
    gap="#6e7681",
    fill="#5b93c9",
    thumb="on #4b535d",
)
LIGHT = ThemePalette(
    name="light",
    is_dark=False,
    page="on #ffffff",
    surface="on #f2f5f8",
    raised="on #e4e9ef",
    cursor="on #cfe3fb",
    past="on #ded6f7",
    seek="on #ece8fa",
    value="bold #0b1016",
    body="#24292f",
    label="#515a64",
    rule="#b6bfc9",
    accent="#0a4da8",
    critical="bold #b3131f",
    warning="#7a4a00",
    info="#0a4da8",
    stale="#515a64",
    offline="#a8322f",
    alert_bar="bold #ffffff on #8a5700",
    down_bar="bold #ffffff on #b3131f",
    past_bar="bold #241a4d on #ded6f7",
    seek_done="#6a56c2",
    map_cursor="bold #ffffff on #0b1016",
    jobs=("#1f5ddc", "#0f7a6e", "#9a3fb0", "#4f7a10", "#2f5a7a", "#49227a"),
    tiles={
        Tile.NORMAL: "#515a64 on #e8edf3",
        Tile.WARNING: "bold #ffffff on #946200",
        Tile.CRITICAL: "bold #ffffff on #c41e2a",
        Tile.IDLE: "#57606a on #ffffff",
        Tile.RESERVED_IDLE: "#1f6f6b on #ffffff",
        Tile.PARTLY: "#24292f on #e8edf3",
        Tile.VICTIM: "#8f4a4a on #f6e4e4",
        Tile.STALE: "#3f4750 on #ccd3db",
        Tile.OFFLINE: "#b3131f on #ffffff",
        Tile.MISSING: "#6a737d on #ffffff",
        Tile.OUTSIDE: "#b6bfc9 on #ffffff",
    },
    load=("#d9e2ed", "#b5c8df"),
    ramp=("#86949f", "#6b8cb0", "#2a85b0", "#4a68ad", "#1f60a8", "#10588a", "#0b4a5c", "#08164d"),
    busy_ramp=(
        "#7d9a90",
        "#509787",
        "#2d927d",
        "#248570",
        "#1a7463",
        "#115f54",
        "#0b4a42",
        "#053530",
    ),
    heat_ramp=(
        "#a58a9f",
        "#b8719f",
        "#ac428e",
        "#9c2f83",
        "#891f78",
        "#6b196e",
        "#4e135e",
        "#280a40",
    ),
    missing="#e1e6eb",
    chart="#2f6fb0",
    spark="#6f97c2",
    cap="#515a64",
    threshold="#8a5700",
    gap="#737c86",
    fill="#2f6fb0",
    thumb="on #9aa4af",
)
HIGH_CONTRAST = ThemePalette(
    name="high-contrast",
    is_dark=True,
    page="on #000000",
    surface="on #000000",
    raised="on #1c1c1c",
    cursor="on #002c59",
    past="on #3b1a78",
    seek="on #160a33",
    value="bold #ffffff",
    body="#f4f4f4",
    label="#d6d6d6",
    rule="#8c8c8c",
    accent="#7fd0ff",
    critical="bold #ffa8a3",
    warning="#ffd84d",
    info="#7fd0ff",
    stale="#d6d6d6",
    offline="#ffa8a3",
    alert_bar="bold #000000 on #ffd000",
    down_bar="bold #000000 on #ff8f8a",
    past_bar="bold #ffffff on #3b1a78",
    seek_done="#c9b8ff",
    map_cursor="bold #000000 on #ffffff",
    jobs=("#9ccffd", "#b87bf6", "#cdfdfd", "#e6a266", "#f9a3cc", "#c4ed31"),
    tiles={
        Tile.NORMAL: "#d6d6d6 on #1c1c1c",
        Tile.WARNING: "bold #000000 on #ffd000",
        Tile.CRITICAL: "bold #000000 on #ff7d78",
        Tile.IDLE: "#d6d6d6 on #000000",
        Tile.RESERVED_IDLE: "#8fd0cb on #000000",
        Tile.PARTLY: "#ffffff on #1c1c1c",
        Tile.VICTIM: "#ff9f9a on #330f10",
        Tile.STALE: "#ffffff on #4a4a4a",
        Tile.OFFLINE: "#ffa8a3 on #000000",
        Tile.MISSING: "#bdbdbd on #000000",
        Tile.OUTSIDE: "#8c8c8c on #000000",
    },
    load=("#2a3d55", "#365479"),
    ramp=("#4f7fb5", "#5f9edd", "#65b5ff", "#87cfff", "#a8d8ff", "#c8e4ff", "#e4f4ff", "#ffffff"),
    busy_ramp=(
        "#3f9a86",
        "#48b195",
        "#52c8a3",
        "#66d9b1",
        "#7fe7bf",
        "#9bf2ce",
        "#bef9df",
        "#e0fff0",
    ),
    heat_ramp=(
        "#a577e0",
        "#bd82e0",
        "#d48ede",
        "#e79dd5",
        "#f4afce",
        "#fdc3c9",
        "#ffd9d4",
        "#fff0e4",
    ),
    missing="#303030",
    chart="#7fb8f0",
    spark="#5b8dbf",
    cap="#d6d6d6",
    threshold="#ffd84d",
    gap="#bdbdbd",
    fill="#7fb8f0",
    thumb="on #8c8c8c",
)
_CIVIDIS = ("#4f6f9f", "#606d80", "#81827b", "#9a9477", "#b3a771", "#cdbc67", "#e8d358", "#ffea46")
"""Cividis (Nunez, Anderton, Renslow 2018) from where it stands out against the page."""
COLOUR_BLIND = replace(
    DARK,
    name="colour-blind",
    # Severities differ in luminance as well as in hue, along the axis from blue to yellow that most
    # people see.
    accent="#6fc3f2",
    critical="bold #ff8f4d",
    warning="#f0e442",
    info="#6fc3f2",
    offline="#ff8f4d",
    alert_bar="bold #0e1116 on #f0e442",
    down_bar="bold #0e1116 on #ff8f4d",
    tiles={
        **DARK.tiles,
        Tile.WARNING: "bold #0e1116 on #f0e442",
        Tile.CRITICAL: "bold #0e1116 on #f07427",
        Tile.VICTIM: "#cc7a4c on #2a1a10",
        Tile.RESERVED_IDLE: "#6f98c8 on #0e1116",
        Tile.OFFLINE: "#ff8f4d on #0e1116",
    },
    ramp=_CIVIDIS,
    busy_ramp=_CIVIDIS,
    heat_ramp=_CIVIDIS,
    threshold="#f0e442",
)
ANSI = ThemePalette(
    name="ansi",
    is_dark=True,
    # The terminal's own colours are anybody's: the default ones, which are read there all day, for
    # all text; backgrounds by reverse.
    page="",
    surface="",
    raised="",
    cursor="reverse",
    past="",
    seek="",
    value="bold",
    body="",
    label="",
    rule="bright_black",
    accent="bright_blue",
    critical="bold bright_red",
    warning="bold yellow",
    info="bright_blue",
    stale="dim",
    offline="red",
    alert_bar="bold black on yellow",
    down_bar="bold bright_white on red",
    past_bar="bold bright_white on magenta",
    seek_done="magenta",
    map_cursor="bold reverse",
    jobs=("bright_blue", "bright_magenta", "cyan", "yellow", "magenta", "bright_green"),
    tiles={
        Tile.NORMAL: "",
        Tile.WARNING: "bold black on yellow",
        Tile.CRITICAL: "bold bright_white on red",
        Tile.IDLE: "bright_blue",
        Tile.RESERVED_IDLE: "bright_cyan",
        Tile.PARTLY: "cyan",
        Tile.VICTIM: "red",
        Tile.STALE: "magenta",
        Tile.OFFLINE: "bright_red",
        Tile.MISSING: "bright_black",
        Tile.OUTSIDE: "dim",
    },
    load=(),
    ramp=(),
    busy_ramp=(),
    heat_ramp=(),
    missing="bright_black",
    chart="bright_blue",
    spark="blue",
    cap="",
    threshold="yellow",
    gap="bright_black",
    fill="bright_blue",
    thumb="on bright_black",
)
MONOCHROME = replace(
    ANSI,
    name="monochrome",
    rule="dim",
    accent="bold",
    critical="bold reverse",
    warning="bold",
    info="",
    offline="bold",
    alert_bar="bold reverse",
    down_bar="bold reverse",
    past_bar="bold reverse",
    seek_done="bold",
    jobs=("", "bold", "dim", "", "bold", "dim"),
    tiles={
        Tile.NORMAL: "dim",
        Tile.WARNING: "bold",
        Tile.CRITICAL: "bold reverse",
        Tile.IDLE: "",
        Tile.RESERVED_IDLE: "",
        Tile.PARTLY: "",
        Tile.VICTIM: "",
        Tile.STALE: "",
        Tile.OFFLINE: "bold",
        Tile.MISSING: "dim",
        Tile.OUTSIDE: "dim",
    },
    missing="",
    chart="",
    spark="dim",
    threshold="bold",
    gap="dim",
    fill="",
    thumb="",
    has_color=False,
)

PALETTES = {
    palette.name: palette
    for palette in (DARK, LIGHT, HIGH_CONTRAST, COLOUR_BLIND, ANSI, MONOCHROME)
}
"""Themes by name, in the order cycled by a key."""


HUES = len(DARK.jobs)
"""Colours for the series of jobs."""
RAMP_STEPS = len(DARK.ramp)
"""Steps of the ramp. More would not stay distinct and monotone in luminance in 256 colours."""
LOAD_STEPS = 16
"""Shades of normal chips, from idle to busy."""
AREA_STEPS = 6
"""Steps of the ramps in charts. The brightest ones would outshine what is in trouble."""
_LEAST_LAYER = 3.1
"""Contrast of a stack's layers against the page."""
_BAND = 0.14
"""Share of a ramp's first colour in the shade of a band."""
_CSS_DEFAULT = "ansi_default"


def styles_of(palette: ThemePalette) -> dict[str, Any]:
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
    ramps = {
        name: tuple(map(Color.parse, colors))
        for name, colors in (
            ("", palette.ramp),
            ("busy", palette.busy_ramp),
            ("heat", palette.heat_ramp),
        )
    }
    ramp = ramps[""]
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
        "RAMPS": {
            name: colors or (Color.default(),) * RAMP_STEPS for name, colors in ramps.items()
        },
        "RAMP_TEXTS": {
            name: tuple(_text_on(color, palette) for color in colors)
            or (Style.parse(palette.body),) * RAMP_STEPS
            for name, colors in ramps.items()
        },
        "AREAS": {
            name: tuple(
                Style(color=color, bgcolor=mixed(colors[0], background, _BAND))
                for color in colors[:AREA_STEPS]
            )
            or (on(page, palette.chart),)
            for name, colors in ramps.items()
        },
        "MISSING_COLOR": _foreground(palette.missing),
        "BACKGROUND": background,
        "BRIGHT": _foreground(palette.value),
        "MUTED": _foreground(palette.label),
        "RED": _foreground(palette.critical),
        "MAP_CURSOR": Style.parse(palette.map_cursor),
        "TILE_STYLE": tiles,
        "TILE_COLOR": {tile: _tile_color(style, background) for tile, style in tiles.items()},
        # Most chips are rather busy: there the shades differ most.
        "LOADS": tuple(
            mixed(Color.parse(palette.load[1]), Color.parse(palette.load[0]), share**3)
            for share in (step / (LOAD_STEPS - 1) for step in range(LOAD_STEPS))
            if palette.load
        ),
        "JOB_STYLES": tuple(on(page, text) for text in palette.jobs),
        "LAYERS": tuple(_layer(text, palette) for text in (*palette.jobs, palette.label)),
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


def textual_theme(palette: ThemePalette) -> Theme:
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


def variables_of(palette: ThemePalette) -> dict[str, str]:
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


def _text_on(color: Color, palette: ThemePalette) -> Style:
    """Return a style for text on a colour: the page's or the figures', by contrast."""
    texts = (_background(palette.page), _foreground(palette.value))
    return Style(color=max(texts, key=lambda text: contrast(text, color)), bgcolor=color)


def _layer(text: str, palette: ThemePalette) -> Style:
    """Return text on a layer of a stack: a hue, as quiet as may be seen beside the page."""
    page = _background(palette.page)
    if page.is_default:
        return Style.parse(text)
    hue = Color.parse(text)
    shades = (mixed(hue, page, share / 20) for share in range(6, 21))
    shade = next((color for color in shades if contrast(color, page) >= _LEAST_LAYER), hue)
    return _text_on(shade, palette) + Style(bold=True)


def mixed(color: Color, other: Color, share: float) -> Color:
    """Return a mixture: `share` of a colour, the rest of the other."""
    pairs = zip(color.get_truecolor(), other.get_truecolor(), strict=True)
    return Color.from_rgb(*(round(share * own + (1 - share) * rest) for own, rest in pairs))


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
