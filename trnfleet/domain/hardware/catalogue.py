"""The hardware catalogue: instance types and UltraServers, their totals, and lookups.

Totals are derived from the chip, never written down twice; tests compare them with the published
totals. Everything specific to a generation is in `chips` and `instances`: other code reads
topology, lanes, racks and price from the type.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trnfleet.domain.hardware.chips import CHIP_TYPES, INFERENTIA2, TRAINIUM1, TRAINIUM2, TRAINIUM3
from trnfleet.domain.hardware.instances import (
    INSTANCE_TYPES,
    TRN2_48XLARGE,
    TRN2_ULTRASERVER,
    TRN2U_48XLARGE,
    ULTRASERVER_TYPES,
)
from trnfleet.domain.hardware.kinds import (
    GIB,
    GIGA,
    MOST_NEURONCORES,
    TERA,
    ChipType,
    Claim,
    Cooling,
    CoolingKind,
    Evidence,
    Figure,
    InstanceType,
    UltraServerType,
)
from trnfleet.domain.hardware.topology import DIRECTIONS, MOST_LANES
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = (
    "CHIP_TYPES",
    "GIB",
    "GIGA",
    "INFERENTIA2",
    "INSTANCE_TYPES",
    "MOST_NEURONCORES",
    "TERA",
    "TRAINIUM1",
    "TRAINIUM2",
    "TRAINIUM3",
    "TRN2U_48XLARGE",
    "TRN2_48XLARGE",
    "TRN2_ULTRASERVER",
    "ULTRASERVER_TYPES",
    "ChipType",
    "Claim",
    "Cooling",
    "CoolingKind",
    "Evidence",
    "Figure",
    "InstanceType",
    "Totals",
    "UltraServerType",
    "check_widths",
    "find_instance_type",
    "find_ultraserver_type",
    "lane_names",
    "links_bytes_per_s",
    "present_name",
    "registered",
    "totals",
    "ultraserver_type_of",
)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a set of hardware; bytes, bytes per second (peak) and FLOP/s (peak, dense)."""

    chips: int = 0
    neuroncores: int = 0
    hbm_bytes: int = 0
    hbm_bytes_per_s: float = 0.0
    fp8_dense_flops: float = 0.0
    bf16_dense_flops: float = 0.0
    sparse_flops: float = 0.0
    """Peak with structured sparsity, on chips that support it."""
    fp32_flops: float = 0.0
    torus_links: int = 0
    """NeuronLinks between chips of an instance."""
    z_links: int = 0
    """NeuronLinks between instances of an UltraServer."""
    vcpus: int = 0
    host_memory_bytes: int = 0
    efa_bytes_per_s: float = 0.0
    chip_power_max_w: float = 0.0
    host_power_max_w: float = 0.0
    price_usd_per_h: float = 0.0


def totals(instances: Mapping[str, int], ultraservers: Mapping[str, int] | None = None) -> Totals:
    """Return the sums over hardware.

    Args:
        instances: Number of instances by type name.
        ultraservers: Number of UltraServers by type name; links between instances are theirs. Their
            instances are among those counted.
    """
    kinds = [(INSTANCE_TYPES[name], count) for name, count in instances.items()]
    joined = [(ULTRASERVER_TYPES[name], count) for name, count in (ultraservers or {}).items()]

    def add(figure: str) -> float:
        amounts = ((count * kind.chips, getattr(kind.chip, figure)) for kind, count in kinds)
        return sum(chips * float(amount.value) for chips, amount in amounts if amount is not None)

    return Totals(
        chips=sum(count * kind.chips for kind, count in kinds),
        neuroncores=sum(count * kind.neuroncores for kind, count in kinds),
        hbm_bytes=round(add("hbm_bytes")),
        hbm_bytes_per_s=add("hbm_bytes_per_s"),
        fp8_dense_flops=add("fp8_dense_flops"),
        bf16_dense_flops=add("bf16_dense_flops"),
        sparse_flops=add("sparse_flops"),
        fp32_flops=add("fp32_flops"),
        torus_links=sum(count * kind.topology.links for kind, count in kinds),
        z_links=sum(count * kind.topology.links * kind.instance.chips for kind, count in joined),
        vcpus=sum(count * kind.vcpus for kind, count in kinds),
        host_memory_bytes=sum(count * kind.host_memory_bytes for kind, count in kinds),
        efa_bytes_per_s=sum(count * kind.efa_bytes_per_s.value for kind, count in kinds),
        chip_power_max_w=add("power_max_w"),
        host_power_max_w=sum(count * kind.host_power_max_w.value for kind, count in kinds),
        price_usd_per_h=sum(count * kind.price_usd_per_h.value for kind, count in kinds),
    )


