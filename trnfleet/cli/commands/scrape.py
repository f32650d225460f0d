"""`trnfleet scrape`: real hosts by the metrics pages of their exporters, to a broker."""

from __future__ import annotations

from pathlib import Path

import click

from trnfleet.cli.options import (
    Destination,
    destination_options,
    log_options,
    mqtt_option,
    setting,
)
from trnfleet.cli.output import report
from trnfleet.cli.params import Duration, FileName, FleetName
from trnfleet.clock import SystemClock
from trnfleet.errors import ConfigError
from trnfleet.wire.values import PERIODS_S


@click.command("scrape")
@click.argument("targets", nargs=-1, metavar="[HOST[:PORT]|URL]...")
@destination_options
@mqtt_option
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
@log_options
def command(
    destination: Destination,
    targets: tuple[str, ...],
    file: str | None,
    interval: float,
    client_id: str | None,
    target_ca: str | None,
    target_token_file: str | None,
    utilization: str | None,
) -> None:
    """Publish real hosts without an agent, from neuron-monitor-prometheus or Neuron Observer.

    HOST alone means http://HOST:8000/metrics. Neuron Observer listens on port 7001. A host that
    does not answer becomes stale, and an event says why.

    \b
    Examples:
      trnfleet scrape --name prod --once --stdout trn2-0001 trn2-0002:7001
      trnfleet scrape --name prod --targets hosts.txt --broker mqtt://127.0.0.1:1883
    """
    from trnfleet.services.scrape.scraper import Scraper, ScrapeRequest
    from trnfleet.services.scrape.targets import parse_target

    try:
        named = tuple(map(parse_target, targets))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    session = destination.session
    clock = SystemClock() if session is None else session.clock
    request = ScrapeRequest(
        destination.name,
        destination.root,
        named,
        interval,
        None if file is None else Path(file),
        client_id,
        utilization,
        target_ca,
        target_token_file,
        destination.once,
    )
    scraper = Scraper(request, clock)
    destination.run(
        lambda session: scraper.publish(session, report),
        lambda output: scraper.write(output, report),
    )
