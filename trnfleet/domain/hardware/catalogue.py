"""The hardware catalogue: instance types and UltraServers, their totals, and lookups.

Totals are derived from the chip, never written down twice; tests compare them with the published
totals. Everything specific to a generation is in `chips` and `instances`: other code reads
topology, lanes, racks and price from the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.domain.hardware.chips import (
    CHIP_TYPES,
    INFERENTIA2,
    NO_WATTAGE,
    RACK_PORT,
    SERVER_PORT,
    TRAINIUM1,
    TRAINIUM2,
    TRAINIUM3,
    TRAINIUM3_SWITCHED,
    TRN1_ARCH,
    TRN2_ARCH,
    TRN2_PAGE,
    TRN3_ARCH,
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
from trnfleet.domain.hardware.topology import (
    DIRECTIONS,
    MOST_LANES,
    SINGLE,
    TORUS_4X4,
    Z_RING_4,
    Topology,
    line,
    ring,
    switched,
)
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping


_TRN2_HOST = "1.5 to 2.5 kW a trn2 host beside its chips"
_TRN2_PRICE = "Offerings seen in one region on 2026-10-03: $858.26 for 24 h of trn2.48xlarge"


def _price(usd: float, source: str, evidence: Evidence) -> Figure:
    return Figure(usd, "USD/h", source, evidence)


def _published(
    fp8_pf: float,
    bf16_pf: float,
    sparse_pf: float,
    fp32_pf: float,
    hbm_gib: int,
    hbm_tb_per_s: float,
) -> dict[str, float]:
    """Return the published totals by the names of `Totals`; 0 where none is published."""
    totals = {
        "fp8_dense_flops": fp8_pf * 1e15,
        "bf16_dense_flops": bf16_pf * 1e15,
        "sparse_flops": sparse_pf * 1e15,
        "fp32_flops": fp32_pf * 1e15,
        "hbm_bytes": float(hbm_gib * GIB),
        "hbm_bytes_per_s": hbm_tb_per_s * TERA,
    }
    return {name: value for name, value in totals.items() if value}


def _trn1(
    name: str, topology: Topology, vcpus: int, host_gib: int, network_gbps: float, price: Figure
) -> InstanceType:
    share = topology.members / 16
    return InstanceType(
        name=name,
        chip=TRAINIUM1,
        topology=topology,
        vcpus=vcpus,
        host_memory_bytes=host_gib * GIB,
        efa_bytes_per_s=Figure(
            network_gbps / 8 * GIGA,
            "bytes/s",
            (
                TRN1_ARCH
                if topology.members > 1
                else f"EC2's table of instance types, up to that; {TRN1_ARCH}: up to 25 Gb/s"
            ),
        ),
        host_power_idle_w=Figure(800 * max(share, 0.1), "W", NO_WATTAGE, "assumed"),
        host_power_max_w=Figure(1_500 * max(share, 0.1), "W", NO_WATTAGE, "assumed"),
        price_usd_per_h=price,
        has_efa=topology.members > 1,
        published=_published(3.04, 3.04, 0, 0.76, 512, 13.12) if topology.members > 1 else {},
    )


def _inf2(
    name: str, topology: Topology, vcpus: int, host_gib: int, network_gbps: float, usd: float
) -> InstanceType:
    chips = topology.members
    source = "on demand on 2026-09-01: $12.98 for inf2.48xlarge"
    return InstanceType(
        name=name,
        chip=INFERENTIA2,
        topology=topology,
        vcpus=vcpus,
        host_memory_bytes=host_gib * GIB,
        # Up to that for the small sizes.
        efa_bytes_per_s=Figure(network_gbps / 8 * GIGA, "bytes/s", "the product page of Inf2"),
        host_power_idle_w=Figure(60 + 40 * chips, "W", NO_WATTAGE, "assumed"),
        host_power_max_w=Figure(120 + 80 * chips, "W", NO_WATTAGE, "assumed"),
        price_usd_per_h=(
            _price(usd, source, "published")
            if chips == 12
            else _price(usd, source + "; the list price of this size is as old as 2023", "assumed")
        ),
        has_efa=False,
        published=_published(0, 0.19 * chips, 0, 0, 32 * chips, 0.82 * chips),
    )


def _trn2_48xlarge(
    name: str, price: Figure, *, between: Topology | None = None, aliases: tuple[str, ...] = ()
) -> InstanceType:
    return InstanceType(
        name=name,
        chip=TRAINIUM2,
        topology=TORUS_4X4,
        vcpus=192,
        host_memory_bytes=2_048 * GIB,
        efa_bytes_per_s=Figure(3_200 / 8 * GIGA, "bytes/s", TRN2_ARCH),
        host_power_idle_w=Figure(1_500, "W", _TRN2_HOST, "assumed"),
        host_power_max_w=Figure(2_500, "W", _TRN2_HOST, "assumed"),
        price_usd_per_h=price,
        aliases=aliases,
        between=between,
        published=_published(20.8, 10.7, 41, 2.9, 1_536, 46.4),
    )


def _trn3(
    name: str,
    aliases: tuple[str, ...],
    chip: ChipType,
    topology: Topology,
    between: Topology | None = None,
    rates: tuple[Figure, ...] = (),
) -> InstanceType:
    share = topology.members / 16
    return InstanceType(
        name=name,
        aliases=aliases,
        chip=chip,
        topology=topology,
        # An UltraServer Gen1 has 768 vCPUs, 8,192 GiB and 12,800 Gb/s in 4 instances, a Gen2 2,304,
        # 27,648 and 28,800 in 36. A single chip is assumed to have what trn2.3xlarge has.
        vcpus={16: 192, 4: 64, 1: 12}[topology.members],
        host_memory_bytes={16: 2_048, 4: 768, 1: 128}[topology.members] * GIB,
        efa_bytes_per_s=Figure(
            3_200 * share / 8 * GIGA,
            "bytes/s",
            TRN3_ARCH if between else "as trn2.3xlarge",
            "derived" if between else "assumed",
        ),
        host_power_idle_w=Figure(1_500 * share, "W", "as a trn2 host, by chips", "assumed"),
        host_power_max_w=Figure(2_500 * share, "W", "as a trn2 host, by chips", "assumed"),
        price_usd_per_h=_price(
            round(3.35 * topology.members, 2),
            "AWS publishes no price of Trn3; half as much again as a Trainium2 chip, which is the"
            " ratio of their HBM",
            "assumed",
        ),
        between=between,
        between_rates=rates,
        has_efa=between is not None,
    )


TRN1_2XLARGE = _trn1(
    "trn1.2xlarge",
    SINGLE,
    8,
    32,
    12.5,
    _price(0.97, "a sixteenth of trn1.32xlarge", "assumed"),
)
TRN1_32XLARGE = _trn1(
    "trn1.32xlarge",
    TORUS_4X4,
    128,
    512,
    800,
    _price(15.49, "offerings of 2024", "published"),
)
TRN1N_32XLARGE = _trn1(
    "trn1n.32xlarge",
    TORUS_4X4,
    128,
    512,
    1_600,
    _price(
        17.85, "trn1.32xlarge at the on-demand ratio of trn1n to trn1, 24.78 to 21.50", "assumed"
    ),
)
TRN2_3XLARGE = InstanceType(
    name="trn2.3xlarge",
    chip=TRAINIUM2,
    topology=SINGLE,
    vcpus=12,
    host_memory_bytes=128 * GIB,
    efa_bytes_per_s=Figure(200 / 8 * GIGA, "bytes/s", TRN2_ARCH),
    host_power_idle_w=Figure(120, "W", "a sixteenth of a trn2 host", "assumed"),
    host_power_max_w=Figure(200, "W", "a sixteenth of a trn2 host", "assumed"),
    price_usd_per_h=_price(2.235, _TRN2_PRICE + ", the same per chip", "published"),
)
TRN2_48XLARGE = _trn2_48xlarge("trn2.48xlarge", _price(35.76, _TRN2_PRICE, "published"))
TRN2U_48XLARGE = _trn2_48xlarge(
    "trn2u.48xlarge",
    _price(35.76, "as trn2.48xlarge: an UltraServer is then $143.04", "assumed"),
    between=Z_RING_4,
    aliases=("trn2n.48xlarge",),
)

# EC2's API has no Trn3 types: their names are the Neuron driver's (neuron_dhal_v4.c), which has the
# number of a host's chips and how they are numbered. Which UltraServer a type belongs to is derived
# from that.
TRN3_48XLARGE = _trn3(
    "trn3.48xlarge",
    ("trn3sn.48xlarge", "trn3s-es.48xlarge", "trn3sn-es.48xlarge"),
    TRAINIUM3,
    switched(16, ("port0", "port1", "port2", "port3")),
    switched(4, ("uplink0", "uplink1"), "z"),
)
"""An instance of a Trn3 UltraServer Gen1, 16 chips; its firmware has its number in the UltraServer.
Switches replace the torus in both generations (published: trn3-arch). How Gen1 divides its links is
not published: a chip's four NeuronLink-v4 are ports here, and the rest of 2,560 GB/s leads to the
other instances (assumed)."""
TRN3P_48XLARGE = _trn3("trn3p.48xlarge", (), TRAINIUM3, TORUS_4X4, Z_RING_4)
"""16 chips numbered as a torus, in hosts that elect their places in a ring of four, as
trn2u.48xlarge: the driver's only Trn3 type of that kind. Links without switches go by that."""
TRN3E_24XLARGE = _trn3(
    "trn3e.24xlarge",
    ("trn3s.16xlarge",),
    TRAINIUM3_SWITCHED,
    switched(4, ("sled",)),
    switched(36, ("server", "rack"), "z"),
    (SERVER_PORT, RACK_PORT),
)
"""An instance of a Trn3 UltraServer Gen2, a sled of four chips: the driver's only Trn3 type with
four. A lane joins a chip to one level of switches: 4 links to the sled's switches, 5 to the
switches between the servers of a rack. The 2 links directly to the other rack are drawn as a port,
too."""
TRN3PD98_3XLARGE = _trn3(
    "trn3pd98.3xlarge",
    ("trn3sn.3xlarge", "trn3s-es.3xlarge", "trn3sn-es.3xlarge"),
    TRAINIUM3,
    SINGLE,
)
"""A single chip. It has no EFA (vllm-neuron, hardware_config.py)."""
INF2_XLARGE = _inf2("inf2.xlarge", SINGLE, 4, 16, 15, 0.7582)
INF2_8XLARGE = _inf2("inf2.8xlarge", SINGLE, 32, 128, 25, 1.9679)
INF2_24XLARGE = _inf2("inf2.24xlarge", line(6), 96, 384, 50, 6.4906)
INF2_48XLARGE = _inf2("inf2.48xlarge", ring(12), 192, 768, 100, 12.98127)

