"""The app in a test: keys, time for its fleet, and its screen as text.

Textual has no public way to read the screen or the reason of the app's end, and neither it nor
asyncio one to find out about pending work. The private ones are used here alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from unittest import mock

import textual.app
import textual.pilot
from textual.app import App, ScreenStackError
from textual.pilot import Pilot

from trnfleet.tui import theme
from trnfleet.tui.app.app import FleetApp

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncIterator

    from rich.style import Style

    from support.monitor.feed import Feed

SIZES = [(80, 24), (120, 40), (240, 70)]
"""Terminal sizes for tests of every view: the least, a usual and a large one."""
_MOST_TURNS = 10_000
_IDLE_TURNS = 3
"""Turns with nothing to run. Data from a socket or a thread is ready a turn later."""
_BATCH_S = 0.02
_MOST_ROUNDS = 500
"""More than any change needs until its effects are painted."""


async def _run_ready() -> None:
    """Let ready tasks run until none is left."""
    ready: deque[Any] = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    idle = 0
    for _ in range(_MOST_TURNS):
        await asyncio.sleep(0)
        idle = 0 if ready else idle + 1
        if idle == _IDLE_TURNS:
            return
    raise AssertionError("the app does not come to rest")


async def settle(app: App[Any]) -> None:
    """Let the app handle all input and paint, until nothing is left to do.

    Textual's own wait asks every widget for a sign and then sleeps until the process uses little
    time.
    """
    for _ in range(_MOST_ROUNDS):
        await _run_ready()
        if app._exit or app._exception is not None:
            return
        if app._batch_count:
            # Textual's palette paints nothing for some hundredths of a second while it closes.
            await asyncio.sleep(_BATCH_S)
            continue
        if app._resize_event is not None:
            # Textual hands on at most 120 sizes a second.
            app._check_resize()
            continue
        try:
            screen = app.screen
        except ScreenStackError:
            return
        if not (
            screen._layout_required
            or screen._scroll_required
            or screen._repaint_required
            or screen._recompose_required
            or screen._dirty_widgets
            or screen._callbacks
        ):
            return
        screen._on_timer_update()
    raise AssertionError("the screen does not come to rest")


class FleetPilot(Pilot[None]):
    """Textual's pilot of an app, with additions for tests of this app."""

    async def _wait_for_screen(self, timeout: float = 0.0) -> bool:  # noqa: ASYNC109  as Textual declares it
        """Wait until the app is idle.

        Called by Textual's keys, clicks and pauses.
        """
        del timeout
        await settle(self.app)
        return self.crash is None

    @property
    def app(self) -> FleetApp:
        """The app, which `running` has started."""
        assert isinstance(self._app, FleetApp)
        return self._app

    def screen(self) -> list[str]:
        """Return the lines of the screen."""
        width, height = self.app.size
        lines = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in line)[:width] for line in lines[:height]]

    def styled(self) -> list[list[tuple[str, Style | None]]]:
        """Return the lines of the screen as texts with their styles."""
        strips = self.app.screen._compositor.render_strips()
        return [
            [(segment.text, segment.style) for segment in line]
            for line in strips[: self.app.size.height]
        ]

    def text(self) -> str:
        """Return the screen."""
        return "\n".join(self.screen())

    @property
    def crash(self) -> Exception | None:
        """What ended the app; None while it runs."""
        return self.app._exception

    async def press(self, *keys: str, telemetry: Feed | None = None) -> None:
        """Press keys, and let telemetry of a feed come afterwards."""
        await super().press(*keys)
        if telemetry is not None:
            await self.telemetry(telemetry)

    async def tick(self, feed: Feed, seconds: float = 0.5) -> None:
        """Let time pass for the fleet, and the app paint."""
        await feed.clock.advance(seconds)
        await self.paint()

    async def telemetry(self, feed: Feed, seconds: float = 1.0) -> None:
        """Let time pass for the fleet and telemetry come, and the app paint."""
        await feed.clock.advance(seconds)
        feed.tick()
        await self.paint()

    async def paint(self) -> None:
        """Let the app look for news, and paint it."""
        self.app.tick()
        await self.pause()


class ViewHost(App[None]):
    """An app for one view alone; subclasses compose it."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of the style sheets."""
        return theme.VARIABLES


def fleet_app(feed: Feed, **options: Any) -> FleetApp:
    """Return the app of a fleet, on a broker with a name."""
    return FleetApp(
        feed.monitor, **{"clock": feed.clock, "broker_kind": "mosquitto 2.0.11", **options}
    )


@contextlib.asynccontextmanager
async def running(app: FleetApp, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[FleetPilot]:
    """Run the app in a terminal of a size, and end it."""

    async def wait_for_idle(_least_s: float = 0.0) -> None:
        await settle(app)

    with (
        mock.patch.object(textual.app, "wait_for_idle", wait_for_idle),
        mock.patch.object(textual.pilot, "wait_for_idle", wait_for_idle),
    ):
        async with app.run_test(size=size):
            yield FleetPilot(app)
