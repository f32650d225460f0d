"""The plan of a training step: times and traffic of its phases.

It comes from a job's shares or from its parallelism. Owns the arithmetic of tensor, pipeline and
data parallelism on the chips of a topology. Each figure is derived from the model's size, the
tokens of a step and the hardware's bandwidths. It runs once, before the first tick.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import (
    ACTIVITY,
    AXES,
    EFA_CEILING,
    ENGINE_CEILING,
    ENGINE_EFFICIENCY,
    HBM_CEILING,
    LINK_CEILING,
    QUANTITIES,
    Phase,
)
from trnfleet.sim.jobs.parallelism import JobSite, Parallelism, StepFlops

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.domain.jobs import FineTuning, Training


WEIGHT_BYTES = GRADIENT_BYTES = 2.0
"""A weight and a gradient in HBM, also where products are in FP8: BF16."""
STATE_BYTES = 12.0
"""Adam's moments and the FP32 weight, sharded over all chips: derived, as with ZeRO-1. The content
of a checkpoint."""
ACTIVATION_BYTES = 34.0
"""Activation bytes of a layer for the backward pass, per token and hidden unit: published. Source:
Reducing Activation Recomputation in Large Transformer Models, arXiv 2205.05198, with sequence
parallelism and attention recomputed."""
RECOMPUTED_BYTES = 2.0
"""The same where the whole layer is recomputed from its input: published there."""
ACTIVATION_READS = 3.0
ACTIVATION_WRITES = 2.0
"""Transfers of an activation through HBM besides the products: assumed. It is written once, and
read by the next operator and by the backward pass. Its gradient is written and read once."""
BLOCK_COLUMNS = 1_024
"""Columns of a product per read of its other operand: published. Source: NKI tutorial on matrix
multiplication, blocks of 2,048 x 1,024 x 1,024."""
RUNTIME_SHARE = 0.03
"""Share of HBM for the runtime, graphs and buffers of collectives: assumed."""
USED_TOLERANCE = 0.02
"""Allowed shortfall of a file's `hbm_used` below the derived value, as a share. Activations are an
estimate."""


class PassTraffic(NamedTuple):
    """HBM bytes read and written by a step's forward and backward passes."""

    read: float
    write: float

    @staticmethod
    def for_job(
        job: Training | FineTuning, spread: Parallelism, flops_per_token: float
    ) -> PassTraffic:
        """Return them for a job.

        Weights are read once a microbatch and pass, gradients are added up once a microbatch, and
        the operands of products come through SBUF in blocks.
        """
        group = spread.group
        batches = spread.microbatches
        weights = WEIGHT_BYTES * (job.parameters or 0.0) / group * batches * (2.0 + job.recompute)
        gradients = GRADIENT_BYTES * job.trained_parameters / group * batches
        flops = (flops_per_token + job.recompute * job.forward_flops) * spread.tokens / group
        value_bytes = 1.0 if job.dtype == "fp8" else 2.0
        # A product of two FLOPs has an operand of one value, which a block reads for all its
        # columns.
        operands = flops / 2.0 * value_bytes / BLOCK_COLUMNS
        activations = ACTIVATION_BYTES * job.hidden * job.layers * spread.tokens / group
        return PassTraffic(
            weights + gradients + operands + activations * (ACTIVATION_READS + job.recompute),
            gradients + activations * (ACTIVATION_WRITES + job.recompute),
        )


