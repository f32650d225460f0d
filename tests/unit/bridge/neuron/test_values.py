"""Values of a host in neuron-monitor's documents: cores, memory, executions, ECC, host."""

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
    """With LNC 2, the host's core 0 is nc0 and nc1 of its first chip.

    Core 48 is nc0 and nc1 of its thirteenth.
    """
    values = feed(HostReader(), trn2())

    assert values["nc_util_pct"][0].tolist() == [41.0, 81.0] * 4
    assert (
        values["nc_util_pct"][12].tolist() == values["nc_util_pct"][13].tolist() == [41.0, 81.0] * 4
    )
    assert values["tflops"][[0, 12, 13]].tolist() == [120.0] * 3
    used = 4 * (2**27 + 2**26 + 2**22 + 2**30)
    assert values["hbm_used_bytes"][[0, 12]].tolist() == [used] * 2


def test_a_chip_that_no_runtime_uses_is_idle() -> None:
    """An unused chip is idle, not `not available`: 0 %, 0 FLOP/s, no memory.

    So is a host without runtimes.
    """
    busy = feed(HostReader(), trn2())
    idle = feed(HostReader(), trn2(0))

    for name in ("nc_util_pct", "tflops", "hbm_used_bytes", "exec_completed", "exec_errors"):
        assert not busy[name][1].any()
        assert not idle[name].any()


def test_what_neuron_monitor_does_not_have_is_not_available() -> None:
    """Metrics from other sources stay not available; neuron-monitor's are present."""
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
    """Without halves each physical core is as busy as the pair.

    A null half is not available.
    """
    document = trn2()
    cores = report(document)["neuroncore_counters"]["neuroncores_in_use"]
    del cores["0"]["v3d"]
    cores["1"]["v3d"]["nc_v3.3"] = {"neuroncore_utilization": None}

    lanes = feed(HostReader(), document)["nc_util_pct"][0]

    assert lanes[:3].tolist() == [61.0, 61.0, 41.0]
    assert np.isnan(lanes[3])


def test_two_runtimes_on_a_core_are_summed() -> None:
    """Shares of time, memory and executions of two runtimes on a core add up.

    Time never exceeds the whole.
    """
    document = trn1()
    document["neuron_runtime_data"].append(copy.deepcopy(document["neuron_runtime_data"][0]))
    alone = feed(HostReader(), trn1())

    values = feed(HostReader(), document)

    assert values["nc_util_pct"][0, 0] == 100.0
    for name in ("tflops", "hbm_used_bytes", "exec_completed"):
        assert values[name][0] == 2 * alone[name][0]
    assert values["exec_latency_p50_s"] == alone["exec_latency_p50_s"]


def test_counts_of_periods_become_counters() -> None:
    """Executions are summed over documents and distributed among a runtime's cores.

    None is lost.
    """
    reader = HostReader()
    feed(reader, *TRN2_DOCUMENTS[:3])
    values = feed(reader, TRN2_DOCUMENTS[3])

    assert values["exec_completed"][0] == 30
    assert values["exec_completed"][[12, 13]].sum() == 99
    assert abs(values["exec_completed"][12] - values["exec_completed"][13]) <= 8
    assert values["exec_errors"].sum() == 2


def test_failures_counted_by_outcome_and_by_cause_are_the_same_failures() -> None:
    """Summary and errors count the same executions: the higher count applies, not the sum."""
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
    """Cumulative or per-period ECC counts both become a counter.

    It is disputed which they are.
    """
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
    """Latency is the slowest runtime's; no value at first is not 0.

    Time in use is neither idle nor waiting for I/O.
    """
    values = feed(HostReader(), trn2())
    first = feed(HostReader(), trn2(0))

    assert values["exec_latency_p50_s"].tolist() == [0.013]
    assert values["exec_latency_p99_s"].tolist() == [0.015]
    assert values["vcpu_util_pct"].tolist() == [24.5]
    assert values["host_memory_used_bytes"][0] == pytest.approx(40.01e9, abs=2**19)
    assert np.isnan(first["vcpu_util_pct"][0])
    assert np.isnan(first["exec_latency_p50_s"][0])


def without(path: str, value: object = None) -> dict[str, Any]:
    """Return a trn1's document with one value missing or replaced."""
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
        (
            without("neuron_runtime_data"),
            {"nc_util_pct", "tflops", "hbm_used_bytes", "exec_completed", "exec_errors"},
        ),
        (without(f"{RUNTIME}.neuroncore_counters"), {"nc_util_pct", "tflops"}),
        (without(f"{RUNTIME}.neuroncore_counters.error", "it failed"), {"nc_util_pct", "tflops"}),
        (
            without(f"{RUNTIME}.neuroncore_counters.neuroncores_in_use.0.effective_flops"),
            {"tflops"},
        ),
        (without(f"{RUNTIME}.memory_used"), {"hbm_used_bytes"}),
        (
            without(f"{RUNTIME}.memory_used.neuron_runtime_used_bytes.usage_breakdown", {}),
            {"hbm_used_bytes"},
        ),
        (without(f"{RUNTIME}.execution_stats"), {"exec_completed", "exec_errors"}),
        (without(f"{RUNTIME}.execution_stats.execution_summary.completed"), {"exec_completed"}),
        (
            without("neuron_runtime_data.0.error", "gone"),
            {"nc_util_pct", "tflops", "hbm_used_bytes"},
        ),
        (without("system_data"), set(ECC)),
        (without("system_data.neuron_hw_counters.error", "no"), set(ECC)),
        (without("system_data.vcpu_usage"), {"vcpu_util_pct"}),
        (without("system_data.memory_info.memory_used_bytes"), {"host_memory_used_bytes"}),
        (
            without(f"{RUNTIME}.execution_stats.latency_stats.total_latency.p50"),
            {"exec_latency_p50_s"},
        ),
    ],
)
def test_what_is_missing_is_not_available(document: dict[str, Any], gone: set[str]) -> None:
    """A missing, failed or null part makes its metrics not available, never 0."""
    whole = feed(HostReader(), trn1())
    values = feed(HostReader(), document)

    for name in gone:
        assert not np.isnan(whole[name]).all()
        assert np.isnan(values[name]).all(), name
    if "system_data" not in document or "neuron_runtime_data" not in document:
        return
    for name in {"nc_util_pct", "host_memory_used_bytes", "mem_ecc_corrected"} - gone:
        assert np.array_equal(values[name], whole[name], equal_nan=True), name


