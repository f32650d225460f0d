"""`trnfleet fleet`: hierarchy and totals of a fleet file, and hardware side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trnfleet.cli.output import print_json, stdout_columns
from trnfleet.cli.params import ShippedName
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.whatif import Dtype, Hardware
    from trnfleet.domain.layout import Layout


@click.group("fleet")
def command() -> None:
    """Describe, compare and list fleets and hardware."""


@command.command("describe")
@click.argument("file", type=ShippedName("fleets"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(file: str, as_json: bool) -> None:
    """Print the hierarchy and the hardware totals of FILE: a shipped fleet's name, or a path.

    If sources contradict each other about its hardware, you see both figures, and which one is used.

    \b
    Example:
      trnfleet fleet describe demo --json
    """
    from trnfleet.cli.fleet_report import described, facts_of
    from trnfleet.config import find_file
    from trnfleet.domain.hardware.whatif import hardware_called

    try:
        find_file("fleets", file)
    except ConfigError:
        if hardware_called(file) is None:
            raise
        raise ConfigError(
            f"{file!r} is hardware, not a fleet: see trnfleet fleet compare {file}"
        ) from None
    fleet, layout = _load(file)
    jobs = {name: sum(map(len, parts)) for name, parts in _jobs(file, fleet, layout).items()}
    facts = facts_of(fleet, layout, jobs)
    if as_json:
        print_json(facts)
    else:
        click.echo(described(facts, fleet.title))


@command.command("list")
def list_fleets() -> None:
    """List the shipped fleets."""
    from trnfleet.config import find_file, load_model, shipped_names
    from trnfleet.domain.fleet import FleetFile

    for name in shipped_names("fleets"):
        click.echo(f"{name:<16} {load_model(find_file('fleets', name), FleetFile).title}")


def _complete_subject(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the shipped fleets and hardware with a matching name."""
    from trnfleet.config import shipped_names
    from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, ULTRASERVER_TYPES
    from trnfleet.domain.hardware.comparators import ACCELERATED_TYPES

    names = [*shipped_names("fleets"), *INSTANCE_TYPES, *ULTRASERVER_TYPES, *ACCELERATED_TYPES]
    return [name for name in names if name.startswith(incomplete)]


@command.command("compare")
@click.argument("subjects", nargs=-1, required=True, shell_complete=_complete_subject)
@click.option(
    "--chips", type=click.FloatRange(1, 1e8), metavar="N", help="Scale each subject to N chips."
)
@click.option(
    "--train",
    metavar="PARAMETERS:TOKENS",
    help="Estimate the training of a model, such as 300e9:6e12 or 300B:6T.",
)
@click.option(
    "--mfu",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.40,
    show_default=True,
    help="With --train: model FLOP/s utilisation, as a share of the dense peak.",
)
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp8", "fp32"]),
    default="bf16",
    show_default=True,
    help="With --train: data type of that peak.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def compare(
    ctx: click.Context,
    subjects: tuple[str, ...],
    chips: float | None,
    train: str | None,
    mfu: float,
    dtype: Dtype,
    as_json: bool,
) -> None:
    """Compare hardware side by side: peaks, memory, bandwidths, power, price, and published claims.

    A subject is a fleet file, a shipped fleet, a job of one (demo:pretrain-70b), or hardware: an UltraServer
    (trn2-ultraserver, u-trn3x144), an instance type (trn1.32xlarge, p5en.48xlarge), or a family (trn2, inf2, p5).
    If a shipped fleet and hardware share a name (trn3), you get the hardware; use the path for the fleet.

    Figures are peaks of the hardware catalogue. A figure with ~ is assumed, or computed from an assumed one: AWS publishes no
    wattage of its chips, and no price of Trn3.

    \b
    Examples:
      trnfleet fleet compare trn2-ultraserver trn3-gen1-ultraserver trn3-gen2-ultraserver
      trnfleet fleet compare trn1 trn2 p5en --chips 100000 --train 300e9:6e12 --mfu 0.4
      trnfleet fleet compare demo:pretrain-70b trn3-gen2-ultraserver --chips 64 --json
    """
    from trnfleet.cli.fleet_report import as_json as json_of
    from trnfleet.cli.fleet_report import compared
    from trnfleet.cli.options import given_on_command_line
    from trnfleet.domain.hardware.whatif import parse_training

    if train is None and (alone := {"mfu", "dtype"} & given_on_command_line(ctx)):
        raise click.UsageError(
            f"{' and '.join(f'--{name}' for name in sorted(alone))} without --train: add --train"
            " PARAMETERS:TOKENS"
        )
    training = None if train is None else parse_training(train, mfu, dtype)
    hardware = [_subject(name) for name in subjects]
    if chips is not None:
        hardware = [machine.scaled(chips) for machine in hardware]
    if as_json:
        print_json(json_of(hardware, training))
    else:
        click.echo(compared(hardware, training, stdout_columns()))


def _subject(name: str) -> Hardware:
    """Return the hardware with a name.

    Raises:
        ConfigError: there is no such fleet, job or hardware.
    """
    from trnfleet.domain.hardware.whatif import hardware_called, hardware_names

    hardware = hardware_called(name)
    if hardware is not None:
        return hardware
    from trnfleet.cli.fleet_report import hardware_of
    from trnfleet.config import find_file, shipped_names

    file, colon, job = name.partition(":")
    try:
        find_file("fleets", file)
    except ConfigError:
        if file.endswith(".toml") or "/" in file:
            raise
        if hardware_called(file) is not None:
            raise ConfigError(
                f"{file!r} is hardware, which has no jobs: leave out :{job}"
            ) from None
        known = {*hardware_names(), *shipped_names("fleets")}
        raise ConfigError(
            f"no fleet or hardware is called {file!r}: {nearest(file.lower(), known)}"
        ) from None
    fleet, layout = _load(file)
    if not colon:
        return hardware_of(fleet.name, fleet.title, layout)
    parts = _jobs(file, fleet, layout)
    if job not in parts:
        raise ConfigError(f"{file}: no job {job!r}: {nearest(job, parts)}")
    members = [number for part in parts[job] for number in part]
    return hardware_of(f"{fleet.name}:{job}", f"{job} of {fleet.name}", layout, members)


def _load(file: str) -> tuple[FleetFile, Layout]:
    from trnfleet.config import find_file, load_model
    from trnfleet.domain.fleet import FleetFile, expand
    from trnfleet.domain.layout import Layout

    path = find_file("fleets", file)
    fleet = load_model(path, FleetFile)
    try:
        return fleet, Layout.of(expand(fleet))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _jobs(file: str, fleet: FleetFile, layout: Layout) -> dict[str, list[range]]:
    from trnfleet.domain.fleet import instances_of

    try:
        return {job.name: instances_of(layout, job.on, f"job {job.name}") for job in fleet.jobs}
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from error
