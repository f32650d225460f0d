from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim.job_run import JobRun, figure, fleet_of

from trnfleet.domain.fleet import Inference
from trnfleet.domain.hardware.catalogue import TRAINIUM2
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.inference import InferenceJobs
from trnfleet.sim.rng import Rng

ONE = np.ones(1)
JOB: dict[str, Any] = {"kind": "inference", "name": "s", "on": ["c/standalone/trn2-0001"]}


def jobs(chips: int = 16, **rest: Any) -> InferenceJobs:
    job = Inference.model_validate({"kind": "inference", "name": "s", "on": ("c",)} | rest)
    return InferenceJobs(
        [job], np.array([0], np.intp), np.array([chips]), [TRAINIUM2], Rng(4), [job.replica_chips(16)]
    )


def test_traffic_rises_with_the_batch_up_to_the_ceiling() -> None:
    """Batches read more; nothing reads more than 95 % of the bandwidth."""

    def share(chips: int = 16, **rest: Any) -> float:
        serving = jobs(chips, load_swing=0.0, **rest).advance(1.0, 5.0, 0.0, ONE)
        return float(serving.hbm_read_bytes_per_s[0] / 2.9e12)

    one, some, many = (share(max_batch=batch, load_mean=0.6) for batch in (1, 32, 512))
    # Larger models per chip come nearer to the ceiling.
    crowded = share(1, max_batch=512, load_mean=0.1, model_bytes=80e9, chips_per_replica=1, tpot_s=0.03)
    assert one < some < many
    assert 0.90 < crowded <= 0.95


def test_load_follows_the_day() -> None:
    """The mean of the load peaks at its hour, is lowest twelve hours later, and swings as far as the file says."""
    serving = jobs(load_mean=0.5, load_swing=0.3, peak_hour_utc=18.0)
    hours = {
        hour: np.mean([serving.load(60.0 * at + 5, hour * 3_600.0)[0] for at in range(200)])
        for hour in (6, 12, 18)
    }
    assert hours[18] == pytest.approx(0.8, abs=0.02)
    assert hours[12] == pytest.approx(0.5, abs=0.02)
    assert hours[6] == pytest.approx(0.2, abs=0.02)


def test_more_load_means_more_tokens_and_longer_waits() -> None:
    """Tokens a second, TTFT and TPOT all rise with load, and stay finite at full load."""
    low, high, full = (
        jobs(load_mean=mean, load_swing=0.0).advance(1.0, 5.0, 0.0, ONE) for mean in (0.2, 0.8, 1.0)
    )
    assert low.tokens_per_s[0] < high.tokens_per_s[0]
    assert low.ttft_s[0] < high.ttft_s[0] < full.ttft_s[0] < 30
    assert low.tpot_s[0] < high.tpot_s[0]


def test_replicas_carry_the_load_side_by_side() -> None:
    """Four replicas make four times the tokens; one at half pace takes an eighth of them away."""
    one, four = (jobs(chips, load_swing=0.0).advance(1.0, 5.0, 0.0, ONE) for chips in (16, 64))
    slowed = jobs(64, load_swing=0.0).advance(1.0, 5.0, 0.0, ONE * (1 - 0.5 / 4))
    assert four.tokens_per_s[0] == pytest.approx(4 * one.tokens_per_s[0])
    assert slowed.tokens_per_s[0] == pytest.approx(3.5 * one.tokens_per_s[0])


def test_a_cache_of_known_size_takes_its_share_of_hbm() -> None:
    """Llama 3.3 70B: 327,680 bytes a token, so that 10 sequences of 8,192 tokens take 26.8 GB of 16 chips' HBM."""
    serving = jobs(model="llama-3.3-70b", max_batch=20, load_mean=0.5, load_swing=0.0).advance(
        1.0, 5.0, 0.0, ONE
    )
    assert serving.kv_share[0] == pytest.approx(serving.batch[0] * 327_680 * 8_192 / (16 * 96 * 2**30))
    assert serving.batch[0] == pytest.approx(10, rel=0.15)


