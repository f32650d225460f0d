"""Published figures that the workloads must reproduce, a test each; what is only assumed says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim.job_run import JobRun, figure, fleet_of, mean

from trnfleet.config import find_file, load_model, validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.domain.hardware.catalogue import TRN2_48XLARGE
from trnfleet.sim.jobs.activity import ACTIVITY, QUANTITIES, Phase

TRAINING: dict[str, Any] = {"kind": "training", "name": "t", "on": ["c/standalone/trn2-0001"]}
SERVING: dict[str, Any] = {"kind": "inference", "name": "s", "on": ["c/standalone/trn2-0001"]}
BATCH_1: dict[str, Any] = {"profile": "llama-70b", "max_batch": 1, "load_mean": 0.0, "load_swing": 0.0}
PROVISIONED_W = 16 * TRN2_48XLARGE.chip.power_max_w.value + TRN2_48XLARGE.host_power_max_w.value
"""Of a trn2.48xlarge: its chips and its host at their maximum."""


def shipped(name: str) -> FleetFile:
    return load_model(find_file("fleets", name), FleetFile)


def largest_swing(
    jobs: JobRun, for_s: float, window_s: float, *, within_s: float = 2.0, job: int = 0
) -> float:
    """Return the most that the chips of an instance rise or fall within a number of seconds, of provisioned power."""
    watts = np.array([jobs.chip_w(tick)[job] for tick in jobs.until(jobs.now_s + for_s, window_s)])
    spans = np.lib.stride_tricks.sliding_window_view(watts, round(within_s / window_s))
    return float((spans.max(axis=1) - spans.min(axis=1)).max()) * 16 / PROVISIONED_W


@pytest.mark.parametrize("fleet", ["demo", "training", "cluster-10k", "rainier-1m"])
def test_mfu_of_training_is_30_to_45_percent_over_a_checkpoint_interval(fleet: str) -> None:
    """Published for large training runs: 38-43 % (Llama 3 405B), 28-31 % (70B on Trn1); DESIGN asks for 30-45 %."""
    file = shipped(fleet)
    tick = JobRun(file).advance(100_000.0)
    found = [figure(tick, "mfu", number) for number, job in enumerate(file.jobs) if job.kind == "training"]
    assert 0.30 <= min(found) <= max(found) <= 0.45


def test_llama_70b_on_32_trn1_makes_a_step_in_129_seconds() -> None:
    """Published (Neuron SDK): Llama-3.1-70B on 32 trn1.32xlarge, 7.94 sequences of 8,192 a second, 1,024 a step."""
    job = {
        "kind": "training", "name": "t", "on": ["c/standalone/trn1-0001..trn1-0032"], "model": "llama-3.3-70b",
        "tensor_parallel": 16, "pipeline_parallel": 8, "tokens_per_step": 1_024 * 8_192.0, "mfu": 0.283,
        "checkpoint_every_steps": 0,
    }  # fmt: skip  # a job reads as a line
    clusters = [{"name": "c", "instances": [{"type": "trn1.32xlarge", "count": 32}]}]
    fleet = validate({"name": "f", "clusters": clusters, "jobs": [job]}, FleetFile, "f.toml")
    tick = JobRun(fleet).advance(13_000.0)
    assert figure(tick, "step_time_s") == pytest.approx(129, rel=0.01)
    assert figure(tick, "tokens_per_s") / 8_192 == pytest.approx(7.94, rel=0.01)
    assert 0.28 <= figure(tick, "mfu") <= 0.31


def test_llama_405b_trains_at_the_published_mfu() -> None:
    """Published (The Llama 3 Herd of Models): 38-43 % on 16,384 H100; the shipped job is at its lower end."""
    tick = JobRun(shipped("training")).advance(1.0)
    flops = 6 * 405e9 * 196_608 / figure(tick, "step_time_s")
    assert 0.38 <= flops / (192 * 667e12) <= 0.43


def test_tpot_and_ttft_of_llama_70b_at_batch_1() -> None:
    """Published (Neuron SDK tutorial, trn2.48xlarge, batch 1): 19.7 ms a token, 0.81 s to the first token."""
    tick = JobRun(fleet_of(SERVING | BATCH_1)).advance()
    assert figure(tick, "tpot_s") == pytest.approx(0.0197)
    assert figure(tick, "ttft_s") == pytest.approx(0.81)
    assert figure(tick, "tokens_per_s") == pytest.approx(50.8, abs=0.1)


def test_decode_of_llama_70b_at_batch_1_reads_15_percent_of_hbm_bandwidth() -> None:
    """Derived from the published 19.7 ms: 141 GB in it are 7.2 of 46.4 TB/s."""
    tick = JobRun(fleet_of(SERVING | BATCH_1)).advance()
    assert tick.hbm_read_bytes_per_s[0] / 2.9e12 == pytest.approx(0.154, abs=0.003)


@pytest.mark.parametrize("profile", ["llama-70b", "llama-405b-latency", "shopping-assistant"])
def test_decode_never_reads_more_than_95_percent_of_hbm_bandwidth(profile: str) -> None:
    """Published (AWS blog on Trainium2): 95 % of the memory bandwidth can be reached; here at full load and batch."""
    job = SERVING | {"profile": profile, "on": ["c/us-0001"], "load_mean": 1.0, "load_swing": 0.0}
    tick = JobRun(fleet_of(job, instances=0, ultraservers=1)).advance()
    read = mean(tick, "hbm_read") + tick.hbm_read_bytes_per_s[0] / 2.9e12
    assert 0.15 < read <= 0.95


def test_the_latency_optimised_405b_keeps_its_batches_small() -> None:
    """Assumed: 14 ms a token at batch 1, under the 28 ms of BF16 at the published 70B's share of bandwidth.

    Published is only that Bedrock serves it latency-optimised on Trainium2, for requests of up to 11,000 tokens.
    """
    tick = JobRun(shipped("inference")).advance()
    at_70b_share_s = 810e9 / (0.154 * 64 * 2.9e12)
    assert 0.014 <= figure(tick, "tpot_s") < at_70b_share_s < 0.030
    assert figure(tick, "batch") <= 8


def test_chips_of_a_job_dip_together() -> None:
    """Published (Llama 3; arXiv 2508.14318): power of all accelerators of a job falls and rises at the same time."""
    jobs = JobRun(shipped("training"))
    alike = np.array([jobs.alike_share(tick, 0) for tick in jobs.until(120.0, 0.5)])
    assert alike.shape[1] >= 1
    together = alike.mean(axis=1)
    assert together.max() - together.min() > 0.4
    for column in alike.T:
        assert np.corrcoef(column, together)[0, 1] > 0.99


@pytest.mark.parametrize("step_s", [0.5, 1.0])
def test_training_swings_by_up_to_37_5_percent_of_provisioned_power_within_2_s(step_s: float) -> None:
    """Published (POLCA): training clusters swing by up to 37.5 % of provisioned power within 2 s."""
    jobs = JobRun(fleet_of(TRAINING | {"step_time_s": step_s, "mfu": 0.34, "checkpoint_every_steps": 0}))
    assert 0.2 < largest_swing(jobs, 6.0, step_s / 40) <= 0.375


def test_inference_swings_by_at_most_9_percent_within_2_s() -> None:
    """Published (POLCA): inference clusters swing by at most 9 % of provisioned power."""
    jobs = JobRun(shipped("inference"))
    for job in range(3):
        assert 0 < largest_swing(jobs, 100.0, 0.5, job=job) <= 0.09


def test_oscillation_lies_between_a_tenth_and_three_hertz() -> None:
    """Published (arXiv 2508.14318): training power oscillates at 0.1 to 3 Hz; here once a step."""
    jobs = JobRun(fleet_of(TRAINING | {"step_time_s": 4.0, "checkpoint_every_steps": 0}))
    watts = np.array([jobs.chip_w(tick)[0] for tick in jobs.until(200.0, 0.25)])
    spectrum: list[float] = np.abs(np.fft.rfft(watts - watts.mean())).tolist()
    frequencies: list[float] = np.fft.rfftfreq(len(watts), 0.25).tolist()
    assert frequencies[spectrum.index(max(spectrum))] == pytest.approx(0.25)


def test_checkpoints_are_near_idle_power() -> None:
    """Published (arXiv 2508.14318): power falls to near idle; here under 5 % of the range above the background."""
    jobs = JobRun(
        fleet_of(TRAINING | {"step_time_s": 1.0, "checkpoint_every_steps": 10, "checkpoint_s": 50.0})
    )
    ticks = jobs.until(60.0)
    saving = [jobs.power_share(tick)[0] for tick in ticks if tick.time[0, Phase.CHECKPOINT] == 1.0]
    assert len(saving) > 10
    assert 0.001 < min(saving) <= max(saving) < 0.05


@pytest.mark.parametrize(
    ("phase", "least", "most"),
    [(Phase.COMPUTE, 0.55, 0.90), (Phase.COLLECTIVE, 0.15, 0.30), (Phase.CHECKPOINT, 0.001, 0.05)],
)
def test_phases_draw_their_share_of_power(phase: Phase, least: float, most: float) -> None:
    """Assumed after the published power studies: shares of the range above the background."""
    jobs = JobRun(
        fleet_of(TRAINING | {"step_time_s": 40.0, "checkpoint_every_steps": 1, "checkpoint_s": 10.0})
    )
    shares = [jobs.power_share(tick)[0] for tick in jobs.until(100.0, 0.5) if tick.time[0, phase] > 0.999]
    assert least <= min(shares) <= max(shares) <= most


def test_decode_draws_its_share_of_power() -> None:
    """Assumed after the published power studies: decode 35-55 % of the range above the background."""
    assert (
        0.35
        <= JobRun(fleet_of(SERVING | BATCH_1)).power_share(JobRun(fleet_of(SERVING | BATCH_1)).advance())[0]
        <= 0.55
    )


def test_power_follows_the_active_tensor_engine_and_not_mfu() -> None:
    """Derived from what MFU means: useful FLOPs say nothing of an engine that is busy with others, which draws its power."""
    jobs = [
        TRAINING
        | {"name": name, "on": [f"c/standalone/trn2-000{number}"], "mfu": mfu, "tensor_active": active}
        for number, (name, mfu, active) in enumerate(
            [("a", 0.34, 0.95), ("b", 0.34, 0.65), ("c", 0.28, 0.95)], start=1
        )
    ]
    run = JobRun(fleet_of(*jobs, instances=3))
    tick = run.advance(80_000.0)
    watts = run.chip_w(tick)
    assert figure(tick, "mfu", 0) == pytest.approx(figure(tick, "mfu", 1), rel=1e-3)
    assert watts[0] - watts[1] > 40
    assert watts[2] == pytest.approx(watts[0], rel=1e-3)


def test_a_start_ramps_over_seconds() -> None:
    """Published (openg2g's synthetic trace): power of a starting job ramps over 18 s and more; here over its start."""
    jobs = JobRun(fleet_of(TRAINING | {"starts_at_s": 0.0, "startup_s": 60.0}))
    watts = np.array([jobs.chip_w(tick)[0] for tick in jobs.until(60.0)])
    assert (np.diff(watts) > 0).all()
    assert np.diff(watts).max() < (watts[-1] - watts[0]) / 18


def test_collectives_reach_what_efa_was_measured_to_give() -> None:
    """Measured (Mooncake's EFA documents): 266-279 of 400 GB/s on trn2.48xlarge with all adapters."""
    assert 266 / 400 <= ACTIVITY[Phase.COLLECTIVE, QUANTITIES["efa"]] <= 279 / 400


def test_jobs_do_not_move_with_each_other() -> None:
    """Job means of the demo's power correlate below 0.3 over ten minutes, with its straggler and its slow link."""
    jobs = JobRun(shipped("demo"), seed=0)
    watts = []
    for second in range(600):
        jobs.slowdowns.compute[1], jobs.slowdowns.link[0] = (
            (0.82 if second > 20 else 1.0),
            (0.4 if second > 40 else 1.0),
        )
        watts.append(jobs.chip_w(jobs.advance()))
    between = np.asarray(np.corrcoef(np.array(watts).T))[np.triu_indices(4, 1)]
    assert np.abs(between).max() < 0.3
