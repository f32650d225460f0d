"""Written documents, read by a consumer of neuron-monitor's own."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.generations import registered
from support.neuron import START_NS, envelopes_of

from trnfleet.bridge.neuron import documents
from trnfleet.bridge.neuron.documents import (
    DocumentWriter,
    Host,
    InstanceTicks,
    described_instances,
)
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.telemetry import default_path
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, InstanceType
from trnfleet.domain.metrics import BY_NAME, METRICS, Scope
from trnfleet.errors import WireError
from trnfleet.wire.messages import Descriptor, decode_message

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.mark.parametrize("encoding", ["json", "cbor"])
def test_one_instance_is_picked_out_tick_by_tick(encoding: str) -> None:
    """An instance's frames and JSON become its ticks with times; others are ignored."""
    reader, made = envelopes_of("trn2.48xlarge-lnc2", encoding)
    path = default_path(reader)
    assert [described_instances(each) for each in made[:2]] == [("", ()), ("lab", (path,))]
    others = envelopes_of("trn1.2xlarge", encoding)[1]
    ticks = InstanceTicks("lab", path)

    got = [tick for each in made + others if (tick := ticks.add(each)) is not None]
    last = ticks.finish()

    assert last is not None
    assert [tick.ts_ns - START_NS for tick in [*got, last]] == [
        0,
        1_000_000_000,
        2_000_000_000,
        3_000_000_000,
    ]
    assert last.period_s == 1.0
    for name, codes in reader.columns.items():
        assert np.array_equal(last.columns[name], codes), name
    assert ticks.host == Host(path, reader.kind, 2, reader.ec2_id)


def test_messages_about_the_instance_that_make_no_sense_are_refused() -> None:
    """Frames without their descriptor, late ones and unknown chips are refused."""
    _, made = envelopes_of("trn1.2xlarge", "cbor")
    samples = envelopes_of("trn1.2xlarge", "json")[1]
    path = "uc1/standalone/i-0a1b2c3d4e5f60718"
    ticks = InstanceTicks("lab", path)
    for early in (made[2], samples[2]):
        with pytest.raises(WireError, match="before its descriptor"):
            ticks.add(early)
    ticks.add(made[1])
    descriptor = json.loads(made[1].payload)
    other_kind = descriptor | {"instances": [descriptor["instances"][0] | {"type": "trn2.3xlarge"}]}
    unknown = descriptor | {"instances": [descriptor["instances"][0] | {"type": "trn9.3xlarge"}]}
    chip = json.loads(samples[3].payload)
    for bad, reason in (
        (made[1]._replace(payload=json.dumps(other_kind).encode()), "is a trn2.3xlarge now"),
        (
            made[1]._replace(payload=json.dumps(unknown).encode()),
            "unknown instance type 'trn9.3xlarge'",
        ),
        (made[1]._replace(payload=b"{}"), "Descriptor"),
        (made[2]._replace(payload=made[2].payload[:-1]), "not CBOR"),
        (
            samples[3]._replace(payload=json.dumps(chip | {"chip": 1}).encode()),
            "identity in the payload",
        ),
        (
            samples[3]._replace(
                topic=samples[3].topic.replace("chip00", "chip01"),
                payload=json.dumps(chip | {"chip": 1}).encode(),
            ),
            "a trn1.2xlarge has no such chip",
        ),
    ):
        with pytest.raises(WireError, match=reason):
            ticks.add(bad)
    assert ticks.add(made[3]) is None
    with pytest.raises(WireError, match="older than what came before"):
        ticks.add(made[2])
    ticks.add(made[1]._replace(payload=json.dumps(descriptor | {"revision": 7}).encode()))
    with pytest.raises(WireError, match="of another boot or revision than its descriptor"):
        ticks.add(made[4])
    last = ticks.finish()
    assert last is not None
    assert last.ts_ns == START_NS + 1_000_000_000


