"""`trnfleet relay`: a cell's roll-ups to a top broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import (
    BROKER_HELP,
    AccessOptions,
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
    help="URL of the top broker; include its user if it differs from the cell's.",
)
@setting("--cell", type=FleetName(), required=True, help="Name of the cell, as shown on the top.")
@setting(
    "--forward-hosts",
    type=click.IntRange(0, MOST_FORWARDED),
    default=FORWARDED,
    show_default=True,
    metavar="HOSTS",
    help=("Most hosts forwarded to viewers at a time; 0 disables it."),
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
    """Publish a cell's roll-ups to a top broker, for fleets too large for one broker.

    Every second it publishes a row of figures for each UltraServer or standalone instance. It forwards jobs, reservations, alerts,
    events and the presence of publishers; telemetry and descriptors of hosts stay in the cell. Without a running relay that hears
    its cell, the top shows the cell as not observed: neither stale nor offline. On the top, alerts have the cell's name; you
    acknowledge and silence them on the cell's broker.

    It forwards chips while somebody looks at them: an app with --allow-commands requests the chips of the UltraServer that you open.

    Start two relays for each cell, on two hosts. The first one is active. The other one is on standby, and takes over when the first
    one ends or is silent for 4 s. Stderr and `status` on the top name the active one.

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
