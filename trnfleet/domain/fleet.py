"""Models of a fleet file: its hardware, jobs, and slow or broken parts.

The file is TOML. `expand` turns its counts into instances.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    TRN2_ULTRASERVER,
    ULTRASERVER_TYPES,
    CoolingKind,
    UltraServerType,
    find_ultraserver_type,
    lane_names,
    present_name,
)
from trnfleet.domain.hardware.comparators import ACCELERATED_TYPES
from trnfleet.domain.jobs import FineTuning, Inference, Job, Peak, Reserved, Traced, Training
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.links import link_end
from trnfleet.domain.power import FLEET, Racks
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations.market import BlockEntry, Market
from trnfleet.domain.schema import Model, Moment, Positive, Segment, Share
from trnfleet.domain.site import PUE
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


__all__ = (
    "Cluster",
    "FineTuning",
    "FleetFile",
    "Inference",
    "Instances",
    "Job",
    "Link",
    "Model",
    "Peak",
    "Positive",
    "Publishing",
    "Rates",
    "Reserved",
    "Segment",
    "Share",
    "Straggler",
    "Traced",
    "Training",
    "UltraServers",
    "chip_at",
    "expand",
    "find_lane",
    "instances_of",
    "lnc_by_instance",
)

MAX_INSTANCES = 250_000
"""Most instances of a fleet (4,000,000 chips). A typing error must not fill the memory."""


FAILING_CHIPS = 10_000
"""Chips from which a fleet has random faults by default (assumed). By the published rates 10,000
chips interrupt their jobs about every five hours; on smaller fleets a day may well pass without a
fault."""


def _known(name: str) -> str:
    if name not in FAULTS:
        raise ValueError(nearest(name, FAULTS))
    return name


FaultName = Annotated[str, AfterValidator(_known)]


def _instance_type(name: str) -> str:
    if present_name(name) not in INSTANCE_TYPES:
        raise ValueError(_unknown("instance", name, INSTANCE_TYPES))
    return present_name(name)


def _ultraserver_type(name: str) -> str:
    if name not in ULTRASERVER_TYPES:
        raise ValueError(_unknown("UltraServer", name, ULTRASERVER_TYPES))
    return name


def _lnc_of_chip(lnc: Any, info: ValidationInfo) -> Any:
    name = info.data.get("type", "")
    kind = (
        ULTRASERVER_TYPES[name].instance if name in ULTRASERVER_TYPES else INSTANCE_TYPES.get(name)
    )
    # A run without a valid type is refused for that.
    if (
        lnc is not None
        and kind is not None
        and (type(lnc) is not int or lnc not in kind.chip.lnc_choices)
    ):
        raise ValueError(
            f"a {kind.chip.title} of {kind.name} has"
            f" {counted(kind.chip.neuroncores, 'NeuronCore')}; choose"
            f" {' or '.join(map(str, kind.chip.lnc_choices))}"
        )
    return lnc


class _Run(Model):
    """Fields of every kind of run."""

    count: Annotated[int, Field(ge=1)]
    type: str
    first: Annotated[int, Field(ge=0, le=999_999_999)] = 1
    digits: Annotated[int, Field(ge=1, le=9)] = 4
    """Digits of the number in the name. 4 makes `us-0001` with instances `trn2u-0001-0` to `-3`."""
    lnc: Annotated[int | None, BeforeValidator(_lnc_of_chip)] = None
    """Physical NeuronCores per logical core, one of the chip's `lnc_choices`; the chip's default if
    None."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Check the digits of a run's numbers.

        Addresses are sorted as text, so numbers of one run must have the same number of digits.
        """
        last = self.first + self.count - 1
        if last >= 10**self.digits:
            raise ValueError(
                f"digits = {self.digits} is too few for number {last}: make it {len(str(last))}"
            )
        return self


class UltraServers(_Run):
    """A run of UltraServers of one cluster, numbered from `first`."""

    type: Annotated[str, AfterValidator(_ultraserver_type)] = TRN2_ULTRASERVER.name


class Instances(_Run):
    """A run of standalone instances of one cluster, numbered from `first`."""

    type: Annotated[str, AfterValidator(_instance_type)]


class Cluster(Model):
    """One UltraCluster."""

    name: Segment
    ultraservers: tuple[UltraServers, ...] = ()
    instances: tuple[Instances, ...] = ()
    fabric_bits_per_s: Positive | None = None
    """Bandwidth of the network between UltraServers and instances. By default 10 Pb/s for each
    3,125 instances or part of them. Published: an UltraCluster's network has 10 Pb/s and 10 us
    latency ("10p10u"). Derived: that is the full EFA rate (3.2 Tb/s) of 3,125 instances. Assumed:
    larger clusters have as many such networks."""
    storage_bytes_per_s: Positive = 2e12
    """Bandwidth of the shared file system for checkpoints (assumed)."""
    zone: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")] = "us-east-2b"
    """Availability Zone. Capacity Blocks of Trn2 UltraServers are sold in that region (assumed: in
    this zone)."""
    fabric_latency_s: Positive = 10e-6
    """Latency between two hosts. Published: 10 us; 15 us measured from HBM to HBM (Neuron SDK)."""


class Straggler(Model):
    """A chip with a lower clock than its peers."""

    chip: str
    """The chip's address."""
    slower_pct: Annotated[
        float,
        Field(gt=0, lt=100, validation_alias=AliasChoices("slower_pct", "throttle_pct")),
    ] = 30.0
    """How much slower; `throttle_pct` in files of earlier versions."""
    from_s: Annotated[float, Field(ge=0)] = 0.0
    """Start in seconds after the simulation's."""
    until_s: Annotated[float, Field(gt=0)] | None = None


