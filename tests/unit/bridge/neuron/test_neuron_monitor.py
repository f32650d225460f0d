from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.monitor.feed import SilentSource
from support.paths import FIXTURES

from trnfleet.bridge.neuron import ticks as neuron_ticks
from trnfleet.bridge.neuron.documents import DocumentWriter, Host
from trnfleet.bridge.neuron.fields import read_period
from trnfleet.bridge.neuron.host_reader import DEFAULT_PERIOD_S, HostReader
from trnfleet.bridge.neuron.telemetry import HostTelemetry, boot_of, check_path, default_path
from trnfleet.bridge.neuron.ticks import InstanceTicks, described_instances
from trnfleet.bridge.neuron.values import ECC
from trnfleet.clock import ManualClock
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, InstanceType
from trnfleet.domain.metrics import BY_NAME, METRICS, Origin, Scope
from trnfleet.errors import ConfigError, WireError
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.store.store import Freshness
from trnfleet.wire.messages import Descriptor, decode_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.wire.ports import Envelope

DOCUMENTS = FIXTURES / "neuron-monitor"
START_NS = 1_767_571_200_000_000_000
TRN1 = INSTANCE_TYPES["trn1.2xlarge"]


def documents(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCUMENTS / f"{name}.ndjson").read_text().splitlines()]


TRN2_DOCUMENTS = documents("trn2.48xlarge-lnc2")
TRN1_DOCUMENTS = documents("trn1.2xlarge")


