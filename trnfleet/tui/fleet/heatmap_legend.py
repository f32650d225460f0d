"""The head of the map: field, key of colours or glyphs, chips per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style

from trnfleet.domain.quantities import with_unit
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_health import HEALTH, Health
from trnfleet.tui.fleet.heatmap_pixels import is_count
from trnfleet.tui.fleet.heatmap_style import (
    HIGH_GLYPH,
    LOW_GLYPH,
    MISSING_GLYPH,
    OFFLINE_GLYPH,
    PARTLY_GLYPH,
    STALE_GLYPH,
    tile_at,
    tile_of,
)
from trnfleet.tui.widgets.bar import justified
from trnfleet.tui.widgets.cells import Parts, width_of

if TYPE_CHECKING:
    from trnfleet.tui.fleet.heatmap import HeatMap
    from trnfleet.tui.theme import Tile


def legend(heat: HeatMap, width: int) -> Parts:
    """Return the map's head: field, key of colours or glyphs, and chips per cell.

    Empty without a fleet. The chips per cell are unknown before the map has cells.
    """
    if not heat.grid.groups:
        return []
    amount = count_text(heat) if heat.size.area else ""
    right: Parts = [(f"{amount} ", theme.QUIET)] if amount else []
    if heat.field is HEALTH:
        return _health_legend(heat.shown, right, width)
    field = heat.field
    scale = heat.scale()
    low, high = scale.ends
    form = end_text if not scale.is_automatic else with_unit
    parts = [(f" {field.title} ", theme.STRONG), (f" {form(low, field.unit)} ", theme.QUIET)]
    if heat.ink.digits:
        parts.append(("01234567", theme.BASE))
    else:
        wide = 1 if width < 64 else 2 if width < 100 else 3
        parts.extend((" " * wide, Style(bgcolor=color)) for color in theme.RAMP)
    parts.append((f" {form(high, field.unit)}", theme.QUIET))
    beyond = f"  {LOW_GLYPH}{HIGH_GLYPH} far off  {tile_of(Health.IDLE)[0]} idle"
    signs = (
        beyond if scale.is_automatic else "",
        (
            f"  {STALE_GLYPH} stale  {PARTLY_GLYPH} some stale  {OFFLINE_GLYPH} offline "
            f" {MISSING_GLYPH} n/a"
        ),
    )
    room = width - width_of([*parts, *right]) - 1
    span = " full range"
    if scale.is_automatic:
        whole = " 5th to 95th percentile of busy chips"
        span = whole if len(whole) + len("".join(signs)) <= room else " p5-p95 of busy"
    for text in (span, *signs):
        if width_of([*parts, *right]) + len(text) + 1 > width:
            break
        parts.append((text, theme.QUIET))
    return justified(parts, right, width, theme.BASE)


def _health_legend(shown: frozenset[Tile], right: Parts, width: int) -> Parts:
    """Return the key of the health map, cut to the room.

    Signs on the map come before the others.
    """
    parts: Parts = [(f" {HEALTH.title} ", theme.STRONG)]
    entries: list[Parts] = []
    for health, word in _HEALTH_KEY:
        glyph, style = tile_of(health)
        entries.append(
            [
                (" ", theme.BASE),
                (glyph if glyph.strip() else " ", style),
                (f" {word} ", theme.QUIET),
            ]
        )
    room = width - width_of([*parts, *right])
    chosen: set[int] = set()
    for number in sorted(
        range(len(entries)), key=lambda index: tile_at(_HEALTH_KEY[index][0]) not in shown
    ):
        room -= width_of(entries[number])
        if room < 0:
            break
        chosen.add(number)
    parts += [part for number in sorted(chosen) for part in entries[number]]
    return justified(parts, right, width, theme.BASE)


_HEALTH_KEY = (
    (Health.CRITICAL, "critical"),
    (Health.WARNING, "warning"),
    (Health.NORMAL, "normal"),
    (Health.IDLE, "idle"),
    (Health.STALE, "stale"),
    (Health.OFFLINE, "offline"),
    (Health.RESERVED_IDLE, "reserved, idle"),
    (Health.MISSING, "n/a"),
)
"""The health map's key, the most important first."""


def count_text(heat: HeatMap) -> str:
    """Return the number of chips per cell and the statistic; empty for one or less."""
    zoom = heat.zoom
    field = heat.field
    chips = zoom.chips**2
    noun = "chips or rows" if heat.monitor.store.layout.has_rolled else "chips"
    is_health = field is HEALTH
    what = "cell"
    if zoom.height == 1:
        # Two pixels share a cell; of health the worse one has it.
        chips, what = (2 * chips, "cell") if is_health else (chips, "half a cell")
    if chips == 1:
        return ""
    statistic = (
        "worst" if is_health else "total" if is_count(field) else "max" if field.is_max else "mean"
    )
    return f"{what}: {chips:,} {noun}, {statistic}"


def end_text(value: float, unit: str) -> str:
    """Return a value at an end of the scale: a round number, so without tenths."""
    if unit in {"%", "degC"}:
        return with_unit(value, unit).replace(".0 ", " ")
    return with_unit(value, unit)
