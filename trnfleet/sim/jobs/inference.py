"""Inference jobs: a daily load with slow noise, batches, prefill bound by compute and decode bound by HBM.

Owns the jobs' load and their count of decode steps. Requests are interleaved finely, so a window of a second already
shows the mixture of prefill and decode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.jobs import Inference
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import HBM_CEILING
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Job
    from trnfleet.domain.hardware.catalogue import ChipType
    from trnfleet.domain.jobs import Peak
    from trnfleet.sim.rng import Rng

KV_PER_SEQUENCE = 0.02
"""KV cache that a decode step reads for one sequence, as a share of the weights: derived for Llama-3.3-70B (80 layers,
8 KV heads of 128, BF16) with 8,192 tokens of context, 2.7 of 141 GB."""
TPOT_PER_SEQUENCE = 0.008
"""Growth of the time per token with each further sequence of a batch: assumed."""
PREFILL_AT_FULL_LOAD = 0.30
"""Share of time in prefill at full load: assumed."""
PREFILL_FLOPS_SHARE = 0.45
"""Share of BF16 peak reached in prefill: assumed, like a good training job's compute phase."""
TENSOR_PER_FULL_BATCH = 0.12
"""Tensor-engine activity that a full batch adds to decode: assumed."""
QUEUE_GAIN = 0.5
"""Waiting for the first token, in units of its own time, at load r: gain x r^2 / (1 - r): assumed, as in an M/M/1
queue."""
MAX_QUEUED_LOAD = 0.97
"""Load at which the router begins to shed requests, so that the queue stays finite: assumed."""
MINUTE_NOISE, MINUTE_KNOT_S = 0.04, 60.0
"""Slow noise of the load, relative: assumed."""
SECONDS_NOISE, SECONDS_KNOT_S = 0.08, 5.0
"""Quicker noise of the load, relative: assumed."""
SAMPLE_S, MAX_SAMPLES = 5.0, 16
"""Longer windows are the mean of moments at this distance, the knots of the quicker noise, up to this number."""
KV_SPREAD = 0.2
"""Swing of HBM use by the KV cache between an empty and a full batch, relative, where its size is not given: assumed."""
_DAY_S = 86_400.0
_LIVED_STEPS = 2**24
"""Decode steps that a job may have behind it at the start: assumed."""


class InferenceWork(NamedTuple):
    """Work of inference jobs in a window; arrays of shape (jobs,)."""

    prefill: NDArray[np.float64]
    """Share of time in prefill; the rest is decode."""
    batch: NDArray[np.float64]
    """Sequences that a decode step advances."""
    batch_share: NDArray[np.float64]
    """Batch as a share of the largest."""
    kv_share: NDArray[np.float64]
    """Share of HBM that the sequences' KV cache takes."""
    hbm_read_bytes_per_s: NDArray[np.float64]
    """Read by one chip for decode."""
    flops: NDArray[np.float64]
    """FLOP/s of one chip for decode."""
    tokens_per_s: NDArray[np.float64]
    ttft_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]


