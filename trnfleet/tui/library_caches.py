"""Caches of Textual and Rich by what was painted: widths of texts, and regions of the screen that were laid over one another.

They keep thousands of each, most of which never come again: texts have figures in them, and regions are those of lines that changed.
They were full after hours, among objects that last; emptied each minute they hold what a minute needs.
"""

from __future__ import annotations

from rich import cells
from textual.geometry import Region

# Of Textual one version is required; Rich is whichever one that takes, and may have another cache or none.
_WIDTHS = getattr(cells, "cached_cell_len", None)
CACHES = (
    *((_WIDTHS,) if hasattr(_WIDTHS, "cache_clear") else ()),
    Region.contains_region,
    Region.grow,
    Region.intersection,
    Region.overlaps,
    Region.shrink,
    Region.split,
    Region.split_horizontal,
    Region.split_vertical,
    Region.translate,
    Region.union,
)


def empty_caches() -> None:
    """Drop all that they hold: what is painted next is measured once more, in 1 ms for a whole screen."""
    for cache in CACHES:
        cache.cache_clear()
