from __future__ import annotations

import pytest

from trnfleet.domain.hardware import topology
from trnfleet.domain.hardware.topology import OPPOSITE, TORUS_4X4, Z_NEXT, Z_PREV

DRIVER_NEIGHBOURS = {
    0: [12, 1, 3, 4], 1: [0, 13, 5, 2], 2: [14, 3, 1, 6], 3: [2, 15, 7, 0],
    4: [8, 5, 7, 0], 5: [4, 9, 1, 6], 6: [10, 7, 5, 2], 7: [6, 11, 3, 4],
    8: [4, 9, 11, 12], 9: [8, 5, 13, 10], 10: [6, 11, 9, 14], 11: [10, 7, 15, 8],
    12: [0, 13, 15, 8], 13: [12, 1, 9, 14], 14: [2, 15, 13, 10], 15: [14, 3, 11, 12],
}  # fmt: skip
"""What `neuron-ls` prints as connected_to on trn2.48xlarge; the order means nothing."""


@pytest.mark.parametrize("chip", range(16))
def test_neighbours_are_those_of_neuron_ls(chip: int) -> None:
    """Index arithmetic gives the neighbours that the driver reports."""
    assert TORUS_4X4.neighbours(chip) == set(DRIVER_NEIGHBOURS[chip])


@pytest.mark.parametrize("direction", range(4))
def test_links_have_two_ends(direction: int) -> None:
    """Going one way and back leads home."""
    for chip in range(16):
        assert TORUS_4X4.neighbour(TORUS_4X4.neighbour(chip, direction), OPPOSITE[direction]) == chip


def test_z_ring() -> None:
    """The Z ring has four instances and comes round."""
    place, seen = 0, []
    for _ in range(4):
        seen.append(place)
        place = topology.ring_neighbour(place, Z_NEXT)
    assert seen == [0, 1, 2, 3]
    assert place == 0
    assert topology.ring_neighbour(0, Z_PREV) == 3


def test_a_single_chip_has_no_links() -> None:
    """A trn2.3xlarge's chip is linked to nothing."""
    assert topology.SINGLE.links == 0
    assert topology.SINGLE.neighbours(0) == frozenset()


def test_z_is_no_direction_of_the_grid() -> None:
    """Asking an instance's torus for a Z neighbour is an error."""
    with pytest.raises(ValueError, match="z_next"):
        TORUS_4X4.neighbour(0, Z_NEXT)