def test_only_what_is_about_the_instance_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated and other descriptors are not parsed; a returned one is."""
    _, made = envelopes_of("trn1.2xlarge", "cbor")
    node = made[1]
    other = node._replace(
        payload=node.payload.replace(b"i-0a1b2c3d4e5f60718", b"i-0a1b2c3d4e5f60719")
    )
    other = other._replace(topic=other.topic.replace("i-0a1b2c3d4e5f60718", "i-0a1b2c3d4e5f60719"))
    changed = node._replace(payload=json.dumps(json.loads(node.payload) | {"revision": 7}).encode())
    parsed: list[bytes] = []

    def spied(payload: bytes, model: type[Descriptor]) -> Descriptor:
        parsed.append(payload)
        return decode_message(payload, model)

    monkeypatch.setattr(documents, "decode_message", spied)
    ticks = InstanceTicks("lab", "uc1/standalone/i-0a1b2c3d4e5f60718")
    for each in (node, other, node, changed, changed, node):
        ticks.add(each)
    assert parsed == [node.payload, changed.payload, node.payload]
    assert ticks.add(made[2]) is None


def test_json_is_told_by_its_content_type() -> None:
    """Wherever its object begins."""
    _, made = envelopes_of("trn1.2xlarge", "json")
    ticks = InstanceTicks("lab", "uc1/standalone/i-0a1b2c3d4e5f60718")
    for each in made:
        ticks.add(each._replace(payload=b" " + each.payload))
    assert ticks.finish() is not None


MIB = 2**20
TRN2 = INSTANCE_TYPES["trn2.48xlarge"]
TRN1 = INSTANCE_TYPES["trn1.32xlarge"]


class Consumer:
    """A consumer of the documented format.

    It reads every key of the Neuron tools' exporter, as a number.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}

    def take(self, document: dict[str, Any]) -> None:
        """Read a document; a group with an error is passed over, as the exporter does."""
        for runtime in document["neuron_runtime_data"]:
            tag = runtime["neuron_runtime_tag"]
            if runtime["error"] == "":
                assert isinstance(tag, str)
                assert isinstance(runtime["pid"], int)
                for name, group in runtime["report"].items():
                    self._group(f"{tag}.{name}", name, group)
        for name, group in document["system_data"].items():
            self._group(name, name, group)
        for key in (
            "instance_name",
            "instance_id",
            "instance_type",
            "instance_availability_zone",
            "instance_region",
            "subnet_id",
        ):
            assert isinstance(document["instance_info"][key], str)
        for key in (
            "neuron_device_count",
            "neuroncore_per_device_count",
            "neuron_device_memory_size",
            "logical_neuroncore_config",
        ):
            assert isinstance(document["neuron_hardware_info"][key], int)

    def _group(self, label: str, name: str, group: dict[str, Any]) -> None:
        assert float(group["period"]) > 0
        if group["error"] == "":
            getattr(self, f"process_{name}")(label, group)

    def put(self, *label: str, value: Any) -> None:
        assert not isinstance(value, (str, bool))
        self.numbers[".".join(label)] = float(value)

    def process_neuroncore_counters(self, label: str, group: dict[str, Any]) -> None:
        assert group["neuroncores_in_use"]
        for core, facts in group["neuroncores_in_use"].items():
            self.put(
                label, str(int(core)), "utilization", value=facts["neuroncore_utilization"] / 100.0
            )
            assert isinstance(facts["flops"], int)
            self.put(label, core, "flops", value=facts["flops"])
            for half, each in facts.get("v3d", {}).items():
                self.put(label, core, half, value=each["neuroncore_utilization"] / 100.0)

    def process_neuron_runtime_vcpu_usage(self, label: str, group: dict[str, Any]) -> None:
        for kind in ("user", "system"):
            self.put(label, kind, value=group["vcpu_usage"][kind] / 100.0)

    def process_memory_used(self, label: str, group: dict[str, Any]) -> None:
        used = group["neuron_runtime_used_bytes"]
        for place in ("host", "neuron_device"):
            self.put(label, place, value=used[place])
        for part in ("application_memory", "constants", "dma_buffers", "tensors"):
            self.put(label, "host", part, value=used["usage_breakdown"]["host"][part])
        for part in (
            "constants",
            "model_code",
            "model_shared_scratchpad",
            "runtime_memory",
            "tensors",
        ):
            for core, sizes in used["usage_breakdown"]["neuroncore_memory_usage"].items():
                assert isinstance(sizes[part], int)
                self.put(label, str(int(core)), part, value=sizes[part])
        assert isinstance(group["loaded_models"], list)

    def process_execution_stats(self, label: str, group: dict[str, Any]) -> None:
        for summary in ("error_summary", "execution_summary"):
            for kind, count in group[summary].items():
                assert isinstance(count, int)
                self.put(label, summary, kind, value=count)
        for kind in ("total_latency", "device_latency"):
            latency = group["latency_stats"][kind]
            for percentile in (
                () if latency is None else ("p0", "p1", "p25", "p50", "p75", "p99", "p100")
            ):
                self.put(label, kind, percentile, value=latency[percentile])

    def process_neuron_hw_counters(self, label: str, group: dict[str, Any]) -> None:
        for device in group["neuron_devices"]:
            for kind in (
                "mem_ecc_corrected",
                "mem_ecc_uncorrected",
                "sram_ecc_corrected",
                "sram_ecc_uncorrected",
            ):
                self.put(label, str(device["neuron_device_index"]), kind, value=device[kind])

    def process_vcpu_usage(self, label: str, group: dict[str, Any]) -> None:
        self.put("system_vcpu_count", value=len(group["usage_data"]))
        for cpu in (group["average_usage"], *group["usage_data"].values()):
            for kind in ("user", "nice", "system", "idle", "io_wait", "irq", "soft_irq"):
                self.put(label, kind, value=cpu[kind] / 100.0)
        self.put("context_switch_count", value=group["context_switch_count"])

    def process_memory_info(self, label: str, group: dict[str, Any]) -> None:
        for place in ("memory", "swap"):
            for kind in ("total_bytes", "used_bytes"):
                self.put(label, place, kind, value=group[f"{place}_{kind}"])


