"""The app's terminal: its driver, themes, pace and crash reports.

Textual's driver has these faults. It draws on stderr, possibly a file. It stops with SIGSTOP;
without job control by a shell nothing wakes it again. Continued after a SIGSTOP from outside, it
acquires a terminal it already has. It wakes up ten times a second to poll for keys, a twentieth of
the cost of an app of a small fleet. This driver draws on stdout, a terminal whenever the app
starts, and sleeps until there is input.

No output is queued beyond the terminal's speed, so that keys stay quick on a slow line. Textual
writes from a thread with a queue of 30 frames and does not show its length.

This module uses private names of Textual's; its version is pinned for them, and tests check them.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import threading
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize
from textual.filter import LineFilter
from textual.geometry import Size
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.worker import WorkerFailed

from trnfleet.tui import theme
from trnfleet.tui.app.input import InputApp, InputParser
from trnfleet.tui.theme.glyphs import ERRORS
from trnfleet.tui.view import shown_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer
    from textual.color import Color
    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.timer import Timer

RESET = b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?7h\x1b[<u\x1b[?25h\x1b[?1049l"  # noqa: E501
"""Mouse, paste, focus and key modes off, wrap and cursor on, main screen."""
_CONTINUED_WITHIN_S = 0.05
"""Wait after a stop for the handler of SIGCONT; another thread may receive it."""
_RESIZED_WITHIN_S = 0.05
"""Seconds without a further size before a drag of the window counts as ended."""
_TOLD_AT_START = 2


class _WakingEvent(threading.Event):
    """An event with a file: setting it also wakes a select while open."""

    def __init__(self) -> None:
        super().__init__()
        self._files: tuple[int, int] | None = None

    def open(self) -> None:
        """Open its files; without any it is an event like any other."""
        self.close()
        self._files = os.pipe()

    def close(self) -> None:
        """Close its files."""
        files = self._files or ()
        self._files = None
        for file in files:
            os.close(file)

    @property
    def fileno(self) -> int:
        """Return the file, readable once the event is set."""
        return self._files[0] if self._files else -1

    def set(self) -> None:
        super().set()
        if self._files:
            os.write(self._files[1], b"\0")


class TerminalDriver(LinuxDriver):
    """Draws on the terminal of stdout, and obeys job control."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = _terminal_stream(ascii_only=theme.is_ascii) or self._file
        self.is_ending = False
        """Whether a signal has asked for the end: the terminal is not taken again then."""
        self._has_terminal = False
        self._is_stopping = False
        self._was_continued = False
        self.exit_event = self._input_end = _WakingEvent()
        # In the loop and not in a handler of the interpreter's, which could come while the writer's
        # queue is locked.
        self._loop.add_signal_handler(signal.SIGTSTP, self._stop, signal.SIGTSTP)
        signal.signal(signal.SIGCONT, self._on_continue)

    def start_application_mode(self) -> None:
        """Take the terminal."""
        self._has_terminal = True
        self._input_end.open()
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's own is not typed
        # Textual's handler is one of the interpreter's: one interrupted by the next tells its older
        # size after that one's.
        self._loop.add_signal_handler(signal.SIGWINCH, self._tell_size)

    def stop_application_mode(self) -> None:
        """Release the terminal unless already done."""
        if self._has_terminal:
            super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Give the terminal back for a while."""
        super().suspend_application_mode()
        self._has_terminal = False

    def write(self, data: str) -> None:
        """Write to the terminal; nothing while it is given back."""
        if self._has_terminal:
            super().write(data)

    def _tell_size(self) -> None:
        """Send the window's size to the app."""
        size = Size(*self._get_terminal_size())
        self._app.post_message(Resize(size, size))

    def _query_in_band_window_resize(self) -> None:
        """Request no sizes from the terminal: they come with SIGWINCH, from the kernel."""

    def _run_input_thread(self) -> None:
        """Read keys.

        A failure is handled as in any thread; Textual would end with status 0.
        """
        self.run_input_thread()

    def run_input_thread(self) -> None:
        """Read keys and other events until the terminal is given back."""
        parser = InputParser()
        decoder = getincrementaldecoder("utf-8")(errors="replace")
        files = [self.fileno, self._input_end.fileno]
        while not self._input_end.is_set():
            if self.fileno not in select.select(files, [], [], parser.wait_s)[0]:
                messages = parser.flush()
            else:
                data = self._read()
                if not data:
                    # Nothing comes from it any more: SIGHUP, or a supervisor, ends it.
                    files.remove(self.fileno)
                messages = parser.feed(decoder.decode(data))
            for message in messages:
                self.process_message(message)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, io.DEFAULT_BUFFER_SIZE)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""

    def close(self) -> None:
        """Release everything used with the terminal."""
        super().close()
        self._input_end.close()

    def stop_job(self) -> None:
        """Stop the whole job of the shell, such as make, as ctrl+z does."""
        self._stop(signal.SIGTSTP, is_whole_job=True)

    def _stop(self, number: int, *, is_whole_job: bool = False) -> None:
        """Give the terminal back and stop; return with the terminal taken again.

        A process group that no shell controls cannot be stopped: the kernel drops the signal, and
        the app goes on.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        try:
            had_terminal = self._has_terminal
            if had_terminal:
                self.suspend_application_mode()
            if is_whole_job:
                signal.signal(number, signal.SIG_IGN)
                os.killpg(0, number)
            self._stop_by(number)
            self._loop.add_signal_handler(signal.SIGTSTP, self._stop, signal.SIGTSTP)
            if had_terminal:
                self._take_again()
        finally:
            self._is_stopping = False

    def _on_continue(self, *_: object) -> None:
        """Note that the process continues.

        After a SIGSTOP the shell has drawn on a terminal never released.
        """
        self._was_continued = True
        if self._has_terminal and not self._is_stopping:
            self._loop.call_soon_threadsafe(self._return)

    def _return(self) -> None:
        """Acquire the terminal again, with all modes, once the job is in the foreground."""
        if self._is_stopping or not self._has_terminal:
            return
        self._is_stopping = True
        try:
            self._wait_for_foreground()
            if not self.is_ending:
                self.suspend_application_mode()
                self._take_again()
        finally:
            self._is_stopping = False

    def _take_again(self) -> None:
        self._wait_for_foreground()
        if not self.is_ending:
            self._must_signal_resume = True
            self.resume_application_mode()

    def _wait_for_foreground(self) -> None:
        """Stay stopped while another job has the terminal.

        The kernel stops background processes that change a terminal in the same way.
        """
        while not self.is_ending and not self._is_in_foreground() and self._stop_by(signal.SIGTTOU):
            pass

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:
            # Not its controlling terminal: nothing tells otherwise.
            return True

    def _stop_by(self, number: int) -> bool:
        """Stop by a signal's default action; return whether the process stopped and continued."""
        self._was_continued = False
        signal.signal(number, signal.SIG_DFL)
        # To this thread: the call returns once the process goes on. A signal to the process could
        # reach it later.
        signal.pthread_kill(threading.get_ident(), number)
        if not self._was_continued:
            select.select([], [], [], _CONTINUED_WITHIN_S)
        return self._was_continued


