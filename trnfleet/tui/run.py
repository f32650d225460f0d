"""The app on a terminal, with its background tasks and its end at signals."""

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

from textual.drivers._writer_thread import WriterThread

from trnfleet import logs
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.power import KwhPrice
from trnfleet.tasks import background
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.app.terminal import RESET
from trnfleet.tui.state.kept import KeptViews, kept_file
from trnfleet.tui.theme import shows_glyphs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.minutes.minutes import FleetHistory
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
    kwh_price: tuple[float, str] | None = None,
    theme_name: str | None = None,
    ascii_only: bool = False,
    local_time: bool = False,
    is_first_run: bool = False,
    keys: Mapping[str, str] | None = None,
    keeps_view: bool = False,
    may_save: bool = True,
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
        arrivals: Fleets that come while the app runs, and the names of fleets without room; None
            for none.
        bell: Whether to ring the terminal's bell when an alert fires.
        notify: Whether to ask the terminal for a desktop notification when an alert fires.
        processes: Processes of the app's own, whose end is told.
        kwh_price: Amount and currency of a kWh; None for no money.
        theme_name: One of the themes; None for the one that fits the terminal.
        ascii_only: Whether the terminal gets ASCII only, even where it shows more.
        local_time: Whether the header shows local time beside UTC.
        is_first_run: Whether the tour is shown.
        keys: Keys by the names of actions, in place of the shipped ones; None for none.
        keeps_view: Whether the app begins with the fleet's last view.
        may_save: Whether files are written: snapshots, caps, columns and views.

    Raises:
        TrnfleetError: the app crashed; the message names the log.
    """
    _forget_exported_size()
    encoding = sys.__stdout__.encoding if sys.__stdout__ else None
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
        ascii_only=ascii_only or not shows_glyphs(os.environ.get("TERM", ""), encoding),
        is_first_run=is_first_run,
        keys=keys,
    )
    app.may_save = may_save
    app.fleets.shows_local_time = local_time
    app.fleets.kwh_price = None if kwh_price is None else KwhPrice(*kwh_price)
    app.fleets.caps.open(kept_file("caps.json"), may_save=may_save)
    app.fleets.columns.open(kept_file("columns.json"), may_save=may_save)
    if app.fleets.columns.problem:
        log.warning("columns_not_read", problem=app.fleets.columns.problem)
    for context in app.fleets.contexts:
        context.monitor.caps.update(app.fleets.caps.caps_of(context.monitor.fleet_name))
    views = KeptViews()
    if keeps_view:
        views.open(kept_file("views.json"), may_save=may_save)
        app.first_view = views.view_of(state.fleet_name)
        if views.problem:
            log.warning("views_not_read", problem=views.problem)
    try:
        with _ended_from_outside(app, log_file), _stacks_into(log_file):
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
    if app.return_code in {None, 1}:
        # Textual ends with None where nobody has asked for it.
        raise TrnfleetError(_failed(log_file))
    if keeps_view and app.last_views:
        log.info("views_kept", answer=views.put(app.last_views))
    return app.return_code or 0


def _forget_exported_size() -> None:
    """Read the window's size from the window.

    A shell may have exported an old size, and libraries trust it.
    """
    with contextlib.suppress(OSError):
        if all(os.get_terminal_size(1)):
            os.environ.pop("COLUMNS", None)
            os.environ.pop("LINES", None)


def _failed(log_file: Path) -> str:
    return f"the app failed; the log is {log_file}"


@contextlib.contextmanager
def _stacks_into(log_file: Path) -> Iterator[None]:
    """Write all threads' stacks to the log at SIGQUIT and at an interpreter crash.

    Values of variables are left out. SIGQUIT is passed on to the previous handler; its stacks are
    written even if Python code no longer runs.
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
def _ended_from_outside(app: FleetApp, log_file: Path) -> Iterator[None]:
    """End the app at a signal, and if a thread or a loop callback fails.

    This is active from before the app uses the terminal until it has released it.
    """
    loop = asyncio.get_running_loop()
    terminal = _Terminal(app)

    def on_signal(number: int) -> None:
        if app.is_running and app.is_attached:
            app.end(number)
        else:
            # The app is about to take the terminal: it can end only once it has.
            loop.call_later(0.02, on_signal, number)

    def on_interrupt(number: int, _frame: FrameType | None) -> None:
        terminal.give_back_later(128 + number)

    def on_loop_failure(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and "handle" in context:
            app.fail(error)
        else:
            loop.default_exception_handler(context)

    def on_thread_failure(failure: threading.ExceptHookArgs) -> None:
        if not isinstance(failure.exc_value, Exception):
            return
        if isinstance(failure.thread, WriterThread):
            terminal.lose_writer()
        terminal.give_back_later(1, _failed(log_file))
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(app.fail, failure.exc_value)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
        # The loop itself may be stuck behind the terminal; a handler of the interpreter's runs even
        # then.
        signal.signal(number, on_interrupt)
    loop.set_exception_handler(on_loop_failure)
    threads_before = threading.excepthook
    threading.excepthook = on_thread_failure
    try:
        yield
    finally:
        threading.excepthook = threads_before
        loop.set_exception_handler(None)
        terminal.stop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


class _Terminal:
    """Forced release of the terminal, followed by exit.

    Used if a terminal that accepts no output keeps the app from ending.
    """

    def __init__(self, app: FleetApp) -> None:
        self._app = app
        self._fd = sys.__stdout__.fileno() if sys.__stdout__ else 1
        self._attributes = termios.tcgetattr(self._fd)
        self._timer: threading.Timer | None = None
        self._has_writer = True

    def give_back_later(self, status: int, why: str = "") -> None:
        """Give the app `END_LIMIT_S` to end by itself, at a signal or a failure."""
        self._app.stay_off_terminal()
        if self._timer is None:
            self._timer = threading.Timer(END_LIMIT_S, self._end, (status, why))
            self._timer.daemon = True
            self._timer.start()

    def lose_writer(self) -> None:
        """Release the terminal here: the app's further output does not reach it."""
        self._has_writer = False

    def stop(self) -> None:
        """Stop: the app has ended by itself."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._has_writer:
            self._reset()

    def _end(self, status: int, why: str) -> None:
        self._reset()
        if why:
            with contextlib.suppress(OSError):
                os.write(2, f"trnfleet: {why}\n".encode())
        # The children end with this process.
        os._exit(status)

    def _reset(self) -> None:
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(self._fd, termios.TCOFLUSH)
            os.set_blocking(self._fd, False)
            os.write(self._fd, RESET)
            os.set_blocking(self._fd, True)
            termios.tcsetattr(self._fd, termios.TCSANOW, self._attributes)
