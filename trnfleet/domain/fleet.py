"""What a fleet file says: which hardware there is, which jobs run on it, and what is slow or broken.

The file is TOML; these are its models. `expand` turns counts into the instances that they stand for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from trnfleet.domain import address, topology
from trnfleet.domain.address import Level
from trnfleet.domain.hardware import INSTANCE_TYPES, TRN2_ULTRASERVER
from trnfleet.domain.layout import Layout, Node
from trnfleet.errors import nearest

Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]

Places = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=400)], ...], Field(min_length=1, max_length=1_000)
]
"""Addresses and ranges; what a job's message has room for."""

MAX_INSTANCES = 250_000
"""Instances of one fleet (4,000,000 chips), so that a slip of the pen does not fill the memory."""


class Model(BaseModel):
    """Base of every model of a file: frozen, strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class UltraServers(Model):
    """A run of Trn2 UltraServers of one cluster, numbered from `first`."""

    count: Annotated[int, Field(ge=1)]
    type: Literal["u-trn2x64"] = "u-trn2x64"
    first: Annotated[int, Field(ge=0, le=999_999_999)] = 1
    digits: Annotated[int, Field(ge=1, le=9)] = 4
    """Digits of the number in the name: 4 gives `us-0001` with instances `trn2u-0001-0` to `-3`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_digits(self.first, self.count, self.digits)
        return self


class Instances(Model):
    """A run of standalone instances of one cluster, numbered from `first`."""

    type: str
    count: Annotated[int, Field(ge=1)]
    first: Annotated[int, Field(ge=0, le=999_999_999)] = 1
    digits: Annotated[int, Field(ge=1, le=9)] = 4

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.type not in INSTANCE_TYPES:
            raise ValueError(f"unknown instance type {self.type!r}: {nearest(self.type, INSTANCE_TYPES)}")
        _check_digits(self.first, self.count, self.digits)
        return self


class Cluster(Model):
    """One UltraCluster."""

    name: Segment
    ultraservers: tuple[UltraServers, ...] = ()
    instances: tuple[Instances, ...] = ()


class Training(Model):
    """A synchronous training job: a step takes as long as its slowest chip."""

    kind: Literal["training"]
    name: Segment
    on: Places
    """Addresses of UltraServers or instances, or ranges such as `uc1/us-0001..us-0008`."""
    step_time_s: Positive = 8.0
    """Time of one step when nothing is slow."""
    compute_share: Share = 0.72
    """Share of a step spent in forward and backward passes, with their tensor-parallel traffic."""
    collective_share: Share = 0.20
    """Share of a step spent in gradient collectives that compute does not hide."""
    mfu: Share = 0.40
    """Model FLOP/s utilisation over a whole step, of dense BF16 peak."""
    tokens_per_step: Positive = 4_194_304.0
    hbm_used: Share = 0.78
    """Share of HBM that weights, optimizer state and activations take."""
    checkpoint_every_steps: Annotated[int, Field(ge=0)] = 200
    """Steps between checkpoints; 0 for none."""
    checkpoint_s: Positive = 12.0

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.compute_share <= 0 or self.compute_share + self.collective_share > 1:
            raise ValueError(
                f"compute_share {self.compute_share} + collective_share {self.collective_share} must be above 0 and at "
                "most 1 (the rest is the optimizer)",
            )
        return self


class Inference(Model):
    """A serving job: prefill is bound by compute, decode by HBM; load follows the day."""

    kind: Literal["inference"]
    name: Segment
    on: Places
    chips_per_replica: Annotated[int, Field(ge=1)] = 16
    """Chips over which one copy of the model is sharded."""
    model_bytes: Positive = 141e9
    """Weights that every decode step reads; 141 GB is Llama-3.3-70B in BF16."""
    tpot_s: Positive = 0.0197
    """Time per output token at batch 1; published for Llama-3.3-70B on trn2.48xlarge."""
    ttft_s: Positive = 0.81
    """Time to first token without queueing; published for Llama-3.3-70B on trn2.48xlarge."""
    max_batch: Annotated[int, Field(ge=1)] = 32
    load_mean: Share = 0.55
    """Mean load over a day, as a share of what the replicas can carry."""
    load_swing: Share = 0.25
    """How far the daily curve goes above and below the mean."""
    peak_hour_utc: Annotated[float, Field(ge=0, lt=24)] = 18.0
    hbm_used: Share = 0.65
    """Share of HBM that weights and an average KV cache take."""


Job = Annotated[Training | Inference, Field(discriminator="kind")]


class Straggler(Model):
    """A chip that withholds part of its peak."""

    chip: str
    """The chip's address."""
    throttle_pct: Annotated[float, Field(gt=0, lt=100)] = 30.0
    """Share of peak withheld."""
    from_s: Annotated[float, Field(ge=0)] = 0.0
    """Seconds after the start at which it begins."""
    until_s: Annotated[float, Field(gt=0)] | None = None