def used_share(job: Training | FineTuning, site: JobSite, spread: Parallelism) -> float:
    """Return the share of HBM that a job fills.

    Raises:
        ConfigError: it does not fit, or in less than it needs by the file.
    """
    room = site.kind.hbm_bytes.value
    fixed = (
        WEIGHT_BYTES * (job.parameters or 0.0) + GRADIENT_BYTES * job.trained_parameters
    ) / spread.group
    fixed += STATE_BYTES * job.trained_parameters / site.chips
    if job.trained_parameters != job.parameters:
        fixed += WEIGHT_BYTES * job.trained_parameters / spread.group
    # With one forward, one backward the first stage holds a microbatch for each stage (1F1B).
    flying = min(spread.pipeline, spread.microbatches) * spread.tokens / spread.microbatches
    a_token = ACTIVATION_BYTES * (1.0 - job.recompute) + RECOMPUTED_BYTES * job.recompute
    flying *= a_token * job.hidden * job.layers / spread.group
    needed = fixed + flying + RUNTIME_SHARE * room
    is_given = "hbm_used" in job.model_fields_set
    if needed > room * (job.hbm_used + USED_TOLERANCE if is_given else 1.0):
        key = f"hbm_used = {job.hbm_used:g}" if is_given else f"tensor_parallel = {spread.tensor}"
        raise ConfigError(
            f"jobs.{job.name}.{key}: weights, gradients and optimizer state of {job.parameters:g}"
            f" parameters take {fixed / 2**30:.0f} GiB and activations {flying / 2**30:.0f} GiB, in"
            f" all with the runtime {needed / 2**30:.0f} GiB of a chip's {room / 2**30:.0f} GiB"
            f" HBM; raise {'it, ' if is_given else ''}tensor_parallel, pipeline_parallel or"
            " recompute"
        )
    return job.hbm_used if is_given else needed / room


class Checkpoint(NamedTuple):
    """A checkpoint at the full bandwidth of the shared storage."""

    time_s: float
    size_bytes: float
    """Of the whole job."""

    @staticmethod
    def for_job(job: Training | FineTuning, site: JobSite) -> Checkpoint:
        """Return that of a job.

        Raises:
            ConfigError: the file's `checkpoint_s` is less than hosts and file system can do.
        """
        size = STATE_BYTES * job.trained_parameters
        reachable = site.efa_bytes_per_s * site.instance_chips * EFA_CEILING
        if "checkpoint_s" not in job.model_fields_set:
            return Checkpoint(size / site.loads_bytes_per_s, size)
        least_s = size / min(site.hosts * reachable, site.storage_bytes_per_s)
        if job.checkpoint_s < least_s:
            raise ConfigError(
                f"jobs.{job.name}.checkpoint_s = {job.checkpoint_s:g}: its {size:.3g} bytes take"
                f" {least_s:.3g} s over the EFA of {site.hosts:g} instances and to a file system of"
                f" {site.storage_bytes_per_s:g} bytes a second"
            )
        return Checkpoint(job.checkpoint_s, size)


ALL_REDUCES_PER_LAYER = 4
"""All-reduces of activations in a layer, forward and backward: published (Megatron-LM, arXiv
1909.08053)."""
HOP_S = 1.5e-6
"""One hop of a ring over NeuronLink: published, 1 to 2 us (Neuron SDK, collectives)."""
SYNC_SHARE = 0.03
"""Share of a step spent waiting for the slowest chip before gradient collectives: assumed. Pipeline
bubbles are extra. Published are 9 % of the time of 64,000 GPUs for all variation (PRISM, arXiv
2510.15596)."""
BUCKETS = 16
"""Pieces of the gradients: assumed. Collectives begin before the backward pass ends."""
OPTIMIZER_BYTES = 26.0
"""HBM traffic of the optimizer per parameter: derived. Adam's two moments and the FP32 weight are
read and written, the gradient is read."""
RING_READS = 2.0
RING_WRITES = 1.0
"""HBM bytes read and written per byte sent by a ring: derived. Its own part and the received one
are read, their sum is written."""

_LINKS = ("rows", "columns", "z", "efa")
_TRAFFIC = [QUANTITIES[name] for name in (*_LINKS, "hbm_read", "hbm_write")]


class StepPlan(NamedTuple):
    """A step when nothing is slow."""

    compute_s: float
    bubble_s: float
    collective_s: float
    optimizer_s: float
    activity: NDArray[np.float64]
    """The job's own `activity.ACTIVITY`: shape (phases, quantities)."""
    flops: StepFlops
    compute_flops_share: float
    """Model FLOP/s in the compute phase, as a share of the chips' dense BF16 peak."""
    checkpoint_s: float
    """Time of a checkpoint at the full bandwidth of the shared storage."""
    load_s: float
    """Time to load weights and optimizer state, likewise; 0 without a model."""
    hbm_used: float
    """Share of HBM in use."""
    link_wait: float = 0.0
    """Share of the compute phase spent waiting for NeuronLink: exposed all-reduces of tensor
    parallelism."""
    tensor_axes: tuple[bool, ...] = (False,) * len(AXES)
    """Axes of `activity.AXES` that they use."""


