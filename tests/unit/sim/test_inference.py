from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.fleet import Inference
from trnfleet.domain.hardware import TRAINIUM2
from trnfleet.errors import ConfigError
from trnfleet.sim.inference import InferenceJobs
from trnfleet.sim.noise import Noise

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Engine

ONE = np.ones(1)


def jobs(chips: int = 16, **rest: Any) -> InferenceJobs:
    job = Inference(kind="inference", name="s", on=("c",), **rest)
    return InferenceJobs([job], np.array([0], np.intp), np.array([chips]), [TRAINIUM2], Noise(4))


def test_llama_70b_at_batch_1_reads_15_percent_of_hbm(
    make_engine: Callable[..., Engine], inference: Callable[..., dict[str, Any]]
) -> None:
    """The published case: 141 GB in 19.7 ms over 16 chips is 15 % of 2.9 TB/s a chip."""
    engine = make_engine(inference(max_batch=1, load_mean=0.0, load_swing=0.0))
    shares = []
    for _ in range(20):
        tick = engine.step()
        shares.append(engine.columns["hbm_read_bytes_per_s"][:16].mean() * 1e8 / 2.9e12)
    assert np.mean(shares) == pytest.approx(0.154, abs=0.003)
    assert tick.figures["tpot_s"][0] == pytest.approx(0.0197)
    assert tick.figures["tokens_per_s"][0] == pytest.approx(1 / 0.0197)
    assert tick.figures["ttft_s"][0] == pytest.approx(0.81)


def test_traffic_rises_with_the_batch_up_to_the_ceiling(
    make_engine: Callable[..., Engine], inference: Callable[..., dict[str, Any]]
) -> None:
    """Batches read more; nothing reads more than 95 % of the bandwidth, noise included."""

    def share(**rest: Any) -> float:
        engine = make_engine(inference(load_swing=0.0, **rest))
        engine.step()
        return float(engine.columns["hbm_read_bytes_per_s"][:16].max() * 1e8 / 2.9e12)

    one, some, many = (share(max_batch=batch, load_mean=0.6) for batch in (1, 32, 512))
    # Larger models per chip come nearer to the ceiling.
    crowded = share(max_batch=512, load_mean=0.1, model_bytes=80e9, chips_per_replica=1, tpot_s=0.03)
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chips_per_replica": 5}, r"jobs\.s\.chips_per_replica = 5: its 16 chips"),
        ({"model_bytes": 2e12}, r"jobs\.s\.model_bytes = 2e\+12: the HBM of 16 Trainium2 chips"),
        ({"tpot_s": 0.001}, r"jobs\.s\.tpot_s = 0\.001: reading 1\.41e\+11 bytes at 95%"),
    ],
)
def test_what_the_hardware_cannot_do_is_refused(settings: dict[str, Any], message: str) -> None:
    """Key, value and limit are named."""
    with pytest.raises(ConfigError, match=message):
        jobs(**settings)
