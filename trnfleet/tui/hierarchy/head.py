"""The tree-table's head: titles and units above its columns, and the mark of what it is sorted by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui import theme
from trnfleet.tui.hierarchy import columns
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from rich.style import Style
    from textual import events

    from trnfleet.tui.hierarchy.table import TreeTable


class TreeHead(LineView, can_focus=False):
    """The columns' titles and units; a click on one sorts by it."""

    DEFAULT_CSS = "TreeHead { height: 2; }"

    def __init__(self, table: TreeTable) -> None:
        super().__init__()
        self._table = table

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the two lines of the head."""
        del top, height
        titles: list[tuple[str, Style]] = []
        units: list[tuple[str, Style]] = []
        for column in self._table.plan.columns:
            title, unit, style = column.title, column.unit, theme.HEAD
            if column.key == self._table.sorting.key:
                title = ("▼" if self._table.sorting.descending else "▲") + title
                style = theme.HEAD_ACCENT
            if column.key == columns.SPARK and self._table.is_sped_up:
                # History has a sample for each second of the wall clock.
                unit += " wall"
            titles.append((_placed(title, column), style))
            units.append((_placed(unit, column), theme.HEAD))
        return [text_line(parts, width, theme.HEAD) for parts in (titles, units)]

    def on_click(self, event: events.Click) -> None:
        """Sort by the column that was clicked."""
        column = self._table.plan.column_at(event.x)
        if column is not None and column.key in self._table.plan.sortable:
            self._table.sort_by(column.key)
            self.tick()


def _placed(text: str, column: columns.TreeColumn) -> str:
    """Return a head's text above the column's values."""
    if not column.is_left:
        return text[: column.width].rjust(column.width)
    gap = 3 if column.key == columns.NAME else 2 if column.key == columns.JOB else 1
    if column.key == columns.SPARK:
        gap = 2
    if text[:1] in {"▲", "▼"} and column.key == columns.NAME:
        gap -= 1
    return (" " * gap + text)[: column.width].ljust(column.width)
