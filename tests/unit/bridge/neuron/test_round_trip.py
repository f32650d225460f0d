"""Values written as documents of neuron-monitor and read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.neuron import TRN1, trn1

from trnfleet.bridge.neuron.documents import DocumentWriter, Host
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.values import ECC
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, InstanceType
from trnfleet.domain.metrics import BY_NAME, METRICS, Origin, Scope
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def scattered(kind: InstanceType, seed: int) -> dict[str, NDArray[Any]]:
    """Return wire codes for neuron-monitor's metrics.

    Some are 0 or not available, including whole chips.
    """
    random = np.random.default_rng(seed)
    cores = kind.chip.neuroncores
    plain = random.random(kind.chips)
    result = {}
    for metric in METRICS:
        rows = kind.chips if metric.scope is Scope.CHIP else 1
        column = np.full(
            (rows, metric.width) if metric.is_vector else (rows,), metric.top, metric.dtype
        )
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


def sayable(
    columns: dict[str, NDArray[Any]], kind: InstanceType, lnc: int
) -> dict[str, NDArray[Any]]:
    """Return the part expressible in documents.

    No number is null, and unused chips have no values.
    """
    result = {name: codes.copy() for name, codes in columns.items()}
    known = {name: codes != BY_NAME[name].top for name, codes in columns.items()}
    lanes = known["nc_util_pct"][:, : kind.chip.neuroncores].reshape(kind.chips, -1, lnc)
    listed = lanes.any(axis=2)
    hbm = known["hbm_used_bytes"]
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
    st.sampled_from(
        [("trn2.3xlarge", 2), ("trn2.3xlarge", 1), ("trn1.2xlarge", 1), ("trn2.48xlarge", 2)]
    ),
)
def test_values_come_back_from_documents(seed: int, chosen: tuple[str, int]) -> None:
    """Written and read again, values have the same codes, including "not available"."""
    kind = INSTANCE_TYPES[chosen[0]]
    lnc = chosen[1]
    columns = scattered(kind, seed)

    reader = HostReader()
    reader.read(DocumentWriter(Host("uc1/standalone/x", kind, lnc, "i-1")).write(columns, 1.0))

    assert (reader.kind, reader.lnc, reader.ec2_id, reader.period_s) == (kind, lnc, "i-1", 1.0)
    expected = sayable(columns, kind, lnc)
    for name, codes in reader.columns.items():
        assert np.array_equal(codes, expected[name]), name


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=8))
def test_counters_come_back_as_what_they_grew(steps: list[int | None]) -> None:
    """Counts of periods add up to a counter's growth, over ticks without it."""
    writer = DocumentWriter(Host("uc1/standalone/x", TRN1, 1))
    reader = HostReader()
    columns = {name: codes.copy() for name, codes in _read(trn1()).items()}
    counter = 1_000_000
    first = None
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


def test_hosts_that_neuron_monitor_cannot_tell_of() -> None:
    """Cores with an impossible pairing are refused with the numbers."""
    with pytest.raises(ConfigError, match="3 does not divide the 2 cores of a chip"):
        DocumentWriter(Host("uc1/standalone/x", TRN1, 3))
