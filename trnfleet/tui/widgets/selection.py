"""Text selected with the mouse: cells of one widget, from button press to pointer.

Strips carry no data for it, so that painting costs nothing more: a strip is cut up only during a
selection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.geometry import Offset, Region, Size

_SELECTED = Style(reverse=True)


class Selection(NamedTuple):
    """Cells of a widget in the order of reading, both ends included."""

    first: tuple[int, int]
    """Line and column."""
    last: tuple[int, int]

    @staticmethod
    def of(begin: Offset, end: Offset) -> Selection:
        """Return the cells between two, whichever comes first."""
        return Selection(*sorted(((begin.y, begin.x), (end.y, end.x))))

    def columns(self, y: int, width: int) -> tuple[int, int]:
        """Return the columns of line `y` that it has, from and to; equal for none."""
        (top, left), (bottom, right) = self
        if not top <= y <= bottom:
            return 0, 0
        return (left if y == top else 0), (min(width, right + 1) if y == bottom else width)


class SelectableWidget(Widget):
    """A widget of lines with selectable text.

    Subclasses pass their rendered lines through `with_selection`.
    """

    selection: Selection | None = None
    """The selection; None for nothing."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return lines as made.

        With a border, padding or scroll bar, Textual's own way is used; it costs as much as making
        the lines.
        """
        size = self.lines_size()
        if size != self.outer_size:
            return super().render_lines(crop)
        strips: list[Strip] = []
        for y in crop.line_range:
            strip = self.render_line(y)
            if strip.cell_length != size.width:
                fill = Style(bgcolor=self.background_colors[1].rich_color)
                strip = strip.adjust_cell_length(size.width, fill)
            strips.append(strip)
        for line_filter in self.get_line_filters():
            background = self.background_colors[1]
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def lines_size(self) -> Size:
        """Return the cells that lines have room in."""
        return self.size

    def select(self, selection: Selection | None) -> None:
        """Replace the selection."""
        if selection != self.selection:
            self.selection = selection
            self.refresh()

    def selected_text(self) -> str:
        """Return the selected text as on the screen now, without trailing spaces."""
        selection = self.selection
        width = self.size.width
        if selection is None:
            return ""
        self.selection = None
        lines: list[str] = []
        for y in range(selection.first[0], min(selection.last[0], self.size.height - 1) + 1):
            strip = self.render_line(y)
            lines.append(strip.crop(*selection.columns(y, width)).text.rstrip())
        self.selection = selection
        return "\n".join(lines)

    def with_selection(self, y: int, strip: Strip) -> Strip:
        """Return a line with its selected part in reverse."""
        if self.selection is None:
            return strip
        begin, end = self.selection.columns(y, strip.cell_length)
        if begin >= end:
            return strip
        marked = Segment.apply_style(strip.crop(begin, end), post_style=_SELECTED)
        parts = [*strip.crop(0, begin), *marked, *strip.crop(end)]
        return Strip(parts, strip.cell_length)
