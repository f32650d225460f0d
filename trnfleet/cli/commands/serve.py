"""`trnfleet serve`: the app in a browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.command_table import load_command
from trnfleet.tasks import Ending, run_until

if TYPE_CHECKING:
    from collections.abc import Coroutine


@click.command("serve", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Loopback address to serve on; port 0 chooses a free one.",
)
@click.argument("arguments", metavar="[OPTION OF MONITOR]...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, listen: str, arguments: tuple[str, ...]) -> None:
    """Serve the app to a browser on this machine, and print the address to open.

    Each page has an app of its own with the options of trnfleet monitor, at most 8 at a time. It
    ends with the page, and is read-only: it writes nothing to the broker, and Ctrl-s saves no
    files. Anyone with the address can look: its token changes with each start.

    Needs textual-serve: pip install textual-serve.

    \b
    Examples:
      trnfleet serve --broker mqtt://127.0.0.1:1883
      trnfleet serve --listen 127.0.0.1:8080 --broker mqtts://broker.example --name prod
      ssh -L 8080:127.0.0.1:8080 HOST    # then open the printed address here
    """
    # A wrong option is named here, not in each browser.
    load_command("monitor").make_context("monitor", list(arguments), parent=ctx.parent)
    from trnfleet.services.serve import BrowserServer, parse_listen

    host, port = parse_listen(listen)
    server = BrowserServer(arguments)
    asyncio.run(_run(server.run(host, port, click.echo)))


async def _run(serving: Coroutine[Any, Any, None]) -> None:
    ending = Ending()
    with ending.on_signals():
        await run_until(ending, serving)
