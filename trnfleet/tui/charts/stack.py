"""Stacked areas and histograms: pure functions from values to styled texts.

In colour, two layers meet in a cell at an eighth of its height. Without colour or in ASCII, each
layer has a fill of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.style import Style

from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.widgets.cells import FixedParts, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EIGHTHS = " ▁▂▃▄▅▆▇█"
FILLS = "█▓▒░▚▞"
"""Fills of layers where colours cannot tell them apart."""
_STEPS = len(EIGHTHS) - 1


class Layer(NamedTuple):
    """One layer of a stack."""

    name: str
    style: Style
    values: Floats
    """One per column; NaN counts as nothing."""


def fill_of(number: int) -> str:
    """Return the sign of a layer in a legend."""
    return FILLS[number % len(FILLS)] if is_filled() else "■"


def is_filled() -> bool:
    """Return whether layers have fills of their own."""
    return theme.is_ascii or not theme.HAS_COLOR


def stack(
    layers: Sequence[Layer],
    known: NDArray[np.bool_],
    top: float,
    height: int,
    cap_row: int | None,
    before: str,
) -> list[FixedParts]:
    """Return a stacked area, top line first; the first layer is the lowest.

    Args:
        layers: At least one.
        known: Columns with data.
        top: Value at the upper end.
        height: Lines.
        cap_row: Line of the cap, drawn where nothing is above it; None for none.
        before: Why there is nothing in the first columns.
    """
    colors = [layer.style.color for layer in layers]
    values = np.stack([np.nan_to_num(layer.values) for layer in layers])
    levels = np.rint(np.cumsum(values, axis=0) * _STEPS * height / top).astype(np.int64)
    bottoms = _STEPS * np.arange(height - 1, -1, -1)[:, np.newaxis, np.newaxis]
    lower = (levels <= bottoms).sum(axis=1)
    upper = (levels < bottoms + _STEPS).sum(axis=1)
    middle = (levels < bottoms + _STEPS // 2).sum(axis=1)
    ends = np.vstack([levels, np.zeros_like(levels[:1])])
    edge = np.clip(ends[lower, np.arange(levels.shape[1])] - bottoms[:, 0], 0, _STEPS)
    none = len(layers)
    codes = np.where(known, (lower * (none + 1) + upper) * (_STEPS + 1) + edge, -1)
    if is_filled():
        codes = np.where(known, middle, -1)
    made: list[FixedParts] = []
    for row, runs in enumerate(plot.row_runs(codes)):
        parts: list[tuple[str, Style]] = []
        for first, after, code in runs:
            cells = after - first
            at = code if is_filled() else code // (_STEPS + 1) // (none + 1)
            if code < 0:
                text = (
                    _gap_text(before if not first else "no telemetry", cells)
                    if row == height // 2
                    else ""
                )
                parts.append((fit(text.center(cells), cells), theme.CHART_GAP))
            elif at == none:
                look = ("╌", theme.CHART_CAP) if row == cap_row else (" ", theme.BASE)
                parts.append((look[0] * cells, look[1]))
            elif is_filled():
                parts.append((FILLS[at % len(FILLS)] * cells, layers[at].style))
            else:
                pair, eighths = divmod(code, _STEPS + 1)
                above = pair % (none + 1)
                style = Style(color=colors[at])
                if eighths < _STEPS and above < none:
                    style += Style(bgcolor=colors[above])
                else:
                    style = theme.BASE + style
                parts.append((EIGHTHS[eighths] * cells, style))
        made.append(tuple(parts))
    return made


def _gap_text(text: str, cells: int) -> str:
    """Return the reason for columns without data, where it fits."""
    return text if len(text) + 2 <= cells else ""


def histogram(bins: Sequence[tuple[str, int]], width: int, style: Style) -> list[FixedParts]:
    """Return a line per bin: its name, its number and a bar.

    Args:
        bins: Names and numbers, in their order.
        width: Cells of a line.
        style: Of the bars.
    """
    name = max(len(text) for text, _ in bins)
    digits = max(len(f"{number:,}") for _, number in bins)
    room = max(1, width - name - digits - 3)
    most = max(1, *(number for _, number in bins))
    made: list[FixedParts] = []
    for text, number in bins:
        # A bin with anything in it has a square at least.
        cells = -(-number * room // most)
        made.append(
            (
                (f"{text:<{name}} ", theme.QUIET),
                (f"{number:>{digits},} ", theme.BASE if number else theme.GHOST),
                ("■" * cells, style),
            )
        )
    return made
