"""The base of every live view: a scrolling widget of lines.

Visible lines are made in one batch and compared. There is no widget or node per chip. A view makes
its visible lines, each with a signature; `tick` remakes them and repaints those with a new
signature. Lines are whole: repainting part of a line saves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from trnfleet.tui import theme
from trnfleet.tui.widgets.selection import SelectableWidget
from trnfleet.tui.widgets.targets import Pressed, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from rich.style import Style
    from textual import events


class Line(NamedTuple):
    """A visible line."""

    signature: Hashable
    """Equal signatures mean equal pictures; None is never equal to anything."""
    make: Callable[[], Strip]
    """Makes the picture; called only for repainted lines."""


class PaintedLine(NamedTuple):
    """A line as on the screen."""

    signature: Hashable
    strip: Strip


def text_line(parts: Iterable[tuple[str, Style]], width: int, fill: Style | None = None) -> Line:
    """Return a line of styled texts, cut or filled to `width` cells.

    Texts have printable characters only.
    """
    fixed = tuple(parts)
    fill = theme.BASE if fill is None else fill
    return Line((fixed, width, fill), lambda: make_strip(fixed, width, fill))


def make_strip(parts: Iterable[tuple[str, Style]], width: int, fill: Style | None = None) -> Strip:
    """Return a strip of styled texts, cut or filled to `width` cells."""
    fill = theme.BASE if fill is None else fill
    if not theme.HAS_COLOR and not fill.reverse:
        parts = _trimmed(parts)
    return fitted([Segment(text, style) for text, style in parts], width, fill)


def fitted(segments: list[Segment], width: int, fill: Style) -> Strip:
    """Return a line of a width: cut, or filled in a style."""
    return Strip(Segment.adjust_line_length(segments, width, fill), width)


def _trimmed(parts: Iterable[tuple[str, Style]]) -> Iterator[tuple[str, Style]]:
    """Yield parts without reversed blanks at their ends.

    A column's padding is not part of a highlighted word.
    """
    for text, style in parts:
        body = text.strip()
        if not style.reverse or len(body) == len(text):
            yield text, style
            continue
        before, _, after = text.partition(body) if body else (text, "", "")
        yield from (
            (part, look)
            for part, look in ((before, theme.BASE), (body, style), (after, theme.BASE))
            if part
        )


def blank_line(width: int) -> Line:
    """Return an empty line."""
    return Line(("blank", width), lambda: Strip.blank(width, theme.BASE))


class LineView(ScrollView, SelectableWidget, can_focus=True):
    """A view of lines.

    Subclasses implement `lines` and set `virtual_size` on changes of their extent. `ScrollView` is
    the first base: Textual reads bindings and styles from the first base alone.
    """

    DEFAULT_CSS = (
        "LineView { background: $bg; scrollbar-size-vertical: 1; scrollbar-gutter: auto; }"
    )

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, PaintedLine] = {}
        self.lines_painted = 0
        """Lines remade since the start, for tests and measurements."""

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return `height` lines from line `top` of the content, `width` cells each."""
        raise NotImplementedError

    @property
    def top(self) -> int:
        """First line of the content that is visible."""
        return int(self.scroll_offset.y)

    def tick(self) -> None:
        """Remake the visible lines and repaint changed ones."""
        width, height = self.lines_size()
        if width <= 0 or height <= 0 or not self.is_attached or not self.display:
            return
        made = self._made(width, height)
        painted = self._painted
        due = [
            y
            for y, line in enumerate(made)
            if y not in painted or painted[y].signature != line.signature
        ]
        for y in due:
            painted[y] = PaintedLine(made[y].signature, made[y].make())
        if due:
            self.lines_painted += len(due)
            self.refresh(*(Region(0, y, self.size.width, 1) for y in due))

    def lend(self, rows: int) -> None:
        """Use a number of rows left over by others, or none."""
        self.display = rows > 0
        if rows:
            self.styles.height = rows

    def invalidate(self) -> None:
        """Repaint everything."""
        self._painted.clear()
        self.refresh()
        self.tick()

    def restyle(self) -> None:
        """Repaint in another theme: all previous lines have the old colours."""
        self._painted.clear()
        self.restyled()
        self.refresh()

    def restyled(self) -> None:
        """Drop caches with the old theme's colours before lines are made.

        Nothing to do here.
        """

    def render_line(self, y: int) -> Strip:
        width, height = self.lines_size()
        painted = self._painted.get(y)
        if painted is None or painted.strip.cell_length != width:
            self._painted.update(
                (number, PaintedLine(line.signature, line.make()))
                for number, line in enumerate(self._made(width, height))
            )
            painted = self._painted.get(y)
        strip = Strip.blank(width, theme.BASE) if painted is None else painted.strip
        return self.with_selection(y, strip)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Paint the new window at once when it has moved by a line."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.tick()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Paint the new window at once when it has moved by a column."""
        super().watch_scroll_x(old_value, new_value)
        if round(old_value) != round(new_value):
            self.tick()

    def on_click(self, event: events.Click) -> None:
        """Ask for the target of the text under the pointer."""
        x = event.x
        painted = self._painted.get(event.y)
        for segment in () if painted is None else painted.strip:
            x -= segment.cell_length
            if x < 0:
                target = None if segment.style is None else target_of(segment.style)
                if target is not None:
                    self.post_message(Pressed(target))
                return

    def on_resize(self, _event: events.Resize) -> None:
        """Make everything for the new size."""
        self._painted.clear()
        self.resized()
        self.tick()

    def resized(self) -> None:
        """Adapt to a new size, before lines are made; nothing to do here."""

    def set_extent(self, width: int, height: int) -> None:
        """Set the size of the content, in cells."""
        self.virtual_size = Size(width, height)

    def lines_size(self) -> Size:
        """Return the cells for lines, without scroll bars."""
        return self.scrollable_content_region.size

    def _made(self, width: int, height: int) -> list[Line]:
        made = self.lines(self.top, height, width)[:height]
        made.extend(blank_line(width) for _ in range(height - len(made)))
        return made
