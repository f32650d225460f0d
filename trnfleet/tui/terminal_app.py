"""What every screen of the app has in common: its terminal, its themes, the styles of what is shown, and how a crash is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.scrollbar import ScrollBar, ScrollBarRender

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
"""The time without another size after which a window is not dragged about any more."""
_TOLD_AT_START = 2


class WholeCellBars(ScrollBarRender):
    """Scroll bars whose ends are whole cells: what stands in for parts of one in ASCII is as high as any other character."""

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
        for each in theme.textual_themes():
            self.register_theme(each)
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
        """Return none of Textual's: that for ANSI colours is a third of a frame, that for NO_COLOR sends greys."""
        return () if theme.HAS_COLOR else (self._no_colors,)

    def update_styles(self, node: DOMNode, animate: bool = True) -> None:
        """Update the styles of a node and of what is in it; a view that is not shown gets its own when it is."""
        if isinstance(node, App):
            super().update_styles(node, animate)
        else:
            self.stylesheet.update_nodes(shown_nodes(node), animate=animate)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, or ours in place of the one for terminals."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def on_resize(self, event: Resize) -> None:
        """Draw everything again soon after a window has got another size.

        Textual looks at the last of several sizes and draws only what that one has moved. The terminal took all of them, has
        cut what did not fit one, and has drawn in its new size what was meant for the one before. At the start Textual and
        the driver tell the same size, and neither finds anything drawn.
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
        """Take the terminal no more once it is given back, because a signal has asked for the end."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.is_ending = True

    def _fatal_error(self) -> None:
        """Print what ends the app, without the values of local variables: those may be anybody's messages, or a secret."""
        # With its lexers this takes 40 ms, which no start should wait for.
        from rich.segment import Segments  # noqa: PLC0415
        from rich.traceback import Traceback  # noqa: PLC0415

        self.bell()
        trace = Traceback(show_locals=False, width=None)
        self._exit_renderables.append(Segments(self.console.render(trace, self.console.options)))
        self._close_messages_no_wait()