def garbled(path: str, value: object) -> dict[str, Any]:
    """Return a trn1's document with another value somewhere."""
    return without(path, value)


CORE = f"{RUNTIME}.neuroncore_counters.neuroncores_in_use.0"
PARTS = f"{RUNTIME}.memory_used.neuron_runtime_used_bytes.usage_breakdown.neuroncore_memory_usage.0"


@pytest.mark.parametrize(
    ("path", "value", "metric", "words"),
    [
        *(
            (
                f"{CORE}.neuroncore_utilization",
                value,
                "nc_util_pct",
                f"neuroncore_utilization of core 0 must be a number from 0 to 101, not {value}",
            )
            for value in (4294967295, 808334905, 176000, -3, 102)
        ),
        (
            f"{CORE}.neuroncore_utilization",
            "50",
            "nc_util_pct",
            "must be a number from 0 to 101, not '50'",
        ),
        (f"{CORE}.effective_flops", 1e17, "tflops", "tflops must be from 0 to 3276.7, not "),
        (
            f"{CORE}.effective_flops",
            -1,
            "tflops",
            "effective_flops of core 0 must be a number from 0, not -1",
        ),
        (
            f"{PARTS}.tensors",
            -1,
            "hbm_used_bytes",
            "tensors of core 0 must be a number from 0, not -1",
        ),
        (f"{PARTS}.tensors", 10**15, "hbm_used_bytes", "hbm_used_bytes must be from 0 to "),
        (
            f"{RUNTIME}.execution_stats.execution_summary.completed",
            1.5,
            "exec_completed",
            "completed must be a whole number",
        ),
        (
            f"{RUNTIME}.execution_stats.execution_summary.timed_out",
            -1,
            "exec_errors",
            "timed_out must be a whole number",
        ),
        (
            f"{RUNTIME}.execution_stats.latency_stats.total_latency.p50",
            -1,
            "exec_latency_p50_s",
            "total_latency.p50 must be",
        ),
        (
            "system_data.vcpu_usage.average_usage.system",
            4294967295,
            "vcpu_util_pct",
            "average_usage.system must be a number from 0 to 101",
        ),
        (
            "system_data.memory_info.memory_used_bytes",
            -1,
            "host_memory_used_bytes",
            "memory_used_bytes must be",
        ),
        (
            "system_data.neuron_hw_counters.neuron_devices.0.mem_ecc_corrected",
            -1,
            "mem_ecc_corrected",
            "mem_ecc_corrected of device 0 must be a count, not -1",
        ),
    ],
)
def test_a_value_that_cannot_be_one_is_not_available(
    path: str, value: object, metric: str, words: str
) -> None:
    """An invalid value is not available, counted and named with its limit.

    All else of the document counts.
    """
    whole = feed(HostReader(), trn1())
    reader = HostReader()
    values = feed(reader, garbled(path, value))

    assert np.isnan(values[metric].reshape(len(values[metric]), -1)[0, 0])
    assert reader.doubts.count >= 1
    assert words in reader.doubts.first
    for name in set(whole) - {metric}:
        assert np.array_equal(values[name], whole[name], equal_nan=True), name


@pytest.mark.parametrize(
    ("cores", "devices", "count"),
    [
        ((12, 16), (3, 4), 2),
        ((0, 4), (3, 4), 2),
        ((12, 16), (0, 1), 2),
        ((0, 4), (0, 1), 0),
        ((0, 64), (0, 1), 16),
    ],
)
def test_a_document_that_contradicts_itself_makes_no_idle_chips(
    cores: tuple[int, ...], devices: tuple[int, ...], count: int
) -> None:
    """Chips named by a contradictory document are placed by number.

    All others are unknown, and this is reported.
    """
    document = trn2()
    document["neuron_hardware_info"]["neuron_device_count"] = count
    (runtime,) = document["neuron_runtime_data"][:1]
    document["neuron_runtime_data"] = [runtime]
    counters = runtime["report"]["neuroncore_counters"]
    facts = next(iter(counters["neuroncores_in_use"].values()))
    counters["neuroncores_in_use"] = {str(core): facts for core in cores}
    del runtime["report"]["memory_used"]
    entry = document["system_data"]["neuron_hw_counters"]["neuron_devices"][0]
    document["system_data"]["neuron_hw_counters"]["neuron_devices"] = [
        entry | {"neuron_device_index": each} for each in devices
    ]
    reader = HostReader()

    values = feed(reader, document)

    busy = {core // 4 for core in cores if core < 64}
    known = ~np.isnan(values["nc_util_pct"])
    assert set(np.flatnonzero(known.any(axis=1)).tolist()) == busy
    assert (values["nc_util_pct"][known] > 0).all()
    assert np.isnan(values["tflops"][sorted(set(range(16)) - busy)]).all()
    assert "it names " in reader.doubts.first
    assert f"says that the host sees {count} device" in reader.doubts.first
