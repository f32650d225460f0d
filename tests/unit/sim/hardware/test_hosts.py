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
    assert watts[1] == 1_500


def test_power_without_noise_is_the_mean_of_that_with_it() -> None:
    """A rack's limit uses the mean of the column."""
    chips = Chips(make_fleet(ONE))
    shown = []
    for _ in range(100):
        chips.tick(doing(phase(Phase.PREFILL)))
        shown.append(chips.value("host_power_w"))
    mean_w = chips.hosts.instance_power_w(doing(phase(Phase.PREFILL)))
    assert np.mean(shown, axis=0) == pytest.approx(mean_w, rel=0.003)


def test_efa_never_carries_more_than_was_measured() -> None:
    """266-279 of 400 GB/s are measured on trn2.48xlarge, so that no more than 70 % flow."""
    chips = Chips(make_fleet(ONE))
    jobs = doing(phase(Phase.COLLECTIVE) * 2)
    for _ in range(10):
        chips.tick(jobs)
        sent = chips.value("efa_tx_bytes_per_s")
        assert sent[0] == pytest.approx(EFA_CEILING * 400e9, rel=0.04)
        assert sent[1] == 0


def test_an_idle_host_has_no_latency() -> None:
    """No execution, no latency; a busy host's tail is longer than its median."""
    chips = Chips(make_fleet(ONE))
    for _ in range(10):
        chips.tick(doing(phase(Phase.DECODE)))
    median, tail = chips.value("exec_latency_p50_s"), chips.value("exec_latency_p99_s")
    assert np.isnan([median[1], tail[1]]).all()
    assert median[0] == pytest.approx(1.0, rel=0.05)
    assert tail[0] == pytest.approx(1.08, rel=0.05)


def test_parts_together_are_the_whole_bit_for_bit() -> None:
    """Shards that fill their own instances make what one run makes, and write nothing else."""
    fleet = make_fleet("c/us-0001", ONE, instances=3, ultraservers=2)
    whole = Chips(fleet)
    parts = [Chips(fleet, own=range(2)), Chips(fleet, own=range(2, 7)), Chips(fleet, own=range(7, 11))]
    for each in (whole, *parts):
        for _ in range(3):
            each.tick(doing(phase(Phase.COLLECTIVE), phase(Phase.DECODE)))
    for metric in INSTANCE_METRICS:
        total = sum(part.columns[metric.name].astype(np.int64) for part in parts)
        assert np.array_equal(total, whole.columns[metric.name]), metric.name
