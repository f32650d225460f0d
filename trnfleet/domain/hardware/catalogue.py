"""The hardware catalogue: chips, instance types and UltraServers, each figure with its unit, source and evidence.

Totals are derived from the chip, never written down twice; tests compare them with the published totals. All that
distinguishes a generation is here: its consumers ask the type for its topology, lanes, racks and price.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trnfleet.domain.hardware.topology import (
    DIRECTIONS,
    MOST_LANES,
    SINGLE,
    TORUS_4X4,
    Z_RING_4,
    Lane,
    Topology,
    TopologyKind,
)
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Evidence = Literal["published", "derived", "assumed"]
CoolingKind = Literal["air", "liquid"]

GIB = 2**30
TERA = 1e12
GIGA = 1e9
MOST_NEURONCORES = 8
"""NeuronCores of a chip at most, which is the width of the metric table's per-core columns."""

_TRN2_PAGE = "AWS Neuron SDK 2.32, arch/neuron-hardware/trainium2"
_TRN1_PAGE = "AWS Neuron SDK 2.32, arch/neuron-hardware/trainium"
_TRN2_ARCH = "AWS Neuron SDK 2.32, trn2-arch"
_TRN1_ARCH = "AWS Neuron SDK 2.32, trn1-arch"
_NO_WATTAGE = "AWS publishes no wattage"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its unit, source and evidence."""

    value: float
    unit: str
    source: str
    evidence: Evidence = "published"


@dataclass(frozen=True, slots=True)
class Cooling:
    """The cooling of a chip."""

    thermal_resistance_c_per_w: Figure
    """Rise over the inlet's temperature for a watt."""
    thermal_time_constant_s: Figure


@dataclass(frozen=True, slots=True)
class ChipType:
    """One Trainium chip (the unit of telemetry)."""

    name: str
    title: str
    neuroncores: int
    """Physical NeuronCores."""
    logical_neuroncore_config: int
    """Physical cores that the runtime pairs to one logical core by default (LNC)."""
    fp8_dense_flops: Figure
    bf16_dense_flops: Figure
    hbm_bytes: Figure
    hbm_bytes_per_s: Figure
    link_bytes_per_s: Figure
    """One link lane to a chip of the same instance, or to its switch, each way."""
    z_link_bytes_per_s: Figure | None
    """One link lane to other instances of an UltraServer, each way."""
    power_background_w: Figure
    power_max_w: Figure
    air: Cooling
    """A heat sink in the air that enters the rack."""
    liquid: Cooling
    """A cold plate; the inlet's temperature is the coolant's."""
    throttle_start_c: Figure
    """Junction temperature above which the chip withholds peak."""
    throttle_limit_c: Figure
    """Junction temperature at which it withholds the most."""
    device_types: tuple[str, ...] = ()
    """Names that neuron-monitor has for it in `neuron_device_type`."""
    claims: tuple[Figure, ...] = ()
    """Figures about which sources disagree, beside those that are used."""

    def cooling(self, kind: CoolingKind) -> Cooling:
        """Return the cooling of a kind."""
        return self.air if kind == "air" else self.liquid


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An EC2 instance type with Trainium chips."""

    name: str
    chip: ChipType
    topology: Topology
    """NeuronLinks between its chips."""
    vcpus: int
    host_memory_bytes: int
    efa_bytes_per_s: Figure
    """Network bandwidth each way, over EFA where the type has it."""
    host_power_idle_w: Figure
    host_power_max_w: Figure
    """CPUs, network cards and fans; the chips come on top."""
    price_usd_per_h: Figure
    """Price of an instance-hour in a Capacity Block when demand is low."""
    former_names: tuple[str, ...] = ()
    """Names that older documentation and tools have for it."""
    between: Topology | None = None
    """NeuronLinks to the chips of the same number in the other instances of its UltraServer; None for a type that is not
    part of one."""

    @property
    def chips(self) -> int:
        """Chips of an instance."""
        return self.topology.members

    @property
    def family(self) -> str:
        """The name up to its size, such as `trn2u`."""
        return self.name.partition(".")[0]

    @property
    def neuroncores(self) -> int:
        """Physical NeuronCores of all its chips."""
        return self.chips * self.chip.neuroncores

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Link lanes of a chip: those of the instance, then those of the UltraServer."""
        return self.topology.lanes + (self.between.lanes if self.between else ())

    @property
    def lane_names(self) -> tuple[str, ...]:
        """Names of a chip's link lanes: the six of schema version 1 where its own are the first of these."""
        names = tuple(lane.name for lane in self.lanes)
        return DIRECTIONS if names == DIRECTIONS[: len(names)] else names

    @property
    def chip_masks(self) -> tuple[int, ...]:
        """For each chip, the bits of `links_up` that are set where all its links are up."""
        above = (1 << len(self.lanes)) - (1 << len(self.topology.lanes))
        return tuple(mask | above for mask in self.topology.masks)

    @property
    def between_mask(self) -> int:
        """The bits of `links_up` of the lanes between instances."""
        return sum(1 << lane for lane in range(len(self.lanes)) if self.is_between(lane))

    def is_between(self, lane: int) -> bool:
        """Return whether a lane leads to another instance of the UltraServer."""
        return lane >= len(self.topology.lanes)

    def is_port(self, lane: int) -> bool:
        """Return whether a lane is a port to a switch."""
        topology = self.between if self.is_between(lane) else self.topology
        return topology is not None and lane < len(self.lanes) and topology.kind is TopologyKind.SWITCHED

    def lane_bytes_per_s(self, lane: int) -> Figure | None:
        """Return the bandwidth of a lane, each way; None where the chip has no such lane."""
        if lane >= len(self.lanes):
            return None
        return self.chip.z_link_bytes_per_s if self.is_between(lane) else self.chip.link_bytes_per_s


