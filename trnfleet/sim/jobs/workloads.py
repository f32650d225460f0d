"""All jobs of a fleet in one window, as rows of the same tables.

These are training, serving, recordings and idleness. Joins the kinds of jobs with their lives and
the network between them; owns the jobs' figures. Rows are the jobs in the fleet file's order, one
for idle instances, and one for each replica of the serving jobs, job after job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.jobs import JOB_STATES, Reserved, Traced
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.domain.severity import Severity
from trnfleet.sim.jobs.activity import (
    AXES,
    EVALUATION_FLOPS_SHARE,
    QUANTITIES,
    STEP,
    TRAINING,
    Phase,
)
from trnfleet.sim.jobs.fabric import Fabrics
from trnfleet.sim.jobs.lifecycle import JobLifecycle, WindowSplit
from trnfleet.sim.jobs.parallelism import sites_of
from trnfleet.sim.jobs.serving.inference import (
    InferenceJobs,
    ReplicaWork,
    ServingFigures,
    inference_of,
)
from trnfleet.sim.jobs.serving.replica_rows import JobShares, ReplicaRows
from trnfleet.sim.jobs.slowdown import Halt, Slowdowns
from trnfleet.sim.jobs.startup import (
    MEMORY_BUSY,
    MEMORY_IDLE,
    MEMORY_OF_STARTS,
    STARTUP,
    StartWork,
)
from trnfleet.sim.jobs.traces import Trace, trace_of
from trnfleet.sim.jobs.training import (
    EXECUTIONS_PER_STEP,
    TrainingJobs,
    TrainingPace,
    TrainingWork,
    training_of,
)
from trnfleet.sim.jobs.training_plan import StepPlan, activity_of, plan
from trnfleet.sim.jobs.window import SPECULATIVE_TAIL, TAIL, JobChange, JobTick

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.sim.jobs.serving.times import ServingTimes
    from trnfleet.sim.placement import Placement
    from trnfleet.sim.rng import Rng

IDLE_HBM_SHARE = 0.004
"""HBM share of the runtime on an idle chip: assumed."""
TRACE_EXECUTION_S = 0.1
"""Execution latency of a job replayed from a recording: assumed. Recordings contain only
utilisation."""
TRACE_HBM_READ = 0.30
"""Share of HBM bandwidth read by such a job during decode: assumed."""

HANG_STEPS = 3
"""Steps without a finished one after which a job is known to hang, if they take longer than the
runtime's timeout: assumed."""

_SECONDS_A_DAY = 86_400
_EVENTS: dict[str, tuple[Severity, str]] = {
    "job_started": (Severity.INFO, "starts"),
    "job_hung": (Severity.WARNING, "makes no progress: its processes wait in a collective"),
    "job_resumed": (Severity.INFO, "goes on"),
    "job_failed": (Severity.CRITICAL, "failed"),
    "job_restarted": (Severity.INFO, "starts again"),
    "job_ended": (Severity.INFO, "has ended"),
}
"""Events of jobs in order of publication: severity, and text without a detail."""
_STATE = {name: number for number, name in enumerate(JOB_STATES)}
_STATE_OF_PHASE = np.full(len(Phase), _STATE["running"], np.int8)
_STATE_OF_PHASE[[Phase.CHECKPOINT, Phase.STALL, Phase.IDLE, Phase.EVALUATION]] = [
    _STATE[name] for name in ("checkpointing", "stalled", "idle", "evaluating")
]