class Link(Model):
    """A slow or down NeuronLink; both of its ends show it."""

    chip: str
    """Address of the chip at one end."""
    direction: str
    """Name of the link lane there, such as `east`."""
    capacity: Share = 0.25
    """Remaining share of the link's bandwidth. 0 means down: the fault `link_down` or `z_link_down`
    with its recovery, until `until_s`, or as long as the table of faults says."""
    from_s: Annotated[float, Field(ge=0)] = 0.0
    until_s: Annotated[float, Field(gt=0)] | None = None

    @field_validator("direction")
    @classmethod
    def _known(cls, direction: str) -> str:
        names = lane_names()
        if direction not in names:
            raise ValueError(f"unknown direction {direction!r}: {nearest(direction, names)}")
        return direction


class Publishing(Model):
    """Publishing options; command-line options override them."""

    format: Literal["json", "cbor"] = "json"
    granularity: Literal["chip", "instance", "ultraserver", "block"] | None = None
    """Part of the fleet in one message. By default chip for JSON and ultraserver for CBOR."""
    block_ultraservers: Annotated[int, Field(ge=1, le=16)] = 8
    """UltraServers in a block. 8 make frames of 512 chips, below 128 KB."""


class Rates(Model):
    """Random faults, at the rates of the table of faults."""

    acceleration: Annotated[float, Field(ge=0.0, le=1e18, allow_inf_nan=False)] = 1.0
    """Factor on the rates; with 0 nothing comes by itself."""
    only: tuple[FaultName, ...] = ()
    """Only these faults; empty for all faults with a rate."""
    without: tuple[FaultName, ...] = ()