@cache
def activity_of(*, spans: bool) -> NDArray[np.float64]:
    """Return a job's read-only activity table.

    Within one domain, EFA carries only storage traffic.
    """
    table = ACTIVITY.copy()
    if not spans:
        efa = QUANTITIES["efa"]
        storage = (Phase.CHECKPOINT, Phase.STALL, Phase.LOAD)
        table[[phase for phase in Phase if phase not in storage], efa] = 0.0
    table.setflags(write=False)
    return table


def plan(job: Training | FineTuning, site: JobSite) -> StepPlan:
    """Return a job's step.

    Raises:
        ConfigError: the file claims what the hardware cannot do, or figures of it contradict each
            other.
    """
    flops = StepFlops.for_job(job, site)
    activity = activity_of(spans=site.spans).copy()
    if job.parameters is None:
        compute_s = flops.step_s * job.compute_share
        collective_s = flops.step_s * job.collective_share
        optimizer_s = max(flops.step_s - compute_s - collective_s, 0.0)
        step = StepPlan(
            compute_s,
            0.0,
            collective_s,
            optimizer_s,
            activity,
            flops,
            0.0,
            job.checkpoint_s,
            0.0,
            job.hbm_used,
        )
    else:
        step = _ModelSharding(job, site, flops).plan(activity)
    return _computing(job, site, step)


def _computing(job: Training | FineTuning, site: JobSite, step: StepPlan) -> StepPlan:
    """Return the step with its compute phase's FLOP/s and tensor-engine activity."""
    flops = step.flops
    share = flops.mfu * flops.step_s / step.compute_s
    done = share * (1.0 + job.recompute * job.forward_flops / flops.per_token)
    most = ENGINE_CEILING * (job.tensor_active or 1.0)
    if done > most:
        key = (
            "step_time_s"
            if {"step_time_s", "mfu"} & job.model_fields_set == {"step_time_s"}
            else "mfu"
        )
        value = flops.step_s if key == "step_time_s" else flops.mfu
        raise ConfigError(
            f"jobs.{job.name}.{key} = {value:g}: forward and backward passes in"
            f" {step.compute_s / flops.step_s:.2f} of a step would do {done:.2f} of the chips'"
            f" peak, of which a tensor engine gives {most:.2f} at most; an mfu of"
            f" {flops.mfu * most / done:.2f} is the most"
        )
    step.activity[Phase.COMPUTE, QUANTITIES["tensor"]] = job.tensor_active or min(
        done / ENGINE_EFFICIENCY, 1.0
    )
    of_bf16 = site.peak_flops(job.dtype) / site.peak_flops("bf16")
    return step._replace(compute_flops_share=share * of_bf16)


