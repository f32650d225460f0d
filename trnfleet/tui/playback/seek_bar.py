"""The seek bar: one line with position, bar, marks and both ends.

A click or drag on the bar seeks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from trnfleet.tui import theme
from trnfleet.tui.playback.seek_bar_format import Seek, marked_cells, seek_line, time_at
from trnfleet.tui.widgets.bar import Bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.monitor.replay.marks import Mark
    from trnfleet.tui.playback.seek_bar_format import Marked
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cells import Parts


class SeekBar(Bar):
    """The line of a playback, read only; a click or drag posts `Sought`."""

    DEFAULT_CSS = "SeekBar { display: none; } SeekBar.-shown { display: block; }"

    class Sought(Message):
        """A time was clicked, or the pointer was dragged to it."""

        def __init__(self, time_ns: int, *, is_end: bool) -> None:
            super().__init__()
            self.time_ns = time_ns
            self.is_end = is_end
            """Whether the end is meant, even if it has moved since."""

    def __init__(self, playback: Playback | None, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(fill=lambda: theme.BAR_SEEK, id=id)
        self._playback = playback
        self._of: UiContext | None = None
        self._track = range(0)
        self._drawn: Seek | None = None
        self._marked_marks: Sequence[Mark] = ()
        self._marked_of: tuple[int, ...] = ()
        self._marked_cells: Marked = {}
        self._pulled = -1
        """Cell of the bar under the dragged pointer; -1 while no button is down."""
        self._held: tuple[Seek, range] | None = None
        """The bar as drawn when the button went down. During a drag, a cell means the same time."""

    def show_playback(self, playback: Playback | None, context: UiContext | None = None) -> None:
        """Show another playback from now on, and how far the history of its fleet reaches."""
        self._of = context
        self._playback = playback
        self._drawn = None
        self._held = None
        self._marked_marks = ()
        self._marked_of = ()

    @property
    def shown(self) -> UiContext | None:
        """The fleet that is shown."""
        return self._of

    @property
    def track(self) -> range:
        """Cells of the line used by the bar."""
        return self._track

    def follow(self) -> None:
        """Show the playback as it is now."""
        playback = self._playback
        if playback is not None:
            self._drawn = Seek.of(playback, 0 if self._of is None else self._of.kept_s)
            self.show(self._line)

    def _line(self, width: int) -> list[Parts]:
        if self._playback is None or self._drawn is None:
            return []
        line = seek_line(self._drawn, width, self._playback.marks, self._marked)
        self._track = line.track
        return [line.parts]

    def _marked(self, marks: Sequence[Mark], seek: Seek, cells: int) -> Marked:
        """Return the marked cells.

        They are cached until a mark or an end moves by a cell: there may be many marks.
        """
        cell_ns = max(1, seek.span_ns // cells)
        key = (len(marks), seek.start_ns // cell_ns, seek.end_ns // cell_ns, cells)
        if marks is not self._marked_marks or key != self._marked_of:
            self._marked_marks = marks
            self._marked_of = key
            self._marked_cells = marked_cells(marks, seek, cells)
        return self._marked_cells

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Seek to the pointer, and follow it until the button is released."""
        if event.x in self._track and self._drawn is not None:
            self._held = self._drawn, self._track
            self.capture_mouse()
            self._pull(event.x)
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the pointer while the button is down."""
        if self._held is not None:
            self._pull(event.x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Stop following the pointer."""
        self._pulled = -1
        self._held = None
        self.release_mouse()
        event.stop()

    def _pull(self, x: int) -> None:
        if self._held is None:
            return
        drawn, track = self._held
        cell = min(max(x - track.start, 0), len(track) - 1)
        if cell != self._pulled:
            self._pulled = cell
            time_ns = time_at(cell, drawn, len(track))
            self.post_message(self.Sought(time_ns, is_end=time_ns >= drawn.end_ns))
