"""Values of a host by its documents of neuron-monitor: cores, memory, executions, ECC and the host's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from support.neuron import TRN2_DOCUMENTS, feed, report, trn1, trn2

from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.values import ECC
from trnfleet.domain.metrics import METRICS, Origin


def test_halves_of_logical_cores_are_the_physical_cores() -> None:
    """With LNC 2, core 0 of the host is nc0 and nc1 of its first chip, core 48 is nc0 and nc1 of its thirteenth."""
    values = feed(HostReader(), trn2())

    assert values["nc_util_pct"][0].tolist() == [41.0, 81.0] * 4
    assert (
        values["nc_util_pct"][12].tolist() == values["nc_util_pct"][13].tolist() == [41.0, 81.0] * 4
    )
    assert values["tflops"][[0, 12, 13]].tolist() == [120.0] * 3
    used = 4 * (2**27 + 2**26 + 2**22 + 2**30)
    assert values["hbm_used_bytes"][[0, 12]].tolist() == [used] * 2


def test_a_chip_that_no_runtime_uses_is_idle() -> None:
    """It is measured to be idle: 0 %, 0 FLOP/s, no memory, not `not available`; so is a host without runtimes."""
    busy, idle = feed(HostReader(), trn2()), feed(HostReader(), trn2(0))

    for name in ("nc_util_pct", "tflops", "hbm_used_bytes", "exec_completed", "exec_errors"):
        assert not busy[name][1].any()
        assert not idle[name].any()


def test_what_neuron_monitor_does_not_have_is_not_available() -> None:
    """Metrics from elsewhere stay not available throughout, and those that it has are there."""
    values = feed(HostReader(), trn2())
    there = {name for name, value in values.items() if not np.isnan(value).all()}

    expected = {
        metric.name
        for metric in METRICS
        if metric.real_host is Origin.MEASURED and "neuron-monitor" in metric.real_source
    }
    assert there == expected


def test_a_trn1_has_two_cores_and_effective_flops() -> None:
    """Without v3d a core's own figure counts; lanes that the chip lacks are not available."""
    values = feed(HostReader(), trn1())

    assert values["nc_util_pct"][0, :2].tolist() == [61.5, 61.5]
    assert np.isnan(values["nc_util_pct"][0, 2:]).all()
    assert values["tflops"].tolist() == [60.0]


def test_a_trn2_with_lnc_1_has_eight_logical_cores() -> None:
    """Where cores are not paired, each logical core is a physical one."""
    document = trn2()
    document["neuron_hardware_info"] |= {
        "neuroncore_per_device_count": 8,
        "logical_neuroncore_config": 1,
    }
    cores = {str(core): {"neuroncore_utilization": core + 0.5, "flops": 1e12} for core in (7, 8)}
    report(document)["neuroncore_counters"]["neuroncores_in_use"] = cores
    del document["neuron_runtime_data"][1]
    reader = HostReader()

    values = feed(reader, document)

    assert reader.lnc == 1
    assert values["nc_util_pct"][0].tolist() == [0.0] * 7 + [7.5]
    assert values["nc_util_pct"][1].tolist() == [8.5] + [0.0] * 7


def test_a_logical_core_without_halves_stands_for_both() -> None:
    """Where the halves are not told, each physical core is as busy as the pair; a null half is not available."""
    document = trn2()
    cores = report(document)["neuroncore_counters"]["neuroncores_in_use"]
    del cores["0"]["v3d"]
    cores["1"]["v3d"]["nc_v3.3"] = {"neuroncore_utilization": None}

    lanes = feed(HostReader(), document)["nc_util_pct"][0]

    assert lanes[:3].tolist() == [61.0, 61.0, 41.0]
    assert np.isnan(lanes[3])


def test_two_runtimes_on_a_core_are_summed() -> None:
    """They take turns: shares of time and memory add up, never beyond all of the time; executions add up, too."""
    document = trn1()
    document["neuron_runtime_data"].append(copy.deepcopy(document["neuron_runtime_data"][0]))
    alone = feed(HostReader(), trn1())

    values = feed(HostReader(), document)

    assert values["nc_util_pct"][0, 0] == 100.0
    for name in ("tflops", "hbm_used_bytes", "exec_completed"):
        assert values[name][0] == 2 * alone[name][0]
    assert values["exec_latency_p50_s"] == alone["exec_latency_p50_s"]


def test_counts_of_periods_become_counters() -> None:
    """Executions are summed over the documents and shared out among a runtime's cores, so that nothing is lost."""
    reader = HostReader()
    feed(reader, *TRN2_DOCUMENTS[:3])
    values = feed(reader, TRN2_DOCUMENTS[3])

    assert values["exec_completed"][0] == 30
    assert values["exec_completed"][[12, 13]].sum() == 99
    assert abs(values["exec_completed"][12] - values["exec_completed"][13]) <= 8
    assert values["exec_errors"].sum() == 2


