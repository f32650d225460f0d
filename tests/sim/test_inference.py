from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim.job_run import JobRun, figure, fleet_of

from trnfleet.domain.fleet import Inference
from trnfleet.domain.hardware.catalogue import TRAINIUM2
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import QUANTITIES
from trnfleet.sim.jobs.serving.inference import InferenceJobs, ReplicaWork, ServingFigures
from trnfleet.sim.jobs.serving.requests import Lengths, poisson
from trnfleet.sim.jobs.serving.times import length_shares, padded
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.rng import Rng, Stream

JOB: dict[str, Any] = {"kind": "inference", "name": "s", "on": ["c/us-0001"]}
STEADY: dict[str, Any] = {"load_swing": 0.0}
SMALL: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "chips_per_replica": 4,
    "max_batch": 48,
    "context_tokens": 4_096,
}


def jobs(chips: int = 16, seed: int = 4, **rest: Any) -> InferenceJobs:
    job = Inference.model_validate({"kind": "inference", "name": "s", "on": ("c",)} | rest)
    return InferenceJobs(
        [job],
        np.array([0], np.intp),
        np.array([chips]),
        [TRAINIUM2],
        Rng(seed),
        [job.replica_chips(16)],
        [0.0],
    )


def advance(
    serving: InferenceJobs, for_s: float, middle_s: float, halt: Halt = Halt.NONE
) -> tuple[ReplicaWork, ServingFigures]:
    """Advance a job with one replica, without slowdowns."""
    return serving.advance(
        for_s,
        middle_s,
        middle_s,
        pace=np.ones(len(serving.job)),
        halt=np.full(len(serving.job), halt, np.int8),
        offered=np.ones(1),
        run_s=np.full(1, for_s),
        is_kept=np.ones(1, np.bool_),
    )


class Served:
    """A job on an UltraServer over some time, with its windows' figures and rows."""

    def __init__(self, for_s: float, window_s: float = 1.0, seed: int = 4, **rest: Any) -> None:
        self.run = JobRun(fleet_of(JOB | rest, instances=0, ultraservers=1), seed=seed)
        self.go(for_s, window_s)

    def go(self, for_s: float, window_s: float = 1.0) -> Served:
        self.ticks = self.run.until(self.run.now_s + for_s, window_s)
        return self

    def figures(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([figure(tick, name) for tick in self.ticks])

    def mean(self, name: str) -> float:
        return float(np.nanmean(self.figures(name)))

    def tflops(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([tick.flops[2:] for tick in self.ticks]) / 1e12


def test_load_follows_the_day() -> None:
    """The mean load peaks at its hour and is lowest twelve hours later.

    It swings by the amount in the file.
    """
    serving = jobs(load_mean=0.5, load_swing=0.3, peak_hour_utc=18.0)
    hours = {
        hour: np.mean([serving.loads.at(60.0 * at + 5, hour * 3_600.0)[0] for at in range(200)])
        for hour in (6, 12, 18)
    }
    assert hours[18] == pytest.approx(0.8, abs=0.02)
    assert hours[12] == pytest.approx(0.5, abs=0.02)
    assert hours[6] == pytest.approx(0.2, abs=0.02)


def test_peaks_come_once_or_every_day() -> None:
    """A peak multiplies the load; a partly covered window counts in proportion."""
    hour = 3_600.0
    daily = jobs(
        load_mean=0.2,
        load_swing=0.0,
        peaks=({"at_hour_utc": 23.0, "for_s": 2 * hour, "factor": 3.0},),
    )
    calm = jobs(load_mean=0.2, load_swing=0.0)

    def times(
        serving: InferenceJobs, at_s: float, hour_utc: float, elapsed_s: float = 0.0
    ) -> float:
        usual = calm.loads.at(at_s, hour_utc * hour, elapsed_s)[0]
        return float(serving.loads.at(at_s, hour_utc * hour, elapsed_s)[0] / usual)

    found = [times(daily, 5.0, at) for at in (12.0, 22.99, 23.0, 23.99, 0.99, 1.0)]
    assert found == pytest.approx([1, 1, 3, 3, 3, 1])
    assert times(daily, 5.0, 23.0, hour) == pytest.approx(2.0)
    assert times(daily, 5.0, 1.0, hour) == pytest.approx(2.0)
    once = jobs(
        load_mean=0.2, load_swing=0.0, peaks=({"at_s": 100.0, "for_s": 50.0, "factor": 2.0},)
    )
    assert [times(once, at, 4.0) for at in (99.0, 100.0, 149.0, 150.0)] == pytest.approx(
        [1, 2, 2, 1]
    )
    assert times(once, 100.0, 4.0, 20.0) == pytest.approx(1.5)


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.7, 3.3, 15.9, 40.0])
def test_requests_are_poisson_distributed(mean: float) -> None:
    """Mean and variance are both the requested mean, within 4 %.

    This holds for tables and for the normal distribution.
    """
    counts = poisson(np.full(400_000, mean), Rng(1).words(Stream.REQUESTS, 7, 400_000))
    assert counts.mean() == pytest.approx(mean, rel=0.04)
    assert counts.var() == pytest.approx(mean, rel=0.04)
    assert (counts == np.floor(counts)).all()


