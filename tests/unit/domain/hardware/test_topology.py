from __future__ import annotations

import pytest

from trnfleet.domain.hardware import topology
from trnfleet.domain.hardware.topology import TORUS_4X4, Z_RING_4, Topology

DRIVER_NEIGHBOURS = {
    0: [12, 1, 3, 4],
    1: [0, 13, 5, 2],
    2: [14, 3, 1, 6],
    3: [2, 15, 7, 0],
    4: [8, 5, 7, 0],
    5: [4, 9, 1, 6],
    6: [10, 7, 5, 2],
    7: [6, 11, 3, 4],
    8: [4, 9, 11, 12],
    9: [8, 5, 13, 10],
    10: [6, 11, 9, 14],
    11: [10, 7, 15, 8],
    12: [0, 13, 15, 8],
    13: [12, 1, 9, 14],
    14: [2, 15, 13, 10],
    15: [14, 3, 11, 12],
}
"""connected_to of `neuron-ls` on trn2.48xlarge; the order means nothing."""


@pytest.mark.parametrize("chip", range(16))
def test_neighbours_are_those_of_neuron_ls(chip: int) -> None:
    """Index arithmetic agrees with the driver's neighbours."""
    assert TORUS_4X4.neighbours(chip) == set(DRIVER_NEIGHBOURS[chip])


@pytest.mark.parametrize(
    "network",
    [
        TORUS_4X4,
        topology.torus(3, 3),
        topology.torus(2, 5),
        Z_RING_4,
        topology.ring(12),
        topology.line(6),
    ],
    ids=lambda network: f"{network.kind}-{network.members}",
)
def test_links_have_two_ends(network: Topology) -> None:
    """Going one way and back leads home, and each link is counted once."""
    ends = 0
    for member in range(network.members):
        for lane in range(len(network.lanes)):
            end = network.ends[member][lane]
            if end is None:
                continue
            ends += 1
            assert network.ends[end.member][end.lane] == (member, lane)
            assert network.neighbour(member, lane) == end.member
            assert end.member in network.neighbours(member)
            assert network.masks[member] >> lane & 1
    assert network.links * 2 == ends


def test_a_torus_is_numbered_row_by_row() -> None:
    """In a torus, chip 0 wraps to the last chips of its column and row.

    A 3 x 3 torus.
    """
    torus = topology.torus(3, 3)
    assert torus.shape == (3, 3)
    assert [torus.neighbour(0, lane) for lane in range(4)] == [6, 3, 2, 1]
    assert torus.links == 18
    with pytest.raises(ValueError, match="a side below 2"):
        topology.torus(1, 4)


def test_z_ring() -> None:
    """The Z ring of four instances is closed.

    The next known one replaces a missing one.
    """
    assert [Z_RING_4.neighbour(place, 1) for place in range(4)] == [1, 2, 3, 0]
    assert Z_RING_4.neighbour(0, 0) == 3
    assert Z_RING_4.resized(3).neighbour(0, 0) == 2
    assert Z_RING_4.resized(4) is Z_RING_4


def test_a_line_is_open_at_its_ends() -> None:
    """The first member has nothing before it, the last nothing after it."""
    line = topology.line(6)
    assert line.links == 5
    assert line.neighbour(0, 0) is None
    assert line.neighbour(5, 1) is None
    assert line.masks == (0b10, 0b11, 0b11, 0b11, 0b11, 0b01)


def test_a_switch_joins_all_to_all() -> None:
    """Every port reaches every other member; traffic comes from the member before."""
    network = topology.switched(4, ("port0", "port1"))
    assert network.neighbours(2) == {0, 1, 3}
    assert network.peers(2, 1) == {0, 1, 3}
    assert network.neighbour(2, 1) is None
    assert network.ends[2][1] == (1, 1)
    assert network.links == 8
    assert network.shape == (2, 2)
    assert network.resized(3).neighbours(0) == {1, 2}


def test_a_single_chip_has_no_links() -> None:
    """A trn2.3xlarge's chip is linked to nothing."""
    assert topology.SINGLE.links == 0
    assert topology.SINGLE.neighbours(0) == frozenset()
    assert topology.SINGLE.masks == (0,)