def test_offered_load_is_multiplied_and_shed() -> None:
    """A scenario's load multiplies batches and tokens, until the replicas are full."""
    usual, more, most = (
        jobs(load_mean=0.3, load_swing=0.0).advance(1.0, 5.0, 0.0, ONE, offered=ONE * factor)
        for factor in (1.0, 2.0, 50.0)
    )
    assert more.batch[0] == pytest.approx(2 * usual.batch[0])
    assert most.batch[0] == 32
    assert usual.ttft_s[0] < more.ttft_s[0] < most.ttft_s[0] < 30


def test_peaks_come_once_or_every_day() -> None:
    """A peak multiplies the load while it lasts, and a window that it covers in part in proportion."""
    hour = 3_600.0
    daily = jobs(
        load_mean=0.2, load_swing=0.0, peaks=({"at_hour_utc": 23.0, "for_s": 2 * hour, "factor": 3.0},)
    )
    calm = jobs(load_mean=0.2, load_swing=0.0)

    def times(serving: InferenceJobs, at_s: float, hour_utc: float, elapsed_s: float = 0.0) -> float:
        usual = calm.load(at_s, hour_utc * hour, elapsed_s)[0]
        return float(serving.load(at_s, hour_utc * hour, elapsed_s)[0] / usual)

    found = [times(daily, 5.0, at) for at in (12.0, 22.99, 23.0, 23.99, 0.99, 1.0)]
    assert found == pytest.approx([1, 1, 3, 3, 3, 1])
    assert times(daily, 5.0, 23.0, hour) == pytest.approx(2.0)
    assert times(daily, 5.0, 1.0, hour) == pytest.approx(2.0)
    once = jobs(load_mean=0.2, load_swing=0.0, peaks=({"at_s": 100.0, "for_s": 50.0, "factor": 2.0},))
    assert [times(once, at, 4.0) for at in (99.0, 100.0, 149.0, 150.0)] == pytest.approx([1, 2, 2, 1])
    assert times(once, 100.0, 4.0, 20.0) == pytest.approx(1.5)


def test_windows_of_any_length_average_the_same_within_the_noise() -> None:
    """Seconds, odd parts and minutes of the same hour differ by the noise that a longer window samples: under 1.5 %."""
    means = []
    for elapsed_s in (1.0, 7.0, 60.0):
        run = JobRun(fleet_of(JOB))
        ticks = run.until(1_260.0, elapsed_s)
        means.append(
            [np.mean([figure(tick, name) for tick in ticks]) for name in ("tokens_per_s", "tpot_s", "batch")]
        )
    assert means[1] == pytest.approx(means[0], rel=0.015)
    assert means[2] == pytest.approx(means[0], rel=0.015)


def test_a_long_window_is_the_mean_of_its_parts() -> None:
    """Each minute at once has the mean batch of its seconds, within what twelve samples of the noise miss: 2 %."""
    fine, coarse = JobRun(fleet_of(JOB)), JobRun(fleet_of(JOB))
    for _ in range(8):
        seconds = np.mean([figure(fine.advance(), "batch") for _ in range(60)])
        assert figure(coarse.advance(60.0), "batch") == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chips_per_replica": 5}, r"jobs\.s\.chips_per_replica = 5: its 16 chips"),
        ({"model_bytes": 2e12}, r"jobs\.s\.model_bytes = 2e\+12: the HBM of 16 Trainium2 chips"),
        (
            {"model": "llama-3.3-70b", "max_batch": 1_000},
            r"jobs\.s\.max_batch = 1000: the KV cache .* room for 561",
        ),
        ({"tpot_s": 0.001}, r"jobs\.s\.tpot_s = 0\.001: reading 1\.41e\+11 bytes at 95%"),
    ],
)
def test_what_the_hardware_cannot_do_is_refused(settings: dict[str, Any], message: str) -> None:
    """Key, value and limit are named."""
    with pytest.raises(ConfigError, match=message):
        jobs(**settings)