def feed(reader: HostReader, *told: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Let documents be read and return the values after the last."""
    for document in told:
        reader.read(json.dumps(document).encode())
    return {name: BY_NAME[name].decode(codes) for name, codes in reader.columns.items()}


def trn2(number: int = 1) -> dict[str, Any]:
    return copy.deepcopy(TRN2_DOCUMENTS[number])


def trn1(number: int = 1) -> dict[str, Any]:
    return copy.deepcopy(TRN1_DOCUMENTS[number])


def report(document: dict[str, Any], runtime: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["neuron_runtime_data"][runtime]["report"]
    return found


def test_halves_of_logical_cores_are_the_physical_cores() -> None:
    """With LNC 2, core 0 of the host is nc0 and nc1 of its first chip, core 48 is nc0 and nc1 of its thirteenth."""
    values = feed(HostReader(), trn2())

    assert values["nc_util_pct"][0].tolist() == [41.0, 81.0] * 4
    assert values["nc_util_pct"][12].tolist() == values["nc_util_pct"][13].tolist() == [41.0, 81.0] * 4
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
    document["neuron_hardware_info"] |= {"neuroncore_per_device_count": 8, "logical_neuroncore_config": 1}
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
        document["system_data"]["neuron_hw_counters"]["neuron_devices"][0]["mem_ecc_corrected"] = value
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


def test_who_the_host_is() -> None:
    """Type, EC2 id, LNC and versions are the host's own; they have a revision that goes up with a change."""
    reader = HostReader()
    feed(reader, trn2(0), trn2(1))

    assert reader.kind.name == "trn2.48xlarge"
    assert (reader.ec2_id, reader.lnc, reader.revision) == ("i-0f1e2d3c4b5a69788", 2, 0)
    assert reader.versions == {"device": "trainium2", "device_version": "v4", "neuroncore_version": "v3d"}

    changed = trn2()
    changed["neuron_hardware_info"] |= {"neuroncore_per_device_count": 8, "logical_neuroncore_config": 1}
    feed(reader, changed)
    assert (reader.lnc, reader.revision) == (1, 1)


@pytest.mark.parametrize(
    ("told", "hardware", "expected"),
    [
        ("trn2n.48xlarge", {}, "trn2u.48xlarge"),
        ("", {}, "trn2.48xlarge"),
        ("", {"neuron_device_count": 1}, "trn2.3xlarge"),
        ("", {"neuron_device_type": "trainium", "neuron_device_count": 16}, "trn1.32xlarge"),
    ],
)
def test_the_type_by_a_former_name_or_by_its_chips(
    told: str, hardware: dict[str, Any], expected: str
) -> None:
    """Where the metadata service is closed to a host, its chips tell what it is."""
    document = trn2()
    document["instance_info"]["instance_type"] = told
    document["neuron_hardware_info"] |= hardware
    reader = HostReader()
    feed(reader, document)

    assert reader.kind.name == expected


def test_an_unknown_type_is_refused_with_the_nearest() -> None:
    """What the hardware catalogue does not have cannot be shown: the message names it and what comes near."""
    document = trn2()
    document["instance_info"]["instance_type"] = "trn2.48xlrage"
    with pytest.raises(ConfigError, match=r"'trn2.48xlrage': did you mean 'trn2.48xlarge'"):
        feed(HostReader(), document)

    document["instance_info"]["instance_type"] = ""
    document["neuron_hardware_info"]["neuron_device_type"] = "inferentia9"
    with pytest.raises(
        ConfigError, match="'inferentia9', a generation that trnfleet does not know: it knows"
    ):
        feed(HostReader(), document)

    document["neuron_hardware_info"] |= {"neuron_device_type": "trainium2", "neuron_device_count": 5}
    with pytest.raises(ConfigError, match="no instance type has 5 chips of the type 'trainium2'"):
        feed(HostReader(), document)


def test_another_hosts_document_is_refused() -> None:
    """Files of two hosts that were put together do not become one host; what was read before stays."""
    reader = HostReader()
    feed(reader, trn2())
    for key, value in (("instance_id", "i-0"), ("instance_type", "trn1.2xlarge")):
        other = trn2(2)
        other["instance_info"][key] = value
        with pytest.raises(WireError, match="of another instance"):
            feed(reader, other)

    assert feed(reader)["exec_completed"][0] == 10


def test_the_period_is_that_of_most_groups() -> None:
    """One group has another period of its own, and a first one is longer; without any it is the last, or the default."""
    document = trn2()
    document["system_data"]["memory_info"]["period"] = 5.35
    reader = HostReader()
    assert reader.period_s == DEFAULT_PERIOD_S
    feed(reader, document)
    assert reader.period_s == pytest.approx(1.0003, abs=0.001)
    feed(reader, {"neuron_runtime_data": []})
    assert reader.period_s == pytest.approx(1.0003, abs=0.001)
    assert read_period(b'{"neuron_runtime_data": []}') is None


def envelopes_of(name: str, encoding: Any) -> tuple[HostReader, list[Envelope]]:
    reader = HostReader()
    telemetry: HostTelemetry | None = None
    made: list[Envelope] = []
    for number, document in enumerate(documents(name)):
        feed(reader, document)
        path = default_path(reader)
        boot = boot_of(path, START_NS)
        telemetry = telemetry or HostTelemetry(
            reader, "lab", path, boot=boot, period_s=1.0, encoding=encoding
        )
        made += telemetry.envelopes(START_NS + number * 1_000_000_000)
    return reader, made


@pytest.mark.parametrize("encoding", ["json", "cbor"])
@pytest.mark.parametrize("name", ["trn2.48xlarge-lnc2", "trn1.2xlarge"])
def test_a_monitor_shows_the_host(name: str, encoding: str) -> None:
    """The messages of a host give a monitor its values, as a real host's, without a message lost or refused."""
    reader, made = envelopes_of(name, encoding)
    monitor = Monitor(SilentSource(), "lab", clock=ManualClock(START_NS + 4_000_000_000, 1_000.0))
    # The descriptor's layout takes effect before telemetry is taken.
    monitor.apply(made[:2])
    monitor.compute()
    monitor.apply([each._replace(received_s=1_000.0) for each in made[2:]])
    monitor.compute()

    path = default_path(reader)
    assert path == f"uc1/standalone/{reader.ec2_id}"
    assert monitor.store.layout.instances == (path,)
    for metric in METRICS:
        assert np.array_equal(monitor.store.columns[metric.name], reader.columns[metric.name]), metric.name
    assert monitor.store.count(Freshness.LIVE) == reader.kind.chips
    told = monitor.ingest.descriptors.whole(path)
    assert told is not None
    assert (told[0].origin, told[1].ec2_id, told[1].lnc) == ("neuron", reader.ec2_id, reader.lnc)
    assert told[1].versions == reader.versions
    counts = monitor.counts
    assert (counts.lost, counts.undecodable, counts.misplaced, counts.rejected, counts.undescribed) == (
        0,
    ) * 5
    assert counts.messages == 4 * (1 if encoding == "cbor" else 1 + reader.kind.chips)


def test_a_changed_host_has_a_new_descriptor() -> None:
    """When the cores are paired otherwise, a descriptor with the next revision goes before the next frame."""
    reader = HostReader()
    feed(reader, trn2())
    telemetry = HostTelemetry(reader, "lab", "uc1/standalone/x", boot="b", period_s=1.0)
    first = list(telemetry.envelopes(START_NS))
    again = list(telemetry.envelopes(START_NS + 1))
    changed = trn2()
    changed["neuron_hardware_info"] |= {"neuroncore_per_device_count": 8, "logical_neuroncore_config": 1}
    feed(reader, changed)
    third = list(telemetry.envelopes(START_NS + 2))

    assert [each.retain for each in first] == [True, True, False]
    assert len(again) == 1
    assert [each.retain for each in third] == [True, True, False]
    told = json.loads(third[1].payload)
    assert (told["revision"], told["origin"], told["instances"][0]["lnc"]) == (1, "neuron", 1)
    assert told["clock"] == {"epoch": "2026-01-05T00:00:00.000Z", "speed": 1.0}


def test_addresses_of_hosts() -> None:
    """A host is named by its EC2 id, else by its name tag if that may be a segment; an address must be an instance's."""
    reader = HostReader()
    document = trn1()
    document["instance_info"] |= {"instance_id": "", "instance_name": "My host"}
    feed(reader, document)
    assert default_path(reader) == "uc1/standalone/host"
    document["instance_info"]["instance_name"] = "node-7"
    feed(reader, document)
    assert default_path(reader) == "uc1/standalone/node-7"
    assert check_path("a/b/c") == "a/b/c"
    for bad in ("a/b", "a/b/c/chip00", "a/b/c d"):
        with pytest.raises(ConfigError, match="address"):
            check_path(bad)


# The way back


def scattered(kind: InstanceType, seed: int) -> dict[str, NDArray[Any]]:
    """Return wire codes of what neuron-monitor can say; a share of them 0 or not available, whole chips among them."""
    random = np.random.default_rng(seed)
    cores = kind.chip.neuroncores
    plain = random.random(kind.chips)
    result = {}
    for metric in METRICS:
        rows = kind.chips if metric.scope is Scope.CHIP else 1
        column = np.full((rows, metric.width) if metric.is_vector else (rows,), metric.top, metric.dtype)
        if metric.real_host is Origin.MEASURED and "neuron-monitor" in metric.real_source:
            shape = (rows, cores) if metric.is_vector else (rows,)
            most = 200 if metric.unit == "%" else metric.top - 1
            codes = random.integers(0, most, shape, np.uint64, endpoint=True).astype(metric.dtype)
            chance = random.random(shape)
            if metric.scope is Scope.CHIP:
                # Idle and silent chips, too.
                chance = np.where((plain < 0.2).reshape(-1, *[1] * (len(shape) - 1)), 0.0, chance)
                chance = np.where((plain > 0.9).reshape(-1, *[1] * (len(shape) - 1)), 1.0, chance)
            codes[chance < 0.1] = 0
            codes[chance > 0.9] = metric.top
            column[tuple(slice(size) for size in shape)] = codes
        result[metric.name] = column
    return result


def sayable(columns: dict[str, NDArray[Any]], kind: InstanceType, lnc: int) -> dict[str, NDArray[Any]]:
    """Return what documents can have of it: no number is null, and nothing is said of what no process uses."""
    result = {name: codes.copy() for name, codes in columns.items()}
    known = {name: codes != BY_NAME[name].top for name, codes in columns.items()}
    lanes = known["nc_util_pct"][:, : kind.chip.neuroncores].reshape(kind.chips, -1, lnc)
    listed, hbm = lanes.any(axis=2), known["hbm_used_bytes"]
    counted = known["exec_completed"] & known["exec_errors"]
    result["tflops"][~listed.any(axis=1)] = BY_NAME["tflops"].top
    if listed.all() and hbm.all() and counted.all():
        used = BY_NAME["hbm_used_bytes"].decode(columns["hbm_used_bytes"])
        idle = used <= 0.01 * kind.chip.hbm_bytes.value
        idle &= (columns["nc_util_pct"][:, : kind.chip.neuroncores] == 0).all(axis=1)
        idle &= (columns["tflops"] == 0) | ~known["tflops"]
        result["hbm_used_bytes"][idle] = 0
        result["tflops"][idle] = 0
        has_process = not idle.all()
    else:
        has_process = bool(counted.any())
    latencies = ("exec_latency_p50_s", "exec_latency_p99_s")
    if not has_process or not all(known[name].all() for name in latencies):
        for name in latencies:
            result[name][:] = BY_NAME[name].top
    whole = np.all([known[name] for name in ECC], axis=0)
    for name in ECC:
        result[name][~whole] = BY_NAME[name].top
    for name in ("exec_completed", "exec_errors"):
        result[name][:] = np.where(counted & (listed.any(axis=1) | hbm), 0, BY_NAME[name].top)
    return result


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([("trn2.3xlarge", 2), ("trn2.3xlarge", 1), ("trn1.2xlarge", 1), ("trn2.48xlarge", 2)]),
)
def test_values_come_back_from_documents(seed: int, chosen: tuple[str, int]) -> None:
    """What becomes a document and is read again has the same codes, what is not available included."""
    kind, lnc = INSTANCE_TYPES[chosen[0]], chosen[1]
    columns = scattered(kind, seed)

    reader = HostReader()
    reader.read(DocumentWriter(Host("uc1/standalone/x", kind, lnc, "i-1")).write(columns, 1.0))

    assert (reader.kind, reader.lnc, reader.ec2_id, reader.period_s) == (kind, lnc, "i-1", 1.0)
    expected = sayable(columns, kind, lnc)
    for metric in METRICS:
        assert np.array_equal(reader.columns[metric.name], expected[metric.name]), metric.name


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=8))
def test_counters_come_back_as_what_they_grew(steps: list[int | None]) -> None:
    """Counts of periods add up to what a counter grew since it was first known, over ticks without it."""
    writer, reader = DocumentWriter(Host("uc1/standalone/x", TRN1, 1)), HostReader()
    columns = {name: codes.copy() for name, codes in _read(trn1()).items()}
    counter, first = 1_000_000, None
    for step in steps:
        counter += step or 0
        columns["exec_completed"][0] = BY_NAME["exec_completed"].top if step is None else counter
        reader.read(writer.write(columns, 1.0))
        if step is None:
            assert reader.columns["exec_completed"][0] == BY_NAME["exec_completed"].top
        else:
            first = counter if first is None else first
            assert reader.columns["exec_completed"][0] == counter - first


