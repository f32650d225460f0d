from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trnfleet.monitor.store.per_instance import (
    Spread,
    alikeness,
    any_lane,
    combine,
    fold,
    spread,
    sums,
)

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
def test_every_instance_has_what_its_own_chips_make(
    operation: np.ufunc, chips: int, width: int
) -> None:
    """Codes of equal-sized instances are combined as chip by chip, lane by lane."""
    given = codes("u2", 5 * chips, width) if width else codes("u2", 5 * chips)
    # A slice of instances begins anywhere in the fleet.
    starts = np.arange(6) * chips + 48
    expected = [
        operation.reduce(given[chips * each : chips * (each + 1)], axis=0) for each in range(5)
    ]
    assert np.array_equal(combine(operation, given, starts, chips), np.array(expected))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_instances_may_differ_in_size(operation: np.ufunc) -> None:
    """Without a common number of chips each instance has its own rows."""
    given = codes("u1", 24)
    starts = np.array([0, 16, 17, 24])
    expected = [operation.reduce(given[first:last]) for first, last in pairwise(starts)]
    assert combine(operation, given, starts, 0).tolist() == expected


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("chips", [1, 2, 3, 6, 12, 16])
@pytest.mark.parametrize("shift", [0, 3, 8])
def test_sums_are_exact(dtype: str, chips: int, shift: int) -> None:
    """No sum overflows for the largest codes.

    Small ones are added in their own type.
    """
    given = codes(dtype, 5 * chips) >> np.array(shift, dtype)
    expected = [float(sum(row)) for row in given.reshape(5, chips).tolist()]
    found = sums(given, chips, int(given.max()))
    assert found.dtype == np.float64
    if dtype == "u8":
        assert found == pytest.approx(expected, rel=1e-15)
    else:
        assert found.tolist() == expected


def test_sums_of_large_counters_are_exact_up_to_what_floats_hold() -> None:
    """Counters with a sum below 2^53 are added as integers."""
    given = np.full(16, 2**49 - 1, np.uint64)
    assert sums(given, 16, 2**49 - 1).tolist() == [16.0 * (2**49 - 1)]


def test_sums_of_nothing_but_zeros_are_zero() -> None:
    """Counters at 0 are not added up."""
    assert sums(np.zeros(12, np.uint32), 3, 0).tolist() == [0.0] * 4


@pytest.mark.parametrize("operation", [np.add, np.maximum])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 17])
def test_groups_of_one_size_have_what_reduceat_says(operation: np.ufunc, nodes: int) -> None:
    """Results equal `reduceat` except for rounding.

    The input is unchanged.
    """
    values = np.random.default_rng(nodes).normal(size=5 * nodes)
    before = values.copy()
    starts = np.arange(5) * nodes
    expected = operation.reduceat(values, starts)
    assert fold(operation, values, starts, nodes) == pytest.approx(expected, rel=1e-12)
    assert fold(operation, values, starts, 0).tolist() == expected.tolist()
    assert np.array_equal(values, before)


@pytest.mark.parametrize("chips", [1, 2, 3, 12, 16])
@pytest.mark.parametrize("width", [1, 6])
@pytest.mark.parametrize("instances", [1, 5, 1_030])
def test_spreads_are_the_ends_of_each_lane(chips: int, width: int, instances: int) -> None:
    """Spreads are the smallest and largest code per lane, also across several blocks."""
    given = codes("u2", instances * chips, width)
    before = given.copy()
    starts = np.arange(instances + 1) * chips + 32
    found = spread(given, starts, chips)
    table = given.reshape(instances, chips, width)
    assert np.array_equal(found.lowest, table.min(axis=1))
    assert np.array_equal(found.highest, table.max(axis=1))
    assert np.array_equal(given, before)


def plain_alikeness(chips: np.ndarray[tuple[int, ...], np.dtype[np.uint16]], top: int) -> float:
    """Return how alike one instance's lanes are, by a loop over pairs of lanes."""
    used = [
        lane
        for lane in range(chips.shape[1])
        if chips[:, lane].any() and (chips[:, lane] != top).any()
    ]
    if (chips[:, used] == top).any():
        return 0.0
    shares = chips[:, used] / chips[:, used].max(axis=0, initial=1)
    pairs = [
        (chip[one], chip[other])
        for chip in shares
        for one in range(len(used))
        for other in range(len(used))
    ]
    return min((one / other if other else 0.0 for one, other in pairs), default=np.inf)