def test_without_requests_nothing_is_done() -> None:
    """Without requests chips draw idle power, with the weights and the cache still in HBM.

    No decode, no HBM traffic, no executions.
    """
    served = Served(30.0, load_mean=0.0, load_swing=0.0, model="llama-3.3-70b")
    last = served.ticks[-1]
    assert not served.tflops().any()
    assert not last.average[2:, QUANTITIES["nc"]].any()
    assert not last.hbm_read_bytes_per_s[2:].any()
    assert (served.ticks[0].executions == last.executions).all()
    held = 141.2e9 + 32 * 327_680 * 8_192
    assert last.hbm_used[2] == pytest.approx(held / (16 * 96 * 2**30) + 0.03)
    assert served.run.power_share(last)[0] < 0.005
    assert np.isnan(figure(last, "tpot_s"))
    assert figure(last, "ttft_s") == served.run.workloads.serving_times[0].prefill_s


def test_more_load_means_more_tokens_and_longer_waits() -> None:
    """Tokens a second, TTFT, TPOT and power rise with the load.

    They stay finite at full load.
    """
    low, high, full = (Served(200.0, load_mean=mean, **STEADY) for mean in (0.2, 0.8, 1.0))
    assert high.mean("tokens_per_s") == pytest.approx(4 * low.mean("tokens_per_s"), rel=0.15)
    assert low.mean("ttft_s") < high.mean("ttft_s") < full.mean("ttft_s") < 40
    assert low.mean("tpot_s") < high.mean("tpot_s")
    watts = [np.mean([each.run.chip_w(tick)[0] for tick in each.ticks]) for each in (low, full)]
    assert watts[0] + 30 < watts[1]


def test_full_replicas_make_what_they_are_said_to_carry() -> None:
    """Offered three times their capacity, replicas reach it within 5 %.

    Queues are bounded.
    """
    served = Served(1.0, load_mean=1.0, **STEADY)
    served.run.slowdowns.load[:] = 3.0
    served.go(60.0).go(120.0)
    times = served.run.workloads.serving_times[0]
    assert served.mean("tokens_per_s") == pytest.approx(
        4 * times.requests_per_s * times.answer_tokens, rel=0.05
    )
    assert served.figures("batch").max() <= times.max_batch
    assert served.figures("ttft_s").max() < 60


def test_a_pass_takes_as_long_as_its_bucket() -> None:
    """Time per token is a stair over the batch: powers of two up to the largest batch."""
    served = Served(200.0, **SMALL, load_mean=0.9, **STEADY)
    times = served.run.workloads.serving_times[0]
    steps = [times.pass_s(size) for size in (1, 2, 4, 8, 16, 32, 48)]
    assert sorted(set(steps)) == steps
    assert [times.pass_s(size) for size in (3, 5, 17, 33)] == [*steps[2:4], *steps[5:]]
    passes = np.array([tick.latency_s[2:] for tick in served.ticks])
    passes = np.unique(passes[np.isfinite(passes) & (passes < times.prefill_s / 2)].round(9))
    assert set(passes.tolist()) <= set(np.round(steps, 9).tolist())
    assert len(passes) >= 3


