"""The hardware of one training job, and the plan of its step on it."""

from __future__ import annotations

from typing import Any

from trnfleet.domain.hardware.catalogue import TRAINIUM2
from trnfleet.domain.hardware.topology import TORUS_4X4
from trnfleet.domain.jobs import FineTuning, Training
from trnfleet.sim.jobs.parallelism import JobSite
from trnfleet.sim.jobs.training_plan import StepPlan, plan

LLAMA_405B: dict[str, Any] = {
    "model": "llama-3.1-405b",
    "tensor_parallel": 16,
    "pipeline_parallel": 4,
    "sequence_length": 4_096,
    "tokens_per_step": 196_608.0,
    "mfu": 0.38,
}
"""A job for three UltraServers."""


def site(chips: int = 16, **rest: Any) -> JobSite:
    """Return Trainium2 chips in UltraServers, or in an instance where they are few."""
    settings: dict[str, Any] = {
        "topology": TORUS_4X4,
        "domain_chips": 64 if chips >= 64 else 16,
        "efa_bytes_per_s": 25e9,
        "spans": chips > 64,
        "latency_s": 15e-6,
    }
    return JobSite(chips=chips, kind=TRAINIUM2, **(settings | rest))


def training(**rest: Any) -> Training:
    """Return a training job `t`."""
    return Training(kind="training", name="t", on=("c",), **rest)


def tuning(**rest: Any) -> FineTuning:
    """Return a fine-tuning job `t`."""
    return FineTuning(kind="finetuning", name="t", on=("c",), **rest)


def planned(chips: int = 192, **rest: Any) -> StepPlan:
    """Return the step of a job as `LLAMA_405B` with other settings."""
    return plan(training(**(LLAMA_405B | rest)), site(chips))
