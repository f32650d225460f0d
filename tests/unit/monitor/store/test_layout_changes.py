from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout, Node
from trnfleet.monitor.store.layout_changes import changed, moves, numbers_in, same_instances


@given(
    before=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 5)), unique=True
    ),
    after=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 5)), unique=True),
    larger=st.sets(st.integers(0, 5)),
)
def test_nodes_are_found_in_another_layout(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]], larger: set[int]
) -> None:
    """Nodes of every level are found by address; instances also need the same type."""
    old = Layout.of((f"uc{c}/us-{u}/i-{i}", "trn2.48xlarge") for c, u, i in before)
    new = Layout.of(
        (f"uc{c}/us-{u}/i-{i}", "trn2.3xlarge" if i in larger else "trn2.48xlarge")
        for c, u, i in after
    )
    for level in (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE, Level.CHIP):
        numbers = {old.path(Node(level, number)): number for number in range(old.count(level))}
        wanted = [
            numbers.get(new.path(Node(level, number)), -1) for number in range(new.count(level))
        ]
        assert numbers_in(new, old, level).tolist() == wanted
    same = same_instances(new, old).tolist()
    assert same == [
        -1 if new.type_of(row).chips == 1 else old.instance_index.get(path, -1)
        for row, path in enumerate(new.instances)
    ]
    assert new.chips_of(slice(0, len(after))) == slice(0, new.chips)


@pytest.mark.parametrize("stride", [1, 2])
def test_moves_are_ranges_or_rows(stride: int) -> None:
    """Adjacent rows move as ranges, or as one list if there are too many.

    New rows are left out.
    """
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


def test_a_changed_layout_is_that_of_its_instances() -> None:
    """A changed layout equals one built from nothing.

    Instances come and go anywhere, with UltraServers, clusters and types.
    """
    random = np.random.default_rng(7)
    places = (
        "a/standalone",
        "a/us-1",
        "a/us-10",
        "a/us-1-0",
        "b/us-1",
        "b-0/us-1",
        "c/standalone",
        "d/us-9",
    )
    every = [f"{place}/{name}" for place in places for name in ("a", "a-0", "a0", "m", "z")]
    types = ("trn1.32xlarge", "trn2.48xlarge", "trn2u.48xlarge", "trn1.2xlarge")
    lanes = {"trn2.48xlarge": ("p", "q", "r", "s")}
    for busy in (0.1, 0.5, 0.9) * 30:
        before = {path: types[random.integers(4)] for path in every if random.random() < busy}
        layout = Layout.of(before.items(), lanes)
        gone = {path for path in before if random.random() < random.choice([0.05, 0.5, 1.0])}
        free = [path for path in every if path not in before or path in gone]
        added = {path: types[random.integers(4)] for path in free if random.random() < 0.2}
        after = {path: kind for path, kind in before.items() if path not in gone} | added
        made = changed(layout, gone, added, lanes)
        wanted = Layout.of(after.items(), lanes)
        for field in dataclasses.fields(Layout):
            mine = getattr(made.layout, field.name)
            theirs = getattr(wanted, field.name)
            if isinstance(theirs, np.ndarray):
                assert mine.dtype == theirs.dtype, field.name
                assert mine.tolist() == theirs.tolist(), field.name
            else:
                assert mine == theirs, field.name
        former = [-1 if path in added else layout.instance_index[path] for path in wanted.instances]
        assert made.numbers.tolist() == former
