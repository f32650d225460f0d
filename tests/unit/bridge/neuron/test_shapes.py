"""Made-up documents in every shape seen in real ones, with the expected values."""

from __future__ import annotations

import json
from unittest.mock import Mock

import numpy as np
import pytest
from support.neuron import feed
from support.paths import FIXTURES

from trnfleet.bridge.neuron.devices import DeviceList, parse_device_list, read_device_list
from trnfleet.bridge.neuron.fields import halves_of
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.stream import read_documents
from trnfleet.bridge.neuron.telemetry import default_path
from trnfleet.bridge.neuron.utilisation import read_utilisation
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import ConfigError, WireError

FOLDER = FIXTURES / "neuron-monitor"
GIB = 2**30
MIB = 2**20


def documents(name: str) -> list[bytes]:
    with (FOLDER / name).open("rb") as stream:
        return [document or b"" for _, document, _ in read_documents(stream)]


@pytest.fixture
def reader() -> HostReader:
    return HostReader()


def test_a_running_total_of_generic_errors_is_no_failure(reader: HostReader) -> None:
    """It is in the tens of thousands while all executions succeed, and grows by itself."""
    seen = [feed(reader, each) for each in documents("generic-total.ndjson")]

    assert [each["exec_errors"][0] for each in seen] == [0, 0, 0]
    assert [each["exec_completed"][0] for each in seen] == [40, 81, 123]
    assert seen[-1]["nc_util_pct"][0, :2].tolist() == [1.5, 0]
    assert seen[-1]["hbm_used_bytes"][0] == 96 * MIB
    assert seen[-1]["exec_latency_p50_s"][0] == pytest.approx(95e-6)


@pytest.mark.parametrize(
    ("summary", "errors", "expected"),
    [
        ({"completed": 9, "timed_out": 0}, {"generic": 500, "hardware": 3}, 0),
        ({"completed": 9, "timed_out": 2}, {"generic": 500, "hardware": 3}, 2),
        ({"completed": 9}, {"generic": 500, "hardware": 3, "numerical": 1}, 4),
        ({"completed": 9}, {"generic": 500}, None),
        ({"completed": 9}, {"generic": None, "hardware": None, "model": 1}, 1),
    ],
)
def test_failures_are_counted_by_outcome_and_else_by_cause(
    summary: dict[str, int], errors: dict[str, int | None], expected: int | None
) -> None:
    """Causes only where there are no outcomes, and never `generic` alone."""
    document = json.loads(documents("generic-total.ndjson")[0])
    stats = document["neuron_runtime_data"][0]["report"]["execution_stats"]
    stats |= {"execution_summary": summary, "error_summary": errors}

    failed = feed(HostReader(), document)["exec_errors"][0]

    assert (None if np.isnan(failed) else failed) == expected


def test_causes_count_where_a_document_has_no_outcomes_at_all(reader: HostReader) -> None:
    """Without an execution_summary only a period's completed executions are unknown.

    No failure is lost.
    """
    failed = []
    completed = []
    for stats in (
        {"execution_summary": {"completed": 9, "completed_with_err": 3}},
        {"error_summary": {"generic": 500, "numerical": 5}},
        {"execution_summary": {"completed": 9, "completed_with_err": 3}},
    ):
        document = json.loads(documents("generic-total.ndjson")[0])
        document["neuron_runtime_data"][0]["report"]["execution_stats"] = stats
        seen = feed(reader, document)
        failed.append(seen["exec_errors"][0])
        completed.append(seen["exec_completed"][0])

    assert failed == [3, 8, 11]
    assert np.isnan(completed[1])
    assert completed[::2] == [9, 18]


def test_processes_that_each_list_all_cores(reader: HostReader) -> None:
    """Memory and executions are of the process's own chip, utilisation of its own cores."""
    (document,) = documents("trn1n.32xlarge-16-processes.ndjson")

    read = feed(reader, document)

    chips = range(16)
    assert read["hbm_used_bytes"].tolist() == [(17 + 1.5) * GIB] * 16
    assert read["exec_completed"].tolist() == [10 + chip for chip in chips]
    assert read["nc_util_pct"][:, :2].ravel().tolist() == [10.0 + core % 12 for core in range(32)]
    assert reader.period_s == 5.0
    assert default_path(reader) == "uc1/us-0f00000000000001/i-00000000000000022"


