"""Text of Neuron Observer, read as documents."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.bridge.neuron.fields import HARDWARE_ERRORS
from trnfleet.bridge.neuron.host_reader import OBSERVER, HostReader
from trnfleet.bridge.neuron.observer import PLACES, UNREPAIRABLE, DocumentPart, UtilisationUnit
from trnfleet.bridge.neuron.scrapes import Scrape, Scrapes
from trnfleet.bridge.neuron.values import POWER
from trnfleet.domain.metrics import BY_NAME
from trnfleet.wire.ndjson import LeftOut, TextFile

GIB = 2**30
INFO = (
    'neuron_system_info{instance_type="trn2.48xlarge",instance_name="node-1",region="us-west-2",'
    'ultraserver_id="us-7",ultraserver_instance_index="2"} 1\n'
    + "".join(
        f'neuron_device_info{{neuron_device_index="{device}",device_name="Trainium2",'
        'logical_neuroncore_per_device_count="4",logical_neuroncore_config="2",'
        'driver_version="2.31.0.0"} 1\n'
        for device in range(16)
    )
)
PLACE = 'neuron_device_index="1",neuroncore="2"'


def read(*lines: str, unit: UtilisationUnit | None = None) -> tuple[list[Scrape], Scrapes, LeftOut]:
    left_out = LeftOut()
    scrapes = Scrapes(left_out, unit)
    text = INFO + "".join(line + "\n" for line in lines)
    return list(scrapes.read(TextFile(io.BytesIO(text.encode())))), scrapes, left_out


def values(*lines: str, unit: UtilisationUnit | None = None) -> dict[str, np.ndarray]:
    (scrape,), _, left_out = read(*lines, unit=unit)
    assert left_out.is_sound
    reader = HostReader(metrics=OBSERVER)
    reader.read_parsed(scrape.document)
    assert not reader.doubts.count
    return {name: BY_NAME[name].decode(codes) for name, codes in reader.columns.items()}


CORE_METRICS = {
    DocumentPart.CORE: {"neuroncore_utilization": "nc_util_pct", "effective_flops": "tflops"},
    DocumentPart.VCPU: {"user": "vcpu_util_pct"},
    DocumentPart.HOST_MEMORY: {"memory_used_bytes": "host_memory_used_bytes"},
}


@pytest.mark.parametrize("name", PLACES)
def test_each_metric_of_the_table_has_its_column(name: str) -> None:
    """And changes no other; values beside it are unknown."""
    group, key = PLACES[name]
    labels = {
        DocumentPart.DEVICE: 'neuron_device_index="1"',
        DocumentPart.VCPU: "",
        DocumentPart.EFA: 'efa_device="rdmap1",efa_port="1"',
        DocumentPart.HOST_MEMORY: "",
    }
    is_counter = group in {DocumentPart.COUNT, DocumentPart.EFA} or "ecc" in name
    suffix = "_total" if is_counter else ""
    number = {
        DocumentPart.CORE: 0.5,
        DocumentPart.MEMORY: 8 * GIB,
        DocumentPart.HOST_MEMORY: 8 * GIB,
    }.get(group, 50)
    number = 10**12 if "flops" in name else number
    lines = [f"neuron_{name}{suffix}{{{labels.get(group, PLACE)}}} {number}"]
    if group is DocumentPart.VCPU and key != "user":
        lines.append("neuron_vcpu_user_percent 0")

    got = {metric for metric, column in values(*lines).items() if not np.isnan(column).all()}

    expected = CORE_METRICS.get(group, {}).get(key, key)
    expected = {DocumentPart.MEMORY: "hbm_used_bytes", DocumentPart.VCPU: "vcpu_util_pct"}.get(
        group, expected
    )
    if group is DocumentPart.COUNT:
        expected = "exec_completed" if key == "completed" else "exec_errors"
    if key in HARDWARE_ERRORS:
        assert not got
        return
    others = {**POWER, UNREPAIRABLE: "mem_ecc_uncorrected"}
    assert got == {others.get(key, expected)}


def test_errors_that_a_reload_repairs_are_counted_apart() -> None:
    """As the driver counts them, in either order; adapters are added up."""
    both = [
        f'neuron_device_{name}_total{{neuron_device_index="1"}} {number}'
        for name, number in (
            ("mem_ecc_uncorrected", 5),
            ("mem_ecc_unrepairable_uncorrected", 2),
            ("mem_ecc_repairable_uncorrected", 3),
        )
    ]
    adapters = [
        f'neuron_efa_unresponsive_remote_events_total{{efa_device="rdmap{number}"}} {number}'
        for number in (1, 2)
    ]
    for lines in (both, both[::-1]):
        got = values(*lines, *adapters)
        assert got["mem_ecc_uncorrected"][1] == 2
        assert got["mem_ecc_repairable_uncorrected"][1] == 3
        assert got["efa_unresponsive_remote_events"].tolist() == [3]


def test_values_are_those_of_their_cores() -> None:
    """Cores numbered by device or by host; cores without series are not idle."""
    got = values(
        f"neuron_core_utilization{{{PLACE}}} 0.5",
        'neuron_core_utilization{neuron_device_index="2",neuroncore="8"} 0.25',
        f"neuron_core_infer_completed_total{{{PLACE}}} 40",
        f"neuron_core_infer_timed_out_total{{{PLACE}}} 2",
        f"neuron_core_device_mem_tensors{{{PLACE}}} {GIB}",
        f"neuron_core_device_mem_constants{{{PLACE}}} {GIB}",
        'neuron_core_mem_usage_total_device{neuron_device_index="2",neuroncore="8"} 1073741824',
        'neuron_core_device_mem_tensors{neuron_device_index="2",neuroncore="8"} 1000',
    )

    lanes = got["nc_util_pct"]
    assert np.argwhere(~np.isnan(lanes)).tolist() == [[1, 4], [1, 5], [2, 0], [2, 1]]
    assert (lanes[1, 4], lanes[2, 0]) == (50, 25)
    assert got["hbm_used_bytes"][1:3].tolist() == [2 * GIB, GIB]
    assert (got["exec_completed"][1], got["exec_errors"][1]) == (40, 2)
    for name in ("exec_completed", "tflops", "hbm_used_bytes"):
        assert np.isnan(got[name][3:]).all()


def test_info_metrics_describe_the_host() -> None:
    """What has no place is counted by its label."""
    (scrape,), scrapes, _ = read()
    reader = HostReader(metrics=OBSERVER)
    reader.read_parsed(scrape.document)

    assert (reader.kind.name, reader.host, reader.ultraserver, reader.lnc) == (
        "trn2.48xlarge",
        "node-1",
        "us-7",
        2,
    )
    assert reader.versions["driver"] == "2.31.0.0"
    assert scrapes.unread == {
        "neuron_system_info{region}": 1,
        "neuron_system_info{ultraserver_instance_index}": 1,
    }


def test_what_has_no_place_is_counted_by_name() -> None:
    """Sums for the host, other metrics, and cores that cannot be placed."""
    _, scrapes, left_out = read(
        "neuron_core_infer_completed_sum_total 40",
        f"neuron_core_cc_time_total{{{PLACE}}} 4",
        'neuron_core_cc_time_total{neuroncore="3"} 4',
        'neuron_core_utilization{neuron_device_index="1",neuroncore="77"} 0.5',
    )

    assert left_out.is_sound
    assert {name: count for name, count in scrapes.unread.items() if "_info{" not in name} == {
        "neuron_core_infer_completed_sum_total": 1,
        "neuron_core_cc_time_total": 2,
        "neuron_core_utilization": 1,
    }


@pytest.mark.parametrize(
    ("given_unit", "written", "expected", "reason"),
    [
        (None, ["0.5", "1.2"], 50, "a ratio: no value above 1.5"),
        (None, ["0.5", "63"], 0.5, "percent: 63 on line 19"),
        (None, ["0.5", "4294967295"], 50, "a ratio: no value above 1.5"),
        (None, ["0.5", "NaN"], 50, "a ratio: no value above 1.5"),
        ("ratio", ["0.5", "63"], 50, "a ratio: as given"),
        ("percent", ["0.5", "0.7"], 0.5, "percent: as given"),
    ],
)
def test_all_hosts_of_a_source_have_one_unit(
    given_unit: str | None, written: list[str], expected: float, reason: str
) -> None:
    """Percent once any of them has shown it."""
    unit = UtilisationUnit(given_unit)
    lines = [
        f'neuron_core_utilization{{instance="host-{number}",neuroncore="0"}} {value}'
        for number, value in enumerate(written)
    ]
    told, _, _ = read(*lines, unit=unit)
    document = next(scrape.document for scrape in told if scrape.host == "host-0")

    cores = document["neuron_runtime_data"][0]["report"]["neuroncore_counters"]
    assert cores["neuroncores_in_use"]["0"]["neuroncore_utilization"] == expected
    assert unit.text() == f"utilization is {reason}"


def test_a_second_exporter_of_a_host_is_left_out() -> None:
    """Both count the same executions."""
    label = 'instance_id="i-1"'
    _, _, left_out = read(
        f"neuron_core_infer_completed_total{{{label},{PLACE}}} 1",
        f'execution_status_total{{{label},runtime_tag="1",status_type="completed"}} 1',
    )

    assert left_out.count == 1
    assert "execution_status_total: a second exporter of the host" in left_out.first


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*PLACES, "device_info", "system_info", "core_utilization_p50"]),
            st.sampled_from(["0", "1", "7", "-1", "99999", "x", ""]),
            st.sampled_from(["0", "5", "127", "1e9", "-"]),
            st.sampled_from(["0", "-1", "NaN", "1e300", "0.5", "4294967295", "", "x"]),
        ),
        max_size=6,
    )
)
def test_any_series_are_read_or_counted(series: list[tuple[str, str, str, str]]) -> None:
    """Unknown never becomes 0, and nothing else is raised."""
    told, _, _ = read(
        *(
            f'neuron_{name}{{neuron_device_index="{device}",neuroncore="{core}"}} {value}'
            for name, device, core, value in series
        )
    )
    for scrape in told:
        HostReader(metrics=OBSERVER).read_parsed(scrape.document)


def test_names_without_a_place_are_bounded() -> None:
    _, scrapes, _ = read(*(f"neuron_core_{number} 1" for number in range(1_000)))

    assert scrapes.unread.total() == 1_000 + 2
    assert len(scrapes.unread) == 257
    assert scrapes.unread["other names"] == 746


@pytest.mark.parametrize("garbage", ["NaN", "-5", "1e300"])
def test_a_counter_goes_on_after_garbage(garbage: str) -> None:
    """What came between two valid values is counted once."""
    reader = HostReader(metrics=OBSERVER)
    told, _, _ = read(
        *(
            f'neuron_core_infer_completed_total{{instance="a",neuroncore="0"}} {value} {ts_ms}\n'
            f'neuron_system_info{{instance="a",instance_type="trn2.48xlarge"}} 1 {ts_ms}'
            for ts_ms, value in enumerate(["40", garbage, "45"], start=1)
        )
    )
    for scrape in (scrape for scrape in told if scrape.host == "a"):
        reader.read_parsed(scrape.document)

    assert reader.columns["exec_completed"][0] == 45


def test_errors_of_hardware_are_failures_of_their_chip() -> None:
    """With the NRT status, and the growth since the last scrape."""
    line = f"neuron_core_hw_err_hbm_ue_total{{{PLACE}}}"
    reader = HostReader(metrics=OBSERVER)
    _, scrapes, _ = read()
    text = "".join(
        (INFO + f"{line} {number}\n").replace("\n", f" {1_000 * number}\n") for number in (1, 3)
    )
    for scrape in scrapes.read(TextFile(io.BytesIO(text.encode()))):
        reader.read_parsed(scrape.document)
    assert reader.failures == ((1201, "EXEC_HW_ERR_HBM_UE", 2, 1),)


def test_known_names_change_nothing() -> None:
    """A second page is read as by names parsed again: counters, means, sums and units."""
    known = Scrapes(LeftOut())
    parsed = Scrapes(LeftOut())
    for number, utilization in enumerate(["0.5", "0.75", "63", "0.5"], 1):
        lines = [f"neuron_core_utilization{{{PLACE}}} {utilization}"]
        lines += [
            f'neuron_{name}{{{PLACE},efa_device="rdmap{adapter}"}} {number * 10}'
            for name in (
                *("core_infer_completed_total", "core_hw_err_hbm_ue_total", "vcpu_user_percent"),
                *("device_power_avg", "device_mem_ecc_unrepairable_uncorrected"),
                *("core_device_mem_tensors", "core_mem_usage_total_device", "core_cc_time_total"),
                *("efa_retrans_pkts_total", "system_memory_used_bytes"),
            )
            for adapter in range(1 + (number > 3))
        ]
        page = INFO + "".join(f"{line}\n" for line in lines)
        told = known.read_text(page.encode())
        assert told == parsed.read_text(f"{page}# {number}\n".encode())
        assert len(told) == 1
    assert known.unread == parsed.unread
    assert known.unit.text() == parsed.unit.text() == "utilization is percent: 63 on line 18"