INSTANCE_TYPES = {
    kind.name: kind
    for kind in (
        TRN1_2XLARGE,
        TRN1_32XLARGE,
        TRN1N_32XLARGE,
        TRN2_3XLARGE,
        TRN2_48XLARGE,
        TRN2U_48XLARGE,
        TRN3PD98_3XLARGE,
        TRN3_48XLARGE,
        TRN3P_48XLARGE,
        TRN3E_24XLARGE,
        INF2_XLARGE,
        INF2_8XLARGE,
        INF2_24XLARGE,
        INF2_48XLARGE,
    )
}
"""Instance types by name."""
_FORMER_FAMILIES = {"trn2n": "trn2u", "trn3p": "trn3", "trn3s": "trn3e"}
"""Families in older addresses, with those of the same instances now."""

TRN2_ULTRASERVER = UltraServerType(
    name="u-trn2x64",
    instance=TRN2U_48XLARGE,
    racks=("rack-a", "rack-b"),
    title="Trn2 UltraServer",
    aliases=("trn2-ultraserver",),
    # AWS adds up rounded values of an instance: 4 x 20.8 and 4 x 10.7.
    published=_published(83.2, 42.8, 164, 11.6, 6_144, 185.6),
    claims=(
        Claim(
            "sparse FP8 peak of a Trn2 UltraServer",
            Figure(64 * 2_563 * TERA, "FLOP/s", "64 chips: " + TRN2_PAGE, "derived"),
            (Figure(332.8e15, "FLOP/s", "launch, 2024-12: 4 x dense"),),
        ),
        Claim(
            "EFA of a Trn2 UltraServer, each way",
            Figure(
                12_800 / 8 * GIGA,
                "bytes/s",
                "4 instances of 3.2 Tb/s; AWS's product page of Trn2",
                "derived",
            ),
            (Figure(3_200 / 8 * GIGA, "bytes/s", TRN2_ARCH + ", the same as an instance"),),
        ),
    ),
)
"""64 chips in two racks, as published. The Neuron driver elects each node a neighbour in the same
rack and one in the other (neuron_pelect.c); the ring is 0-1-2-3 and node 2 lies diagonally opposite
of node 0, so 0 and 1 share a rack, and 2 and 3 do (derived)."""

