"""The app at work in a test: its keys, time for its fleet, and its screen as text.

Textual has no public way to read the screen or what ended the app; the private ones are named here alone.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.pilot import Pilot

from trnfleet.tui import theme
from trnfleet.tui.app import FleetApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rich.style import Style

    from support.monitor.feed import Feed

SIZES = [(80, 24), (120, 40), (240, 70)]
"""Terminals at which every view is looked at: the least, a usual and a large one."""


class FleetPilot(Pilot[None]):
    """Textual's pilot of an app, with what tests of this app want besides keys and clicks."""

    def screen(self) -> list[str]:
        """Return the lines of the screen."""
        width, height = self.app.size
        lines = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in line)[:width] for line in lines[:height]]

    def styled(self) -> list[list[tuple[str, Style | None]]]:
        """Return the lines of the screen as texts with their styles."""
        strips = self.app.screen._compositor.render_strips()
        return [
            [(segment.text, segment.style) for segment in line] for line in strips[: self.app.size.height]
        ]

    def text(self) -> str:
        """Return the screen."""
        return "\n".join(self.screen())

    @property
    def crash(self) -> Exception | None:
        """What ended the app; None while it runs."""
        return self.app._exception

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
        assert isinstance(self.app, FleetApp)
        self.app.tick()
        await self.pause()


class ViewHost(App[None]):
    """An app for one view alone; subclasses compose it."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of the style sheets."""
        return theme.VARIABLES


def fleet_app(feed: Feed, **options: Any) -> FleetApp:
    """Return the app of a fleet, on a broker that names itself."""
    return FleetApp(feed.monitor, **{"clock": feed.clock, "broker_kind": "mosquitto 2.0.11", **options})


@contextlib.asynccontextmanager
async def running(app: FleetApp, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[FleetPilot]:
    """Run the app in a terminal of a size, and end it."""
    async with app.run_test(size=size):
        yield FleetPilot(app)
