"""The picture of a line: a strip freed with its last reader.

Textual's strip caches its parts when divided. Without a cut, the part is the strip itself: a cycle,
freed only by the garbage collector. A changing view drops dozens of strips per second, each with
its segments and the caches of both; a minute of them was 2 to 5 MiB of small objects with
long-lived ones between them (measured, 192 chips).
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
        """Return the strips between cuts.

        Without a cut it is the strip itself, which is not cached.
        """
        within = [cut for cut in cuts if cut <= self.cell_length]
        return [self] if within == [self.cell_length] else super().divide(within)
