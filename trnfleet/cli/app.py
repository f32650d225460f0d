"""Running the terminal app in front of a monitor; what the demo and `trnfleet monitor` share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trnfleet.errors import TrnfleetError
from trnfleet.tasks import background

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.cli.watching import Watch
    from trnfleet.clock import Clock


def require_terminal() -> None:
    """Refuse to start the app without a terminal to draw on.

    Raises:
        TrnfleetError: stdin or stdout is none.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TrnfleetError(
            "the app needs a terminal; without one use `trnfleet status` or `trnfleet simulate`"
        )


async def run_app(watch: Watch, *, clock: Clock, broker_kind: str, log_file: Path) -> int:
    """Show the app until it ends and return its exit status.

    Raises:
        TrnfleetError: the app crashed; the message names the log.
    """
    from trnfleet.tui.app import FleetApp  # noqa: PLC0415  Textual is loaded by the commands that draw

    app = FleetApp(watch.monitor, clock=clock, broker_kind=broker_kind)
    async with background(source=watch.source.run(), monitor=watch.monitor.run()):
        await app.run_async()
    if app.return_code == 1:
        raise TrnfleetError(f"the app failed; the log is {log_file}")
    return app.return_code or 0
