"""The kinds of hardware: chips, instance types and UltraServer types, and their figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from trnfleet.domain.hardware.topology import DIRECTIONS, Lane, Topology, TopologyKind

if TYPE_CHECKING:
    from collections.abc import Mapping

Evidence = Literal["published", "derived", "assumed"]
CoolingKind = Literal["air", "liquid"]

GIB = 2**30
TERA = 1e12
GIGA = 1e9
MOST_NEURONCORES = 8
"""Most NeuronCores of a chip: the width of per-core columns in the metric table."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its unit, source and evidence."""

    value: float
    unit: str
    source: str
    evidence: Evidence = "published"


@dataclass(frozen=True, slots=True)
class Claim:
    """A quantity about which sources disagree."""

    subject: str
    """The quantity, such as `sparse FP8 peak of Trainium2`."""
    used: Figure
    """The catalogue's value."""
    others: tuple[Figure, ...]
    """Other published values, such as a launch announcement's."""


@dataclass(frozen=True, slots=True)
class Cooling:
    """The cooling of a chip."""

    thermal_resistance_c_per_w: Figure
    """Rise over the inlet temperature per watt. About that of the rear chip in a tray."""
    thermal_time_constant_s: Figure


@dataclass(frozen=True, slots=True)
class ChipType:
    """One Trainium or Inferentia chip (the unit of telemetry)."""

    name: str
    title: str
    neuroncores: int
    """Physical NeuronCores."""
    logical_neuroncore_config: int
    """Physical cores per logical core (LNC), the runtime's default."""
    lnc_choices: tuple[int, ...]
    """Possible LNC settings of the runtime."""
    fp8_dense_flops: Figure
    bf16_dense_flops: Figure
    """Dense peak of BF16, FP16 and TF32."""
    sparse_flops: Figure | None
    """Peak with structured sparsity; None for a chip without it."""
    fp32_flops: Figure
    hbm_bytes: Figure
    hbm_stacks: int
    hbm_bytes_per_s: Figure
    link_bytes_per_s: Figure
    """Bandwidth of a lane within the instance, to a chip or switch, each way."""
    z_link_bytes_per_s: Figure | None
    """Bandwidth of a lane to other instances of an UltraServer, each way. The mean if they differ.
    """
    power_background_w: Figure
    power_max_w: Figure
    air: Cooling
    """A heat sink in the rack's inlet air."""
    liquid: Cooling
    """A cold plate; the inlet's temperature is the coolant's."""
    throttle_start_c: Figure
    """Junction temperature at which throttling starts."""
    throttle_limit_c: Figure
    """Junction temperature of maximum throttling."""
    device_types: tuple[str, ...] = ()
    """Its names in neuron-monitor's `neuron_device_type`."""
    claims: tuple[Claim, ...] = ()
    """Quantities about which sources disagree."""

    def cooling(self, kind: CoolingKind) -> Cooling:
        """Return the cooling of a kind."""
        return self.air if kind == "air" else self.liquid


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An EC2 instance type with Trainium or Inferentia chips."""

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
    """Price of an instance-hour. In a Capacity Block by the price table; on demand for types not
    sold as blocks."""
    aliases: tuple[str, ...] = ()
    """Other names: in older documentation, files and tools, or of the same hardware."""
    between: Topology | None = None
    """NeuronLinks to the chips of the same number in the other instances of its UltraServer. None
    for a standalone type."""
    between_rates: tuple[Figure, ...] = ()
    """Bandwidth of each lane between instances, each way, where they differ from one another."""
    has_efa: bool = True
    published: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Totals published by AWS, rounded as there, by the names of `Totals`."""

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
        """Link lanes of a chip: first the instance's, then the UltraServer's."""
        return self.topology.lanes + (self.between.lanes if self.between else ())

    @property
    def lane_names(self) -> tuple[str, ...]:
        """Names of a chip's link lanes.

        The six of schema version 1 if its own are the first of these.
        """
        names = tuple(lane.name for lane in self.lanes)
        return DIRECTIONS if names == DIRECTIONS[: len(names)] else names

    @property
    def chip_masks(self) -> tuple[int, ...]:
        """Bits of `links_up` per chip when all its links are up."""
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
        return (
            topology is not None
            and lane < len(self.lanes)
            and topology.kind is TopologyKind.SWITCHED
        )

    def lane_bytes_per_s(self, lane: int) -> Figure | None:
        """Return the bandwidth of a lane, each way; None without such a lane."""
        if lane >= len(self.lanes):
            return None
        if not self.is_between(lane):
            return self.chip.link_bytes_per_s
        if self.between_rates:
            return self.between_rates[lane - len(self.topology.lanes)]
        return self.chip.z_link_bytes_per_s


@dataclass(frozen=True, slots=True)
class UltraServerType:
    """Instances with chips joined by NeuronLink."""

    name: str
    instance: InstanceType
    racks: tuple[str, ...]
    """Names of its racks; the instances are divided among them in order."""
    title: str = ""
    aliases: tuple[str, ...] = ()
    """Names for people, such as `trn2-ultraserver`."""
    published: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Totals published by AWS, rounded as there, by the names of `Totals`."""
    claims: tuple[Claim, ...] = ()
    """Quantities with conflicting sources, beside those of its chip."""

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
        """Return the rack number of the instance at a place."""
        return place // self.instances_per_rack
