"""The plan of a training step: times of its phases and their traffic, from a job's shares or from its parallelism.

Owns the arithmetic of tensor, pipeline and data parallelism on the chips of a topology; each figure follows from the model's
size, the tokens of a step and the hardware's bandwidths. It runs once, before the first tick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import ACTIVITY, EFA_CEILING, LINK_CEILING, QUANTITIES, Phase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FineTuning, Training
    from trnfleet.domain.hardware.catalogue import ChipType
    from trnfleet.domain.hardware.topology import Topology

ALL_REDUCES_PER_LAYER = 4
"""All-reduces of activations in a layer, forward and backward: published (Megatron-LM, arXiv 1909.08053)."""
HOP_S = 1.5e-6
"""One hop of a ring over NeuronLink: published, 1 to 2 us (Neuron SDK, collectives)."""
BUCKETS = 16
"""Pieces in which gradients go round, so that collectives begin before the backward pass ends: assumed."""
OPTIMIZER_BYTES = 26.0
"""HBM traffic of the optimizer for a parameter: Adam's two moments and the FP32 weight read and written, the gradient
read (derived)."""
STATE_BYTES = 12.0
"""Adam's moments and the FP32 weight, sharded over all chips: derived, as with ZeRO-1."""
MFU_TOLERANCE = 0.02
"""Largest contradiction between a file's `step_time_s` and `mfu`."""

_TRAFFIC = [QUANTITIES[name] for name in ("rows", "columns", "z", "efa")]


@dataclass(frozen=True, slots=True)
class JobSite:
    """The hardware of a job."""

    chips: int
    kind: ChipType
    """Its chip; where types differ, the one with the least HBM bandwidth."""
    topology: Topology
    """NeuronLinks of its first instance."""
    domain_chips: int
    """Chips that NeuronLink joins: those of an UltraServer, or of an instance."""
    efa_bytes_per_s: float
    """A chip's part of its instance's EFA bandwidth, each way."""
    spans: bool
    """Whether the job reaches over more than one such domain."""
    latency_s: float
    """From one host to another."""

    @property
    def instance_chips(self) -> int:
        """Chips of an instance."""
        return self.topology.members

    @property
    def ring_axis(self) -> str:
        """Axis of the lanes that collectives over an instance use: its columns, where it has such lanes."""
        return "columns" if self.lanes("columns") else "rows"

    def lanes(self, axis: str) -> int:
        """Return how many lanes of a chip lie along an axis."""
        return sum(lane.axis == axis for lane in self.topology.lanes)


class StepPlan(NamedTuple):
    """A step when nothing is slow."""

    compute_s: float
    bubble_s: float
    collective_s: float
    optimizer_s: float
    activity: NDArray[np.float64]
    """The job's own `activity.ACTIVITY`: shape (phases, quantities)."""


@cache
def activity_of(*, spans: bool) -> NDArray[np.float64]:
    """Return the table of activity of a job, read only; EFA carries only storage traffic where no domain is left."""
    table = ACTIVITY.copy()
    if not spans:
        efa = QUANTITIES["efa"]
        storage = (Phase.CHECKPOINT, Phase.STALL)
        table[[phase for phase in Phase if phase not in storage], efa] = 0.0
        table[Phase.START, efa] = table[Phase.CHECKPOINT, efa]
    table.setflags(write=False)
    return table


def plan(job: Training | FineTuning, site: JobSite) -> StepPlan:
    """Return a job's step.

    Raises:
        ConfigError: the file claims what the hardware cannot do.
    """
    activity = activity_of(spans=site.spans)
    if job.tensor_active is not None:
        activity = activity.copy()
        activity[Phase.COMPUTE, QUANTITIES["tensor"]] = job.tensor_active
    if job.parameters is None:
        compute_s = job.step_time_s * job.compute_share
        collective_s = job.step_time_s * job.collective_share
        return StepPlan(
            compute_s, 0.0, collective_s, max(job.step_time_s - compute_s - collective_s, 0.0), activity
        )
    return _ModelSharding(job, site, job.parameters).plan(activity.copy())


