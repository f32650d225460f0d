"""FLOP/s of every fleet's training jobs, in three equal forms.

As tokens, as the chips' tflops and as MFU.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support.paths import FIXTURES
from support.sim.job_run import JobRun, figure, fleet_of

from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.fleet import FleetFile
from trnfleet.domain.hardware.catalogue import TRAINIUM2
from trnfleet.domain.jobs import FineTuning, Training
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.models import MODELS
from trnfleet.sim.engine import Engine, to_ns

FLEETS = [*shipped_names("fleets"), "fixtures"]
SMALL = [name for name in FLEETS if name not in {"cluster-10k", "rainier-1m", "lab"}]
PEAK = {"bf16": TRAINIUM2.bf16_dense_flops.value, "fp8": TRAINIUM2.fp8_dense_flops.value}


@functools.cache
def fleet(name: str) -> FleetFile:
    path = (
        FIXTURES / "fleets" / "training.toml" if name == "fixtures" else find_file("fleets", name)
    )
    file = load_model(path, FleetFile)
    return file.model_copy(update={"stragglers": (), "links": (), "blocks": ()})


def jobs_of(name: str) -> list[tuple[int, Training | FineTuning]]:
    jobs = enumerate(fleet(name).jobs)
    return [(number, job) for number, job in jobs if isinstance(job, Training | FineTuning)]


def flops_per_token(job: Training | FineTuning) -> float:
    """Return the model FLOPs of a token.

    Stated, from frozen weights and adapters, or six per parameter.
    """
    assert job.model is not None
    active = MODELS[job.model].active_parameters
    if job.flops_per_token is not None:
        return job.flops_per_token
    if isinstance(job, FineTuning) and job.adapter_parameters is not None:
        return 4 * active + 6 * job.adapter_parameters
    return 6 * active


@pytest.mark.parametrize("name", [name for name in FLEETS if jobs_of(name)])
def test_tokens_tflops_and_mfu_agree_for_every_training_job(name: str) -> None:
    """FLOPs of tokens, chips and MFU agree over more than a hundred checkpoint cycles.

    Each step lasts 2 to 30 s.
    """
    tick = (run := JobRun(fleet(name))).advance(400_000.0)
    for number, job in jobs_of(name):
        chips = int(run.placement.chips[number])
        kind = run.placement.chip_types[number]
        peak = {"bf16": kind.bf16_dense_flops.value, "fp8": kind.fp8_dense_flops.value}
        of_mfu = figure(tick, "mfu", number) * peak[job.dtype] * chips
        of_tokens = figure(tick, "tokens_per_s", number) * flops_per_token(job)
        of_chips = float(tick.peak_flops_share[number]) * peak["bf16"] * chips
        assert of_tokens == pytest.approx(of_mfu, rel=0.02), job.name
        assert of_chips == pytest.approx(of_mfu, rel=0.02), job.name
        assert 2 < figure(tick, "step_time_s", number) < 30, job.name
        assert 0.1 < tick.hbm_used[number] < 0.96, job.name


@pytest.mark.parametrize("name", SMALL)
def test_the_chips_columns_add_up_to_the_jobs_figures(name: str) -> None:
    """The chips' published tflops match the job's MFU and tokens within 2 %.

    They are MFU of the BF16 peak, and 6 x parameters x tokens.
    """
    file = fleet(name)
    engine = Engine(file, 7, 20.0, to_ns(file.start))
    columns = []
    ticks = []
    for _ in range(90):
        ticks.append(engine.step())
        columns.append(BY_NAME["tflops"].decode(engine.columns["tflops"]))
    owner = engine.job_of_instance[engine.layout.instance_of_chip]
    for number, job in jobs_of(name):
        peak = engine.placement.chip_types[number].bf16_dense_flops.value / 1e12
        tflops = np.mean([column[owner == number].sum() for column in columns])
        tokens_per_s = np.mean([tick.figures["tokens_per_s"][number] for tick in ticks])
        mfu = np.mean([tick.figures["mfu"][number] for tick in ticks])
        assert tflops * 1e12 == pytest.approx(tokens_per_s * flops_per_token(job), rel=0.02), (
            job.name
        )
        assert np.mean(np.mean(columns, axis=0)[owner == number]) / peak == pytest.approx(
            mfu, rel=0.02
        )


def test_an_fp8_job_shows_more_than_the_bf16_peak() -> None:
    """Chips in FP8 publish up to nearly twice the BF16 peak.

    MFU uses the FP8 peak.
    """
    job = {
        "kind": "training",
        "name": "t",
        "on": ["c/standalone/trn2-0001"],
        "model": "llama-3.1-8b",
        "tensor_parallel": 4,
        "tokens_per_step": 786_432.0,
        "mfu": 0.55,
        "dtype": "fp8",
        "checkpoint_every_steps": 0,
    }
    file = fleet_of(job, instances=1)
    engine = Engine(file, 7, 20.0, to_ns(file.start))
    ticks = [engine.step() for _ in range(20)]
    assert BY_NAME["tflops"].decode(engine.columns["tflops"]).min() > 1.05 * 667
    tokens_per_s = np.mean([tick.figures["tokens_per_s"][0] for tick in ticks])
    assert tokens_per_s * 6 * 8.03e9 == pytest.approx(0.55 * 16 * PEAK["fp8"], rel=0.02)
