"""`trnfleet convert`: recordings to and from mosquitto_sub lines and neuron-monitor documents.

It also reads scrapes of neuron-monitor's exporter.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from trnfleet.cli.options import log_options, sysfs_option, utilization_option
from trnfleet.cli.output import exit_on_broken_pipe, report, stdout_bytes
from trnfleet.cli.params import FileName, FleetName, Instant, OneOf
from trnfleet.clock import datetime_ns
from trnfleet.errors import ConfigError, nearest
from trnfleet.files import temporary_folder

if TYPE_CHECKING:
    from datetime import datetime

    from trnfleet.services.files.inputs import Kind

STDIO = "-"
KINDS = ("mcap", "mosquitto", "neuron-monitor")
SOURCE_KINDS = (*KINDS, "prometheus")


@click.command("convert")
@click.argument("source", type=FileName(), metavar="IN")
@click.argument("target", type=FileName(), metavar="OUT")
@click.option(
    "--from",
    "source_kind",
    type=click.Choice(SOURCE_KINDS),
    help="Kind of IN; by default detected from its content.",
)
@click.option(
    "--to",
    "target_kind",
    type=click.Choice(KINDS),
    help="Kind of OUT; by default mcap for OUT.mcap, otherwise mosquitto lines.",
)
@click.option(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help=(
        "To mcap or lines: fleet of a neuron-monitor host, by default neuron. To neuron-monitor:"
        " the fleet to read, if there are several."
    ),
)
@click.option(
    "--as",
    "address",
    metavar="ADDRESS",
    help="Address of a neuron-monitor host; by default uc1/standalone/ and its EC2 id.",
)
@click.option(
    "--instance",
    metavar="ADDRESS",
    help="Instance to write as neuron-monitor documents, if there are several.",
)
@utilization_option
@click.option(
    "--neuron-ls",
    type=FileName(),
    metavar="FILE",
    help="Output of neuron-ls -j on a neuron-monitor host; it places the chips of a container.",
)
@sysfs_option
@click.option(
    "--start",
    type=Instant(),
    help="Start of a neuron-monitor file; by default the file's date minus its length.",
)
@click.option(
    "--format",
    "encoding",
    type=click.Choice(["json", "cbor"]),
    help="Encoding of a neuron-monitor host's telemetry; by default cbor in mcap, json in lines.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@log_options
def command(
    source: str,
    target: str,
    source_kind: str | None,
    target_kind: str | None,
    name: str | None,
    address: str | None,
    instance: str | None,
    neuron_ls: str | None,
    sysfs: str | None,
    utilization: str | None,
    start: datetime | None,
    encoding: str | None,
    overwrite: bool,
) -> None:
    """Convert between recordings (mcap), lines of mosquitto_sub -F '%j' and neuron-monitor's NDJSON.

    IN may also have text of neuron-monitor-prometheus or Neuron Observer (prometheus): one scrape, or several with timestamps.
    IN and OUT may be - for stdin and stdout; stdin is read to its end first. Invalid lines are skipped; stderr has their count and the first reason.
    Lines keep text as it is. Binary payloads (frames) become a payload_base64, which mosquitto's own tools do not read.

    To repair a recording, convert it to another one: the new file has everything readable, and is finished.

    \b
    Examples:
      trnfleet convert torn.mcap whole.mcap
      trnfleet convert night.ndjson night.mcap
      trnfleet convert night.mcap - | jq -r .topic | sort | uniq -c
      trnfleet convert host.ndjson host.mcap --as uc1/standalone/trn2-0007 --start 2026-01-05T09:00:00Z
      trnfleet convert night.mcap host.ndjson --to neuron-monitor --instance uc1/us-0001/trn2u-0001-0
    """
    from trnfleet.services.files.conversion import Conversion, open_input
    from trnfleet.services.files.inputs import ENDINGS, HOST_KINDS, Kind

    with contextlib.ExitStack() as stack:
        path = _spooled(stack) if source == STDIO else Path(source)
        to = Kind(target_kind or ENDINGS.get(Path(target).suffix, Kind.MOSQUITTO))
        kind = Kind(source_kind) if source_kind else _detect(path, source)
        if kind is to and kind is not Kind.MCAP:
            raise ConfigError(
                f"{source} is {kind} already: name another with --to; {nearest('', KINDS)}"
            )
        if name is not None and kind not in HOST_KINDS and to is not Kind.NEURON:
            raise ConfigError(
                f"--name is for neuron-monitor alone, and neither IN nor OUT is: {kind}, {to}"
            )
        _refuse_others(
            kind,
            to,
            address=address,
            start=start,
            encoding=encoding,
            instance=instance,
            neuron_ls=neuron_ls,
            sysfs=sysfs,
            utilization=utilization,
        )
        start_ns = None if start is None else datetime_ns(start)
        given = open_input(
            path,
            kind,
            to,
            name=name,
            address=address,
            start_ns=start_ns,
            encoding=encoding,
            neuron_ls=None if neuron_ls is None else Path(neuron_ls),
            sysfs=None if sysfs is None else Path(sysfs),
            utilization=utilization,
        )
        stack.callback(given.close)
        shown = "stdin" if source == STDIO else source
        conversion = Conversion(given, shown, to, report, name=name, instance=instance)
        if target != STDIO:
            conversion.write_file(target, overwrite=overwrite)
        elif to is Kind.MCAP:
            raise ConfigError("a recording is not written to stdout: name a file, as in night.mcap")
        else:
            with exit_on_broken_pipe():
                conversion.write_stream(stdout_bytes())


def _spooled(stack: contextlib.ExitStack) -> Path:
    """Return a file with all of stdin."""
    path = stack.enter_context(temporary_folder("trnfleet-stdin-")) / "stdin"
    given: TextIO | None = sys.stdin
    if given is None:
        raise ConfigError("stdin is closed: there is nothing to read")
    with path.open("wb") as file:
        shutil.copyfileobj(given.buffer, file)
    return path


def _detect(path: Path, shown: str) -> Kind:
    from trnfleet.services.files.inputs import detect

    try:
        return detect(path)
    except ConfigError as error:
        raise ConfigError(
            str(error).replace(str(path), "stdin" if shown == STDIO else shown, 1)
        ) from error


def _refuse_others(kind: Kind, to: Kind, **given: object) -> None:
    """Refuse options unused by the kinds of IN and OUT."""
    from trnfleet.services.files.inputs import HOST_KINDS, Kind

    flags = {
        "address": "--as",
        "start": "--start",
        "encoding": "--format",
        "instance": "--instance",
        "neuron_ls": "--neuron-ls",
        "sysfs": "--sysfs",
        "utilization": "--utilization",
    }
    for option, value in given.items():
        is_of_target = option == "instance"
        applies = to is Kind.NEURON if is_of_target else kind in HOST_KINDS
        if value is not None and not applies:
            side = "OUT" if is_of_target else "IN"
            raise ConfigError(
                f"{flags[option]} is for neuron-monitor alone, and {side} is"
                f" {to if is_of_target else kind}"
            )
