"""Activity of chips and hosts in each phase of a job: one table, the simulator's calibration.

Shares are of time for NeuronCores and engines, of peak bandwidth (each way) for HBM, NeuronLink and EFA, at full speed.
Evidence: where nothing else is said a share is assumed, chosen so that the modelled power of the phases lies in the
ranges of the published power studies (POLCA; arXiv 2508.14318): training compute 75-92 % of the range above
background, collectives 40-55 %, checkpoints 5-12 %, decode 35-55 %.
"""

from __future__ import annotations

import enum
from dataclasses import astuple, dataclass, fields

import numpy as np


class Phase(enum.IntEnum):
    """Phases, in the order of the table's rows."""

    COMPUTE = 0
    COLLECTIVE = 1
    OPTIMIZER = 2
    CHECKPOINT = 3
    PREFILL = 4
    DECODE = 5
    BUBBLE = 6
    STALL = 7
    EVALUATION = 8
    START = 9
    HANG = 10
    IDLE = 11


STEP = (Phase.COMPUTE, Phase.BUBBLE, Phase.COLLECTIVE, Phase.OPTIMIZER)
"""The phases of a training step, in order."""
TRAINING = (*STEP, Phase.STALL, Phase.CHECKPOINT, Phase.EVALUATION, Phase.IDLE)
"""The phases that a training or fine-tuning job goes through: those of a step, then what comes between steps and runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One row of the table."""

    nc: float
    """NeuronCores executing."""
    tensor: float
    vector: float
    scalar: float
    gpsimd: float
    hbm_read: float
    hbm_write: float
    rows: float
    """NeuronLinks west and east, each way."""
    columns: float
    """NeuronLinks north and south, each way."""
    z: float
    """NeuronLinks between the instances of an UltraServer, each way."""
    efa: float
    """EFA of a job that reaches over more than one UltraServer or standalone instance, each way."""
    vcpu: float
    """Host CPUs."""
    didt: float = 0.0
    """Of the chip's peak, withheld by the Tensor Engine's ramps; the rates of a job have it in them already."""


RAMP_S, RAMP_START = 3e-6, 0.5
"""The Tensor Engine begins at about half its rate and reaches the whole in about 3 us: published (Neuron Explorer)."""


def ramp_loss(tensor: float, burst_s: float) -> float:
    """Return the share of peak that the ramps of the Tensor Engine withhold (dI/dt).

    Args:
        tensor: Share of time in which the engine is active.
        burst_s: How long it stays active at a stretch; a pause arms the ramp again.
    """
    whole = min(burst_s, RAMP_S)
    lost_s = whole * (1.0 - RAMP_START) * (1.0 - whole / RAMP_S / 2.0)
    return tensor * lost_s / burst_s