def _read(document: dict[str, Any]) -> dict[str, NDArray[Any]]:
    return HostReader().read(json.dumps(document).encode())


@pytest.mark.parametrize("encoding", ["json", "cbor"])
def test_one_instance_is_picked_out_tick_by_tick(encoding: str) -> None:
    """Frames and JSON of an instance give its ticks, with their times, and those of others are left alone."""
    reader, made = envelopes_of("trn2.48xlarge-lnc2", encoding)
    path = default_path(reader)
    assert [described_instances(each) for each in made[:2]] == [("", ()), ("lab", (path,))]
    others = envelopes_of("trn1.2xlarge", encoding)[1]
    ticks = InstanceTicks("lab", path)

    got = [tick for each in made + others if (tick := ticks.take(each)) is not None]
    last = ticks.finish()

    assert last is not None
    assert [tick.ts_ns - START_NS for tick in [*got, last]] == [
        0,
        1_000_000_000,
        2_000_000_000,
        3_000_000_000,
    ]
    assert last.period_s == 1.0
    for metric in METRICS:
        assert np.array_equal(last.columns[metric.name], reader.columns[metric.name]), metric.name
    assert ticks.host == Host(path, reader.kind, 2, reader.ec2_id)


def test_messages_about_the_instance_that_make_no_sense_are_refused() -> None:
    """Frames before or beside their descriptor, what is too late, and chips that it does not have."""
    _, made = envelopes_of("trn1.2xlarge", "cbor")
    samples = envelopes_of("trn1.2xlarge", "json")[1]
    path = "uc1/standalone/i-0a1b2c3d4e5f60718"
    ticks = InstanceTicks("lab", path)
    for early in (made[2], samples[2]):
        with pytest.raises(WireError, match="before its descriptor"):
            ticks.take(early)
    ticks.take(made[1])
    descriptor = json.loads(made[1].payload)
    other_kind = descriptor | {"instances": [descriptor["instances"][0] | {"type": "trn2.3xlarge"}]}
    unknown = descriptor | {"instances": [descriptor["instances"][0] | {"type": "trn9.3xlarge"}]}
    chip = json.loads(samples[3].payload)
    for bad, reason in (
        (made[1]._replace(payload=json.dumps(other_kind).encode()), "is a trn2.3xlarge now"),
        (made[1]._replace(payload=json.dumps(unknown).encode()), "unknown instance type 'trn9.3xlarge'"),
        (made[1]._replace(payload=b"{}"), "Descriptor"),
        (made[2]._replace(payload=made[2].payload[:-1]), "not CBOR"),
        (samples[3]._replace(payload=json.dumps(chip | {"chip": 1}).encode()), "identity in the payload"),
        (
            samples[3]._replace(
                topic=samples[3].topic.replace("chip00", "chip01"),
                payload=json.dumps(chip | {"chip": 1}).encode(),
            ),
            "a trn1.2xlarge has no such chip",
        ),
    ):
        with pytest.raises(WireError, match=reason):
            ticks.take(bad)
    assert ticks.take(made[3]) is None
    with pytest.raises(WireError, match="older than what came before"):
        ticks.take(made[2])
    ticks.take(made[1]._replace(payload=json.dumps(descriptor | {"revision": 7}).encode()))
    with pytest.raises(WireError, match="of another boot or revision than its descriptor"):
        ticks.take(made[4])
    last = ticks.finish()
    assert last is not None
    assert last.ts_ns == START_NS + 1_000_000_000


