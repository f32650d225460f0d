"""The common base of all screens: terminal, themes, styles, crash reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.worker import WorkerFailed

from trnfleet.tui import theme
from trnfleet.tui.terminal import NoColors, TerminalDriver
from trnfleet.tui.view import shown_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.events import Resize
    from textual.filter import LineFilter
    from textual.geometry import Size
    from textual.timer import Timer

_RESIZED_WITHIN_S = 0.05
"""Seconds without a further size before a drag of the window counts as ended."""
_TOLD_AT_START = 2


def cause_of(error: BaseException) -> BaseException:
    """Return the cause of a worker's failure, or the error itself."""
    return error.error if isinstance(error, WorkerFailed) else error


class WholeCellBars(ScrollBarRender):
    """Scroll bars with whole cells at their ends.

    In ASCII, a partial cell's twin is as high as any other character.
    """

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


class TerminalApp(App[None]):
    """An app on our driver of terminals, in our themes."""

    _sizes_told: tuple[Size, ...] = ()
    _last_resize: Timer | None = None

    def take_theme(self, name: str | None, *, ascii_only: bool) -> None:
        """Register our themes in place of Textual's, and begin with one of them.

        Args:
            name: One of `theme.NAMES`; None for the one that fits the terminal.
            ascii_only: Whether the terminal gets ASCII only.
        """
        self._no_colors = NoColors()
        for textual_theme in theme.textual_themes():
            self.register_theme(textual_theme)
        if name is None or self.no_color:
            name = theme.default_for(self.console.color_system, no_color=self.no_color)
        theme.use(name, ascii_only=ascii_only)
        ScrollBar.renderer = WholeCellBars if ascii_only else ScrollBarRender
        self.theme = name
        for other in set(self.available_themes).difference(theme.NAMES):
            self.unregister_theme(other)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of the style sheets."""
        return theme.VARIABLES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return none of Textual's filters.

        The ANSI one costs a third of a frame; the NO_COLOR one sends greys.
        """
        return () if theme.HAS_COLOR else (self._no_colors,)

    def update_styles(self, node: DOMNode, animate: bool = True) -> None:
        """Update the styles of a node and its content.

        A hidden view gets its own once shown.
        """
        if isinstance(node, App):
            super().update_styles(node, animate)
        else:
            self.stylesheet.update_nodes(shown_nodes(node), animate=animate)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, or ours in place of the one for terminals."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def on_resize(self, event: Resize) -> None:
        """Redraw everything soon after a resize of the window.

        Textual reads the last of several sizes and redraws only the parts moved by it. The terminal
        went through all of them, has cut everything too wide for one, and has drawn output for an
        earlier size in its new one. At the start Textual and the driver report the same size, and
        nothing is drawn yet.
        """
        if len(self._sizes_told) < _TOLD_AT_START:
            self._sizes_told += (event.size,)
            if len(set(self._sizes_told)) == 1:
                return
        if self._last_resize is not None:
            self._last_resize.stop()
        self._last_resize = self.set_timer(_RESIZED_WITHIN_S, self._draw_again)

    def _draw_again(self) -> None:
        self._last_resize = None
        # An app that ends at once has no screen any more.
        if self.screen_stack:
            self.screen.refresh()

    def action_suspend_process(self) -> None:
        """Stop until the shell continues the job."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.stop_job()

    def stay_off_terminal(self) -> None:
        """Never acquire the terminal again: a signal has asked for the end."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.is_ending = True

    def _fatal_error(self) -> None:
        """Print a fatal error without the values of local variables.

        They may be messages or a secret.
        """
        # With its lexers this takes 40 ms, which no start should wait for.
        from rich.segment import Segments  # noqa: PLC0415
        from rich.traceback import Traceback  # noqa: PLC0415

        self.bell()
        cause = cause_of(self._exception or RuntimeError("unknown"))
        trace = Traceback.from_exception(
            type(cause), cause, cause.__traceback__, show_locals=False, width=None
        )
        self._exit_renderables.append(Segments(self.console.render(trace, self.console.options)))
        self._close_messages_no_wait()