class _ModelSharding:
    """A model spread over chips.

    Every figure is for one chip in one step unless noted otherwise.
    """

    def __init__(self, job: Training | FineTuning, site: JobSite, flops: StepFlops) -> None:
        self.job = job
        self.site = site
        self.flops = flops
        self.spread = Parallelism.for_job(job, site, flops.tokens)
        self.hbm_used = used_share(job, site, self.spread)

    def plan(self, activity: NDArray[np.float64]) -> StepPlan:
        """Return the step, its traffic written into `activity`."""
        job = self.job
        site = self.site
        step_s = self.flops.step_s
        hbm = site.kind.hbm_bytes_per_s.value
        optimizer_s = OPTIMIZER_BYTES * job.trained_parameters / site.chips / (0.8 * hbm)
        gradients_s = self._gradients_s(activity)
        exposed_s = gradients_s * (1.0 - job.overlap)
        if "collective_share" in job.model_fields_set:
            if job.collective_share * step_s < exposed_s:
                raise ConfigError(
                    f"jobs.{job.name}.collective_share = {job.collective_share:g}: gradients of"
                    f" {job.trained_parameters:g} parameters take {exposed_s:.3g} s that compute"
                    f" does not hide, so that {exposed_s / step_s:.3f} of a step of {step_s:.3g} s"
                    " is the least"
                )
            # The same bytes in a longer phase.
            row = activity[Phase.COLLECTIVE]
            row[_TRAFFIC] *= exposed_s / (job.collective_share * step_s)
            exposed_s = job.collective_share * step_s
        busy_s = step_s - exposed_s - optimizer_s
        if busy_s <= SYNC_SHARE * step_s:
            raise ConfigError(
                f"jobs.{job.name}.mfu = {self.flops.mfu:g}: a step of {step_s:.3g} s is shorter"
                f" than its collectives and optimizer, {exposed_s + optimizer_s:.3g} s"
            )
        passes_s = busy_s - SYNC_SHARE * step_s
        compute_s = passes_s * (1.0 - self.spread.bubble)
        hidden = activity[Phase.COLLECTIVE, _TRAFFIC] * (job.overlap / (1.0 - job.overlap))
        hidden = hidden * (exposed_s / compute_s)
        link_wait, tensor_axes = self._pass_traffic(activity, compute_s, hidden)
        self._pass_hbm(activity, compute_s, hidden)
        checkpoint = Checkpoint.for_job(job, site)
        row = activity[Phase.CHECKPOINT]
        row[QUANTITIES["efa"]] = (
            checkpoint.size_bytes / site.chips / checkpoint.time_s / site.efa_bytes_per_s
        )
        row[QUANTITIES["hbm_read"]] = checkpoint.size_bytes / site.chips / checkpoint.time_s / hbm
        load_bytes = checkpoint.size_bytes
        if job.trained_parameters != job.parameters:
            # Frozen weights, once for each copy of the model.
            load_bytes += WEIGHT_BYTES * (job.parameters or 0.0) * self.spread.replicas
        load_s = load_bytes / site.loads_bytes_per_s
        row = activity[Phase.LOAD]
        row[QUANTITIES["efa"]] = load_bytes / site.chips / load_s / site.efa_bytes_per_s
        row[QUANTITIES["hbm_write"]] = load_bytes / site.chips / load_s / hbm
        return StepPlan(
            compute_s,
            busy_s - compute_s,
            exposed_s,
            optimizer_s,
            activity,
            self.flops,
            0.0,
            checkpoint.time_s,
            load_s,
            self.hbm_used,
            link_wait,
            tensor_axes,
        )

    def _pass_hbm(
        self, activity: NDArray[np.float64], compute_s: float, hidden: NDArray[np.float64]
    ) -> None:
        """Write the HBM traffic of forward and backward passes and of concurrent gradients."""
        traffic = PassTraffic.for_job(self.job, self.spread, self.flops.per_token)
        room = self.site.kind.hbm_bytes_per_s.value * compute_s
        row = activity[Phase.COMPUTE]
        read, write = (
            alone / room + beside
            for alone, beside in zip(traffic, hidden[-2:].tolist(), strict=True)
        )
        if read + write > HBM_CEILING:
            raise ConfigError(
                f"jobs.{self.job.name}.mfu = {self.flops.mfu:g}: its forward and backward passes"
                f" would take {read + write:.0%} of the HBM bandwidth, of which {HBM_CEILING:.0%}"
                " can be reached; lower mfu, or give a replica fewer chips"
            )
        row[QUANTITIES["hbm_read"]], row[QUANTITIES["hbm_write"]] = read, write

    def _pass_traffic(
        self, activity: NDArray[np.float64], compute_s: float, hidden: NDArray[np.float64]
    ) -> tuple[float, tuple[bool, ...]]:
        """Write the traffic of forward and backward passes and of concurrent gradients.

        Returns:
            Share of the time in all-reduces of tensor parallelism, and for each of `AXES` whether
            they use it.
        """
        job = self.job
        site = self.site
        row = activity[Phase.COMPUTE]
        torus = site.kind.link_bytes_per_s.value
        z_peak = site.kind.z_link_bytes_per_s.value if site.kind.z_link_bytes_per_s else torus
        tensor = self.spread.tensor
        layer_bytes = 2.0 * self.spread.tokens * job.hidden
        reduced = ALL_REDUCES_PER_LAYER * job.layers / job.pipeline_parallel * layer_bytes
        sent = reduced * 2.0 * (tensor - 1) / tensor
        # The lanes of a row carry a group that fits in it; a wider one uses rows and columns alike.
        is_wide = tensor > site.topology.shape[1] and site.lanes("columns") > 0
        links = (site.lanes("rows") or 2.0) + (site.lanes("columns") if is_wide else 0.0)
        share = sent / (links * torus * compute_s)
        passed = {"rows": share, "columns": share if is_wide else 0.0, "z": 0.0, "efa": 0.0}
        # Boundaries of stages: activations forward and gradients back, one link each.
        border = layer_bytes / tensor if job.pipeline_parallel > 1 else 0.0
        if self.spread.group <= site.instance_chips:
            passed[site.ring_axis] += border / (torus * compute_s)
        else:
            stages = site.domain_chips // max(tensor, 1)
            crossing = (
                1.0
                if stages <= 1
                else (job.pipeline_parallel - 1) // stages / (job.pipeline_parallel - 1)
            )
            passed["z"] = (1.0 - crossing) * border / (z_peak * compute_s)
            passed["efa"] = crossing * border / (site.efa_bytes_per_s * compute_s)
        limits = {
            "rows": LINK_CEILING,
            "columns": LINK_CEILING,
            "z": LINK_CEILING,
            "efa": EFA_CEILING,
        }
        for (name, alone), beside in zip(
            passed.items(), hidden[: len(_LINKS)].tolist(), strict=True
        ):
            value = alone + beside
            if value > limits[name]:
                raise ConfigError(
                    f"jobs.{job.name}.mfu = {self.flops.mfu:g}: its traffic in forward and backward"
                    f" passes would be {value:.0%} of the bandwidth of {name}, of which"
                    f" {limits[name]:.0%} can be reached; lower mfu or tensor_parallel"
                )
            row[QUANTITIES[name]] = value
        return share / LINK_CEILING, (share > 0.0, share > 0.0 and is_wide, False)

    def _gradients_s(self, activity: NDArray[np.float64]) -> float:
        """Return the total time of gradients, and write their traffic.

        They are reduced over the replicas of a domain first, so that EFA carries each gradient of a
        domain once.
        """
        site = self.site
        group = self.spread.group
        gradient = GRADIENT_BYTES * self.job.trained_parameters / group
        torus = site.kind.link_bytes_per_s.value * LINK_CEILING
        instance = max(1, min(site.instance_chips, site.chips) // group)
        domain = max(1, min(site.domain_chips, site.chips) // group)
        rings = [(instance, gradient, torus)]
        if site.kind.z_link_bytes_per_s:
            rings.append(
                (
                    domain // instance,
                    gradient / instance,
                    site.kind.z_link_bytes_per_s.value * LINK_CEILING,
                )
            )
        parts_s = [_ring_s(ranks, size, 2.0 * rate, HOP_S) for ranks, size, rate in rings]
        # What a domain does not hold goes over EFA: each chip sends its own part through its own
        # adapter.
        between = (math.ceil(self.spread.replicas / domain), gradient / domain)
        between_s = _ring_s(*between, site.efa_bytes_per_s * EFA_CEILING, site.latency_s)
        total_s = sum(parts_s) + between_s
        row = activity[Phase.COLLECTIVE]
        row[QUANTITIES["rows"]] = row[QUANTITIES["columns"]] = 0.0
        for name, part_s, ceiling in (
            (site.ring_axis, parts_s[0], LINK_CEILING),
            ("z", parts_s[1] if len(parts_s) > 1 else 0.0, LINK_CEILING),
            ("efa", between_s, EFA_CEILING),
        ):
            row[QUANTITIES[name]] = ceiling * part_s / total_s if total_s > 0 else 0.0
        sent = sum(
            _ring_bytes(ranks, size) for ranks, size in (*(ring[:2] for ring in rings), between)
        )
        per_s = sent / total_s / site.kind.hbm_bytes_per_s.value if total_s > 0 else 0.0
        row[QUANTITIES["hbm_read"]], row[QUANTITIES["hbm_write"]] = (
            RING_READS * per_s,
            RING_WRITES * per_s,
        )
        return total_s


def _ring_bytes(ranks: int, size_bytes: float) -> float:
    """Return the bytes sent by a ring's rank in an all-reduce.

    2 (r - 1) / r of the whole.
    """
    return 2.0 * (ranks - 1) / ranks * size_bytes


def _ring_s(ranks: int, size_bytes: float, bytes_per_s: float, hop_s: float) -> float:
    """Return the time of an all-reduce over a ring.

    Its bytes, plus a latency per hop.
    """
    if ranks <= 1:
        return 0.0
    return _ring_bytes(ranks, size_bytes) / bytes_per_s + 2.0 * (ranks - 1) * hop_s * BUCKETS
