"""`trnfleet agent`: telemetry of the real host it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import (
    Destination,
    destination_options,
    host_options,
    log_options,
    setting,
)
from trnfleet.cli.output import report
from trnfleet.cli.params import Duration, FileName
from trnfleet.clock import SystemClock
from trnfleet.domain.durations import DAY_S
from trnfleet.errors import ConfigError
from trnfleet.folders import state_folder

if TYPE_CHECKING:
    from trnfleet.cli.options import HostOptions


def _queue_file(given: str | None, fleet: str, path: str | None) -> Path | None:
    """Return the file of the queue; one for each host that a machine may publish."""
    if given == "none":
        return None
    host = "" if path is None else f"-{path.rpartition('/')[2]}"
    return Path(given) if given else state_folder().path / f"agent-{fleet}{host}.queue"


@click.command("agent")
@destination_options
@setting(
    "--period",
    type=Duration(DAY_S, least_s=1.0),
    default="5s",
    help="Time between two ticks, in whole seconds.",
)
@setting(
    "--path",
    metavar="PATH",
    help=(
        "Address of the host, as in uc1/standalone/host-7; by default its UltraServer and its EC2"
        " id."
    ),
)
@setting(
    "--instance-type",
    metavar="TYPE",
    help="EC2 instance type; by default from the metadata service, DMI or neuron-monitor.",
)
@setting(
    "--file",
    type=FileName(),
    metavar="FILE",
    help="Read neuron-monitor's documents from FILE, - for stdin, instead of running it.",
)
@setting(
    "--queue",
    type=FileName(),
    metavar="FILE",
    help=(
        "File for messages while the broker is away, at most 64 MiB and 15 minutes; by default in"
        ' the state folder. "none" holds them in memory.'
    ),
)
@host_options
@log_options
def command(
    destination: Destination,
    period: float,
    path: str | None,
    instance_type: str | None,
    file: str | None,
    queue: str | None,
    host: HostOptions,
) -> None:
    """Publish the telemetry of this host: neuron-monitor, the Neuron driver's sysfs, kernel messages and EFA.

    It needs no privilege, opens every file of the driver for reading only, and goes on without what is missing: `trnfleet doctor
    --agent` names it. Command lines, environments and models of processes stay on the host.

    \b
    Examples:
      trnfleet agent --once --stdout
      trnfleet agent --name prod --broker mqtt://127.0.0.1:1883
      neuron-monitor | trnfleet agent --name prod --file - --broker mqtt://127.0.0.1:1883
    """
    if period != int(period):
        raise ConfigError(f"--period {period:g}s: neuron-monitor has whole seconds only")
    from trnfleet.bridge.host.identity import MetadataService
    from trnfleet.bridge.neuron.telemetry import check_path
    from trnfleet.domain.hardware.catalogue import find_instance_type, present_name
    from trnfleet.services.agent import run
    from trnfleet.services.agent.host import HostRequest

    if instance_type is not None:
        find_instance_type(present_name(instance_type))
    is_stdout = destination.session is None
    request = HostRequest(
        destination.name,
        destination.root,
        period,
        None if path is None else check_path(path),
        instance_type,
        host.root,
        file,
        None if host.imds == "none" else MetadataService(host.imds),
        host.jobs,
        None if is_stdout else _queue_file(queue, destination.name, path),
        "json" if is_stdout else "cbor",
    )
    once = destination.once
    destination.run(
        lambda session: run.publish(request, session, report, once=once),
        lambda output: run.write(request, output, SystemClock(), once=once),
    )