_TRN3_BEFORE_LAUNCH = "expected at the launch of Trainium2, 2024-12: four times its UltraServer"

_TORUS = Figure(
    6,
    "links a chip, a torus of 4 x 4 x 4 without switches",
    "Neuron driver (neuron_dhal_v4.c) on trn3p.48xlarge: neighbours to the left and right, as for"
    " Trn2",
    "derived",
)
_SWITCHES = Figure(1, "network of all chips through NeuronSwitch-v1", TRN3_ARCH)

TRN3_ULTRASERVER_GEN1 = UltraServerType(
    name="u-trn3x64",
    instance=TRN3_48XLARGE,
    racks=("rack-a", "rack-b"),
    title="Trn3 UltraServer Gen1",
    aliases=("trn3-gen1-ultraserver", "trn3-ultraserver-gen1"),
    published=_published(161.088, 42.944, 0, 11.712, 9_216, 313.6),
    claims=(
        Claim("links between chips of a Trn3 UltraServer Gen1", _SWITCHES, (_TORUS,)),
        Claim(
            "dense FP8 peak of a Trn3 UltraServer Gen1",
            Figure(161.088e15, "FLOP/s", TRN3_ARCH),
            (Figure(332.8e15, "FLOP/s", _TRN3_BEFORE_LAUNCH),),
        ),
    ),
)
"""64 chips in four instances. Its name is formed like Trn2's, and its racks are Trn2's (assumed).
"""
TRN3_ULTRASERVER_TORUS = UltraServerType(
    name="u-trn3px64",
    instance=TRN3P_48XLARGE,
    racks=("rack-a", "rack-b"),
    title="Trn3 UltraServer with the torus of trn3p",
    published=TRN3_ULTRASERVER_GEN1.published,
    claims=(Claim("links between chips of trn3p.48xlarge", _TORUS, (_SWITCHES,)),),
)
"""The same chips with the Neuron driver's links, as in older recordings. Its name is formed like
those of the others (assumed)."""
TRN3_ULTRASERVER_GEN2 = UltraServerType(
    name="u-trn3x144",
    instance=TRN3E_24XLARGE,
    racks=("rack-a", "rack-b"),
    title="Trn3 UltraServer Gen2",
    aliases=("trn3-gen2-ultraserver", "trn3-ultraserver-gen2", "trn3-ultraserver", "trn3"),
    published=_published(362.448, 96.624, 0, 26.352, 20_736, 705.6),
    claims=(
        Claim(
            "vCPUs of trn3e.24xlarge, whose size is inferred",
            Figure(64, "vCPUs", "2,304 in 36 instances: " + TRN3_ARCH, "derived"),
            (
                Figure(
                    96,
                    "vCPUs",
                    "four an xlarge, from its name in the Neuron driver (neuron_dhal_v4.c); that it"
                    " is the instance of Gen2 follows from its four chips",
                    "derived",
                ),
            ),
        ),
        Claim(
            "dense FP8 peak of a Trn3 UltraServer Gen2",
            Figure(362.448e15, "FLOP/s", TRN3_ARCH),
            (Figure(332.8e15, "FLOP/s", _TRN3_BEFORE_LAUNCH),),
        ),
        Claim(
            "sparse peak of a Trn3 UltraServer Gen2",
            Figure(144 * 2_517 * TERA, "FLOP/s", "144 chips, 16 bits only: trainium3", "derived"),
            (Figure(1.3e18, "FLOP/s", _TRN3_BEFORE_LAUNCH + ", more than that"),),
        ),
    ),
)
"""144 chips in 36 instances, in two racks of 18. Assumed, because links between racks lead to the
same place in the other rack."""

ULTRASERVER_TYPES = {
    kind.name: kind
    for kind in (
        TRN2_ULTRASERVER,
        TRN3_ULTRASERVER_GEN1,
        TRN3_ULTRASERVER_GEN2,
        TRN3_ULTRASERVER_TORUS,
    )
}
"""UltraServer types by name."""


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
    "present_instance",
    "present_name",
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
        return INSTANCE_TYPES[present_name(name)]
    except KeyError:
        raise ConfigError(unknown_instance_type(name)) from None


def unknown_instance_type(name: str) -> str:
    """Return a sentence about an unknown instance type, with the nearest known one."""
    return f"unknown instance type {name!r}: {nearest(name, INSTANCE_TYPES)}"


def present_name(name: str) -> str:
    """Return the name of an instance type in the catalogue; an unknown one as it is."""
    if name in INSTANCE_TYPES:
        return name
    return next((kind.name for kind in INSTANCE_TYPES.values() if name in kind.aliases), name)


def present_instance(name: str) -> str:
    """Return the name of an instance with its family's present name: `trn3e-0001-00`."""
    family, dash, rest = name.partition("-")
    return _FORMER_FAMILIES.get(family, family) + dash + rest


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
