"""The key that saves the screen: as a picture, and its rows as a table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from trnfleet import folders
from trnfleet.clock import format_basic
from trnfleet.domain.quantities import count, counted
from trnfleet.errors import TrnfleetError
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.actions.cursor_keys import CursorKeys
from trnfleet.tui.help import HelpScreen
from trnfleet.tui.snapshots.files import snapshot_folder, write_snapshot
from trnfleet.tui.snapshots.svg import picture
from trnfleet.tui.snapshots.table import MOST_ROWS, Table, csv_text
from trnfleet.tui.theme.glyphs import to_ascii

if TYPE_CHECKING:
    from pathlib import Path

    from rich.style import Style


Lines = list[list[tuple[str, "Style | None"]]]


class SnapshotKeys(CursorKeys):
    """An app with this key."""

    HELP_TITLE = "Everywhere"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "snapshot", "save the screen as SVG, and the view's rows as CSV"),
    ]

    @property
    def view_title(self) -> str:
        """Title of the view on the screen."""
        raise TypeError(f"{type(self).__name__} does not implement view_title")

    async def paint_whole(self) -> None:
        """Paint all of the view at one moment; return once the screen has it."""
        raise TypeError(f"{type(self).__name__} does not implement paint_whole()")

    async def action_snapshot(self) -> None:
        """Write the files of one finished paint, and show their paths.

        Keys wait for the paint, but not for the files.
        """
        await self.paint_whole()
        shown = self.screen
        is_help = isinstance(shown, HelpScreen)
        lines, table = self._drawn_lines(), Table() if is_help else self.page.export()
        fleet, size = (
            plain(self.context.monitor.fleet_name, 64),
            (self.size.width, self.size.height),
        )
        screen_title = "Help" if is_help else self.view_title
        title = f"trnfleet: {screen_title} of {fleet}"
        name = (
            f"{fleet}-{screen_title.lower()}-{format_basic(self.context.monitor.moment().time_ns)}"
        )

        def say(text: str, *, is_problem: bool = False) -> None:
            self._say(text, is_problem=is_problem)
            if isinstance(shown, HelpScreen):
                shown.tell(text)

        def write() -> Path:
            texts = {".svg": picture(lines, size, title)}
            if table.columns:
                texts[".csv"] = csv_text(table)
            return write_snapshot(snapshot_folder(), name, texts)

        async def save() -> None:
            try:
                path = await asyncio.to_thread(write)
            except (TrnfleetError, OSError) as error:
                say(f"not saved: {plain(str(error), 400)}", is_problem=True)
            else:
                say(_saved_text(path, table))

        self.run_worker(save(), name="snapshot", exit_on_error=True)

    def _drawn_lines(self) -> Lines:
        """Return the screen as the terminal has it."""
        strips = self.screen._compositor.render_strips()  # noqa: SLF001  no public name; pinned and tested
        shown = to_ascii if theme.is_ascii else str
        return [
            [(shown(text), style) for text, style, _ in strip]
            for strip in strips[: self.size.height]
        ]


def _saved_text(path: Path, table: Table) -> str:
    """Return the names, the number of rows and the folder of the written files."""
    rows = counted(len(table.rows), "row")
    if table.total:
        rows = f"the first {count(MOST_ROWS)} of {count(table.total)} rows"
    name = plain(path.name)
    files = f"{name} and .csv ({rows})" if table.columns else name
    return f"saved {files} in {plain(folders.named(path.parent), 400)}"