class InferenceJobs:
    """The load of all inference jobs; arrays are in the order of the jobs given."""

    def __init__(
        self,
        jobs: Sequence[Inference],
        ordinals: NDArray[np.intp],
        chips: NDArray[np.int64],
        chip_types: Sequence[ChipType],
        rng: Rng,
        replica_chips: Sequence[int],
    ) -> None:
        """Check the jobs of the file against the hardware.

        Args:
            jobs: From the fleet file.
            ordinals: Their numbers among all jobs of the file, which key their noise.
            chips: How many chips each runs on.
            chip_types: The chip that each runs on (the smallest, where they differ).
            rng: The run's randomness.
            replica_chips: Chips of a replica of each.

        Raises:
            ConfigError: replicas do not fill the chips, a model does not fit, or a time per token is impossible.
        """
        for job, count, kind, size in zip(jobs, chips, chip_types, replica_chips, strict=True):
            _check(job, int(count), kind, size)

        def column(name: str) -> NDArray[np.float64]:
            return np.array([getattr(job, name) for job in jobs], np.float64)

        self._ordinals = ordinals
        self._rng = rng
        self._model_bytes = column("model_bytes")
        self._tpot_s, self._ttft_s = column("tpot_s"), column("ttft_s")
        self._max_batch = column("max_batch")
        self._mean, self._swing, self._peak_hour = (
            column("load_mean"),
            column("load_swing"),
            column("peak_hour_utc"),
        )
        self._chips_per_replica = np.array(replica_chips, np.float64)
        self.replicas = chips / self._chips_per_replica
        peak = np.array([kind.hbm_bytes_per_s.value for kind in chip_types], np.float64)
        self._most_bytes_per_s = HBM_CEILING * peak * self._chips_per_replica
        given = np.array([job.kv_bytes_per_token or 0.0 for job in jobs], np.float64)
        sequence = np.where(given > 0, given * column("context_tokens"), KV_PER_SEQUENCE * self._model_bytes)
        self._kv_per_sequence = np.where(given > 0, sequence / self._model_bytes, KV_PER_SEQUENCE)
        room = np.array([kind.hbm_bytes.value for kind in chip_types], np.float64) * self._chips_per_replica
        self._kv_share = sequence / room
        full = self._kv_share * self._max_batch
        self.kv_spread = np.where(
            given > 0, np.minimum(full / np.maximum(column("hbm_used"), 1e-9), 1.0), KV_SPREAD
        )
        """Swing of HBM use by the KV cache between an empty and a full batch, relative to the mean."""
        self._peaks = [(place, each) for place, job in enumerate(jobs) for each in job.peaks]
        self._count = int(ordinals.max()) + 1 if len(ordinals) else 0
        lived = rng.uniform(Stream.JOB_START, 2, self._count)[ordinals]
        is_new = np.array([job.starts_at_s is not None for job in jobs], np.bool_)
        self._decode_steps = np.where(is_new, 0.0, lived * _LIVED_STEPS)

    def advance(
        self,
        elapsed_s: float,
        middle_s: float,
        time_of_day_s: float,
        capacity: NDArray[np.float64],
        *,
        offered: NDArray[np.float64] | None = None,
        run_s: NDArray[np.float64] | None = None,
    ) -> InferenceWork:
        """Move on by `elapsed_s` and return the work done.

        A window of up to `SAMPLE_S` shows its middle; a longer one is the mean of its parts.

        Args:
            elapsed_s: Length of the window.
            middle_s: Its middle, simulated seconds since the start.
            time_of_day_s: Its middle, seconds since midnight UTC.
            capacity: Share of each job's replicas that is left by slow chips and links.
            offered: What each job's load is multiplied by; 1 by default.
            run_s: How much of the window each job runs; all of it by default.
        """
        samples = int(min(max(-(-elapsed_s // SAMPLE_S), 1), MAX_SAMPLES))
        part_s = elapsed_s / samples
        mean: list[NDArray[np.float64]] = []
        for index in range(samples):
            from_middle_s = (index - (samples - 1) / 2.0) * part_s
            load = self.load(middle_s + from_middle_s, time_of_day_s + from_middle_s, part_s)
            if offered is not None:
                load = np.minimum(load * offered, 1.0)
            sample = self._serve(load, capacity)
            mean = [a + b for a, b in zip(mean, sample, strict=True)] if mean else list(sample)
        serving = InferenceWork(*(each / samples for each in mean)) if samples > 1 else InferenceWork(*mean)
        self._decode_steps += (elapsed_s if run_s is None else run_s) / serving.tpot_s
        return serving

    def _serve(self, load: NDArray[np.float64], capacity: NDArray[np.float64]) -> InferenceWork:
        batch = np.maximum(load * self._max_batch, 1.0)
        prefill = load * PREFILL_AT_FULL_LOAD
        step_bytes = self._model_bytes * (1.0 + self._kv_per_sequence * (batch - 1.0))
        step_s = self._tpot_s * (1.0 + TPOT_PER_SEQUENCE * (batch - 1.0))
        step_s = np.maximum(step_s, step_bytes / self._most_bytes_per_s)
        tpot_s = step_s / (1.0 - prefill)
        queued = np.minimum(load, MAX_QUEUED_LOAD)
        tokens_per_s = batch / tpot_s
        # A dense model needs two FLOPs a parameter and token, and a parameter has two bytes in BF16.
        return InferenceWork(
            prefill=prefill,
            batch=batch,
            batch_share=batch / self._max_batch,
            kv_share=batch * self._kv_share,
            hbm_read_bytes_per_s=step_bytes / tpot_s / self._chips_per_replica,
            flops=self._model_bytes * tokens_per_s / self._chips_per_replica,
            tokens_per_s=tokens_per_s * self.replicas * capacity,
            ttft_s=self._ttft_s * (1.0 + QUEUE_GAIN * queued * queued / (1.0 - queued)),
            tpot_s=tpot_s,
        )

    def load(self, middle_s: float, time_of_day_s: float, elapsed_s: float = 0.0) -> NDArray[np.float64]:
        """Return each job's load, 0 to 1, at a moment.

        Args:
            middle_s: The moment, simulated seconds since the start.
            time_of_day_s: The moment, seconds since midnight UTC.
            elapsed_s: Length of the window around it, of which a peak may cover a part.
        """
        from_peak = (time_of_day_s - self._peak_hour * 3_600.0) / _DAY_S
        # The distance from the trough, 0 to 1, through a smooth step: a cosine's shape from portable operations.
        near = np.abs((from_peak - np.floor(from_peak)) * 2.0 - 1.0)
        daily = near * near * (3.0 - 2.0 * near) * 2.0 - 1.0
        minute = self._rng.smooth(Stream.LOAD_MINUTE, middle_s, MINUTE_KNOT_S, self._count)
        seconds = self._rng.smooth(Stream.LOAD_SECONDS, middle_s, SECONDS_KNOT_S, self._count)
        jitter = 1.0 + (MINUTE_NOISE * minute + SECONDS_NOISE * seconds)[self._ordinals]
        offered = (self._mean + self._swing * daily) * jitter
        for place, peak in self._peaks:
            offered[place] *= 1.0 + (peak.factor - 1.0) * _covered(peak, middle_s, time_of_day_s, elapsed_s)
        return np.clip(offered, 0.0, 1.0)

    def executions(self) -> NDArray[np.uint64]:
        """Return how many decode steps each job's replicas have completed."""
        return np.floor(self._decode_steps).astype(np.uint64)


def inference_of(jobs: Sequence[Job]) -> tuple[list[Inference], NDArray[np.intp]]:
    """Return a file's inference jobs and their numbers among all its jobs."""
    chosen = [(number, job) for number, job in enumerate(jobs) if isinstance(job, Inference)]
    return [job for _, job in chosen], np.array([number for number, _ in chosen], np.intp)


def _covered(peak: Peak, middle_s: float, time_of_day_s: float, elapsed_s: float) -> float:
    """Return the share of a window that a peak covers."""
    if peak.at_s is not None:
        since_s = middle_s - peak.at_s
        before, after = (
            min(max(since_s + half, 0.0), peak.for_s) for half in (-elapsed_s / 2.0, elapsed_s / 2.0)
        )
    else:
        since_s = time_of_day_s - (peak.at_hour_utc or 0.0) * 3_600.0
        before, after = (
            (since_s + half) // _DAY_S * peak.for_s + min((since_s + half) % _DAY_S, peak.for_s)
            for half in (-elapsed_s / 2.0, elapsed_s / 2.0)
        )
    if elapsed_s > 0:
        return (after - before) / elapsed_s
    return float(0.0 <= (since_s if peak.at_s is not None else since_s % _DAY_S) < peak.for_s)


def _check(job: Inference, chips: int, kind: ChipType, size: int) -> None:
    key = f"jobs.{job.name}"
    if chips % size:
        raise ConfigError(
            f"{key}.chips_per_replica = {size}: its {chips} chips are not a whole number of replicas"
        )
    room = kind.hbm_bytes.value * size
    if job.model_bytes > room:
        raise ConfigError(
            f"{key}.model_bytes = {job.model_bytes:g}: the HBM of {size} {kind.title} chips holds "
            f"{room:g} bytes"
        )
    kv_bytes = (job.kv_bytes_per_token or 0.0) * job.context_tokens * job.max_batch
    if job.model_bytes + kv_bytes > room:
        raise ConfigError(
            f"{key}.max_batch = {job.max_batch}: the KV cache of that number of sequences of {job.context_tokens} tokens, "
            f"{kv_bytes:.3g} bytes, does not fit beside {job.model_bytes:g} bytes of weights; there is room for "
            f"{int((room - job.model_bytes) / (kv_bytes / job.max_batch))}"
        )
    fastest = job.model_bytes / (HBM_CEILING * kind.hbm_bytes_per_s.value * size)
    if job.tpot_s < fastest:
        raise ConfigError(
            f"{key}.tpot_s = {job.tpot_s:g}: reading {job.model_bytes:g} bytes at {HBM_CEILING:.0%} of the HBM bandwidth "
            f"of {size} {kind.title} chips takes {fastest:.3g} s"
        )