class _ModelSharding:
    """A model spread over chips: every figure is one chip's in one step unless it says otherwise."""

    def __init__(self, job: Training | FineTuning, site: JobSite, parameters: float) -> None:
        self.job, self.site, self.parameters = job, site, parameters
        self.tensor = job.tensor_parallel or site.instance_chips
        if site.instance_chips % self.tensor and self.tensor % site.instance_chips:
            raise ConfigError(
                f"jobs.{job.name}.tensor_parallel = {self.tensor}: choose {_divisors(site.instance_chips)}, which the "
                f"{site.instance_chips} chips of an instance divide into"
            )
        self.group = self.tensor * job.pipeline_parallel
        if site.chips % self.group:
            raise ConfigError(
                f"jobs.{job.name}.pipeline_parallel = {job.pipeline_parallel}: with tensor_parallel = "
                f"{self.tensor} a replica has {self.group} chips, and {site.chips} chips are not a whole number "
                "of them"
            )
        self.replicas = site.chips // self.group
        sequences = job.tokens_per_step / self.replicas / job.sequence_length
        self.microbatches = job.microbatches or max(round(sequences), 1)
        self._check_memory()

    def plan(self, activity: NDArray[np.float64]) -> StepPlan:
        """Return the step, its traffic written into `activity`."""
        job, site = self.job, self.site
        step_s = self._step_s()
        optimizer_s = OPTIMIZER_BYTES * self.parameters / site.chips / (0.8 * site.kind.hbm_bytes_per_s.value)
        gradients_s = self._gradients_s(activity)
        exposed_s = gradients_s * (1.0 - job.overlap)
        if "collective_share" in job.model_fields_set:
            if job.collective_share * step_s < exposed_s:
                raise ConfigError(
                    f"jobs.{job.name}.collective_share = {job.collective_share:g}: gradients of {self.parameters:g} "
                    f"parameters take {exposed_s:.3g} s that compute does not hide, so that {exposed_s / step_s:.3f} of "
                    f"a step of {step_s:.3g} s is the least"
                )
            # The same bytes in a longer phase.
            row = activity[Phase.COLLECTIVE]
            row[_TRAFFIC] *= exposed_s / (job.collective_share * step_s)
            exposed_s = job.collective_share * step_s
        bubble = (job.pipeline_parallel - 1) / (self.microbatches + job.pipeline_parallel - 1)
        busy_s = step_s - exposed_s - optimizer_s
        if busy_s <= 0:
            raise ConfigError(
                f"jobs.{job.name}.mfu = {job.mfu}: a step of {step_s:.3g} s is shorter than its collectives and "
                f"optimizer, {exposed_s + optimizer_s:.3g} s"
            )
        compute_s = busy_s * (1.0 - bubble)
        hidden = activity[Phase.COLLECTIVE, _TRAFFIC] * (job.overlap / (1.0 - job.overlap))
        self._pass_traffic(activity, compute_s, hidden * (exposed_s / compute_s))
        return StepPlan(compute_s, busy_s * bubble, exposed_s, optimizer_s, activity)

    def _step_s(self) -> float:
        """Return the step's time that follows from the FLOPs: six a parameter and token (forward and backward)."""
        job, site = self.job, self.site
        flops = 6.0 * self.parameters * job.tokens_per_step
        peak = site.chips * site.kind.bf16_dense_flops.value
        if "step_time_s" not in job.model_fields_set:
            return flops / (peak * job.mfu)
        actual = flops / (peak * job.step_time_s)
        if abs(actual - job.mfu) > MFU_TOLERANCE:
            raise ConfigError(
                f"jobs.{job.name}.step_time_s = {job.step_time_s:g}: {job.tokens_per_step:g} tokens of "
                f"{self.parameters:g} parameters on {site.chips} chips in that time are an mfu of {actual:.3f}, not "
                f"{job.mfu:g}; leave step_time_s out and it follows from mfu"
            )
        return job.step_time_s

    def _check_memory(self) -> None:
        state = self.parameters * (4.0 / self.group + STATE_BYTES / self.site.chips)
        room = self.site.kind.hbm_bytes.value
        if state > room * self.job.hbm_used:
            raise ConfigError(
                f"jobs.{self.job.name}.hbm_used = {self.job.hbm_used:g}: weights, gradients and optimizer state of "
                f"{self.parameters:g} parameters take {state / 2**30:.0f} GiB of a chip's {room / 2**30:.0f} GiB HBM; "
                "raise it, tensor_parallel or pipeline_parallel"
            )

    def _pass_traffic(
        self, activity: NDArray[np.float64], compute_s: float, hidden: NDArray[np.float64]
    ) -> None:
        """Write the traffic of forward and backward passes, and of the gradients that go on beside them."""
        job, site = self.job, self.site
        row = activity[Phase.COMPUTE]
        torus = site.kind.link_bytes_per_s.value
        z_peak = site.kind.z_link_bytes_per_s.value if site.kind.z_link_bytes_per_s else torus
        tensor, tokens = self.tensor, job.tokens_per_step / self.replicas
        layer_bytes = 2.0 * tokens * job.hidden
        reduced = ALL_REDUCES_PER_LAYER * job.layers / job.pipeline_parallel * layer_bytes
        sent = reduced * 2.0 * (tensor - 1) / tensor
        # The lanes of a row carry a group that fits in it; a wider one uses rows and columns alike.
        is_wide = tensor > site.topology.shape[1] and site.lanes("columns") > 0
        links = (site.lanes("rows") or 2.0) + (site.lanes("columns") if is_wide else 0.0)
        share = sent / (links * torus * compute_s)
        passed = {"rows": share, "columns": share if is_wide else 0.0, "z": 0.0, "efa": 0.0}
        # Boundaries of stages: activations forward and gradients back, one link each.
        border = layer_bytes / tensor if job.pipeline_parallel > 1 else 0.0
        if self.group <= site.instance_chips:
            passed[site.ring_axis] += border / (torus * compute_s)
        else:
            stages = site.domain_chips // max(tensor, 1)
            crossing = (
                1.0 if stages <= 1 else (job.pipeline_parallel - 1) // stages / (job.pipeline_parallel - 1)
            )
            passed["z"] = (1.0 - crossing) * border / (z_peak * compute_s)
            passed["efa"] = crossing * border / (site.efa_bytes_per_s * compute_s)
        limits = {"rows": LINK_CEILING, "columns": LINK_CEILING, "z": LINK_CEILING, "efa": EFA_CEILING}
        for (name, alone), beside in zip(passed.items(), hidden.tolist(), strict=True):
            value = alone + beside
            if value > limits[name]:
                raise ConfigError(
                    f"jobs.{job.name}.mfu = {job.mfu}: its traffic in forward and backward passes would be {value:.0%} of the "
                    f"bandwidth of {name}, of which {limits[name]:.0%} can be reached; lower mfu or tensor_parallel"
                )
            row[QUANTITIES[name]] = value

    def _gradients_s(self, activity: NDArray[np.float64]) -> float:
        """Return how long gradients take in all, and write their traffic.

        They are reduced over the replicas of a domain first, so that EFA carries each gradient of a domain once.
        """
        site = self.site
        gradient = 2.0 * self.parameters / self.group
        torus = site.kind.link_bytes_per_s.value * LINK_CEILING
        instance = max(1, min(site.instance_chips, site.chips) // self.group)
        domain = max(1, min(site.domain_chips, site.chips) // self.group)
        rings = [(instance, gradient, torus)]
        if site.kind.z_link_bytes_per_s:
            rings.append(
                (domain // instance, gradient / instance, site.kind.z_link_bytes_per_s.value * LINK_CEILING)
            )
        parts_s = [_ring_s(ranks, size, 2.0 * rate, HOP_S) for ranks, size, rate in rings]
        # What a domain does not hold goes over EFA: each chip sends its own part through its own adapter.
        between_s = _ring_s(
            math.ceil(self.replicas / domain),
            gradient / domain,
            site.efa_bytes_per_s * EFA_CEILING,
            site.latency_s,
        )
        total_s = sum(parts_s) + between_s
        row = activity[Phase.COLLECTIVE]
        row[QUANTITIES["rows"]] = row[QUANTITIES["columns"]] = 0.0
        for name, part_s, ceiling in (
            (site.ring_axis, parts_s[0], LINK_CEILING),
            ("z", parts_s[1] if len(parts_s) > 1 else 0.0, LINK_CEILING),
            ("efa", between_s, EFA_CEILING),
        ):
            row[QUANTITIES[name]] = ceiling * part_s / total_s if total_s > 0 else 0.0
        return total_s


def _divisors(chips: int) -> str:
    """Return the numbers that a number of chips divides into, as a choice."""
    *some, last = [str(each) for each in range(1, chips + 1) if chips % each == 0]
    return f"{', '.join(some)} or {last}" if some else last


def _ring_s(ranks: int, size_bytes: float, bytes_per_s: float, hop_s: float) -> float:
    """Return the time of an all-reduce over a ring: 2 (r - 1) / r of the bytes, and a latency for each of its hops."""
    if ranks <= 1:
        return 0.0
    return 2.0 * (ranks - 1) / ranks * size_bytes / bytes_per_s + 2.0 * (ranks - 1) * hop_s * BUCKETS