class FleetFile(Model):
    """A whole fleet file."""

    name: Segment
    title: str = ""
    start: Moment = datetime(2026, 1, 5, tzinfo=UTC)
    """Simulated time of the first tick where it is not the wall clock's (`--stdout`)."""
    inlet_c: Annotated[float, Field(ge=0, le=50)] = 27.0
    """Air at the racks' inlets, or the coolant's supply where cooling is liquid, degC."""
    cooling: CoolingKind = "air"
    """Trainium2 is air-cooled (published); `liquid` is a what-if."""
    rack_power_cap_w: Positive | None = None
    """Power limit of a rack. A rack is its instances of an UltraServer with their hosts, or a
    standalone instance."""
    power_caps_w: dict[str, Positive] = Field(default_factory=dict)
    """Power caps of chips by rack, UltraServer, standalone instance, job or `fleet`. The app and
    its alerts compare with them; the simulator does not."""
    pue: Annotated[float, Field(ge=1, le=3)] = PUE
    """Power usage effectiveness of the site; AWS's global figure for 2025 is 1.14."""
    publish: Publishing = Publishing()
    clusters: Annotated[tuple[Cluster, ...], Field(min_length=1)]
    jobs: tuple[Job, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    links: tuple[Link, ...] = ()
    rates: Rates | None = None
    """Random faults. By default a fleet of `FAILING_CHIPS` or more has all at their published
    rates, others none."""
    market: Market = Market()
    """Sale of Capacity Blocks."""
    blocks: Annotated[tuple[BlockEntry, ...], Field(max_length=4_096)] = ()
    """Capacity Blocks that there are at the start. Jobs on their instances run while a block is
    active."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _unique("cluster", [cluster.name for cluster in self.clusters])
        _unique("job", [job.name for job in self.jobs])
        count = sum(
            sum(
                find_ultraserver_type(run.type).instances * run.count
                for run in cluster.ultraservers
            )
            + sum(run.count for run in cluster.instances)
            for cluster in self.clusters
        )
        if not 1 <= count <= MAX_INSTANCES:
            raise ValueError(f"the fleet has {count} instances; 1 to {MAX_INSTANCES} are possible")
        known = self._capped_places() if self.power_caps_w else []
        for place in self.power_caps_w:
            if place not in known:
                raise ValueError(
                    f"power_caps_w: no place is called {place!r}: {nearest(place, known)}"
                )
        return self

    def _capped_places(self) -> list[str]:
        racks = Racks.of(Layout.of(expand(self)))
        labels = map(racks.label, range(len(racks)))
        jobs = (job.name for job in self.jobs)
        return [FLEET, *jobs, *racks.layout.ultraservers, *labels]

    def rates_for(self, chips: int) -> Rates | None:
        """Return the file's random faults, or the default for a fleet of that size."""
        if self.rates is not None or chips < FAILING_CHIPS:
            return self.rates
        return Rates()


def expand(fleet: FleetFile) -> list[tuple[str, str]]:
    """Return a fleet file's (instance path, instance type) pairs.

    Raises:
        ValueError: two runs contain the same instance.
    """
    pairs = [member for name, run in _runs(fleet) for member in _members(name, run)]
    _unique("instance", [path for path, _ in pairs])
    return pairs


def lnc_by_instance(fleet: FleetFile) -> dict[str, int]:
    """Return the logical NeuronCore configurations set in the fleet file, by instance path."""
    return {
        path: run.lnc
        for name, run in _runs(fleet)
        if run.lnc is not None
        for path, _ in _members(name, run)
    }


def _runs(fleet: FleetFile) -> Iterator[tuple[str, UltraServers | Instances]]:
    """Yield each run with its cluster's name."""
    for cluster in fleet.clusters:
        yield from ((cluster.name, run) for run in cluster.ultraservers)
        yield from ((cluster.name, run) for run in cluster.instances)


def _members(cluster: str, run: UltraServers | Instances) -> Iterator[tuple[str, str]]:
    """Yield path and type of each instance of a run."""
    if isinstance(run, Instances):
        family = run.type.partition(".")[0]
        for number in range(run.first, run.first + run.count):
            yield f"{cluster}/{address.STANDALONE}/{family}-{number:0{run.digits}d}", run.type
        return
    kind = find_ultraserver_type(run.type)
    digits = _digits(kind)
    for number in range(run.first, run.first + run.count):
        label = f"{number:0{run.digits}d}"
        for place in range(kind.instances):
            yield (
                f"{cluster}/us-{label}/{kind.instance.family}-{label}-{place:0{digits}d}",
                kind.instance.name,
            )


def instances_of(layout: Layout, targets: tuple[str, ...], owner: str) -> list[range]:
    """Return the instance ranges named by addresses, or by ranges of them.

    A range `uc1/us-0001..us-0008` includes both ends; they are siblings.

    Raises:
        ValueError: an address is not in the fleet; the message names `owner` and the nearest
            address.
    """
    ranges: list[range] = []
    for target in targets:
        covered = layout.find_instances(target)
        if covered is None:
            known = (layout.ultraservers + layout.instances)[:4_000]
            raise ValueError(
                f"{owner}: no UltraServer or instance at {target!r}: {nearest(target, known)}"
            )
        if not covered:
            raise ValueError(f"{owner}: range {target!r} runs backwards")
        ranges.append(covered)
    return ranges


def chip_at(layout: Layout, path: str, owner: str) -> int:
    """Return the chip row at an address.

    Raises:
        ValueError: no chip of the fleet has it; the message names `owner` and the nearest address.
    """
    node = layout.find(path)
    if node is None or node.level is not Level.CHIP:
        known = layout.instances[:2_000]
        raise ValueError(
            f"{owner}: no chip at {path!r}: {nearest(path, (f'{name}/chip00' for name in known))}"
        )
    return node.number


def find_lane(layout: Layout, chip: int, name: str) -> int:
    """Return the number of a chip's link lane.

    Raises:
        ValueError: the chip has no such link.
    """
    instance = int(layout.instance_of_chip[chip])
    names = layout.lane_names_of(instance)
    lane = names.index(name) if name in names else -1
    if lane < 0 or link_end(layout, chip, lane) is None:
        raise ValueError(
            f"{layout.path(Node(Level.CHIP, chip))}: a {layout.type_of(instance).name} has no"
            f" {name} link"
        )
    return lane


def _unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """Return the error for a type unknown in a fleet."""
    if name in ACCELERATED_TYPES:
        return (
            f"{name} is in the catalogue for comparison only (trnfleet fleet compare): a fleet has"
            f" Trainium and Inferentia, {', '.join(sorted(choices))}"
        )
    for kind in ULTRASERVER_TYPES.values():
        if name in kind.aliases and kind.name in choices:
            return f"unknown {what} type {name!r}: did you mean {kind.name!r}?"
    generation = _generation(name)
    known = sorted({_generation(choice) for choice in choices} - {""})
    if generation and known and generation not in known:
        return (
            f"unknown {what} type {name!r}: trnfleet does not know {generation}; it knows"
            f" {', '.join(known)}"
        )
    return f"unknown {what} type {name!r}: {nearest(name, choices)}"


def _generation(name: str) -> str:
    """Return the generation of an instance type: `trn2` of `trn2u.48xlarge`.

    Empty if the name has none.
    """
    match = re.match(r"((?:trn|inf)\d+)[a-z]*\.", name)
    return match[1] if match else ""


def _digits(kind: UltraServerType) -> int:
    """Return the digits of an instance's number in its UltraServer.

    All have the same: addresses are sorted as text.
    """
    return len(str(kind.instances - 1))


def _unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"duplicate {what} {name!r}")
        seen.add(name)