def test_prompts_are_padded_to_buckets_of_their_last_segment() -> None:
    """A prompt costs whole segments of 2,048 tokens, and a power of two from 128 on."""
    tokens = padded(2_000.0)
    assert (tokens % 128 == 0).all()
    last = {int(size - 1) % 2_048 + 1 for size in tokens}
    assert last <= {128, 256, 512, 1_024, 2_048}
    assert 2_000 < tokens.mean() < 2_000 + 512
    assert padded(1.0).tolist() == [128.0] * 1_024


def test_requests_have_lengths_of_their_own() -> None:
    """The mean is as configured and the deviation as large; sums of more vary less."""
    lengths = Lengths([300.0 * length_shares(), 7.0 * length_shares()], np.array([0, 1] * 50_000))
    words = Rng(1).words(Stream.REQUESTS, 7, 100_000)
    one, many = (lengths.mean(words, np.full(100_000, count)) for count in (1.0, 5.0))
    for values in (one, many):
        assert values[::2].mean() == pytest.approx(300.0, rel=0.02)
        assert values[1::2].mean() == pytest.approx(7.0, rel=0.02)
    assert one[::2].std() / 300.0 == pytest.approx(1.0, abs=0.06)
    assert many[::2].std() / one[::2].std() == pytest.approx(3**-0.5, abs=0.1)


def test_first_tokens_vary_at_low_load_and_figures_agree() -> None:
    """Slow first tokens are those of long prompts.

    Batches are those of Little's law, tokens as many as asked for, and `tflops` are of tokens
    without padding.
    """
    served = Served(400.0, **SMALL, load_mean=0.3, **STEADY)
    usual_s, late_s = np.percentile(served.figures("ttft_s"), (50, 99))
    assert late_s > 1.4 * usual_s
    times = served.run.workloads.serving_times[0]
    tokens_per_s = served.mean("tokens_per_s")
    asked = 0.3 * 16 * times.requests_per_s * times.answer_tokens
    assert tokens_per_s == pytest.approx(asked, rel=0.05)
    assert tokens_per_s * served.mean("tpot_s") / 16 == pytest.approx(
        served.mean("batch"), rel=0.02
    )
    made = served.tflops().sum(axis=1).mean() * 4e12 / times.flops_per_token
    both = 1.0 + times.prompt_tokens / times.answer_tokens
    assert made / tokens_per_s == pytest.approx(both, rel=0.05)


def test_replicas_have_loads_of_their_own() -> None:
    """Any two replicas' FLOP/s, prefill and executions correlate below 0.9 at every load."""
    for profile in ("llama-405b-latency", "llama-70b", "shopping-assistant"):
        served = Served(150.0, profile=profile, load_mean=0.8, **STEADY)
        tflops = served.tflops()
        between = np.corrcoef(tflops.T)[np.triu_indices(tflops.shape[1], 1)]
        assert between.max() < 0.9
        assert len(set(served.ticks[-1].executions[2:].tolist())) == tflops.shape[1]


def test_a_replica_of_405b_alternates_between_prefill_and_decode() -> None:
    """A prompt of 10,000 tokens occupies the chips for 2.4 s, decode for seconds more.

    Without both they are idle.
    """
    served = Served(200.0, profile="llama-405b-latency")
    tflops = served.tflops()[:, 0]
    prefilling = tflops > 150
    idle = tflops == 0
    decoding = ~idle & (tflops < 20)
    assert min(prefilling.sum(), decoding.sum(), idle.sum()) >= 5
    watts = np.array([served.run.alike_share(tick, 0)[0] for tick in served.ticks]) * 410 + 90
    assert watts[prefilling].min() > watts[decoding].max() > watts[idle].max() + 100
    assert np.abs(np.diff(watts)).max() > 100


