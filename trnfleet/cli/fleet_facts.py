"""A fleet's hardware and its totals, as `trnfleet fleet` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.cli.fleet_text import claims_json
from trnfleet.domain.fleet import lnc_by_instance
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, ULTRASERVER_TYPES, totals
from trnfleet.domain.hardware.topology import TopologyKind
from trnfleet.domain.hardware.whatif import disagreements, of_fleet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.whatif import Hardware
    from trnfleet.domain.layout import Layout


def hardware_of(
    name: str, title: str, layout: Layout, members: Sequence[int] | None = None
) -> Hardware:
    """Return the hardware of a fleet or of some of its instances."""
    chosen = range(len(layout.instances)) if members is None else members
    return of_fleet(name, title, _counts(layout, chosen), _whole(layout, chosen))


def facts_of(fleet: FleetFile, layout: Layout, jobs: Mapping[str, int]) -> dict[str, Any]:
    """Return a fleet's hierarchy and totals in SI units.

    Args:
        fleet: Its file.
        layout: Its hierarchy.
        jobs: Number of instances of each job.
    """
    everything = range(len(layout.instances))
    by_type = _counts(layout, everything)
    whole = _whole(layout, everything)
    hardware = of_fleet(fleet.name, fleet.title, by_type, whole)
    kinds = [(INSTANCE_TYPES[name], count) for name, count in by_type.items()]
    chips: dict[str, int] = {}
    for kind, count in kinds:
        chips[kind.chip.title] = chips.get(kind.chip.title, 0) + kind.chips * count
    sums = totals(by_type, whole)
    inside = {kind.topology.kind for kind, _ in kinds}
    between = {kind.between.kind for kind, _ in kinds if kind.between is not None}
    return {
        "fleet": fleet.name,
        "clusters": len(layout.clusters),
        "ultraservers": layout.ultraserver_count,
        "ultraserver_types": whole,
        "instances": len(layout.instances),
        "instance_types": by_type,
        "chips": sums.chips,
        "chip_types": chips,
        "neuroncores": sums.neuroncores,
        "logical_neuroncores": _logical_cores(fleet, layout, by_type),
        "hbm_bytes": sums.hbm_bytes,
        "hbm_stacks": sum(kind.chip.hbm_stacks * kind.chips * count for kind, count in kinds),
        "hbm_bytes_per_s": sums.hbm_bytes_per_s,
        "fp8_dense_flops": sums.fp8_dense_flops,
        "bf16_dense_flops": sums.bf16_dense_flops,
        "sparse_flops": sums.sparse_flops,
        "fp32_flops": sums.fp32_flops,
        "torus_links": sums.torus_links,
        "z_links": sums.z_links,
        "switch_ports": _switch_ports(by_type, whole),
        "has_only_tori": inside <= {TopologyKind.TORUS, TopologyKind.NONE}
        and between <= {TopologyKind.RING},
        "vcpus": sums.vcpus,
        "host_memory_bytes": sums.host_memory_bytes,
        "efa_bytes_per_s": sum(
            count * kind.efa_bytes_per_s.value for kind, count in kinds if kind.has_efa
        ),
        "network_bytes_per_s": sums.efa_bytes_per_s,
        "has_efa": any(kind.has_efa for kind, _ in kinds),
        "chip_power_max_w": sums.chip_power_max_w,
        "published": dict(hardware.published),
        "sources_differ": claims_json(disagreements([hardware])),
        "jobs": {name: {"instances": count} for name, count in jobs.items()},
    }


def _counts(layout: Layout, members: Sequence[int]) -> dict[str, int]:
    """Return the number of instances by type."""
    numbers = np.bincount(
        layout.instance_type[np.array(members, np.int64)], minlength=len(layout.types)
    )
    return {
        kind.name: int(count) for kind, count in zip(layout.types, numbers, strict=True) if count
    }


def _whole(layout: Layout, members: Sequence[int]) -> dict[str, int]:
    """Return the number of whole UltraServers by type."""
    there = np.zeros(len(layout.instances), np.int64)
    there[np.array(members, np.int64)] = 1
    before = np.concatenate([[0], np.cumsum(there)])
    starts = layout.ultraserver_start
    full = before[starts[1:]] - before[starts[:-1]] == np.diff(starts)
    counts: dict[str, int] = {}
    for number in np.flatnonzero(full & ~layout.is_standalone).tolist():
        kind = layout.ultraserver_type(number)
        if kind is not None:
            counts[kind.name] = counts.get(kind.name, 0) + 1
    return counts


def _logical_cores(fleet: FleetFile, layout: Layout, by_type: Mapping[str, int]) -> int:
    usual = {
        name: INSTANCE_TYPES[name].neuroncores
        // INSTANCE_TYPES[name].chip.logical_neuroncore_config
        for name in by_type
    }
    logical = sum(usual[name] * count for name, count in by_type.items())
    for path, lnc in lnc_by_instance(fleet).items():
        kind = layout.type_of(layout.instance_index[path])
        logical += kind.neuroncores // lnc - usual[kind.name]
    return logical


def _switch_ports(by_type: Mapping[str, int], whole: Mapping[str, int]) -> int:
    """Return the number of links to a switch."""
    inside = sum(
        INSTANCE_TYPES[name].topology.links * count
        for name, count in by_type.items()
        if INSTANCE_TYPES[name].topology.kind is TopologyKind.SWITCHED
    )
    return inside + sum(
        ULTRASERVER_TYPES[name].topology.links * ULTRASERVER_TYPES[name].instance.chips * count
        for name, count in whole.items()
        if ULTRASERVER_TYPES[name].topology.kind is TopologyKind.SWITCHED
    )