def columns_of(kind: InstanceType, **told: Any) -> dict[str, NDArray[Any]]:
    """Return an idle host's wire codes with some values by chip or host."""
    result = {}
    for metric in METRICS:
        rows = kind.chips if metric.scope is Scope.CHIP else 1
        value = np.zeros((rows, metric.width) if metric.is_vector else rows)
        if metric.name.startswith("exec_latency"):
            value[:] = np.nan
        if metric.name in told:
            given = np.asarray(told[metric.name], float)
            value[...] = given[:, np.newaxis] if metric.is_vector and given.ndim == 1 else given
        result[metric.name] = metric.encode(value)
    return result


def busy(kind: InstanceType, executions: Any = 100) -> dict[str, NDArray[Any]]:
    """Return a host that trains on all chips."""
    return columns_of(
        kind,
        nc_util_pct=95.0,
        tflops=300.0,
        hbm_used_bytes=60 * 2**30,
        exec_completed=executions,
        exec_latency_p50_s=0.9,
        exec_latency_p99_s=1.1,
        vcpu_util_pct=10.0,
        host_memory_used_bytes=480 * 2**30,
    )


def write(writer: DocumentWriter, *ticks: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    return [json.loads(writer.write(columns, 1.0)) for columns in ticks]


def writer_of(
    kind: InstanceType = TRN2, path: str = "uc1/standalone/x", zone: str = ""
) -> DocumentWriter:
    return DocumentWriter(Host(path, kind, kind.chip.logical_neuroncore_config, "i-1", zone))


@pytest.mark.parametrize(
    "kind", [TRN2, TRN1, INSTANCE_TYPES["trn2.3xlarge"]], ids=lambda kind: kind.name
)
def test_a_training_host_has_one_process(kind: InstanceType) -> None:
    """One process has all chips, and the sums are the host's.

    Every documented number is a number.
    """
    first, second = write(writer_of(kind), busy(kind), busy(kind, 108))
    consumer = Consumer()

    consumer.take(second)

    assert [each["pid"] for each in first["neuron_runtime_data"]] == [1_000]
    numbers, cores = consumer.numbers, kind.neuroncores // kind.chip.logical_neuroncore_config
    assert numbers["1000.execution_stats.execution_summary.completed"] == 8 * kind.chips
    flops = [value for label, value in numbers.items() if label.endswith(".flops")]
    assert len(flops) == cores
    assert sum(flops) == pytest.approx(300e12 * kind.chips)
    memory = [
        value
        for label, value in numbers.items()
        if label.startswith("1000.memory_used.") and label.endswith("tensors")
    ]
    assert sum(memory) == numbers["1000.memory_used.neuron_device"] == 60 * 2**30 * kind.chips
    latency = {
        label.rpartition(".")[2]: value
        for label, value in numbers.items()
        if "total_latency" in label
    }
    assert list(latency) == ["p0", "p1", "p25", "p50", "p75", "p99", "p100"]
    assert sorted(latency.values()) == list(latency.values())
    assert numbers["system_vcpu_count"] == kind.vcpus
    assert (numbers["vcpu_usage.user"], numbers["vcpu_usage.idle"]) == (0.1, 0.9)
    assert numbers["memory_info.swap.total_bytes"] == numbers["memory_info.swap.used_bytes"] == 0


def test_an_idle_host_has_no_process() -> None:
    """The driver's memory belongs to no process."""
    (document,) = write(writer_of(), columns_of(TRN2, hbm_used_bytes=400 * MIB, vcpu_util_pct=1.5))

    Consumer().take(document)
    assert document["neuron_runtime_data"] == []
    reader = HostReader()
    reader.read(json.dumps(document).encode())
    assert not reader.columns["nc_util_pct"].any()


def test_a_process_that_waits_is_none_that_is_gone() -> None:
    """A checkpoint leaves cores idle and memory in use."""
    waiting = busy(TRN2)
    for name in ("nc_util_pct", "tflops"):
        waiting[name][...] = 0

    (document,) = write(writer_of(), waiting)

    assert len(document["neuron_runtime_data"]) == 1


def test_chips_that_count_otherwise_are_processes_of_their_own() -> None:
    """Two servers on a host are distinguished by their counts since the first document."""
    writer = writer_of()
    halves = np.repeat([100.0, 700.0], 8)

    first, second, third = write(
        writer,
        busy(TRN2, halves),
        busy(TRN2, halves + np.repeat([4, 9], 8)),
        busy(TRN2, halves + np.repeat([8, 13], 8)),
    )

    assert [each["pid"] for each in first["neuron_runtime_data"]] == [1_000]
    for document, counts in ((second, [32, 72]), (third, [32, 32])):
        assert [each["pid"] for each in document["neuron_runtime_data"]] == [1_000, 1_008]
        told = [
            each["report"]["execution_stats"]["execution_summary"]
            for each in document["neuron_runtime_data"]
        ]
        assert [each["completed"] for each in told] == counts


def test_what_is_not_known_is_an_error_and_never_null() -> None:
    """Unknown groups have an error; unknown cores and devices are left out.

    Known values are read back unchanged.
    """
    columns = busy(TRN2)
    for name in ("vcpu_util_pct", "host_memory_used_bytes", "exec_latency_p99_s"):
        columns[name][...] = BY_NAME[name].top
    for name in ("nc_util_pct", "hbm_used_bytes", "exec_completed", "mem_ecc_corrected", "tflops"):
        columns[name][5] = BY_NAME[name].top
    reader = HostReader()

    (document,) = write(writer_of(), columns)

    Consumer().take(document)
    assert "null" not in json.dumps(document).replace('"total_latency": null', "").replace(
        '"device_latency": null', ""
    )
    reader.read(json.dumps(document).encode())
    for name in ("nc_util_pct", "hbm_used_bytes", "exec_completed", "mem_ecc_corrected", "tflops"):
        assert (reader.columns[name] == BY_NAME[name].top).reshape(16, -1).all(axis=1).tolist() == [
            chip == 5 for chip in range(16)
        ]


def test_a_host_of_which_nothing_is_known_has_numbers_all_the_same() -> None:
    """The first tick of a recording may be of one chip."""
    empty = {
        metric.name: metric.blank(16 if metric.scope is Scope.CHIP else 1) for metric in METRICS
    }

    (document,) = write(writer_of(), empty)

    Consumer().take(document)
    reader = HostReader()
    reader.read(json.dumps(document).encode())
    for name, codes in reader.columns.items():
        assert (codes == BY_NAME[name].top).all(), name


@pytest.mark.parametrize(
    ("chip", "cores", "lnc", "told"),
    [
        ("trainium3", 8, 2, ("trainium3", "v4d", "nc_v4.")),
        ("trainium3", 8, 1, ("trainium3", "v4", "")),
        ("inferentia2", 2, 1, ("inferentia2", "v2", "")),
    ],
)
def test_chips_of_other_generations_come_back(
    chip: str, cores: int, lnc: int, told: tuple[str, str, str]
) -> None:
    """Chips and cores have their own documents' names.

    Physical cores are listed only if paired.
    """
    name = f"{chip[:3]}99.48xlarge"
    made = dataclasses.replace(TRN2.chip, name=chip, neuroncores=cores, device_types=(chip,))
    kind = dataclasses.replace(TRN2, name=name, chip=made, aliases=())
    columns = busy(kind)
    columns["nc_util_pct"][:, cores:] = BY_NAME["nc_util_pct"].top
    reader = HostReader()

    (document,) = write(DocumentWriter(Host("uc1/standalone/x", kind, lnc)), columns)
    with registered(kind):
        reader.read(json.dumps(document).encode())

    assert (reader.lnc, reader.versions["device"], reader.versions["neuroncore_version"]) == (
        lnc,
        *told[:2],
    )
    facts = document["neuron_runtime_data"][0]["report"]["neuroncore_counters"][
        "neuroncores_in_use"
    ]["1"]
    halves = [half for key, each in facts.items() if key.endswith("d") for half in each]
    assert halves == ([f"{told[2]}2", f"{told[2]}3"] if told[2] else [])
    for metric in ("nc_util_pct", "tflops", "hbm_used_bytes"):
        assert np.array_equal(reader.columns[metric], columns[metric]), metric


def test_the_instance_is_told_as_far_as_it_is_known() -> None:
    """Zone and region are the reservation's, the UltraServer is the address's."""
    (alone,) = write(writer_of(), busy(TRN2))
    (member,) = write(
        writer_of(INSTANCE_TYPES["trn2u.48xlarge"], "uc1/us-0001/trn2u-0001-2", "us-east-2b"),
        busy(TRN2),
    )

    assert "ultraserver_id" not in alone["instance_info"]
    assert alone["instance_info"]["instance_region"] == ""
    told = member["instance_info"]
    assert (told["ultraserver_id"], told["instance_name"]) == ("us-0001", "trn2u-0001-2")
    assert (told["instance_availability_zone"], told["instance_region"]) == (
        "us-east-2b",
        "us-east-2",
    )


@pytest.mark.parametrize(("zone", "region"), [("us-east-1-dfw-2a", "us-east-1"), ("lab", "lab")])
def test_the_region_of_other_zones_is_theirs(zone: str, region: str) -> None:
    """A Local Zone has its parent's region; a fleet's own place name is unchanged."""
    (document,) = write(writer_of(zone=zone), busy(TRN2))

    assert document["instance_info"]["instance_region"] == region
