"""All jobs of a fleet in one tick: training, inference and idleness as rows of the same tables.

Joins `training` and `inference`; owns what a job's figures are. Rows are the jobs in the fleet file's order and one
more at the end for idle instances, which the job number -1 indexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.sim.inference import PREFILL_FLOPS_SHARE, TENSOR_PER_FULL_BATCH, InferenceJobs, inference_of
from trnfleet.sim.phases import ACTIVITY, QUANTITIES, TRAINING, Phase
from trnfleet.sim.training import TrainingJobs, training_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.sim.degradation import Paces
    from trnfleet.sim.inference import Serving
    from trnfleet.sim.noise import Noise
    from trnfleet.sim.placement import Placement

IDLE_HBM_SHARE = 0.004
"""HBM that the runtime keeps on an idle chip, as a share: assumed."""
IDLE_VCPU_SHARE = 0.015
"""vCPU time that an idle host's own services take: assumed."""
_KV_SPREAD = 0.2
"""How far the KV cache moves an inference job's HBM use between an empty and a full batch: assumed."""

_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class JobTick:
    """What the jobs do in a tick's window; arrays of shape (jobs + 1, ...), the last row idle."""

    average: NDArray[np.float64]
    """Mean activity, columns as in `phases.QUANTITIES`."""
    work: NDArray[np.float64]
    """Nominal seconds of work done a second, by phase."""
    time: NDArray[np.float64]
    """Share of the window spent, by phase."""
    peak_flops_share: NDArray[np.float64]
    """FLOP/s achieved as a share of the chip's dense BF16 peak."""
    flops: NDArray[np.float64]
    """FLOP/s of a chip on top of that."""
    hbm_read_bytes_per_s: NDArray[np.float64]
    """HBM reads of a chip on top of `average`."""
    hbm_used: NDArray[np.float64]
    """Share of HBM."""
    executions: NDArray[np.uint64]
    """Executions completed in the job's life."""
    latency_s: NDArray[np.float64]
    """Median latency of an execution; NaN where nothing executes."""
    figures: dict[str, NDArray[np.float64]]
    """The jobs' figures by name, shape (jobs,), NaN where one makes no sense for the kind."""
    checkpointing: NDArray[np.bool_]
    """Whether a job spent most of the window on a checkpoint, shape (jobs,)."""

    def link_work(self, job: int, axis: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return, by phase, what a job asks of the links of an axis (peak seconds a second) and the time it takes."""
        return self.work[job] * ACTIVITY[:, QUANTITIES[axis]], self.time[job]


class Workloads:
    """All jobs of a fleet."""

    def __init__(self, fleet: FleetFile, placement: Placement, noise: Noise) -> None:
        """Begin in the middle of the jobs' lives.

        Raises:
            ConfigError: a job asks for what its hardware cannot do.
        """
        training, self._training = training_of(fleet.jobs)
        inference, self._inference = inference_of(fleet.jobs)
        self._steps = TrainingJobs(training, self._training, noise)
        kinds = [placement.chip_types[number] for number in self._inference.tolist()]
        self._serving = InferenceJobs(
            inference, self._inference, placement.chips[self._inference], kinds, noise
        )
        self._count = len(fleet.jobs)
        self._hbm_used = np.array([*(job.hbm_used for job in fleet.jobs), IDLE_HBM_SHARE])
        self._spans = np.append(placement.spans, [False])

    def advance(self, elapsed_s: float, middle_s: float, middle_ns: int, paces: Paces) -> JobTick:
        """Move on by `elapsed_s` and say what is done.

        Args:
            elapsed_s: Length of the window.
            middle_s: Its middle, simulated seconds since the start.
            middle_ns: Its middle, nanoseconds since 1970 UTC, which the daily load goes by.
            paces: What is slow.
        """
        rows = self._count + 1
        steps, serving = self._training, self._inference
        work, time = np.zeros((rows, len(Phase))), np.zeros((rows, len(Phase)))
        window = self._steps.advance(elapsed_s, paces.compute[steps], paces.link[steps])
        work[steps, TRAINING], time[steps, TRAINING] = window.work, window.time
        time_of_day_s = (middle_ns // 1_000_000) % (_SECONDS_A_DAY * 1_000) / 1_000
        load = self._serving.advance(elapsed_s, middle_s, time_of_day_s, paces.capacity[serving])
        work[serving, Phase.PREFILL] = time[serving, Phase.PREFILL] = load.prefill
        work[serving, Phase.DECODE] = time[serving, Phase.DECODE] = 1.0 - load.prefill

        # A sum over phases in a fixed order: a matrix product's bits depend on the processor.
        average = work[:, 0, None] * ACTIVITY[0]
        for phase in range(1, len(Phase)):
            average += work[:, phase, None] * ACTIVITY[phase]
        tensor = QUANTITIES["tensor"]
        average[serving, tensor] += TENSOR_PER_FULL_BATCH * load.batch_share * (1.0 - load.prefill)
        average[~self._spans, QUANTITIES["efa"]] = 0.0
        average[-1, QUANTITIES["vcpu"]] = IDLE_VCPU_SHARE

        share = np.zeros(rows)
        share[steps] = average[steps, tensor] * self._steps.tflops_per_tensor
        share[serving] = load.prefill * PREFILL_FLOPS_SHARE
        figures, checkpointing = self._figures(load, window.time, paces)
        latency = np.full(rows, np.nan)
        latency[steps] = figures["step_time_s"][steps]
        latency[serving] = load.tpot_s
        executions = np.zeros(rows, np.uint64)
        executions[steps] = self._steps.executions()
        executions[serving] = self._serving.executions()
        used = self._hbm_used.copy()
        used[serving] *= 1.0 + _KV_SPREAD * (load.batch_share - 0.5)
        return JobTick(
            average=average,
            work=work,
            time=time,
            peak_flops_share=share,
            flops=_spread(rows, serving, load.flops),
            hbm_read_bytes_per_s=_spread(rows, serving, load.hbm_read_bytes_per_s),
            hbm_used=np.minimum(used, 1.0),
            executions=executions,
            latency_s=latency,
            figures=figures,
            checkpointing=checkpointing,
        )

    def _figures(
        self, load: Serving, training_time: NDArray[np.float64], paces: Paces
    ) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]:
        """Return the jobs' figures; a training job's rates are those of its steps, less the time of checkpoints."""
        figures = {name: np.full(self._count, np.nan) for name in JOB_FIGURES}
        rows = self._training
        step_s = self._steps.effective_step_s(paces.compute[rows], paces.link[rows])
        saving = training_time[:, Phase.CHECKPOINT]
        figures["step_time_s"][rows] = step_s
        figures["steps_per_s"][rows] = (1.0 - saving) / step_s
        figures["tokens_per_s"][rows] = self._steps.tokens_per_step * (1.0 - saving) / step_s
        figures["mfu"][rows] = self._steps.mfu * self._steps.step_s * (1.0 - saving) / step_s
        figures["tokens_per_s"][self._inference] = load.tokens_per_s
        figures["ttft_s"][self._inference] = load.ttft_s
        figures["tpot_s"][self._inference] = load.tpot_s
        checkpointing = np.zeros(self._count, np.bool_)
        checkpointing[rows] = saving > 0.5
        return figures, checkpointing


def _spread(rows: int, where: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.zeros(rows)
    result[where] = values
    return result
