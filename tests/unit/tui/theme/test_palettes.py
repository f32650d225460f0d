"""Legibility and distinctness of everything in every theme."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.color import Color, ColorSystem, ColorType
from rich.style import Style

from trnfleet.cli.app_options import THEMES
from trnfleet.domain.severity import Severity
from trnfleet.tui import theme
from trnfleet.tui.theme import RAMP_STEPS, Tile
from trnfleet.tui.theme.palettes import (
    ANSI,
    HUES,
    MONOCHROME,
    PALETTES,
    ThemePalette,
    contrast,
    styles_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_COLOUR = [each for each in PALETTES.values() if each not in (ANSI, MONOCHROME)]
LINES = (
    "RULE",
    "CHART",
    "SPARK",
    "CHART_CAP",
    "CHART_THRESHOLD",
    "CHART_GAP",
    "FILL",
    "FILL_WARNING",
    "FILL_DIM",
)
"""Styles of lines and areas, never used for text."""
FILLS = ("CURSOR_FILL", "SURFACE_FILL")
SEEN = 3.0
READ = 4.5
READ_WELL = 7.0
"""Least contrasts after WCAG: of graphics, of text, and of text in AAA."""
LEAST_DISTANCE = 15.0
"""Least CIE 1976 distance of two colours distinct at a glance as thin lines."""
# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
DEFICIENCIES: dict[str, list[list[float]]] = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [
        [0.3673, 0.8606, -0.2280],
        [0.2801, 0.6725, 0.0474],
        [-0.0118, 0.0429, 0.9690],
    ],
}


def every_style(made: dict[str, Any]) -> Iterator[tuple[str, Style]]:
    """Yield the styles of a theme with their names."""
    for name, value in made.items():
        several = (
            value
            if isinstance(value, dict)
            else dict(enumerate(value))
            if isinstance(value, tuple)
            else {"": value}
        )
        yield from (
            (f"{name} {key}".strip(), style)
            for key, style in several.items()
            if isinstance(style, Style)
        )


def texts(palette: ThemePalette) -> Iterator[tuple[str, Style]]:
    """Yield the styles of text, on every background used."""
    made = styles_of(palette)
    for name, style in every_style(made):
        if name.split()[0] not in (*LINES, *FILLS) and name != f"TILE_STYLE {Tile.OUTSIDE}":
            yield name, style
        if name.split()[0] in {"SEVERITY_STYLE", "STATE_STYLE"}:
            yield f"selected {name}", style + made["CURSOR_FILL"]
            yield f"on a head {name}", style + made["SURFACE_FILL"]


def of(style: Style) -> float:
    """Return the contrast of a style."""
    assert style.color is not None
    assert style.bgcolor is not None
    return contrast(style.color, style.bgcolor)


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_all_text_can_be_read(palette: ThemePalette) -> None:
    """Text has enough contrast.

    No style uses the terminal's dim, with its unknown colour.
    """
    found = {name: round(of(style), 2) for name, style in texts(palette)}
    if palette.name == "high-contrast":
        # Ramps and layers of stacks cannot be far from both ends of luminance.
        assert {
            name: each
            for name, each in found.items()
            if each < READ_WELL and not name.startswith(("RAMP", "LAYERS"))
        } == {}
    assert {name: each for name, each in found.items() if each < READ} == {}
    assert [name for name, style in texts(palette) if style.dim] == []


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_lines_and_tiles_can_be_seen(palette: ThemePalette) -> None:
    made = styles_of(palette)
    page = made["BACKGROUND"]
    colors = {
        name: style.color or Color.default()
        for name, style in every_style(made)
        if name.split()[0] in {*LINES, "JOB_STYLES"}
    }
    colors |= {
        f"ramp {name} {step}": color
        for name, ramp in made["RAMPS"].items()
        for step, color in enumerate(ramp)
    }
    colors |= {f"layer {step}": style.bgcolor for step, style in enumerate(made["LAYERS"])}
    colors |= {f"tile {tile}": made["TILE_COLOR"][tile] for tile in Tile}
    # What decorates, and what is quiet on purpose: a tile in its band shows a glyph, which is text.
    quiet = {
        "RULE",
        "FILL_DIM",
        *(
            f"tile {tile}"
            for tile in (Tile.NORMAL, Tile.PARTLY, Tile.STALE, Tile.VICTIM, Tile.OUTSIDE)
        ),
    }
    assert {
        name: color
        for name, color in colors.items()
        if name not in quiet and contrast(color, page) < SEEN
    } == {}


@pytest.mark.parametrize("palette", PALETTES.values(), ids=lambda each: each.name)
def test_tiles_differ_by_glyph_and_by_colour(palette: ThemePalette) -> None:
    looks = styles_of(palette)["TILE_STYLE"]
    assert set(looks) == set(theme.TILE_GLYPH) == set(Tile)
    assert len({theme.to_ascii(glyph) for glyph in theme.TILE_GLYPH.values()}) == len(Tile)
    if palette.has_color:
        assert len(set(looks.values())) == len(Tile)


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_reserved_and_idle_is_calmer_than_a_warning(palette: ThemePalette) -> None:
    """Reserved and idle is no alarm.

    It is thin where a warning is filled, and differs in hue and brightness from its words.
    """
    made = styles_of(palette)
    page, looks = made["BACKGROUND"], made["TILE_STYLE"]
    calm, warning = looks[Tile.RESERVED_IDLE], made["SEVERITY_STYLE"][Severity.WARNING]
    assert not calm.bold
    assert contrast(calm.bgcolor, page) < contrast(looks[Tile.WARNING].bgcolor, page)
    assert contrast(calm.color, page) < contrast(warning.color, page)
    for style in (warning.color, looks[Tile.WARNING].bgcolor, looks[Tile.IDLE].color):
        assert (
            math.dist(*(lab(each, DEFICIENCIES["none"]) for each in (calm.color, style)))
            >= LEAST_DISTANCE
        )


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_jobs_are_told_apart_whatever_colours_one_sees(palette: ThemePalette) -> None:
    colors = [Color.parse(each) for each in palette.jobs]
    assert len(colors) == HUES
    for name, matrix in DEFICIENCIES.items():
        seen = [lab(color, matrix) for color in colors]
        pairs = itertools.combinations(range(HUES), 2)
        near = {(palette.jobs[a], palette.jobs[b]): math.dist(seen[a], seen[b]) for a, b in pairs}
        assert {pair: far for pair, far in near.items() if far < LEAST_DISTANCE} == {}, name


def lab(color: Color, matrix: list[list[float]]) -> tuple[float, float, float]:
    """Return a colour as it is seen with a deficiency, in CIE L*a*b*."""
    shares = np.array(color.get_truecolor()) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    r, g, b = np.clip(np.array(matrix) @ linear, 0, 1).tolist()
    white = (0.95047, 1.0, 1.08883)
    xyz = (
        0.4124 * r + 0.3576 * g + 0.1805 * b,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        0.0193 * r + 0.1192 * g + 0.9505 * b,
    )
    x, y, z = (
        (share / of) ** (1 / 3) if share / of > 0.008856 else 7.787 * share / of + 16 / 116
        for share, of in zip(xyz, white, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_the_ramp_is_distinct_and_monotone_in_256_colours(palette: ThemePalette) -> None:
    page = Color.parse(palette.page.removeprefix("on "))
    for ramp in (palette.ramp, palette.busy_ramp, palette.heat_ramp):
        steps = [Color.parse(each).downgrade(ColorSystem.EIGHT_BIT) for each in ramp]
        rises = [contrast(color, page) for color in steps]
        assert len(set(steps)) == len(steps) == RAMP_STEPS
        assert rises == sorted(rises)


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_calm_chips_are_of_two_tones_and_victims_are_duller_than_causes(
    palette: ThemePalette,
) -> None:
    """Idle and busy differ by 1.5:1 at most, and causes by 3:1 from both and from victims."""
    made = styles_of(palette)
    loads = made["LOADS"]
    tiles = made["TILE_STYLE"]
    assert 1.2 < contrast(loads[0], loads[-1]) <= 1.5
    for cause in (Tile.WARNING, Tile.CRITICAL):
        for calm in (*loads, tiles[Tile.VICTIM].bgcolor):
            assert contrast(tiles[cause].bgcolor, calm) >= SEEN


@pytest.mark.parametrize("palette", IN_COLOUR, ids=lambda each: each.name)
def test_areas_can_be_seen_on_the_shade_of_their_bands(palette: ThemePalette) -> None:
    made = styles_of(palette)
    for areas in made["AREAS"].values():
        shade = areas[0].bgcolor
        assert 1.05 < contrast(shade, made["BACKGROUND"]) < 1.6
        assert min(contrast(style.color, shade) for style in areas) > 2.5


def test_ansi_is_the_terminals_own_colours() -> None:
    types = {
        part.type
        for _, style in every_style(styles_of(ANSI))
        for part in (style.color, style.bgcolor)
        if part
    }
    assert types == {ColorType.STANDARD}


def test_monochrome_has_no_colours() -> None:
    made = styles_of(MONOCHROME)
    assert {part for _, style in every_style(made) for part in (style.color, style.bgcolor)} == {
        None
    }
    assert {
        value for name, value in made["VARIABLES"].items() if not name.endswith("text-style")
    } == {"ansi_default"}


def test_the_command_line_has_all_themes() -> None:
    assert THEMES == theme.NAMES
    assert [each.name for each in theme.textual_themes()] == list(THEMES)


@pytest.mark.parametrize(
    ("system", "no_color", "name"),
    [
        ("truecolor", False, "dark"),
        ("256", False, "dark"),
        ("standard", False, "ansi"),
        (None, False, "monochrome"),
        ("truecolor", True, "monochrome"),
    ],
)
def test_the_theme_that_fits_the_terminal(system: str | None, no_color: bool, name: str) -> None:
    assert theme.default_for(system, no_color=no_color) == name


def test_jobs_keep_their_colours() -> None:
    """A job has the colour of its name.

    Of two with the same one, the second by name has another.
    """
    names = [f"job-{number}" for number in range(HUES)]
    slots = theme.job_slots(names)
    assert sorted(slots.values()) == list(range(HUES))
    assert theme.job_slots(["job-3"]) == {"job-3": theme.job_slot("job-3")}
    assert set(theme.job_slots([*names, "job-9"])) == {*names, "job-9"}