def test_a_lost_replica_s_requests_go_to_the_others() -> None:
    """Tokens a second recover, with larger batches and longer waits at the other three.

    Then the replica receives its share again.
    """
    healthy, served = (Served(20.0, load_mean=0.7, **STEADY) for _ in range(2))
    served.run.slowdowns.replica_halt[1] = Halt.DOWN
    for each in (healthy, served):
        each.go(60.0).go(400.0)
    assert served.mean("tokens_per_s") == pytest.approx(healthy.mean("tokens_per_s"), rel=0.1)
    assert served.mean("ttft_s") > 1.05 * healthy.mean("ttft_s")
    assert served.mean("batch") > 1.1 * healthy.mean("batch")
    lost = served.ticks[-1]
    assert not served.tflops()[:, 1].any()
    assert not lost.average[3, QUANTITIES["nc"]]
    assert lost.hbm_used[3] == pytest.approx(0.004)
    assert (served.tflops()[:, [0, 2, 3]].mean(axis=0) > 0).all()
    served.run.slowdowns.replica_halt[1] = Halt.NONE
    power = [served.run.alike_share(tick, 0)[1] for tick in served.go(50.0).ticks]
    # Weights load first, without power.
    assert (np.diff(power[6:]) > 0).all()
    assert not served.tflops()[:, 1].any(), "it starts for a minute"
    served.go(60.0).go(100.0)
    assert served.tflops()[:, 1].mean() == pytest.approx(served.tflops().mean(), rel=0.25)


def test_what_too_few_replicas_cannot_carry_waits_and_is_shed() -> None:
    """One remaining replica of four is full, with the longest waits clients accept."""
    served = Served(1.0, load_mean=0.6, **STEADY)
    served.run.slowdowns.replica_halt[1:] = Halt.DOWN
    served.go(120.0).go(100.0)
    times = served.run.workloads.serving_times[0]
    assert served.mean("tokens_per_s") == pytest.approx(
        times.requests_per_s * times.answer_tokens, rel=0.06
    )
    assert 15 < served.mean("ttft_s") < 60


def test_a_hung_replica_is_busy_and_does_nothing() -> None:
    """Its cores count as busy, its requests wait, and new ones go to the others."""
    served = Served(60.0)
    used = served.ticks[-1].hbm_used[2]
    served.run.slowdowns.replica_halt[0] = Halt.HANG
    tick = served.go(30.0).ticks[-1]
    assert tick.average[2, QUANTITIES["nc"]] == 1.0
    assert tick.flops[2] == 0 < tick.flops[3]
    assert tick.hbm_used[2] == used


def test_a_slow_replica_gets_less_and_takes_longer() -> None:
    """At half pace a replica does about half the work.

    A pass lasts twice as long, and the job loses nothing.
    """
    healthy, served = (Served(10.0, load_mean=0.5, **STEADY) for _ in range(2))
    served.run.slowdowns.replica[2] = 0.5
    for each in (healthy, served):
        each.go(40.0).go(200.0)
    made = served.tflops().mean(axis=0)
    assert made[2] / made[[0, 1, 3]].mean() == pytest.approx(0.5, abs=0.15)
    assert served.mean("tokens_per_s") == pytest.approx(healthy.mean("tokens_per_s"), rel=0.1)
    latency = np.nanmedian([tick.latency_s[2:] for tick in served.ticks], axis=0)
    assert latency[2] > 1.7 * latency[0]


def test_a_cache_takes_its_share_of_hbm() -> None:
    """Llama 3.3 70B needs 327,680 bytes of HBM per token.

    So 32 sequences of 8,192 tokens need 85.9 GB of 16 chips' HBM, allocated with the model.
    """
    served = Served(100.0, model="llama-3.3-70b", load_mean=0.5, **STEADY)
    room = 16 * 96 * 2**30
    assert served.figures("kv_cache_share") == pytest.approx(served.figures("batch") / 32)
    assert served.mean("batch") > 5
    weights = 141.2e9 / room + 0.03
    used = np.array([tick.hbm_used[2:].mean() for tick in served.ticks])
    assert used == pytest.approx(weights + 32 * 327_680 * 8_192 / room)


def test_a_share_of_hbm_in_the_file_replaces_the_model_s() -> None:
    """It is used at any load: the cache is allocated with the model."""
    served = Served(100.0, model="llama-3.3-70b", load_mean=0.5, hbm_used=0.6, **STEADY)
    used = np.array([tick.hbm_used[2:].mean() for tick in served.ticks])
    assert used == pytest.approx(np.full(len(used), 0.6))


