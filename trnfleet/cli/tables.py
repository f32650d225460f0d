"""Text tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_CELL = 400


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned, as plain text; the first row is the heading."""
    cells = [[plain(cell, LONGEST_CELL) for cell in row] for row in rows]
    # The last column needs no padding, and one long cell in it must not widen the others.
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    return [
        "  ".join(
            [*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in cells
    ]
