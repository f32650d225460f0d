"""Caches of Textual and Rich by painted content: text widths and overlapped regions.

Each stores thousands of entries, and most never recur: texts contain figures, and regions are those
of changed lines. They were full after hours, among long-lived objects; emptied each minute, they
have the entries of a minute.
"""

from __future__ import annotations

from rich import cells
from textual.geometry import Region

# Of Textual one version is required; Rich is whichever one that takes, and may have another cache
# or none.
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
    """Drop all entries.

    The next paint measures again: 1 ms for a whole screen.
    """
    for cache in CACHES:
        cache.cache_clear()
