"""The app on a terminal: runs it with the tasks behind it, and ends it at signals."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
import termios
import threading
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.errors import TrnfleetError
from trnfleet.tasks import background
from trnfleet.tui.app import FleetApp
from trnfleet.tui.terminal import RESET
from trnfleet.tui.theme import has_utf8

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.minutes.folder import FleetHistory
    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.monitor.sources.leases import Leases
    from trnfleet.tui.bars.status import OwnProcess
    from trnfleet.tui.state.context import WatchedFleet

log = logs.get_logger(__name__)

END_LIMIT_S = 1.5
"""Longest wait for the app's own end after a signal."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


async def run_app(
    state: FleetState,
    running: Mapping[str, Coroutine[Any, Any, None]],
    *,
    clock: Clock,
    log_file: Path,
    broker_kind: str = "",
    operator: OperatorActions | None = None,
    playback: Playback | None = None,
    history: FleetHistory | None = None,
    leases: Leases | None = None,
    others: Sequence[WatchedFleet] = (),
    arrivals: AsyncIterator[WatchedFleet | str] | None = None,
    bell: bool = False,
    notify: bool = False,
    processes: Sequence[OwnProcess] = (),
    theme_name: str | None = None,
    ascii_only: bool = False,
    is_first_run: bool = False,
) -> int:
    """Show a fleet until the app ends, and return its exit status.

    Args:
        state: The monitor to show.
        running: Coroutines to run meanwhile, by the names of their tasks.
        clock: The time to go by.
        log_file: The log, for messages.
        broker_kind: The broker's name and version, where they are known.
        operator: Acknowledges and silences alerts; None for an app that cannot.
        playback: Playback of the past or of a recording; None for none.
        history: The files of months, for charts; None for none.
        leases: What asks relays for chips; None for none.
        others: Further fleets beside that one.
        arrivals: Fleets that come while the app runs, and the names of those that it has no room for; None for none.
        bell: Whether to ring the terminal's bell when an alert fires.
        notify: Whether to ask the terminal for a desktop notification when an alert fires.
        processes: Processes of the app's own, whose end is told.
        theme_name: One of the themes; None for the one that fits the terminal.
        ascii_only: Whether the terminal gets ASCII only, even where it has UTF-8.
        is_first_run: Whether the tour is shown.

    Raises:
        TrnfleetError: the app crashed; the message names the log.
    """
    app = FleetApp(
        state,
        clock=clock,
        broker_kind=broker_kind,
        operator=operator,
        bell=bell,
        notify=notify,
        playback=playback,
        history=history,
        leases=leases,
        others=others,
        arrivals=arrivals,
        processes=processes,
        theme_name=theme_name,
        ascii_only=ascii_only or not has_utf8(sys.__stdout__.encoding if sys.__stdout__ else None),
        is_first_run=is_first_run,
    )
    try:
        with _ended_by_signals(app), _stacks_into(log_file):
            async with background(**running):
                await app.run_async()
    except TrnfleetError:
        raise
    except Exception as error:
        # What runs behind the app has failed; Textual has given the terminal back.
        log.exception("app_failed")
        raise TrnfleetError(
            f"the app failed: {type(error).__name__}; the log is {log_file}"
        ) from error
    if app.return_code == 1:
        raise TrnfleetError(f"the app failed; the log is {log_file}")
    return app.return_code or 0


@contextlib.contextmanager
def _stacks_into(log_file: Path) -> Iterator[None]:
    """Write the stacks of all threads to the log at SIGQUIT and at a crash of the interpreter, without values of variables.

    SIGQUIT goes on to the handler that is there; its stacks are written even where Python code runs no more.
    """
    try:
        output = log_file.open("ab", buffering=0)
    except OSError:
        # The log may be gone; that must not keep the app from starting.
        yield
        return
    with output:
        enables = not faulthandler.is_enabled()
        if enables:
            faulthandler.enable(output)
        faulthandler.register(signal.SIGQUIT, output, chain=True)
        try:
            yield
        finally:
            faulthandler.unregister(signal.SIGQUIT)
            if enables:
                faulthandler.disable()


@contextlib.contextmanager
def _ended_by_signals(app: FleetApp) -> Iterator[None]:
    """End the app at each of `_SIGNALS`, from before it takes the terminal until it has given it back."""
    loop = asyncio.get_running_loop()
    terminal = _Terminal(app)

    def on_signal(number: int) -> None:
        if app.is_running and app.is_attached:
            app.end(number)
        else:
            # The app is about to take the terminal: it can end only once it has.
            loop.call_later(0.02, on_signal, number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
        # The loop itself may be stuck behind the terminal; a handler of the interpreter's runs even then.
        signal.signal(number, terminal.give_back_later)
    try:
        yield
    finally:
        terminal.stop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


class _Terminal:
    """Gives the terminal back by force, and ends, where a terminal that takes no output keeps the app from ending."""

    def __init__(self, app: FleetApp) -> None:
        self._app = app
        self._fd = sys.__stdout__.fileno() if sys.__stdout__ else 1
        self._attributes = termios.tcgetattr(self._fd)
        self._timer: threading.Timer | None = None

    def give_back_later(self, number: int, _frame: FrameType | None) -> None:
        """Give the app `END_LIMIT_S` to end by itself at a signal."""
        self._app.stay_off_terminal()
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