def test_only_what_is_about_the_instance_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a descriptor that is repeated nor one of others is parsed; one that came back is."""
    _, made = envelopes_of("trn1.2xlarge", "cbor")
    node = made[1]
    other = node._replace(payload=node.payload.replace(b"i-0a1b2c3d4e5f60718", b"i-0a1b2c3d4e5f60719"))
    other = other._replace(topic=other.topic.replace("i-0a1b2c3d4e5f60718", "i-0a1b2c3d4e5f60719"))
    changed = node._replace(payload=json.dumps(json.loads(node.payload) | {"revision": 7}).encode())
    parsed: list[bytes] = []

    def spied(payload: bytes, model: type[Descriptor]) -> Descriptor:
        parsed.append(payload)
        return decode_message(payload, model)

    monkeypatch.setattr(neuron_ticks, "decode_message", spied)
    ticks = InstanceTicks("lab", "uc1/standalone/i-0a1b2c3d4e5f60718")
    for each in (node, other, node, changed, changed, node):
        ticks.take(each)
    assert parsed == [node.payload, changed.payload, node.payload]
    assert ticks.take(made[2]) is None


def test_json_is_told_by_its_content_type() -> None:
    """Wherever its object begins."""
    _, made = envelopes_of("trn1.2xlarge", "json")
    ticks = InstanceTicks("lab", "uc1/standalone/i-0a1b2c3d4e5f60718")
    for each in made:
        ticks.take(each._replace(payload=b" " + each.payload))
    assert ticks.finish() is not None


def test_hosts_that_neuron_monitor_cannot_tell_of() -> None:
    """Cores that cannot be paired so are refused with the numbers."""
    with pytest.raises(ConfigError, match="3 does not divide the 2 cores of a chip"):
        DocumentWriter(Host("uc1/standalone/x", TRN1, 3))


# What is no document


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.builds(list),
    st.builds(dict),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, each in value.items():
            found += _places(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            found += _places(each, (*path, number))
    return found


PLACES = _places(TRN1_DOCUMENTS[1])


@given(st.lists(st.tuples(st.sampled_from(PLACES), leaves), min_size=1, max_size=4))
def test_whatever_a_document_holds_it_is_read_or_refused(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    """Any value in any place gives codes, or one of the two errors that are foreseen."""
    document = trn1()
    for (*parents, last), value in changes:
        place: Any = document
        try:
            for key in parents:
                place = place[key]
            place[last] = value
        except (KeyError, IndexError, TypeError):
            continue
    reader = HostReader()
    feed(reader, trn1(0))
    for _ in range(2):
        try:
            reader.read(json.dumps(document).encode())
        except (WireError, ConfigError):
            continue
        assert list(reader.columns) == [metric.name for metric in METRICS]


@given(st.binary(max_size=300))
def test_noise_is_no_document(noise: bytes) -> None:
    """Bytes that are none are refused in one way."""
    with pytest.raises(WireError):
        HostReader().read(noise)
    for cut in (b"{}", b"[]", b'{"a": 1}', json.dumps(trn1()).encode()[:-7]):
        with pytest.raises(WireError):
            HostReader().read(cut)


def test_huge_numbers_do_not_overflow() -> None:
    """Counts, indexes and sizes that nothing has are not available, and no error."""
    document = trn1()
    stats = report(document)["execution_stats"]["execution_summary"]
    stats["completed"] = 10**30
    report(document)["neuroncore_counters"]["neuroncores_in_use"]["99999"] = {"neuroncore_utilization": 1e300}
    report(document)["neuroncore_counters"]["neuroncores_in_use"]["9" * 400] = {}
    document["system_data"]["memory_info"] |= {"memory_used_bytes": 1e300, "period": 1e300}
    document["neuron_hardware_info"]["neuron_device_count"] = 10**20

    values = feed(HostReader(), document, document)

    assert np.isnan(values["exec_completed"]).all()
    assert np.isnan(values["host_memory_used_bytes"]).all()
    assert values["nc_util_pct"][0, 0] == 61.5
