"""`trnfleet relay`: a cell's roll-ups to a top broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import (
    BROKER_HELP,
    access_options,
    fleet_option,
    log_options,
    make_session,
    setting,
)
from trnfleet.cli.output import exit_on_broken_pipe, report
from trnfleet.cli.params import Broker, FleetName, OneOf, Root
from trnfleet.wire.topics import DEFAULT_ROOT

FORWARDED = 512
MOST_FORWARDED = 16_384
"""Hosts by default, and at most. A monitor reads as many beside roll-ups, with a message a second
each."""

if TYPE_CHECKING:
    from trnfleet.cli.options import AccessOptions
    from trnfleet.transport.url import BrokerUrl


@click.command("relay")
@setting(
    "--broker",
    type=Broker(),
    cls=OneOf,
    noun="broker",
    required=True,
    help=f"The cell's broker. {BROKER_HELP}",
)
@setting(
    "--to",
    type=Broker(),
    required=True,
    help="URL of the top broker, with its user where that is another one than the cell's.",
)
@setting("--cell", type=FleetName(), required=True, help="Name of the cell, which the top shows.")
@setting(
    "--forward-hosts",
    type=click.IntRange(0, MOST_FORWARDED),
    default=FORWARDED,
    show_default=True,
    metavar="HOSTS",
    help=(
        "Hosts whose chips it passes on at once to those who look at them, under leases; 0 for"
        " none."
    ),
)
@setting(
    "--root", type=Root(), default=DEFAULT_ROOT, help="First part of every topic, on both brokers."
)
@access_options()
@fleet_option
@log_options
def command(
    broker: BrokerUrl,
    to: BrokerUrl,
    cell: str,
    forward_hosts: int,
    root: str,
    access: AccessOptions,
    name: str | None,
) -> None:
    """Publish a cell's roll-ups on a top broker, so that a monitor there shows more than one broker carries.

    Once a second it publishes one row of figures an UltraServer, or a standalone instance, and passes jobs, reservations, alerts,
    events and the presence of publishers on; telemetry and descriptors of hosts stay in the cell. What a relay cannot see, because
    it is gone or does not hear its cell, is not observed on the top: neither stale nor offline. Alerts have the cell's name on the top;
    they are acknowledged and silenced on the cell's broker.

    Chips are passed on where somebody looks at them: an app with --allow-commands asks for those of an UltraServer that it opens, as long
    as it is looked at.

    Start two relays of each cell, on two hosts: the one that began first is active, the other is on standby and takes over at once when
    that one dies, or 4 s after nothing is heard of it. Stderr says which one is active, and so does `status` on the top.

    \b
    Examples:
      trnfleet relay --broker mqtt://cell-a.example:1883 --to mqtt://top.example:1883 --cell cell-a
      trnfleet status --broker mqtt://top.example:1883
    """
    from trnfleet.services.relay.run import RelayRequest, relay_cell

    urls = (broker, to)
    session, top = (make_session(url, root, access, urls=urls) for url in urls)
    with exit_on_broken_pipe():
        asyncio.run(relay_cell(session, top, RelayRequest(name, cell, forward_hosts), report))