class NoColors(LineFilter):
    """Filter that removes all colours and keeps attributes.

    No colour code is sent at all.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002  Textual's argument
        """Return segments without colours."""
        return [
            Segment(text, None if style is None else style.without_color, control)
            for text, style, control in segments
        ]


class _TerminalFile(io.FileIO):
    """A terminal's file that drops output once the terminal is closed.

    SIGHUP then ends the app.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(data).nbytes


def _terminal_stream(*, ascii_only: bool) -> io.TextIOWrapper | None:
    """Return a stream to stdout's terminal; None if stdout is closed.

    Characters missing in its encoding are written in ASCII.
    """
    stdout = sys.__stdout__
    if stdout is None:
        return None
    encoding = "ascii" if ascii_only else stdout.encoding
    file = io.BufferedWriter(_TerminalFile(stdout.fileno(), "w", closefd=False))
    return io.TextIOWrapper(file, encoding=encoding, errors=ERRORS, newline="")


def cause_of(error: BaseException) -> BaseException:
    """Return the cause of a worker's failure, or the error itself."""
    return error.error if isinstance(error, WorkerFailed) else error


class WholeCellBars(ScrollBarRender):
    """Scroll bars with whole cells at their ends.

    In ASCII, a partial cell's twin is as high as any other character.
    """

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


class TerminalApp(InputApp):
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

    @property
    def is_terminal_behind(self) -> bool:
        """Whether a frame waits for another one to be written."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and writer._queue.qsize() > 1  # noqa: SLF001  no public name; pinned and tested

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