def test_counters_that_are_0_are_read_once_for_each_core(
    reader: HostReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 processes list 32 cores each; 30 of them are not their own."""
    looked = Mock(wraps=halves_of)
    monkeypatch.setattr("trnfleet.bridge.neuron.values.halves_of", looked)
    (document,) = documents("trn1n.32xlarge-16-processes.ndjson")

    feed(reader, document)

    assert looked.call_count == 32 + 32


@pytest.mark.parametrize("value", [False, "", None, -1, 1e18, {}, []])
def test_a_value_beside_zeros_that_is_no_number_is_not_0(value: object) -> None:
    """In one of many processes, whichever place it has."""
    document = json.loads(documents("trn1n.32xlarge-16-processes.ndjson")[0])
    report = document["neuron_runtime_data"][3]["report"]
    report["neuroncore_counters"]["neuroncores_in_use"]["9"]["neuroncore_utilization"] = value
    memory = report["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]
    memory["neuroncore_memory_usage"] = {"9": {"tensors": value, "constants": 0}}

    read = feed(HostReader(), document)

    assert np.isnan(read["nc_util_pct"][4, 1])
    assert read["nc_util_pct"][4, 0] == 18.0
    assert np.isnan(read["hbm_used_bytes"][4]) or value is None


def test_work_on_two_cores_is_not_spread_over_the_host() -> None:
    """Processes without memory of their own that list all cores work where they are busy."""
    document = json.loads(documents("trn1n.32xlarge-16-processes.ndjson")[0])
    document["neuron_runtime_data"] = document["neuron_runtime_data"][:2]
    for number, runtime in enumerate(document["neuron_runtime_data"]):
        report = runtime["report"]
        cores = report["neuroncore_counters"]["neuroncores_in_use"]
        for core, facts in cores.items():
            facts["neuroncore_utilization"] = 80.0 if core == str(9 + number) else 0.0
        report["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"][
            "neuroncore_memory_usage"
        ] = {}
        report["execution_stats"]["execution_summary"]["completed"] = 100

    read = feed(HostReader(), document)

    assert read["exec_completed"].tolist() == [0, 0, 0, 0, 100, 100, *[0] * 10]
    assert np.flatnonzero(read["nc_util_pct"][:, :2].ravel()).tolist() == [9, 10]
    # Nobody says how much the two chips have; the others are idle.
    assert np.isnan(read["hbm_used_bytes"][[4, 5]]).all()
    assert not read["hbm_used_bytes"][[0, 1, 2, 3, *range(6, 16)]].any()


def test_a_trace_of_many_processes_is_the_cores_mean() -> None:
    """Each process lists 30 cores that are not its own: they are no idle ones."""
    with (FOLDER / "trn1n.32xlarge-16-processes.ndjson").open("rb") as stream:
        (sample,) = read_utilisation(stream)

    assert sample.percent == pytest.approx(sum(10.0 + core % 12 for core in range(32)) / 32)
    assert sample.period_s == 5.0


def test_indented_documents_follow_each_other(reader: HostReader) -> None:
    """Halves of logical cores, flops and memory of each, and the period of the vCPUs."""
    told = documents("trn2.48xlarge-indented.json")

    read = feed(reader, *told)

    assert len(told) == 2
    assert read["nc_util_pct"][0].tolist() == [21, 63, 22, 64, 0, 0, 0, 0]
    assert read["tflops"][:2].tolist() == [3.0, 0.0]
    assert read["hbm_used_bytes"][0] == 2 * 360 * MIB
    assert read["exec_completed"][0] == 123 + 124
    assert reader.period_s == 1.0


def test_a_host_without_a_process(reader: HostReader) -> None:
    """The first record has only memory and no interval; the next has idle cores.

    They are not unknown.
    """
    first, second = documents("trn1.2xlarge-idle.ndjson")

    read = feed(reader, first)
    assert np.isnan(read["vcpu_util_pct"][0])
    assert np.isnan(read["mem_ecc_corrected"][0])
    assert read["host_memory_used_bytes"][0] == 2 * GIB

    read = feed(reader, second)
    assert read["nc_util_pct"][0, :2].tolist() == [0, 0]
    assert read["hbm_used_bytes"][0] == read["exec_completed"][0] == 0
    assert np.isnan(read["exec_latency_p50_s"][0])
    assert read["vcpu_util_pct"][0] == 4.0


@pytest.mark.parametrize(
    "hardware", [{"neuron_device_count": 0}, {"error": "no neuron device found"}]
)
def test_a_host_that_sees_no_device_is_an_instance_without_known_chips(
    hardware: dict[str, object],
) -> None:
    """Its own figures are read. Without a type in sight the reason is the missing device."""
    document = json.loads(documents("trn1.2xlarge-idle.ndjson")[1])
    document["system_data"]["neuron_hw_counters"]["neuron_devices"] = None
    document["neuron_hardware_info"] = hardware

    read = feed(HostReader(), document)

    for name in ("nc_util_pct", "hbm_used_bytes", "exec_completed", "mem_ecc_corrected"):
        assert np.isnan(read[name]).all(), name
    assert read["vcpu_util_pct"][0] == 4.0

    document["instance_info"]["instance_type"] = ""
    said = r" \(neuron_hardware_info.error: no neuron" if "error" in hardware else ","
    with pytest.raises(WireError, match=f"the host sees no Neuron device{said}"):
        feed(HostReader(), document)


@pytest.mark.parametrize(
    ("name", "utilisation", "expected"),
    [
        ("inf2.xlarge.ndjson", [88.5, 0], {"hbm_used_bytes": 3 * GIB, "tflops": 0.9}),
        (
            "trn3p.48xlarge.ndjson",
            [40, 60, 40, 60, 40, 60, 40, 60],
            {"hbm_used_bytes": 64 * GIB, "tflops": 400.0},
        ),
    ],
)
def test_other_generations_are_read(
    name: str, utilisation: list[float], expected: dict[str, float]
) -> None:
    """As far as the catalogue has them."""
    (document,) = documents(name)

    read = feed(HostReader(), document)

    assert read["nc_util_pct"][0, : len(utilisation)].tolist() == utilisation
    assert {key: read[key][0] for key in expected} == pytest.approx(expected, rel=0.06)


def test_processes_that_share_chips_have_their_own_executions() -> None:
    """Four processes with one core each count nothing on other cores.

    Two cores are on a chip.
    """
    document = json.loads(documents("inf1.xlarge-indented.json")[0])
    document["instance_info"]["instance_type"] = "trn1.32xlarge"
    document["neuron_hardware_info"] = {"neuron_device_count": 16, "neuroncore_per_device_count": 2}

    read = feed(HostReader(), document)

    assert read["exec_completed"].tolist() == [85 + 86, 87 + 88, *[0] * 14]
    assert read["hbm_used_bytes"].tolist() == [2 * 100 * MIB, 2 * 100 * MIB, *[0] * 14]


@pytest.mark.parametrize(
    ("type_name", "problem"),
    [
        (
            "inf1.xlarge",
            "of a generation that trnfleet does not know, inf1: it knows inf2, trn1, trn2",
        ),
        ("p5.48xlarge", "'p5.48xlarge' is none with Neuron chips: it knows .*trn1, trn2"),
        ("trn9.48xlarge", "of a generation that trnfleet does not know, trn9"),
        ("trn2.47xlarge", "unknown instance type 'trn2.47xlarge': did you mean 'trn2.48xlarge'"),
    ],
)
def test_a_type_that_is_not_known_is_named(type_name: str, problem: str) -> None:
    """The problem named depends on the known part of a type."""
    document = json.loads(documents("inf2.xlarge.ndjson")[0])
    document["instance_info"]["instance_type"] = type_name
    with pytest.raises(ConfigError, match=problem):
        feed(HostReader(), document)


@pytest.mark.parametrize(
    ("type_name", "name"),
    [
        ("trn3sn.48xlarge", "trn3.48xlarge"),
        ("trn3s-es.48xlarge", "trn3.48xlarge"),
        ("trn3sn-es.48xlarge", "trn3.48xlarge"),
        ("trn3p.48xlarge", "trn3p.48xlarge"),
        ("", "trn3.48xlarge"),
    ],
)
def test_documents_with_the_drivers_names_of_trn3_are_read(type_name: str, name: str) -> None:
    """Again and again; without a name, 16 Trainium3 are an instance of Gen1."""
    document = json.loads(documents("trn3p.48xlarge.ndjson")[0])
    document["instance_info"]["instance_type"] = type_name
    reader = HostReader()
    for _ in range(2):
        feed(reader, document)
    assert reader.kind.name == name


@pytest.mark.parametrize("type_name", ["trn3x.48xlarge", "trn4x.48xlarge"])
def test_names_of_trn3_instance_types_are_the_drivers(type_name: str) -> None:
    """A host with Trainium3 devices under another name is no typing error.

    EC2's API has none of the names yet.
    """
    document = json.loads(documents("trn3p.48xlarge.ndjson")[0])
    document["instance_info"]["instance_type"] = type_name

    with pytest.raises(
        ConfigError, match=r"known are the Neuron driver's: .*trn3p\.48xlarge"
    ) as refused:
        feed(HostReader(), document)

    assert f"'{type_name}' with devices of the type 'trainium3'" in str(refused.value)
    assert "did you mean" not in str(refused.value)


# neuron-ls


def devices(name: str) -> DeviceList:
    return read_device_list(FOLDER / f"neuron-ls.{name}.json")


def test_a_containers_devices_are_the_chips_at_their_addresses() -> None:
    """Device 0 at the address of chip 13 is chip 13.

    Chips outside the container are not available.
    """
    reader = HostReader(devices("container"))

    read = feed(reader, documents("trn2.48xlarge-container.ndjson")[0])

    assert np.flatnonzero(~np.isnan(read["nc_util_pct"][:, 0])).tolist() == [9, 13]
    assert read["nc_util_pct"][13].tolist() == [50.0] * 8
    assert read["nc_util_pct"][9].tolist() == [75.0] * 8
    assert read["hbm_used_bytes"][[9, 13]].tolist() == [16 * GIB] * 2
    assert read["exec_completed"][[9, 13]].tolist() == [40, 40]
    assert read["mem_ecc_corrected"][[9, 13]].tolist() == [3, 0]
    assert np.isnan(read["mem_ecc_corrected"][0])


def test_a_hosts_devices_are_its_chips() -> None:
    """On the host itself device numbers are chip numbers, confirmed by neighbours."""
    kind = INSTANCE_TYPES["trn2.48xlarge"]
    listed = devices("trn2.48xlarge")
    elsewhere = listed._replace(devices=tuple(each._replace(bdf="") for each in listed.devices))

    assert listed.place(kind) == elsewhere.place(kind) == {chip: chip for chip in range(16)}
    assert (listed.instance_type, listed.instance_id) == ("trn2.48xlarge", "i-00000000000000077")


def test_devices_without_a_known_address_are_placed_by_their_neighbours() -> None:
    """Neighbours are the host's numbers.

    Without them, only a whole host is placed by device numbers.
    """
    kind = INSTANCE_TYPES["trn2.48xlarge"]
    container = devices("container")
    host = devices("trn2.48xlarge")
    moved = DeviceList(tuple(each._replace(bdf="0000:10:1e.0") for each in container.devices))
    assert moved.place(kind) == {0: 13, 1: 9}

    lost = DeviceList(tuple(each._replace(neighbours=frozenset()) for each in moved.devices))
    with pytest.raises(
        ConfigError, match=r"device 0 at 0000:10:1e.0: neither its address nor its neighbours \[\]"
    ):
        lost.place(kind)
    twice = DeviceList(tuple(each._replace(bdf="0000:cc:00.0") for each in container.devices))
    with pytest.raises(ConfigError, match=r"two devices are chip 0 of a trn2\.48xlarge"):
        twice.place(kind)
    unknown = tuple(each._replace(bdf="", neighbours=frozenset()) for each in host.devices)
    assert DeviceList(unknown).place(kind)[13] == 13
    assert DeviceList(unknown[:1]).place(INSTANCE_TYPES["trn2.3xlarge"]) == {0: 0}


def test_devices_of_another_instance_are_refused() -> None:
    """neuron-ls's list and the documents must be of one instance."""
    document = json.loads(documents("trn2.48xlarge-container.ndjson")[0])
    document["instance_info"]["instance_id"] = "i-0123"
    with pytest.raises(
        ConfigError, match="it is of the instance i-0123, and neuron-ls lists the devices of i-0000"
    ):
        feed(HostReader(devices("trn2.48xlarge")), document)

    document["instance_info"] |= {"instance_id": "", "instance_type": ""}
    reader = HostReader(devices("trn2.48xlarge"))
    feed(reader, document)
    assert (reader.kind.name, reader.ec2_id) == ("trn2.48xlarge", "i-00000000000000077")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "it is empty, as neuron-ls leaves it where there is no device"),
        (b"{}", "no array of objects with neuron_device"),
        (b"[]", "no array"),
        (b'[{"neuron_device": "0"}]', "neuron_device is '0', not a number"),
        (b'[{"neuron_device": 0}, {"neuron_device": 0}]', "two devices have the same"),
        (b"[1", "not JSON"),
    ],
)
def test_what_neuron_ls_does_not_print_is_refused(text: bytes, problem: str) -> None:
    """With the reason."""
    with pytest.raises(WireError, match=problem):
        parse_device_list(text)
