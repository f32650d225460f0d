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
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EIGHTHS = np.array(list(" ▁▂▃▄▅▆▇█"))
FILLS = "█▓▒░▚▞"
"""Fills of layers where colours cannot tell them apart."""
_STEPS = len(EIGHTHS) - 1


class Layer(NamedTuple):
    """One layer of a stack."""

    name: str
    style: Style
    """Of a text upon it, or only a colour."""
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
    cap_rows: Sequence[int],
    gaps: Mapping[int, str],
) -> list[FixedParts]:
    """Return a stacked area, top line first; the first layer is the lowest.

    Args:
        layers: At least one.
        known: Columns with data.
        top: Value at the upper end.
        height: Lines.
        cap_rows: Lines of caps, drawn where nothing is above them.
        gaps: Why there is nothing, by the first column of a gap.
    """
    colors = [layer.style.bgcolor or layer.style.color for layer in layers]
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
    else:
        _put_names(codes, layers)
    made: list[FixedParts] = []
    for row, runs in enumerate(plot.row_runs(codes)):
        parts: list[tuple[str, Style]] = []
        for first, after, code in runs:
            cells = after - first
            at = code if is_filled() else code // (_STEPS + 1) // (none + 1)
            if code < -1:
                layer = layers[-2 - code]
                parts.append((f" {layer.name} "[:cells], layer.style))
            elif code < 0:
                text = gaps.get(first, "") if row == height // 2 else ""
                text = text if len(text) + 2 <= cells else ""
                parts.append((fit(text.center(cells), cells), theme.CHART_GAP))
            elif at == none:
                look = ("╌", theme.CHART_CAP) if row in cap_rows else (" ", theme.BASE)
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
                parts.append((str(EIGHTHS[eighths]) * cells, style))
        made.append(tuple(parts))
    return made


def _put_names(codes: NDArray[np.int64], layers: Sequence[Layer]) -> None:
    """Put the names of layers where one fills a row for their length: -2 for the first layer."""
    known = np.flatnonzero(codes[0] != -1)
    first = int(known[0]) + 2 if len(known) else 0
    for number, layer in enumerate(layers):
        span = slice(first, first + len(layer.name) + 2)
        whole = number * (len(layers) + 2) * (_STEPS + 1) + _STEPS
        rows = np.flatnonzero((codes[:, span] == whole).all(axis=1))
        if layer.name and layer.style.bgcolor and len(rows) and span.stop <= codes.shape[1]:
            codes[rows[len(rows) // 2], span] = -2 - number


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
