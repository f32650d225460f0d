from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.chips import Chips, doing, make_fleet, phase

from trnfleet.domain.hardware.catalogue import TRN2_48XLARGE
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.sim.hardware.hosts import SilentHosts
from trnfleet.sim.jobs.activity import EFA_CEILING, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.sim.engine import Engine


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    """Return an engine of three instances with values in every column.

    One with one chip is between two with sixteen.
    """
    kinds = [
        {"type": "trn2.48xlarge", "count": 1, "first": 1},
        {"type": "trn2.3xlarge", "count": 1, "first": 2},
        {"type": "trn2.48xlarge", "count": 1, "first": 3},
    ]
    made = make_engine(clusters=[{"name": "c", "instances": kinds}])
    for name, column in made.columns.items():
        column[:] = np.arange(column.size).reshape(column.shape) % min(BY_NAME[name].top, 250)
    return made


def flags(count: int, *silent: int) -> NDArray[np.bool_]:
    result = np.zeros(count, np.bool_)
    result[list(silent)] = True
    return result


def copy(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: column.copy() for name, column in columns.items()}


def rows_of(engine: Engine, name: str, instance: int) -> slice:
    if BY_NAME[name].scope is Scope.INSTANCE:
        return slice(instance, instance + 1)
    return slice(
        int(engine.layout.chip_start[instance]), int(engine.layout.chip_start[instance + 1])
    )


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_silent_rows_say_not_available_and_no_other_does(engine: Engine, silent: int) -> None:
    """A silent instance and its chips have the top code in all lanes.

    This applies to every metric. Other rows are unchanged.
    """
    before = copy(engine.columns)
    SilentHosts(engine.layout, engine.columns).hide(flags(3, silent), range(3))
    for name, column in engine.columns.items():
        hidden = rows_of(engine, name, silent)
        assert (column[hidden] == BY_NAME[name].top).all(), name
        others = np.ones(len(column), np.bool_)
        others[hidden] = False
        assert np.array_equal(column[others], before[name][others]), name


def test_what_is_hidden_comes_back_and_goes_on(engine: Engine) -> None:
    """Hidden values are restored between two outages; counters continue."""
    silence = SilentHosts(engine.layout, engine.columns)
    before = copy(engine.columns)
    for passed in range(1, 4):
        silence.hide(flags(3, 0, 2), range(3))
        silence.restore()
        assert engine.columns["mem_ecc_corrected"][0] == before["mem_ecc_corrected"][0] + passed - 1
        engine.columns["mem_ecc_corrected"][0] += 1
    assert engine.columns["mem_ecc_corrected"][0] == before["mem_ecc_corrected"][0] + 3
    engine.columns["mem_ecc_corrected"][0] -= 3
    assert all(np.array_equal(engine.columns[name], before[name]) for name in before)


def test_lifting_twice_takes_nothing_back(engine: Engine) -> None:
    """Values are restored once, and not written over later ones."""
    silence = SilentHosts(engine.layout, engine.columns)
    silence.hide(flags(3, 0), range(3))
    silence.restore()
    engine.columns["exec_errors"][0] = 77
    silence.restore()
    assert engine.columns["exec_errors"][0] == 77


def test_another_shards_instances_are_none_of_ours(engine: Engine) -> None:
    """Only own rows are hidden; an empty shard hides none."""
    before = copy(engine.columns)
    silence = SilentHosts(engine.layout, engine.columns)
    silence.hide(flags(3, 0, 2), range(1, 2))
    silence.hide(flags(3, 0, 2), range(3, 3))
    assert all(np.array_equal(engine.columns[name], before[name]) for name in before)
    silence.hide(flags(3, 0, 2), range(2, 3))
    assert (engine.columns["exec_errors"][17:] == BY_NAME["exec_errors"].top).all()
    assert np.array_equal(engine.columns["exec_errors"][:17], before["exec_errors"][:17])


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
    published = [metric for metric in SIMULATED if metric.scope is Scope.INSTANCE]
    for metric in published:
        total = sum(part.columns[metric.name].astype(np.int64) for part in parts)
        assert np.array_equal(total, whole.columns[metric.name]), metric.name


def test_lost_efa_bandwidth_shows_in_packets_sent_again() -> None:
    """A healthy host sends few packets again, one with a tenth of its bandwidth many."""
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0002"))
    chips.efa_share[1] = 0.1
    for _ in range(60):
        chips.tick(doing(phase(Phase.COLLECTIVE), phase(Phase.COLLECTIVE)))
    healthy, sick = chips.value("efa_retransmits")[:2] / 60
    assert 0.0 < healthy < 10.0
    assert sick > 100.0
