from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trnfleet.monitor.store.per_instance import combine, fold, spread, sums

OPERATIONS = (np.minimum, np.maximum, np.bitwise_or, np.bitwise_and)


def codes(dtype: str, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.unsignedinteger]]:
    """Return codes over the whole range of their type, both ends among them."""
    top = np.iinfo(dtype).max
    made = np.random.default_rng(7).integers(0, top, shape, dtype=dtype, endpoint=True)
    made.reshape(-1)[[0, -1]] = 0, top
    return made


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("chips", [1, 2, 3, 6, 12, 16])
@pytest.mark.parametrize("width", [0, 1, 4, 6])
def test_every_instance_has_what_its_own_chips_make(operation: np.ufunc, chips: int, width: int) -> None:
    """Codes of instances of one size are put together as chip after chip would be, lane by lane."""
    given = codes("u2", 5 * chips, width) if width else codes("u2", 5 * chips)
    # A slice of instances begins anywhere in the fleet.
    starts = np.arange(6) * chips + 48
    expected = [operation.reduce(given[chips * each : chips * (each + 1)], axis=0) for each in range(5)]
    assert np.array_equal(combine(operation, given, starts, chips), np.array(expected))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_instances_may_differ_in_size(operation: np.ufunc) -> None:
    """Without a common number of chips each instance has its own rows."""
    given, starts = codes("u1", 24), np.array([0, 16, 17, 24])
    expected = [operation.reduce(given[first:last]) for first, last in pairwise(starts)]
    assert combine(operation, given, starts, 0).tolist() == expected


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("chips", [1, 2, 3, 6, 12, 16])
@pytest.mark.parametrize("shift", [0, 3, 8])
def test_sums_are_exact(dtype: str, chips: int, shift: int) -> None:
    """No sum runs over, however large the codes are; small ones are added up in their own type."""
    given = codes(dtype, 5 * chips) >> np.array(shift, dtype)
    expected = [float(sum(row)) for row in given.reshape(5, chips).tolist()]
    found = sums(given, chips, int(given.max()))
    assert found.dtype == np.float64
    if dtype == "u8":
        assert found == pytest.approx(expected, rel=1e-15)
    else:
        assert found.tolist() == expected


def test_sums_of_large_counters_are_exact_up_to_what_floats_hold() -> None:
    """Counters whose sum is below 2^53 are added up as whole numbers."""
    given = np.full(16, 2**49 - 1, np.uint64)
    assert sums(given, 16, 2**49 - 1).tolist() == [16.0 * (2**49 - 1)]


def test_sums_of_nothing_but_zeros_are_zero() -> None:
    """Counters at 0 are not added up."""
    assert sums(np.zeros(12, np.uint32), 3, 0).tolist() == [0.0] * 4


@pytest.mark.parametrize("operation", [np.add, np.maximum])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 17])
def test_groups_of_one_size_have_what_reduceat_says(operation: np.ufunc, nodes: int) -> None:
    """But for what rounding differs by, and the values stay as they are."""
    values = np.random.default_rng(nodes).normal(size=5 * nodes)
    before, starts = values.copy(), np.arange(5) * nodes
    expected = operation.reduceat(values, starts)
    assert fold(operation, values, starts, nodes) == pytest.approx(expected, rel=1e-12)
    assert fold(operation, values, starts, 0).tolist() == expected.tolist()
    assert np.array_equal(values, before)


@pytest.mark.parametrize("chips", [1, 2, 3, 12, 16])
@pytest.mark.parametrize("width", [1, 6])
@pytest.mark.parametrize("instances", [1, 5, 1_030])
def test_spreads_are_the_ends_of_each_lane(chips: int, width: int, instances: int) -> None:
    """The least and the largest code of an instance's chips, lane by lane, of few instances and of more than are compared at once."""
    given = codes("u2", instances * chips, width)
    before, starts = given.copy(), np.arange(instances + 1) * chips + 32
    found = spread(given, starts, chips)
    table = given.reshape(instances, chips, width)
    assert np.array_equal(found.lowest, table.min(axis=1))
    assert np.array_equal(found.highest, table.max(axis=1))
    assert np.array_equal(given, before)
