"""What chips and hosts do in each phase of a job: one table, the simulator's calibration.

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


TRAINING = slice(Phase.COMPUTE, Phase.CHECKPOINT + 1)
"""The phases that a training job goes through, in order."""


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


_TABLE = {
    # Forward and backward passes; tensor parallelism along the rows goes on beside them.
    Phase.COMPUTE: Activity(
        nc=0.97, tensor=0.96, vector=0.45, scalar=0.40, gpsimd=0.15, hbm_read=0.40, hbm_write=0.20,
        rows=0.50, columns=0.30, z=0.20, efa=0.01, vcpu=0.10,
    ),
    # Gradients go round the torus; the tail of the backward pass keeps the tensor engine partly busy. The EFA share is
    # measured: 266-279 of 400 GB/s on trn2.48xlarge (Mooncake's EFA documents).
    Phase.COLLECTIVE: Activity(
        nc=0.80, tensor=0.35, vector=0.55, scalar=0.20, gpsimd=0.35, hbm_read=0.34, hbm_write=0.26,
        rows=0.75, columns=0.75, z=0.75, efa=0.68, vcpu=0.14,
    ),
    # The weights' update streams optimizer state through HBM.
    Phase.OPTIMIZER: Activity(
        nc=0.90, tensor=0.04, vector=0.85, scalar=0.30, gpsimd=0.10, hbm_read=0.45, hbm_write=0.35,
        rows=0.02, columns=0.02, z=0.02, efa=0.01, vcpu=0.10,
    ),
    # Weights and state are copied out to the host and to shared storage; the cores wait.
    Phase.CHECKPOINT: Activity(
        nc=0.06, tensor=0.01, vector=0.05, scalar=0.05, gpsimd=0.05, hbm_read=0.25, hbm_write=0.03,
        rows=0.01, columns=0.01, z=0.01, efa=0.06, vcpu=0.45,
    ),
    # Bound by compute, like a training job's forward pass.
    Phase.PREFILL: Activity(
        nc=0.98, tensor=0.97, vector=0.45, scalar=0.42, gpsimd=0.15, hbm_read=0.35, hbm_write=0.10,
        rows=0.40, columns=0.25, z=0.10, efa=0.002, vcpu=0.30,
    ),
    # Bound by HBM: its read share follows from the model's size and the time per token (see `inference`).
    Phase.DECODE: Activity(
        nc=0.92, tensor=0.50, vector=0.35, scalar=0.30, gpsimd=0.20, hbm_read=0.0, hbm_write=0.01,
        rows=0.14, columns=0.10, z=0.05, efa=0.002, vcpu=0.18,
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