def find_instance_type(name: str) -> InstanceType:
    """Return the instance type of a name.

    Raises:
        ConfigError: unknown; the message names the nearest.
    """
    try:
        return INSTANCE_TYPES[name]
    except KeyError:
        raise ConfigError(unknown_instance_type(name)) from None


def unknown_instance_type(name: str) -> str:
    """Return a sentence about an unknown instance type, with the nearest known one."""
    return f"unknown instance type {name!r}: {nearest(name, INSTANCE_TYPES)}"


def present_name(name: str) -> str:
    """Return the current name of an instance type for a current or former name."""
    return next((kind.name for kind in INSTANCE_TYPES.values() if name in kind.former_names), name)


def find_ultraserver_type(name: str) -> UltraServerType:
    """Return the UltraServer type of a name.

    Raises:
        ConfigError: unknown; the message names the nearest.
    """
    try:
        return ULTRASERVER_TYPES[name]
    except KeyError:
        raise ConfigError(
            f"unknown UltraServer type {name!r}: {nearest(name, ULTRASERVER_TYPES)}"
        ) from None


def ultraserver_type_of(instance_type: str) -> UltraServerType | None:
    """Return the UltraServer type made of an instance type; None for standalone types."""
    return next(
        (kind for kind in ULTRASERVER_TYPES.values() if kind.instance.name == instance_type), None
    )


def links_bytes_per_s(chip: ChipType) -> float:
    """Return the bandwidth of all link lanes of a chip, each way.

    In the instance type where the chip has most lanes.
    """
    sums = [
        sum(
            figure.value
            for lane in range(len(kind.lanes))
            if (figure := kind.lane_bytes_per_s(lane))
        )
        for kind in INSTANCE_TYPES.values()
        if kind.chip == chip
    ]
    return max(sums, default=0.0) or chip.link_bytes_per_s.value


def lane_names() -> tuple[str, ...]:
    """Return the names of all link lanes of the catalogue, schema version 1 first."""
    others = (name for kind in INSTANCE_TYPES.values() for name in kind.lane_names)
    return tuple(dict.fromkeys((*DIRECTIONS, *others)))


@contextlib.contextmanager
def registered(*types: InstanceType | UltraServerType) -> Iterator[None]:
    """Add types to the catalogue for as long as the context lasts.

    Raises:
        ConfigError: a name is taken, or a type does not fit the metric table.
    """
    tables: list[tuple[dict[str, Any], str]] = []
    for kind in types:
        table: dict[str, Any] = (
            INSTANCE_TYPES if isinstance(kind, InstanceType) else ULTRASERVER_TYPES
        )
        if kind.name in table:
            raise ConfigError(f"the hardware catalogue already has a type {kind.name!r}")
        if isinstance(kind, InstanceType):
            check_widths(kind)
        tables.append((table, kind.name))
    for (table, name), kind in zip(tables, types, strict=True):
        table[name] = kind
    try:
        yield
    finally:
        for table, name in tables:
            del table[name]


def check_widths(kind: InstanceType) -> None:
    """Check that a chip's lanes fit the vectors of the metric table.

    Raises:
        ConfigError: the type has too many link lanes or NeuronCores, or two lanes of a name.
    """
    names = [lane.name for lane in kind.lanes]
    if len(names) > MOST_LANES:
        raise ConfigError(
            f"{kind.name} has {len(names)} link lanes a chip; {MOST_LANES} are possible: make"
            " parallel links one lane"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"{kind.name} has two link lanes of the same name: {', '.join(names)}")
    if kind.chip.neuroncores > MOST_NEURONCORES:
        raise ConfigError(
            f"{kind.chip.name} has {kind.chip.neuroncores} NeuronCores; {MOST_NEURONCORES} are"
            " possible"
        )
