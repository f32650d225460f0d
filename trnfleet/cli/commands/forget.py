"""`trnfleet forget`: clear a former fleet's messages on a broker."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import (
    broker_options,
    given_on_command_line,
    json_option,
    log_options,
)
from trnfleet.cli.output import MOST_SHOWN, print_json, report, table_lines
from trnfleet.cli.params import FleetName, OneOf
from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.services.forget import Leftovers
    from trnfleet.services.session import BrokerSession


@click.command("forget")
@broker_options(required=True)
@click.option(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    required=True,
    help="Name of the fleet; not read from settings.",
)
@click.option(
    "--publisher",
    type=FleetName(),
    metavar="ID",
    help="Clear only descriptors and presence of this publisher; works on a live fleet, too.",
)
@click.option("--yes", is_flag=True, help="Do not ask before clearing.")
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession,
    name: str,
    publisher: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Clear the retained messages of a removed fleet: descriptors, jobs, reservations, alerts, silences.

    It lists the messages, and asks before clearing them. It refuses a fleet with online publishers. With
    access lists you need the publisher's role, and the watch's for alerts, acknowledgements and silences.

    \b
    Examples:
      trnfleet forget --broker mqtt://127.0.0.1:1883 --name rehearsal
      trnfleet forget --broker mqtt://127.0.0.1:1883 --name rehearsal --yes --json
      trnfleet forget --broker mqtt://127.0.0.1:1883 --name prod --publisher trnfleet-sim-1a2b3c4d

    \b
    Exit status: 0 cleared, 1 refused or not cleared, 2 wrong use.
    """
    if "name" not in given_on_command_line(ctx):
        raise click.UsageError("name the fleet on the command line, with --name")
    from trnfleet.services.discovery import nearest_fleet
    from trnfleet.services.forget import EXACT_ONLY, clear_leftovers, find_leftovers

    left = asyncio.run(find_leftovers(session, name, publisher))
    if not left.topics and not left.unclearable:
        hint = asyncio.run(nearest_fleet([session], name)) or EXACT_ONLY
        raise BrokerError(f"{session.url} retains nothing of a fleet {name!r}; {hint}")
    if not as_json:
        for line in _lines(left, session):
            click.echo(line)
    cleared: dict[str, int] = {}
    is_asked = not yes and not as_json and sys.stdin is not None and sys.stdin.isatty()
    if left.topics and (yes or (is_asked and click.confirm("Clear them?"))):
        if is_asked:
            # A publisher may have come meanwhile.
            left = asyncio.run(find_leftovers(session, name, publisher))
        cleared = asyncio.run(clear_leftovers(session, left, publisher))
    if as_json:
        counts = {topic_class.value: len(topics) for topic_class, topics in left.topics.items()}
        facts = {
            "fleet": name,
            "broker": str(session.url),
            "publishers": left.publishers,
            "found": counts,
            "cleared": cleared,
            "kept": left.unclearable,
        }
        print_json(facts)
    elif cleared:
        click.echo(f"cleared {counted(sum(cleared.values()), 'retained message')}")
    if left.topics and not cleared:
        report("trnfleet: nothing was cleared; --yes clears it without a question")
    ctx.exit(0 if sum(cleared.values()) >= left.count and not left.unclearable else 1)


def _lines(left: Leftovers, session: BrokerSession) -> list[str]:
    """Return the findings, a line per class."""
    lines = [f"fleet {left.fleet} at {session.url}, {counted(left.count, 'retained message')}:"]
    shown = left.publishers[:MOST_SHOWN]
    more = len(left.publishers) - len(shown)
    names = ", ".join(
        plain(client) + (" (no presence, no telemetry)" if client in left.unannounced else "")
        for client in shown
    ) + (f" and {more:,} more" if more else "")
    rows = [
        (
            topic_class.value,
            f"{len(topics):,}",
            _span([topic.partition(f"/{topic_class}/")[2] for topic in topics]),
        )
        for topic_class, topics in left.topics.items()
    ]
    lines += [f"  {line}" for line in table_lines(rows)]
    if names:
        lines.append(f"  offline: {names}")
    return [*lines, *(f"  not cleared: {plain(reason, 400)}" for reason in left.unclearable)]


def _span(paths: list[str]) -> str:
    """Return the first and the last path of a class."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
