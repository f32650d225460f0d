"""The picture of a line: a strip that is freed with its last reader.

Textual's strip keeps what it was divided into. Where nothing is cut, that is the strip itself: a circle, which only the collector
frees. A view that changes leaves dozens of strips a second, each with its segments and the caches of both; a minute of them was 2 to
5 MiB of small objects, among which lasting ones came to lie (measured, 192 chips).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style


class LineStrip(Strip):
    """A strip of a whole line, as views make them."""

    __slots__ = ()

    @classmethod
    def fitted(cls, segments: list[Segment], width: int, fill: Style) -> LineStrip:
        """Return the strip of some segments, cut or filled to `width` cells."""
        return cls(Segment.adjust_line_length(segments, width, fill), width)

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """Return the strips between some cells; the strip itself, which does not keep it, where it is not cut."""
        within = [cut for cut in cuts if cut <= self.cell_length]
        return [self] if within == [self.cell_length] else super().divide(within)