_TABLE = {
    # Bursts of the Tensor Engine (the second figure of `ramp_loss`) are assumed: matrix products of a layer follow each
    # other for tens of microseconds, those of decode wait for weights more often.
    # Forward and backward passes; tensor parallelism along the rows goes on beside them.
    Phase.COMPUTE: Activity(
        nc=0.97, tensor=0.96, vector=0.45, scalar=0.40, gpsimd=0.15, hbm_read=0.40, hbm_write=0.20,
        rows=0.50, columns=0.30, z=0.20, efa=0.01, vcpu=0.10, didt=ramp_loss(0.96, 70e-6),
    ),
    # Gradients go round the torus; the tail of the backward pass keeps the tensor engine partly busy. The EFA share is
    # measured: 266-279 of 400 GB/s on trn2.48xlarge (Mooncake's EFA documents).
    Phase.COLLECTIVE: Activity(
        nc=0.80, tensor=0.35, vector=0.55, scalar=0.20, gpsimd=0.35, hbm_read=0.34, hbm_write=0.26,
        rows=0.75, columns=0.75, z=0.75, efa=0.68, vcpu=0.14, didt=ramp_loss(0.35, 40e-6),
    ),
    # The weights' update streams optimizer state through HBM.
    Phase.OPTIMIZER: Activity(
        nc=0.90, tensor=0.04, vector=0.85, scalar=0.30, gpsimd=0.10, hbm_read=0.45, hbm_write=0.35,
        rows=0.02, columns=0.02, z=0.02, efa=0.01, vcpu=0.10, didt=ramp_loss(0.04, 10e-6),
    ),
    # Weights and state are copied out to the host and to shared storage; the cores wait.
    Phase.CHECKPOINT: Activity(
        nc=0.06, tensor=0.01, vector=0.05, scalar=0.05, gpsimd=0.05, hbm_read=0.25, hbm_write=0.03,
        rows=0.01, columns=0.01, z=0.01, efa=0.06, vcpu=0.45,
    ),
    # Bound by compute, like a training job's forward pass.
    Phase.PREFILL: Activity(
        nc=0.98, tensor=0.97, vector=0.45, scalar=0.42, gpsimd=0.15, hbm_read=0.35, hbm_write=0.10,
        rows=0.40, columns=0.25, z=0.10, efa=0.002, vcpu=0.30, didt=ramp_loss(0.97, 70e-6),
    ),
    # Bound by HBM: its read share follows from the model's size and the time per token (see `inference`).
    Phase.DECODE: Activity(
        nc=0.92, tensor=0.50, vector=0.35, scalar=0.30, gpsimd=0.20, hbm_read=0.0, hbm_write=0.01,
        rows=0.14, columns=0.10, z=0.05, efa=0.002, vcpu=0.18, didt=ramp_loss(0.50, 15e-6),
    ),
    # The pipeline fills and drains: at any time most stages wait for their first or last microbatches. The collective
    # wait keeps cores busy without the tensor engine.
    Phase.BUBBLE: Activity(
        nc=0.60, tensor=0.08, vector=0.06, scalar=0.05, gpsimd=0.06, hbm_read=0.05, hbm_write=0.03,
        rows=0.05, columns=0.05, z=0.05, efa=0.01, vcpu=0.10,
    ),
    # The input pipeline has nothing: chips wait for the host, and the host for shared storage.
    Phase.STALL: Activity(
        nc=0.03, tensor=0.0, vector=0.01, scalar=0.01, gpsimd=0.01, hbm_read=0.01, hbm_write=0.01,
        rows=0.0, columns=0.0, z=0.0, efa=0.04, vcpu=0.35,
    ),
    # Forward passes only, in smaller batches than a training step's.
    Phase.EVALUATION: Activity(
        nc=0.85, tensor=0.62, vector=0.40, scalar=0.35, gpsimd=0.12, hbm_read=0.38, hbm_write=0.08,
        rows=0.40, columns=0.25, z=0.10, efa=0.005, vcpu=0.15, didt=ramp_loss(0.62, 70e-6),
    ),
    # What the end of a start looks like: weights have come from shared storage into HBM, graphs from the compile cache,
    # and the first collectives go round. A start climbs to it from nothing.
    Phase.START: Activity(
        nc=0.70, tensor=0.40, vector=0.40, scalar=0.30, gpsimd=0.20, hbm_read=0.20, hbm_write=0.30,
        rows=0.30, columns=0.30, z=0.20, efa=0.30, vcpu=0.60, didt=ramp_loss(0.40, 15e-6),
    ),
    # A collective that one participant never joins: the runtime polls, so cores count as busy and do nothing.
    Phase.HANG: Activity(
        nc=1.0, tensor=0.0, vector=0.01, scalar=0.01, gpsimd=0.02, hbm_read=0.01, hbm_write=0.0,
        rows=0.0, columns=0.0, z=0.0, efa=0.0, vcpu=0.06,
    ),
    # Nothing executes; the host's own services take a little.
    Phase.IDLE: Activity(
        nc=0.0, tensor=0.0, vector=0.0, scalar=0.0, gpsimd=0.0, hbm_read=0.0, hbm_write=0.0,
        rows=0.0, columns=0.0, z=0.0, efa=0.0, vcpu=0.015,
    ),
}  # fmt: skip  # a table reads as rows

HBM_CEILING = 0.95
"""Share of HBM bandwidth that can be reached: published (AWS blog on Trainium2)."""
LINK_CEILING = 0.95
"""Share of a NeuronLink's bandwidth that traffic can reach: assumed, like HBM's."""
EFA_CEILING = 0.70
"""Share of EFA bandwidth that can be reached: measured, 266-279 of 400 GB/s (Mooncake's EFA documents)."""

QUANTITIES = {field.name: number for number, field in enumerate(fields(Activity))}
"""Column of each quantity in `ACTIVITY`."""

ACTIVITY = np.array([astuple(_TABLE[phase]) for phase in Phase])
"""The table as an array: shape (phases, quantities)."""
