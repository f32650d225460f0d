from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.layout import EMPTY_LAYOUT, FLEET_NODE, Layout, Node
from trnfleet.errors import ConfigError

DEMO = ultraservers(2) + standalone(4)


def all_nodes(layout: Layout) -> list[Node]:
    levels = (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE, Level.CHIP)
    return [Node(level, number) for level in levels for number in range(layout.count(level))]


def test_demo_counts() -> None:
    """The demo's hardware is 192 chips in 12 instances; a standalone segment is no UltraServer."""
    layout = Layout.of(DEMO)
    assert (layout.chips, len(layout.instances), layout.ultraserver_count) == (192, 12, 2)
    assert layout.ultraservers == ("uc1/standalone", "uc1/us-0001", "uc1/us-0002")
    assert layout.totals().chips == 192


def test_order_of_input_means_nothing() -> None:
    """Rows are sorted by address, whatever the order of the instances."""
    assert Layout.of(DEMO).instances == Layout.of(reversed(DEMO)).instances


@given(
    places=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 4), st.booleans()),
        max_size=30,
        unique_by=lambda p: p[:3],
    )
)
def test_every_node_is_found_at_its_path(places: list[tuple[int, int, int, bool]]) -> None:
    """Paths and nodes are inverses, children name their parent, and ranges cover every chip."""
    layout = Layout.of(
        (f"uc{c}/us-{u}/i-{i}", "trn2.3xlarge" if small else "trn2.48xlarge")
        for c, u, i, small in places
    )
    for node in all_nodes(layout):
        assert layout.find(layout.path(node)) == node
        if node.level is not Level.CHIP:
            below = Level(node.level + 1)
            assert all(layout.parent(Node(below, child)) == node for child in layout.children(node))
    for level in (Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE):
        covered = [
            chip
            for number in range(layout.count(level))
            for chip in layout.chip_range(Node(level, number))
        ]
        assert covered == list(range(layout.chips))


def test_find_what_is_not_there() -> None:
    """Unknown addresses are not found; a core's address finds its chip."""
    layout = Layout.of(DEMO)
    for path in (
        "uc2",
        "uc1/us-0003",
        "uc1/us-0001/nope",
        "uc1/us-0001/trn2u-0001-0/chip16",
        "a/b/c/d/e/f",
    ):
        assert layout.find(path) is None
    assert layout.find("uc1/us-0001/trn2u-0001-0/chip03/nc2") == layout.find(
        "uc1/us-0001/trn2u-0001-0/chip03"
    )
    assert layout.find("") == FLEET_NODE


def test_addresses_of_former_families_lead_to_their_successors() -> None:
    """Of an instance, its chips and a range; the present name goes first where both are there."""
    sleds = Layout.of([(f"uc1/us-0001/trn3e-0001-{sled}", "trn3e.24xlarge") for sled in range(3)])
    assert sleds.find("uc1/us-0001/trn3s-0001-2") == Node(Level.INSTANCE, 2)
    assert sleds.find("uc1/us-0001/trn3s-0001-1/chip03") == Node(Level.CHIP, 7)
    assert sleds.find_instances("uc1/us-0001/trn3s-0001-0..trn3s-0001-1") == range(2)
    assert sleds.find("uc1/us-0001/trn3s-0001-3") is None
    torus = Layout.of([("uc1/us-0001/trn3p-0001-0", "trn3p.48xlarge")])
    assert torus.find("uc1/us-0001/trn3p-0001-0") == Node(Level.INSTANCE, 0)


def test_ranges_of_siblings() -> None:
    """A range names siblings and includes both ends."""
    layout = Layout.of(ultraservers(9))
    assert layout.find_instances("uc1/us-0002..us-0004") == range(4, 16)
    assert layout.find_instances("uc1") == range(36)
    assert layout.find_instances("uc1/us-0002..us-0077") is None
    assert not layout.find_instances("uc1/us-0004..us-0002")


def test_small_and_large_instances_mix() -> None:
    """One-chip instances take one row."""
    layout = Layout.of([*standalone(1), ("uc1/standalone/small", "trn2.3xlarge")])
    assert layout.chips == 17
    assert layout.chips_per_instance == 0
    assert np.diff(layout.chip_start).tolist() == [1, 16]
    assert layout.links_mask.tolist() == [0, 0b1111]


def test_empty_and_unknown() -> None:
    """An empty fleet is a layout, an unknown type is an error."""
    assert EMPTY_LAYOUT.chips == 0
    assert EMPTY_LAYOUT.totals().chips == 0
    with pytest.raises(ConfigError, match="trn9"):
        Layout.of([("a/b/c", "trn9.large")])


def test_cached_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published alerts may name ever new targets; their chips are found all the same."""
    monkeypatch.setattr("trnfleet.domain.layout._MOST_REMEMBERED", 10)
    layout = Layout.of(DEMO)
    for number in range(50):
        assert not layout.chips_at(f"made-up/{number}")
    assert len(layout.chips_at("uc1/us-0001")) == 64
    assert len(layout._chips_at) == 10