def test_alikeness_is_the_least_share_of_two_lanes_of_a_chip() -> None:
    """Idle lanes, and lanes missing everywhere, do not count.

    A missing code makes its instance unlike.
    """
    random = np.random.default_rng(3)
    top = 65_535
    table = (random.uniform(0.2, 1, (400, 16, 1)) * random.uniform(500, 9_000, (400, 1, 6))).astype(
        np.uint16
    )
    table[random.random(table.shape) < 0.001] //= 3
    table[random.random(table.shape) < 0.001] = 0
    table[random.random(table.shape) < 0.001] = top
    for code in (0, top):
        table[np.broadcast_to(random.random((400, 1, 6)) < 0.2, table.shape)] = code
    table[:3] = 0
    ends = spread(table.reshape(-1, 6), np.arange(401) * 16, 16)
    expected = [plain_alikeness(chips, top) for chips in table]
    found = alikeness(table, ends, top)
    assert len({0.0, np.inf} & set(expected)) == 2
    assert found[np.isfinite(expected)] == pytest.approx(
        [each for each in expected if each < np.inf], rel=1e-5
    )
    assert (found[np.isinf(expected)] >= 1).all()
    # Lanes that no instance uses make no difference.
    fewer = np.where(np.isin(np.arange(6), (1, 4)), table, 0).astype(np.uint16)
    ends = spread(fewer.reshape(-1, 6), np.arange(401) * 16, 16)
    few = ends.of(slice(3, None))
    assert np.array_equal(
        alikeness(fewer, ends, top)[3:],
        alikeness(fewer[3:, :, [1, 4]], Spread(*(each[:, [1, 4]] for each in few)), top),
    )
    assert (alikeness(fewer * 0, Spread(ends.lowest * 0, ends.highest * 0), top) >= 1).all()


def test_uneven_instances_are_those_below_seven_eighths_and_with_missing_codes() -> None:
    """Every instance with a smaller code than seven eighths is found.

    A lane missing as a whole does not count.
    """
    random = np.random.default_rng(4)
    top = 65_535
    ends = np.sort(random.integers(0, 4_000, (2, 3_000, 6)).astype(np.uint16), axis=0)
    ends[1, 7::50, 2] = ends[1, 9::50, 2] = ends[0, 9::50, 2] = top
    lowest, highest = ends
    wide = (lowest < 0.875 * highest) | ((highest == top) & (lowest != top))
    found = np.zeros(3_000, np.bool_)
    found[Spread(lowest, highest).uneven(top)] = True
    assert (found | ~wide.any(axis=1)).all()
    eighths = highest // 8
    assert not Spread(eighths * 7, eighths * 8).uneven(top).any()


@pytest.mark.parametrize("instances", [512, 513, 8_200])
@pytest.mark.parametrize("chips", [2, 4, 12, 16])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_one_of_many_instances_has_what_its_own_chips_make(
    operation: np.ufunc, chips: int, instances: int
) -> None:
    """Instances beyond one block are combined correctly, with one value per chip.

    None has a code of the next one, and the last has no code from nowhere.
    """
    given = codes("u2", instances * chips)
    before = given.copy()
    starts = np.arange(instances + 1) * chips + 48
    expected = [operation.reduce(row) for row in given.reshape(instances, chips)]
    assert combine(operation, given, starts, chips).tolist() == expected
    assert combine(operation, given[:, None], starts, chips)[:, 0].tolist() == expected
    assert np.array_equal(given, before)


@pytest.mark.parametrize("lanes", [8, 16, 32, 48, 96, 128])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("beyond", [0, 1])
def test_sums_of_many_instances_are_exact_where_words_begin_to_run_over(
    lanes: int, parts: int, beyond: int
) -> None:
    """Sums of four 16-bit codes at a time are exact at the limit and above."""
    highest = min(65_535, 65_535 * 4 * parts // lanes + beyond)
    given = np.random.default_rng(lanes).integers(
        0, highest, (600, lanes), np.uint16, endpoint=True
    )
    given[0], given[1], given[-1] = highest, 0, highest
    for lane in range(4):
        # All that is in a sum is in one of the four.
        given[2 + lane], given[2 + lane, lane::4] = 0, highest
    expected = [float(sum(row)) for row in given.tolist()]
    assert sums(given.reshape(-1), lanes, highest).tolist() == expected


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 700])
def test_rows_with_a_flag_are_found_whatever_lies_beside_them(width: int, rows: int) -> None:
    """Few of many flags are set: no row has its neighbour's."""
    flags = np.random.default_rng(width).random((rows, width)) < 0.1
    assert any_lane(flags).tolist() == [any(row) for row in flags.tolist()]
