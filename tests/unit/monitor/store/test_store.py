from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import ultraservers

from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS, Metric
from trnfleet.monitor.store.store import Store, join_lanes


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    "metric", [each for each in CHIP_METRICS if each.is_vector], ids=lambda each: str(each.name)
)
def test_lanes_of_many_chips_are_joined_as_those_of_one(metric: Metric, missing: float) -> None:
    """A chip's value is the same to the last bit in a column, picked out, and alone, also where lanes are not available."""
    store = Store()
    store.replace_layout(Layout.of(ultraservers(2)))
    column, random = store.columns[metric.name], np.random.default_rng(3)
    column[...] = random.integers(0, metric.top, column.shape)
    column[3], column[4] = 0, metric.top - 1
    column[random.random(column.shape) < missing] = metric.top
    column[5] = metric.top if missing else 1
    expected = join_lanes(metric, metric.decode(column))
    np.testing.assert_array_equal(store.chip_values(metric, slice(None)), expected)
    picked = np.array([5, 3, 100])
    np.testing.assert_array_equal(store.chip_values(metric, picked), expected[picked])
    np.testing.assert_array_equal(store.chip_values(metric, 4), expected[4])
    assert np.isnan(expected[5]) == bool(missing)
