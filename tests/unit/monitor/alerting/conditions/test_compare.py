from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.monitor.rules import rule_of

from trnfleet.domain.alerts.conditions import COMPARISONS
from trnfleet.domain.alerts.signals import Form
from trnfleet.domain.metrics import BY_NAME, METRICS, Kind
from trnfleet.monitor.alerting.conditions.compare import compare, compare_codes, holds

LIMITS: dict[str, Any] = {"above": 90.0, "below": 90.0, "equals": 90.0}
"""Limits by numeric comparison, fulfilled by some of 80, 90 and 100."""
SCALED = [metric for metric in METRICS if metric.kind is not Kind.BITMASK]


@pytest.mark.parametrize("metric", SCALED, ids=lambda metric: metric.name)
@given(data=st.data())
def test_codes_are_held_against_a_limit_as_values_are(metric: Any, data: st.DataObject) -> None:
    """Comparisons of codes agree with decoded values at the limit and one step beside."""
    highest = min(metric.top, 2**40)
    near = data.draw(st.integers(0, highest - 1))
    codes = sorted({0, max(0, near - 1), near, min(highest - 1, near + 1), highest - 1})
    column = np.array([*codes, metric.top], metric.dtype)
    values = metric.decode(column)
    limit = (
        float(metric.decode(np.array([near], metric.dtype))[0])
        + data.draw(st.sampled_from([-0.5, 0.0, 0.5])) * metric.scale
    )

    assert compare_codes(column, metric, "above", limit).tolist() == [
        bool(value > limit) for value in values
    ]
    assert compare_codes(column, metric, "below", limit).tolist() == [
        bool(value < limit) for value in values
    ]
    assert compare_codes(column, metric, "equals", limit).tolist() == [
        bool(value == limit) for value in values
    ]


@pytest.mark.parametrize("metric", SCALED, ids=lambda metric: metric.name)
@pytest.mark.parametrize("limit", [-1e30, -1.0, 0.0, 1e30])
def test_limits_beyond_the_codes(metric: Any, limit: float) -> None:
    """A limit outside the codes is above or below all; unavailable codes are neither."""
    column = np.array([0, 1, metric.top - 1, metric.top], metric.dtype)

    assert compare_codes(column, metric, "above", limit).tolist() == [
        limit < 0,
        limit <= 0,
        limit <= 0,
        False,
    ]
    assert compare_codes(column, metric, "below", limit).tolist() == [
        limit > 0,
        limit > 0,
        limit > 0,
        False,
    ]
    assert compare_codes(column, metric, "equals", limit).tolist() == [
        limit == 0,
        False,
        False,
        False,
    ]


def test_a_limit_is_what_the_rule_says() -> None:
    """A value in tenths is the decimal number, not its nearest float."""
    metric = BY_NAME["power_w"]
    column = metric.encode(np.array([0.2, 0.3, 0.4]))

    assert compare_codes(column, metric, "above", 0.3).tolist() == [False, False, True]
    assert compare_codes(column, metric, "equals", 0.1 * 3).tolist() == [False, True, False]


@example(1.0, None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.one_of(st.none(), st.text(max_size=3)))
def test_one_value_is_held_as_many_are(number: float, text: str | None) -> None:
    """A single number compares like a column; a text matches only its name."""
    above = rule_of(scope="pipeline", figure="lag_s", above=1.0)
    assert holds(above, number) is (number > 1.0)
    hung = rule_of(scope="job", figure="state", above=None, equals=["hung", "failed"])
    assert holds(hung, text or "") is (text in {"hung", "failed"})


@pytest.mark.parametrize("key", [row.key for row in COMPARISONS if row.form is Form.NUMBER])
def test_every_comparison_of_numbers_is_evaluated(key: str) -> None:
    """A row in the domain's table has one here, for values and for codes."""
    assert key in LIMITS, "a new comparison: add its limits to the test"
    rule = rule_of(**{"above": None, key: LIMITS[key]})
    metric = BY_NAME["temperature_c"]
    values = np.array([80.0, 90.0, 100.0])
    flags = compare(rule, values).tolist()

    assert 0 < sum(flags) < len(values)
    assert compare_codes(metric.encode(values), metric, key, *rule.limits).tolist() == flags