def test_windows_of_any_length_are_the_same_requests() -> None:
    """Seconds, odd parts and minutes of the same time produce the same tokens.

    Equal to the last bit of a sum.
    """
    found = [Served(120.0, window_s) for window_s in (1.0, 8.0, 60.0)]
    for name in ("tokens_per_s", "batch"):
        means = [each.mean(name) for each in found]
        assert means[1:] == pytest.approx([means[0]] * 2, rel=1e-9)
    executions = [each.ticks[-1].executions[2:].tolist() for each in found]
    assert executions[1:] == [pytest.approx(executions[0], abs=1)] * 2


def test_parts_of_seconds_are_the_same_requests() -> None:
    """Requests come at the beginning of a second; quarters of it go on with them."""
    whole = Served(60.0)
    parts = Served(60.0, 0.25)
    assert parts.mean("tokens_per_s") == pytest.approx(whole.mean("tokens_per_s"), rel=0.03)
    assert parts.mean("batch") == pytest.approx(whole.mean("batch"), rel=0.05)


def test_long_windows_are_those_of_some_of_their_seconds() -> None:
    """Windows of an hour have the mean of seconds, and leave a bounded state.

    Precise within the error of 64 sampled seconds.
    """
    seconds = Served(300.0, **STEADY)
    hours = Served(5 * 3_600.0, 3_600.0, **STEADY)
    for name, within in (("tokens_per_s", 0.1), ("tpot_s", 0.1), ("batch", 0.2)):
        assert hours.mean(name) == pytest.approx(seconds.mean(name), rel=within), name
    made = [
        np.diff([float(tick.executions[2]) for tick in each.ticks]).mean()
        for each in (seconds, hours)
    ]
    assert made[1] == pytest.approx(3_600 * made[0], rel=0.1)


def test_other_seeds_have_other_requests() -> None:
    """The same seed gives the same bits."""
    one, again, other = (Served(20.0, seed=seed).tflops() for seed in (4, 4, 5))
    assert (one == again).all()
    assert (one != other).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chips_per_replica": 5}, r"jobs\.s\.chips_per_replica = 5: its 16 chips"),
        ({"model_bytes": 2e12}, r"jobs\.s\.model_bytes = 2e\+12: the HBM of 16 Trainium2 chips"),
        (
            {"model": "llama-3.3-70b", "max_batch": 1_000},
            r"jobs\.s\.max_batch = 1000: the KV cache .* room for 561",
        ),
        ({"tpot_s": 0.001}, r"jobs\.s\.tpot_s = 0\.001: reading 1\.44e\+11 bytes at 95%"),
    ],
)
def test_what_the_hardware_cannot_do_is_refused(settings: dict[str, Any], message: str) -> None:
    """Key, value and limit are named."""
    with pytest.raises(ConfigError, match=message):
        jobs(**settings)


def test_times_of_the_file_replace_those_of_the_model() -> None:
    """Times in the file apply at batch 1 without waiting; larger batches add their reads."""
    (times,) = jobs(model="llama-3.3-70b", tpot_s=0.025, ttft_s=1.5, speculative_tokens=3).times
    assert (times.tpot_s(1), times.prefill_s) == pytest.approx((0.025, 1.5))
    assert times.tpot_s(8) > 0.025


def test_a_window_of_the_last_bits_has_no_requests_of_its_own() -> None:
    """A window below float precision has no requests, and none is lost.

    It lies between changes whose instants differ only by rounding.
    """
    whole = jobs(load_mean=0.6)
    cut = jobs(load_mean=0.6)
    for serving in (whole, cut):
        advance(serving, 100.0, 50.0)
    advance(cut, 1e-15, 100.0)
    found = [advance(serving, 8.0, 104.0)[1].tokens_per_s for serving in (whole, cut)]
    assert found[0] == pytest.approx(found[1])


def test_a_replica_that_hangs_in_its_start_is_not_starting() -> None:
    """A start pauses while its processes hang, and continues after.

    So a window has each second once.
    """
    serving = jobs(load_mean=0.6, startup_s=60.0)
    halts = [(Halt.DOWN, 10.0), (Halt.NONE, 20.0), (Halt.HANG, 30.0), (Halt.NONE, 10.0)]
    at_s = 0.0
    starts = []
    for halt, for_s in halts:
        work, _ = advance(serving, for_s, at_s + for_s / 2, halt)
        at_s += for_s
        starts.append(float(work.start.time_s[:, 0].sum()))
    assert starts == pytest.approx([0.0, 1.0, 0.0, 1.0])
