"""`trnfleet fleet`: hierarchy and totals of a fleet file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout


@click.group("fleet")
def command() -> None:
    """Describe and list fleet files."""


@command.command("describe")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(file: str, as_json: bool) -> None:
    """Print the hierarchy and the hardware totals of FILE: a shipped fleet's name, or a path.

    \b
    Example:
      trnfleet fleet describe demo --json
    """
    from trnfleet.config import find_file, load_model
    from trnfleet.domain.fleet import FleetFile, expand, instances_of
    from trnfleet.domain.layout import Layout

    path = find_file("fleets", file)
    fleet = load_model(path, FleetFile)
    try:
        layout = Layout.of(expand(fleet))
        jobs = {
            job.name: sum(len(part) for part in instances_of(layout, job.on, f"job {job.name}"))
            for job in fleet.jobs
        }
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    facts = _facts(fleet, layout, jobs)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(_text(fleet, facts))


@command.command("list")
def list_fleets() -> None:
    """List the fleets that ship and resolve by name."""
    from trnfleet.config import find_file, load_model, shipped_names
    from trnfleet.domain.fleet import FleetFile

    for name in shipped_names("fleets"):
        click.echo(f"{name:<16} {load_model(find_file('fleets', name), FleetFile).title}")


def _facts(fleet: FleetFile, layout: Layout, jobs: dict[str, int]) -> dict[str, Any]:
    totals = layout.totals()
    by_type = {
        kind.name: int((layout.instance_type == number).sum()) for number, kind in enumerate(layout.types)
    }
    return {
        "fleet": fleet.name,
        "clusters": len(layout.clusters),
        "ultraservers": layout.ultraserver_count,
        "instances": len(layout.instances),
        "instance_types": by_type,
        "chips": totals.chips,
        "neuroncores": totals.neuroncores,
        "hbm_bytes": totals.hbm_bytes,
        "hbm_bytes_per_s": totals.hbm_bytes_per_s,
        "fp8_dense_flops": totals.fp8_dense_flops,
        "bf16_dense_flops": totals.bf16_dense_flops,
        "torus_links": totals.torus_links,
        "z_links": totals.z_links,
        "vcpus": totals.vcpus,
        "host_memory_bytes": totals.host_memory_bytes,
        "efa_bytes_per_s": totals.efa_bytes_per_s,
        "chip_power_max_w": totals.chip_power_max_w,
        "jobs": {name: {"instances": count} for name, count in jobs.items()},
    }


def _text(fleet: FleetFile, facts: dict[str, Any]) -> str:
    rows = [
        ("UltraClusters", f"{facts['clusters']:,}"),
        ("UltraServers", f"{facts['ultraservers']:,}"),
        ("instances", f"{facts['instances']:,}  (" + ", ".join(f"{n:,} {k}" for k, n in facts["instance_types"].items()) + ")"),
        ("chips", f"{facts['chips']:,}"),
        ("NeuronCores", f"{facts['neuroncores']:,}"),
        ("HBM", f"{facts['hbm_bytes'] / 2**40:,.2f} TiB, {facts['hbm_bytes_per_s'] / 1e12:,.1f} TB/s peak"),
        ("dense FP8", f"{facts['fp8_dense_flops'] / 1e15:,.1f} PFLOP/s"),
        ("dense BF16", f"{facts['bf16_dense_flops'] / 1e15:,.1f} PFLOP/s"),
        ("NeuronLinks", f"{facts['torus_links']:,} torus, {facts['z_links']:,} Z"),
        ("EFA", f"{facts['efa_bytes_per_s'] * 8 / 1e12:,.1f} Tb/s"),
        ("chip power", f"{facts['chip_power_max_w'] / 1e3:,.1f} kW at most (assumed: AWS publishes no wattage)"),
        ("jobs", ", ".join(f"{name} on {counted(each['instances'], 'instance')}" for name, each in list(facts["jobs"].items())[:8]) or "none"),
    ]  # fmt: skip  # a table reads as rows
    if len(facts["jobs"]) > 8:
        rows[-1] = ("jobs", f"{rows[-1][1]}, and {len(facts['jobs']) - 8:,} more")
    head = f"{fleet.name}: {fleet.title}" if fleet.title else fleet.name
    return "\n".join([head, *(f"  {name:<14}{value}" for name, value in rows)])
