"""Activity of chips and hosts in each phase of a job: the simulator's calibration table.

Shares are of time for NeuronCores and engines, of peak bandwidth (each way) for HBM, NeuronLink and
EFA, at full speed. Evidence: unless noted otherwise a share is assumed. It is chosen so that the
modelled power of the phases agrees with the published power studies (POLCA; arXiv 2508.14318):
training compute 55-90 % of the range above background, by its FLOPs; less than half of that in
exposed collectives; near idle in checkpoints; decode 35-55 %.
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
    COMPILE = 12
    LOAD = 13


STEP = (Phase.COMPUTE, Phase.BUBBLE, Phase.COLLECTIVE, Phase.OPTIMIZER)
"""The phases of a training step, in order."""
TRAINING = (*STEP, Phase.STALL, Phase.CHECKPOINT, Phase.EVALUATION, Phase.IDLE)
"""Phases of a training or fine-tuning job. First the phases of a step, then others."""


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
    """EFA share, each way, of a job on more than one NeuronLink domain. A domain is an UltraServer
    or a standalone instance."""
    vcpu: float
    """Host CPUs."""


_TABLE = {
    # Forward and backward passes, with concurrent tensor parallelism along the rows. A training
    # job has its own tensor, HBM and link shares (see `training_plan`): these are a typical one's,
    # for jobs replayed from a recording.
    Phase.COMPUTE: Activity(
        nc=0.97,
        tensor=0.85,
        vector=0.45,
        scalar=0.40,
        gpsimd=0.15,
        hbm_read=0.20,
        hbm_write=0.06,
        rows=0.50,
        columns=0.30,
        z=0.20,
        efa=0.01,
        vcpu=0.10,
    ),
    # Gradients not hidden by the backward pass go round the torus; there are no products.
    # The EFA share is measured: 266-279 of 400 GB/s on trn2.48xlarge (Mooncake's EFA
    # documents).
    Phase.COLLECTIVE: Activity(
        nc=0.80,
        tensor=0.0,
        vector=0.55,
        scalar=0.20,
        gpsimd=0.35,
        hbm_read=0.34,
        hbm_write=0.26,
        rows=0.75,
        columns=0.75,
        z=0.75,
        efa=0.68,
        vcpu=0.14,
    ),
    # The weights' update streams optimizer state through HBM: reads gradient, moments and FP32
    # weight, 14 bytes a parameter, and writes the latter three, 12.
    Phase.OPTIMIZER: Activity(
        nc=0.90,
        tensor=0.0,
        vector=0.85,
        scalar=0.30,
        gpsimd=0.10,
        hbm_read=0.43,
        hbm_write=0.37,
        rows=0.02,
        columns=0.02,
        z=0.02,
        efa=0.01,
        vcpu=0.10,
    ),
    # Optimizer state is copied out to the host and to shared storage, a few gigabytes a second of
    # each chip; the cores wait.
    Phase.CHECKPOINT: Activity(
        nc=0.06,
        tensor=0.0,
        vector=0.05,
        scalar=0.05,
        gpsimd=0.05,
        hbm_read=0.001,
        hbm_write=0.0,
        rows=0.01,
        columns=0.01,
        z=0.01,
        efa=0.06,
        vcpu=0.45,
    ),
    # Bound by compute, like a training job's forward pass.
    Phase.PREFILL: Activity(
        nc=0.98,
        tensor=0.97,
        vector=0.45,
        scalar=0.42,
        gpsimd=0.15,
        hbm_read=0.35,
        hbm_write=0.10,
        rows=0.40,
        columns=0.25,
        z=0.10,
        efa=0.002,
        vcpu=0.30,
    ),
    # Bound by HBM: its read share follows from the model's size and the time per token (see
    # `serving`).
    Phase.DECODE: Activity(
        nc=0.92,
        tensor=0.42,
        vector=0.35,
        scalar=0.30,
        gpsimd=0.20,
        hbm_read=0.0,
        hbm_write=0.01,
        rows=0.14,
        columns=0.0875,
        z=0.035,
        efa=0.002,
        vcpu=0.18,
    ),
    # The pipeline fills and drains: at any time most stages wait for their first or last
    # microbatches. The collective wait keeps cores busy without the tensor engine.
    Phase.BUBBLE: Activity(
        nc=0.60,
        tensor=0.0,
        vector=0.06,
        scalar=0.05,
        gpsimd=0.06,
        hbm_read=0.05,
        hbm_write=0.03,
        rows=0.0,
        columns=0.0,
        z=0.0,
        efa=0.0,
        vcpu=0.10,
    ),
    # The input pipeline has nothing: chips wait for the host, and the host for shared storage.
    Phase.STALL: Activity(
        nc=0.03,
        tensor=0.0,
        vector=0.01,
        scalar=0.01,
        gpsimd=0.01,
        hbm_read=0.01,
        hbm_write=0.01,
        rows=0.0,
        columns=0.0,
        z=0.0,
        efa=0.04,
        vcpu=0.35,
    ),
    # The tuned model generates text, as in decode: bound by HBM, with `EVALUATION_FLOPS_SHARE`.
    Phase.EVALUATION: Activity(
        nc=0.90,
        tensor=0.42,
        vector=0.35,
        scalar=0.30,
        gpsimd=0.20,
        hbm_read=0.43,
        hbm_write=0.01,
        rows=0.14,
        columns=0.10,
        z=0.05,
        efa=0.0,
        vcpu=0.18,
    ),
    # The end of a warm-up: first collectives and first steps. It climbs to this from nothing.
    Phase.START: Activity(
        nc=0.70,
        tensor=0.40,
        vector=0.40,
        scalar=0.30,
        gpsimd=0.20,
        hbm_read=0.20,
        hbm_write=0.30,
        rows=0.30,
        columns=0.30,
        z=0.20,
        efa=0.30,
        vcpu=0.30,
    ),
    # A collective that one participant never joins: the runtime polls, so cores count as busy and
    # do nothing.
    Phase.HANG: Activity(
        nc=1.0,
        tensor=0.0,
        vector=0.01,
        scalar=0.01,
        gpsimd=0.02,
        hbm_read=0.01,
        hbm_write=0.0,
        rows=0.0,
        columns=0.0,
        z=0.0,
        efa=0.0,
        vcpu=0.06,
    ),
    # Nothing executes; the host's own services take a little.
    Phase.IDLE: Activity(
        nc=0.0,
        tensor=0.0,
        vector=0.0,
        scalar=0.0,
        gpsimd=0.0,
        hbm_read=0.0,
        hbm_write=0.0,
        rows=0.0,
        columns=0.0,
        z=0.0,
        efa=0.0,
        vcpu=0.015,
    ),
    # The host compiles graphs for NeuronCores: all of its CPUs are busy, and the chips idle.
    Phase.COMPILE: Activity(
        nc=0.0,
        tensor=0.0,
        vector=0.0,
        scalar=0.0,
        gpsimd=0.0,
        hbm_read=0.0,
        hbm_write=0.0,
        rows=0.0,
        columns=0.0,
        z=0.0,
        efa=0.0,
        vcpu=0.95,
    ),
    # Weights and optimizer state come from shared storage over EFA into HBM, at the rate at which
    # checkpoints go there.
    Phase.LOAD: Activity(
        nc=0.0,
        tensor=0.0,
        vector=0.0,
        scalar=0.0,
        gpsimd=0.0,
        hbm_read=0.0,
        hbm_write=0.001,
        rows=0.0,
        columns=0.0,
        z=0.0,
        efa=0.06,
        vcpu=0.25,
    ),
}

ENGINE_EFFICIENCY = 0.52
"""FLOP/s of an active tensor engine as a share of its peak: assumed. It lies between two measured
kinds of work with busy NeuronCores: 0.76 for a product of 8,192^3 in BF16, 0.36 in serving like
BERT."""
ENGINE_CEILING = 0.76
"""Highest share of peak of an active tensor engine: measured (the product above)."""
EVALUATION_FLOPS_SHARE = 0.015
"""FLOP/s of an evaluation as a share of the dense BF16 peak: assumed. Eight sequences generate at a
time, so that each byte of the BF16 weights is read for eight FLOPs: 1.25 TB/s, which is its share
of HBM bandwidth in the table."""
HBM_CEILING = 0.95
"""Reachable share of HBM bandwidth: published (AWS blog on Trainium2)."""
LINK_CEILING = 0.95
"""Reachable share of a NeuronLink's bandwidth: assumed, like HBM's."""
EFA_CEILING = 0.70
"""Reachable share of EFA bandwidth: measured, 266-279 of 400 GB/s (Mooncake's EFA documents)."""

QUANTITIES = {field.name: number for number, field in enumerate(fields(Activity))}
"""Column of each quantity in `ACTIVITY`."""
AXES = ("rows", "columns", "z")
"""Quantities that the traffic of NeuronLink lanes follows."""
AXIS_QUANTITIES = [QUANTITIES[axis] for axis in AXES]
"""Their columns in `ACTIVITY`."""

ACTIVITY = np.array([astuple(_TABLE[phase]) for phase in Phase])
"""The table as an array: shape (phases, quantities)."""