def test_failures_counted_by_outcome_and_by_cause_are_the_same_failures() -> None:
    """The summary and the errors tell of the same executions; the higher count is taken, not the sum."""
    document = trn1()
    stats = report(document)["execution_stats"]
    stats["execution_summary"] |= {"timed_out": 3, "completed_with_err": 1}
    stats["error_summary"] |= {"hardware": 2}

    assert feed(HostReader(), document)["exec_errors"].tolist() == [4]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([0, 2, 4, 4], [0, 2, 4, 4]),  # cumulative
        ([5, 5, 7], [5, 5, 7]),
        ([3, 0, 2, 0], [3, 3, 5, 5]),  # a period's own
        ([9, 1, 2], [9, 10, 11]),  # the driver was loaded again
        ([1, None, 4], [1, None, 4]),
    ],
)
def test_ecc_counts_never_fall(told: list[int | None], expected: list[int | None]) -> None:
    """Whether they are cumulative or a period's own is disputed: either way they make a counter."""
    reader = HostReader()
    got = []
    for value in told:
        document = trn1()
        document["system_data"]["neuron_hw_counters"]["neuron_devices"][0]["mem_ecc_corrected"] = (
            value
        )
        counter = feed(reader, document)["mem_ecc_corrected"][0]
        got.append(None if np.isnan(counter) else int(counter))

    assert got == expected


def test_the_hosts_own_values() -> None:
    """Latency is the slowest runtime's; time in use is neither idle nor waiting for I/O; nothing at first is no 0."""
    values, first = feed(HostReader(), trn2()), feed(HostReader(), trn2(0))

    assert values["exec_latency_p50_s"].tolist() == [0.013]
    assert values["exec_latency_p99_s"].tolist() == [0.015]
    assert values["vcpu_util_pct"].tolist() == [24.5]
    assert values["host_memory_used_bytes"][0] == pytest.approx(40.01e9, abs=2**19)
    assert np.isnan(first["vcpu_util_pct"][0])
    assert np.isnan(first["exec_latency_p50_s"][0])


def without(path: str, value: object = None) -> dict[str, Any]:
    """Return a trn1's document in which one thing is missing, or something else."""
    document = trn1()
    place: Any = document
    *parents, last = path.split(".")
    for name in parents:
        place = place[int(name) if name.isdecimal() and isinstance(place, list) else name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


RUNTIME = "neuron_runtime_data.0.report"


@pytest.mark.parametrize(
    ("document", "gone"),
    [
        (without("neuron_runtime_data"), {"nc_util_pct", "tflops", "hbm_used_bytes", "exec_completed", "exec_errors"}),
        (without(f"{RUNTIME}.neuroncore_counters"), {"nc_util_pct", "tflops"}),
        (without(f"{RUNTIME}.neuroncore_counters.error", "it failed"), {"nc_util_pct", "tflops"}),
        (without(f"{RUNTIME}.neuroncore_counters.neuroncores_in_use.0.effective_flops"), {"tflops"}),
        (without(f"{RUNTIME}.memory_used"), {"hbm_used_bytes"}),
        (without(f"{RUNTIME}.memory_used.neuron_runtime_used_bytes.usage_breakdown", {}), {"hbm_used_bytes"}),
        (without(f"{RUNTIME}.execution_stats"), {"exec_completed", "exec_errors"}),
        (without(f"{RUNTIME}.execution_stats.execution_summary.completed"), {"exec_completed"}),
        (without("neuron_runtime_data.0.error", "gone"), {"nc_util_pct", "tflops", "hbm_used_bytes"}),
        (without("system_data"), set(ECC)),
        (without("system_data.neuron_hw_counters.error", "no"), set(ECC)),
        (without("system_data.vcpu_usage"), {"vcpu_util_pct"}),
        (without("system_data.memory_info.memory_used_bytes"), {"host_memory_used_bytes"}),
        (without(f"{RUNTIME}.execution_stats.latency_stats.total_latency.p50"), {"exec_latency_p50_s"}),
        (without("neuron_hardware_info.neuron_device_count", 0), {"nc_util_pct", "tflops", "exec_completed", *ECC}),
    ],
)  # fmt: skip  # a line a case
def test_what_is_missing_is_not_available(document: dict[str, Any], gone: set[str]) -> None:
    """A missing, failed or null part makes its metrics not available, never 0."""
    whole, values = feed(HostReader(), trn1()), feed(HostReader(), document)

    for name in gone:
        assert not np.isnan(whole[name]).all()
        assert np.isnan(values[name]).all(), name
    if "system_data" not in document or "neuron_runtime_data" not in document:
        return
    for name in {"nc_util_pct", "host_memory_used_bytes", "mem_ecc_corrected"} - gone:
        assert np.array_equal(values[name], whole[name], equal_nan=True), name
