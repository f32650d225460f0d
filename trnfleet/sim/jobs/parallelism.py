"""A job's hardware and the tensor, pipeline and data parallelism of its model.

Owns the numbers of chips and tokens from which everything else about a step is derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.hardware.catalogue import ChipType, ultraserver_type_of
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import EFA_CEILING

if TYPE_CHECKING:
    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.topology import Topology
    from trnfleet.domain.jobs import FineTuning, Training
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.placement import Placement

HOST_STORAGE_BYTES_PER_S = 24e9
"""A host's rate from and to the shared file system: assumed. 6 % of a trn2 instance's EFA
bandwidth."""
MFU_TOLERANCE = 0.02
"""Largest contradiction between the `tokens_per_step`, `step_time_s` and `mfu` of a file, relative.
"""


@dataclass(frozen=True, slots=True)
class JobSite:
    """The hardware of a job."""

    chips: int
    kind: ChipType
    """Its chip; where types differ, the one with the least HBM bandwidth."""
    topology: Topology
    """NeuronLinks of its first instance."""
    domain_chips: int
    """Chips joined by NeuronLink: of an UltraServer, or of an instance."""
    efa_bytes_per_s: float
    """A chip's part of its instance's EFA bandwidth, each way."""
    spans: bool
    """Whether the job reaches over more than one such domain."""
    latency_s: float
    """From one host to another."""
    storage_bytes_per_s: float = 2e12
    """Of the cluster's shared file system."""

    @property
    def instance_chips(self) -> int:
        """Chips of an instance."""
        return self.topology.members

    @property
    def hosts(self) -> float:
        """Instances of the job."""
        return self.chips / self.instance_chips

    @property
    def loads_bytes_per_s(self) -> float:
        """Rate of all its hosts from and to the shared file system."""
        reachable = self.efa_bytes_per_s * self.instance_chips * EFA_CEILING
        return min(self.hosts * min(HOST_STORAGE_BYTES_PER_S, reachable), self.storage_bytes_per_s)

    @property
    def ring_axis(self) -> str:
        """Axis of the lanes used by collectives over an instance: columns if present."""
        return "columns" if self.lanes("columns") else "rows"

    def lanes(self, axis: str) -> int:
        """Return how many lanes of a chip lie along an axis."""
        return sum(lane.axis == axis for lane in self.topology.lanes)

    def peak_flops(self, dtype: str) -> float:
        """Return the dense peak of all chips for products of a type."""
        kind = self.kind
        return (
            self.chips * (kind.fp8_dense_flops if dtype == "fp8" else kind.bf16_dense_flops).value
        )


class StepFlops(NamedTuple):
    """Tokens, time and FLOPs of a step.

    With the chips' peak as the fourth figure, two of them are free.
    """

    per_token: float
    """Model FLOPs of a token."""
    tokens: float
    step_s: float
    """When nothing is slow."""
    mfu: float

    @staticmethod
    def for_job(job: Training | FineTuning, site: JobSite) -> StepFlops:
        """Return the figures of a job.

        Raises:
            ConfigError: the file's figures contradict each other.
        """
        peak = site.peak_flops(job.dtype)
        given = job.model_fields_set
        per_token = job.model_flops
        mfu = job.mfu
        if per_token is None:
            return StepFlops(
                peak * mfu * job.step_time_s / job.tokens_per_step,
                job.tokens_per_step,
                job.step_time_s,
                mfu,
            )
        if "mfu" not in given:
            mfu *= per_token / (per_token + job.recompute * job.forward_flops)
        if "step_time_s" not in given:
            step_s = per_token * job.tokens_per_step / (peak * mfu)
            return StepFlops(per_token, job.tokens_per_step, step_s, mfu)
        if "tokens_per_step" not in given:
            return StepFlops(
                per_token, peak * mfu * job.step_time_s / per_token, job.step_time_s, mfu
            )
        actual = per_token * job.tokens_per_step / (peak * job.step_time_s)
        if "mfu" in given and abs(actual - mfu) > MFU_TOLERANCE * mfu:
            raise ConfigError(
                f"jobs.{job.name}.step_time_s = {job.step_time_s:g}: tokens_per_step ="
                f" {job.tokens_per_step:g} of {per_token:.3g} FLOPs on {site.chips} chips in that"
                f" time are an mfu of {actual:.3f}, not mfu = {mfu:g}; leave one of the three out"
                " and it follows from the others"
            )
        return StepFlops(per_token, job.tokens_per_step, job.step_time_s, actual)


class Parallelism(NamedTuple):
    """A model spread over chips."""

    tensor: int
    """Chips that share every layer."""
    pipeline: int
    """Stages of consecutive layers."""
    replicas: int
    """Data-parallel copies."""
    microbatches: int
    """Of a step and replica."""
    tokens: float
    """Of a step and replica."""

    @property
    def group(self) -> int:
        """Chips of a replica."""
        return self.tensor * self.pipeline

    @property
    def bubble(self) -> float:
        """Share of the passes a stage waits for its first or last microbatches: derived."""
        return (self.pipeline - 1) / (self.microbatches + self.pipeline - 1)

    @staticmethod
    def for_job(job: Training | FineTuning, site: JobSite, step_tokens: float) -> Parallelism:
        """Return the parallelism of a job.

        Raises:
            ConfigError: replicas do not fill the chips.
        """
        tensor = job.tensor_parallel or site.instance_chips
        if site.instance_chips % tensor:
            raise ConfigError(
                f"jobs.{job.name}.tensor_parallel = {tensor}: choose"
                f" {_divisors(site.instance_chips)}, which the {site.instance_chips} chips of an"
                " instance divide into"
            )
        group = tensor * job.pipeline_parallel
        if site.chips % group:
            raise ConfigError(
                f"jobs.{job.name}.pipeline_parallel = {job.pipeline_parallel}: with tensor_parallel"
                f" = {tensor} a replica has {group} chips, and {site.chips} chips are not a whole"
                " number of them"
            )
        replicas = site.chips // group
        tokens = step_tokens / replicas
        microbatches = job.microbatches or max(round(tokens / job.sequence_length), 1)
        return Parallelism(tensor, job.pipeline_parallel, replicas, microbatches, tokens)


def _divisors(chips: int) -> str:
    """Return the divisors of a number of chips, as a choice in a message."""
    *some, last = [str(degree) for degree in range(1, chips + 1) if chips % degree == 0]
    return f"{', '.join(some)} or {last}" if some else last


def sites_of(fleet: FleetFile, layout: Layout, placement: Placement) -> list[JobSite]:
    """Return the site of each job, by its first instance."""
    placed, first = np.unique(placement.job_of_instance, return_index=True)
    of_job = dict(zip(placed.tolist(), first.tolist(), strict=True))
    clusters = {cluster.name: cluster for cluster in fleet.clusters}
    sites = []
    for number in range(len(fleet.jobs)):
        instance = of_job[number]
        kind = layout.type_of(instance)
        ultraserver = ultraserver_type_of(kind.name)
        cluster = clusters[layout.instances[instance].partition("/")[0]]
        sites.append(
            JobSite(
                chips=int(placement.chips[number]),
                kind=placement.chip_types[number],
                topology=kind.topology,
                domain_chips=kind.chips if ultraserver is None else ultraserver.chips,
                efa_bytes_per_s=kind.efa_bytes_per_s.value / kind.chips,
                spans=bool(placement.spans[number]),
                latency_s=cluster.fabric_latency_s,
                storage_bytes_per_s=cluster.storage_bytes_per_s,
            )
        )
    return sites
