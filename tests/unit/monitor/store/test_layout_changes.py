from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout, Node
from trnfleet.monitor.store.layout_changes import moves, numbers_in, same_instances


@given(
    before=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 5)), unique=True),
    after=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 5)), unique=True),
    larger=st.sets(st.integers(0, 5)),
)
def test_nodes_are_found_in_another_layout(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]], larger: set[int]
) -> None:
    """At every level a node has the number of the same address, and an instance counts as the same with its type alone."""
    old = Layout.of((f"uc{c}/us-{u}/i-{i}", "trn2.48xlarge") for c, u, i in before)
    new = Layout.of(
        (f"uc{c}/us-{u}/i-{i}", "trn2.3xlarge" if i in larger else "trn2.48xlarge") for c, u, i in after
    )
    for level in (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE, Level.CHIP):
        numbers = {old.path(Node(level, number)): number for number in range(old.count(level))}
        wanted = [numbers.get(new.path(Node(level, number)), -1) for number in range(new.count(level))]
        assert numbers_in(new, old, level).tolist() == wanted
    same = same_instances(new, old).tolist()
    assert same == [
        -1 if new.type_of(row).chips == 1 else old.instance_index.get(path, -1)
        for row, path in enumerate(new.instances)
    ]
    assert new.chips_of(slice(0, len(after))) == slice(0, new.chips)


@pytest.mark.parametrize("stride", [1, 2])
def test_moves_are_ranges_or_rows(stride: int) -> None:
    """What stays together is a range; where there are too many ranges it is one list of rows; new rows are left out."""
    former = np.arange(0, 2_000, stride)
    former[[0, 500]] = -1
    moved = list(moves(former))
    assert isinstance(moved[0][0], slice) is (stride == 1)
    found = np.full(len(former), -1)
    for to, source in moved:
        found[to] = np.arange(2_000)[source]
    assert found.tolist() == former.tolist()
    assert list(moves(np.array([-1, 0, 1]))) == [(slice(1, 3), slice(0, 2))]
    assert list(moves(np.full(3, -1))) == list(moves(np.zeros(0, np.int64))) == []