class Workloads:
    """All jobs of a fleet."""

    def __init__(
        self,
        fleet: FleetFile,
        placement: Placement,
        rng: Rng,
        traces: Mapping[str, Trace],
        *,
        layout: Layout | None = None,
    ) -> None:
        """Begin in the middle of the jobs' lives.

        Args:
            fleet: The fleet file.
            placement: Where its jobs run.
            rng: The run's randomness.
            traces: Recorded utilisation by job.
            layout: The fleet's, if it exists already.

        Raises:
            ConfigError: a job asks for what its hardware cannot do, or has no recording.
        """
        layout = Layout.of(expand(fleet)) if layout is None else layout
        self._jobs = fleet.jobs
        self._count = len(fleet.jobs)
        training, self._training = training_of(fleet.jobs)
        inference, self._inference = inference_of(fleet.jobs)
        sites = sites_of(fleet, layout, placement)
        plans = [
            plan(job, sites[number])
            for job, number in zip(training, self._training.tolist(), strict=True)
        ]
        self.flops_per_token = {
            number: step_plan.flops.per_token
            for number, step_plan in zip(self._training.tolist(), plans, strict=True)
        }
        """Model FLOPs of a token of each training job, by its number."""
        self._steps = TrainingJobs(training, plans, self._training, rng)
        kinds = [placement.chip_types[number] for number in self._inference.tolist()]
        self._serving = InferenceJobs(
            inference,
            self._inference,
            placement.chips[self._inference],
            kinds,
            rng,
            placement.replica_chips[self._inference].tolist(),
            [
                job.model_bytes / replace(sites[number], chips=chips).loads_bytes_per_s
                for job, number, chips in zip(
                    inference,
                    self._inference.tolist(),
                    placement.replica_chips[self._inference].tolist(),
                    strict=True,
                )
            ],
        )
        self._traced = [
            (number, job, trace_of(job, traces))
            for number, job in enumerate(fleet.jobs)
            if isinstance(job, Traced)
        ]
        self._reserved = np.array([isinstance(job, Reserved) for job in fleet.jobs], np.bool_)
        load_s = np.zeros(self._count)
        load_s[self._training] = [step_plan.load_s for step_plan in plans]
        load_s[self._inference] = [
            job.model_bytes * replicas / sites[number].loads_bytes_per_s
            for job, number, replicas in zip(
                inference, self._inference.tolist(), self._serving.count.tolist(), strict=True
            )
        ]
        self.lifecycle = JobLifecycle(fleet.jobs, load_s)
        timeout_s = FAULTS["hang_compute"].stages.detect_s
        self._hung_after_s = np.full(self._count, timeout_s)
        self._hung_after_s[self._training] = np.maximum(timeout_s, HANG_STEPS * self._steps.step_s)
        self._tables(placement, plans)
        tables = self._activity[self._kind[self._inference]]
        self._replicas = ReplicaRows(
            tables, self._inference, self._serving.job, self._serving.count
        )
        speculates = np.array([job.speculative_tokens > 0 for job in inference], np.bool_)
        tails = np.where(speculates[self._serving.job], SPECULATIVE_TAIL, TAIL)
        self._latency_tail = np.concatenate([np.full(self._count + 1, TAIL), tails])
        # What serves has its own: weights and cache.
        self._hbm_used = np.array([*(job.hbm_used or 0.0 for job in fleet.jobs), IDLE_HBM_SHARE])
        self._hbm_used[self._training] = [step_plan.hbm_used for step_plan in plans]
        self._fabrics = self._share_fabrics(fleet, layout, placement)
        self._restarts = np.zeros(self._count, np.int64)
        self._wall_s, self._served_s = np.zeros(self._count), np.zeros(self._count)
        self._traced_executions = np.zeros(self._count)

    @property
    def link_need(self) -> NDArray[np.float64]:
        """For each job and axis of NeuronLink, the share of reachable bandwidth that it needs.

        Shape (jobs, axes). Serving sends in bursts, and needs all.
        """
        need = np.ones((self._count, len(AXES)))
        need[self._training] = self._steps.link_need
        return need

    @property
    def serving_times(self) -> list[ServingTimes]:
        """Times of a replica of each serving job, in the file's order."""
        return self._serving.times

    def advance(
        self, elapsed_s: float, middle_s: float, middle_ns: int, slowdowns: Slowdowns
    ) -> JobTick:
        """Move on by `elapsed_s` and return the work done.

        Args:
            elapsed_s: Length of the window.
            middle_s: Its middle, simulated seconds since the start.
            middle_ns: Its middle, nanoseconds since 1970 UTC, which the daily load goes by.
            slowdowns: Of jobs and replicas.
        """
        rows = self._count + 1
        steps = self._training
        serving = self._inference
        span = self.lifecycle.advance(
            elapsed_s,
            middle_s,
            slowdowns.halt,
            slowdowns.storage,
            self._hung_after_s,
            slowdowns.is_cold,
        )
        changes = self._changes(span, slowdowns.halt)
        pace = self._pace(slowdowns, span.run_s > 0.0)
        window = self._steps.advance(elapsed_s, span.run_s[steps], pace)
        time_of_day_s = (middle_ns // 1_000_000) % (_SECONDS_A_DAY * 1_000) / 1_000
        replicas, served = self._serving.advance(
            elapsed_s,
            middle_s,
            time_of_day_s,
            pace=slowdowns.replica,
            halt=slowdowns.replica_halt,
            offered=slowdowns.load[serving],
            run_s=span.run_s[serving],
            is_kept=(span.run_s + span.hang_s)[serving] > 0.0,
        )
        shares = JobShares(
            span.run_s[serving] / elapsed_s,
            span.hang_s[serving] / elapsed_s,
            StartWork(*(seconds[..., serving] for seconds in span.start)).over(elapsed_s),
        )
        of_replicas = self._replicas.phases(replicas, shares)
        busy = self._recorded(middle_s - elapsed_s / 2.0, middle_s + elapsed_s / 2.0, span)
        work, time = self._work_and_time(elapsed_s, span, window, of_replicas, busy)

        # A sum over phases in a fixed order: a matrix product's bits depend on the processor.
        # Columns are contiguous.
        average = np.zeros((rows + len(replicas.pace), len(QUANTITIES)), order="F")
        for phase in range(len(Phase)):
            if work[:, phase].any():
                average[:rows] += work[:, phase, None] * self._activity[self._kind, phase]
        average[steps, QUANTITIES["nc"]] = self._busy(work[steps], time[steps])
        self._replicas.fill(average[rows:], *of_replicas, replicas)
        tensor = QUANTITIES["tensor"]
        average[serving, tensor] = self._replicas.mean(average[rows:, tensor])

        share = np.zeros(len(average))
        share[steps] = work[steps, Phase.COMPUTE] * self._steps.compute_flops_share
        share[steps] += work[steps, Phase.EVALUATION] * EVALUATION_FLOPS_SHARE
        for number, job, _ in self._traced:
            share[number] = busy[number] * job.mfu
        figures = self._figures(elapsed_s, span, window, served)
        figures["mfu"][[number for number, _, _ in self._traced]] = [
            share[number] for number, _, _ in self._traced
        ]
        return JobTick(
            average=average,
            work=work,
            time=time,
            activity=self._activity,
            kind=self._kind,
            peak_flops_share=share,
            flops=self._replicas.rows(np.zeros(rows), replicas.flops),
            hbm_read_bytes_per_s=self._replicas.rows(np.zeros(rows), replicas.hbm_read_bytes_per_s),
            hbm_used=self._used(elapsed_s, span, window, replicas, shares),
            executions=self._executions(rows),
            latency_s=self._latency(span, figures, replicas),
            host_memory=self._host_memory(elapsed_s, span, window, replicas, shares),
            figures=figures,
            states=self._states(),
            changes=changes,
            latency_tail=self._latency_tail,
        )

    def usual(self, tick: JobTick, slowdowns: Slowdowns) -> JobTick:
        """Return a window's work with mean cycles for training jobs.

        Applies to jobs that ran through the whole window.
        """
        cycle = self._steps.mean_cycle(
            self._pace(slowdowns, tick.time[: self._count, Phase.IDLE] < 1.0)
        )
        through = tick.time[self._training][:, [*TRAINING]].sum(axis=1) > 1.0 - 1e-9
        rows = self._training[through]
        average = tick.average.copy()
        average[rows] = 0.0
        for place, phase in enumerate(TRAINING):
            average[rows] += (
                cycle.work[through, place, None] * self._activity[self._kind[rows], phase]
            )
        return replace(tick, average=average)

    def _busy(self, work: NDArray[np.float64], time: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the busy share of the NeuronCores of the training jobs.

        A core that waits for another one counts as busy, so that it goes by time and not by work.
        Only a start warms up by its work.

        Args:
            work: By phase; shape (training jobs, phases).
            time: Likewise.
        """
        spent = time.copy()
        spent[:, Phase.START] = work[:, Phase.START]
        shares = self._activity[self._kind[self._training], :, QUANTITIES["nc"]]
        busy = np.zeros(len(spent))
        for phase in range(len(Phase)):
            busy += spent[:, phase] * shares[:, phase]
        return busy

    def _pace(self, slowdowns: Slowdowns, runs: NDArray[np.bool_]) -> TrainingPace:
        """Return the speed of the training jobs, for a mask of running jobs."""
        steps = self._training
        efa = slowdowns.efa * self._fabrics.pace(runs)
        return self._steps.pace(
            slowdowns.compute[steps], slowdowns.link[steps], efa[steps], slowdowns.storage[steps]
        )

    def _tables(self, placement: Placement, plans: Sequence[StepPlan]) -> None:
        """Set up the kinds of activity, and each job's kind."""
        kinds = [activity_of(spans=False), activity_of(spans=True)]
        known = {table.tobytes(): number for number, table in enumerate(kinds)}
        self._kind = np.append(placement.spans.astype(np.intp), 0)

        def add(number: int, table: NDArray[np.float64]) -> None:
            key = table.tobytes()
            if key not in known:
                known[key] = len(kinds)
                kinds.append(table)
            self._kind[number] = known[key]

        for number, step_plan in zip(self._training.tolist(), plans, strict=True):
            add(number, step_plan.activity)
        for number, job, _ in self._traced:
            if job.like == "inference":
                table = activity_of(spans=bool(placement.spans[number])).copy()
                table[Phase.DECODE, QUANTITIES["hbm_read"]] = TRACE_HBM_READ
                add(number, table)
        self._activity = np.stack(kinds)

    def _share_fabrics(self, fleet: FleetFile, layout: Layout, placement: Placement) -> Fabrics:
        """Return the fabrics, with the demand of each job when nothing is slow."""
        efa = self._activity[self._kind[:-1], :, QUANTITIES["efa"]]
        burst = np.zeros(self._count)
        mean = np.zeros(self._count)
        steps = self._training
        serving = self._inference
        parts = self._steps.step_shares()
        for place, phase in enumerate(STEP):
            burst[steps] = np.maximum(burst[steps], efa[steps, phase])
            mean[steps] += efa[steps, phase] * parts[:, place]
        burst[serving] = mean[serving] = efa[serving, Phase.DECODE]
        burst[~placement.spans] = mean[~placement.spans] = 0.0
        return Fabrics(fleet, layout, placement.job_of_instance, burst, mean)

    def _recorded(self, begin_s: float, end_s: float, span: WindowSplit) -> NDArray[np.float64]:
        """Return the busy share of a window for each job replayed from a recording."""
        busy = np.zeros(self._count)
        elapsed_s = end_s - begin_s
        for number, job, trace in self._traced:
            from_s = job.starts_at_s or 0.0
            busy[number] = (
                trace.mean(begin_s - from_s, end_s - from_s) * span.run_s[number] / elapsed_s
            )
            self._traced_executions[number] += busy[number] * elapsed_s / TRACE_EXECUTION_S
        return busy

    def _work_and_time(
        self,
        elapsed_s: float,
        span: WindowSplit,
        window: TrainingWork,
        of_replicas: tuple[dict[Phase, NDArray[np.float64]], dict[Phase, NDArray[np.float64]]],
        busy: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return work and time by phase, shape (jobs + 1, phases)."""
        rows = self._count + 1
        work = np.zeros((rows, len(Phase)))
        time = np.zeros((rows, len(Phase)))
        steps = self._training
        serving = self._inference
        jobs = slice(0, self._count)
        for place, phase in enumerate(TRAINING):
            work[steps, phase], time[steps, phase] = window.work[:, place], window.time[:, place]
        for number, job, _ in self._traced:
            phase = Phase.DECODE if job.like == "inference" else Phase.COMPUTE
            time[number, phase] = busy[number]
            time[number, Phase.IDLE] = span.run_s[number] / elapsed_s - busy[number]
            # The cores show the recording's utilisation.
            nc = self._activity[self._kind[number], phase, QUANTITIES["nc"]]
            work[number, phase] = busy[number] / nc
        time[jobs, Phase.IDLE] += (
            span.idle_s + np.where(self._reserved, span.run_s, 0.0)
        ) / elapsed_s
        time[-1, Phase.IDLE] = 1.0
        work[:, Phase.IDLE] = time[:, Phase.IDLE]
        time[jobs, Phase.HANG] = work[jobs, Phase.HANG] = span.hang_s / elapsed_s
        for part, phase in enumerate(STARTUP):
            time[jobs, phase] = span.start.time_s[part] / elapsed_s
            work[jobs, phase] = span.start.work_s[part] / elapsed_s
        for table, by_phase in zip((work, time), of_replicas, strict=True):
            for phase, values in by_phase.items():
                table[serving, phase] = self._replicas.mean(values)
        return work, time

    def _used(
        self,
        elapsed_s: float,
        span: WindowSplit,
        window: TrainingWork,
        replicas: ReplicaWork,
        shares: JobShares,
    ) -> NDArray[np.float64]:
        """Return the share of HBM in use.

        A start fills it; it is freed with the processes.
        """
        used = self._hbm_used.copy()
        there = self._processes(elapsed_s, span, window) + span.start.loaded_s / elapsed_s
        used[:-1] = used[:-1] * there + IDLE_HBM_SHARE * (1.0 - there)
        return self._replicas.rows(used, self._replicas.hbm_used(replicas, shares, IDLE_HBM_SHARE))

    def _host_memory(
        self,
        elapsed_s: float,
        span: WindowSplit,
        window: TrainingWork,
        replicas: ReplicaWork,
        shares: JobShares,
    ) -> NDArray[np.float64]:
        """Return the share of host memory in use, by row."""
        there = np.append(self._processes(elapsed_s, span, window), 0.0)
        there[:-1][self._reserved] = 0.0
        used = MEMORY_IDLE + (MEMORY_BUSY - MEMORY_IDLE) * there
        for time_s, memory in zip(span.start.time_s, MEMORY_OF_STARTS, strict=True):
            used[:-1] += (memory - MEMORY_IDLE) * time_s / elapsed_s
        return self._replicas.rows(used, self._replicas.host_memory(replicas, shares))

    def _processes(
        self, elapsed_s: float, span: WindowSplit, window: TrainingWork
    ) -> NDArray[np.float64]:
        """Return the share of the window with processes behind their start, by job."""
        there = (span.run_s + span.hang_s) / elapsed_s
        there[self._training] -= window.time[:, TRAINING.index(Phase.IDLE)]
        return there

    def _executions(self, rows: int) -> NDArray[np.uint64]:
        executions = np.zeros(rows, np.uint64)
        executions[:-1] = np.floor(self._traced_executions).astype(np.uint64)
        executions[self._training] = self._steps.executions()
        return np.concatenate([executions, self._serving.executions()])

    def _latency(
        self, span: WindowSplit, figures: dict[str, NDArray[np.float64]], replicas: ReplicaWork
    ) -> NDArray[np.float64]:
        latency = np.full(self._count + 1, np.nan)
        latency[self._training] = figures["step_time_s"][self._training] / EXECUTIONS_PER_STEP
        for number, _, _ in self._traced:
            latency[number] = TRACE_EXECUTION_S
        latency[:-1][span.run_s <= 0.0] = np.nan
        return np.concatenate([latency, replicas.latency_s])

    def _figures(
        self,
        elapsed_s: float,
        span: WindowSplit,
        window: TrainingWork,
        served: ServingFigures,
    ) -> dict[str, NDArray[np.float64]]:
        """Return the jobs' figures.

        A training job's rates are its steps over the whole window.
        """
        figures = {name: np.full(self._count, np.nan) for name in JOB_FIGURES}
        rows = self._training
        serving = self._inference
        figures["step_time_s"][rows] = np.where(span.run_s[rows] > 0, window.step_s, np.nan)
        figures["ideal_step_s"][rows] = self._steps.step_s
        figures["steps_per_s"][rows] = window.steps_per_s
        figures["tokens_per_s"][rows] = self._steps.tokens_per_step * window.steps_per_s
        figures["mfu"][rows] = self._steps.mfu * self._steps.step_s * window.steps_per_s
        figures["steps_completed"][rows] = self._steps.steps_completed()
        figures["steps_lost"][rows] = self._steps.steps_lost
        figures["restarts"] = np.where(self._reserved, np.nan, self._restarts)

        serves = span.run_s[serving] > 0
        figures["tokens_per_s"][serving] = served.tokens_per_s
        for name, values in (
            ("ttft_s", served.ttft_s),
            ("tpot_s", served.tpot_s),
            ("batch", served.batch),
            ("kv_cache_share", served.kv_share),
        ):
            figures[name][serving] = np.where(serves, values, np.nan)

        self._wall_s += span.live_s
        self._wall_s[rows] -= window.time[:, TRAINING.index(Phase.IDLE)] * elapsed_s
        self._served_s[serving] += span.run_s[serving] * served.capacity
        for name, jobs, productive_s in (
            ("goodput", rows, self._steps.productive_s),
            ("availability", serving, self._served_s[serving]),
        ):
            wall_s = self._wall_s[jobs]
            figures[name][jobs] = np.where(
                wall_s > 0,
                np.minimum(productive_s / np.where(wall_s > 0, wall_s, 1.0), 1.0),
                np.nan,
            )
        return figures

    def _states(self) -> NDArray[np.int8]:
        """Return the state of each job at the end of the window."""
        states = np.where(self._reserved, _STATE["idle"], _STATE["running"]).astype(np.int8)
        states[self._training] = _STATE_OF_PHASE[self._steps.phases()]
        lifecycle = self.lifecycle
        for part, name in enumerate(("compiling", "loading", "starting")):
            states[lifecycle.alive & (lifecycle.startup.part == part)] = _STATE[name]
        states[lifecycle.is_hung] = _STATE["hung"]
        for halt, name in ((Halt.DOWN, "failed"), (Halt.WAITING, "waiting")):
            states[lifecycle.halt == halt] = _STATE[name]
        states[~lifecycle.there] = _STATE["idle"]
        return states

    def _changes(self, span: WindowSplit, halt: NDArray[np.int8]) -> tuple[JobChange, ...]:
        """Carry out the changes of jobs at the window's begin, and return their events."""
        if not any(getattr(span, what.removeprefix("job_")).any() for what in _EVENTS):
            return ()
        self._restarts += span.restarted
        at = np.zeros(self._count, np.int64)
        lost = np.zeros(self._count, np.int64)
        at[self._training] = self._steps.steps_completed()
        lost[self._training] = self._steps.lose(span.failed[self._training])
        after = np.zeros(self._count, np.int64)
        after[self._training] = self._steps.steps_completed()
        is_made = np.isin(np.arange(self._count), self._training)

        def text(number: int, what: str) -> str:
            name = self._jobs[number].name
            if what == "job_failed":
                waits = "; it waits for instances" if halt[number] == Halt.WAITING else ""
                if not is_made[number]:
                    return f"{name} failed{waits}"
                return (
                    f"{name} failed at step {at[number]}: {lost[number]} steps since its last"
                    f" checkpoint are lost{waits}"
                )
            if what == "job_restarted" and is_made[number]:
                return f"{name} starts again from step {after[number]}"
            return f"{name} {_EVENTS[what][1]}"

        return tuple(
            JobChange(number, what, severity, text(number, what))
            for what, (severity, _) in _EVENTS.items()
            for number in np.flatnonzero(getattr(span, what.removeprefix("job_"))).tolist()
        )
