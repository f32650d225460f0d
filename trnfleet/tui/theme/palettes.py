"""The themes' colours: one palette each, as Rich style definitions.

A token may be a colour, an attribute or both. Only this module names colours. Contrasts follow
WCAG: text has at least 4.5:1 on every background used, 7:1 in `high-contrast`; urgent tiles of the
map and lines of charts have at least 3:1. Tests compute them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

HUES = 6
"""Colours for the series of jobs."""


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
    OUTSIDE = "not highlighted"


@dataclass(frozen=True)
class Palette:
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
    ramp: tuple[str, ...]
    """Colours from low to high; empty where the terminal has too few for one."""
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


DARK = Palette(
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
    jobs=("#80b5f9", "#9a63ff", "#299085", "#f8ba8b", "#f8d2e5", "#9ad607"),
    tiles={
        Tile.NORMAL: "#8b949e on #1b2530",
        Tile.WARNING: "bold #0e1116 on #e3b341",
        Tile.CRITICAL: "bold #0e1116 on #ff6b62",
        Tile.IDLE: "#8b949e on #0e1116",
        Tile.RESERVED_IDLE: "#6aa3a0 on #0e1116",
        Tile.PARTLY: "#c9d1d9 on #1b2530",
        Tile.STALE: "#a7b0ba on #30363f",
        Tile.OFFLINE: "#ff8a82 on #0e1116",
        Tile.MISSING: "#7d8590 on #0e1116",
        Tile.OUTSIDE: "#3d4652 on #0e1116",
    },
    # One hue, which is nobody's alarm; eight steps stay distinct and monotone in luminance in 256
    # colours.
    ramp=("#3a6ea5", "#3d81b7", "#4494c8", "#56a9d6", "#73bee2", "#88d0f4", "#a5dcf6", "#c6e7f5"),
    missing="#23282f",
    chart="#5b93c9",
    spark="#456e9a",
    cap="#8b949e",
    threshold="#e3b341",
    gap="#6e7681",
    fill="#5b93c9",
    thumb="on #4b535d",
)
LIGHT = Palette(
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
    jobs=("#196bd2", "#7d01f7", "#184e4a", "#613e20", "#b32690", "#577005"),
    tiles={
        Tile.NORMAL: "#515a64 on #e8edf3",
        Tile.WARNING: "bold #ffffff on #946200",
        Tile.CRITICAL: "bold #ffffff on #c41e2a",
        Tile.IDLE: "#57606a on #ffffff",
        Tile.RESERVED_IDLE: "#1f6f6b on #ffffff",
        Tile.PARTLY: "#24292f on #e8edf3",
        Tile.STALE: "#3f4750 on #ccd3db",
        Tile.OFFLINE: "#b3131f on #ffffff",
        Tile.MISSING: "#6a737d on #ffffff",
        Tile.OUTSIDE: "#b6bfc9 on #ffffff",
    },
    ramp=("#86949f", "#6b8cb0", "#2a85b0", "#4a68ad", "#1f60a8", "#10588a", "#0b4a5c", "#08164d"),
    missing="#e1e6eb",
    chart="#2f6fb0",
    spark="#6f97c2",
    cap="#515a64",
    threshold="#8a5700",
    gap="#737c86",
    fill="#2f6fb0",
    thumb="on #9aa4af",
)
HIGH_CONTRAST = Palette(
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
        Tile.STALE: "#ffffff on #4a4a4a",
        Tile.OFFLINE: "#ffa8a3 on #000000",
        Tile.MISSING: "#bdbdbd on #000000",
        Tile.OUTSIDE: "#8c8c8c on #000000",
    },
    ramp=("#4f7fb5", "#5f9edd", "#65b5ff", "#87cfff", "#a8d8ff", "#c8e4ff", "#e4f4ff", "#ffffff"),
    missing="#303030",
    chart="#7fb8f0",
    spark="#5b8dbf",
    cap="#d6d6d6",
    threshold="#ffd84d",
    gap="#bdbdbd",
    fill="#7fb8f0",
    thumb="on #8c8c8c",
)
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
        Tile.RESERVED_IDLE: "#6f98c8 on #0e1116",
        Tile.OFFLINE: "#ff8f4d on #0e1116",
    },
    # Cividis (Nunez, Anderton, Renslow 2018) from where it stands out against the page.
    ramp=("#4f6f9f", "#606d80", "#81827b", "#9a9477", "#b3a771", "#cdbc67", "#e8d358", "#ffea46"),
    threshold="#f0e442",
)
ANSI = Palette(
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
        Tile.STALE: "magenta",
        Tile.OFFLINE: "bright_red",
        Tile.MISSING: "bright_black",
        Tile.OUTSIDE: "dim",
    },
    ramp=(),
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
