"""Bytes of a training step: published by chips and hosts, and required by collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.truth.flops import chip_of
from trnfleet.domain.hardware.catalogue import ultraserver_type_of
from trnfleet.domain.jobs import FineTuning, Training

if TYPE_CHECKING:
    from lab.truth.observe import JobSeries, Observation

CHECKPOINT_BYTES = 12.0
"""Bytes of a trained parameter in a checkpoint: Adam's two moments and the FP32 weight."""
GRADIENT_BYTES = 2.0
"""Bytes of a parameter's gradient on its way round: BF16."""
ALL_REDUCES_PER_LAYER = 4
"""Forward and backward: published (Megatron-LM, arXiv 1909.08053)."""


class StepBytes(NamedTuple):
    """Traffic of one job, and its arithmetic intensity.

    In bytes of a step summed over all chips.
    """

    fleet: str
    job: str
    links: float
    """NeuronLinks, sent, as published."""
    links_due: float
    """What the job's collectives send over NeuronLink."""
    efa: float
    efa_due: float
    """Traffic of gradients and stages over EFA, and the checkpoints' part of a step."""
    flops_per_hbm_byte: float
    """Model FLOPs for each byte read from or written to HBM."""
    hbm_share: float
    """HBM bandwidth in use, of peak."""


def step_bytes(seen: Observation) -> list[StepBytes]:
    """Return the traffic of every training and fine-tuning job with a model and a parallelism."""
    found = []
    for series in seen.jobs:
        job = seen.fleet.jobs[series.number]
        if not isinstance(job, Training | FineTuning) or job.parameters is None:
            continue
        steps_per_s = series.mean("steps_per_s")
        hbm = series.mean("hbm_read_bytes_per_s") + series.mean("hbm_write_bytes_per_s")
        peak = chip_of(seen, series).hbm_bytes_per_s.value * series.chips
        links_due, efa_due = _due(seen, series, job)
        found.append(
            StepBytes(
                seen.fleet.name,
                series.name,
                series.mean("link_tx_bytes_per_s") / steps_per_s,
                links_due,
                series.mean("efa_tx_bytes_per_s") / steps_per_s,
                efa_due,
                series.mean("tflops") * 1e12 / hbm,
                hbm / peak,
            )
        )
    return found


def _due(seen: Observation, series: JobSeries, job: Training | FineTuning) -> tuple[float, float]:
    """Return a step's bytes over NeuronLink and EFA, from model and parallelism alone."""
    first = int((seen.engine.job_of_instance == series.number).argmax())
    kind = seen.engine.layout.type_of(first)
    ultraserver = ultraserver_type_of(kind.name)
    domain_chips = min(kind.chips if ultraserver is None else ultraserver.chips, series.chips)
    tensor = job.tensor_parallel or kind.chips
    group = tensor * job.pipeline_parallel
    replicas = series.chips // group
    tokens = series.mean("tokens_per_s") / series.mean("steps_per_s") / replicas
    boundary = 2.0 * tokens * job.hidden
    layers = job.layers / job.pipeline_parallel
    links = series.chips * ALL_REDUCES_PER_LAYER * layers * boundary * 2.0 * (tensor - 1) / tensor
    stages_inside = max(domain_chips // tensor, 1)
    crossing = (job.pipeline_parallel - 1) // stages_inside
    inside = job.pipeline_parallel - 1 - crossing
    links += replicas * inside * 2.0 * boundary
    efa = replicas * crossing * 2.0 * boundary
    gradient = GRADIENT_BYTES * job.trained_parameters / group
    instance = max(min(kind.chips, series.chips) // group, 1)
    domain = max(domain_chips // group, 1)
    links += series.chips * (
        _ring(instance, gradient) + _ring(max(domain // instance, 1), gradient / instance)
    )
    efa += series.chips * _ring(replicas // domain, gradient / domain)
    if job.checkpoint_every_steps:
        efa += CHECKPOINT_BYTES * job.trained_parameters / job.checkpoint_every_steps
    return links, efa


def _ring(ranks: int, size_bytes: float) -> float:
    """Return the bytes sent by one rank of a ring in an all-reduce."""
    return 2.0 * (ranks - 1) / ranks * size_bytes if ranks > 1 else 0.0
