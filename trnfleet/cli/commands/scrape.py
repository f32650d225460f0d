"""`trnfleet scrape`: real hosts by the metrics pages of their exporters, to a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from trnfleet.cli.options import broker_options, log_options, mqtt_option, setting
from trnfleet.cli.output import exit_on_broken_pipe, report, stdout_bytes
from trnfleet.cli.params import Duration, FileName, FleetName, OneOf
from trnfleet.clock import SystemClock
from trnfleet.errors import ConfigError
from trnfleet.wire.values import PERIODS_S

if TYPE_CHECKING:
    from trnfleet.services.session import BrokerSession


@click.command("scrape")
@click.argument("targets", nargs=-1, metavar="[HOST[:PORT]|URL]...")
@broker_options(required=False, with_root=True)
@mqtt_option
@setting(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    required=True,
    help="Name of the fleet that the hosts are shown in.",
)
@setting(
    "--targets",
    "file",
    type=FileName(),
    metavar="FILE",
    help=(
        "File with further targets: one a line, optionally with address=CLUSTER/ULTRASERVER/INSTANCE"
        " behind it, or Prometheus' file_sd in JSON. It is read again when it changes."
    ),
)
@setting(
    "--interval",
    type=Duration(PERIODS_S[1], least_s=1.0),
    default="15s",
    help="Time between two scrapes of a host. A page may take 10 s, or four fifths of it.",
)
@setting(
    "--client-id",
    type=FleetName(),
    metavar="ID",
    help="Client id of this publisher at the broker; by default scrape- and this machine's name.",
)
@setting(
    "--target-ca",
    type=FileName(),
    metavar="FILE",
    help="Certificate authorities of https:// targets (PEM); by default the system's.",
)
@setting(
    "--target-token-file",
    type=FileName(),
    metavar="FILE",
    help="File with a bearer token for https:// targets, readable only by you; read every time.",
)
@setting(
    "--utilization",
    type=click.Choice(["ratio", "percent"]),
    help="Unit of Neuron Observer's utilization; by default percent after a value above 1.5.",
)
@click.option("--once", is_flag=True, help="Scrape each host once, publish, and end.")
@click.option("--stdout", is_flag=True, help="Write NDJSON to stdout instead of publishing.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession | None,
    root: str,
    targets: tuple[str, ...],
    name: str,
    file: str | None,
    interval: float,
    client_id: str | None,
    target_ca: str | None,
    target_token_file: str | None,
    utilization: str | None,
    once: bool,
    stdout: bool,
) -> None:
    """Publish real hosts without an agent, from neuron-monitor-prometheus or Neuron Observer.

    HOST alone means http://HOST:8000/metrics. Neuron Observer listens on port 7001. A host that
    does not answer becomes stale, and an event says why.

    \b
    Examples:
      trnfleet scrape --name prod --once --stdout trn2-0001 trn2-0002:7001
      trnfleet scrape --name prod --targets hosts.txt --broker mqtt://127.0.0.1:1883
    """
    if session is None and not stdout:
        raise click.UsageError("no destination: give --broker URL or --stdout")
    if stdout and ctx.get_parameter_source("broker") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--stdout and --broker do not go together: choose one of them")
    from trnfleet.services.scrape.scraper import Scraper, ScrapeRequest
    from trnfleet.services.scrape.targets import parse_target

    try:
        named = tuple(map(parse_target, targets))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    clock = SystemClock() if session is None else session.clock
    request = ScrapeRequest(
        name,
        root,
        named,
        interval,
        None if file is None else Path(file),
        client_id,
        utilization,
        target_ca,
        target_token_file,
        once,
    )
    scraper = Scraper(request, clock)
    if stdout:
        with exit_on_broken_pipe():
            asyncio.run(scraper.write(stdout_bytes(), report))
    elif session is not None:
        asyncio.run(scraper.publish(session, report))
