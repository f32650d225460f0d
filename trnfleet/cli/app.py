"""Running the terminal app in front of a monitor; what the demo and `trnfleet monitor` share."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet import logs
from trnfleet.errors import TrnfleetError
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path
    from types import FrameType

    from trnfleet.cli.alerting import Calling, DeskAndWriter
    from trnfleet.clock import Clock
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.replay.playback import Deck
    from trnfleet.tui.app import FleetApp

log = logs.get_logger(__name__)

END_LIMIT_S = 1.5
"""Longest wait for the app's own end after a signal."""
RESET = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?7h\x1b[<u\x1b[?25h\x1b[?1049l"
)
"""Mouse, paste, focus and key modes off, wrap and cursor on, main screen."""


def require_terminal(instead: str = "`trnfleet status` or `trnfleet simulate`") -> None:
    """Refuse to start the app without a terminal to draw on.

    Args:
        instead: What can be used without one.

    Raises:
        TrnfleetError: stdin or stdout is none.
    """
    if sys.stdin is None or sys.stdout is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TrnfleetError(f"the app needs a terminal; without one use {instead}")


class Showing(NamedTuple):
    """What the app shows, and what must run for it."""

    state: FleetState
    running: dict[str, Coroutine[Any, Any, None]]
    """By the names of their tasks."""
    deck: Deck | None = None
    """What goes back in time."""


async def run_app(
    showing: Showing,
    *,
    clock: Clock,
    broker_kind: str,
    log_file: Path,
    desk: DeskAndWriter | None = None,
    calling: Calling | None = None,
) -> int:
    """Show the app until it ends and return its exit status.

    Raises:
        TrnfleetError: the app crashed; the message names the log.
    """
    from trnfleet.tui.app import FleetApp  # noqa: PLC0415  Textual is loaded by the commands that draw

    app = FleetApp(
        showing.state,
        clock=clock,
        broker_kind=broker_kind,
        operator=None if desk is None else desk.desk,
        bell=calling is not None and calling.bell,
        notify=calling is not None and calling.notify,
        playback=showing.deck,
    )
    running = dict(showing.running)
    if desk is not None and desk.writer is not None:
        running["desk"] = desk.writer.run()
    try:
        with _ended_by_signals(app):
            async with background(**running):
                await app.run_async()
    except (TrnfleetError, OSError):
        raise
    except Exception as error:
        # What runs behind the app has failed; Textual has given the terminal back.
        log.exception("app_failed")
        raise TrnfleetError(f"the app failed: {type(error).__name__}; the log is {log_file}") from error
    if app.return_code == 1:
        raise TrnfleetError(f"the app failed; the log is {log_file}")
    return app.return_code or 0


@contextlib.contextmanager
def _ended_by_signals(app: FleetApp) -> Iterator[None]:
    """End the app at SIGINT, SIGTERM and SIGHUP, from before it takes the terminal until it has given it back."""
    loop = asyncio.get_running_loop()
    terminal = _Terminal()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def on_signal(number: int) -> None:
        if app.is_running and app.is_attached:
            app.end(number)
        else:
            # The app is about to take the terminal: it can end only once it has.
            loop.call_later(0.02, on_signal, number)

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
        # The loop itself may be stuck behind the terminal; a handler of the interpreter's runs even then.
        signal.signal(number, terminal.give_back_later)
    try:
        yield
    finally:
        terminal.stop()
        for number in numbers:
            loop.remove_signal_handler(number)


class _Terminal:
    """Gives the terminal back by force, and ends, where a terminal that takes no output keeps the app from ending."""

    def __init__(self) -> None:
        self._fd = sys.__stdout__.fileno() if sys.__stdout__ else 1
        self._attributes = termios.tcgetattr(self._fd)
        self._timer: threading.Timer | None = None

    def give_back_later(self, number: int, _frame: FrameType | None) -> None:
        """Give the app `END_LIMIT_S` to end by itself at a signal."""
        if self._timer is None:
            self._timer = threading.Timer(END_LIMIT_S, self._give_back, (128 + number,))
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Leave it to the app, which has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _give_back(self, status: int) -> None:
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(self._fd, termios.TCOFLUSH)
            os.set_blocking(self._fd, False)
            os.write(self._fd, RESET)
            termios.tcsetattr(self._fd, termios.TCSANOW, self._attributes)
        # The children end with this process.
        os._exit(status)