class Link(Model):
    """A NeuronLink that is slow or down; both of its ends see it."""

    chip: str
    """Address of the chip at one end."""
    direction: Literal["north", "south", "west", "east", "z_prev", "z_next"]
    capacity: Share = 0.25
    """Share of the link's bandwidth that is left; 0 means down."""
    from_s: Annotated[float, Field(ge=0)] = 0.0
    until_s: Annotated[float, Field(gt=0)] | None = None


class Publishing(Model):
    """How the fleet publishes unless the command line says otherwise."""

    format: Literal["json", "cbor"] = "json"
    granularity: Literal["chip", "instance", "ultraserver", "block"] | None = None
    """What one message covers; by default chip for JSON and ultraserver for CBOR."""
    block_ultraservers: Annotated[int, Field(ge=1, le=16)] = 8
    """UltraServers in a block: 8 make frames of 512 chips, which stay under 128 KB."""


class FleetFile(Model):
    """A whole fleet file."""

    name: Segment
    title: str = ""
    start: datetime = datetime(2026, 1, 5, tzinfo=UTC)
    """Simulated time of the first tick where it is not the wall clock's (`--stdout`)."""
    inlet_c: Annotated[float, Field(ge=0, le=50)] = 27.0
    """Air at the racks' inlets, degC."""
    pue: Annotated[float, Field(ge=1, le=3)] = 1.14
    """Power usage effectiveness of the site; AWS's global figure for 2025 is 1.14."""
    publish: Publishing = Publishing()
    clusters: Annotated[tuple[Cluster, ...], Field(min_length=1)]
    jobs: tuple[Job, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    links: tuple[Link, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.start.tzinfo is None:
            raise ValueError("start has no time zone; write it as 2026-01-05T00:00:00Z")
        if not 1970 < self.start.year < 2200:
            raise ValueError(f"start is in the year {self.start.year}; choose one from 1971 to 2199")
        _unique("cluster", [cluster.name for cluster in self.clusters])
        _unique("job", [job.name for job in self.jobs])
        count = sum(
            sum(4 * run.count for run in cluster.ultraservers) + sum(run.count for run in cluster.instances)
            for cluster in self.clusters
        )
        if not 1 <= count <= MAX_INSTANCES:
            raise ValueError(f"the fleet has {count} instances; 1 to {MAX_INSTANCES} are possible")
        return self


def expand(fleet: FleetFile) -> list[tuple[str, str]]:
    """Return the (instance path, instance type) pairs that a fleet file stands for.

    Raises:
        ValueError: two runs give the same instance.
    """
    pairs: list[tuple[str, str]] = []
    for cluster in fleet.clusters:
        for run in cluster.ultraservers:
            for number in range(run.first, run.first + run.count):
                label = f"{number:0{run.digits}d}"
                pairs.extend(
                    (f"{cluster.name}/us-{label}/trn2u-{label}-{place}", TRN2_ULTRASERVER.instance.name)
                    for place in range(TRN2_ULTRASERVER.instances)
                )
        for alone in cluster.instances:
            family = alone.type.partition(".")[0]
            pairs.extend(
                (f"{cluster.name}/{address.STANDALONE}/{family}-{number:0{alone.digits}d}", alone.type)
                for number in range(alone.first, alone.first + alone.count)
            )
    _unique("instance", [path for path, _ in pairs])
    return pairs


def instances_of(layout: Layout, targets: tuple[str, ...], owner: str) -> list[range]:
    """Return the instance ranges that addresses, or ranges of them, name.

    A range `uc1/us-0001..us-0008` includes both ends, which are siblings.

    Raises:
        ValueError: an address is not in the fleet; the message names `owner` and the nearest address.
    """
    found: list[range] = []
    for target in targets:
        covered = layout.find_instances(target)
        if covered is None:
            known = (layout.ultraservers + layout.instances)[:4_000]
            raise ValueError(f"{owner}: no UltraServer or instance at {target!r}: {nearest(target, known)}")
        if not covered:
            raise ValueError(f"{owner}: range {target!r} runs backwards")
        found.append(covered)
    return found


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


def link_ends(layout: Layout, chip: int, direction: int) -> tuple[int, int]:
    """Return the chip rows at both ends of the link that leaves `chip` in `direction`.

    Raises:
        ValueError: the chip has no such link.
    """
    instance = int(layout.instance_of_chip[chip])
    kind = layout.type_of(instance)
    if not kind.links_mask >> direction & 1:
        raise ValueError(
            f"{layout.path(Node(Level.CHIP, chip))}: a {kind.name} has no {topology.DIRECTIONS[direction]} link"
        )
    first = int(layout.chip_start[instance])
    if direction < topology.Z_PREV:
        return chip, first + kind.grid.neighbour(chip - first, direction)
    members = layout.instance_range(layout.parent(Node(Level.INSTANCE, instance)))
    other = members.start + topology.ring_neighbour(instance - members.start, direction, len(members))
    return chip, int(layout.chip_start[other]) + chip - first


def _check_digits(first: int, count: int, digits: int) -> None:
    """Addresses are sorted as text, so numbers of one run must have the same number of digits."""
    last = first + count - 1
    if last >= 10**digits:
        raise ValueError(f"digits = {digits} is too few for number {last}: make it {len(str(last))}")


def _unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} {name!r} is there twice")
        seen.add(name)
