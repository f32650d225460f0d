from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.metrics import (
    CHIP_METRICS,
    HEALTH_BITS,
    METRICS,
    WIRE_TYPES,
    Aggregate,
    Kind,
    Metric,
    Origin,
    Scope,
)


def test_a_chip_fits_its_frame_budget() -> None:
    """A chip takes at most 96 bytes in a frame."""
    assert sum(metric.bytes_per_row for metric in CHIP_METRICS) <= 96


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_rows_are_complete(metric: Metric) -> None:
    """Every row has a unit, a help text, a source, and an existing wire type."""
    assert metric.unit
    assert metric.help[0].isupper()
    assert metric.real_source
    assert metric.wire in WIRE_TYPES
    assert metric.width <= 12
    assert 0 < len(metric.short_title) <= (10 if metric.scope is Scope.CHIP else 11)
    if metric.kind is Kind.COUNTER:
        assert metric.wire in {"u32", "u64"}
        assert metric.scale == 1
    if metric.kind is Kind.BITMASK:
        assert metric.aggregate in {Aggregate.OR, Aggregate.AND}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_blank_rows_are_not_available(metric: Metric) -> None:
    """They have the shape and type of a column, and no value."""
    blank = metric.blank(3)
    assert blank.shape == ((3, metric.width) if metric.is_vector else (3,))
    assert blank.dtype == metric.dtype
    assert np.isnan(metric.decode(blank)).all()


def test_a_metric_without_a_title_has_its_names_beginning() -> None:
    """A default head is the first ten characters of the name, without the unit.

    Every value shows its unit; underscores become blanks.
    """
    row = Metric(
        "fan_speed_rpm",
        Scope.CHIP,
        "u16",
        1,
        "rpm",
        Aggregate.MEAN,
        Kind.GAUGE,
        "Fan",
        Origin.MEASURED,
        "sysfs",
    )
    assert row.short_title == "fan speed"
    assert replace(row, name="fan_duty_pct", unit="%").short_title == "fan duty"
    assert replace(row, name="pump_flow_bytes_per_s", unit="bytes/s").short_title == "pump flow"
    assert replace(row, name="supply_voltage_v", unit="V").short_title == "supply vol"
    assert replace(row, title="fan").short_title == "fan"


def test_names_are_unique_and_health_fits() -> None:
    """No name is there twice, and the health bits fit the mask."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert len(HEALTH_BITS) <= 16


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
@given(data=st.data())
def test_codes_survive_json_and_values(metric: Metric, data: st.DataObject) -> None:
    """A wire code survives JSON and float values exactly.

    The top code is None and NaN.
    """
    limit = min(metric.limit_code, 2**53)
    code = data.draw(st.integers(0, limit) | st.just(metric.top))
    codes = np.array([code], dtype=metric.dtype)
    (value,) = metric.json_values(codes)
    if code == metric.top:
        assert value is None
        assert np.isnan(metric.decode(codes)).all()
        assert metric.encode(np.array([np.nan]))[0] == metric.top
        return
    assert metric.code_of(value) == code
    assert metric.encode(metric.decode(codes))[0] == code


def test_out_of_range_is_not_available_or_refused() -> None:
    """Invalid values are encoded as not available; a single bad value is refused by name."""
    power = next(metric for metric in METRICS if metric.name == "power_w")
    told = np.array([-5.0, 1e9, np.inf, -np.inf, 6553.4, 0.0])
    assert power.encode(told).tolist() == [power.top] * 4 + [power.top - 1, 0]
    util = next(metric for metric in METRICS if metric.name == "nc_util_pct")
    assert util.encode(np.array([100.0, 101.0, 102.0, 127.0, 4294967295.0])).tolist() == [
        200,
        202,
        255,
        255,
        255,
    ]
    with pytest.raises(ValueError, match="power_w"):
        power.code_of(1e9)
    with pytest.raises(ValueError, match="power_w"):
        power.code_of(-1)
