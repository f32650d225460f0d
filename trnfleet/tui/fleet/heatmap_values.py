"""Values written into the blocks of the map's chips, if large enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import in_three
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_pixels import CODES, GAP_CODE, HIGH_CODE, LOW_CODE, OUTSIDE_CODE
from trnfleet.tui.fleet.heatmap_zoom import reach
from trnfleet.tui.theme import RAMP_STEPS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.style import Style

    from trnfleet.monitor.store.fields import Field
    from trnfleet.tui.fleet.heatmap_pixels import Image
    from trnfleet.tui.fleet.heatmap_style import Ink, Span

VALUE_CELLS = 4
"""Fewest cells per chip with room for its value."""


class Written(NamedTuple):
    """What is written into the chips, and how."""

    field: Field
    cells: int
    """Of a chip."""
    selected: tuple[int, int]
    """The pixel that the cursor is on."""
    ink: Ink


def write_values(
    spans: dict[int, list[Span]],
    written: Written,
    codes: NDArray[np.int16],
    image: Image,
    pixels: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Write each chip's value into the upper row of its block.

    Args:
        spans: What is written, by rows of the window, to which the values are added.
        written: What is written, and how.
        codes: Looks of the half cells of the window.
        image: The values of the pixels in it.
        pixels: The pixels of its columns and of its half rows.
    """
    across, down = pixels
    wide = written.cells
    columns = reach(across)
    rows = reach(down)
    starts = [at for at in range(len(across) - wide + 1) if _begins(across, at)]
    for row in range(len(down) // 2):
        if down[2 * row] < 0 or (row > 0 and down[2 * row - 1] == down[2 * row]):
            continue
        # In a window that begins amid a block, its upper row is out of sight.
        if row == 0 and len(down) > 2 and down[2] != down[0]:
            continue
        y = int(down[2 * row])
        for at in starts:
            x = int(across[at])
            code = int(codes[2 * row, at])
            if code == GAP_CODE:
                continue
            text = in_three(float(image.values[y - rows[0], x - columns[0]]), written.field.unit)
            chosen = (x, y) == written.selected
            glyph, style = _look(written.ink, code)
            # A value that is not live is surrounded by the glyph of its state.
            shown = f"{text or glyph:{glyph}^{wide}}"[:wide]
            spans.setdefault(row, []).append((at, shown, theme.MAP_CURSOR if chosen else style))


def _look(ink: Ink, code: int) -> tuple[str, Style]:
    if code in {LOW_CODE, HIGH_CODE}:
        return ink.look(code * CODES + code)
    if code < RAMP_STEPS:
        return " ", theme.BASE if ink.digits else theme.RAMP_TEXT[code]
    if code >= OUTSIDE_CODE:
        return " ", theme.GHOST
    glyph, _ = ink.look(code * CODES + code)
    return glyph, theme.QUIET


def _begins(across: NDArray[np.int64], at: int) -> bool:
    """Return whether a pixel begins at a cell of the window."""
    return bool(across[at] >= 0) and (
        (at == 0 and bool((across[:VALUE_CELLS] == across[0]).all()))
        or (at > 0 and bool(across[at - 1] != across[at]))
    )
