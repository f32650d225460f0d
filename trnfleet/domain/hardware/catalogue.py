"""The hardware catalogue: chips, instance types and UltraServers, each figure with its unit, source and evidence.

Totals are derived from the chip, never written down twice; tests hold them against the published totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trnfleet.domain.hardware import topology
from trnfleet.errors import ConfigError, nearest

Evidence = Literal["published", "derived", "assumed"]
CoolingKind = Literal["air", "liquid"]

GIB = 2**30
TERA = 1e12
GIGA = 1e9

_TRN2_PAGE = "AWS Neuron SDK 2.32, arch/neuron-hardware/trainium2"
_TRN1_PAGE = "AWS Neuron SDK 2.32, arch/neuron-hardware/trainium"
_TRN2_ARCH = "AWS Neuron SDK 2.32, trn2-arch"
_TRN1_ARCH = "AWS Neuron SDK 2.32, trn1-arch"
_NO_WATTAGE = "AWS publishes no wattage"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that can be asked where it comes from."""

    value: float
    unit: str
    source: str
    evidence: Evidence = "published"


@dataclass(frozen=True, slots=True)
class Cooling:
    """How a chip gets rid of its heat."""

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
    """One NeuronLink to a torus neighbour, each way."""
    z_link_bytes_per_s: Figure | None
    """One NeuronLink to the same chip of the next instance of an UltraServer, each way."""
    power_background_w: Figure
    power_max_w: Figure
    air: Cooling
    """A heat sink in the air that enters the rack."""
    liquid: Cooling
    """A cold plate; the inlet's temperature is the coolant's."""
    throttle_start_c: Figure
    """Junction temperature above which the chip withholds peak."""
    throttle_limit_c: Figure
    """Junction temperature at which it withholds all that it can."""
    claims: tuple[Figure, ...] = ()
    """Figures that sources disagree about, kept beside those that are used."""

    def cooling(self, kind: CoolingKind) -> Cooling:
        """Return one of the ways to cool it."""
        return self.air if kind == "air" else self.liquid


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An EC2 instance type with Trainium chips."""

    name: str
    chip: ChipType
    chips: int
    vcpus: int
    host_memory_bytes: int
    efa_bytes_per_s: Figure
    """Network bandwidth each way, over EFA where the type has it."""
    host_power_idle_w: Figure
    host_power_max_w: Figure
    """CPUs, network cards and fans; the chips come on top."""
    z_links: bool = False
    """Whether its chips are linked to those of three other instances (an UltraServer's member)."""

    @property
    def grid(self) -> topology.Grid:
        """The torus that its chips form."""
        return topology.TORUS_4X4 if self.chips == 16 else topology.SINGLE

    @property
    def neuroncores(self) -> int:
        """Physical NeuronCores of all its chips."""
        return self.chips * self.chip.neuroncores

    @property
    def links_mask(self) -> int:
        """The bits of `links_up` that a healthy chip of this type has set."""
        mask = topology.TORUS_MASK if self.chips == 16 else 0
        return mask | (topology.Z_MASK if self.z_links else 0)


@dataclass(frozen=True, slots=True)
class UltraServerType:
    """Instances that NeuronLink joins to one larger torus."""

    name: str
    instance: InstanceType
    instances: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What a set of hardware adds up to; bytes, bytes per second (peak) and FLOP/s (peak, dense)."""

    chips: int = 0
    neuroncores: int = 0
    hbm_bytes: int = 0
    hbm_bytes_per_s: float = 0.0
    fp8_dense_flops: float = 0.0
    bf16_dense_flops: float = 0.0
    torus_links: int = 0
    z_links: int = 0
    vcpus: int = 0
    host_memory_bytes: int = 0
    efa_bytes_per_s: float = 0.0
    chip_power_max_w: float = 0.0


def totals(instances: dict[str, int], ultraservers: int = 0) -> Totals:
    """Return what `instances` (a count for each type name) add up to.

    Z links belong to UltraServers: `ultraservers` of the Trn2 kind, whose instances are among those counted.
    """
    kinds = [(INSTANCE_TYPES[name], count) for name, count in instances.items()]

    def add(figure: str) -> float:
        return sum(count * kind.chips * float(getattr(kind.chip, figure).value) for kind, count in kinds)

    return Totals(
        chips=sum(count * kind.chips for kind, count in kinds),
        neuroncores=sum(count * kind.neuroncores for kind, count in kinds),
        hbm_bytes=round(add("hbm_bytes")),
        hbm_bytes_per_s=add("hbm_bytes_per_s"),
        fp8_dense_flops=add("fp8_dense_flops"),
        bf16_dense_flops=add("bf16_dense_flops"),
        torus_links=sum(count * kind.grid.links for kind, count in kinds),
        z_links=ultraservers * topology.z_links(TRN2_ULTRASERVER.instances, TRN2U_48XLARGE.chips),
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
    claims=(
        Figure(5.2e15, "FLOP/s, FP8 sparse", "launch blog, 2024-12 (4 x dense)"),
        Figure(2.563e15, "FLOP/s, FP8 sparse", _TRN2_PAGE),
        Figure(2 * TERA, "bytes/s, NeuronLink a chip", "launch keynote, 2024-12"),
        Figure(1.28 * TERA, "bytes/s, NeuronLink a chip", _TRN2_PAGE),
    ),
)

CHIP_TYPES = {chip.name: chip for chip in (TRAINIUM1, TRAINIUM2)}

_TRN2_HOST = "1.5 to 2.5 kW a trn2 host beside its chips"


def _trn1(name: str, chips: int, vcpus: int, host_gib: int, network_gbps: float) -> InstanceType:
    share = chips / 16
    return InstanceType(
        name=name,
        chip=TRAINIUM1,
        chips=chips,
        vcpus=vcpus,
        host_memory_bytes=host_gib * GIB,
        efa_bytes_per_s=Figure(network_gbps / 8 * GIGA, "bytes/s", _TRN1_ARCH),
        host_power_idle_w=Figure(800 * max(share, 0.1), "W", _NO_WATTAGE, "assumed"),
        host_power_max_w=Figure(1_500 * max(share, 0.1), "W", _NO_WATTAGE, "assumed"),
    )


def _trn2_48xlarge(name: str, *, z_links: bool) -> InstanceType:
    return InstanceType(
        name=name,
        chip=TRAINIUM2,
        chips=16,
        vcpus=192,
        host_memory_bytes=2_048 * GIB,
        efa_bytes_per_s=Figure(3_200 / 8 * GIGA, "bytes/s", _TRN2_ARCH),
        host_power_idle_w=Figure(1_500, "W", _TRN2_HOST, "assumed"),
        host_power_max_w=Figure(2_500, "W", _TRN2_HOST, "assumed"),
        z_links=z_links,
    )


TRN1_2XLARGE = _trn1("trn1.2xlarge", 1, 8, 32, 12.5)
TRN1_32XLARGE = _trn1("trn1.32xlarge", 16, 128, 512, 800)
TRN1N_32XLARGE = _trn1("trn1n.32xlarge", 16, 128, 512, 1_600)
TRN2_3XLARGE = InstanceType(
    name="trn2.3xlarge",
    chip=TRAINIUM2,
    chips=1,
    vcpus=12,
    host_memory_bytes=128 * GIB,
    efa_bytes_per_s=Figure(200 / 8 * GIGA, "bytes/s", _TRN2_ARCH),
    host_power_idle_w=Figure(120, "W", "a sixteenth of a trn2 host", "assumed"),
    host_power_max_w=Figure(200, "W", "a sixteenth of a trn2 host", "assumed"),
)
TRN2_48XLARGE = _trn2_48xlarge("trn2.48xlarge", z_links=False)
TRN2U_48XLARGE = _trn2_48xlarge("trn2u.48xlarge", z_links=True)

INSTANCE_TYPES = {
    kind.name: kind
    for kind in (TRN1_2XLARGE, TRN1_32XLARGE, TRN1N_32XLARGE, TRN2_3XLARGE, TRN2_48XLARGE, TRN2U_48XLARGE)
}

TRN2_ULTRASERVER = UltraServerType(name="u-trn2x64", instance=TRN2U_48XLARGE, instances=4)
