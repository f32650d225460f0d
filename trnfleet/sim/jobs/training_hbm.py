"""HBM of a training job: its contents, the traffic of its passes, and checkpoint copies.

Every figure is for one chip unless noted otherwise, and is derived from the model's size, its
parallelism and the tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import EFA_CEILING

if TYPE_CHECKING:
    from trnfleet.domain.jobs import FineTuning, Training
    from trnfleet.sim.jobs.parallelism import JobSite, Parallelism

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
HOST_STORAGE_BYTES_PER_S = 24e9
"""A host's write rate to the shared file system: assumed. 6 % of a trn2 instance's EFA bandwidth.
"""


class PassTraffic(NamedTuple):
    """HBM bytes read and written by a step's forward and backward passes."""

    read: float
    write: float

    @staticmethod
    def of(job: Training | FineTuning, spread: Parallelism, flops_per_token: float) -> PassTraffic:
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
    def of(job: Training | FineTuning, site: JobSite) -> Checkpoint:
        """Return that of a job.

        Raises:
            ConfigError: the file's `checkpoint_s` is less than hosts and file system can do.
        """
        size = STATE_BYTES * job.trained_parameters
        reachable = site.efa_bytes_per_s * site.instance_chips * EFA_CEILING
        if "checkpoint_s" not in job.model_fields_set:
            bytes_per_s = min(
                site.hosts * min(HOST_STORAGE_BYTES_PER_S, reachable), site.storage_bytes_per_s
            )
            return Checkpoint(size / bytes_per_s, size)
        least_s = size / min(site.hosts * reachable, site.storage_bytes_per_s)
        if job.checkpoint_s < least_s:
            raise ConfigError(
                f"jobs.{job.name}.checkpoint_s = {job.checkpoint_s:g}: its {size:.3g} bytes take"
                f" {least_s:.3g} s over the EFA of {site.hosts:g} instances and to a file system of"
                f" {site.storage_bytes_per_s:g} bytes a second"
            )
        return Checkpoint(job.checkpoint_s, size)
