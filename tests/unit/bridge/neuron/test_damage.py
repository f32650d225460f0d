"""Invalid and damaged documents of neuron-monitor."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.neuron import TRN1_DOCUMENTS, feed, report, trn1

from trnfleet.bridge.neuron.host_reader import NEURON_MONITOR, HostReader
from trnfleet.errors import ConfigError, WireError

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
def test_whatever_a_document_holds_it_is_read_or_refused(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    """Any value in any place gives codes, or one of two expected errors."""
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
        assert set(reader.columns) == set(NEURON_MONITOR)


@given(st.binary(max_size=300))
def test_noise_is_no_document(noise: bytes) -> None:
    """Arbitrary bytes are refused in one way."""
    with pytest.raises(WireError):
        HostReader().read(noise)
    for cut in (b"{}", b"[]", b'{"a": 1}', json.dumps(trn1()).encode()[:-7]):
        with pytest.raises(WireError):
            HostReader().read(cut)


def test_huge_numbers_do_not_overflow() -> None:
    """Impossibly large counts, indexes and sizes are not available, and no error."""
    document = trn1()
    stats = report(document)["execution_stats"]["execution_summary"]
    stats["completed"] = 10**30
    report(document)["neuroncore_counters"]["neuroncores_in_use"]["99999"] = {
        "neuroncore_utilization": 1e300
    }
    report(document)["neuroncore_counters"]["neuroncores_in_use"]["9" * 400] = {}
    document["system_data"]["memory_info"] |= {"memory_used_bytes": 1e300, "period": 1e300}
    document["neuron_hardware_info"]["neuron_device_count"] = 10**20

    values = feed(HostReader(), document, document)

    assert np.isnan(values["exec_completed"]).all()
    assert np.isnan(values["host_memory_used_bytes"]).all()
    assert values["nc_util_pct"][0, 0] == 61.5
