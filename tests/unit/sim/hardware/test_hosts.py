from __future__ import annotations

import numpy as np
import pytest
from support.sim.chips import Chips, doing, make_fleet, phase

from trnfleet.domain.hardware.catalogue import TRN2_48XLARGE
from trnfleet.domain.metrics import INSTANCE_METRICS
from trnfleet.sim.jobs.activity import EFA_CEILING, Phase

ONE = "c/standalone/trn2-0001"


def test_host_power_lies_in_the_assumed_range() -> None:
    """1.5 to 2.5 kW a trn2 host beside its chips (assumed), by the CPUs' load."""
    chips = Chips(make_fleet(ONE))
    for _ in range(20):
        chips.tick(doing(phase(Phase.CHECKPOINT)))
        watts = chips.value("host_power_w")
        assert TRN2_48XLARGE.host_power_idle_w.value <= watts.min()
        assert watts.max() <= TRN2_48XLARGE.host_power_max_w.value
    assert watts[0] > watts[1] + 300
    assert watts[1] < 1_530


def test_power_without_noise_is_the_mean_of_that_with_it() -> None:
    """A rack's limit uses the mean of the column over hosts and time."""
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0040", instances=80))
    shown = []
    for _ in range(20):
        chips.tick(doing(phase(Phase.PREFILL)), 30.0)
        shown.append(chips.value("host_power_w").reshape(2, 40).mean(axis=1))
    mean_w = chips.hosts.instance_power_w(doing(phase(Phase.PREFILL)))[[0, 40]]
    assert np.mean(shown, axis=0) == pytest.approx(mean_w, rel=0.003)


def test_efa_never_carries_more_than_was_measured() -> None:
    """EFA carries at most 70 %: 266-279 of 400 GB/s are measured on trn2.48xlarge."""
    chips = Chips(make_fleet(ONE))
    jobs = doing(phase(Phase.COLLECTIVE) * 2)
    for _ in range(10):
        chips.tick(jobs)
        sent = chips.value("efa_tx_bytes_per_s")
        assert sent[0] == pytest.approx(EFA_CEILING * 400e9, rel=0.04)
        assert sent[1] == 0


def test_a_host_without_efa_has_no_figure_of_it() -> None:
    """A host without EFA (Inf2) has no value.

    0 bytes per second would mean an idle network.
    """
    chips = Chips(make_fleet("c/standalone/inf2-0001", kind="inf2.48xlarge"))
    chips.tick(doing(phase(Phase.DECODE)))
    assert np.isnan(
        [chips.value(name) for name in ("efa_tx_bytes_per_s", "efa_rx_bytes_per_s")]
    ).all()
    assert not np.isnan(chips.value("host_power_w")).any()


def test_an_idle_host_has_no_latency() -> None:
    """No execution, no latency; a busy host's tail is longer than its median."""
    chips = Chips(make_fleet(ONE))
    for _ in range(10):
        chips.tick(doing(phase(Phase.DECODE)))
    median = chips.value("exec_latency_p50_s")
    tail = chips.value("exec_latency_p99_s")
    assert np.isnan([median[1], tail[1]]).all()
    assert median[0] == pytest.approx(1.0, rel=0.02)
    assert 1.003 < tail[0] / median[0] < 1.08


@pytest.mark.parametrize("latency_s", [0.0012, 0.0197, 1.0, 2.2, 4.3, 9.8, 60.0])
def test_latencies_have_no_bias(latency_s: float) -> None:
    """The mean of the median is the latency itself, for any length.

    Precise to a tenth of a per cent and a microsecond.
    """
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0016", instances=16))
    jobs = doing(phase(Phase.COMPUTE))
    jobs.latency_s[0] = latency_s
    shown = []
    for _ in range(40):
        chips.tick(jobs, 30.0)
        shown.append(chips.value("exec_latency_p50_s"))
    assert np.mean(shown) == pytest.approx(latency_s, rel=1e-3, abs=1e-6)


def test_the_tail_of_latencies_varies_in_time_and_between_hosts() -> None:
    """The 99th percentile varies, and is never below the median.

    It is 1.8 to 3.5 % above the median in the mean (published).
    """
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0032", instances=32))
    ratios = []
    for _ in range(60):
        chips.tick(doing(phase(Phase.COMPUTE)), 10.0)
        ratios.append(chips.value("exec_latency_p99_s") / chips.value("exec_latency_p50_s"))
    above = np.array(ratios) - 1.0
    assert above.min() > 0.002
    assert 0.018 < above.mean() < 0.035
    assert above.std(axis=0).min() > 0.004
    assert above.mean(axis=0).std() > 0.003


def test_a_job_may_have_a_tail_of_its_own() -> None:
    """With speculation 35 % were published."""
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0032", instances=32))
    jobs = doing(phase(Phase.DECODE))
    object.__setattr__(jobs, "latency_tail", np.array([0.35, np.nan]))
    chips.tick(jobs)
    above = chips.value("exec_latency_p99_s") / chips.value("exec_latency_p50_s") - 1.0
    assert above.mean() == pytest.approx(0.35, rel=0.15)


def test_memory_in_use_is_a_level() -> None:
    """Each host has its own level, constant to some tens of megabytes a second."""
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0008", instances=16))
    used = []
    for _ in range(300):
        chips.tick(doing(phase(Phase.COMPUTE)))
        used.append(chips.value("host_memory_used_bytes"))
    levels = np.array(used)
    assert np.abs(np.diff(levels, axis=0)).max() < 400e6
    assert np.ptp(levels, axis=0).max() < 0.015 * levels.mean(axis=0).max()
    assert levels[:, :8].mean(axis=0).std() > 0.005 * levels[:, :8].mean()
    assert (np.ptp(levels, axis=0) > 0).all()


def test_idle_hosts_are_not_quite_still() -> None:
    """Their CPUs and their power vary, a little and slowly."""
    chips = Chips(make_fleet(instances=8))
    vcpu = []
    watts = []
    for _ in range(200):
        chips.tick(doing())
        vcpu.append(chips.value("vcpu_util_pct"))
        watts.append(chips.value("host_power_w"))
    assert 0.0 < np.mean(vcpu) < 0.4
    assert np.std(watts, axis=0).min() > 0.5


def test_parts_together_are_the_whole_bit_for_bit() -> None:
    """Shards filling only their own instances equal one run, and write nothing else."""
    fleet = make_fleet("c/us-0001", ONE, instances=3, ultraservers=2)
    whole = Chips(fleet)
    parts = [
        Chips(fleet, own=range(2)),
        Chips(fleet, own=range(2, 7)),
        Chips(fleet, own=range(7, 11)),
    ]
    for each in (whole, *parts):
        for _ in range(3):
            each.tick(doing(phase(Phase.COLLECTIVE), phase(Phase.DECODE)))
    for metric in INSTANCE_METRICS:
        total = sum(part.columns[metric.name].astype(np.int64) for part in parts)
        assert np.array_equal(total, whole.columns[metric.name]), metric.name