@dataclass(frozen=True, slots=True)
class UltraServerType:
    """Instances whose chips are joined by NeuronLink."""

    name: str
    instance: InstanceType
    racks: tuple[str, ...]
    """Names of its racks, among which the instances are divided in their order."""

    @property
    def topology(self) -> Topology:
        """NeuronLinks between the chips of the same number in its instances.

        Raises:
            ValueError: its instance type has no links between instances.
        """
        if self.instance.between is None:
            raise ValueError(f"{self.instance.name} has no links between instances")
        return self.instance.between

    @property
    def instances(self) -> int:
        """Instances of an UltraServer."""
        return self.topology.members

    @property
    def chips(self) -> int:
        """Chips of an UltraServer."""
        return self.instances * self.instance.chips

    @property
    def instances_per_rack(self) -> int:
        """Instances that share a rack."""
        return -(-self.instances // len(self.racks))

    def rack_of(self, place: int) -> int:
        """Return the number of the rack in which the instance at a place stands."""
        return place // self.instances_per_rack


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a set of hardware; bytes, bytes per second (peak) and FLOP/s (peak, dense)."""

    chips: int = 0
    neuroncores: int = 0
    hbm_bytes: int = 0
    hbm_bytes_per_s: float = 0.0
    fp8_dense_flops: float = 0.0
    bf16_dense_flops: float = 0.0
    torus_links: int = 0
    """NeuronLinks between chips of an instance."""
    z_links: int = 0
    """NeuronLinks between instances of an UltraServer."""
    vcpus: int = 0
    host_memory_bytes: int = 0
    efa_bytes_per_s: float = 0.0
    chip_power_max_w: float = 0.0


def totals(instances: Mapping[str, int], ultraservers: Mapping[str, int] | None = None) -> Totals:
    """Return the sums over hardware.

    Args:
        instances: Number of instances by type name.
        ultraservers: Number of UltraServers by type name, to which links between instances belong; their instances are
            among those counted.
    """
    kinds = [(INSTANCE_TYPES[name], count) for name, count in instances.items()]
    joined = [(ULTRASERVER_TYPES[name], count) for name, count in (ultraservers or {}).items()]

    def add(figure: str) -> float:
        return sum(count * kind.chips * float(getattr(kind.chip, figure).value) for kind, count in kinds)

    return Totals(
        chips=sum(count * kind.chips for kind, count in kinds),
        neuroncores=sum(count * kind.neuroncores for kind, count in kinds),
        hbm_bytes=round(add("hbm_bytes")),
        hbm_bytes_per_s=add("hbm_bytes_per_s"),
        fp8_dense_flops=add("fp8_dense_flops"),
        bf16_dense_flops=add("bf16_dense_flops"),
        torus_links=sum(count * kind.topology.links for kind, count in kinds),
        z_links=sum(count * kind.topology.links * kind.instance.chips for kind, count in joined),
        vcpus=sum(count * kind.vcpus for kind, count in kinds),
        host_memory_bytes=sum(count * kind.host_memory_bytes for kind, count in kinds),
        efa_bytes_per_s=sum(count * kind.efa_bytes_per_s.value for kind, count in kinds),
        chip_power_max_w=add("power_max_w"),
    )


def find_instance_type(name: str) -> InstanceType:
    """Return the instance type of that name.

    Raises:
        ConfigError: there is none; the message names the nearest.
    """
    try:
        return INSTANCE_TYPES[name]
    except KeyError:
        raise ConfigError(f"unknown instance type {name!r}: {nearest(name, INSTANCE_TYPES)}") from None


def present_name(name: str) -> str:
    """Return the present name of an instance type, which older documentation and tools may call otherwise."""
    return next((kind.name for kind in INSTANCE_TYPES.values() if name in kind.former_names), name)


def find_ultraserver_type(name: str) -> UltraServerType:
    """Return the UltraServer type of that name.

    Raises:
        ConfigError: there is none; the message names the nearest.
    """
    try:
        return ULTRASERVER_TYPES[name]
    except KeyError:
        raise ConfigError(f"unknown UltraServer type {name!r}: {nearest(name, ULTRASERVER_TYPES)}") from None


def ultraserver_type_of(instance_type: str) -> UltraServerType | None:
    """Return the UltraServer type that is made of an instance type; None for a type that stands alone."""
    return next((each for each in ULTRASERVER_TYPES.values() if each.instance.name == instance_type), None)


def links_bytes_per_s(chip: ChipType) -> float:
    """Return the bandwidth of all link lanes of a chip, each way, in the instance type in which it has the most."""
    sums = [
        sum(figure.value for lane in range(len(kind.lanes)) if (figure := kind.lane_bytes_per_s(lane)))
        for kind in INSTANCE_TYPES.values()
        if kind.chip.name == chip.name
    ]
    return max(sums, default=0.0) or chip.link_bytes_per_s.value


def lane_names() -> tuple[str, ...]:
    """Return the names of all link lanes of the catalogue, those of schema version 1 first."""
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
        table: dict[str, Any] = INSTANCE_TYPES if isinstance(kind, InstanceType) else ULTRASERVER_TYPES
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
            f"{kind.name} has {len(names)} link lanes a chip; {MOST_LANES} are possible: make parallel links one lane"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"{kind.name} has two link lanes of the same name: {', '.join(names)}")
    if kind.chip.neuroncores > MOST_NEURONCORES:
        raise ConfigError(
            f"{kind.chip.name} has {kind.chip.neuroncores} NeuronCores; {MOST_NEURONCORES} are possible"
        )


TRAINIUM1 = ChipType(
    name="trainium1",
    title="Trainium1",
    neuroncores=2,
    logical_neuroncore_config=1,
    # Trainium1 computes FP8 at the rate of BF16.
    fp8_dense_flops=Figure(190 * TERA, "FLOP/s", _TRN1_PAGE),
    bf16_dense_flops=Figure(190 * TERA, "FLOP/s", _TRN1_PAGE),
    hbm_bytes=Figure(32 * GIB, "bytes", _TRN1_PAGE),
    # Instance totals (13.12 TB/s for 16 chips) take it as 820e9; the chip's page writes GiB/s.
    hbm_bytes_per_s=Figure(820 * GIGA, "bytes/s", _TRN1_ARCH),
    link_bytes_per_s=Figure(
        48 * GIGA, "bytes/s", "384 GB/s a chip over 4 links, both ways: " + _TRN1_PAGE, "derived"
    ),
    z_link_bytes_per_s=None,
    power_background_w=Figure(40, "W", _NO_WATTAGE, "assumed"),
    power_max_w=Figure(200, "W", _NO_WATTAGE, "assumed"),
    air=Cooling(
        Figure(0.20, "degC/W", "40 degC over inlet at maximum power", "assumed"),
        Figure(25, "s", "an air-cooled heat sink", "assumed"),
    ),
    liquid=Cooling(
        Figure(0.10, "degC/W", "20 degC over the coolant at maximum power", "assumed"),
        Figure(8, "s", "a cold plate stores less heat than a heat sink", "assumed"),
    ),
    throttle_start_c=Figure(
        75, "degC", "6 degC above the hottest chip at maximum power and 27 degC", "assumed"
    ),
    throttle_limit_c=Figure(95, "degC", "20 degC above the start", "assumed"),
    device_types=("trainium", "trainium1"),
)

TRAINIUM2 = ChipType(
    name="trainium2",
    title="Trainium2",
    neuroncores=8,
    logical_neuroncore_config=2,
    fp8_dense_flops=Figure(1_299 * TERA, "FLOP/s", _TRN2_PAGE),
    bf16_dense_flops=Figure(667 * TERA, "FLOP/s", _TRN2_PAGE),
    hbm_bytes=Figure(96 * GIB, "bytes", _TRN2_PAGE),
    hbm_bytes_per_s=Figure(2.9 * TERA, "bytes/s", _TRN2_PAGE),
    link_bytes_per_s=Figure(
        128 * GIGA,
        "bytes/s",
        "1,024 GB/s a chip over 4 torus links, taken as both ways: " + _TRN2_PAGE,
        "derived",
    ),
    z_link_bytes_per_s=Figure(
        64 * GIGA, "bytes/s", "256 GB/s a chip over 2 Z links, taken as both ways: " + _TRN2_PAGE, "derived"
    ),
    power_background_w=Figure(90, "W", _NO_WATTAGE, "assumed"),
    power_max_w=Figure(500, "W", _NO_WATTAGE + "; SemiAnalysis estimates about 500 W", "assumed"),
    air=Cooling(
        Figure(0.11, "degC/W", "55 degC over inlet at maximum power", "assumed"),
        Figure(30, "s", "an air-cooled heat sink", "assumed"),
    ),
    liquid=Cooling(
        Figure(0.05, "degC/W", "25 degC over the coolant at maximum power", "assumed"),
        Figure(10, "s", "a cold plate stores less heat than a heat sink", "assumed"),
    ),
    throttle_start_c=Figure(
        85, "degC", "1.5 degC above the hottest chip at maximum power and 27 degC", "assumed"
    ),
    throttle_limit_c=Figure(105, "degC", "20 degC above the start", "assumed"),
    device_types=("trainium2",),
    claims=(
        Figure(5.2e15, "FLOP/s, FP8 sparse", "launch blog, 2024-12 (4 x dense)"),
        Figure(2.563e15, "FLOP/s, FP8 sparse", _TRN2_PAGE),
        Figure(2 * TERA, "bytes/s, NeuronLink a chip", "launch keynote, 2024-12"),
        Figure(1.28 * TERA, "bytes/s, NeuronLink a chip", _TRN2_PAGE),
    ),
)

CHIP_TYPES = {chip.name: chip for chip in (TRAINIUM1, TRAINIUM2)}

_TRN2_HOST = "1.5 to 2.5 kW a trn2 host beside its chips"
_TRN2_PRICE = "Offerings seen in one region on 2026-10-03: $858.26 for 24 h of trn2.48xlarge"


def _price(usd: float, source: str, evidence: Evidence) -> Figure:
    return Figure(usd, "USD/h", source, evidence)


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
        efa_bytes_per_s=Figure(network_gbps / 8 * GIGA, "bytes/s", _TRN1_ARCH),
        host_power_idle_w=Figure(800 * max(share, 0.1), "W", _NO_WATTAGE, "assumed"),
        host_power_max_w=Figure(1_500 * max(share, 0.1), "W", _NO_WATTAGE, "assumed"),
        price_usd_per_h=price,
    )


def _trn2_48xlarge(
    name: str, price: Figure, *, between: Topology | None = None, former_names: tuple[str, ...] = ()
) -> InstanceType:
    return InstanceType(
        name=name,
        chip=TRAINIUM2,
        topology=TORUS_4X4,
        vcpus=192,
        host_memory_bytes=2_048 * GIB,
        efa_bytes_per_s=Figure(3_200 / 8 * GIGA, "bytes/s", _TRN2_ARCH),
        host_power_idle_w=Figure(1_500, "W", _TRN2_HOST, "assumed"),
        host_power_max_w=Figure(2_500, "W", _TRN2_HOST, "assumed"),
        price_usd_per_h=price,
        former_names=former_names,
        between=between,
    )


TRN1_2XLARGE = _trn1(
    "trn1.2xlarge", SINGLE, 8, 32, 12.5,
    _price(0.97, "a sixteenth of trn1.32xlarge", "assumed"),
)  # fmt: skip  # the columns of a table
TRN1_32XLARGE = _trn1(
    "trn1.32xlarge", TORUS_4X4, 128, 512, 800,
    _price(15.49, "offerings of 2024", "published"),
)  # fmt: skip
TRN1N_32XLARGE = _trn1(
    "trn1n.32xlarge", TORUS_4X4, 128, 512, 1_600,
    _price(17.85, "trn1.32xlarge at the on-demand ratio of trn1n to trn1, 24.78 to 21.50", "assumed"),
)  # fmt: skip
TRN2_3XLARGE = InstanceType(
    name="trn2.3xlarge",
    chip=TRAINIUM2,
    topology=SINGLE,
    vcpus=12,
    host_memory_bytes=128 * GIB,
    efa_bytes_per_s=Figure(200 / 8 * GIGA, "bytes/s", _TRN2_ARCH),
    host_power_idle_w=Figure(120, "W", "a sixteenth of a trn2 host", "assumed"),
    host_power_max_w=Figure(200, "W", "a sixteenth of a trn2 host", "assumed"),
    price_usd_per_h=_price(2.235, _TRN2_PRICE + ", the same per chip", "published"),
)
TRN2_48XLARGE = _trn2_48xlarge("trn2.48xlarge", _price(35.76, _TRN2_PRICE, "published"))
TRN2U_48XLARGE = _trn2_48xlarge(
    "trn2u.48xlarge",
    _price(35.76, "as trn2.48xlarge: an UltraServer is then $143.04", "assumed"),
    between=Z_RING_4,
    former_names=("trn2n.48xlarge",),
)

INSTANCE_TYPES = {
    kind.name: kind
    for kind in (TRN1_2XLARGE, TRN1_32XLARGE, TRN1N_32XLARGE, TRN2_3XLARGE, TRN2_48XLARGE, TRN2U_48XLARGE)
}
"""Instance types by name; `registered` adds to it."""

TRN2_ULTRASERVER = UltraServerType(name="u-trn2x64", instance=TRN2U_48XLARGE, racks=("rack-a", "rack-b"))
"""64 chips in two racks, as published. The Neuron driver elects each node a neighbour in the same rack and one in the other
(neuron_pelect.c); the ring is 0-1-2-3 and node 2 lies diagonally opposite of node 0, so 0 and 1 share a rack, and 2 and 3 do
(derived)."""

ULTRASERVER_TYPES = {TRN2_ULTRASERVER.name: TRN2_ULTRASERVER}
"""UltraServer types by name; `registered` adds to it."""
